"""exp2, log2, sine and cosine of turns on doubles, written once for every kind of executor.

The functions are made of additions, subtractions, multiplications and divisions of doubles, each rounded to nearest
even by itself, and of operations on their bits: they need no library, and the same argument gives the same bits on
every host. Their relative error is below 2**-51, so that a result rounded once more to f32 or f16 is correctly rounded
but for about one argument in 2**27; results that are representable come out exact. Arguments are f16 or f32 numbers
(normal doubles, zeros, infinities); a NaN gives some NaN.

An executor hands in an :class:`Arithmetic` and its own kind of doubles ``x``, which have Python's operators.
The coefficients interpolate each function at the Chebyshev nodes of the interval that its argument is reduced to,
computed with 200 bits and rounded to double.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

#: Doubles or int64 of an executor.
Number = Any


class Arithmetic(Protocol):
    """What the functions need beyond the operators of ``+ - * /`` and comparison (doubles), ``+ - & << >>`` (int64)."""

    def trunc(self, x: Number) -> Number:
        """Toward zero to an integer-valued double."""

    def bits(self, x: Number) -> Number:
        """The pattern of doubles as int64."""

    def number(self, x: Number) -> Number:
        """The doubles of int64 patterns."""

    def where(self, condition: Number, a: Number, b: Number) -> Number:
        """``a`` where the condition holds, else ``b``; either may be a Python number if the other is not."""


#: Added to a double of at most 2**50 and taken away again, it rounds to the nearest integer, ties to even; in between,
#: the lowest bits of the pattern are the integer's.
_SHIFT = 1.5 * 2.0**52
_SHIFT_BITS = 0x4338000000000000
_BIAS, _FRACTION_BITS = 1023, 52
#: The pattern of the double nearest to sqrt(1/2).
_ROOT_HALF = 0x3FE6A09E667F3BCD

#: (2**r - 1) / r for r in -1/2 .. 1/2.
_EXP2 = (
    0.6931471805599453, 0.24022650695910097, 0.0555041086648216, 0.009618129107606887, 0.0013333558146416814,
    0.00015403530441739031, 1.5252733829992463e-05, 1.3215442586105225e-06, 1.0178062365290546e-07,
    7.072586312562517e-09, 4.4549749403087744e-10,
)  # fmt: skip
#: log2((1 + s) / (1 - s)) / s in powers of s * s, for s in -0.1716 .. 0.1716.
_LOG2 = (
    2.8853900817779268, 0.9617966939259898, 0.577078016345514, 0.4121985858422942, 0.3205985347650481,
    0.26233436060329546, 0.22091286734180157, 0.21366122502798326,
)  # fmt: skip
#: sin(t * PI / 2) / t in powers of t * t, for t in -1/2 .. 1/2.
_SIN = (
    1.5707963267948966, -0.6459640975062443, 0.07969262624604301, -0.004681754132340976, 0.0001604411507421909,
    -3.59864335298231e-06, 5.633933781537854e-08,
)  # fmt: skip
#: (cos(t * PI / 2) - 1) / (t * t) in powers of t * t.
_COS = (
    -1.2337005501361697, 0.2536695079010478, -0.020863480763340773, 0.0009192602745468447, -2.5202039028029178e-05,
    4.710678405505227e-07, -6.329396344967424e-09,
)  # fmt: skip


def _polynomial(coefficients: Sequence[float], x: Number) -> Number:
    """By Horner's scheme."""
    *rest, total = coefficients
    value: Number = total
    for coefficient in reversed(rest):
        value = x * value + coefficient
    return value


def exp2(m: Arithmetic, x: Number) -> Number:
    """``2**x``; beyond 2**1000 and 2**-1000 the result stays there, which is past every f32."""
    inside = m.where(x > 1000.0, 1000.0, m.where(x < -1000.0, -1000.0, x))
    shifted = inside + _SHIFT
    rest = inside - (shifted - _SHIFT)
    scale = m.number((m.bits(shifted) + _BIAS) << _FRACTION_BITS)
    value = (rest * _polynomial(_EXP2, rest) + 1.0) * scale
    return m.where(x == math.inf, math.inf, m.where(x == -math.inf, 0.0, value))


def log2(m: Arithmetic, x: Number) -> Number:
    """The logarithm to base 2: minus infinity for zeros, NaN below."""
    pattern = m.bits(x)
    power = (pattern - _ROOT_HALF) >> _FRACTION_BITS
    part = m.number(pattern - (power << _FRACTION_BITS))
    ratio = (part - 1.0) / (part + 1.0)
    whole = m.number(power + _SHIFT_BITS) - _SHIFT
    value = ratio * _polynomial(_LOG2, ratio * ratio) + whole
    value = m.where(x > 0.0, value, math.nan)
    return m.where(x == math.inf, math.inf, m.where(x == 0.0, -math.inf, value))


def sin_turns(m: Arithmetic, x: Number) -> Number:
    """``sin(2 PI x)``: exact at multiples of a quarter, where a zero has the sign of ``x``; NaN for infinities."""
    sine, cosine, quadrant = _quadrant(m, x)
    value = _placed(m, quadrant, sine, cosine)
    sign = m.bits(x) & -(1 << 63)
    return m.where(value == 0.0, m.number(sign), value)


def cos_turns(m: Arithmetic, x: Number) -> Number:
    """``cos(2 PI x)``: exact at multiples of a quarter, where a zero is positive; NaN for infinities."""
    sine, cosine, quadrant = _quadrant(m, x)
    value = _placed(m, quadrant + 1, sine, cosine)
    return m.where(value == 0.0, 0.0, value)


def _quadrant(m: Arithmetic, x: Number) -> tuple[Number, Number, Number]:
    """Sine and cosine of what is left of ``x`` turns after whole quarters, and the number of quarters modulo 4."""
    quarters = (x - m.trunc(x)) * 4.0
    shifted = quarters + _SHIFT
    t = quarters - (shifted - _SHIFT)
    square = t * t
    return t * _polynomial(_SIN, square), square * _polynomial(_COS, square) + 1.0, m.bits(shifted)


def _placed(m: Arithmetic, quadrant: Number, sine: Number, cosine: Number) -> Number:
    value = m.where((quadrant & 1) == 1, cosine, sine)
    return m.where((quadrant & 2) == 2, -value, value)


#: The functions by the names of the pseudocode's builtins.
FUNCTIONS = {"exp2": exp2, "log2": log2, "sin2pi": sin_turns, "cos2pi": cos_turns}
