"""Conversions of numbers as LLVM IR: float to float, to and from integers. The twin of numeric_convert.

Rounding follows MODE by the destination's format; denormals are kept, as an instruction flushes operands and results.
"""

from __future__ import annotations

from llvmlite import ir as llvm

from mockgpu.pcode.ir import Type
from mockgpu.pcode.llvm import integers
from mockgpu.pcode.llvm.float_bits import as_bits, as_float, is_nan, is_zero, unordered
from mockgpu.pcode.llvm.float_env import F32T, F64T, Env, bits_as, fconst, intrinsic, rarely
from mockgpu.pcode.llvm.float_odd import sum_to_odd
from mockgpu.pcode.llvm.values import NotNative, Value, container, like, resize, same, splat, width_of
from mockgpu.pcode.numeric_format import BF16, F16, F32, F64, FloatFormat, float_mode, format_of, on_part
from mockgpu.pcode.numeric_mode import Round

I16, I32, I64 = (llvm.IntType(n) for n in (16, 32, 64))
_WIDE = ("f16", "bf16", "f32", "f64")


def cast_floats(env: Env, source: Type, target: Type, x: Value) -> Value:
    """A Cast of which one side is a float type."""
    if source.is_float and target.is_float:
        return float_to_float(env, format_of(source), format_of(target), x)
    if source.is_float:
        fmt = format_of(source)
        if target.bits == 1:
            return env.b.not_(is_zero(env, fmt, x))
        return float_to_int(env, fmt, target.bits, target.kind == "i", x)
    return int_to_float(env, source.bits, source.kind == "i", format_of(target), x)


# -- float to float ---------------------------------------------------------------------------------------------------


def float_to_float(env: Env, src: FloatFormat, dst: FloatFormat, x: Value) -> Value:
    """One rounding. A NaN keeps its sign and the payload bits that fit, and comes out quiet."""
    if src is dst:
        return x
    src, dst = on_part(src, env.mode), on_part(dst, env.mode)
    out = from_float(env, dst, number(env, src, x))
    if src.special == "ieee" and src.bits > 8:
        out = rarely(env, is_nan(env, src, x), out, lambda: _with_nan(env, src, dst, x, out))
    return out


def _with_nan(env: Env, src: FloatFormat, dst: FloatFormat, x: Value, out: Value) -> Value:
    return env.b.select(is_nan(env, src, x), _convert_nan(env, src, dst, x), out)


def _convert_nan(env: Env, src: FloatFormat, dst: FloatFormat, x: Value) -> Value:
    b = env.b
    word = container(dst.bits)
    if dst.special == "fnuz":
        return splat(like(x, llvm.IntType(word)), dst.nan)
    wide = resize(b, x, 64)
    sign = b.shl(b.lshr(wide, same(wide, src.bits - 1)), same(wide, dst.bits - 1))
    if dst.special != "ieee":
        return resize(b, b.or_(sign, same(wide, dst.nan)), word)
    payload = b.and_(wide, same(wide, src.min_normal - 1))
    more = dst.man - src.man
    payload = b.shl(payload, same(wide, more)) if more > 0 else b.lshr(payload, same(wide, -more))
    return resize(b, b.or_(b.or_(sign, same(wide, dst.inf | dst.quiet)), payload), word)


def number(env: Env, fmt: FloatFormat, x: Value) -> Value:
    """The number of a pattern as float, or double for f64; exact, a NaN is some NaN."""
    return as_float(env, fmt, x) if fmt.name in _WIDE else _small(env, fmt, x)


def _small(env: Env, fmt: FloatFormat, x: Value) -> Value:
    """A format of at most 8 bits."""
    b = env.b
    wide = resize(b, x, 32)
    size = b.and_(wide, same(wide, fmt.magnitude))
    normal = b.add(b.shl(size, same(wide, 23 - fmt.man)), same(wide, (127 - fmt.bias) << 23))
    tiny = b.fmul(b.uitofp(size, like(size, F32T)), splat(like(size, F32T), 2.0 ** (1 - fmt.bias - fmt.man)))
    below = b.icmp_unsigned("<", size, same(size, fmt.min_normal))
    bits = b.select(below, bits_as(env, tiny, I32), normal)
    if fmt.special == "ieee":
        bits = b.select(b.icmp_unsigned("==", size, same(size, fmt.inf)), same(size, F32.inf), bits)
        bits = b.select(b.icmp_unsigned(">", size, same(size, fmt.inf)), same(size, F32.nan), bits)
    elif fmt.special == "fn":
        bits = b.select(b.icmp_unsigned("==", size, same(size, fmt.nan)), same(size, F32.nan), bits)
    sign = b.shl(b.and_(wide, same(wide, fmt.sign)), same(wide, 32 - fmt.bits))
    bits = b.or_(bits, sign)
    if fmt.special == "fnuz":
        whole = b.and_(wide, same(wide, (1 << fmt.bits) - 1))
        bits = b.select(b.icmp_unsigned("==", whole, same(whole, fmt.nan)), same(bits, F32.nan), bits)
    return bits_as(env, bits, F32T)


def from_float(env: Env, fmt: FloatFormat, value: Value) -> Value:
    """A float or double rounded to ``fmt`` as MODE says; FP16_OVFL saturates f16 and the 8-bit formats.

    A NaN becomes some NaN.
    """
    b, how = env.b, float_mode(fmt, env.mode)
    saturate = env.mode.fp16_ovfl and fmt.bits <= 16 and fmt is not BF16
    is_double = integers_width(value) == 64
    if fmt is F64:
        return as_bits(env, F64, value if is_double else b.fpext(value, like(value, F64T)))
    if fmt is F32 and not is_double:
        return as_bits(env, F32, value)
    if how.nearest and not saturate:
        if fmt is F32:
            return as_bits(env, F32, b.fptrunc(value, like(value, F32T)))
        if fmt in (F16, BF16):
            return as_bits(env, fmt, to_float_odd(env, value) if is_double else value)
    return round_to(env, fmt, how.round, value, saturate)


def integers_width(value: Value) -> int:
    """Bits of an LLVM float."""
    kind = value.type.element if isinstance(value.type, llvm.VectorType) else value.type
    return 64 if kind == F64T else 32


def to_float_odd(env: Env, value: Value) -> Value:
    """A double as float, rounded to odd, so that rounding it once more to a narrower format is right."""
    b = env.b
    near = b.fptrunc(value, like(value, F32T))
    back = b.fpext(near, value.type)
    bits = bits_as(env, near, I32)
    size, exact = bits_as(env, value, I64), bits_as(env, back, I64)
    magnitude = same(size, F64.magnitude)
    above = b.icmp_unsigned(">", b.and_(exact, magnitude), b.and_(size, magnitude))
    inexact = b.fcmp_ordered("!=", back, value)
    cut = b.sub(bits, b.zext(above, bits.type))
    return bits_as(env, b.select(inexact, b.or_(cut, same(bits, 1)), bits), F32T)


def round_to(env: Env, fmt: FloatFormat, rounding: Round, value: Value, saturate: bool) -> Value:
    """A float or double as a pattern of any narrower format, in any rounding mode: numeric_round.round_double."""
    b = env.b
    wide, word = (F64, I64) if integers_width(value) == 64 else (F32, I32)
    bits = bits_as(env, value, word)
    negative = b.icmp_signed("<", bits, same(bits, 0))
    magnitude = b.and_(bits, same(bits, wide.magnitude))
    rounded = _round_magnitude(env, wide, fmt, rounding, magnitude, negative)
    over = b.icmp_unsigned(">", rounded, same(bits, fmt.max))
    infinite = b.icmp_unsigned("==", magnitude, same(bits, wide.inf))
    rounded = b.select(over, _overflow(env, fmt, rounding, infinite, negative, bits, saturate), rounded)
    sign = b.shl(b.lshr(bits, same(bits, wide.bits - 1)), same(bits, fmt.bits - 1))
    out = b.or_(rounded, sign)
    if fmt.special == "fnuz":
        zero, nan = (b.icmp_unsigned("==", rounded, same(bits, v)) for v in (0, fmt.nan))
        out = b.select(b.or_(zero, nan), rounded, out)
    nan = b.icmp_unsigned(">", magnitude, same(bits, wide.inf))
    out = b.select(nan, _narrow_nan(env, wide, fmt, bits, sign), out)
    return resize(b, out, container(fmt.bits))


def _round_magnitude(
    env: Env, wide: FloatFormat, fmt: FloatFormat, rounding: Round, magnitude: Value, negative: Value
) -> Value:
    b = env.b
    field = b.lshr(magnitude, same(magnitude, wide.man))
    whole = b.icmp_unsigned("!=", field, same(field, 0))
    hidden = b.select(whole, same(field, wide.min_normal), same(field, 0))
    mantissa = b.or_(b.and_(magnitude, same(magnitude, wide.min_normal - 1)), hidden)
    exponent = b.sub(integers.call(b, "umax", field, same(field, 1)), same(field, wide.bias))
    lowest = 1 - fmt.bias
    below = integers.call(b, "smax", b.sub(same(field, lowest), exponent), same(field, 0))
    shift = integers.call(b, "umin", b.add(below, same(field, wide.man - fmt.man)), same(field, wide.man + 7))
    kept = b.lshr(mantissa, shift)
    rest = b.sub(mantissa, b.shl(kept, shift))
    up = _round_up(env, rounding, kept, rest, shift, negative)
    if up is not None:
        kept = b.add(kept, b.zext(up, kept.type))
    steps = integers.call(b, "smax", b.sub(exponent, same(field, lowest)), same(field, 0))
    return b.add(kept, b.shl(steps, same(steps, fmt.man)))


def _round_up(env: Env, rounding: Round, kept: Value, rest: Value, shift: Value, negative: Value) -> Value | None:
    b = env.b
    if rounding is Round.ZERO:
        return None
    if rounding is Round.NEAREST_EVEN:
        half = b.shl(same(rest, 1), b.sub(shift, same(shift, 1)))
        odd = b.icmp_unsigned("!=", b.and_(kept, same(kept, 1)), same(kept, 0))
        tie = b.and_(b.icmp_unsigned("==", rest, half), odd)
        return b.or_(b.icmp_unsigned(">", rest, half), tie)
    away = negative if rounding is Round.MINUS_INF else b.not_(negative)
    return b.and_(b.icmp_unsigned("!=", rest, same(rest, 0)), away)


def _overflow(
    env: Env, fmt: FloatFormat, rounding: Round, infinite: Value, negative: Value, bits: Value, saturate: bool
) -> Value:
    b = env.b
    top = {"ieee": fmt.inf, "fn": fmt.nan, "fnuz": fmt.nan, "none": fmt.max}[fmt.special]
    if rounding is Round.NEAREST_EVEN:
        away = splat(infinite.type, 1)
    elif rounding is Round.ZERO:
        away = splat(infinite.type, 0)
    else:
        away = negative if rounding is Round.MINUS_INF else b.not_(negative)
    highest, largest = same(bits, top), same(bits, fmt.max)
    if fmt.special == "ieee":
        return b.select(infinite if saturate else b.or_(infinite, away), highest, largest)
    return largest if saturate else b.select(b.or_(infinite, away), highest, largest)


def _narrow_nan(env: Env, wide: FloatFormat, fmt: FloatFormat, bits: Value, sign: Value) -> Value:
    b = env.b
    if fmt.special == "fnuz":
        return same(bits, fmt.nan)
    if fmt.special != "ieee":
        return b.or_(sign, same(bits, fmt.nan))
    payload = b.lshr(b.and_(bits, same(bits, wide.min_normal - 1)), same(bits, wide.man - fmt.man))
    return b.or_(b.or_(sign, same(bits, fmt.inf | fmt.quiet)), payload)


# -- integers ---------------------------------------------------------------------------------------------------------


def float_to_int(env: Env, src: FloatFormat, bits: int, signed: bool, x: Value) -> Value:
    """Truncation toward zero; out of range saturates, NaN gives 0."""
    if bits > 64:
        raise NotNative(f"conversion of {src} to {bits} bits")
    return saturated(env, number(env, on_part(src, env.mode), x), bits, signed)


def saturated(env: Env, value: Value, bits: int, signed: bool) -> Value:
    """An LLVM float truncated to an integer of ``bits`` (up to 64) bits, saturating; NaN gives 0.

    LLVM's saturating conversions are not vectorised, and its plain ones are undefined out of range: the value is
    brought into range first.
    """
    b = env.b
    lowest = -(1 << (bits - 1)) if signed else 0
    highest = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    inside, exact = _within(env, value, lowest, highest)
    width = 64 if bits > 32 else 32
    kind = like(value, llvm.IntType(width))
    whole = (b.fptosi if signed or bits < width else b.fptoui)(inside, kind)
    if not exact:
        over = b.fcmp_ordered(">=", value, fconst(value, float(highest + 1)))
        whole = b.select(over, same(whole, highest), whole)
    whole = b.select(unordered(env, value), same(whole, 0), whole)
    return whole if bits == width else integers.cut(b, whole, bits)


def _within(env: Env, value: Value, lowest: int, highest: int) -> tuple[Value, bool]:
    """The value limited to a range, whose upper end is rounded down to a float; and whether it had to be."""
    b = env.b
    spare = max(highest.bit_length() - (53 if integers_width(value) == 64 else 24), 0)
    limit = highest >> spare << spare
    low, high = fconst(value, float(lowest)), fconst(value, float(limit))
    above = b.select(b.fcmp_ordered(">", value, low), value, low)
    return b.select(b.fcmp_ordered("<", above, high), above, high), limit == highest


def int_to_float(env: Env, bits: int, signed: bool, dst: FloatFormat, x: Value) -> Value:
    """One rounding."""
    if bits > 64:
        raise NotNative(f"conversion of {bits} bits to {dst}")
    b, dst = env.b, on_part(dst, env.mode)
    whole = integers.extend(b, x, bits) if signed else x
    if width_of(whole) == 1:
        whole, signed = resize(b, whole, 32), False
    convert = b.sitofp if signed else b.uitofp
    nearest = float_mode(dst, env.mode).nearest
    if dst is F32 and nearest:
        return as_bits(env, F32, convert(whole, like(whole, F32T)))
    if dst in (F16, BF16) and bits <= 24:
        return from_float(env, dst, convert(whole, like(whole, F32T)))
    if bits > 53 and dst is not F64:
        return from_float(env, dst, _wide_to_odd(env, whole, signed))
    if bits > 53 and not nearest:
        raise NotNative(f"conversion of {bits} bits to {dst} with {float_mode(dst, env.mode).round.name}")
    return from_float(env, dst, convert(whole, like(whole, F64T)))


def _wide_to_odd(env: Env, whole: Value, signed: bool) -> Value:
    """An integer of up to 64 bits as double, rounded to odd."""
    b = env.b
    low = b.and_(whole, same(whole, (1 << 11) - 1))
    high = b.sub(whole, low)
    kind = like(whole, F64T)
    return sum_to_odd(env, (b.sitofp if signed else b.uitofp)(high, kind), b.uitofp(low, kind))


def to_normalized(env: Env, src: FloatFormat, bits: int, signed: bool, x: Value) -> Value:
    """snorm or unorm: clamped, scaled, rounded to nearest even; NaN gives 0."""
    b = env.b
    value = number(env, src, x)
    if integers_width(value) == 32:
        value = b.fpext(value, like(value, F64T))
    scale = float((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    low, high = fconst(value, -1.0 if signed else 0.0), fconst(value, 1.0)
    inside = b.select(b.fcmp_ordered("<", value, low), low, value)
    inside = b.select(b.fcmp_ordered(">", inside, high), high, inside)
    rounded = intrinsic(env, "roundeven", [b.fmul(inside, fconst(value, scale))])
    return saturated(env, rounded, bits, signed)


__all__ = [
    "cast_floats",
    "float_to_float",
    "float_to_int",
    "from_float",
    "int_to_float",
    "number",
    "to_normalized",
    "unordered",
]
