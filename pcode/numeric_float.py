"""Arithmetic and comparison of f16, f32 and f64 under MODE, on bit pattern arrays.

Every function takes the MODE first and returns patterns of its format. Rounding happens once. When the result is a NaN
it is the first NaN operand made quiet (sign and payload kept), or the positive default NaN of an invalid operation.
Callers silence numpy's floating-point warnings (``np.errstate(all="ignore")``) around a whole evaluation.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mockgpu.pcode import numeric_exact as exact
from mockgpu.pcode.numeric_format import (
    BF16,
    F16,
    F32,
    F64,
    Bits,
    FloatFormat,
    Mask,
    NumericError,
    float_mode,
    flush,
    is_nan,
)
from mockgpu.pcode.numeric_mode import PLAIN, FloatMode, Mode, Round
from mockgpu.pcode.numeric_round import Doubles, round_double, sum_to_odd, two_product, two_sum

Op1: TypeAlias = Callable[[Mode, Bits], Bits]
Op2: TypeAlias = Callable[[Mode, Bits, Bits], Bits]
Op3: TypeAlias = Callable[[Mode, Bits, Bits, Bits], Bits]

_LOW29 = np.uint64((1 << 29) - 1)
_TIE29 = np.uint64(1 << 28)
_NEARLY_DENORMAL = np.float32(2.0**-125)


def quieted(fmt: FloatFormat, nan: Mask, bits: Bits, *operands: Bits) -> Bits:
    """``bits`` with the NaN results (``nan``) replaced by the first NaN operand, quiet, or the default NaN."""
    value: Bits = fmt.word(fmt.nan)
    for x in reversed(operands):
        value = np.where(is_nan(fmt, x), x | fmt.word(fmt.quiet), value)
    return np.where(nan, value, bits)


def to_doubles(fmt: FloatFormat, x: Bits) -> Doubles:
    """The numbers of f16, bf16, f32 or f64 patterns; exact, NaN payloads aside."""
    if fmt.native is not None:
        return x.view(fmt.native).astype(np.float64)  # type: ignore[no-any-return]
    if fmt is BF16:
        return (x.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    raise NumericError(f"no arithmetic on {fmt}")


def _native(fmt: FloatFormat, step: Callable[..., Any], *args: Bits) -> Bits:
    return step(*(x.view(fmt.native) for x in args)).view(fmt.word)  # type: ignore[no-any-return]


def _saturate_f16(bits: Bits, *operands: Bits) -> Bits:
    """FP16_OVFL: an f16 result that overflowed is the largest number; an infinity from infinite operands stays."""
    over = (bits & np.uint16(F16.magnitude)) == F16.inf
    for x in operands:
        over = over & ((x & np.uint16(F16.magnitude)) != F16.inf)
    return np.where(over, bits - np.uint16(1), bits) if np.count_nonzero(over) else bits


def finish(how: FloatMode, fmt: FloatFormat, bits: Bits, *operands: Bits) -> Bits:
    """A result with its NaN made right and its denormals flushed where MODE says so."""
    nan = np.isnan(bits.view(fmt.native)) if fmt.native is not None else is_nan(fmt, bits)
    if np.count_nonzero(nan):
        bits = quieted(fmt, nan, bits, *operands)
    return flush(fmt, bits) if how.flush_out else bits


# -- two operands -----------------------------------------------------------------------------------------------------


def _binary(fmt: FloatFormat, step: Callable[..., Any], directed: Callable[..., Bits]) -> Op2:
    """An operation that numpy's type does correctly to nearest, and ``directed`` in the other rounding modes."""
    native, word = fmt.native, fmt.word

    def run(mode: Mode, a: Bits, b: Bits) -> Bits:
        how = float_mode(fmt, mode)
        if how.flush_in:
            a, b = flush(fmt, a), flush(fmt, b)
        bits = step(a.view(native), b.view(native)).view(word) if how.nearest else directed(fmt, how.round, a, b)
        if mode.fp16_ovfl and fmt is F16:
            bits = _saturate_f16(bits, a, _divisor_as_infinity(b) if step is operator.truediv else b)
        return finish(how, fmt, bits, a, b)

    return run


def _divisor_as_infinity(b: Bits) -> Bits:
    """Division by zero is a true infinity, not an overflow."""
    return np.where((b & np.uint16(F16.magnitude)) == 0, np.uint16(F16.inf), b)


def _finite(fmt: FloatFormat, *args: Bits) -> Mask:
    ok = np.isfinite(args[0].view(fmt.native))
    for x in args[1:]:
        ok = ok & np.isfinite(x.view(fmt.native))
    return ok  # type: ignore[no-any-return]


def _exactly(name: str, step: Callable[..., Any], fmt: FloatFormat, rounding: Round, *args: Bits) -> Bits:
    """One element at a time; infinities, NaN and division by zero are numpy's (they do not round)."""
    defined = _finite(fmt, *args)
    if name == "div":
        defined = defined & ((args[1] & fmt.word(fmt.magnitude)) != 0)
    if name == "sqrt":
        defined = defined & ((args[0] & fmt.word(fmt.sign)) == 0)
    one = functools.partial(getattr(exact, name), fmt, rounding)
    return exact.each(fmt, one, defined, _native(fmt, step, *args), *args)


def _directed_sum(fmt: FloatFormat, rounding: Round, a: Bits, b: Bits) -> Bits:
    if fmt is F64:
        return _exactly("add", operator.add, fmt, rounding, a, b)
    x, y = to_doubles(fmt, a), to_doubles(fmt, b)
    return _signed_zero(fmt, rounding, round_double(fmt, rounding, sum_to_odd(x, y)), x, y)


def _signed_zero(fmt: FloatFormat, rounding: Round, bits: Bits, x: Doubles, y: Doubles) -> Bits:
    """A sum that cancels is minus zero when rounding down."""
    if rounding is not Round.MINUS_INF:
        return bits
    cancels = (x == -y) & np.isfinite(x) & (np.signbit(x) != np.signbit(y))
    return np.where(cancels, fmt.word(fmt.sign), bits)


def _directed_difference(fmt: FloatFormat, rounding: Round, a: Bits, b: Bits) -> Bits:
    return _directed_sum(fmt, rounding, a, b ^ fmt.word(fmt.sign))


def _directed_product(fmt: FloatFormat, rounding: Round, a: Bits, b: Bits) -> Bits:
    if fmt is F64:
        return _exactly("mul", operator.mul, fmt, rounding, a, b)
    return round_double(fmt, rounding, to_doubles(fmt, a) * to_doubles(fmt, b))


def _directed_quotient(fmt: FloatFormat, rounding: Round, a: Bits, b: Bits) -> Bits:
    return _exactly("div", operator.truediv, fmt, rounding, a, b)


_EXACT_WIDE: dict[str, Callable[[Doubles, Doubles], Doubles]] = {
    "add": sum_to_odd,
    "sub": lambda x, y: sum_to_odd(x, -y),
    "mul": operator.mul,
}


def _binary_bf16(op: str) -> Op2:
    """bf16 obeys no MODE field: to nearest even, denormals kept."""
    step = _EXACT_WIDE.get(op)
    if step is None:
        raise NumericError(f"no {op} on bf16")

    def run(mode: Mode, a: Bits, b: Bits) -> Bits:
        bits = round_double(BF16, Round.NEAREST_EVEN, step(to_doubles(BF16, a), to_doubles(BF16, b)))
        return finish(PLAIN, BF16, bits, a, b)

    return run


def _table(make: Callable[[FloatFormat], Any]) -> dict[str, Any]:
    return {fmt.name: make(fmt) for fmt in (F16, F32, F64)}


def _choose(what: str, table: dict[str, Any], fmt: FloatFormat) -> Any:
    found = table.get(fmt.name)
    if found is None:
        raise NumericError(f"no {what} on {fmt}")
    return found


_ADD = _table(lambda fmt: _binary(fmt, operator.add, _directed_sum))
_SUB = _table(lambda fmt: _binary(fmt, operator.sub, _directed_difference))
_MUL = _table(lambda fmt: _binary(fmt, operator.mul, _directed_product))
_DIV = _table(lambda fmt: _binary(fmt, operator.truediv, _directed_quotient))
_BINARY = {"add": _ADD, "sub": _SUB, "mul": _MUL, "div": _DIV}


def binary(op: str, fmt: FloatFormat) -> Op2:
    """The function for ``op`` (add, sub, mul, div) on ``fmt`` (f16, f32, f64)."""
    if op not in _BINARY:
        raise NumericError(f"no float operation {op}")
    if fmt is BF16:
        return _binary_bf16(op)
    return _choose(op, _BINARY[op], fmt)  # type: ignore[no-any-return]


# -- square root ------------------------------------------------------------------------------------------------------


def _make_sqrt(fmt: FloatFormat) -> Op1:
    def run(mode: Mode, a: Bits) -> Bits:
        how = float_mode(fmt, mode)
        if how.flush_in:
            a = flush(fmt, a)
        bits = _native(fmt, np.sqrt, a) if how.nearest else _exactly("sqrt", np.sqrt, fmt, how.round, a)
        return finish(how, fmt, bits, a)

    return run


_SQRT = _table(_make_sqrt)


def sqrt(fmt: FloatFormat) -> Op1:
    """The square root function on ``fmt``."""
    return _choose("sqrt", _SQRT, fmt)  # type: ignore[no-any-return]


# -- fused multiply-add -----------------------------------------------------------------------------------------------


def _fma_narrow(fmt: FloatFormat) -> Op3:
    """f16 and f32: the product is exact in double precision, the sum is rounded to odd where that can matter."""

    def run(mode: Mode, a: Bits, b: Bits, c: Bits) -> Bits:
        how = float_mode(fmt, mode)
        if how.flush_in:
            a, b, c = flush(fmt, a), flush(fmt, b), flush(fmt, c)
        product = to_doubles(fmt, a) * to_doubles(fmt, b)
        addend = to_doubles(fmt, c)
        if not how.nearest:
            bits = round_double(fmt, how.round, sum_to_odd(product, addend))
            bits = _signed_zero(fmt, how.round, bits, product, addend)
        elif fmt is F32:
            bits = _nearest_f32(product, addend)
        else:
            bits = sum_to_odd(product, addend).astype(np.float16).view(np.uint16)
        if mode.fp16_ovfl and fmt is F16:
            bits = _saturate_f16(bits, a, b, c)
        return finish(how, fmt, bits, a, b, c)

    return run


def _nearest_f32(product: Doubles, addend: Doubles) -> Bits:
    """Rounding twice goes wrong only where the double lies exactly between two f32, or the result is denormal."""
    total = product + addend
    narrow = total.astype(np.float32)
    tie = (total.view(np.uint64) & _LOW29) == _TIE29
    small = np.abs(narrow) < _NEARLY_DENORMAL
    if np.count_nonzero(tie) or (np.count_nonzero(small) and np.count_nonzero(small & (total != 0))):
        narrow = sum_to_odd(product, addend).astype(np.float32)
    return narrow.view(np.uint32)


def _fma_f64(mode: Mode, a: Bits, b: Bits, c: Bits) -> Bits:
    how = mode.f16_f64
    if how.flush_in:
        a, b, c = flush(F64, a), flush(F64, b), flush(F64, c)
    naive = _native(F64, lambda x, y, z: x * y + z, a, b, c)
    naive = np.where(np.isinf(c.view(np.float64)) & _finite(F64, a, b), c, naive)
    rounds = _finite(F64, a, b, c) & ((a << np.uint64(1)) != 0) & ((b << np.uint64(1)) != 0)
    if how.nearest:
        easy = rounds & _is_easy(a, b, c)
        bits = np.where(easy, _fma_by_parts(a, b, c), naive)
        hard = rounds & ~easy
    else:
        zeros = (c << np.uint64(1)) == 0
        bits, hard = naive, rounds | (_finite(F64, a, b, c) & zeros)
    if np.count_nonzero(hard):
        bits = exact.each(F64, functools.partial(exact.fma, F64, how.round), hard, bits, a, b, c)
    return finish(how, F64, bits, a, b, c)


def _is_easy(a: Bits, b: Bits, c: Bits) -> Mask:
    """No step of :func:`_fma_by_parts` overflows or loses bits to underflow."""
    ea, eb, ec = ((x >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64) for x in (a, b, c))
    both = ea + eb - 1023
    return (ea < 2000) & (eb < 2000) & (ec < 2000) & (ea > 0) & (eb > 0) & (both > 200) & (both < 2000)


def _fma_by_parts(a: Bits, b: Bits, c: Bits) -> Bits:
    """Boldo and Melquiond's algorithm: exact product, exact sums, and one rounding to odd before the last addition."""
    high, low = two_product(a.view(np.float64), b.view(np.float64))
    near, rest = two_sum(c.view(np.float64), low)
    value, tail = two_sum(high, near)
    return (value + sum_to_odd(rest, tail)).view(np.uint64)


_FMA = {"f16": _fma_narrow(F16), "f32": _fma_narrow(F32), "f64": _fma_f64}


def fma(fmt: FloatFormat) -> Op3:
    """The fused multiply-add function on ``fmt``: ``a * b + c`` rounded once."""
    return _choose("fma", _FMA, fmt)  # type: ignore[no-any-return]


# -- comparison -------------------------------------------------------------------------------------------------------


def _ordered_unequal(a: Any, b: Any) -> Any:
    return (a < b) | (a > b)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lg": _ordered_unequal,
}


@functools.cache
def compare(op: str, fmt: FloatFormat, raw: bool = False) -> Op2:
    """The comparison ``op`` (eq ne lt le gt ge lg) on ``fmt``; only ``ne`` holds when an operand is a NaN.

    ``raw``: denormals are compared as they are, whatever MODE says.
    """
    if op not in _COMPARE:
        raise NumericError(f"no comparison {op}")
    step = _COMPARE[op]
    native = fmt.native

    def run(mode: Mode, a: Bits, b: Bits) -> Bits:
        if native is None:
            return step(to_doubles(fmt, a), to_doubles(fmt, b))  # type: ignore[no-any-return]
        if not raw and float_mode(fmt, mode).flush_in:
            a, b = flush(fmt, a), flush(fmt, b)
        return step(a.view(native), b.view(native))  # type: ignore[no-any-return]

    return run
