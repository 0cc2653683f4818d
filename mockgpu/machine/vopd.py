"""VOPD: two vector instructions in one. Both read their sources before either writes its result.

Source: "Dual Issue VALU" of the RDNA3 manual: each half does what the VOP1 or VOP2 instruction of that name does.
"""

from __future__ import annotations

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.opcode import Opcode, opcodes
from mockgpu.isa.registers import VGPR_BASE
from mockgpu.machine.context import BitsWriter
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.operands import as_bits
from mockgpu.machine.semantics import evaluator_of, opcode_program
from mockgpu.machine.step import Step
from mockgpu.machine.valu import VectorContext
from mockgpu.machine.waves import Array, Group
from mockgpu.pcode.oracle import Evaluator

_SOURCES_X = {"srcx0": "S0", "vsrcx1": "S1"}
_SOURCES_Y = {"srcy0": "S0", "vsrcy1": "S1"}


#: Dual opcodes that add to their destination, by the single opcode that takes the addend as its third source. It stands
#: in where the family has no short form of the same name.
_ACCUMULATING = {
    "V_DUAL_DOT2ACC_F32_BF16": ("VOP3POp", "V_DOT2_F32_BF16"),
    "V_DUAL_DOT2ACC_F32_F16": ("VOP3POp", "V_DOT2_F32_F16"),
}


def single_opcode(dual: Opcode) -> Opcode:
    """The VOP1 or VOP2 opcode that a half of a pair stands for. Raises NoSemanticsError."""
    name = dual.name.replace("V_DUAL_", "V_")
    table = opcodes(dual.family)
    keys = (("VOP2Op", f"{name}_E32"), ("VOP1Op", f"{name}_E32"), ("VOP3Op", name), ("VOP3POp", name))
    for key in (*keys, _ACCUMULATING.get(dual.name, keys[0])):
        if key in table:
            return table[key]
    raise NoSemanticsError(dual.mnemonic, "no single instruction of this name", dual.family)


class _Half(VectorContext):
    """One half; its result is kept until both have been computed."""

    def __init__(self, instruction: Instruction, wave_size: int, opcode: Opcode, names: dict[str, str], result: str):
        program = opcode_program(single_opcode(opcode))
        super().__init__(instruction, wave_size, program)
        self.evaluator: Evaluator = evaluator_of(program)
        self.copies = True  # the other half's result may be a source
        self.pending: list[tuple[BitsWriter, Array, int, Array | None]] = []
        self.bind_sources(instruction.operands, names)
        operand = instruction.operand(result)
        reg = operand.code - VGPR_BASE
        self._bind_old_result(reg, 0)
        if "S2" in program.reads and "S2" not in self.reads:
            self.reads["S2"] = self.reads["D0"]
        write = self._register_writer(reg, 0)
        self.writes["D0"] = lambda g, v, bits, m: self.pending.append((write, as_bits(v, bits), bits, m))

    def compute(self, g: Group) -> None:
        self.begin(g)
        self.pending.clear()
        self.evaluator.run_inside(self)

    def commit(self, g: Group) -> None:
        for write, value, bits, mask in self.pending:
            write(g, value, bits, mask)
        self.pending.clear()


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a dual-issue pair. Raises NoSemanticsError or IllegalInstruction."""
    if wave_size != 32:
        raise IllegalInstruction(f"{instruction.mnemonic}: dual issue exists in wave32 only")
    assert instruction.opcode_y is not None
    try:
        x = _Half(instruction, wave_size, instruction.opcode, _SOURCES_X, "vdstx")
        y = _Half(instruction, wave_size, instruction.opcode_y, _SOURCES_Y, "vdsty")
    except LookupError as e:
        raise IllegalInstruction(f"{instruction.mnemonic}: {e.args[0]}") from e

    def run(g: Group) -> None:
        x.compute(g)
        y.compute(g)
        x.commit(g)
        y.commit(g)

    return Step(run, "valu")
