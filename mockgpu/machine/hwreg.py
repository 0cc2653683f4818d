"""Hardware registers of a wave, as S_GETREG and S_SETREG see them.

Source: "Hardware registers" tables of the RDNA3, RDNA4 and CDNA3 ISA manuals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mockgpu.machine.operands import is_zero
from mockgpu.machine.waves import EXEC, VCC, Array, Group

#: Register names by family and index. Names that :data:`_READ` lacks are not modelled: using one is illegal.
NAMES: dict[str, dict[int, str]] = {
    "rdna3": {
        1: "MODE", 2: "STATUS", 3: "TRAPSTS", 5: "GPR_ALLOC", 6: "LDS_ALLOC", 7: "IB_STS", 15: "SH_MEM_BASES",
        18: "PC_LO", 19: "PC_HI", 20: "FLAT_SCR_LO", 21: "FLAT_SCR_HI", 23: "HW_ID1", 24: "HW_ID2",
        29: "SHADER_CYCLES",
    },
    "rdna4": {
        1: "MODE", 2: "STATUS", 4: "STATE_PRIV", 5: "GPR_ALLOC", 6: "LDS_ALLOC", 7: "IB_STS", 15: "SH_MEM_BASES",
        17: "EXCP_FLAG_PRIV", 18: "TRAPSTS", 19: "TRAP_CTRL", 20: "FLAT_SCR_LO", 21: "FLAT_SCR_HI", 23: "HW_ID1",
        24: "HW_ID2", 26: "SCHED_MODE", 29: "SHADER_CYCLES", 30: "SHADER_CYCLES_HI",
    },
    "cdna": {
        1: "MODE", 2: "STATUS", 3: "TRAPSTS", 4: "HW_ID1", 5: "GPR_ALLOC", 6: "LDS_ALLOC", 7: "IB_STS",
        15: "SH_MEM_BASES", 20: "XCC_ID",
    },
}  # fmt: skip


def _status(g: Group) -> Array:
    scc = g.batch.scc[g.index].astype(np.uint32)
    execz = _zero(g, EXEC).astype(np.uint32)
    vccz = _zero(g, VCC).astype(np.uint32)
    status: Array = scc | execz << np.uint32(9) | vccz << np.uint32(10) | np.uint32(1 << 16)
    return status


def _zero(g: Group, code: int) -> Array:
    return is_zero(g, code)[:, 0]


def _lds_alloc(g: Group) -> Array:
    return np.full(g.n, (g.batch.lds_bytes + 511) // 512 << 12, np.uint32)


_READ: dict[str, Callable[[Group], Array]] = {
    "MODE": lambda g: g.batch.mode[g.index],
    "STATUS": _status,
    "STATE_PRIV": lambda g: g.batch.scc[g.index].astype(np.uint32) << np.uint32(9),
    "TRAPSTS": lambda g: g.batch.trapsts[g.index],
    "EXCP_FLAG_PRIV": lambda g: np.zeros(g.n, np.uint32),
    "TRAP_CTRL": lambda g: np.zeros(g.n, np.uint32),
    "GPR_ALLOC": lambda g: np.full(g.n, (g.batch.vgprs + 3) // 4 << 12, np.uint32),
    "LDS_ALLOC": _lds_alloc,
    "IB_STS": lambda g: np.zeros(g.n, np.uint32),
    "SH_MEM_BASES": lambda g: np.full(g.n, 1 << 16 | 2, np.uint32),
    "PC_LO": lambda g: np.full(g.n, g.pc & 0xFFFFFFFF, np.uint32),
    "PC_HI": lambda g: np.full(g.n, g.pc >> 32, np.uint32),
    "FLAT_SCR_LO": lambda g: g.batch.scratch[g.index].astype(np.uint32),
    "FLAT_SCR_HI": lambda g: (g.batch.scratch[g.index] >> np.uint64(32)).astype(np.uint32),
    "HW_ID1": lambda g: (g.batch.ordinal[g.index] & 31).astype(np.uint32),
    "HW_ID2": lambda g: np.zeros(g.n, np.uint32),
    "SCHED_MODE": lambda g: g.batch.sched_mode[g.index],
    "SHADER_CYCLES": lambda g: np.full(g.n, g.batch.clock & 0xFFFFF, np.uint32),
    "SHADER_CYCLES_HI": lambda g: np.full(g.n, g.batch.clock >> 32 & 0xFFFFFFFF, np.uint32),
    "XCC_ID": lambda g: np.zeros(g.n, np.uint32),
}
_WRITABLE = {"MODE": "mode", "TRAPSTS": "trapsts", "SCHED_MODE": "sched_mode"}


def _name(family: str, index: int) -> str:
    name = NAMES[family].get(index)
    if name is None:
        raise LookupError(f"hardware register {index} is not modelled")
    return name


def read(family: str, g: Group, index: int) -> Array:
    """Hardware register ``index`` of the executing waves, (n, 1) uint32. Raises LookupError for an unknown one."""
    return _READ[_name(family, index)](g)[:, None]


def write(family: str, g: Group, index: int, value: Array, mask: Array | None) -> None:
    """Write hardware register ``index``; registers that a user program may not change keep their value.

    Raises LookupError for an unknown one.
    """
    attribute = _WRITABLE.get(_name(family, index))
    if attribute is None:
        return
    row = getattr(g.batch, attribute)
    new = np.broadcast_to(value, (g.n, 1))[:, 0]
    row[g.index] = new if mask is None else np.where(np.broadcast_to(mask, (g.n, 1))[:, 0], new, row[g.index])
