"""Source and result modifiers: neg, abs, op_sel, omod, clamp. The twin of :mod:`mockgpu.machine.modifiers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mockgpu.isa.instruction import Operand
from mockgpu.machine.modifiers import float_format
from mockgpu.pcode.llvm.float_env import Env
from mockgpu.pcode.llvm.float_ops import clamp, omod
from mockgpu.pcode.llvm.values import Builder, NotNative, Value, resize, same, width_of
from mockgpu.pcode.numeric import FloatFormat, float_mode

Result: TypeAlias = Callable[[Env, Value], Value]


def signed(b: Builder, value: Value, operand: Operand, bits: int) -> Value:
    """The operand's abs and neg applied to its sign bit."""
    sign = 1 << (bits - 1)
    if operand.abs:
        value = b.and_(value, same(value, ~sign))
    return b.xor(value, same(value, sign)) if operand.neg else value


def packed(b: Builder, value: Value, operand: Operand) -> Value:
    """Both halves of a packed source, chosen by op_sel and op_sel_hi and negated by neg and neg_hi."""
    half = operand.bits // 2
    low, high = operand.opsel, operand.opsel_hi
    if (low, high) != (False, True):
        ones = same(value, (1 << half) - 1)
        upper = b.lshr(value, same(value, half))
        lower = b.and_(value, ones)
        value = b.or_(upper if low else lower, b.shl(upper if high else lower, same(value, half)))
    flips = (int(operand.neg) << (half - 1)) | (int(operand.neg_hi) << (operand.bits - 1))
    return b.xor(value, same(value, flips)) if flips else value


def mixed(b: Builder, value: Value, operand: Operand) -> Value:
    """A source of the mixed-precision multiply-add: f32, or an f16 half; neg_hi is its abs."""
    sign = 1 << (31 if not operand.opsel_hi or operand.opsel else 15)
    if operand.neg_hi:
        value = b.and_(value, same(value, ~sign))
    return b.xor(value, same(value, sign)) if operand.neg else value


def result_modifier(fmt: str, field: int, clamps: bool, ieee: bool) -> Result | None:
    """omod and clamp of a float result, or None when there is nothing to do."""
    number = float_format(fmt)
    if number is None or not (field or clamps):
        return None
    chosen = number

    def modify(env: Env, value: Value) -> Value:
        if width_of(value) != chosen.bits:  # the text writes more than the result, such as a half and what is beside it
            raise NotNative("clamp or omod of a result that is written together with something else")
        if field and not ieee and float_mode(chosen, env.mode).flush_out:
            value = _positive_zero(env, chosen, omod(env, chosen, value, field))
        return clamp(env, chosen, value) if clamps else value

    if "_PK2_" not in fmt:
        return modify
    return lambda env, value: _halves(env, modify, value)


def _positive_zero(env: Env, fmt: FloatFormat, value: Value) -> Value:
    minus = env.b.icmp_unsigned("==", value, same(value, fmt.sign))
    return env.b.select(minus, same(value, 0), value)


def _halves(env: Env, modify: Result, value: Value) -> Value:
    """A packed pair: two halves of 16 bits, or of 32 where the value has 64."""
    b, width = env.b, width_of(value)
    half = width // 2
    low = resize(b, modify(env, resize(b, value, half)), width)
    high = resize(b, modify(env, resize(b, b.lshr(value, same(value, half)), half)), width)
    return b.or_(low, b.shl(high, same(high, half)))
