"""WMMA: 16x16x16 matrix products of a whole wave (RDNA3).

Sources: "Wave Matrix Multiply Accumulate" of the RDNA3 manual for layouts, modifiers and types. Element (i, k) of A
is half (byte, nibble) k of lane i's registers, B likewise by column; lanes 16 and up hold copies. Row i of C and D
lies in register i // groups, lanes 16 * (i % groups) and up, where groups is the wave's number of 16-lane groups.
Products are exact; each is added in f32 in ascending order of k with one rounding (to nearest even), denormals are
kept. That bf16 inputs are flushed when they are subnormal was seen on gfx1151.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.instruction import Instruction, Operand
from mockgpu.machine.operands import constant_of
from mockgpu.machine.waves import Array, Group
from mockgpu.pcode import numeric
from mockgpu.pcode.numeric import Denorm, FloatFormat, Mode

SIZE = 16  # rows, columns and inner dimension
_MODE = Mode(denorm_f32=Denorm.KEEP, denorm_f16_f64=Denorm.KEEP)


@dataclass(frozen=True, slots=True)
class Shape:
    """Element formats: ``inputs`` of A and B (a float format, or the bits of an integer), ``result`` of C and D."""

    inputs: FloatFormat | int
    result: FloatFormat | None  # None: i32


_SHAPES: dict[str, Shape] = {
    "v_wmma_f32_16x16x16_f16": Shape(numeric.F16, numeric.F32),
    "v_wmma_f32_16x16x16_bf16": Shape(numeric.BF16, numeric.F32),
    "v_wmma_f16_16x16x16_f16": Shape(numeric.F16, numeric.F16),
    "v_wmma_bf16_16x16x16_bf16": Shape(numeric.BF16, numeric.BF16),
    "v_wmma_i32_16x16x16_iu8": Shape(8, None),
    "v_wmma_i32_16x16x16_iu4": Shape(4, None),
}


def is_matrix(instruction: Instruction) -> bool:
    """Whether the instruction is a matrix product."""
    return instruction.mnemonic.startswith(("v_wmma", "v_swmmac", "v_mfma", "v_smfmac"))


def build(instruction: Instruction, wave_size: int) -> Callable[[Group], None]:
    """The execution of a matrix product. Raises NoSemanticsError for shapes that are not modelled."""
    shape = _SHAPES.get(instruction.mnemonic)
    if shape is None or instruction.arch.tables != "rdna3":
        raise NoSemanticsError(instruction.mnemonic, "matrix shape not modelled", instruction.arch.name)
    if isinstance(shape.inputs, int):
        return _integer(instruction, shape.inputs)
    return _float(instruction, shape.inputs, shape.result or numeric.F32)


def _elements(g: Group, reg: int, bits: int) -> Array:
    """Rows of A (columns of B): (n, 16, 16), element k of lane i in [.., i, k]."""
    per_dword = 32 // bits
    words = g.batch.vgpr[reg : reg + SIZE // per_dword, g.index, :SIZE]  # (registers, n, 16)
    shifts = np.arange(per_dword, dtype=np.uint32) * np.uint32(bits)
    parts = words[..., None] >> shifts & np.uint32((1 << bits) - 1)
    return np.moveaxis(parts, 0, 2).reshape(g.n, SIZE, SIZE)


def _rows(g: Group, operand: Operand) -> Array:
    """C as dwords (n, 16, 16)."""
    fixed = constant_of(operand)
    groups = g.lanes // SIZE
    if fixed is not None:
        return np.full((g.n, SIZE, SIZE), fixed, np.uint32)
    words = g.batch.vgpr[operand.index : operand.index + SIZE // groups, g.index]
    return np.moveaxis(words, 0, 1).reshape(g.n, SIZE, SIZE)


def _write_rows(g: Group, reg: int, value: Array, high: int | None) -> None:
    """D from (n, 16, 16); ``high`` chooses the halves that 16-bit results go to. EXEC has no say."""
    groups = g.lanes // SIZE
    lines = value.reshape(g.n, SIZE // groups, g.lanes)
    for r in range(SIZE // groups):
        if high is None:
            g.write_vector(reg + r, lines[:, r], None)
        else:
            g.write_half(reg + r, high, lines[:, r], None)


def _sign_flips(instruction: Instruction, position: int, sign: int) -> Array:
    """What neg and neg_hi flip in the even and odd elements of a source, (16,) uint16."""
    low = instruction.fields["neg"] >> position & 1
    high = instruction.fields["neg_hi"] >> position & 1
    return np.tile(np.array([low * sign, high * sign], np.uint16), SIZE // 2)


def _float(instruction: Instruction, inputs: FloatFormat, result: FloatFormat) -> Callable[[Group], None]:
    a, b, c = (instruction.operand(f) for f in ("src0", "src1", "src2"))
    dst = instruction.operand("vdst").index
    flips = [_sign_flips(instruction, n, inputs.sign) for n in (0, 1)]
    high = int(instruction.fields["opsel"] >> 2 & 1)
    widen, fma = _widener(inputs), numeric.fma(numeric.F32)
    narrow = result is not numeric.F32
    negative, absolute = instruction.fields["neg"] >> 2 & 1, instruction.fields["neg_hi"] >> 2 & 1

    def addend(g: Group) -> Array:
        value = _rows(g, c)
        if narrow:
            half = 0 if constant_of(c) is not None else high
            value = _widener(result)((value >> np.uint32(16 * half) & np.uint32(0xFFFF)).astype(np.uint16))
        if absolute:
            value = value & np.uint32(0x7FFFFFFF)
        return value ^ np.uint32(0x80000000) if negative else value

    def run(g: Group) -> None:
        with np.errstate(all="ignore"):
            left = widen(_elements(g, a.index, 16).astype(np.uint16) ^ flips[0])
            right = widen(_elements(g, b.index, 16).astype(np.uint16) ^ flips[1])
            total = addend(g)
            for k in range(SIZE):
                total = fma(_MODE, left[:, :, k, None], right[:, None, :, k], total)
            if narrow:
                total = numeric.float_to_float(numeric.F32, result)(_MODE, total)
        _write_rows(g, dst, total, high if narrow else None)

    return run


def _widener(fmt: FloatFormat) -> Callable[[Array], Array]:
    """Elements to f32 patterns; subnormal bf16 become zero."""
    if fmt is not numeric.BF16:
        convert = numeric.float_to_float(fmt, numeric.F32)
        return lambda x: convert(_MODE, x)

    def widen(x: Array) -> Array:
        subnormal = (x & np.uint16(0x7F80)) == 0
        return np.where(subnormal, x & np.uint16(0x8000), x).astype(np.uint32) << np.uint32(16)

    return widen


def _integer(instruction: Instruction, bits: int) -> Callable[[Group], None]:
    a, b, c = (instruction.operand(f) for f in ("src0", "src1", "src2"))
    dst, clamp = instruction.operand("vdst").index, instruction.clamp
    signed = instruction.fields["neg"]

    def run(g: Group) -> None:
        left = _integers(_elements(g, a.index, bits), bits, bool(signed & 1))
        right = _integers(_elements(g, b.index, bits), bits, bool(signed & 2))
        total = left @ np.swapaxes(right, 1, 2) + _rows(g, c).view(np.int32).astype(np.int64)
        if clamp:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        _write_rows(g, dst, total.astype(np.uint32), None)

    return run


def _integers(x: Array, bits: int, signed: bool) -> Any:
    wide = x.astype(np.int64)
    return wide - (wide >> (bits - 1) << bits) if signed else wide
