"""Arithmetic and comparison of f16, bf16, f32 and f64 under MODE, as LLVM IR on bit patterns.

The native twin of :mod:`mockgpu.pcode.numeric_float`, with the same makers and the same results to the bit:
``binary("add", F32)(env, a, b)``. Every function raises :class:`~mockgpu.pcode.llvm.values.NotNative` for what has no
native form. The host's floating-point state must be IEEE's default while the code runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeAlias

from mockgpu.pcode.llvm.float_bits import (
    absolute,
    as_bits,
    as_float,
    finish,
    flush,
    flush_input,
    flush_output,
    is_denormal,
    is_nan,
    is_quiet_nan,
    is_signaling,
    magnitude,
    negate,
    unordered,
)
from mockgpu.pcode.llvm.float_directed import directed
from mockgpu.pcode.llvm.float_env import F64T, Env, FloatEnv, has_fma, intrinsic
from mockgpu.pcode.llvm.float_odd import sum_to_odd
from mockgpu.pcode.llvm.values import NotNative, Value, like, same, unify
from mockgpu.pcode.numeric_format import BF16, F16, FloatFormat, NumericError, float_mode
from mockgpu.pcode.numeric_mode import FloatMode

Op: TypeAlias = Callable[..., Value]

_OPCODES = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


def require_nearest(how: FloatMode) -> None:
    if not how.nearest:
        raise NotNative(f"rounding {how.round.name} of arithmetic")


def _computed(env: Env, op: str, fmt: FloatFormat, how: FloatMode, step: Op, *operands: Value) -> tuple[Value, Value]:
    """The pattern of a result, by ``step`` on LLVM floats to nearest, and where it is a NaN."""
    if how.nearest:
        value = step(env, *(as_float(env, fmt, x) for x in operands))
        return as_bits(env, fmt, value), unordered(env, value)
    bits = directed(env, op, fmt, how.round, *operands)
    return bits, is_nan(env, fmt, bits)


def saturate_f16(env: Env, bits: Value, *operands: Value) -> Value:
    """FP16_OVFL: an f16 result that overflowed is the largest number; an infinity from infinite operands stays."""
    b = env.b
    over = b.icmp_unsigned("==", magnitude(env, F16, bits), same(bits, F16.inf))
    for x in operands:
        over = b.and_(over, b.icmp_unsigned("!=", magnitude(env, F16, x), same(x, F16.inf)))
    return b.select(over, b.sub(bits, same(bits, 1)), bits)


def _divisor_as_infinity(env: Env, x: Value) -> Value:
    """Division by zero is a true infinity, not an overflow."""
    zero = env.b.icmp_unsigned("==", magnitude(env, F16, x), same(x, 0))
    return env.b.select(zero, same(x, F16.inf), x)


@functools.cache
def binary(op: str, fmt: FloatFormat) -> Op:
    """The function for ``op`` (add, sub, mul, div) on ``fmt``: ``f(env, a, b)``."""
    if op not in _OPCODES:
        raise NumericError(f"no float operation {op}")
    if fmt is BF16 and op == "div":
        raise NumericError(f"no {op} on {fmt}")

    def run(env: Env, a: Value, b: Value) -> Value:
        how = float_mode(fmt, env.mode)
        if how.flush_in:
            a, b = flush(env, fmt, a), flush(env, fmt, b)
        a, b = unify(env.b, a, b)
        step = getattr(env.b, _OPCODES[op])
        bits, nan = _computed(env, op, fmt, how, lambda _, x, y: step(x, y), a, b)
        if env.mode.fp16_ovfl and fmt is F16:
            bits = saturate_f16(env, bits, a, _divisor_as_infinity(env, b) if op == "div" else b)
        return finish(env, how, fmt, bits, nan, a, b)

    return run


@functools.cache
def sqrt(fmt: FloatFormat) -> Op:
    """The square root: ``f(env, x)``."""

    def run(env: Env, x: Value) -> Value:
        how = float_mode(fmt, env.mode)
        if how.flush_in:
            x = flush(env, fmt, x)
        bits, nan = _computed(env, "sqrt", fmt, how, lambda env, v: intrinsic(env, "sqrt", [v]), x)
        return finish(env, how, fmt, bits, nan, x)

    return run


# -- fused multiply-add -----------------------------------------------------------------------------------------------


@functools.cache
def fma(fmt: FloatFormat) -> Op:
    """``a * b + c`` rounded once: ``f(env, a, b, c)``."""
    step = {"f16": _fma_f16, "f32": _fma_f32, "f64": _fma_f64}.get(fmt.name)
    if step is None:
        raise NumericError(f"no fma on {fmt}")

    def run(env: Env, a: Value, b: Value, c: Value) -> Value:
        how = float_mode(fmt, env.mode)
        if how.flush_in:
            a, b, c = flush(env, fmt, a), flush(env, fmt, b), flush(env, fmt, c)
        a, b, c = unify(env.b, a, b, c)
        bits, nan = _computed(env, "fma", fmt, how, step, a, b, c)
        if env.mode.fp16_ovfl and fmt is F16:
            bits = saturate_f16(env, bits, a, b, c)
        return finish(env, how, fmt, bits, nan, a, b, c)

    return run


def _fma_f16(env: Env, a: Value, b: Value, c: Value) -> Value:
    """The product is exact in float; the sum is rounded to odd, and once more to f16."""
    return sum_to_odd(env, env.b.fmul(a, b), c)


def _fma_f32(env: Env, a: Value, b: Value, c: Value) -> Value:
    if has_fma(env):
        return intrinsic(env, "fma", [a, b, c])
    wide = like(a, F64T)
    product = env.b.fmul(env.b.fpext(a, wide), env.b.fpext(b, wide))
    return env.b.fptrunc(sum_to_odd(env, product, env.b.fpext(c, wide)), a.type)


def _fma_f64(env: Env, a: Value, b: Value, c: Value) -> Value:
    if has_fma(env):
        return intrinsic(env, "fma", [a, b, c])
    raise NotNative("fma of f64 on a processor without one")


# -- comparison -------------------------------------------------------------------------------------------------------

_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "lg": "one"}


@functools.cache
def compare(op: str, fmt: FloatFormat, raw: bool = False) -> Op:
    """The comparison ``op`` (eq ne lt le gt ge lg): ``f(env, a, b)`` gives an i1 per lane.

    Only ``ne`` holds when an operand is a NaN. ``raw``: denormals are compared as they are, whatever MODE says.
    """
    if op not in _COMPARE:
        raise NumericError(f"no comparison {op}")
    name = _COMPARE[op]
    operator = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lg": "!="}[op]

    def run(env: Env, a: Value, b: Value) -> Value:
        if not raw and float_mode(fmt, env.mode).flush_in:
            a, b = flush(env, fmt, a), flush(env, fmt, b)
        a, b = unify(env.b, a, b)
        step = env.b.fcmp_unordered if name == "une" else env.b.fcmp_ordered
        return step(operator, as_float(env, fmt, a), as_float(env, fmt, b))

    return run


# -- modifiers --------------------------------------------------------------------------------------------------------


def clamp(env: Env, fmt: FloatFormat, x: Value) -> Value:
    """To [0, 1]; minus zero becomes zero; NaN becomes zero when DX10_CLAMP is set, else it stays."""
    b = env.b
    one = same(x, fmt.bias << fmt.man)
    inside = b.select(b.icmp_unsigned("<", x, one), x, one)
    zero = same(x, 0)
    inside = b.select(b.icmp_signed("<", x, zero), zero, inside)
    return b.select(is_nan(env, fmt, x), zero if env.mode.dx10_clamp else x, inside)


#: Factors of the OMOD field: 1 times 2, 2 times 4, 3 divided by 2.
_OMOD = {1: 1, 2: 2, 3: -1}


def omod(env: Env, fmt: FloatFormat, x: Value, field: int) -> Value:
    """``x`` times 2, times 4 or halved, rounded by MODE; field 0 is the identity."""
    if field == 0:
        return x
    return binary("mul", fmt)(env, x, same(x, (fmt.bias + _OMOD[field]) << fmt.man))


__all__ = [
    "Env", "FloatEnv", "Op", "absolute", "binary", "clamp", "compare", "finish", "flush", "flush_input",
    "flush_output", "fma", "is_denormal", "is_nan", "is_quiet_nan", "is_signaling", "negate", "omod", "sqrt",
]  # fmt: skip
