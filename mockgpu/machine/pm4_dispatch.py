"""From the COMPUTE_* registers to a Launch."""

from __future__ import annotations

from dataclasses import dataclass

from mockgpu.isa.errors import MockGPUError
from mockgpu.machine.launch import Launch
from mockgpu.machine.registers import RegisterFile

#: COMPUTE_PGM_RSRC2.LDS_SIZE counts blocks of 128 dwords.
LDS_BLOCK = 512
MAX_WORK_ITEMS = 1024
_AXES = "XYZ"
_USER_DATA = tuple(f"COMPUTE_USER_DATA_{i}" for i in range(16))


class BadDispatch(MockGPUError):
    """Register values that do not describe a dispatch."""


@dataclass(frozen=True, slots=True)
class ScratchUnits:
    """Units of COMPUTE_TMPRING_SIZE: bytes per WAVESIZE step, and of how many engines WAVES counts the waves."""

    wave_bytes: int = 256
    engines: int = 1


def build_launch(registers: RegisterFile, size: tuple[int, int, int], initiator: int, units: ScratchUnits) -> Launch:
    """The launch that ``size`` and ``initiator`` of a dispatch packet, with the current registers, describe.

    ``size`` is the end of the range of workgroups per axis (or of threads, with USE_THREAD_DIMENSIONS); it starts
    at COMPUTE_START_*, or at 0 with FORCE_START_AT_000. Raises BadDispatch.
    """
    flags = registers.register("COMPUTE_DISPATCH_INITIATOR")
    if not flags.field(initiator, "compute_shader_en"):
        raise BadDispatch("COMPUTE_SHADER_EN is 0, so nothing would run")
    block = _block(registers)
    if flags.field(initiator, "use_thread_dimensions"):
        size = _groups(size, block)
    start = (0, 0, 0) if flags.field(initiator, "force_start_at_000") else _triple(registers, "COMPUTE_START_{}")
    grid = _minus(size, start)
    return Launch(
        entry=_address(registers, "COMPUTE_PGM_LO", "COMPUTE_PGM_HI"),
        grid=grid,
        block=block,
        wave_size=_wave_size(registers, initiator),
        start=start,
        user_data=tuple(registers.get(name) for name in _USER_DATA),
        rsrc1=registers.get("COMPUTE_PGM_RSRC1"),
        rsrc2=registers.get("COMPUTE_PGM_RSRC2"),
        rsrc3=registers.get("COMPUTE_PGM_RSRC3"),
        lds_bytes=registers.field("COMPUTE_PGM_RSRC2", "lds_size") * LDS_BLOCK,
        scratch_base=_address(registers, "COMPUTE_DISPATCH_SCRATCH_BASE_LO", "COMPUTE_DISPATCH_SCRATCH_BASE_HI"),
        scratch_wave_bytes=registers.field("COMPUTE_TMPRING_SIZE", "wavesize") * units.wave_bytes,
        scratch_waves=registers.field("COMPUTE_TMPRING_SIZE", "waves") * units.engines,
    )


def _wave_size(registers: RegisterFile, initiator: int) -> int:
    flags = registers.register("COMPUTE_DISPATCH_INITIATOR")
    return 32 if "cs_w32_en" in flags.fields and flags.field(initiator, "cs_w32_en") else 64


def _triple(registers: RegisterFile, pattern: str) -> tuple[int, int, int]:
    x, y, z = (registers.get(pattern.format(axis)) for axis in _AXES)
    return x, y, z


def _block(registers: RegisterFile) -> tuple[int, int, int]:
    x, y, z = (value & 0xFFFF for value in _triple(registers, "COMPUTE_NUM_THREAD_{}"))
    if not 0 < x * y * z <= MAX_WORK_ITEMS:
        raise BadDispatch(f"a workgroup of {x} x {y} x {z} work items; 1 to {MAX_WORK_ITEMS} are possible")
    return x, y, z


def _groups(threads: tuple[int, int, int], block: tuple[int, int, int]) -> tuple[int, int, int]:
    if any(t % b for t, b in zip(threads, block, strict=True)):
        raise BadDispatch(f"{threads} threads leave partial workgroups of {block}, which are not supported")
    x, y, z = (t // b for t, b in zip(threads, block, strict=True))
    return x, y, z


def _minus(end: tuple[int, int, int], start: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, z = (max(0, e - s) for e, s in zip(end, start, strict=True))
    return x, y, z


def _address(registers: RegisterFile, low: str, high: str) -> int:
    return (registers.get(high) << 32 | registers.get(low)) << 8
