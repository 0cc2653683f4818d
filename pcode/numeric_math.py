"""Functions of one float that are not arithmetic: rounding to integers, taking apart, scaling, transcendental ones.

Transcendental results are computed in double precision and rounded once, so f16 and f32 are correctly rounded but for
about one argument in 2**27 (:mod:`~mockgpu.pcode.elementary`); the hardware documents 1 ulp. Special cases are exact.
Denormals follow MODE.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from mockgpu.pcode import elementary
from mockgpu.pcode import numeric_exact as exact
from mockgpu.pcode.numeric_convert import as_signed, from_doubles
from mockgpu.pcode.numeric_float import Op1, Op2, binary, finish, sqrt, to_doubles
from mockgpu.pcode.numeric_format import F64, Bits, FloatFormat, Mask, float_mode, flush, is_denormal, is_nan
from mockgpu.pcode.numeric_mode import Mode, Round
from mockgpu.pcode.numeric_round import Doubles, to_odd, two_product

Step = Callable[[Doubles], Doubles]


@functools.cache
def through_double(fmt: FloatFormat, step: Step) -> Op1:
    """``step`` on doubles, rounded once to ``fmt``; a NaN operand comes out quiet."""

    def run(mode: Mode, x: Bits) -> Bits:
        how = float_mode(fmt, mode)
        if how.flush_in:
            x = flush(fmt, x)
        return finish(how, fmt, from_doubles(mode, fmt, step(to_doubles(fmt, x))), x)

    return run


def floor(fmt: FloatFormat) -> Op1:
    return through_double(fmt, np.floor)


def ceil(fmt: FloatFormat) -> Op1:
    return through_double(fmt, np.ceil)


def trunc(fmt: FloatFormat) -> Op1:
    return through_double(fmt, np.trunc)


def rndne(fmt: FloatFormat) -> Op1:
    """To the nearest integer, ties to even; a zero result has the operand's sign."""
    return through_double(fmt, np.rint)


@functools.cache
def fract(fmt: FloatFormat) -> Op1:
    """``x - floor(x)`` rounded by MODE, but never 1: the largest number below it instead. NaN for infinities."""
    below_one = ((fmt.bias - 1) << fmt.man) | (fmt.min_normal - 1)
    subtract = binary("sub", fmt)
    down = floor(fmt)

    def run(mode: Mode, x: Bits) -> Bits:
        out = subtract(mode, x, down(mode, x))
        one = out == fmt.word(below_one + 1)
        return np.where(one, fmt.word(below_one), out) if np.count_nonzero(one) else out

    return run


def is_even(fmt: FloatFormat, x: Bits) -> Mask:
    """An integer-valued number that is even; no infinity or NaN is."""
    value = to_doubles(fmt, x)
    return np.fmod(value, 2.0) == 0  # type: ignore[no-any-return]


# -- taking apart -----------------------------------------------------------------------------------------------------


def exponent_field(fmt: FloatFormat, x: Bits) -> Bits:
    """The biased exponent, as an i32 pattern."""
    return ((x >> fmt.word(fmt.man)) & fmt.word((1 << fmt.exp) - 1)).astype(np.uint32)  # type: ignore[no-any-return]


def mantissa(mode: Mode, fmt: FloatFormat, x: Bits) -> Bits:
    """frexp's mantissa in [0.5, 1) with the sign of ``x``; zero and infinity are kept, NaN is made quiet."""
    value = to_doubles(fmt, x)
    part, _ = np.frexp(value)
    out = from_doubles(mode, fmt, part)
    nan = np.isnan(value)
    return np.where(nan, x | fmt.word(fmt.quiet), out) if np.count_nonzero(nan) else out


def frexp_exponent(fmt: FloatFormat, x: Bits) -> Bits:
    """frexp's exponent as an i32 pattern; 0 for zero, infinity and NaN."""
    value = to_doubles(fmt, x)
    _, power = np.frexp(np.where(np.isfinite(value), value, 0.0))
    return np.asarray(power.astype(np.int32)).view(np.uint32)


#: Bits of a class mask, as V_CMP_CLASS numbers them.
CLASSES = (
    "signaling_nan", "quiet_nan", "minus_infinity", "minus_normal", "minus_denormal", "minus_zero",
    "plus_zero", "plus_denormal", "plus_normal", "plus_infinity",
)  # fmt: skip


def classify(fmt: FloatFormat, x: Bits) -> Bits:
    """The index into :data:`CLASSES` of each value (uint32)."""
    magnitude = x & fmt.word(fmt.magnitude)
    negative = (x & fmt.word(fmt.sign)) != 0
    kind = np.where(magnitude == 0, 6, np.where(is_denormal(fmt, x), 7, np.where(magnitude == fmt.inf, 9, 8)))
    signed = np.where(negative, 11 - kind, kind)
    quiet = ((x & fmt.word(fmt.quiet)) != 0).astype(np.int64)
    return np.where(is_nan(fmt, x), quiet, signed).astype(np.uint32)


# -- scaling ----------------------------------------------------------------------------------------------------------


@functools.cache
def ldexp(fmt: FloatFormat, power_bits: int) -> Op2:
    """``x * 2**n`` rounded once, ``n`` a two's complement integer of ``power_bits`` bits."""
    limit = 5000 if fmt is F64 else 600  # past any finite result, and inside the doubles for the narrow formats

    def run(mode: Mode, x: Bits, power: Bits) -> Bits:
        how = float_mode(fmt, mode)
        if how.flush_in:
            x = flush(fmt, x)
        n = np.clip(as_signed(power, power_bits), -limit, limit)
        bits = _scale_f64(how.round, x, n) if fmt is F64 else from_doubles(mode, fmt, np.ldexp(to_doubles(fmt, x), n))
        return finish(how, fmt, bits, x)

    return run


def _scale_f64(rounding: Round, x: Bits, n: Any) -> Bits:
    """numpy's ldexp rounds to nearest; elsewhere the scaling is done exactly."""
    value = x.view(np.float64)
    if rounding is Round.NEAREST_EVEN:
        return np.asarray(np.ldexp(value, n)).view(np.uint64)

    def one(bits: int, power: int) -> int:
        sign, whole, exponent = exact.unpack(F64, bits)
        return exact.round_pack(F64, rounding, sign, whole, exponent + power)

    return exact.each(F64, one, np.isfinite(value), x, x, n)


# -- reciprocals and square roots -------------------------------------------------------------------------------------


@functools.cache
def rcp(fmt: FloatFormat) -> Op1:
    """``1 / x``, correctly rounded."""
    divide = binary("div", fmt)
    one = fmt.word(fmt.bias << fmt.man)
    return lambda mode, x: divide(mode, one, x)


def _rsq_step(x: Doubles) -> Doubles:
    """``1 / sqrt(x)`` in double precision with one correction by the exact residual."""
    first = 1.0 / np.sqrt(x)
    square, rest = two_product(first, first)
    left, left_rest = two_product(square, x)
    residual = (1.0 - left) - left_rest - rest * x
    better = first + 0.5 * first * residual
    return np.where(np.isfinite(better) & (first != 0), better, first)


@functools.cache
def rsq(fmt: FloatFormat) -> Op1:
    """``1 / sqrt(x)`` rounded once: infinity of the zero's sign for zeros, NaN for negative numbers."""
    if fmt is not F64:
        return through_double(fmt, lambda x: 1.0 / np.sqrt(x))

    def run(mode: Mode, x: Bits) -> Bits:
        how = mode.f16_f64
        if how.flush_in:
            x = flush(fmt, x)
        value = x.view(np.float64)
        small = np.abs(value) < 2.0**-900
        scaled = np.where(small, value * 2.0**200, np.where(np.abs(value) > 2.0**900, value * 2.0**-200, value))
        root = _rsq_step(scaled)
        root = np.where(small, root * 2.0**100, np.where(np.abs(value) > 2.0**900, root * 2.0**-100, root))
        return finish(how, fmt, np.asarray(root).view(np.uint64), x)

    return run


# -- transcendental ---------------------------------------------------------------------------------------------------


class _Numpy:
    """The arithmetic of :mod:`~mockgpu.pcode.elementary` on numpy's doubles."""

    @staticmethod
    def trunc(x: Any) -> Any:
        return np.trunc(x)

    @staticmethod
    def bits(x: Any) -> Any:
        return np.asarray(x, np.float64).view(np.int64)

    @staticmethod
    def number(x: Any) -> Any:
        return np.asarray(x, np.int64).view(np.float64)

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Any:
        return np.where(condition, a, b)


def _elementary(name: str) -> Step:
    return functools.partial(elementary.FUNCTIONS[name], _Numpy)


def _turn(x: Doubles, shift: float) -> Doubles:
    """sin(2 pi x + shift quarter turns): the quadrant is taken off exactly, so multiples of a quarter are exact."""
    whole = np.fmod(x, 1.0) * 4.0
    quarter = np.rint(whole)
    angle = (whole - quarter) * (np.pi / 2)
    place = np.mod(quarter + shift, 4.0)
    odd = np.mod(place, 2.0) == 1.0
    value = np.where(odd, np.cos(angle), np.sin(angle))
    value = np.where(place >= 2.0, -value, value)
    return np.where(value == 0, np.copysign(0.0, x) if shift == 0 else 0.0, value)


def _log2(x: Doubles) -> Doubles:
    """numpy's, with the powers of two made exact."""
    part, power = np.frexp(x)
    return np.where(part == 0.5, power - 1.0, np.log2(x))


_NARROW: dict[str, Step] = {name: _elementary(name) for name in elementary.FUNCTIONS}
#: By the host's library: f64, and angles in radians. No instruction has either.
_HOST: dict[str, Step] = {
    "log2": _log2,
    "exp2": np.exp2,
    "sin": np.sin,
    "cos": np.cos,
    "sin2pi": lambda x: _turn(x, 0.0),
    "cos2pi": lambda x: _turn(np.abs(x), 1.0),
}


def step_of(name: str, fmt: FloatFormat) -> Step:
    """What :func:`transcendental` does on doubles that are numbers of ``fmt``."""
    return _NARROW[name] if fmt is not F64 and name in _NARROW else _HOST[name]


def transcendental(name: str, fmt: FloatFormat) -> Op1:
    """log2, exp2, sin and cos (radians), sin2pi and cos2pi (turns) on ``fmt``.

    All that instructions have (f16 and f32, angles in turns) is the same to the bit on every host.
    """
    return through_double(fmt, step_of(name, fmt))


__all__ = [
    "CLASSES", "ceil", "classify", "exponent_field", "floor", "fract", "frexp_exponent", "is_even", "ldexp",
    "mantissa", "rcp", "rndne", "rsq", "sqrt", "step_of", "through_double", "to_odd", "transcendental", "trunc",
]  # fmt: skip
