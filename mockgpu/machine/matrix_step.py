"""Matrix instructions on waves: reads whole registers, runs :mod:`mockgpu.machine.matrix`, writes the result.

EXEC has no say: every lane takes part.
Source: the matrix chapters of the RDNA3, RDNA4, CDNA3 and CDNA4 manuals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from mockgpu.isa.instruction import Instruction, Operand
from mockgpu.machine import matrix
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.matrix_ops import Kind, MatrixError, matrix_op
from mockgpu.machine.operands import constant_of, register_row
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group

Rows: TypeAlias = Callable[[Group], Array]


def _rows(operand: Operand, count: int) -> Rows:
    """``count`` registers from an operand, (count, n, L); an inline constant fills all of them."""
    fixed = constant_of(operand)
    if fixed is not None:
        value = np.uint32(fixed & 0xFFFFFFFF)
        return lambda g: np.full((count, g.n, g.lanes), value, np.uint32)
    first = register_row(operand)
    return lambda g: g.batch.vgpr[first : first + count, g.index]


def _scale(operand: Operand) -> Rows:
    fixed = constant_of(operand)
    if fixed is None:
        first = register_row(operand)
        return lambda g: g.vector(first)
    value = np.uint32(matrix.scale_of_constant(fixed))
    return lambda g: np.full((g.n, g.lanes), value, np.uint32)


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a matrix instruction. Raises IllegalInstruction where the target lacks it."""
    try:
        return Step(_build(instruction, wave_size), "matrix")
    except (MatrixError, KeyError) as e:
        raise IllegalInstruction(f"{instruction.mnemonic}: {e.args[0]}") from e


def _build(instruction: Instruction, wave_size: int) -> Callable[[Group], None]:
    arch, name = instruction.arch, instruction.opcode.name
    op = matrix_op(arch.name, name)
    if op.kind is Kind.LOAD_SCALE:
        return lambda g: None
    modifiers = matrix.modifiers_of(op, instruction.fields)
    counts = matrix.register_counts(arch.name, name, wave_size, modifiers)
    vdst, src2 = instruction.operand("vdst"), instruction.operand("src2")
    a, b = _rows(instruction.operand("src0"), counts.a), _rows(instruction.operand("src1"), counts.b)
    c = _rows(vdst if op.accumulates_in_place else src2, counts.cd)
    old, index = _rows(vdst, counts.cd), _rows(src2, 1) if op.sparse else None
    scales = [_scale(instruction.operand(f"scale_src{n}")) for n in (0, 1)] if op.scaled else []
    first = register_row(vdst)

    def run(g: Group) -> None:
        out = matrix.execute(
            name, arch.name, wave_size, a(g), b(g), c(g), index(g)[0] if index is not None else None,
            (scales[0](g), scales[1](g)) if scales else None, modifiers, g.float_mode, old(g),
        )  # fmt: skip
        g.batch.vgpr[first : first + out.shape[0], g.index] = out

    return run
