"""Operands that decode but that no instruction may have: executing one is an illegal instruction.

Sources: "Scalar Operand Values" of the RDNA3, RDNA4 and CDNA3 manuals, where the codes are reserved; the operand types
of the generated tables, which say where only vector registers are allowed.
"""

from __future__ import annotations

from mockgpu.isa.instruction import Instruction, Operand
from mockgpu.isa.registers import CONSTANT_KINDS, SCALAR_KINDS, Kind
from mockgpu.machine.errors import IllegalInstruction

#: Codes that mean nothing, or something that a compute kernel does not have.
_NEVER = {
    Kind.RESERVED: "a reserved operand code",
    Kind.POPS: "the number of an exiting wave, which is for pixel shaders",
    Kind.LDS_DIRECT: "a direct read of LDS, which is for pixel shaders",
}
_VECTOR_ONLY = ("OPR_SRC_VGPR", "OPR_SRC_ACCVGPR")
_OR_CONSTANT = ("_INLINE", "_CONST")


def check_operands(instruction: Instruction) -> None:
    """Raises IllegalInstruction for an operand that the instruction cannot have."""
    for operand in instruction.operands:
        problem = _problem(operand)
        if problem:
            raise IllegalInstruction(f"{instruction.mnemonic}: {operand.field} is {problem}")


def _problem(operand: Operand) -> str:
    if operand.code < 0:
        return ""
    if operand.kind in _NEVER:
        return f"{_NEVER[operand.kind]} ({operand.code})"
    if operand.optype.startswith(_VECTOR_ONLY):
        if operand.kind in SCALAR_KINDS:
            return "a scalar register where only vector registers are allowed"
        if operand.kind in CONSTANT_KINDS and not operand.optype.endswith(_OR_CONSTANT):
            return "a constant where only vector registers are allowed"
    return ""
