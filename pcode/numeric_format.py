"""Float formats as data, and the few operations on bit patterns that need nothing but the layout.

A *bit pattern array* holds values of ``n`` bits in the smallest of bool (1), uint16 (2..16), uint32 (17..32),
uint64 (33..64) or Python integers in an object array (more); unused high bits are zero.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mockgpu.pcode import ir
from mockgpu.pcode.numeric_mode import PLAIN, FloatMode, Mode

#: A bit pattern array (numpy scalars count as arrays without axes).
Bits: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]


class NumericError(ValueError):
    """A format or an operation that the arithmetic does not have: the IR is wrong."""


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary float format: one sign bit, ``exp`` exponent bits, ``man`` fraction bits.

    ``special`` says what the top exponent means: ``ieee`` (infinity and NaN), ``fn`` (numbers, all ones is NaN),
    ``fnuz`` (numbers; the pattern of minus zero is the only NaN) or ``none`` (numbers only). ``native`` is numpy's type
    or None.
    """

    name: str
    exp: int
    man: int
    bias: int
    special: str
    native: Any = None
    bits: int = field(init=False)
    word: Any = field(init=False)
    sign: int = field(init=False)
    magnitude: int = field(init=False)
    quiet: int = field(init=False)
    inf: int = field(init=False)
    nan: int = field(init=False)
    max: int = field(init=False)
    min_normal: int = field(init=False)

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        bits = 1 + self.exp + self.man
        top = ((1 << self.exp) - 1) << self.man
        every = (1 << (bits - 1)) - 1
        put("bits", bits)
        put("word", container(bits))
        put("sign", 1 << (bits - 1))
        put("magnitude", every)
        put("quiet", 1 << (self.man - 1))
        put("inf", top)
        put(
            "nan",
            {"ieee": top | 1 << (self.man - 1), "fn": every, "fnuz": 1 << (bits - 1), "none": every}[self.special],
        )
        put("max", {"ieee": top - 1, "fn": every - 1, "fnuz": every, "none": every}[self.special])
        put("min_normal", 1 << self.man)

    def __str__(self) -> str:
        return self.name


def container(bits: int) -> Any:
    """The numpy type whose arrays hold patterns of ``bits`` bits."""
    if bits > 64:
        return np.object_
    return np.uint64 if bits > 32 else np.uint32 if bits > 16 else np.uint16 if bits > 1 else np.bool_


F16 = FloatFormat("f16", 5, 10, 15, "ieee", np.float16)
F32 = FloatFormat("f32", 8, 23, 127, "ieee", np.float32)
F64 = FloatFormat("f64", 11, 52, 1023, "ieee", np.float64)
BF16 = FloatFormat("bf16", 8, 7, 127, "ieee")
FP8 = FloatFormat("fp8", 4, 3, 7, "fn")
BF8 = FloatFormat("bf8", 5, 2, 15, "ieee")
FP8_FNUZ = FloatFormat("fp8_fnuz", 4, 3, 8, "fnuz")
BF8_FNUZ = FloatFormat("bf8_fnuz", 5, 2, 16, "fnuz")
FP6 = FloatFormat("fp6", 2, 3, 1, "none")
BF6 = FloatFormat("bf6", 3, 2, 3, "none")
FP4 = FloatFormat("fp4", 2, 1, 1, "none")

_SMALLEST = {"f32": np.float32(2.0**-126), "f64": np.float64(2.0**-1022)}
_BY_TYPE = {("f", 16): F16, ("f", 32): F32, ("f", 64): F64, ("bf", 16): BF16, ("fp8", 8): FP8, ("bf8", 8): BF8}
_FNUZ = {"fp8": FP8_FNUZ, "bf8": BF8_FNUZ}


def format_of(type: ir.Type) -> FloatFormat:
    """The format of a float type; raises :class:`NumericError` for any other type."""
    found = _BY_TYPE.get((type.kind, type.bits))
    if found is None:
        raise NumericError(f"{type} is not a float type")
    return found


def on_part(fmt: FloatFormat, mode: Mode) -> FloatFormat:
    """``fmt`` as the part at hand has it: gfx942 has the FNUZ kind of the 8-bit formats."""
    return _FNUZ.get(fmt.name, fmt) if mode.fp8_fnuz else fmt


def float_mode(fmt: FloatFormat, mode: Mode) -> FloatMode:
    """The part of MODE that governs ``fmt``."""
    if fmt is F32:
        return mode.f32
    return mode.f16_f64 if fmt is F16 or fmt is F64 else PLAIN


def is_nan(fmt: FloatFormat, x: Bits) -> Mask:
    if fmt is F32 or fmt is F64:
        return np.isnan(x.view(fmt.native))  # type: ignore[no-any-return]
    if fmt.special == "ieee":
        return (x & fmt.magnitude) > fmt.inf
    if fmt.special == "fn":
        return (x & fmt.magnitude) == fmt.nan  # type: ignore[no-any-return]
    if fmt.special == "fnuz":
        return x == fmt.nan  # type: ignore[no-any-return]
    return np.zeros(np.shape(x), np.bool_)


def is_inf(fmt: FloatFormat, x: Bits) -> Mask:
    if fmt.special != "ieee":
        return np.zeros(np.shape(x), np.bool_)
    return (x & fmt.magnitude) == fmt.inf  # type: ignore[no-any-return]


def is_zero(fmt: FloatFormat, x: Bits) -> Mask:
    if fmt.special == "fnuz":
        return x == 0  # type: ignore[no-any-return]
    return (x & fmt.magnitude) == 0  # type: ignore[no-any-return]


def is_signaling(fmt: FloatFormat, x: Bits) -> Mask:
    nan = is_nan(fmt, x)
    return nan & ((x & fmt.word(fmt.quiet)) == 0) if np.count_nonzero(nan) else nan


def is_denormal(fmt: FloatFormat, x: Bits) -> Mask:
    """A number below the smallest normal one, and not zero."""
    return ((x & fmt.magnitude) - fmt.word(1)) < fmt.word(fmt.min_normal - 1)  # type: ignore[no-any-return]


def flush(fmt: FloatFormat, x: Bits) -> Bits:
    """``x`` with denormals replaced by the zero of their sign."""
    tiny = _is_tiny(fmt, x)
    if not np.count_nonzero(tiny):
        return x
    return np.where(tiny, x & fmt.word(fmt.sign), x)


def _is_tiny(fmt: FloatFormat, x: Bits) -> Mask:
    """Zero or denormal: the cheapest test there is. The host's own flushing does not change its outcome."""
    if fmt is F32 or fmt is F64:
        return np.abs(x.view(fmt.native)) < _SMALLEST[fmt.name]  # type: ignore[no-any-return]
    return (x & fmt.word(fmt.magnitude)) < fmt.word(fmt.min_normal)  # type: ignore[no-any-return]


def flush_input(fmt: FloatFormat, mode: Mode, x: Bits) -> Bits:
    """``x`` as an instruction that obeys MODE sees it."""
    return flush(fmt, x) if float_mode(fmt, mode).flush_in else x


def flush_output(fmt: FloatFormat, mode: Mode, x: Bits) -> Bits:
    """``x`` as an instruction that obeys MODE returns it."""
    return flush(fmt, x) if float_mode(fmt, mode).flush_out else x


@functools.cache
def constant(bits: int, value: int) -> Bits:
    """A pattern without axes; of shape (1, 1) above 64 bits, where numpy would hand out a bare integer."""
    word = container(bits)
    return boxed(value) if word is np.object_ else word(value)


def boxed(x: Any) -> Bits:
    """Python integers with at least one axis."""
    values = np.asarray(x).astype(np.object_) if not isinstance(x, int) else np.array(x, np.object_)
    return values if values.ndim else values.reshape(1, 1)
