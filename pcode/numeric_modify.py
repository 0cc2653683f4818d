"""Input and output modifiers (abs, neg, omod, clamp) and min/max in the field's variants, on bit patterns.

Source: "Input and output modifiers" of the RDNA3 and CDNA3 manuals; they are not part of the pseudocode.
"""

from __future__ import annotations

import numpy as np

from mockgpu.pcode.numeric_float import binary, compare
from mockgpu.pcode.numeric_format import Bits, FloatFormat, is_nan
from mockgpu.pcode.numeric_mode import Mode


def absolute(fmt: FloatFormat, x: Bits) -> Bits:
    return x & fmt.word(fmt.magnitude)  # type: ignore[no-any-return]


def negate(fmt: FloatFormat, x: Bits) -> Bits:
    return x ^ fmt.word(fmt.sign)  # type: ignore[no-any-return]


def clamp(mode: Mode, fmt: FloatFormat, x: Bits) -> Bits:
    """To [0, 1]; minus zero becomes zero; NaN becomes zero when DX10_CLAMP is set, else it stays."""
    one = fmt.word(fmt.bias << fmt.man)
    inside = np.where((x & fmt.word(fmt.sign)) != 0, fmt.word(0), np.minimum(x, one))
    nan = is_nan(fmt, x)
    if not np.count_nonzero(nan):
        return inside  # type: ignore[no-any-return]
    return np.where(nan, fmt.word(0) if mode.dx10_clamp else x, inside)


#: Factors of the OMOD field: 1 times 2, 2 times 4, 3 divided by 2.
_OMOD = {1: 1, 2: 2, 3: -1}


def omod(mode: Mode, fmt: FloatFormat, x: Bits, field: int) -> Bits:
    """``x`` times 2, times 4 or halved, rounded by MODE; field 0 is the identity."""
    if field == 0:
        return x
    return binary("mul", fmt)(mode, x, fmt.word((fmt.bias + _OMOD[field]) << fmt.man))


def _less(mode: Mode, fmt: FloatFormat, a: Bits, b: Bits) -> Bits:
    """``a < b`` with minus zero below zero; false when either is a NaN."""
    zeros = ((a | b) & fmt.word(fmt.magnitude)) == 0
    return np.where(zeros, (a & ~b & fmt.word(fmt.sign)) != 0, compare("lt", fmt)(mode, a, b))


def minimum_number(mode: Mode, fmt: FloatFormat, a: Bits, b: Bits) -> Bits:
    """IEEE 754-2019 minimumNumber: a number wins over a NaN; two NaN give the first, quiet."""
    return _pick_number(fmt, a, b, np.where(_less(mode, fmt, a, b), a, b))


def maximum_number(mode: Mode, fmt: FloatFormat, a: Bits, b: Bits) -> Bits:
    """IEEE 754-2019 maximumNumber."""
    return _pick_number(fmt, a, b, np.where(_less(mode, fmt, b, a), a, b))


def _pick_number(fmt: FloatFormat, a: Bits, b: Bits, ordered: Bits) -> Bits:
    nan_a, nan_b = is_nan(fmt, a), is_nan(fmt, b)
    if not np.count_nonzero(nan_a | nan_b):
        return ordered
    return np.where(nan_a, np.where(nan_b, a | fmt.word(fmt.quiet), b), np.where(nan_b, a, ordered))
