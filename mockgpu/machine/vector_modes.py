"""What MODE of CDNA does to vector instructions: GPR_IDX_EN indexes registers, VSKIP skips instructions.

With GPR_IDX_EN, M0[7:0] is added to the number of the vector registers that M0[15:12] chooses (sources 0 to 2, the
destination) of vector ALU instructions. A source beyond the last register reads v0; an instruction whose destination is
beyond it does nothing. Accumulation registers and matrix instructions are not indexed (assumed).

Sources: S_SET_GPR_IDX_ON, S_SETVSKIP and "MODE register" of the Vega and CDNA3 manuals; registers out of range by the
CDNA4 manual.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from mockgpu.isa.decode import decode
from mockgpu.isa.encode import encode_fields
from mockgpu.isa.instruction import Instruction, Operand
from mockgpu.isa.registers import VGPR_BASE, Kind
from mockgpu.machine.matrix_ops import is_matrix_name
from mockgpu.machine.step import Builder, Run, Step
from mockgpu.machine.waves import Group

GPR_IDX_EN, VSKIP = 1 << 27, 1 << 28
_INDEXED_FORMATS = frozenset({"VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P"})
#: Bit of M0 that lets the index apply to a field.
_ENABLES = {"src0": 12, "src1": 13, "vsrc1": 13, "src2": 14, "vdst": 15}
_INDEX_AND_ENABLES = 0xF0FF


def with_modes(build: Builder, instruction: Instruction, wave_size: int) -> Step:
    """The step of a vector instruction that obeys both bits of MODE."""
    step = build(instruction, wave_size)
    plain = step.run
    indexed = _Indexed(build, instruction, wave_size, plain) if _is_indexed(instruction) else plain

    @functools.wraps(plain)
    def run(g: Group) -> None:
        if not g.mode & (GPR_IDX_EN | VSKIP):
            plain(g)
        elif not g.mode & VSKIP:
            indexed(g)

    return Step(run, step.kind, step.ends, step.instruction)


def _is_indexed(instruction: Instruction) -> bool:
    return instruction.format in _INDEXED_FORMATS and not is_matrix_name(instruction.opcode.name)


class _Indexed:
    """Runs an instruction with other register numbers, which are those of another instruction."""

    def __init__(self, build: Builder, instruction: Instruction, wave_size: int, plain: Run):
        self.instruction, self.plain = instruction, plain
        self.build: Callable[[Instruction], Step] = lambda other: build(other, wave_size)
        self.runs: dict[tuple[int, int], Run] = {}

    def __call__(self, g: Group) -> None:
        batch = g.batch
        words = batch.sgpr[batch.arch.m0_register, g.index] & np.uint32(_INDEX_AND_ENABLES)
        distinct = np.unique(words)
        if len(distinct) == 1:
            self._run(int(distinct[0]), batch.vgprs)(g)
            return
        waves = np.arange(batch.waves)[g.index]
        for word in distinct:
            chosen = waves[words == word]
            self._run(int(word), batch.vgprs)(Group(batch, chosen, len(chosen), g.memory, g.pc, g.mode))
        g.refresh_exec()

    def _run(self, word: int, vgprs: int) -> Run:
        """The run for the index and the enables in M0, in waves of ``vgprs`` registers."""
        found = self.runs.get((word, vgprs))
        if found is None:
            found = self.runs[word, vgprs] = self._moved(word, vgprs)
        return found

    def _moved(self, word: int, vgprs: int) -> Run:
        fields = dict(self.instruction.fields)
        for operand in self.instruction.operands:
            enable = _ENABLES.get(operand.field)
            if operand.kind is not Kind.VGPR or enable is None or not word >> enable & 1:
                continue
            number = operand.index + (word & 0xFF)
            if number + operand.regs > vgprs:
                if operand.field == "vdst":
                    return lambda g: None
                number = 0
            _renumber(fields, operand, number)
        if fields == self.instruction.fields:
            return self.plain
        moved = decode(self.instruction.arch, encode_fields(self.instruction.layout, fields))
        return self.build(moved).run


def _renumber(fields: dict[str, int], operand: Operand, number: int) -> None:
    """Make a field name another vector register. DPP and SDWA keep the number of source 0 in a field of its own."""
    if operand.field == "src0" and "vsrc0" in fields:
        fields["vsrc0"] = number
    elif operand.field in ("src0", "src1", "src2"):
        fields[operand.field] = VGPR_BASE + number
    else:
        fields[operand.field] = number
