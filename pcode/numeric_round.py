"""Rounding of double precision to every narrower format, in every rounding mode, on arrays.

*Round to odd* is the trick that makes two roundings equal one: an inexact double whose last bit is forced to one keeps
"a little more than this" visible, so rounding it again to a format at least two bits narrower gives the correct result
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mockgpu.pcode.numeric_format import F64, Bits, FloatFormat, Mask
from mockgpu.pcode.numeric_mode import Round

Doubles = npt.NDArray[np.float64]

_U64 = np.uint64
_ONE = _U64(1)
_FRACTION = _U64((1 << 52) - 1)


def two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """``a + b`` rounded, and the exact rest (Knuth)."""
    total = a + b
    part = total - a
    rest = (a - (total - part)) + (b - part)
    return total, rest


def two_product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """``a * b`` rounded, and the exact rest (Dekker); neither overflow nor underflow may occur on the way."""
    total = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    rest = al * bl - (((total - ah * bh) - al * bh) - ah * bl)
    return total, rest


def _split(x: Doubles) -> tuple[Doubles, Doubles]:
    scaled = 134217729.0 * x
    high = scaled - (scaled - x)
    return high, x - high


def to_odd(x: Doubles, rest: Any) -> Doubles:
    """``x + rest`` (``x`` being the rounded value, ``rest`` having the sign of the exact rest) rounded to odd."""
    inexact = rest != 0
    if not np.count_nonzero(inexact):
        return x
    bits = np.asarray(x).view(_U64)
    fix = inexact & ((bits & _ONE) == 0) & np.isfinite(x)
    if not np.count_nonzero(fix):
        return x
    grows = (rest > 0) == (x > 0)
    return np.where(fix, np.where(grows, bits + _ONE, bits - _ONE), bits).view(np.float64)


def sum_to_odd(a: Doubles, b: Doubles) -> Doubles:
    """``a + b`` rounded to odd."""
    total, rest = two_sum(a, b)
    return to_odd(total, rest)


def round_double(fmt: FloatFormat, rounding: Round, x: Doubles, saturate: bool = False) -> Bits:
    """``x`` as a pattern of ``fmt``: one rounding, infinities and NaN included.

    ``saturate`` turns overflow of finite values into the largest number. A NaN keeps its sign and upper payload bits
    and comes out quiet; formats without infinity turn an infinity into NaN, or the largest number when ``saturate`` is
    set or there is no NaN either.
    """
    bits = np.asarray(x).view(_U64)
    negative = bits >> _U64(63)
    magnitude = bits & _U64(F64.magnitude)
    rounded = _round_magnitude(fmt, rounding, magnitude, negative != 0)
    limit = _U64(fmt.max)
    over = rounded > limit
    if np.count_nonzero(over):
        rounded = np.where(over, _overflow(fmt, rounding, magnitude, negative != 0, saturate), rounded)
    out = rounded | (negative << _U64(fmt.bits - 1))
    nan = magnitude > _U64(F64.inf)
    if fmt.special == "fnuz":
        out = np.where((rounded == 0) | (rounded == _U64(fmt.nan)), rounded, out)
    if np.count_nonzero(nan):
        out = np.where(nan, _narrow_nan(fmt, bits, negative), out)
    return out.astype(fmt.word)  # type: ignore[no-any-return]


def _round_magnitude(fmt: FloatFormat, rounding: Round, magnitude: Bits, negative: Mask) -> Bits:
    field = (magnitude >> _U64(52)).astype(np.int64)
    mantissa = (magnitude & _FRACTION) | ((field != 0).astype(_U64) << _U64(52))
    exponent = np.maximum(field, 1) - 1023
    lowest = 1 - fmt.bias
    below = np.maximum(lowest - exponent, 0)
    shift = np.minimum(52 - fmt.man + below, 60).astype(_U64)
    kept = mantissa >> shift
    rest = mantissa - (kept << shift)
    kept = kept + _round_up(rounding, kept, rest, shift, negative).astype(_U64)
    return kept + (np.maximum(exponent - lowest, 0).astype(_U64) << _U64(fmt.man))  # type: ignore[no-any-return]


def _round_up(rounding: Round, kept: Bits, rest: Bits, shift: Bits, negative: Mask) -> Mask:
    if rounding is Round.NEAREST_EVEN:
        half = _ONE << (shift - _ONE)
        return (rest > half) | ((rest == half) & ((kept & _ONE) != 0))  # type: ignore[no-any-return]
    if rounding is Round.ZERO:
        return np.zeros(np.shape(kept), np.bool_)
    return (rest != 0) & (negative if rounding is Round.MINUS_INF else ~negative)  # type: ignore[no-any-return]


def _overflow(fmt: FloatFormat, rounding: Round, magnitude: Bits, negative: Mask, saturate: bool) -> Bits:
    """What the magnitudes above the largest number become."""
    top = {"ieee": fmt.inf, "fn": fmt.nan, "fnuz": fmt.nan, "none": fmt.max}[fmt.special]
    if rounding is Round.NEAREST_EVEN:
        away = np.ones(np.shape(negative), np.bool_)
    elif rounding is Round.ZERO:
        away = np.zeros(np.shape(negative), np.bool_)
    else:
        away = negative if rounding is Round.MINUS_INF else ~negative
    infinite = magnitude == _U64(F64.inf)
    if fmt.special == "ieee":
        return np.where(infinite | (away & (not saturate)), _U64(top), _U64(fmt.max))
    return np.where((infinite | away) & (not saturate), _U64(top), _U64(fmt.max))


def _narrow_nan(fmt: FloatFormat, bits: Bits, negative: Bits) -> Bits:
    """The quiet NaN that keeps what fits of the payload. ``none`` formats have no NaN: the largest number."""
    sign = negative << _U64(fmt.bits - 1)
    if fmt.special == "fnuz":
        return np.full(np.shape(bits), fmt.nan, _U64)
    if fmt.special != "ieee":
        return sign | _U64(fmt.nan)
    payload = (bits & _FRACTION) >> _U64(52 - fmt.man)
    return sign | _U64(fmt.inf | fmt.quiet) | payload
