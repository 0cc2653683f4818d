"""Hardware registers of a wave, as S_GETREG and S_SETREG see them.

What a kernel cannot see on this machine reads as an idle machine shows it: no outstanding instructions, no exceptions,
compute unit 0. Writes reach only the bits that a kernel may change; others keep their value without a word, as on
hardware. Registers that exist only for the trap handler can be read as 0 and not written.

Sources: "Hardware registers" tables of the RDNA3, RDNA4 and CDNA3 ISA manuals for the fields; the HWREG enumerations of
the machine-readable ISA and LLVM's names for the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from mockgpu.machine.operands import PRIVATE_APERTURE, SHARED_APERTURE, is_zero
from mockgpu.machine.waves import EXEC, VCC, Array, Group

Read: TypeAlias = Callable[[Group], Array]

#: Register names by family and number.
NAMES: dict[str, dict[int, str]] = {
    "rdna3": {
        1: "MODE", 2: "STATUS", 3: "TRAPSTS", 5: "GPR_ALLOC", 6: "LDS_ALLOC", 7: "IB_STS", 8: "PC_LO", 9: "PC_HI",
        13: "IB_DBG1", 14: "FLUSH_IB", 15: "SH_MEM_BASES", 16: "TBA_LO", 17: "TBA_HI", 18: "PERF_SNAPSHOT_PC_LO",
        19: "PERF_SNAPSHOT_PC_HI", 20: "FLAT_SCR_LO", 21: "FLAT_SCR_HI", 23: "HW_ID1", 24: "HW_ID2", 25: "POPS_PACKER",
        26: "SCHED_MODE", 27: "PERF_SNAPSHOT_DATA", 28: "IB_STS2", 29: "SHADER_CYCLES",
    },
    "rdna4": {
        1: "MODE", 2: "STATUS", 4: "STATE_PRIV", 5: "GPR_ALLOC", 6: "LDS_ALLOC", 7: "IB_STS", 10: "PERF_SNAPSHOT_DATA",
        11: "PERF_SNAPSHOT_PC_LO", 12: "PERF_SNAPSHOT_PC_HI", 15: "PERF_SNAPSHOT_DATA1", 16: "PERF_SNAPSHOT_DATA2",
        17: "EXCP_FLAG_PRIV", 18: "EXCP_FLAG_USER", 19: "TRAP_CTRL", 20: "FLAT_SCR_LO", 21: "FLAT_SCR_HI",
        23: "HW_ID1", 24: "HW_ID2", 26: "SCHED_MODE", 28: "IB_STS2", 29: "SHADER_CYCLES_LO", 30: "SHADER_CYCLES_HI",
        31: "DVGPR_ALLOC_LO", 32: "DVGPR_ALLOC_HI",
    },
    "cdna": {
        1: "MODE", 2: "STATUS", 3: "TRAPSTS", 4: "HW_ID", 5: "GPR_ALLOC", 6: "LDS_ALLOC", 7: "IB_STS", 8: "PC_LO",
        9: "PC_HI", 10: "INST_DW0", 11: "INST_DW1", 12: "IB_DBG0", 13: "IB_DBG1", 14: "FLUSH_IB", 15: "SH_MEM_BASES",
        16: "TBA_LO", 17: "TBA_HI", 18: "TMA_LO", 19: "TMA_HI", 20: "XCC_ID", 21: "PERF_SNAPSHOT_DATA",
        22: "PERF_SNAPSHOT_DATA1", 23: "PERF_SNAPSHOT_PC_LO", 24: "PERF_SNAPSHOT_PC_HI",
    },
}  # fmt: skip

#: What a kernel may write: the attribute of Batch that holds the register, and the bits by family.
WRITABLE: dict[str, tuple[str, dict[str, int]]] = {
    "MODE": ("mode", {"rdna3": 0x089FFFFF, "rdna4": 0x098000FF, "cdna": 0xF89FFFFF}),
    "TRAPSTS": ("trapsts", {"rdna3": 0x000001FF, "cdna": 0x000001FF}),
    "EXCP_FLAG_USER": ("trapsts", {"rdna4": 0x0000007F}),
    "TRAP_CTRL": ("trap_ctrl", {"rdna4": 0x000003FF}),
    "SCHED_MODE": ("sched_mode", {"rdna3": 0x00000003, "rdna4": 0x00000003}),
}
_LDS_GRANULE, _VGPR_GRANULE = 512, 4
_EXECZ, _VCCZ = 9, 10  # bits of STATUS
_IN_WORKGROUP, _VALID = 1 << 11, 1 << 16


def _zero(g: Group) -> Array:
    return np.zeros(g.n, np.uint32)


def _same(value: int) -> Read:
    return lambda g: np.full(g.n, value & 0xFFFFFFFF, np.uint32)


def _is_zero(g: Group, code: int) -> Array:
    empty: Array = is_zero(g, code)[:, 0].astype(np.uint32)
    return empty


def _status(g: Group) -> Array:
    """SCC (not on RDNA4), EXECZ, VCCZ, IN_WG, VALID."""
    batch = g.batch
    empty = _is_zero(g, EXEC) << np.uint32(_EXECZ) | _is_zero(g, VCC) << np.uint32(_VCCZ)
    status = empty | np.uint32(_VALID)
    if batch.arch.family != "rdna4":
        status = status | batch.scc[g.index].astype(np.uint32)
    sizes = np.bincount(batch.group)[batch.group[g.index]]
    inside: Array = status | np.where(sizes > 1, np.uint32(_IN_WORKGROUP), np.uint32(0))
    return inside


def _gpr_alloc(g: Group) -> Array:
    """VGPR_SIZE in granules less one, bits 19:12 (CDNA: 13:8)."""
    batch = g.batch
    counts = np.full(g.n, batch.vgprs) if batch.dynamic_vgprs is None else batch.dynamic_vgprs[g.index]
    granule, shift = (8, 8) if batch.arch.acc_vgprs else (_VGPR_GRANULE, 12)
    field: Array = np.maximum(counts + batch.accs - 1, 0) // granule << shift
    return field.astype(np.uint32)


def _lds_alloc(g: Group) -> Array:
    """LDS_SIZE in granules, bits 20:12."""
    return _same((g.batch.lds_bytes + _LDS_GRANULE - 1) // _LDS_GRANULE << 12)(g)


def _hw_id(g: Group) -> Array:
    """WAVE_ID in bits 4:0 (CDNA 3:0), SIMD in 9:8 (CDNA 5:4): waves of a workgroup go round the SIMDs."""
    number = g.batch.ordinal[g.index].astype(np.uint32)
    if g.batch.arch.family == "cdna":
        return number >> np.uint32(2) & np.uint32(0xF) | (number & np.uint32(3)) << np.uint32(4)
    return number >> np.uint32(2) & np.uint32(0x1F) | (number & np.uint32(3)) << np.uint32(8)


def _scratch(shift: int) -> Read:
    return lambda g: (g.batch.scratch[g.index] >> np.uint64(shift)).astype(np.uint32)


def _clock(shift: int, bits: int) -> Read:
    return lambda g: _same(g.batch.clock >> shift & (1 << bits) - 1)(g)


_READ: dict[str, Read] = {
    "STATUS": _status,
    "STATE_PRIV": lambda g: g.batch.scc[g.index].astype(np.uint32) << np.uint32(9),
    "GPR_ALLOC": _gpr_alloc,
    "LDS_ALLOC": _lds_alloc,
    "SH_MEM_BASES": _same(SHARED_APERTURE >> 48 << 16 | PRIVATE_APERTURE >> 48),
    "PC_LO": lambda g: _same(g.pc)(g),
    "PC_HI": lambda g: _same(g.pc >> 32)(g),
    "FLAT_SCR_LO": _scratch(0),
    "FLAT_SCR_HI": _scratch(32),
    "HW_ID": _hw_id,
    "HW_ID1": _hw_id,
    "SHADER_CYCLES": _clock(0, 20),
    "SHADER_CYCLES_LO": _clock(0, 32),
    "SHADER_CYCLES_HI": _clock(32, 32),
}


def name_of(family: str, index: int) -> str:
    """The name of hardware register ``index``. Raises LookupError for one that does not exist."""
    name = NAMES[family].get(index)
    if name is None:
        raise LookupError(f"there is no hardware register {index}")
    return name


def read(family: str, g: Group, index: int) -> Array:
    """Hardware register ``index`` of the executing waves, (n, 1) uint32. Raises LookupError for an unknown one."""
    name = name_of(family, index)
    if name in WRITABLE:
        value: Array = getattr(g.batch, WRITABLE[name][0])[g.index]
    else:
        value = _READ.get(name, _zero)(g)
    return value[:, None]


def write(family: str, g: Group, index: int, value: Array, mask: Array | None) -> None:
    """Write hardware register ``index``; bits that a kernel may not change keep their value.

    Raises LookupError for an unknown register.
    """
    name = name_of(family, index)
    if name not in WRITABLE:
        return
    attribute, by_family = WRITABLE[name]
    row = getattr(g.batch, attribute)
    allowed = np.uint32(by_family[family])
    old = row[g.index]
    new = old & ~allowed | np.broadcast_to(value, (g.n, 1))[:, 0] & allowed
    row[g.index] = new if mask is None else np.where(np.broadcast_to(mask, (g.n, 1))[:, 0], new, old)
