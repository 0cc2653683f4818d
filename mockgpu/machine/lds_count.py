"""DS_APPEND and DS_CONSUME: a wave adds the number of its active lanes to a counter in LDS, or subtracts it.

The counter lies at M0[15:0] plus the offset, on RDNA4 at the offset alone. Waves take turns; each one's active lanes
get the value from before. M0 holds the counter's address as compilers leave it there; no size is taken from it.

Sources: "DS_APPEND" and "DS_CONSUME" of the RDNA3 and RDNA4 manuals; CDNA is assumed to do as RDNA3 does.
"""

from __future__ import annotations

import numpy as np

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.errors import MemoryViolation
from mockgpu.machine.operands import register_row
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Group

_SIGNS = {"ds_append": 1, "ds_consume": -1}
_ADDRESS_IN_M0 = frozenset({"rdna3", "cdna"})


def build(instruction: Instruction) -> Step | None:
    """The step of an append or consume, or None for another instruction."""
    sign = _SIGNS.get(instruction.mnemonic)
    if sign is None:
        return None
    offset = instruction.fields["offset1"] << 8 | instruction.fields["offset0"]
    m0 = instruction.arch.m0_register if instruction.arch.family in _ADDRESS_IN_M0 else None
    dst = register_row(instruction.operand("vdst"))

    def count_lanes(g: Group) -> None:
        base = np.zeros(g.n, np.int64) if m0 is None else (g.scalar(m0)[:, 0] & np.uint32(0xFFFF)).astype(np.int64)
        active = g.active.sum(axis=1)
        before = np.zeros((g.n, 1), np.uint32)
        for wave in range(g.n):
            if active[wave]:
                before[wave] = _add(g, wave, int(base[wave]) + offset, sign * int(active[wave]))
        g.write_vector(dst, np.broadcast_to(before, (g.n, g.lanes)), g.exec)

    return Step(count_lanes, "lds")


def _add(g: Group, wave: int, at: int, amount: int) -> int:
    """Add to a counter of the wave's workgroup; the value from before."""
    batch = g.batch
    if at + 4 > batch.lds_bytes or at & 3:
        raise MemoryViolation(f"LDS counter at {at:#x}: misaligned, or outside the workgroup's {batch.lds_bytes} bytes")
    place = int(batch.group[g.index][wave]) * batch.lds_stride + at
    word = batch.lds[place : place + 4].view(np.uint32)
    before = int(word[0])
    word[0] = (before + amount) & 0xFFFFFFFF
    return before
