"""Minimum and maximum of two floats, under which -0 is below +0, by the two rules that instructions have for NANs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mockgpu.pcode.numeric_float import Op2
from mockgpu.pcode.numeric_format import F16, Bits, FloatFormat, float_mode, flush, is_nan, is_signaling
from mockgpu.pcode.numeric_mode import Mode


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
    """MODE's flush is left to the result: it commutes with choosing."""
    choose = _by_order if fmt is F16 else _native

    def run(mode: Mode, a: Bits, b: Bits) -> Bits:
        out, nans = choose(fmt, largest, a, b)
        if nans:
            out = of_nans(mode, a, b, out)
        return flush(fmt, out) if float_mode(fmt, mode).flush_in else out

    return run


def _native(fmt: FloatFormat, largest: bool, a: Bits, b: Bits) -> tuple[Bits, bool]:
    """numpy's choice, which is right but for zeros of different signs; also whether there is a NAN."""
    step = np.maximum if largest else np.minimum
    value = step(a.view(fmt.native), b.view(fmt.native))
    out = value.view(fmt.word)
    either = a | b
    zeros = either == fmt.word(fmt.sign)
    if np.count_nonzero(zeros):
        out = np.where(zeros, a & b if largest else either, out)
    return out, bool(np.count_nonzero(np.isnan(value)))


def _by_order(fmt: FloatFormat, largest: bool, a: Bits, b: Bits) -> tuple[Bits, bool]:
    """By integers in the order of the numbers; also whether there is a NAN."""
    first = _order(fmt, a) > _order(fmt, b) if largest else _order(fmt, a) < _order(fmt, b)
    nans = np.count_nonzero(is_nan(fmt, a)) or np.count_nonzero(is_nan(fmt, b))
    return np.where(first, a, b), bool(nans)


def _order(fmt: FloatFormat, x: Bits) -> Any:
    """The magnitude's bits flipped below zero."""
    signed = x.view(np.int16)
    return signed ^ ((signed >> (fmt.bits - 1)) & fmt.magnitude)
