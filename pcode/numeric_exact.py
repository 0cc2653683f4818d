"""Exact float arithmetic on one value at a time, in Python integers.

Slow and simple: it serves the rounding modes and the corners that have no fast way. A finite number is
``(-1)**sign * mantissa * 2**exponent``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mockgpu.pcode.numeric_format import Bits, FloatFormat
from mockgpu.pcode.numeric_mode import Round


def overflow(fmt: FloatFormat, sign: int, rounding: Round) -> int:
    """The magnitude that a finite number too large for ``fmt`` becomes."""
    away = rounding is Round.NEAREST_EVEN or rounding is (Round.MINUS_INF if sign else Round.PLUS_INF)
    if not away or fmt.special == "none":
        return fmt.max
    return fmt.inf if fmt.special == "ieee" else fmt.nan


def round_pack(fmt: FloatFormat, rounding: Round, sign: int, mantissa: int, exponent: int, sticky: bool = False) -> int:
    """The pattern of a number; ``sticky`` says that a little (less than the last bit) is missing from ``mantissa``."""
    zero = 0 if fmt.special == "fnuz" else sign << (fmt.bits - 1)
    if mantissa == 0 and not sticky:
        return zero
    mantissa = mantissa << 2 | sticky
    exponent -= 2
    lowest = 1 - fmt.bias - fmt.man
    last = max(mantissa.bit_length() + exponent - 1 - fmt.man, lowest)
    kept, up = _round(mantissa, last - exponent, sign, rounding)
    magnitude = ((last - lowest) << fmt.man) + kept + up
    if magnitude > fmt.max:
        magnitude = overflow(fmt, sign, rounding)
        if fmt.special == "fnuz" and magnitude == fmt.nan:
            return magnitude
    return zero if magnitude == 0 else sign << (fmt.bits - 1) | magnitude


def _round(mantissa: int, shift: int, sign: int, rounding: Round) -> tuple[int, int]:
    """Drop ``shift`` bits; also whether to round away from zero."""
    if shift <= 0:
        return mantissa << -shift, 0
    kept = mantissa >> shift
    rest = mantissa - (kept << shift)
    if rounding is Round.NEAREST_EVEN:
        half = 1 << (shift - 1)
        return kept, int(rest > half or (rest == half and kept & 1 == 1))
    away = rounding is (Round.MINUS_INF if sign else Round.PLUS_INF)
    return kept, int(rest != 0 and away)


def unpack(fmt: FloatFormat, bits: int) -> tuple[int, int, int]:
    """Sign, mantissa and exponent of a finite pattern."""
    field = bits >> fmt.man & ((1 << fmt.exp) - 1)
    fraction = bits & ((1 << fmt.man) - 1)
    lowest = 1 - fmt.bias - fmt.man
    if field == 0:
        return bits >> (fmt.bits - 1), fraction, lowest
    return bits >> (fmt.bits - 1), fraction | 1 << fmt.man, lowest + field - 1


def _finite(fmt: FloatFormat, *values: int) -> bool:
    return all(v & fmt.magnitude < fmt.inf for v in values)


def fma(fmt: FloatFormat, rounding: Round, a: int, b: int, c: int, power: int = 0) -> int:
    """``(a * b + c) * 2**power`` rounded once, of finite IEEE patterns (others are left to the caller)."""
    sa, ma, ea = unpack(fmt, a)
    sb, mb, eb = unpack(fmt, b)
    sc, mc, ec = unpack(fmt, c)
    sign, product, exponent = sa ^ sb, ma * mb, ea + eb
    low = min(exponent, ec)
    total = (product << (exponent - low)) * (-1) ** sign + (mc << (ec - low)) * (-1) ** sc
    if total == 0:
        return _zero_sum(sign, sc, rounding) << (fmt.bits - 1)
    return round_pack(fmt, rounding, int(total < 0), abs(total), low + power)


def _zero_sum(sign_a: int, sign_b: int, rounding: Round) -> int:
    return sign_a if sign_a == sign_b else int(rounding is Round.MINUS_INF)


def add(fmt: FloatFormat, rounding: Round, a: int, b: int) -> int:
    sa, ma, ea = unpack(fmt, a)
    sb, mb, eb = unpack(fmt, b)
    low = min(ea, eb)
    total = (ma << (ea - low)) * (-1) ** sa + (mb << (eb - low)) * (-1) ** sb
    if total == 0:
        return _zero_sum(sa, sb, rounding) << (fmt.bits - 1)
    return round_pack(fmt, rounding, int(total < 0), abs(total), low)


def mul(fmt: FloatFormat, rounding: Round, a: int, b: int) -> int:
    sa, ma, ea = unpack(fmt, a)
    sb, mb, eb = unpack(fmt, b)
    return round_pack(fmt, rounding, sa ^ sb, ma * mb, ea + eb)


def div(fmt: FloatFormat, rounding: Round, a: int, b: int) -> int:
    """``b`` is not zero."""
    sa, ma, ea = unpack(fmt, a)
    sb, mb, eb = unpack(fmt, b)
    extra = 2 * fmt.bits
    quotient, rest = divmod(ma << extra, mb)
    return round_pack(fmt, rounding, sa ^ sb, quotient, ea - eb - extra, rest != 0)


def sqrt(fmt: FloatFormat, rounding: Round, a: int) -> int:
    """``a`` is not negative."""
    _, mantissa, exponent = unpack(fmt, a)
    extra = 2 * fmt.bits + (exponent & 1)
    root = math.isqrt(mantissa << extra)
    return round_pack(fmt, rounding, 0, root, (exponent - extra) // 2, root * root != mantissa << extra)


def each(fmt: FloatFormat, step: Callable[..., int], defined: Bits, otherwise: Bits, *args: Bits) -> Bits:
    """``step`` on each element where ``defined``, ``otherwise`` elsewhere."""
    shape = np.broadcast_shapes(np.shape(otherwise), *(np.shape(x) for x in args))
    out = np.array(np.broadcast_to(otherwise, shape), fmt.word)
    spread = [np.broadcast_to(x, shape) for x in args]
    for at in np.argwhere(np.broadcast_to(defined, shape)):
        i = tuple(at)
        out[i] = step(*(int(x[i]) for x in spread))
    return out
