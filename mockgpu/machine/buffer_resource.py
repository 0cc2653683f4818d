"""The buffer resource descriptor (V#): its fields, the range check, and where an element lies.

What the parts do, as their manuals say:

* RDNA3, RDNA4: OOB_SELECT chooses the check. 0: index below NUM_RECORDS and the access inside the stride; 1: index
  alone; 2: none, unless NUM_RECORDS is 0; 3: as 0 for swizzled buffers with a stride, else the access ends at or before
  NUM_RECORDS bytes, less the scalar offset.
* CDNA: with ADD_TID and no index nothing is checked; with an index and a stride the index is; else the byte offset of
  each component. A swizzled element has 4 bytes (the descriptor has no element size). STRIDE gets four more bits from
  the data format when ADD_TID is set and the instruction does not convert.
* A descriptor without data format is unbound, unless ADD_TID is set: nothing is in range.

Sources: "Range Checking", "Swizzled Buffer Addressing" and "Buffer Resource" of the RDNA3, RDNA4 and CDNA3 manuals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mockgpu.isa.arch import Arch
from mockgpu.machine.waves import Array, Group

_STRUCTURED, _INDEX_ONLY, _NO_CHECK, _RAW = range(4)
_INDEX_STRIDES = np.array((8, 16, 32, 64), np.uint64)


@dataclass(frozen=True, slots=True)
class _Bits:
    """Where the fields that differ between parts lie: (first bit, number of bits)."""

    swizzle: tuple[int, int]
    elements: tuple[int, ...]  # bytes of a swizzled element by the value of ``swizzle``
    format: tuple[int, int]
    oob: tuple[int, int] | None = None
    stride_scale: tuple[int, int] | None = None


_LAYOUTS = {
    "rdna3": _Bits((62, 2), (4, 4, 8, 16), (108, 6), (124, 2)),
    "rdna4": _Bits((62, 2), (4, 4, 8, 16), (108, 6), (124, 2), (114, 2)),
    "cdna": _Bits((63, 1), (4, 4), (108, 7)),
}
_STRIDE_SCALES = np.array((1, 4, 8, 32), np.uint64)
_CDNA_DATA_FORMAT = 3  # DFMT follows NFMT
#: Parts whose scalar offset takes part in the swizzle.
_SWIZZLES_SCALAR_OFFSET = frozenset({"rdna4"})


class Descriptor:
    """The fields of the waves' descriptors, (n, 1) uint64 each. ``code`` is the scalar register that holds them.

    ``converts``: the instruction is a format one. ``format`` is the number of the data format in the descriptor.
    """

    def __init__(self, arch: Arch, g: Group, code: int, *, converts: bool):
        self.family = arch.family
        self.layout = _LAYOUTS[arch.family]
        self.words = [g.scalar(code + k).astype(np.uint64) for k in range(4)]
        self.base = self.words[0] | (self.words[1] & np.uint64(0xFFFF)) << np.uint64(32)
        self.records = self.words[2]
        self.index_stride = _INDEX_STRIDES[self._get((117, 2))]
        self.add_tid = self._get((119, 1)) != 0
        swizzle = self._get(self.layout.swizzle)
        self.swizzled = swizzle != 0
        self.element = np.array(self.layout.elements, np.uint64)[swizzle]
        self.format = self._get(self.layout.format)
        self.stride = self._stride(converts)
        self.unbound = self._unbound()

    def _get(self, place: tuple[int, int]) -> Array:
        word, shift = divmod(place[0], 32)
        value: Array = self.words[word] >> np.uint64(shift) & np.uint64((1 << place[1]) - 1)
        return value

    def selector(self, component: int) -> Array:
        """DST_SEL of a component: 0, 1, or 4 and the number of a channel."""
        return self._get((96 + 3 * component, 3))

    def _stride(self, converts: bool) -> Array:
        stride = self._get((48, 14))
        if self.layout.stride_scale is not None:
            return stride * _STRIDE_SCALES[self._get(self.layout.stride_scale)]
        if self.layout.oob is None and not converts:
            high = self.format >> np.uint64(_CDNA_DATA_FORMAT) << np.uint64(14)
            return np.where(self.add_tid, stride | high, stride)
        return stride

    def _unbound(self) -> Array:
        shift = _CDNA_DATA_FORMAT if self.layout.oob is None else 0
        out: Array = (self.format >> np.uint64(shift) == 0) & ~self.add_tid
        return out

    # -- the range check --------------------------------------------------------------------------------------

    def inside(self, index: Array, offset: Array, scalar: Array, nbytes: int, *, indexed: bool, whole: bool) -> Array:
        """Whether an access of ``nbytes`` bytes at ``offset`` of record ``index`` is in range.

        ``scalar`` is the scalar offset, ``indexed`` says that the instruction gives an index, ``whole`` that all of the
        access counts and not its first byte alone (CDNA).
        """
        if self.layout.oob is None:
            return self._inside_cdna(index, offset + np.uint64(nbytes - 1 if whole else 0), indexed)
        end = offset + np.uint64(nbytes)
        mode = self._get(self.layout.oob)
        low = index < self.records
        structured = low & (end <= self.stride)
        raw = np.where(self.swizzled & (self.stride != 0), structured, end + scalar <= self.records)
        chosen = [mode == _STRUCTURED, mode == _INDEX_ONLY, mode == _NO_CHECK, mode == _RAW]
        return np.select(chosen, [structured, low, self.records != 0, raw], False)

    def _inside_cdna(self, index: Array, offset: Array, indexed: bool) -> Array:
        if indexed:
            return np.where(self.stride != 0, index < self.records, offset < self.records)
        by_offset = np.where(self.swizzled & (self.stride != 0), index < self.records, offset < self.records)
        out: Array = self.add_tid | by_offset
        return out

    # -- the address ------------------------------------------------------------------------------------------

    def place(self, index: Array, offset: Array, scalar: Array) -> Array:
        """Byte address of ``offset`` in record ``index``."""
        linear = self.base + scalar + index * self.stride + offset
        if not self.swizzled.any():
            out: Array = linear
            return out
        inside = scalar if self.family in _SWIZZLES_SCALAR_OFFSET else np.zeros((1, 1), np.uint64)
        at = (offset + inside) & np.uint64(0xFFFF_FFFF)
        block = (index // self.index_stride * self.stride + at // self.element * self.element) * self.index_stride
        swizzled = block + index % self.index_stride * self.element + at % self.element
        out = np.where(self.swizzled, self.base + (scalar - inside) + swizzled, linear)
        return out
