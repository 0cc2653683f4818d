"""Arithmetic in the rounding modes other than nearest: by exact results, whatever the host rounds to.

f16 and f32 are computed in doubles rounded to odd, and rounded once more; f64 sums are computed to nearest and moved by
one step where their exact rest says so.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from mockgpu.pcode.llvm.convert import integers_width, number, round_to
from mockgpu.pcode.llvm.float_bits import is_finite, is_negative
from mockgpu.pcode.llvm.float_env import F64T, Env, bits_as, fconst, intrinsic
from mockgpu.pcode.llvm.float_odd import sum_to_odd, to_odd, two_product, two_sum
from mockgpu.pcode.llvm.values import NotNative, Value, like, same
from mockgpu.pcode.numeric_format import F64, FloatFormat
from mockgpu.pcode.numeric_mode import Round

I64 = ir.IntType(64)


def directed(env: Env, op: str, fmt: FloatFormat, rounding: Round, *operands: Value) -> Value:
    """The pattern of ``op`` (add sub mul div sqrt fma) on patterns; a NaN result is some NaN. Raises NotNative."""
    if fmt is not F64:
        return _narrow(env, op, fmt, rounding, [_double(env, fmt, x) for x in operands])
    if op not in ("add", "sub"):
        raise NotNative(f"rounding {rounding.name} of {op} on {fmt}")
    x, y = (number(env, F64, v) for v in operands)
    return directed_sum(env, rounding, x, env.b.fneg(y) if op == "sub" else y)


def _double(env: Env, fmt: FloatFormat, x: Value) -> Value:
    value = number(env, fmt, x)
    return value if integers_width(value) == 64 else env.b.fpext(value, like(value, F64T))


# -- f16 and f32 ------------------------------------------------------------------------------------------------------


def _narrow(env: Env, op: str, fmt: FloatFormat, rounding: Round, x: list[Value]) -> Value:
    if op == "sub":
        x = [x[0], env.b.fneg(x[1])]
    if op == "fma":
        x = [env.b.fmul(x[0], x[1]), x[2]]  # exact
    if op in ("add", "sub", "fma"):
        bits = round_to(env, fmt, rounding, sum_to_odd(env, *x), False)
        return _signed_zero(env, fmt, rounding, bits, *x)
    return round_to(env, fmt, rounding, _TO_ODD[op](env, *x), False)


def _quotient(env: Env, x: Value, y: Value) -> Value:
    """``x / y`` rounded to odd: what is left of ``x`` is exact, and its sign tells where the quotient lies."""
    b = env.b
    value = b.fdiv(x, y)
    product, low = two_product(env, value, y)
    left = b.fsub(b.fsub(x, product), low)
    rest = b.select(b.fcmp_ordered("<", y, fconst(y, 0.0)), b.fneg(left), left)
    return to_odd(env, value, rest)


def _root(env: Env, x: Value) -> Value:
    b = env.b
    value = intrinsic(env, "sqrt", [x])
    square, low = two_product(env, value, value)
    return to_odd(env, value, b.fsub(b.fsub(x, square), low))


_TO_ODD: dict[str, Callable[..., Value]] = {
    "mul": lambda env, x, y: env.b.fmul(x, y),
    "div": _quotient,
    "sqrt": _root,
}


def _signed_zero(env: Env, fmt: FloatFormat, rounding: Round, bits: Value, x: Value, y: Value) -> Value:
    """A sum that cancels is minus zero when rounding down."""
    if rounding is not Round.MINUS_INF:
        return bits
    b = env.b
    p, q = bits_as(env, x, I64), bits_as(env, y, I64)
    opposite = b.icmp_unsigned("==", b.xor(p, q), same(p, F64.sign))
    cancels = b.and_(opposite, is_finite(env, F64, p))
    return b.select(cancels, same(bits, fmt.sign), bits)


# -- f64 --------------------------------------------------------------------------------------------------------------


def directed_sum(env: Env, rounding: Round, x: Value, y: Value) -> Value:
    """The pattern of the sum of two doubles."""
    b = env.b
    total, rest = two_sum(env, x, y)
    bits = bits_as(env, total, I64)
    negative = is_negative(env, F64, bits)
    zero = fconst(total, 0.0)
    above, below = b.fcmp_ordered(">", rest, zero), b.fcmp_ordered("<", rest, zero)
    finite = is_finite(env, F64, bits)
    operands = b.and_(is_finite(env, F64, bits_as(env, x, I64)), is_finite(env, F64, bits_as(env, y, I64)))
    over = b.and_(operands, b.fcmp_ordered("==", intrinsic(env, "fabs", [total]), fconst(total, float("inf"))))
    grows, shrinks = _steps(env, rounding, negative, above, below)
    shrinks = b.or_(b.and_(finite, shrinks), b.and_(over, _overflow_shrinks(env, rounding, negative)))
    moved = b.select(b.and_(finite, grows), b.add(bits, same(bits, 1)), bits)
    return _signed_zero(env, F64, rounding, b.select(shrinks, b.sub(bits, same(bits, 1)), moved), x, y)


def _steps(env: Env, rounding: Round, negative: Value, above: Value, below: Value) -> tuple[Value, Value]:
    """Whether the magnitude of a nearest result grows, and whether it shrinks, for an exact value above or below it."""
    b = env.b
    positive = b.not_(negative)
    if rounding is Round.PLUS_INF:
        return b.and_(above, positive), b.and_(above, negative)
    if rounding is Round.MINUS_INF:
        return b.and_(below, negative), b.and_(below, positive)
    return same(negative, 0), b.or_(b.and_(below, positive), b.and_(above, negative))


def _overflow_shrinks(env: Env, rounding: Round, negative: Value) -> Value:
    """Whether an infinity that only nearest rounding made is the largest number instead."""
    if rounding is Round.ZERO:
        return same(negative, 1)
    return negative if rounding is Round.PLUS_INF else env.b.not_(negative)
