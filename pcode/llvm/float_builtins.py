"""The builtin functions on floats as LLVM IR, made for the types of their arguments: the twin of builtins' table."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir as llvm

from mockgpu.pcode import elementary
from mockgpu.pcode import numeric as num
from mockgpu.pcode.ir import Type
from mockgpu.pcode.llvm import float_bits as bits_of
from mockgpu.pcode.llvm import integers, transcendental
from mockgpu.pcode.llvm.convert import float_to_float, from_float, number, to_normalized
from mockgpu.pcode.llvm.convert_small import small_functions
from mockgpu.pcode.llvm.float_bits import as_bits, as_float, finish, flush, flush_input, is_nan, quiet, unordered
from mockgpu.pcode.llvm.float_env import F32T, F64T, Env, FloatEnv, bits_as, fconst, intrinsic, rarely
from mockgpu.pcode.llvm.float_odd import sum_to_odd, two_product
from mockgpu.pcode.llvm.float_ops import binary, fma, require_nearest, sqrt
from mockgpu.pcode.llvm.values import NotNative, Value, like, resize, same, unify
from mockgpu.pcode.numeric_format import F16, F32, F64, FloatFormat, float_mode

Function: TypeAlias = Callable[..., Value]
Maker: TypeAlias = Callable[[tuple[Type, ...]], Function]
I32, I64 = llvm.IntType(32), llvm.IntType(64)


def _of_format(step: Callable[[FloatFormat], Function]) -> Maker:
    return lambda args: step(num.format_of(args[0]))


def _plain(step: Callable[[Env, FloatFormat, Value], Value]) -> Maker:
    return _of_format(lambda fmt: lambda env, x: step(env, num.on_part(fmt, env.mode), x))


def _exponent(env: Env, fmt: FloatFormat, x: Value) -> Value:
    b = env.b
    field = b.and_(b.lshr(x, same(x, fmt.man)), same(x, (1 << fmt.exp) - 1))
    return resize(b, field, 32)


# -- rounding to integers ---------------------------------------------------------------------------------------------

#: Added to an f16 number and taken away again in float, it rounds to the nearest integer, ties to even.
_SHIFT = 1.5 * 2.0**23


def _rounding(name: str) -> Maker:
    """floor, ceil, trunc, rndne: exact in every format."""

    def make(fmt: FloatFormat) -> Function:
        def run(env: Env, x: Value) -> Value:
            how = float_mode(fmt, env.mode)
            if how.flush_in:
                x = flush(env, fmt, x)
            value = as_float(env, fmt, x)
            value = _round_f16(env, name, value) if fmt is F16 else intrinsic(env, name, [value])
            return finish(env, how, fmt, as_bits(env, fmt, value), unordered(env, value), x)

        return run

    return _of_format(make)


def _round_f16(env: Env, name: str, x: Value) -> Value:
    """By arithmetic in float: LLVM narrows the intrinsics to half between conversions, which it does not vectorise."""
    b, zero, one = env.b, fconst(x, 0.0), fconst(x, 1.0)
    given = intrinsic(env, "fabs", [x]) if name == "trunc" else x
    whole = b.fsub(b.fadd(given, fconst(x, _SHIFT)), fconst(x, _SHIFT))
    if name in ("floor", "trunc"):
        whole = b.fsub(whole, b.select(b.fcmp_ordered(">", whole, given), one, zero))
    if name == "ceil":
        whole = b.fadd(whole, b.select(b.fcmp_ordered("<", whole, given), one, zero))
    return intrinsic(env, "copysign", [whole, x])


def _fract(fmt: FloatFormat) -> Function:
    below_one = ((fmt.bias - 1) << fmt.man) | (fmt.min_normal - 1)
    subtract = binary("sub", fmt)
    down = _rounding("floor")(({"f16": Type("f", 16), "f32": Type("f", 32), "f64": Type("f", 64)}[fmt.name],))

    def run(env: Env, x: Value) -> Value:
        out = subtract(env, x, down(env, x))
        one = env.b.icmp_unsigned("==", out, same(out, below_one + 1))
        return env.b.select(one, same(out, below_one), out)

    return run


def _is_even(env: Env, fmt: FloatFormat, x: Value) -> Value:
    b, value = env.b, as_float(env, fmt, x)
    half = intrinsic(env, "trunc", [b.fmul(value, fconst(value, 0.5))])
    whole = b.fmul(half, fconst(value, 2.0))
    return b.and_(b.fcmp_ordered("==", whole, value), bits_of.is_finite(env, fmt, x))


# -- taking apart -----------------------------------------------------------------------------------------------------


def _normalised(env: Env, fmt: FloatFormat, x: Value) -> tuple[Value, Value]:
    """(pattern of a number with a hidden bit, what was added to its exponent) of finite numbers."""
    b = env.b
    steps = fmt.man + 1
    if fmt is F16:
        wide = bits_as(env, as_float(env, F16, x), I32)  # every f16 is a normal f32
        return wide, same(resize(b, x, 32), 0)
    value = as_float(env, fmt, x)
    tiny = bits_of.is_denormal(env, fmt, x)
    scaled = bits_as(env, b.fmul(value, fconst(value, 2.0**steps)), llvm.IntType(fmt.bits))
    bits = b.select(tiny, scaled, x)
    return bits, b.select(tiny, same(bits, steps), same(bits, 0))


def _mantissa(fmt: FloatFormat) -> Function:
    inner = F32 if fmt is F16 else fmt

    def run(env: Env, x: Value) -> Value:
        b = env.b
        x = flush_input(env, fmt, x)
        bits, _ = _normalised(env, fmt, x)
        kept = b.and_(bits, same(bits, inner.sign | inner.min_normal - 1))
        part = b.or_(kept, same(bits, (inner.bias - 1) << inner.man))
        if fmt is F16:
            part = as_bits(env, F16, as_float(env, F32, part))
        whole = b.and_(bits_of.is_finite(env, fmt, x), b.not_(bits_of.is_zero(env, fmt, x)))
        out = b.select(whole, part, x)
        return b.select(is_nan(env, fmt, x), quiet(env, fmt, x), out)

    return run


def _frexp_exponent(fmt: FloatFormat) -> Function:
    inner = F32 if fmt is F16 else fmt

    def run(env: Env, x: Value) -> Value:
        b = env.b
        x = flush_input(env, fmt, x)
        bits, added = _normalised(env, fmt, x)
        field = resize(b, b.and_(b.lshr(bits, same(bits, inner.man)), same(bits, (1 << inner.exp) - 1)), 32)
        power = b.sub(b.sub(field, same(field, inner.bias - 1)), resize(b, added, 32))
        whole = b.and_(bits_of.is_finite(env, fmt, x), b.not_(bits_of.is_zero(env, fmt, x)))
        return b.select(whole, power, same(power, 0))

    return run


# -- scaling ----------------------------------------------------------------------------------------------------------


def _ldexp(args: tuple[Type, ...]) -> Function:
    fmt, power_bits = num.format_of(args[0]), args[1].bits

    def run(env: Env, x: Value, power: Value) -> Value:
        how = float_mode(fmt, env.mode)
        if how.flush_in:
            x = flush(env, fmt, x)
        x, power = unify(env.b, x, power)
        n = integers.extend(env.b, power, power_bits)
        if fmt is F64:
            require_nearest(how)
            bits = _scale_f64(env, x, n)
        else:
            wide = env.b.fpext(as_float(env, fmt, x), like(x, F64T))
            bits = from_float(env, fmt, scaled(env, wide, n, 600))
        return finish(env, how, fmt, bits, is_nan(env, fmt, x), x)

    return run


def scaled(env: Env, value: Value, n: Value, limit: int) -> Value:
    """A double times ``2**n``, with ``n`` kept within ``limit``: exact where nothing overflows or underflows."""
    b = env.b
    if n.type != like(value, I64):
        n = b.sext(n, like(value, I64))
    n = integers.call(b, "smin", integers.call(b, "smax", n, same(n, -limit)), same(n, limit))
    factor = b.shl(b.add(n, same(n, 1023)), same(n, 52))
    return b.fmul(value, bits_as(env, factor, F64T))


def _scale_f64(env: Env, x: Value, n: Value) -> Value:
    """Rounded once: the mantissa is put at its exponent, 64 steps too high where the result is a denormal."""
    b = env.b
    n = n if n.type == x.type else b.sext(n, x.type)
    bits, added = _normalised(env, F64, x)
    field = b.and_(b.lshr(bits, same(bits, 52)), same(bits, 0x7FF))
    n = integers.call(b, "smin", integers.call(b, "smax", n, same(n, -5000)), same(n, 5000))
    total = b.add(b.sub(field, added), n)
    low = b.icmp_signed("<", total, same(total, 1))
    raised = integers.call(b, "smax", b.add(total, same(total, 64)), same(total, 1))
    placed = integers.call(b, "smin", b.select(low, raised, total), same(total, 0x7FF))
    kept = b.and_(bits, same(bits, F64.sign | (1 << 52) - 1))
    whole = b.or_(kept, b.shl(placed, same(placed, 52)))
    down = bits_as(env, b.fmul(bits_as(env, whole, F64T), fconst(bits_as(env, whole, F64T), 2.0**-64)), I64)
    over = b.icmp_signed(">", total, same(total, 0x7FE))
    infinity = b.or_(b.and_(bits, same(bits, F64.sign)), same(bits, F64.inf))
    out = b.select(over, infinity, b.select(low, down, whole))
    unchanged = b.or_(bits_of.is_zero(env, F64, x), b.not_(bits_of.is_finite(env, F64, x)))
    return b.select(unchanged, x, out)


def _fma_ldexp(fmt: FloatFormat) -> Function:
    """f32: the product is exact in double, the sum rounded to odd, the scaling exact; one rounding is left."""
    if fmt is not F32:
        raise NotNative(f"fma_ldexp of {fmt}")

    def run(env: Env, x: Value, y: Value, z: Value, power: Value) -> Value:
        b, how = env.b, float_mode(fmt, env.mode)
        require_nearest(how)
        if how.flush_in:
            x, y, z = flush(env, fmt, x), flush(env, fmt, y), flush(env, fmt, z)
        x, y, z, power = unify(b, x, y, z, power)
        wide = like(x, F64T)
        p, q, r = (b.fpext(as_float(env, fmt, v), wide) for v in (x, y, z))
        value = scaled(env, sum_to_odd(env, b.fmul(p, q), r), power, 600)
        bits = from_float(env, fmt, value)
        return finish(env, how, fmt, bits, is_nan(env, fmt, bits), x, y, z)

    return run


# -- minimum and maximum ----------------------------------------------------------------------------------------------


def _order(env: Env, fmt: FloatFormat, x: Value) -> Value:
    """The magnitude's bits flipped below zero: integers in the order of the numbers, minus zero below zero."""
    b = env.b
    return b.xor(x, b.and_(b.ashr(x, same(x, fmt.bits - 1)), same(x, fmt.magnitude)))


def _by_order(env: Env, fmt: FloatFormat, largest: bool, x: Value, y: Value) -> tuple[Value, Value]:
    """The number chosen by integers, and where an operand is a NaN."""
    b = env.b
    first = b.icmp_signed(">" if largest else "<", _order(env, fmt, x), _order(env, fmt, y))
    return b.select(first, x, y), b.or_(is_nan(env, fmt, x), is_nan(env, fmt, y))


def _by_value(env: Env, fmt: FloatFormat, largest: bool, x: Value, y: Value) -> tuple[Value, Value]:
    """The same by floats: equal operands are the same pattern, or zeros, whose signs the bitwise operation decides."""
    b = env.b
    p, q = as_float(env, fmt, x), as_float(env, fmt, y)
    chosen = b.select(b.fcmp_ordered(">" if largest else "<", p, q), p, q)
    equal = b.and_(x, y) if largest else b.or_(x, y)
    out = b.select(b.fcmp_ordered("==", p, q), equal, as_bits(env, fmt, chosen))
    return out, b.fcmp_unordered("uno", p, q)


def _choice(largest: bool, of_nans: Callable[[Env, FloatFormat, Value, Value, Value], Value]) -> Maker:
    def make(fmt: FloatFormat) -> Function:
        choose = _by_order if fmt is F16 else _by_value

        def run(env: Env, x: Value, y: Value) -> Value:
            x, y = unify(env.b, x, y)
            out, nans = choose(env, fmt, largest, x, y)
            out = rarely(env, nans, out, lambda: of_nans(env, fmt, x, y, out))
            return flush(env, fmt, out) if float_mode(fmt, env.mode).flush_in else out

        return run

    return _of_format(make)


def _ieee_nans(env: Env, fmt: FloatFormat, x: Value, y: Value, chosen: Value) -> Value:
    b = env.b
    out = b.select(is_nan(env, fmt, y), x, b.select(is_nan(env, fmt, x), y, chosen))
    if not env.mode.ieee:
        return out
    out = b.select(bits_of.is_signaling(env, fmt, y), quiet(env, fmt, y), out)
    return b.select(bits_of.is_signaling(env, fmt, x), quiet(env, fmt, x), out)


def _number_nans(env: Env, fmt: FloatFormat, x: Value, y: Value, chosen: Value) -> Value:
    b = env.b
    first, second = is_nan(env, fmt, x), is_nan(env, fmt, y)
    one = b.select(second, x, b.select(first, y, chosen))
    return b.select(b.and_(first, second), quiet(env, fmt, x), one)


# -- reciprocals ------------------------------------------------------------------------------------------------------


def _rcp(fmt: FloatFormat) -> Function:
    divide = binary("div", fmt)
    return lambda env, x: divide(env, same(x, fmt.bias << fmt.man), x)


def through_double(fmt: FloatFormat, step: Callable[[Env, Value], Value]) -> Function:
    """``step`` on doubles, rounded once to ``fmt``; a NaN operand comes out quiet."""

    def run(env: Env, x: Value) -> Value:
        how = float_mode(fmt, env.mode)
        if how.flush_in:
            x = flush(env, fmt, x)
        value = as_float(env, fmt, x)
        if fmt is not F64:
            value = env.b.fpext(value, like(value, F64T))
        bits = from_float(env, fmt, step(env, value))
        return finish(env, how, fmt, bits, is_nan(env, fmt, bits), x)

    return run


def _rsq_step(env: Env, x: Value) -> Value:
    """``1 / sqrt(x)`` in double precision with one correction by the exact residual."""
    b = env.b
    one = fconst(x, 1.0)
    first = b.fdiv(one, intrinsic(env, "sqrt", [x]))
    square, rest = two_product(env, first, first)
    left, left_rest = two_product(env, square, x)
    residual = b.fsub(b.fsub(b.fsub(one, left), left_rest), b.fmul(rest, x))
    better = b.fadd(first, b.fmul(b.fmul(fconst(x, 0.5), first), residual))
    bits = bits_as(env, better, I64)
    finite = bits_of.is_finite(env, F64, bits)
    good = b.and_(finite, b.fcmp_unordered("!=", first, fconst(x, 0.0)))
    return b.select(good, better, first)


def _rsq_scaled(env: Env, x: Value) -> Value:
    """Very small and large numbers are brought near one, so that the residual does not underflow."""
    b = env.b
    size = intrinsic(env, "fabs", [x])
    small = b.fcmp_ordered("<", size, fconst(x, 2.0**-900))
    large = b.fcmp_ordered(">", size, fconst(x, 2.0**900))
    one, low, high = fconst(x, 1.0), fconst(x, 2.0**-200), fconst(x, 2.0**200)
    root = _rsq_step(env, b.fmul(x, b.select(small, high, b.select(large, low, one))))
    low, high = fconst(x, 2.0**-100), fconst(x, 2.0**100)
    return b.fmul(root, b.select(small, high, b.select(large, low, one)))


def _rsq(fmt: FloatFormat) -> Function:
    if fmt is not F64:
        return through_double(fmt, lambda env, x: env.b.fdiv(fconst(x, 1.0), intrinsic(env, "sqrt", [x])))
    return through_double(fmt, _rsq_scaled)


# -- conversions ------------------------------------------------------------------------------------------------------


def _rounded(name: str, rounding: num.Round) -> Maker:
    """A conversion from f32 that rounds its own way."""
    dst = {"f16": num.F16, "bf16": num.BF16, "fp8": num.FP8, "bf8": num.BF8}[name]

    def run(env: Env, x: Value) -> Value:
        own = FloatEnv(env.b, env.mode.with_round(rounding), env.features)
        return float_to_float(own, num.F32, dst, x)

    return lambda args: run


def _always(function: Function) -> Maker:
    return lambda args: function


def _normalized(signed: bool) -> Maker:
    return _of_format(lambda fmt: lambda env, x: to_normalized(env, fmt, 16, signed, x))


# -- transcendental ---------------------------------------------------------------------------------------------------


def _transcendental(name: str) -> Maker:
    def make(fmt: FloatFormat) -> Function:
        if fmt is F64:
            raise NotNative(f"{name} of {fmt}")
        return through_double(fmt, transcendental.step(name))

    return _of_format(make)


FLOAT_BUILTINS: dict[str, Maker] = {
    "abs": _plain(bits_of.absolute),
    "sign": _plain(bits_of.is_negative),
    "exponent": _plain(_exponent),
    "mantissa": _of_format(_mantissa),
    "frexp_exp": _of_format(_frexp_exponent),
    "isNAN": _plain(is_nan),
    "isSignalNAN": _plain(bits_of.is_signaling),
    "isQuietNAN": _plain(bits_of.is_quiet_nan),
    "isDENORM": _plain(bits_of.is_denormal),
    "cvtToQuietNAN": _plain(quiet),
    "isEven": _plain(_is_even),
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "rndne": _rounding("roundeven"),
    "fract": _of_format(_fract),
    "fma": _of_format(fma),
    "fma_ldexp": _of_format(_fma_ldexp),
    "min_ieee": _choice(False, _ieee_nans),
    "max_ieee": _choice(True, _ieee_nans),
    "min_num": _choice(False, _number_nans),
    "max_num": _choice(True, _number_nans),
    "ldexp": _ldexp,
    "sqrt": _of_format(sqrt),
    "rcp": _of_format(_rcp),
    "rsq": _of_format(_rsq),
    **{name: _transcendental(name) for name in elementary.FUNCTIONS},
    **{name: _always(function) for name, function in small_functions().items()},
    **{f"f{n}_to_snorm": _normalized(True) for n in (16, 32)},
    **{f"f{n}_to_unorm": _normalized(False) for n in (16, 32)},
    **{
        f"f32_to_{name}_{suffix}": _rounded(name, rounding)
        for name in ("f16", "bf16", "fp8", "bf8")
        for suffix, rounding in (("rtz", num.Round.ZERO), ("rne", num.Round.NEAREST_EVEN))
    },
}

__all__ = ["F16", "F32T", "FLOAT_BUILTINS", "functools", "number", "through_double"]
