"""16-bit results: which of them clear the high half of their register. Every opcode of every family is looked at."""

from __future__ import annotations

import pytest

from mockgpu.isa.arch import get_arch
from mockgpu.isa.canonical import canonical
from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.opcode import Opcode, opcodes
from mockgpu.isa.operands import Register
from mockgpu.machine.semantics import assignments, opcode_program, place
from mockgpu.machine.single import SingleStep
from mockgpu.pcode import ir
from mockgpu.pcode.errata_halves import has_half_rule, zeroes_high_half

TARGETS = ("gfx1100", "gfx1201", "gfx950")
OLD = 0xABCD1234


def writes_half(opcode: Opcode) -> bool:
    """Whether the text assigns 16 bits to a vector register."""
    vdst = opcode.operand("vdst")
    if vdst is None or not opcode.table.startswith("VOP") or vdst.fmt == "FMT_NUM_M64":
        return False
    try:
        program = opcode_program(opcode)
    except NoSemanticsError:
        return False
    targets = [a.target for a in assignments(program)]
    results = [t for t in targets if isinstance(place(t), ir.Operand) and place(t).name == "D0"]
    return bool(results) and all(t.type.bits == 16 for t in results) and not opcode.name.startswith("V_CMP")


def narrow(name: str) -> list[Opcode]:
    arch = get_arch(name)
    return [o for o in opcodes(arch.tables).values() if arch.has_opcode(o.name) and writes_half(o)]


@pytest.mark.parametrize("target", TARGETS)
def test_high_halves(target: str) -> None:
    """Each opcode once on a register full of ones and zeros: the rule of the table is what happens."""
    arch = get_arch(target)
    machine = SingleStep(arch)
    wrong = []
    for opcode in narrow(target):
        instruction = canonical(arch, opcode)
        vdst = instruction.operand("vdst")
        batch = machine.run(instruction, {Register("v", vdst.index): [OLD]})
        word = int(batch.vgpr[vdst.index, 0, 0])
        upper = "MIXHI" in opcode.name
        kept = OLD & 0xFFFF if upper else OLD >> 16
        other = word & 0xFFFF if upper else word >> 16
        expected = 0 if zeroes_high_half(opcode.family, opcode.table, opcode.name) else kept
        if other != expected:
            wrong.append(f"{opcode.name}: {word:#010x}")
    assert not wrong


def test_every_cdna_opcode_with_a_16_bit_result_has_a_rule() -> None:
    assert [o.name for o in narrow("gfx950") if not has_half_rule(o.family, o.name)] == []


def test_rdna_keeps_every_high_half() -> None:
    for target in ("gfx1100", "gfx1201"):
        assert not any(zeroes_high_half(o.family, o.table, o.name) for o in narrow(target))
