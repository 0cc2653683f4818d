"""From a decoded instruction to a step: which module builds which instruction format."""

from __future__ import annotations

import functools

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine import buffer, control, flat, image, lds, lds_load, salu, smem, valu, vopd
from mockgpu.machine.legal import check_operands
from mockgpu.machine.step import Builder, Run, Step
from mockgpu.machine.vector_modes import with_modes

__all__ = ["Run", "Step", "build_step", "builders"]

_SCALAR_FORMATS = ("SOP", "SMEM")


@functools.cache
def builders() -> dict[str, Builder]:
    """The builder of every instruction format."""
    return {
        "SOP1": salu.build, "SOP2": salu.build, "SOPC": salu.build, "SOPK": salu.build, "SOPP": control.build,
        "VOP1": valu.build, "VOP2": valu.build, "VOPC": valu.build, "VOP3": valu.build, "VOP3SD": valu.build,
        "VOP3P": valu.build, "VOP3PX2": valu.build, "VINTERP": valu.build, "VOPD": vopd.build,
        "SMEM": smem.build, "DS": lds.build, "VDS": lds.build,
        "FLAT": flat.build, "GLOBAL": flat.build, "SCRATCH": flat.build,
        "VFLAT": flat.build, "VGLOBAL": flat.build, "VSCRATCH": flat.build,
        "MUBUF": buffer.build, "MTBUF": buffer.build, "VBUFFER": buffer.build,
        "MIMG": image.build, "VIMAGE": image.build, "VSAMPLE": image.build,
        "EXP": image.build, "VEXPORT": image.build,
        "LDSDIR": lds_load.build_direct, "VDSDIR": lds_load.build_direct,
    }  # fmt: skip


def build_step(instruction: Instruction, wave_size: int) -> Step:
    """The step of an instruction for waves of ``wave_size`` lanes.

    Raises NoSemanticsError or IllegalInstruction when there is nothing to execute.
    """
    build = builders().get(instruction.format)
    if build is None:
        raise NoSemanticsError(instruction.mnemonic, f"format {instruction.format}", instruction.arch.name)
    check_operands(instruction)
    if instruction.arch.vector_modes and not instruction.format.startswith(_SCALAR_FORMATS):
        return with_modes(build, instruction, wave_size)
    return build(instruction, wave_size)
