"""Stochastic rounding and block scales as LLVM IR: the twin of :mod:`mockgpu.pcode.numeric_small`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir as llvm

from mockgpu.pcode.llvm import integers
from mockgpu.pcode.llvm.convert import from_float, integers_width, number, round_to
from mockgpu.pcode.llvm.float_env import F64T, Env, bits_as, fconst, intrinsic
from mockgpu.pcode.llvm.values import Value, like, resize, same, unify
from mockgpu.pcode.numeric_format import F64, FloatFormat, on_part
from mockgpu.pcode.numeric_mode import Round
from mockgpu.pcode.numeric_small import FORMATS

Scaled: TypeAlias = Callable[..., Value]
I64 = llvm.IntType(64)
#: A scale of all ones is a NaN.
_NO_SCALE = 0xFF


def _double(env: Env, fmt: FloatFormat, x: Value) -> Value:
    value = number(env, fmt, x)
    return value if integers_width(value) == 64 else env.b.fpext(value, like(value, F64T))


def _power_of_two(env: Env, exponent: Value) -> Value:
    """``2**exponent`` as double, of i64 within the normal range."""
    return bits_as(env, env.b.shl(env.b.add(exponent, same(exponent, F64.bias)), same(exponent, F64.man)), F64T)


def _scaled_by(env: Env, value: Value, scale: Value, sign: int) -> Value:
    """``value * 2**(sign * (scale - 127))``."""
    b = env.b
    wide = resize(b, scale, 64)
    most = integers.call(b, "umin", wide, same(wide, 600))
    power = b.mul(b.sub(most, same(wide, 127)), same(wide, sign))
    out = b.fmul(value, _power_of_two(env, power))
    invalid = b.icmp_unsigned("==", wide, same(wide, _NO_SCALE))
    return bits_as(env, b.select(invalid, same(wide, F64.nan), bits_as(env, out, I64)), F64T)


def _round_stochastic(env: Env, src: FloatFormat, dst: FloatFormat, value: Value, random: Value) -> Value:
    """A double that came from ``src`` as a pattern of ``dst``, rounded by the upper bits of ``random`` (u32)."""
    b = env.b
    bits = bits_as(env, value, I64)
    size = intrinsic(env, "fabs", [value])
    power = b.sub(b.lshr(bits_as(env, size, I64), same(bits, F64.man)), same(bits, F64.bias))
    power = integers.call(b, "smin", power, same(power, 900))
    last = b.sub(integers.call(b, "smax", power, same(power, 1 - dst.bias)), same(power, dst.man))
    steps = b.fmul(size, _power_of_two(env, b.neg(last)))
    cut = max(src.man - dst.man, 0)
    if cut:
        share = b.uitofp(b.lshr(random, same(random, 32 - cut)), size.type)
        steps = b.fadd(steps, b.fmul(share, fconst(size, 2.0**-cut)))
    grown = b.fmul(intrinsic(env, "floor", [steps]), _power_of_two(env, last))
    moved = intrinsic(env, "copysign", [grown, value])
    finite = b.fcmp_ordered("<", size, fconst(size, float("inf")))
    saturate = env.mode.fp16_ovfl and dst.name != "bf16"
    return round_to(env, dst, Round.NEAREST_EVEN, b.select(finite, moved, value), saturate)


def stochastic(src: FloatFormat, dst: FloatFormat) -> Scaled:
    """``f(env, x, random)``."""

    def run(env: Env, x: Value, random: Value) -> Value:
        x, random = unify(env.b, x, random)
        return _round_stochastic(env, src, on_part(dst, env.mode), _double(env, src, x), random)

    return run


def narrow_scaled(src: FloatFormat, dst: FloatFormat) -> Scaled:
    """``f(env, x, scale)``: ``x`` divided by 2**(scale - 127), one rounding to nearest even."""

    def run(env: Env, x: Value, scale: Value) -> Value:
        x, scale = unify(env.b, x, scale)
        divided = _scaled_by(env, _double(env, src, x), scale, -1)
        return round_to(env, on_part(dst, env.mode), Round.NEAREST_EVEN, divided, env.mode.fp16_ovfl)

    return run


def narrow_scaled_stochastic(src: FloatFormat, dst: FloatFormat) -> Scaled:
    """``f(env, x, random, scale)``."""

    def run(env: Env, x: Value, random: Value, scale: Value) -> Value:
        x, random, scale = unify(env.b, x, random, scale)
        divided = _scaled_by(env, _double(env, src, x), scale, -1)
        return _round_stochastic(env, src, on_part(dst, env.mode), divided, random)

    return run


def widen_scaled(src: FloatFormat, dst: FloatFormat) -> Scaled:
    """``f(env, x, scale)``: ``x`` times 2**(scale - 127)."""

    def run(env: Env, x: Value, scale: Value) -> Value:
        x, scale = unify(env.b, x, scale)
        return from_float(env, dst, _scaled_by(env, _double(env, on_part(src, env.mode), x), scale, 1))

    return run


def small_functions() -> dict[str, Scaled]:
    """The functions of the pseudocode that round stochastically or scale, by name."""
    table = {f"f32_to_{n}_sr": stochastic(FORMATS["f32"], FORMATS[n]) for n in ("f16", "bf16", "fp8", "bf8")}
    for wide in ("f32", "f16", "bf16"):
        for narrow in ("fp8", "bf8", "fp6", "bf6", "fp4"):
            w, n = FORMATS[wide], FORMATS[narrow]
            table[f"{wide}_to_{narrow}_scale"] = narrow_scaled(w, n)
            table[f"{wide}_to_{narrow}_sr_scale"] = narrow_scaled_stochastic(w, n)
            table[f"{narrow}_to_{wide}_scale"] = widen_scaled(n, w)
    return table
