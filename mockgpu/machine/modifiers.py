"""Source and result modifiers of vector instructions: neg, abs, op_sel, omod, clamp.

Sources: "Input and output modifiers", "Packed math" of the RDNA3 manual; rounding and ranges in mockgpu.pcode.numeric.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mockgpu.isa.instruction import Operand
from mockgpu.machine.operands import Reader, as_bits
from mockgpu.machine.waves import Array, Group
from mockgpu.pcode import numeric
from mockgpu.pcode.numeric import FloatFormat, Mode

Result: TypeAlias = Callable[[Mode, bool, Array], Array]  # MODE, its IEEE bit, the result

_FORMATS: dict[str, FloatFormat] = {
    "FMT_NUM_F16": numeric.F16,
    "FMT_NUM_PK2_F16": numeric.F16,
    "FMT_NUM_F32": numeric.F32,
    "FMT_NUM_PK2_F32": numeric.F32,
    "FMT_NUM_F64": numeric.F64,
    "FMT_NUM_BF16": numeric.BF16,
    "FMT_NUM_PK2_BF16": numeric.BF16,
}


def float_format(fmt: str) -> FloatFormat | None:
    """The float format of an operand's declared format, or None for one that is no float."""
    return _FORMATS.get(fmt)


def is_packed(operand: Operand) -> bool:
    """Whether an operand holds two values of half its width."""
    return "_PK2_" in operand.fmt


def signed(read: Reader, operand: Operand) -> Reader:
    """``read`` with the operand's abs and neg applied to its sign bit."""
    if not (operand.neg or operand.abs):
        return read
    bits = max(operand.bits, 16)
    return lambda g: _sign(read(g), bits, operand.abs, operand.neg)


def _sign(value: Array, bits: int, absolute: bool, negate: bool) -> Array:
    sign = value.dtype.type(1 << (bits - 1))
    if absolute:
        value = value & ~sign
    return value ^ sign if negate else value


def packed(read: Reader, operand: Operand) -> Reader:
    """Both halves of a packed source, chosen by op_sel and op_sel_hi and negated by neg and neg_hi."""
    half = operand.bits // 2
    flips = (int(operand.neg) << (half - 1)) | (int(operand.neg_hi) << (operand.bits - 1))
    low, high = int(operand.opsel), int(operand.opsel_hi)

    def select(g: Group) -> Array:
        value = read(g)
        word = value.dtype.type
        if (low, high) != (0, 1):
            mask, shift = word((1 << half) - 1), word(half)
            a = value >> shift if low else value & mask
            b = value >> shift if high else value & mask
            value = a | b << shift
        return value ^ word(flips) if flips else value

    return select


def mixed(read: Reader, operand: Operand) -> Reader:
    """A source of the mixed-precision multiply-add: f32, or an f16 half; neg_hi is its abs."""
    if not (operand.neg or operand.neg_hi):
        return read
    bit = 31 if not operand.opsel_hi or operand.opsel else 15
    sign = np.uint32(1 << bit)

    def select(g: Group) -> Array:
        value = as_bits(read(g), 32)
        if operand.neg_hi:
            value = value & ~sign
        return value ^ sign if operand.neg else value

    return select


def result_modifier(fmt: str, omod: int, clamp: bool) -> Result | None:
    """omod and clamp of a float result, or None when there is nothing to do.

    omod does nothing while MODE enables IEEE or denormal results of the type; where it works, minus zero becomes zero.
    """
    number = float_format(fmt)
    if number is None or not (omod or clamp):
        return None
    chosen = number

    def modify(mode: Mode, ieee: bool, value: Array) -> Array:
        with np.errstate(all="ignore"):
            if omod and not ieee and numeric.float_mode(chosen, mode).flush_out:
                value = _positive_zero(chosen, numeric.omod(mode, chosen, value, omod))
            return numeric.clamp(mode, chosen, value) if clamp else value

    if "_PK2_" not in fmt:
        return modify
    return lambda mode, ieee, value: _halves(lambda part: modify(mode, ieee, part), value)


def _positive_zero(fmt: FloatFormat, value: Array) -> Array:
    return np.where(value == fmt.word(fmt.sign), fmt.word(0), value)


def _halves(modify: Callable[[Array], Array], value: Array) -> Array:
    """A packed pair: two halves of 16 bits, or of 32 where the value has 64."""
    wide = value.dtype == np.uint64
    whole: Any = np.uint64 if wide else np.uint32
    part: Any = np.uint32 if wide else np.uint16
    width = whole(32 if wide else 16)
    low, high = modify(value.astype(part)), modify((value >> width).astype(part))
    packed: Array = low.astype(whole) | high.astype(whole) << width
    return packed
