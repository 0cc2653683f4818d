"""Data formats of buffers and images: where the channels of an element lie, and what kind of number each is.

A name lists the channels from the top of the element down: of ``2_10_10_10`` channel X is the lowest ten bits.

Sources: "Data Formats" (table of buffer and image data formats) of the RDNA3 and RDNA4 manuals, fields DFMT and NFMT of
"Buffer instructions" of the CDNA3 manual.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

from mockgpu.isa.disasm_memory import BUFFER_FORMATS, DATA_FORMATS, NUMBER_FORMATS

Number = Literal["unorm", "snorm", "uscaled", "sscaled", "uint", "sint", "float", "srgb", "raw", "shared"]

#: Formats of images beyond those that buffers have too.
_IMAGE_FORMATS = {
    64: "8_SRGB", 65: "8_8_SRGB", 66: "8_8_8_8_SRGB", 67: "5_9_9_9_FLOAT", 68: "5_6_5_UNORM", 69: "1_5_5_5_UNORM",
    70: "5_5_5_1_UNORM", 71: "4_4_4_4_UNORM", 72: "4_4_UNORM",
}  # fmt: skip
#: Formats that are named so that an error can name them.
_UNSUPPORTED = {
    73: "1_UNORM", 74: "1_REVERSED_UNORM", 75: "32_FLOAT_CLAMP", 76: "8_24_UNORM", 77: "8_24_UINT", 78: "24_8_UNORM",
    79: "24_8_UINT", 80: "X24_8_32_UINT", 81: "X24_8_32_FLOAT", 82: "GB_GR_UNORM", 83: "GB_GR_SNORM",
    84: "GB_GR_UINT", 85: "GB_GR_SRGB", 86: "BG_RG_UNORM", 87: "BG_RG_SNORM", 88: "BG_RG_UINT", 89: "BG_RG_SRGB",
    109: "BC1_UNORM", 110: "BC1_SRGB", 111: "BC2_UNORM", 112: "BC2_SRGB", 113: "BC3_UNORM", 114: "BC3_SRGB",
    115: "BC4_UNORM", 116: "BC4_SNORM", 117: "BC5_UNORM", 118: "BC5_SNORM", 119: "BC6_UFLOAT", 120: "BC6_SFLOAT",
    121: "BC7_UNORM", 122: "BC7_SRGB", 205: "YCBCR_UNORM", 206: "YCBCR_SRGB", 227: "6E4_FLOAT",
}  # fmt: skip
_FLOAT_WIDTHS = {10, 11, 16, 32}
_SHARED_EXPONENT = "5_9_9_9_FLOAT"
_FIRST_RESERVED = "RESERVED"


@dataclass(frozen=True, slots=True)
class Channel:
    """``bits`` bits from bit ``lo`` of the element on."""

    lo: int
    bits: int
    number: Number


@dataclass(frozen=True, slots=True)
class DataFormat:
    """An element of ``nbytes`` bytes; ``channels`` are X, Y, Z, W as far as they exist."""

    name: str
    nbytes: int
    channels: tuple[Channel, ...]

    @property
    def integer(self) -> bool:
        """Whether registers hold its channels as integers."""
        return self.channels[0].number in ("uint", "sint")


def _format(widths: tuple[int, ...], number: Number, name: str) -> DataFormat:
    """``widths`` from the lowest channel up."""
    starts = [sum(widths[:k]) for k in range(len(widths))]
    channels = tuple(Channel(lo, bits, number) for lo, bits in zip(starts, widths, strict=True))
    return DataFormat(name, sum(widths) // 8, channels)


def _parse(name: str) -> DataFormat:
    *widths, number = name.split("_")
    if name == _SHARED_EXPONENT:  # the exponent is no channel
        return DataFormat(name, 4, tuple(Channel(9 * k, 9, "shared") for k in range(3)))
    return _format(tuple(int(w) for w in reversed(widths)), number.lower(), name)  # type: ignore[arg-type]


@functools.cache
def unified_format(number: int) -> DataFormat | None:
    """The format with that number in the table of RDNA; None for 0, which means that nothing is bound.

    Raises LookupError, which names the format, for block-compressed, video and depth formats and for unused numbers.
    """
    if number == 0:
        return None
    if number < len(BUFFER_FORMATS):
        return _parse(BUFFER_FORMATS[number])
    if number in _IMAGE_FORMATS:
        return _parse(_IMAGE_FORMATS[number])
    raise LookupError(f"the data format {_UNSUPPORTED.get(number, number)} is not modelled")


@functools.cache
def split_format(number: int) -> DataFormat | None:
    """The format of CDNA: NFMT in bits 2:0 and DFMT in bits 6:3 of ``number``; None for DFMT 0.

    Channels of 32 bits are never converted. Raises LookupError for combinations that mean nothing.
    """
    data, kind = DATA_FORMATS[number >> 3], NUMBER_FORMATS[number & 7]
    name = f"{data}_{kind}"
    if number >> 3 == 0:
        return None
    if data.startswith(_FIRST_RESERVED) or kind.startswith(_FIRST_RESERVED):
        raise LookupError(f"the data format {name} is reserved")
    widths = tuple(int(w) for w in reversed(data.split("_")))
    if kind == "FLOAT" and not set(widths) <= _FLOAT_WIDTHS:
        raise LookupError(f"the data format {name} does not exist: its channels are too narrow for floats")
    if widths[0] == 32 and kind not in ("UINT", "SINT", "FLOAT"):
        return _format(widths, "raw", name)
    return _format(widths, kind.lower(), name)  # type: ignore[arg-type]
