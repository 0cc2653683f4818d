"""From a decoded instruction to something that executes on a group of waves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.waves import Group

Run: TypeAlias = Callable[[Group], None]


@dataclass(slots=True)
class Step:
    """``run`` executes the instruction on a group. ``kind`` is its class in statistics.

    ``ends``: the step ends a block, because it may write PC, MODE or the waves' state.
    """

    run: Run
    kind: str
    ends: bool = False
    instruction: Instruction | None = None


Builder: TypeAlias = Callable[[Instruction, int], Step]


@functools.cache
def builders() -> dict[str, Builder]:
    """The builder of every instruction format."""
    from mockgpu.machine import buffer, control, flat, lds, salu, smem, valu, vopd

    return {
        "SOP1": salu.build, "SOP2": salu.build, "SOPC": salu.build, "SOPK": salu.build, "SOPP": control.build,
        "VOP1": valu.build, "VOP2": valu.build, "VOPC": valu.build, "VOP3": valu.build, "VOP3SD": valu.build,
        "VOP3P": valu.build, "VOP3PX2": valu.build, "VINTERP": valu.build, "VOPD": vopd.build,
        "SMEM": smem.build, "DS": lds.build, "VDS": lds.build,
        "FLAT": flat.build, "GLOBAL": flat.build, "SCRATCH": flat.build,
        "VFLAT": flat.build, "VGLOBAL": flat.build, "VSCRATCH": flat.build,
        "MUBUF": buffer.build, "VBUFFER": buffer.build,
    }  # fmt: skip


def build_step(instruction: Instruction, wave_size: int) -> Step:
    """The step of an instruction for waves of ``wave_size`` lanes.

    Raises NoSemanticsError or IllegalInstruction when there is nothing to execute.
    """
    build = builders().get(instruction.format)
    if build is None:
        raise NoSemanticsError(instruction.mnemonic, f"format {instruction.format}", instruction.arch.name)
    return build(instruction, wave_size)
