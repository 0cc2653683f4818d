"""Operations on float bit patterns that need nothing but the format's layout, and the way to LLVM's floats and back.

f16 and bf16 are computed in LLVM's ``float``; f32 and f64 in ``float`` and ``double``.
"""

from __future__ import annotations

from llvmlite import ir

from mockgpu.pcode.llvm.float_env import F32T, F64T, HALF, Env, bits_as, fconst, has_half, rarely
from mockgpu.pcode.llvm.values import NotNative, Value, container, like, resize, same, splat
from mockgpu.pcode.numeric_format import BF16, F16, F32, F64, FloatFormat, float_mode
from mockgpu.pcode.numeric_mode import FloatMode

I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)


# -- tests and masks --------------------------------------------------------------------------------------------------


def magnitude(env: Env, fmt: FloatFormat, x: Value) -> Value:
    return env.b.and_(x, same(x, fmt.magnitude))


def absolute(env: Env, fmt: FloatFormat, x: Value) -> Value:
    return magnitude(env, fmt, x)


def negate(env: Env, fmt: FloatFormat, x: Value) -> Value:
    return env.b.xor(x, same(x, fmt.sign))


def quiet(env: Env, fmt: FloatFormat, x: Value) -> Value:
    return env.b.or_(x, same(x, fmt.quiet))


def is_negative(env: Env, fmt: FloatFormat, x: Value) -> Value:
    """The sign bit as a flag."""
    if fmt.bits == container(fmt.bits):
        return env.b.icmp_signed("<", x, same(x, 0))
    return env.b.icmp_unsigned("!=", env.b.and_(x, same(x, fmt.sign)), same(x, 0))


def is_nan(env: Env, fmt: FloatFormat, x: Value) -> Value:
    b = env.b
    if fmt is F32 or fmt is F64:
        value = as_float(env, fmt, x)
        return b.fcmp_unordered("uno", value, value)
    if fmt.special == "ieee":
        return b.icmp_unsigned(">", magnitude(env, fmt, x), same(x, fmt.inf))
    if fmt.special == "fn":
        return b.icmp_unsigned("==", magnitude(env, fmt, x), same(x, fmt.nan))
    if fmt.special == "fnuz":
        return b.icmp_unsigned("==", x, same(x, fmt.nan))
    return splat(like(x, ir.IntType(1)), 0)


def is_zero(env: Env, fmt: FloatFormat, x: Value) -> Value:
    value = x if fmt.special == "fnuz" else magnitude(env, fmt, x)
    return env.b.icmp_unsigned("==", value, same(x, 0))


def is_inf(env: Env, fmt: FloatFormat, x: Value) -> Value:
    if fmt.special != "ieee":
        return splat(like(x, ir.IntType(1)), 0)
    return env.b.icmp_unsigned("==", magnitude(env, fmt, x), same(x, fmt.inf))


def is_finite(env: Env, fmt: FloatFormat, x: Value) -> Value:
    return env.b.icmp_unsigned("<", magnitude(env, fmt, x), same(x, fmt.inf))


def has_quiet_bit(env: Env, fmt: FloatFormat, x: Value) -> Value:
    return env.b.icmp_unsigned("!=", env.b.and_(x, same(x, fmt.quiet)), same(x, 0))


def is_signaling(env: Env, fmt: FloatFormat, x: Value) -> Value:
    return env.b.and_(is_nan(env, fmt, x), env.b.not_(has_quiet_bit(env, fmt, x)))


def is_quiet_nan(env: Env, fmt: FloatFormat, x: Value) -> Value:
    return env.b.and_(is_nan(env, fmt, x), has_quiet_bit(env, fmt, x))


def is_denormal(env: Env, fmt: FloatFormat, x: Value) -> Value:
    """A number below the smallest normal one, and not zero."""
    below = env.b.sub(magnitude(env, fmt, x), same(x, 1))
    return env.b.icmp_unsigned("<", below, same(x, fmt.min_normal - 1))


# -- denormals --------------------------------------------------------------------------------------------------------


def flush(env: Env, fmt: FloatFormat, x: Value) -> Value:
    """``x`` with denormals replaced by the zero of their sign."""
    b = env.b
    field = b.and_(x, same(x, fmt.magnitude & ~(fmt.min_normal - 1)))
    tiny = b.icmp_unsigned("==", field, same(x, 0))
    return b.select(tiny, b.and_(x, same(x, fmt.sign)), x)


def flush_input(env: Env, fmt: FloatFormat, x: Value) -> Value:
    """``x`` as an instruction that obeys MODE sees it."""
    return flush(env, fmt, x) if float_mode(fmt, env.mode).flush_in else x


def flush_output(env: Env, fmt: FloatFormat, x: Value) -> Value:
    """``x`` as an instruction that obeys MODE returns it."""
    return flush(env, fmt, x) if float_mode(fmt, env.mode).flush_out else x


# -- NaN results ------------------------------------------------------------------------------------------------------


def quieted(env: Env, fmt: FloatFormat, nan: Value, bits: Value, *operands: Value) -> Value:
    """``bits`` with the NaN results (``nan``) replaced by the first NaN operand, quiet, or the default NaN."""
    b = env.b
    value: Value = same(bits, fmt.nan)
    for x in reversed(operands):
        value = b.select(is_nan(env, fmt, x), quiet(env, fmt, x), value)
    return b.select(nan, value, bits)


def finish(env: Env, how: FloatMode, fmt: FloatFormat, bits: Value, nan: Value, *operands: Value) -> Value:
    """A result with its NaN (``nan``) made right and its denormals flushed where MODE says so."""
    defer = getattr(env, "defer", None)
    if defer is not None:
        out = flush(env, fmt, bits) if how.flush_out else bits
        defer.result(out, nan, operands)
        return out
    bits = rarely(env, nan, bits, lambda: quieted(env, fmt, nan, bits, *operands))
    return flush(env, fmt, bits) if how.flush_out else bits


def unordered(env: Env, value: Value) -> Value:
    """Whether an LLVM float is a NaN."""
    return env.b.fcmp_unordered("uno", value, value)


# -- LLVM floats ------------------------------------------------------------------------------------------------------


def as_float(env: Env, fmt: FloatFormat, x: Value) -> Value:
    """The number of a pattern as LLVM's float (f16, bf16, f32) or double (f64); exact, NaN payloads aside."""
    b = env.b
    if fmt is F32 or fmt is F64:
        return bits_as(env, x, F32T if fmt is F32 else F64T)
    if fmt is F16:
        return half_to_float(env, x)
    if fmt is BF16:
        return bits_as(env, b.shl(resize(b, x, 32), splat(like(x, I32), 16)), F32T)
    raise NotNative(f"arithmetic on {fmt}")


def as_bits(env: Env, fmt: FloatFormat, value: Value) -> Value:
    """The pattern of an LLVM float, rounded to nearest even where ``fmt`` is f16 or bf16; a NaN gives some NaN."""
    if fmt is F32:
        return bits_as(env, value, I32)
    if fmt is F64:
        return bits_as(env, value, I64)
    if fmt is F16:
        return float_to_half(env, value)
    if fmt is BF16:
        return float_to_bf16(env, value)
    raise NotNative(f"arithmetic on {fmt}")


def half_to_float(env: Env, x: Value) -> Value:
    b = env.b
    if has_half(env):
        return b.fpext(bits_as(env, x, HALF), like(x, F32T))
    wide = resize(b, x, 32)
    size = b.shl(b.and_(wide, same(wide, 0x7FFF)), same(wide, 13))
    number = bits_as(env, size, F32T)
    number = bits_as(env, b.fmul(number, fconst(number, 2.0**112)), I32)
    special = b.icmp_unsigned(">=", size, same(wide, 0x7C00 << 13))
    number = b.select(special, b.or_(size, same(wide, 0x7F800000)), number)
    sign = b.shl(b.and_(wide, same(wide, 0x8000)), same(wide, 16))
    return bits_as(env, b.or_(number, sign), F32T)


def float_to_half(env: Env, value: Value) -> Value:
    b = env.b
    if has_half(env):
        return bits_as(env, b.fptrunc(value, like(value, HALF)), I16)
    bits = bits_as(env, value, I32)
    size = b.and_(bits, same(bits, 0x7FFFFFFF))
    odd = b.and_(b.lshr(size, same(bits, 13)), same(bits, 1))
    normal = b.lshr(b.add(b.add(size, odd), same(bits, ((15 - 127) << 23) + 0xFFF)), same(bits, 13))
    shifted = b.fadd(bits_as(env, size, F32T), fconst(value, 0.5))
    denormal = b.sub(bits_as(env, shifted, I32), same(bits, 0x3F000000))
    out = b.select(b.icmp_unsigned("<", size, same(bits, 113 << 23)), denormal, normal)
    out = b.select(b.icmp_unsigned(">=", size, same(bits, 143 << 23)), same(bits, F16.inf), out)
    out = b.select(b.icmp_unsigned(">", size, same(bits, F32.inf)), same(bits, F16.nan), out)
    sign = b.and_(b.lshr(bits, same(bits, 16)), same(bits, 0x8000))
    return resize(b, b.or_(out, sign), 16)


def float_to_bf16(env: Env, value: Value) -> Value:
    b = env.b
    bits = bits_as(env, value, I32)
    odd = b.and_(b.lshr(bits, same(bits, 16)), same(bits, 1))
    rounded = b.lshr(b.add(b.add(bits, odd), same(bits, 0x7FFF)), same(bits, 16))
    cut = b.or_(b.lshr(bits, same(bits, 16)), same(bits, BF16.quiet))
    return resize(b, b.select(unordered(env, value), cut, rounded), 16)
