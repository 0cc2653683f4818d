"""Minimum and maximum of two floats, under which -0 is below +0, by the two rules that instructions have for NANs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mockgpu.pcode.numeric_float import Op2
from mockgpu.pcode.numeric_format import Bits, FloatFormat, float_mode, flush, is_nan, is_signaling
from mockgpu.pcode.numeric_mode import Mode

_SIGNED: dict[int, Any] = {16: np.int16, 32: np.int32, 64: np.int64}


@functools.cache
def ieee(fmt: FloatFormat, largest: bool) -> Op2:
    """Of a NAN and a number the number, of two NANs the first; with MODE.IEEE a signalling NAN wins, quieted."""

    def of_nans(mode: Mode, a: Bits, b: Bits, number: Bits) -> Bits:
        out = np.where(is_nan(fmt, b), a, np.where(is_nan(fmt, a), b, number))
        if not mode.ieee:
            return out
        quiet = fmt.word(fmt.quiet)
        out = np.where(is_signaling(fmt, b), b | quiet, out)
        return np.where(is_signaling(fmt, a), a | quiet, out)

    return _choice(fmt, largest, of_nans)


@functools.cache
def number(fmt: FloatFormat, largest: bool) -> Op2:
    """Of a NAN and a number the number, of two NANs the first one quieted (IEEE 754-2019's minimumNumber)."""

    def of_nans(mode: Mode, a: Bits, b: Bits, number: Bits) -> Bits:
        first, second = is_nan(fmt, a), is_nan(fmt, b)
        one = np.where(second, a, np.where(first, b, number))
        return np.where(first & second, a | fmt.word(fmt.quiet), one)

    return _choice(fmt, largest, of_nans)


def _choice(fmt: FloatFormat, largest: bool, of_nans: Any) -> Op2:
    def run(mode: Mode, a: Bits, b: Bits) -> Bits:
        if float_mode(fmt, mode).flush_in:
            a, b = flush(fmt, a), flush(fmt, b)
        first = _order(fmt, a) > _order(fmt, b) if largest else _order(fmt, a) < _order(fmt, b)
        out = np.where(first, a, b)
        if np.count_nonzero(is_nan(fmt, a)) or np.count_nonzero(is_nan(fmt, b)):
            return of_nans(mode, a, b, out)  # type: ignore[no-any-return]
        return out

    return run


def _order(fmt: FloatFormat, x: Bits) -> Any:
    """Integers in the order of the numbers: the magnitude's bits flipped below zero."""
    signed = x.view(_SIGNED[fmt.bits])
    return signed ^ ((signed >> (fmt.bits - 1)) & fmt.magnitude)
