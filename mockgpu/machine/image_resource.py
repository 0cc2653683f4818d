"""The image resource descriptor (T#): its fields, and where the texels of a linear image lie.

A linear image is rows of ``pitch`` texels, ``height`` rows a slice, slice after slice. For 1D and 2D images the
descriptor may give the pitch; otherwise rows are padded to 256 bytes, as the drivers' address library does. Other
swizzle modes, mip chains, multisampled and compressed images are not modelled: an access to one is an error that names
what it met.

Sources: "Image Resource" of the RDNA3.5 and RDNA4 manuals; SW_MODE by the descriptor layout of AMD's ROCR runtime.
"""

from __future__ import annotations

import functools
from math import gcd

import numpy as np

from mockgpu.isa.arch import Arch
from mockgpu.machine.waves import Array, Group

_PLACES = {
    "rdna3": {
        "base": (0, 40), "max_mip": (48, 4), "format": (52, 8), "width": (62, 14), "height": (78, 14),
        "base_level": (108, 4), "last_level": (112, 4), "sw_mode": (116, 5), "type": (124, 4), "depth": (128, 13),
        "pitch": (128, 14), "base_array": (144, 13), "writable_3d": (160, 1), "compressed": (213, 1),
    },
    "rdna4": {
        "base": (0, 40), "max_mip": (44, 5), "format": (49, 8), "base_level": (57, 5), "width": (62, 16),
        "height": (78, 16), "last_level": (111, 5), "sw_mode": (116, 5), "type": (124, 4), "depth": (128, 14),
        "pitch": (128, 16), "base_array": (144, 13), "writable_3d": (164, 1),
    },
}  # fmt: skip
_SELECT = 96  # first bit of DST_SEL
_SHORT, _LONG = 4, 8  # dwords of a descriptor
_ROW_BYTES = 256
_1D, _2D, _3D, _CUBE, _1D_ARRAY, _2D_ARRAY, _2D_MSAA, _2D_MSAA_ARRAY = range(8, 16)
_FLAT = (_1D, _2D)
_ARRAYS = (_CUBE, _1D_ARRAY, _2D_ARRAY)
_SWIZZLES_RDNA4 = ("LINEAR", "256B_2D", "4KB_2D", "64KB_2D", "256KB_2D", "4KB_3D", "64KB_3D", "256KB_3D")
#: SW_MODE of RDNA3: block size and order of texels; T and X mix the memory channels in.
_SWIZZLES_RDNA3 = (
    "LINEAR", "256B_S", "256B_D", "256B_R", "4KB_Z", "4KB_S", "4KB_D", "4KB_R", "64KB_Z", "64KB_S", "64KB_D", "64KB_R",
    "12", "13", "14", "15", "64KB_Z_T", "64KB_S_T", "64KB_D_T", "64KB_R_T", "4KB_Z_X", "4KB_S_X", "4KB_D_X", "4KB_R_X",
    "64KB_Z_X", "64KB_S_X", "64KB_D_X", "64KB_R_X", "256KB_Z_X", "256KB_S_X", "256KB_D_X", "256KB_R_X",
)  # fmt: skip
_SWIZZLES = {"rdna3": _SWIZZLES_RDNA3, "rdna4": _SWIZZLES_RDNA4}


def descriptor(family: str, **fields: int) -> int:
    """A descriptor as an integer of 256 bits, from the raw values of fields; ``dst_sel`` holds all four selectors."""
    value = fields.pop("dst_sel", 0) << _SELECT
    for name, field in fields.items():
        first, count = _PLACES[family][name]
        if field >> count:
            raise ValueError(f"{name} does not fit into {count} bits: {field}")
        value |= field << first
    return value


class Image:
    """The fields of the waves' descriptors, (n, 1) int64 each. ``short`` descriptors have four dwords."""

    def __init__(self, arch: Arch, g: Group, code: int, *, short: bool):
        self.family = arch.family
        zero = np.zeros((g.n, 1), np.uint64)
        dwords = [g.scalar(code + k).astype(np.uint64) for k in range(_SHORT if short else _LONG)]
        self.words = [*dwords, *[zero] * (_LONG - len(dwords))]
        self.type = self.field("type")
        self.format = self.field("format")
        self.width, self.height = self.field("width") + 1, self.field("height") + 1
        self.bound = functools.reduce(np.bitwise_or, self.words) != 0
        self.usable = self.bound & (self.type >= _1D)
        one_row = (self.type == _1D) | (self.type == _1D_ARRAY)
        self.height = np.where(one_row, 1, self.height)
        array = np.isin(self.type, _ARRAYS) | (self.type == _3D) & (self.field("writable_3d") != 0)
        self.first_slice = np.where(array, self.field("base_array"), 0)
        self.slices = np.where(np.isin(self.type, _FLAT), 1, self.field("depth") - self.first_slice + 1)

    def field(self, name: str) -> Array:
        """A field by name; one that the part lacks is 0."""
        first, count = _PLACES[self.family].get(name, (0, 0))
        return self._bits(first, count)

    def _bits(self, first: int, count: int) -> Array:
        word, shift = divmod(first, 32)
        both = self.words[word] | self.words[min(word + 1, _LONG - 1)] << np.uint64(32)
        value: Array = (both >> np.uint64(shift) & np.uint64((1 << count) - 1)).astype(np.int64)
        return value

    def selector(self, component: int) -> Array:
        """DST_SEL of a component: 0, 1, or 4 and the number of a channel."""
        return self._bits(_SELECT + 3 * component, 3)

    def problem(self, waves: Array) -> str | None:
        """What about the images of these waves, (n, 1), is not modelled; None when all is well."""
        modes = self.field("sw_mode")[waves]
        if modes.any():
            names = _SWIZZLES[self.family]
            mode = int(modes[modes != 0][0])
            return f"an image in swizzle mode {names[mode] if mode < len(names) else mode}; only LINEAR is modelled"
        if (self.type[waves] >= _2D_MSAA).any():
            return "a multisampled image, which is not modelled"
        if (self.field("max_mip")[waves] | self.field("base_level")[waves]).any():
            return "an image with mip levels, which is not modelled"
        if self.field("compressed")[waves].any():
            return "an image with delta color compression, which is not modelled"
        return None

    # -- addresses --------------------------------------------------------------------------------------------

    def pitch(self, nbytes: int) -> Array:
        """Texels from row to row."""
        step = _ROW_BYTES // gcd(_ROW_BYTES, nbytes)
        padded = -(-self.width // step) * step
        given = self.field("pitch") + 1
        out: Array = np.where(np.isin(self.type, _FLAT) & (given > self.width), given, padded)
        return out

    def inside(self, x: Array, y: Array, z: Array) -> Array:
        """Whether texels, coordinates (n, L) as int64, lie in the image. Slices count from the view's first."""
        z = np.where(np.isin(self.type, _FLAT), 0, z)
        out: Array = (x < self.width) & (y < self.height) & (z < self.slices)
        return out

    def place(self, x: Array, y: Array, z: Array, nbytes: int) -> Array:
        """Byte addresses of texels of ``nbytes`` bytes, uint64."""
        z = np.where(np.isin(self.type, _FLAT), 0, z + self.first_slice)
        y = np.where(self.height == 1, 0, y)
        texel = (z * self.height + y) * self.pitch(nbytes) + x
        out: Array = (self.field("base") << 8).astype(np.uint64) + texel.astype(np.uint64) * np.uint64(nbytes)
        return out

    def information(self, mip: Array) -> list[Array]:
        """What IMAGE_GET_RESINFO returns: width, height, depth or slices, number of mip levels, uint32 each.

        The sizes are those of level ``mip``, (n, L), counted from the view's first level; 0 beyond the last one.
        """
        levels = self.field("last_level") - self.field("base_level") + 1
        level = np.minimum(mip + self.field("base_level"), 31)
        exists = self.usable & (mip < levels)
        depth = np.where(self.type == _3D, np.maximum(self.slices >> level, 1), self.slices)
        sizes = [np.maximum(self.width >> level, 1), np.maximum(self.height >> level, 1), depth]
        shown = [np.where(exists, size, 0) for size in sizes]
        return [v.astype(np.uint32) for v in (*shown, np.where(self.usable, levels, 0) + 0 * mip)]
