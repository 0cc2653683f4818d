"""Float arithmetic by exact fractions, one value at a time: what the tests compare the emulator's arithmetic with.

Written from IEEE 754 and the manuals' "Mode register", and from nothing of the package that is under test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

NEAREST, UP, DOWN, ZERO = range(4)


@dataclass(frozen=True)
class Format:
    """A binary float. ``special`` says what it has beyond numbers: infinities and NANs ("ieee"), one NAN magnitude
    ("fn"), the pattern of minus zero as NAN ("fnuz"), or nothing ("none")."""

    exp: int
    man: int
    bias: int
    special: str = "ieee"

    @property
    def bits(self) -> int:
        return 1 + self.exp + self.man

    @property
    def sign(self) -> int:
        return 1 << (self.exp + self.man)

    @property
    def inf(self) -> int:
        return ((1 << self.exp) - 1) << self.man

    @property
    def quiet(self) -> int:
        return 1 << (self.man - 1)

    @property
    def nan(self) -> int:
        """The default NAN."""
        every = self.sign - 1
        return {"ieee": self.inf | self.quiet, "fn": every, "fnuz": self.sign}[self.special]

    @property
    def max(self) -> int:
        """The largest finite magnitude."""
        every = self.sign - 1
        return {"ieee": self.inf - 1, "fn": every - 1, "fnuz": every, "none": every}[self.special]

    @property
    def one(self) -> int:
        return self.bias << self.man

    @property
    def normal(self) -> int:
        """The smallest normal magnitude."""
        return 1 << self.man

    @property
    def word(self) -> Any:
        return {8: np.uint32, 16: np.uint32, 32: np.uint32, 64: np.uint64}.get(self.bits, np.uint32)

    def is_nan(self, x: int) -> bool:
        if self.special == "ieee":
            return x & ~self.sign > self.inf
        if self.special == "fn":
            return x & ~self.sign == self.nan
        return self.special == "fnuz" and x == self.nan

    def is_signalling(self, x: int) -> bool:
        return self.is_nan(x) and not x & self.quiet

    def is_inf(self, x: int) -> bool:
        return self.special == "ieee" and x & ~self.sign == self.inf

    def is_finite(self, x: int) -> bool:
        return not (self.is_nan(x) or self.is_inf(x))

    def is_denormal(self, x: int) -> bool:
        return 0 < x & ~self.sign < self.normal

    def is_negative(self, x: int) -> bool:
        return bool(x & self.sign)


F16, F32, F64 = Format(5, 10, 15), Format(8, 23, 127), Format(11, 52, 1023)
BF16 = Format(8, 7, 127)
FP8, BF8 = Format(4, 3, 7, "fn"), Format(5, 2, 15)
FP8_FNUZ, BF8_FNUZ = Format(4, 3, 8, "fnuz"), Format(5, 2, 16, "fnuz")


@dataclass(frozen=True)
class Mode:
    """The fields of the MODE register. ``denorm``: bit 0 keeps denormal inputs, bit 1 denormal results."""

    round32: int = NEAREST
    round64: int = NEAREST
    denorm32: int = 3
    denorm64: int = 3
    dx10_clamp: bool = True
    ieee: bool = True
    fp16_ovfl: bool = False

    @property
    def register(self) -> int:
        low = self.round32 | self.round64 << 2 | self.denorm32 << 4 | self.denorm64 << 6
        return low | self.dx10_clamp << 8 | self.ieee << 9 | self.fp16_ovfl << 23

    def rounding(self, fmt: Format) -> int:
        return self.round32 if fmt is F32 else self.round64 if fmt in (F16, F64) else NEAREST

    def denorm(self, fmt: Format) -> int:
        return self.denorm32 if fmt is F32 else self.denorm64 if fmt in (F16, F64) else 3


PLAIN = Mode()
HSA = Mode(denorm32=0)


def value(fmt: Format, x: int) -> Fraction:
    """The number of a finite pattern."""
    field = x >> fmt.man & ((1 << fmt.exp) - 1)
    fraction = x & (fmt.normal - 1)
    whole = fraction if field == 0 else fraction | fmt.normal
    power = max(field, 1) - fmt.bias - fmt.man
    size = Fraction(whole << power) if power >= 0 else Fraction(whole, 1 << -power)
    return -size if fmt.is_negative(x) else size


def _integer(num: int, den: int, negative: bool, rounding: int) -> int:
    """A positive quotient rounded to an integer."""
    whole, rest = divmod(num, den)
    if rounding == NEAREST:
        return whole + (2 * rest > den or (2 * rest == den and whole & 1))
    return whole + (rest != 0 and rounding == (DOWN if negative else UP))


def encode(fmt: Format, x: Fraction, rounding: int = NEAREST, *, minus: bool = False, saturate: bool = False) -> int:
    """The pattern of a number, rounded once. ``minus`` is the sign of a zero."""
    negative = x < 0 or (x == 0 and minus)
    sign = fmt.sign if negative else 0
    if x == 0:
        return 0 if fmt.special == "fnuz" else sign
    num, den = abs(x.numerator), x.denominator
    top = num.bit_length() - den.bit_length()
    if (num << max(-top, 0)) < (den << max(top, 0)):
        top -= 1  # now 2**top <= |x| < 2**(top + 1)
    last = max(top, 1 - fmt.bias) - fmt.man
    whole = _integer(num << max(-last, 0), den << max(last, 0), negative, rounding)
    magnitude = whole + ((last + fmt.man + fmt.bias - 1) << fmt.man)
    if magnitude > fmt.max:
        return _overflow(fmt, sign, rounding, negative, saturate)
    return 0 if magnitude == 0 and fmt.special == "fnuz" else sign | magnitude


def _overflow(fmt: Format, sign: int, rounding: int, negative: bool, saturate: bool) -> int:
    away = rounding == NEAREST or rounding == (DOWN if negative else UP)
    if saturate or not away or fmt.special == "none":
        return sign | fmt.max
    if fmt.special == "fnuz":
        return fmt.nan
    return sign | (fmt.inf if fmt.special == "ieee" else fmt.nan)


def flush(fmt: Format, x: int) -> int:
    return x & fmt.sign if fmt.is_denormal(x) else x


def flushed_in(fmt: Format, mode: Mode, x: int) -> int:
    return x if mode.denorm(fmt) & 1 else flush(fmt, x)


def flushed_out(fmt: Format, mode: Mode, x: int) -> int:
    return x if mode.denorm(fmt) & 2 else flush(fmt, x)


def first_nan(fmt: Format, *operands: int) -> int | None:
    """The first NAN among the operands, made quiet."""
    return next((x | fmt.quiet for x in operands if fmt.is_nan(x)), None)


def operation(step: Callable[..., int | None]) -> Callable[..., int]:
    """Input flush, NANs and output flush around ``step``; None from it means an invalid operation."""

    def run(fmt: Format, mode: Mode, *operands: int) -> int:
        inputs = [flushed_in(fmt, mode, x) for x in operands]
        nan = first_nan(fmt, *inputs)
        if nan is not None:
            return nan
        out = step(fmt, mode, *inputs)
        return fmt.nan if out is None else flushed_out(fmt, mode, out)

    return run


def _rounded(fmt: Format, mode: Mode, x: Fraction, minus: bool) -> int:
    saturate = mode.fp16_ovfl and fmt is F16
    return encode(fmt, x, mode.rounding(fmt), minus=minus, saturate=saturate)


def _sum_sign(fmt: Format, mode: Mode, first: bool, second: bool) -> bool:
    """The sign of a sum that is zero."""
    return first if first == second else mode.rounding(fmt) == DOWN


@operation
def add(fmt: Format, mode: Mode, a: int, b: int) -> int | None:
    if fmt.is_inf(a) or fmt.is_inf(b):
        if fmt.is_inf(a) and fmt.is_inf(b) and a != b:
            return None
        return a if fmt.is_inf(a) else b
    minus = _sum_sign(fmt, mode, fmt.is_negative(a), fmt.is_negative(b))
    return _rounded(fmt, mode, value(fmt, a) + value(fmt, b), minus)


@operation
def mul(fmt: Format, mode: Mode, a: int, b: int) -> int | None:
    minus = fmt.is_negative(a) != fmt.is_negative(b)
    if fmt.is_inf(a) or fmt.is_inf(b):
        zero = not (a & ~fmt.sign and b & ~fmt.sign)
        return None if zero else fmt.inf | (fmt.sign if minus else 0)
    return _rounded(fmt, mode, value(fmt, a) * value(fmt, b), minus)


@operation
def fma(fmt: Format, mode: Mode, a: int, b: int, c: int) -> int | None:
    minus = fmt.is_negative(a) != fmt.is_negative(b)
    if fmt.is_inf(a) or fmt.is_inf(b):
        product = fmt.inf | (fmt.sign if minus else 0)
        if not (a & ~fmt.sign and b & ~fmt.sign) or (fmt.is_inf(c) and c != product):
            return None
        return product
    if fmt.is_inf(c):
        return c
    exact = value(fmt, a) * value(fmt, b) + value(fmt, c)
    return _rounded(fmt, mode, exact, _sum_sign(fmt, mode, minus, fmt.is_negative(c)))


@operation
def div(fmt: Format, mode: Mode, a: int, b: int) -> int | None:
    minus = fmt.is_negative(a) != fmt.is_negative(b)
    sign = fmt.sign if minus else 0
    if fmt.is_inf(a):
        return None if fmt.is_inf(b) else fmt.inf | sign
    if fmt.is_inf(b):
        return sign
    if b & ~fmt.sign == 0:
        return None if a & ~fmt.sign == 0 else fmt.inf | sign
    return _rounded(fmt, mode, value(fmt, a) / value(fmt, b), minus)


def root(x: Fraction, bits: int = 140) -> Fraction:
    """The square root, cut off after ``bits`` significant bits, with a last bit that says that it is inexact."""
    shift = 2 * bits + 2 * max(0, x.denominator.bit_length() - x.numerator.bit_length())
    whole = (x.numerator << shift) // x.denominator
    low = isqrt(whole)
    exact = low * low == whole and whole * x.denominator == x.numerator << shift
    return Fraction(low * 2 + (not exact), 1 << (shift // 2 + 1))


@operation
def sqrt(fmt: Format, mode: Mode, a: int) -> int | None:
    if a & ~fmt.sign == 0:
        return a
    if fmt.is_negative(a):
        return None
    return a if fmt.is_inf(a) else _rounded(fmt, mode, root(value(fmt, a)), False)


def sub(fmt: Format, mode: Mode, a: int, b: int) -> int:
    return add(fmt, mode, a, b if fmt.is_nan(b) else b ^ fmt.sign)


def convert(src: Format, dst: Format, mode: Mode, x: int, rounding: int | None = None, *, ovfl: bool = False) -> int:
    """A float in another format, rounded once. ``ovfl`` lets an overflow give the largest number."""
    if src.is_nan(x):
        if dst.special != "ieee":
            return dst.nan if dst.special == "fnuz" else dst.nan | (dst.sign if src.is_negative(x) else 0)
        sign = dst.sign if src.is_negative(x) else 0
        payload = x & (src.normal - 1) if src.special == "ieee" else 0
        more = dst.man - src.man
        return sign | dst.inf | dst.quiet | (payload << more if more > 0 else payload >> -more)
    sign = dst.sign if src.is_negative(x) else 0
    if src.is_inf(x):
        if dst.special == "ieee":
            return sign | dst.inf
        return sign | dst.max if ovfl else (dst.nan if dst.special == "fnuz" else sign | dst.nan)
    how = mode.rounding(dst) if rounding is None else rounding
    return encode(dst, value(src, x), how, minus=bool(sign), saturate=ovfl)


def each(fmt: Format, step: Callable[..., int], *arrays: Iterable[Any]) -> npt.NDArray[Any]:
    """``step`` on the elements of arrays, as an array of ``fmt``'s words."""
    lists = [[int(x) for x in a] for a in arrays]
    return np.array([step(*row) for row in zip(*lists, strict=True)], fmt.word)


def difference(fmt: Format, a: int, b: int) -> int:
    """How many units in the last place two finite patterns are apart, infinity being the number after the largest."""

    def order(x: int) -> int:
        size = x & ~fmt.sign
        return -size if x & fmt.sign else size

    return abs(order(a) - order(b))
