"""Rounding to odd with LLVM floats: what makes two roundings equal one (see :mod:`mockgpu.pcode.numeric_round`)."""

from __future__ import annotations

from llvmlite import ir

from mockgpu.pcode.llvm.float_env import F32T, Env, bits_as, fconst
from mockgpu.pcode.llvm.values import Value, same


def integer_of(value: Value) -> ir.IntType:
    """The integer as wide as an LLVM float."""
    kind = value.type.element if isinstance(value.type, ir.VectorType) else value.type
    return ir.IntType(32 if kind == F32T else 64)


def float_of(value: Value) -> ir.Type:
    return value.type.element if isinstance(value.type, ir.VectorType) else value.type


def two_sum(env: Env, a: Value, c: Value) -> tuple[Value, Value]:
    """``a + c`` rounded, and the exact rest (Knuth)."""
    b = env.b
    total = b.fadd(a, c)
    part = b.fsub(total, a)
    return total, b.fadd(b.fsub(a, b.fsub(total, part)), b.fsub(c, part))


def two_product(env: Env, x: Value, y: Value) -> tuple[Value, Value]:
    """``x * y`` of doubles rounded, and the exact rest (Dekker); nothing may overflow or underflow on the way."""
    b = env.b
    total = b.fmul(x, y)
    xh, xl = _split(env, x)
    yh, yl = _split(env, y)
    rest = b.fsub(b.fsub(total, b.fmul(xh, yh)), b.fmul(xl, yh))
    return total, b.fsub(b.fmul(xl, yl), b.fsub(rest, b.fmul(xh, yl)))


def _split(env: Env, x: Value) -> tuple[Value, Value]:
    b = env.b
    big = b.fmul(fconst(x, 134217729.0), x)
    high = b.fsub(big, b.fsub(big, x))
    return high, b.fsub(x, high)


def to_odd(env: Env, value: Value, rest: Value) -> Value:
    """``value + rest`` (``rest`` having the sign of the exact rest) rounded to odd; a NaN ``rest`` counts as none."""
    b = env.b
    bits = bits_as(env, value, integer_of(value))
    top = {32: 0x7F800000, 64: 0x7FF << 52}[integer_of(value).width]
    inexact = b.fcmp_ordered("!=", rest, fconst(rest, 0.0))
    even = b.icmp_unsigned("==", b.and_(bits, same(bits, 1)), same(bits, 0))
    finite = b.icmp_unsigned("!=", b.and_(bits, same(bits, top)), same(bits, top))
    rest_bits = bits_as(env, rest, integer_of(rest))
    shrinks = b.icmp_signed("<", b.xor(bits, rest_bits), same(bits, 0))
    moved = b.select(shrinks, b.sub(bits, same(bits, 1)), b.add(bits, same(bits, 1)))
    fixed = b.select(b.and_(b.and_(inexact, even), finite), moved, bits)
    return bits_as(env, fixed, float_of(value))


def sum_to_odd(env: Env, a: Value, c: Value) -> Value:
    """``a + c`` rounded to odd."""
    total, rest = two_sum(env, a, c)
    return to_odd(env, total, rest)
