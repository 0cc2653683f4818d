"""Conversions of numbers: between float formats, between integers, and across.

Rounding follows MODE by the *destination's* format. Denormals are kept: an instruction flushes its operands and its
result (:func:`~mockgpu.pcode.numeric_format.flush_input`), not the conversion in between.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mockgpu.pcode import numeric_exact as exact
from mockgpu.pcode.numeric_float import to_doubles
from mockgpu.pcode.numeric_format import (
    BF16,
    F64,
    Bits,
    FloatFormat,
    NumericError,
    boxed,
    container,
    float_mode,
    is_nan,
    on_part,
)
from mockgpu.pcode.numeric_mode import Mode
from mockgpu.pcode.numeric_round import Doubles, round_double, sum_to_odd

Convert: TypeAlias = Callable[[Mode, Bits], Bits]


# -- integers ---------------------------------------------------------------------------------------------------------


def as_signed(x: Bits, bits: int) -> npt.NDArray[Any]:
    """The two's complement numbers of patterns, in int64 (``bits`` up to 64) or Python integers."""
    if bits > 64:
        half = 1 << (bits - 1)
        return (x ^ half) - half
    wide = x.astype(np.int64)
    if bits == 64:
        return wide
    spare = np.int64(64 - bits)
    return (wide << spare) >> spare


def resize(x: Bits, bits: int, to: int) -> Bits:
    """The pattern zero-extended or truncated."""
    if to == bits:
        return x
    if to == 1 and bits <= 64:
        return (x & x.dtype.type(1)) != 0  # type: ignore[no-any-return]
    if bits > 64 and to < bits:
        x = x & ((1 << to) - 1)
    word = container(to)
    out = boxed(x) if word is np.object_ else x.astype(word)
    if word is np.object_ or to in (16, 32, 64) or to > bits:
        return out
    return out & word((1 << to) - 1)  # type: ignore[no-any-return]


def extend(x: Bits, bits: int, to: int) -> Bits:
    """The pattern sign-extended (or truncated) to ``to`` bits."""
    if to <= bits:
        return resize(x, bits, to)
    if to > 64:
        signed = as_signed(x, bits) if bits > 64 else boxed(as_signed(x, bits))
        return signed & ((1 << to) - 1)
    return from_int64(as_signed(x, bits), to)


def from_int64(x: npt.NDArray[np.int64], bits: int) -> Bits:
    """The low ``bits`` (up to 64) bits of two's complement numbers."""
    return resize(x.astype(np.uint64), 64, bits)


# -- float to float ---------------------------------------------------------------------------------------------------


@functools.cache
def _small_values(fmt: FloatFormat) -> Doubles:
    """The numbers of all patterns of a format of at most 8 bits."""
    out = np.empty(1 << fmt.bits, np.float64)
    for bits in range(1 << fmt.bits):
        sign, mantissa, exponent = exact.unpack(fmt, bits)
        out[bits] = (-1.0) ** sign * mantissa * 2.0**exponent
        if (fmt.special == "ieee" and bits & fmt.magnitude == fmt.inf) or _small_nan(fmt, bits):
            out[bits] = np.copysign(np.nan if _small_nan(fmt, bits) else np.inf, -1.0 if sign else 1.0)
    if fmt.special == "fnuz":
        out[fmt.nan] = np.nan
    return out


def _small_nan(fmt: FloatFormat, bits: int) -> bool:
    return bool(is_nan(fmt, np.array([bits], fmt.word))[0])


def values(fmt: FloatFormat, x: Bits) -> Doubles:
    """The numbers of patterns of any format, exact; a NaN is some NaN of the same sign."""
    return _small_values(fmt)[x] if fmt.bits <= 8 else to_doubles(fmt, x)


def from_doubles(mode: Mode, fmt: FloatFormat, x: Doubles) -> Bits:
    """``x`` rounded to ``fmt`` as MODE says; FP16_OVFL saturates f16 and the 8-bit formats.

    A NaN becomes some NaN: callers that know the operands put the right one in its place.
    """
    how = float_mode(fmt, mode)
    saturate = mode.fp16_ovfl and fmt.bits <= 16 and fmt is not BF16
    if how.nearest and fmt.native is not None and not saturate:
        return np.asarray(x.astype(fmt.native)).view(fmt.word)
    return round_double(fmt, how.round, x, saturate)


@functools.cache
def float_to_float(src: FloatFormat, dst: FloatFormat) -> Convert:
    """Conversion with one rounding. A NaN keeps its sign and the payload bits that fit, and comes out quiet."""
    if src is dst:
        return lambda mode, x: x

    def run(mode: Mode, x: Bits) -> Bits:
        source, target = on_part(src, mode), on_part(dst, mode)
        out = from_doubles(mode, target, values(source, x))
        if source.special == "ieee" and source.bits > 8:
            nan = is_nan(source, x)
            if np.count_nonzero(nan):
                out = np.where(nan, _convert_nan(source, target, x), out)
        return out

    return run


def _convert_nan(src: FloatFormat, dst: FloatFormat, x: Bits) -> Bits:
    """By integer operations, so that the payload does not depend on the host."""
    if dst.special == "fnuz":
        return np.full(np.shape(x), dst.nan, dst.word)
    wide = x.astype(np.uint64)
    sign = (wide >> np.uint64(src.bits - 1)) << np.uint64(dst.bits - 1)
    if dst.special != "ieee":
        return (sign | np.uint64(dst.nan)).astype(dst.word)
    payload = wide & np.uint64(src.min_normal - 1)
    more = dst.man - src.man
    payload = payload << np.uint64(more) if more > 0 else payload >> np.uint64(-more)
    return (sign | np.uint64(dst.inf | dst.quiet) | payload).astype(dst.word)


# -- float to integer -------------------------------------------------------------------------------------------------


def saturate_doubles(x: Doubles, bits: int, signed: bool) -> Bits:
    """Integer-valued doubles as integers of ``bits`` (up to 64) bits: out of range saturates, NaN gives 0."""
    low = -(1 << (bits - 1)) if signed else 0
    high = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    nan = np.isnan(x)
    if np.count_nonzero(nan):
        x = np.where(nan, 0.0, x)
    if bits <= 53:
        return from_int64(np.minimum(np.maximum(x, low), high).astype(np.int64), bits)
    over, under = x >= float(high + 1), x < float(low)
    inside = np.where(over | under, 0.0, x)
    if signed:
        out = inside.astype(np.int64).astype(np.uint64)
    else:
        top = inside >= 2.0**63
        out = np.where(top, inside - 2.0**63, inside).astype(np.int64).astype(np.uint64)
        out = out | (np.asarray(top).astype(np.uint64) << np.uint64(63))
    mask = (1 << bits) - 1
    out = np.where(over, np.uint64(high), np.where(under, np.uint64(low & mask), out & np.uint64(mask)))
    return resize(out, 64, bits)


@functools.cache
def float_to_int(src: FloatFormat, bits: int, signed: bool) -> Convert:
    """Truncation toward zero; out of range saturates, NaN gives 0. Raises NumericError above 64 bits."""
    if bits > 64:
        raise NumericError(f"no conversion from {src} to {bits} bits")

    def run(mode: Mode, x: Bits) -> Bits:
        return saturate_doubles(np.trunc(values(on_part(src, mode), x)), bits, signed)

    return run


# -- integer to float -------------------------------------------------------------------------------------------------


@functools.cache
def int_to_float(bits: int, signed: bool, dst: FloatFormat) -> Convert:
    """Conversion with one rounding."""
    if bits > 64:
        return lambda mode, x: _each_integer(mode, on_part(dst, mode), as_signed(x, bits) if signed else x)

    def run(mode: Mode, x: Bits) -> Bits:
        target = on_part(dst, mode)
        whole = as_signed(x, bits) if signed else x.astype(np.uint64)
        if bits <= 53:
            return from_doubles(mode, target, whole.astype(np.float64))
        if target is F64:
            return _wide_to_f64(mode, whole)
        high = (whole >> whole.dtype.type(11)) << whole.dtype.type(11)
        odd = sum_to_odd(high.astype(np.float64), (whole - high).astype(np.float64))
        return from_doubles(mode, target, odd)

    return run


def _wide_to_f64(mode: Mode, whole: npt.NDArray[Any]) -> Bits:
    if mode.f16_f64.nearest:
        return np.asarray(whole.astype(np.float64)).view(np.uint64)
    return _each_integer(mode, F64, whole)


def _each_integer(mode: Mode, fmt: FloatFormat, x: Any) -> Bits:
    rounding = float_mode(fmt, mode).round
    whole = boxed(x)
    flat = [exact.round_pack(fmt, rounding, int(v < 0), abs(int(v)), 0) for v in whole.ravel()]
    return np.array(flat, fmt.word).reshape(whole.shape)


# -- normalized integers ----------------------------------------------------------------------------------------------


@functools.cache
def to_normalized(src: FloatFormat, bits: int, signed: bool) -> Convert:
    """snorm (clamp to -1..1, times 2**(bits-1)-1) or unorm (clamp to 0..1, times 2**bits-1).

    The result is rounded to nearest even; NaN gives 0.
    """
    scale = float((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    low = -1.0 if signed else 0.0

    def run(mode: Mode, x: Bits) -> Bits:
        inside = np.minimum(np.maximum(values(src, x), low), 1.0)
        return saturate_doubles(np.rint(inside * scale), bits, signed)

    return run
