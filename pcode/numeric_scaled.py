"""The multiply-add of division, scaled by a power of two and rounded once (V_DIV_FMAS)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from mockgpu.pcode import numeric_exact as exact
from mockgpu.pcode.numeric_convert import as_signed
from mockgpu.pcode.numeric_float import finish, fma
from mockgpu.pcode.numeric_format import Bits, FloatFormat, float_mode, flush
from mockgpu.pcode.numeric_math import ldexp
from mockgpu.pcode.numeric_mode import Mode, Round


@functools.cache
def fma_ldexp(fmt: FloatFormat) -> Callable[[Mode, Bits, Bits, Bits, Bits], Bits]:
    """``(a * b + c) * 2**d`` on ``fmt``, ``d`` an i32 pattern.

    Scaling the rounded sum is exact as long as both are normal numbers; the others are computed exactly.
    """
    top = (1 << fmt.exp) - 1
    plain, scale = fma(fmt), ldexp(fmt, 32)

    def run(mode: Mode, a: Bits, b: Bits, c: Bits, d: Bits) -> Bits:
        how = float_mode(fmt, mode)
        if how.flush_in:
            a, b, c = flush(fmt, a), flush(fmt, b), flush(fmt, c)
        total = plain(mode, a, b, c)
        field = _field(fmt, total)
        power = as_signed(d, 32)
        exact_scaling = (field > 0) & (field < top) & (field + power > 0)
        finite = (_field(fmt, a) < top) & (_field(fmt, b) < top) & (_field(fmt, c) < top)
        bits = scale(mode, total, d)
        hard = finite & ~exact_scaling
        if np.count_nonzero(hard):
            bits = exact.each(fmt, functools.partial(_exact, fmt, how.round), hard, bits, a, b, c, d)
        return finish(how, fmt, bits, a, b, c)

    return run


def _field(fmt: FloatFormat, x: Bits) -> Bits:
    return np.asarray(x >> fmt.word(fmt.man) & fmt.word((1 << fmt.exp) - 1)).astype(np.int64)


def _exact(fmt: FloatFormat, rounding: Round, a: int, b: int, c: int, d: int) -> int:
    power = d - (1 << 32) if d >> 31 else d
    return exact.fma(fmt, rounding, a, b, c, power)
