"""Boards as data: one record per card, from which sysfs, the DRM answers and the register file are made.

Topology names and meanings are those of the kernel's ``/sys/class/kfd/kfd/topology/nodes/*/properties``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mockgpu.isa.errors import UnknownArchError
from mockgpu.machine.device import DeviceConfig
from mockgpu.machine.pm4_dispatch import ScratchUnits
from mockgpu.machine.registers import IpBlock

Version = tuple[int, int, int]
GIB = 1 << 30
#: Hardware ids of the IP discovery table, as folder names under ``ip_discovery/die/0``.
GC_HWID, SDMA0_HWID, NBIF_HWID = 11, 42, 108


@dataclass(frozen=True, slots=True)
class Board:
    """One card. Clocks in MHz, ``vram_bytes`` in bytes, counts per device.

    ``gc``, ``sdma``, ``nbif`` are IP versions; ``register_blocks`` says which register tables they use, with the name
    and module of their base addresses. ``scratch_wave_bytes`` is the unit of COMPUTE_TMPRING_SIZE.WAVESIZE.
    """

    arch: str
    name: str
    gfx_target_version: int
    device_id: int
    gc: Version
    sdma: Version
    nbif: Version
    register_blocks: tuple[IpBlock, ...]
    shader_engines: int
    arrays_per_engine: int
    cus_per_array: int
    max_waves_per_simd: int
    engine_clock_mhz: int
    memory_clock_mhz: int
    vram_bytes: int
    vram_bits: int
    l2_bytes: int
    mall_bytes: int
    simd_per_cu: int = 2
    wave_front_size: int = 32
    lds_size_in_kb: int = 64
    max_slots_scratch_cu: int = 32
    num_xcc: int = 1
    sdma_engines: int = 2
    sdma_queues_per_engine: int = 6
    fw_version: int = 2280
    sdma_fw_version: int = 24
    family: int = 145
    pm4_table: str = "pm4_nv"
    sdma_count_bits: int = 30
    scratch_wave_bytes: int = 256

    @property
    def arrays(self) -> int:
        return self.shader_engines * self.arrays_per_engine * self.num_xcc

    @property
    def compute_units(self) -> int:
        return self.arrays * self.cus_per_array

    @property
    def simds(self) -> int:
        return self.compute_units * self.simd_per_cu

    @property
    def sdma_queues(self) -> int:
        return self.sdma_engines * self.sdma_queues_per_engine

    def ip_versions(self) -> Mapping[int, Version]:
        """IP versions by hardware id."""
        return {GC_HWID: self.gc, SDMA0_HWID: self.sdma, NBIF_HWID: self.nbif}

    def machine_config(self) -> DeviceConfig:
        return DeviceConfig(
            arch=self.arch,
            ip_blocks=self.register_blocks,
            simds=self.simds,
            engine_clock_mhz=self.engine_clock_mhz,
            scratch_units=ScratchUnits(self.scratch_wave_bytes, self.shader_engines * self.num_xcc),
            pm4_table=self.pm4_table,
            sdma_count_bits=self.sdma_count_bits,
        )

    def topology(self, *, render_minor: int, location_id: int, unique_id: int) -> dict[str, int]:
        """The node's ``properties``, in the kernel's order."""
        return {
            "cpu_cores_count": 0,
            "simd_count": self.simds,
            "mem_banks_count": 1,
            "caches_count": 0,
            "io_links_count": 1,
            "p2p_links_count": 0,
            "cpu_core_id_base": 0,
            "simd_id_base": 0x80000000,
            "max_waves_per_simd": self.max_waves_per_simd,
            "lds_size_in_kb": self.lds_size_in_kb,
            "gds_size_in_kb": 0,
            "num_gws": 64,
            "wave_front_size": self.wave_front_size,
            "array_count": self.arrays,
            "simd_arrays_per_engine": self.arrays_per_engine,
            "cu_per_simd_array": self.cus_per_array,
            "simd_per_cu": self.simd_per_cu,
            "max_slots_scratch_cu": self.max_slots_scratch_cu,
            "gfx_target_version": self.gfx_target_version,
            "vendor_id": 0x1002,
            "device_id": self.device_id,
            "location_id": location_id,
            "domain": 0,
            "drm_render_minor": render_minor,
            "hive_id": 0,
            "num_sdma_engines": self.sdma_engines,
            "num_sdma_xgmi_engines": 0,
            "num_sdma_queues_per_engine": self.sdma_queues_per_engine,
            "num_cp_queues": 8,
            "max_engine_clk_fcompute": self.engine_clock_mhz,
            "local_mem_size": 0,
            "fw_version": self.fw_version,
            "capability": 0,
            "debug_prop": 0,
            "sdma_fw_version": self.sdma_fw_version,
            "unique_id": unique_id,
            "num_xcc": self.num_xcc,
            "max_engine_clk_ccompute": self.engine_clock_mhz,
        }


_GFX1100 = Board(
    arch="gfx1100",
    name="RX 7900 XTX",
    gfx_target_version=110000,
    device_id=0x744C,
    gc=(11, 0, 0),
    sdma=(6, 0, 0),
    nbif=(4, 3, 0),
    register_blocks=(
        IpBlock("gc", (11, 0, 0), "GC", "navi_offsets"),
        IpBlock("nbio", (4, 3, 0), "NBIO", "navi_offsets"),
    ),
    shader_engines=6,
    arrays_per_engine=2,
    cus_per_array=8,
    max_waves_per_simd=16,
    engine_clock_mhz=2482,
    memory_clock_mhz=1249,
    vram_bytes=24 * GIB,
    vram_bits=384,
    l2_bytes=6 << 20,
    mall_bytes=96 << 20,
)

_GFX1201 = Board(
    arch="gfx1201",
    name="RX 9070 XT",
    gfx_target_version=120001,
    device_id=0x7550,
    gc=(12, 0, 1),
    sdma=(7, 0, 1),
    nbif=(6, 3, 1),
    register_blocks=(
        IpBlock("gc", (12, 0, 1), "GC", "navi_offsets"),
        IpBlock("nbif", (6, 3, 1), "NBIO", "navi_offsets"),
    ),
    shader_engines=4,
    arrays_per_engine=2,
    cus_per_array=8,
    max_waves_per_simd=16,
    engine_clock_mhz=2970,
    memory_clock_mhz=1258,
    vram_bytes=16 * GIB,
    vram_bits=256,
    l2_bytes=8 << 20,
    mall_bytes=64 << 20,
    family=152,
)

BOARDS: dict[str, Board] = {board.arch: board for board in (_GFX1100, _GFX1201)}


def get_board(arch: str) -> Board:
    """The board of an architecture. Raises UnknownArchError, which lists the ones there are."""
    if arch not in BOARDS:
        raise UnknownArchError("board", arch, BOARDS)
    return BOARDS[arch]
