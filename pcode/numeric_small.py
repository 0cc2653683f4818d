"""Narrow formats: stochastic rounding and block scales (8, 6 and 4-bit floats).

Stochastic rounding adds the upper bits of the random word to the part of the fraction that is cut off, then cuts it
off: RDNA4 ISA manual, V_CVT_SR_FP8_F32 (S1[31:12]) and V_CVT_SR_BF8_F32 (S1[31:11]). Values that need no rounding never
change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mockgpu.pcode.numeric_convert import float_to_float, from_doubles, values
from mockgpu.pcode.numeric_format import BF6, BF8, BF16, F16, F32, FP4, FP6, FP8, Bits, FloatFormat, on_part
from mockgpu.pcode.numeric_mode import Mode, Round
from mockgpu.pcode.numeric_round import Doubles, round_double

Scaled: TypeAlias = Callable[..., Bits]

#: Formats by the names that the pseudocode's functions use.
FORMATS = {"f32": F32, "f16": F16, "bf16": BF16, "fp8": FP8, "bf8": BF8, "fp6": FP6, "bf6": BF6, "fp4": FP4}


def round_stochastic(mode: Mode, src: FloatFormat, dst: FloatFormat, x: Doubles, random: Bits) -> Bits:
    """``x`` (numbers that came from ``src``) as patterns of ``dst``, rounded by the upper bits of ``random`` (u32)."""
    cut = max(src.man - dst.man, 0)
    chance = (random >> np.uint32(32 - cut)).astype(np.float64) * 2.0**-cut if cut else 0.0
    finite = np.isfinite(x)
    size = np.abs(np.where(finite, x, 0.0))
    _, power = np.frexp(size)
    last = np.maximum(power - 1, 1 - dst.bias) - dst.man
    grown = np.ldexp(np.floor(np.ldexp(size, -last) + chance), last)
    moved = np.where(finite, np.copysign(grown, x), x)
    return round_double(dst, Round.NEAREST_EVEN, moved, mode.fp16_ovfl and dst is not BF16)


@functools.cache
def stochastic(src: FloatFormat, dst: FloatFormat) -> Scaled:
    """``f(mode, x, random)``."""

    def run(mode: Mode, x: Bits, random: Bits) -> Bits:
        return round_stochastic(mode, src, on_part(dst, mode), values(src, x), random)

    return run


def _scaled_by(x: Doubles, power: Any, scale: Bits) -> Doubles:
    """``x * 2**power``; the scale 0xff is a NaN."""
    out = np.ldexp(x, power)
    invalid = scale == 0xFF
    return np.where(invalid, np.nan, out) if np.count_nonzero(invalid) else out


@functools.cache
def narrow_scaled(src: FloatFormat, dst: FloatFormat) -> Scaled:
    """``f(mode, x, scale)``: ``x`` divided by 2**(scale - 127), one rounding to nearest even."""

    def run(mode: Mode, x: Bits, scale: Bits) -> Bits:
        divided = _scaled_by(values(src, x), 127 - scale.astype(np.int32), scale)
        return round_double(on_part(dst, mode), Round.NEAREST_EVEN, divided, mode.fp16_ovfl)

    return run


@functools.cache
def narrow_scaled_stochastic(src: FloatFormat, dst: FloatFormat) -> Scaled:
    """``f(mode, x, random, scale)``."""

    def run(mode: Mode, x: Bits, random: Bits, scale: Bits) -> Bits:
        divided = _scaled_by(values(src, x), 127 - scale.astype(np.int32), scale)
        return round_stochastic(mode, src, on_part(dst, mode), divided, random)

    return run


@functools.cache
def widen_scaled(src: FloatFormat, dst: FloatFormat) -> Scaled:
    """``f(mode, x, scale)``: ``x`` times 2**(scale - 127)."""

    def run(mode: Mode, x: Bits, scale: Bits) -> Bits:
        value = values(on_part(src, mode), x)
        return from_doubles(mode, dst, _scaled_by(value, scale.astype(np.int32) - 127, scale))

    return run


def scaled_functions() -> dict[str, Scaled]:
    """The functions of the pseudocode whose names end in ``_scale``, by name."""
    table: dict[str, Scaled] = {}
    for wide in ("f32", "f16", "bf16"):
        for narrow in ("fp8", "bf8", "fp6", "bf6", "fp4"):
            w, n = FORMATS[wide], FORMATS[narrow]
            table[f"{wide}_to_{narrow}_scale"] = narrow_scaled(w, n)
            table[f"{wide}_to_{narrow}_sr_scale"] = narrow_scaled_stochastic(w, n)
            table[f"{narrow}_to_{wide}_scale"] = widen_scaled(n, w)
    return table


__all__ = [
    "FORMATS", "Scaled", "float_to_float", "narrow_scaled", "narrow_scaled_stochastic", "round_stochastic",
    "scaled_functions", "stochastic", "widen_scaled",
]  # fmt: skip
