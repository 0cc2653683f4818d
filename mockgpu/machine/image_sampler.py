"""The sampler resource descriptor (S#): its fields, and what clamping makes of texel numbers.

Only samplers that pick texels are modelled. One that mixes them, and one that changes them in a way that is not
modelled, is refused with the name of the field.

Sources: fields, clamp modes, filters and border colors as in the image descriptors of ROCr for gfx11
(``resource_gfx11.h``). Assumed: gfx12 places them alike.
"""

from __future__ import annotations

import functools

import numpy as np

from mockgpu.machine.waves import Array, Group

_PLACES = {
    "clamp_x": (0, 3), "clamp_y": (3, 3), "clamp_z": (6, 3), "depth_compare_func": (12, 3),
    "force_unnormalized": (15, 1), "force_degamma": (20, 1), "trunc_coord": (27, 1), "skip_degamma": (31, 1),
    "xy_mag_filter": (84, 2), "xy_min_filter": (86, 2), "z_filter": (88, 2), "mip_filter": (90, 2),
    "border_color_type": (126, 2),
}  # fmt: skip
_XY_FILTERS = ("POINT", "BILINEAR", "ANISO_POINT", "ANISO_LINEAR")
_LEVEL_FILTERS = ("NONE", "POINT", "LINEAR", "3")
_WRAP, _MIRROR, _LAST, _ONCE_LAST, _HALF, _ONCE_HALF, _BORDER, _ONCE_BORDER = range(8)
_PALETTE = 3
#: Whether the colour channels and alpha of the border are 1, by BORDER_COLOR_TYPE.
_COLOR, _ALPHA = np.array([0, 0, 1, 0]), np.array([0, 1, 1, 0])


def sampler(**fields: int) -> int:
    """A descriptor as an integer of 128 bits, from the raw values of fields."""
    value = 0
    for name, field in fields.items():
        first, count = _PLACES[name]
        if field >> count:
            raise ValueError(f"{name} does not fit into {count} bits: {field}")
        value |= field << first
    return value


class Sampler:
    """The fields of the waves' samplers, (n, 1) int64 each."""

    def __init__(self, g: Group, code: int):
        self.words = [g.scalar(code + k).astype(np.int64) for k in range(4)]

    def field(self, name: str) -> Array:
        """A field by name."""
        first, count = _PLACES[name]
        word, shift = divmod(first, 32)
        value: Array = self.words[word] >> shift & (1 << count) - 1
        return value

    def problem(self, waves: Array, axes: str, gather: bool) -> str | None:
        """What about the samplers of these waves, (n, 1), is not modelled; None when all is well.

        ``axes`` are the clamped coordinates. A gather never mixes texels, so that it may name a bilinear filter.
        """
        limits = (("xy_min_filter", int(gather)), ("xy_mag_filter", int(gather)), ("z_filter", 1), ("mip_filter", 1))
        for name, most in limits:
            worst = int(self.field(name)[waves].max(initial=0))
            if worst > most:
                names = _XY_FILTERS if name.startswith("xy") else _LEVEL_FILTERS
                return f"filtered sampling: {name.upper()} is {names[worst]}; only POINT is modelled"
        for name in ("force_degamma", "skip_degamma"):
            if self.field(name)[waves].any():
                return f"a sampler with {name.upper()}, which is not modelled"
        return self._clamp_problem(waves, axes)

    def _clamp_problem(self, waves: Array, axes: str) -> str | None:
        modes = {axis: self.field(f"clamp_{axis}")[waves] for axis in axes}
        for axis, mode in modes.items():
            if np.isin(mode, (_HALF, _ONCE_HALF)).any():
                return f"a sampler whose CLAMP_{axis.upper()} is a half border mode, which is not modelled"
        palette = self.field("border_color_type")[waves] == _PALETTE
        if any((palette & (mode >= _BORDER)).any() for mode in modes.values()):
            return "a sampler whose BORDER_COLOR_TYPE is a palette, which is not modelled"
        return None

    def clamp(self, axis: str, texel: Array, size: Array) -> tuple[Array, Array]:
        """The texel numbers, (n, L) int64, brought into 0 to ``size`` - 1, and where the border is shown instead."""
        mode = self.field(f"clamp_{axis}")
        around = texel % (2 * size)
        once = np.where(texel < 0, -1 - texel, texel)
        mirrored = np.where(around < size, around, 2 * size - 1 - around)
        straight = np.where((mode == _ONCE_LAST) | (mode == _ONCE_BORDER), once, texel)
        outside = (straight < 0) | (straight >= size)
        out = np.where(mode == _WRAP, texel % size, np.clip(straight, 0, size - 1))
        return np.where(mode == _MIRROR, mirrored, out), outside & (mode >= _BORDER)

    def border(self, one: int) -> list[Array]:
        """The border's X, Y, Z, W as patterns, ``one`` that of 1."""
        kind = self.field("border_color_type")
        color, alpha = ((values[kind] * one).astype(np.uint32) for values in (_COLOR, _ALPHA))
        return [color, color, color, alpha]

    def compare(self, reference: Array, texel: Array) -> Array:
        """Whether the reference passes DEPTH_COMPARE_FUNC against the texel."""
        function = self.field("depth_compare_func")
        less, equal, greater = reference < texel, reference == texel, reference > texel
        parts = (less & (function & 1 != 0), equal & (function & 2 != 0), greater & (function & 4 != 0))
        passed = functools.reduce(np.logical_or, parts)
        unordered = np.isnan(reference) | np.isnan(texel)
        out: Array = passed | unordered & ((function == 5) | (function == 7))  # NOTEQUAL and ALWAYS
        return out
