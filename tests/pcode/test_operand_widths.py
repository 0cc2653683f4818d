"""The bits that pseudocode reads of a source lie inside the width that the opcode tables declare for it."""

from collections.abc import Iterator

import pytest

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.opcode import Opcode, opcodes
from mockgpu.pcode import ir
from mockgpu.pcode.lower import lower
from mockgpu.pcode.walk import read_expressions, statements, subexpressions

_FIELDS = {"S0": ("src0", "vsrc0", "ssrc0"), "S1": ("src1", "vsrc1", "ssrc1"), "S2": ("src2",)}

#: Opcodes that read the whole register and use only the declared bits of it.
_LOW_BITS_ONLY = {
    "S_SEXT_I32_I8": "sign-extends the low byte",
    "V_MAD_I32_I24": "takes 24 bits",
    "V_MAD_U32_U24": "takes 24 bits",
    "V_CMP_CLASS_F16": "the mask of classes has ten bits",
    "V_CMPX_CLASS_F16": "the mask of classes has ten bits",
    "V_CVT_F32_FP8": "SDWA selects the byte of the whole register",
    "V_CVT_F32_BF8": "SDWA selects the byte of the whole register",
    "V_CVT_PK_F32_FP8": "SDWA selects the word of the whole register",
    "V_CVT_PK_F32_BF8": "SDWA selects the word of the whole register",
}


def _reads(program: ir.Program) -> Iterator[tuple[str, int]]:
    """(operand, number of low bits that are read) for every read of an operand."""
    for statement in statements(program.body):
        for whole in read_expressions(statement):
            sliced = set()
            for x in subexpressions(whole):
                if isinstance(x, ir.Bits) and isinstance(x.base, ir.Operand):
                    sliced.add(id(x.base))
                    known = isinstance(x.lo, ir.Const)
                    yield x.base.name, x.lo.value + x.type.bits if known else x.base.type.bits
                elif isinstance(x, ir.Operand) and id(x) not in sliced:
                    yield x.name, x.type.bits


def _too_wide(opcode: Opcode) -> list[str]:
    try:
        program = lower(opcode.family, opcode.table, opcode.name)
    except NoSemanticsError:
        return []
    found = []
    for name, bits in sorted(set(_reads(program))):
        spec = next((s for f in _FIELDS.get(name, ()) if (s := opcode.operand(f)) is not None), None)
        if spec is not None and bits > spec.bits:
            found.append(f"{opcode.name} reads {bits} bits of {name}, declared {spec.bits}")
    return found


@pytest.mark.parametrize("family", ["rdna3", "rdna4", "cdna"])
def test_no_pseudocode_reads_beyond_the_declared_width(family: str) -> None:
    found = []
    for (_, name), opcode in opcodes(family).items():
        if name.removesuffix("_E32").removesuffix("_E64") not in _LOW_BITS_ONLY:
            found += _too_wide(opcode)
    assert not found
