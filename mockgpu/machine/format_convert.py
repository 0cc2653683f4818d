"""Conversion between the channels of a data format and registers of 32 or 16 bits.

Loads: integers are extended; normalized and scaled numbers become floats, correctly rounded; small floats are widened
without loss, denormals included. 16-bit results take the low half of an integer; an f32 is cut off to f16, everything
else is rounded to nearest even.

Stores: integers and normalized numbers saturate, NaN gives 0; numbers that are not floats are rounded to nearest even;
floats are cut off to a narrower float. What the manuals leave open and is assumed here: that integers saturate, that
scaled numbers round to nearest even, and that 11- and 10-bit floats are cut off as f16 are.

Sources: "D16 Instructions" and "Data format in VGPRs" of the RDNA4 manual, "Buffer Data" of the CDNA3 manual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mockgpu.machine.formats import Channel, DataFormat
from mockgpu.machine.waves import Array
from mockgpu.pcode.numeric_convert import as_signed
from mockgpu.pcode.numeric_format import F16, F32, FloatFormat
from mockgpu.pcode.numeric_mode import Round
from mockgpu.pcode.numeric_round import round_double

Doubles: TypeAlias = npt.NDArray[np.float64]

_SMALL = {bits: FloatFormat(f"uf{bits}", 5, bits - 5, 15, "ieee") for bits in (10, 11)}  # without a sign
_SHARED_BIAS = 15 + 9
_SRGB_LOW, _SRGB_STEP = 0.04045, 12.92
_ONE = {("int", 32): 1, ("int", 16): 1, ("float", 32): 0x3F800000, ("float", 16): 0x3C00}


def one(fmt: DataFormat, bits: int) -> int:
    """The pattern of the constant 1 in a register of ``bits`` bits."""
    return _ONE["int" if fmt.integer else "float", bits]


# -- loading --------------------------------------------------------------------------------------------------


def load_channel(fmt: DataFormat, index: int, words: list[Array], bits: int) -> Array:
    """Channel ``index`` of elements as patterns of ``bits`` (32 or 16) bits, uint32. ``words`` are their dwords."""
    channel = fmt.channels[index]
    raw = field(channel, words)
    if channel.number in ("uint", "raw") or (channel.number == "float" and channel.bits == bits):
        return raw & np.uint32((1 << bits) - 1)
    if channel.number == "sint":
        return as_signed(raw, channel.bits).astype(np.uint32) & np.uint32((1 << bits) - 1)
    numbers = _shared(raw, words[0]) if channel.number == "shared" else _TO_NUMBER[channel.number](channel.bits, raw)
    if bits == 32:
        return round_double(F32, Round.NEAREST_EVEN, numbers).astype(np.uint32)
    cut = channel.number == "float" and channel.bits == 32
    return round_double(F16, Round.ZERO if cut else Round.NEAREST_EVEN, numbers).astype(np.uint32)


def field(channel: Channel, words: list[Array]) -> Array:
    """The bits of a channel as uint32. No channel crosses a dword."""
    at, shift = divmod(channel.lo, 32)
    bits: Array = words[at] >> np.uint32(shift) & np.uint32((1 << channel.bits) - 1)
    return bits


def _unorm(bits: int, raw: Array) -> Doubles:
    return raw.astype(np.float64) / ((1 << bits) - 1)


def _snorm(bits: int, raw: Array) -> Doubles:
    top = (1 << bits - 1) - 1
    return np.maximum(as_signed(raw, bits).astype(np.float64) / top, -1.0)


def _uscaled(bits: int, raw: Array) -> Doubles:
    return raw.astype(np.float64)


def _sscaled(bits: int, raw: Array) -> Doubles:
    return as_signed(raw, bits).astype(np.float64)


def _srgb(bits: int, raw: Array) -> Doubles:
    x = _unorm(bits, raw)
    return np.where(x <= _SRGB_LOW, x / _SRGB_STEP, ((x + 0.055) / 1.055) ** 2.4)


def _float(bits: int, raw: Array) -> Doubles:
    if bits == 32:
        return raw.astype(np.uint32).view(np.float32).astype(np.float64)
    if bits < 16:  # the same exponent as f16, no sign, fewer bits of fraction
        raw = raw << np.uint32(15 - bits)
    return raw.astype(np.uint16).view(np.float16).astype(np.float64)


def _shared(raw: Array, word: Array) -> Doubles:
    """Nine bits of fraction with the exponent in the element's top five bits."""
    power = (word >> np.uint32(27)).astype(np.int64) - _SHARED_BIAS
    return np.ldexp(raw.astype(np.float64), power)


_TO_NUMBER: dict[str, Callable[[int, Array], Doubles]] = {
    "unorm": _unorm, "snorm": _snorm, "uscaled": _uscaled, "sscaled": _sscaled, "srgb": _srgb, "float": _float,
}  # fmt: skip


# -- storing --------------------------------------------------------------------------------------------------


def store_element(fmt: DataFormat, values: list[Array], bits: int) -> list[Array]:
    """The dwords of elements from one pattern of ``bits`` (32 or 16) bits for every channel, uint32."""
    if fmt.channels[0].number == "shared":
        return [_store_shared([_float(bits, v) for v in values])]
    words = [np.zeros(values[0].shape, np.uint32) for _ in range(-(-fmt.nbytes // 4))]
    for channel, value in zip(fmt.channels, values, strict=True):
        at, shift = divmod(channel.lo, 32)
        words[at] = words[at] | _store_channel(channel, value.astype(np.uint32), bits) << np.uint32(shift)
    return words


def _store_channel(channel: Channel, value: Array, bits: int) -> Array:
    top = (1 << channel.bits) - 1
    if channel.number == "raw":
        return value
    if channel.number == "uint":
        return np.minimum(value, np.uint32(top))
    if channel.number == "sint":
        low, high = -(1 << channel.bits - 1), (1 << channel.bits - 1) - 1
        out: Array = np.clip(as_signed(value, bits), low, high).astype(np.uint32) & np.uint32(top)
        return out
    if channel.number == "float" and channel.bits == bits:
        return value
    with np.errstate(invalid="ignore"):
        return _FROM_NUMBER[channel.number](channel.bits, _float(bits, value)) & np.uint32(top)


def _whole(x: Doubles, low: int, high: int, scale: int = 1) -> Array:
    """Numbers times ``scale`` between two integers, NaN as 0, rounded to nearest even, as patterns."""
    kept = np.clip(np.where(np.isnan(x), 0.0, x) * scale, low, high)
    out: Array = np.rint(kept).astype(np.int64).astype(np.uint32)
    return out


def _to_unorm(bits: int, x: Doubles) -> Array:
    top = (1 << bits) - 1
    return _whole(x, 0, top, top)


def _to_snorm(bits: int, x: Doubles) -> Array:
    top = (1 << bits - 1) - 1
    return _whole(x, -top, top, top)


def _to_uscaled(bits: int, x: Doubles) -> Array:
    return _whole(x, 0, (1 << bits) - 1)


def _to_sscaled(bits: int, x: Doubles) -> Array:
    return _whole(x, -(1 << bits - 1), (1 << bits - 1) - 1)


def _to_srgb(bits: int, x: Doubles) -> Array:
    x = np.clip(np.where(np.isnan(x), 0.0, x), 0.0, 1.0)
    curve = np.where(x <= _SRGB_LOW / _SRGB_STEP, x * _SRGB_STEP, 1.055 * x ** (1 / 2.4) - 0.055)
    return _to_unorm(bits, curve)


def _to_float(bits: int, x: Doubles) -> Array:
    if bits == 32:
        return round_double(F32, Round.NEAREST_EVEN, x).astype(np.uint32)
    if bits == 16:
        return round_double(F16, Round.ZERO, x).astype(np.uint32)
    positive = np.where(np.signbit(x) & ~np.isnan(x), 0.0, np.abs(x))
    return round_double(_SMALL[bits], Round.ZERO, positive).astype(np.uint32)


def _store_shared(values: list[Doubles]) -> Array:
    """Three numbers with the exponent that the largest one needs, fractions rounded to nearest even."""
    limit = np.ldexp(511.0, 31 - _SHARED_BIAS)
    kept = [np.clip(np.where(np.isnan(v), 0.0, v), 0.0, limit) for v in values]
    largest = np.maximum(np.maximum(kept[0], kept[1]), kept[2])
    power = np.maximum(np.frexp(largest)[1] - 9, -_SHARED_BIAS)
    power = np.where(np.rint(np.ldexp(largest, -power)) > 511, power + 1, power)
    word = (power + _SHARED_BIAS).astype(np.uint32) << np.uint32(27)
    for k, value in enumerate(kept):
        word = word | np.rint(np.ldexp(value, -power)).astype(np.uint32) << np.uint32(9 * k)
    out: Array = word
    return out


_FROM_NUMBER: dict[str, Callable[[int, Doubles], Array]] = {
    "unorm": _to_unorm, "snorm": _to_snorm, "uscaled": _to_uscaled, "sscaled": _to_sscaled, "srgb": _to_srgb,
    "float": _to_float,
}  # fmt: skip
