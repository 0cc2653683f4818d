"""Memory spaces as the lanes of a group see them: global, LDS and scratch.

``load`` and ``store`` take byte addresses that broadcast to (waves, lanes) and the lanes that take part (None: all).
A fault names the wave (its number inside the group) and the lane.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from mockgpu.machine.errors import MemoryViolation, PageFault
from mockgpu.machine.waves import Array, Group


def _split(g: Group, array: Array, lanes: Array | None, width: int) -> Array:
    """The elements of the lanes that take part, one-dimensional."""
    full = array if array.shape == (g.n, width) else np.broadcast_to(array, (g.n, width))
    return full.ravel() if lanes is None else full[_full(g, lanes, width)]


def _full(g: Group, lanes: Array, width: int) -> Array:
    return lanes if lanes.shape == (g.n, width) else np.broadcast_to(lanes, (g.n, width))


def _plus(addr: Array, step: int) -> Array:
    moved: Array = addr + addr.dtype.type(step)
    return moved


def _join(g: Group, values: Array, lanes: Array | None, width: int) -> Array:
    """Values of the lanes that took part, spread to (n, width); the others get 0."""
    if lanes is None:
        return values.reshape(g.n, width)
    out = np.zeros((g.n, width), values.dtype)
    out[_full(g, lanes, width)] = values
    return out


def _columns(g: Group, values: list[Array], lanes: Array | None, width: int) -> Array:
    """Dwords of the lanes that take part, (lanes, dwords)."""
    if lanes is None:
        out = np.empty((g.n, width, len(values)), np.uint32)
        for k, value in enumerate(values):
            out[:, :, k] = value
        return out.reshape(g.n * width, len(values))
    return np.stack([_split(g, value, lanes, width) for value in values], axis=-1)


def _blame(fault: PageFault, g: Group, lanes: Array | None, width: int) -> PageFault:
    """Name the wave and lane of the element that faulted."""
    if fault.index is not None:
        at = fault.index
        if lanes is not None:
            at = int(np.flatnonzero(np.broadcast_to(lanes, (g.n, width)))[fault.index])
        wave, lane = divmod(at, width)
        fault.where = replace(fault.where, wave=wave, lane=lane if width > 1 else None)
    return fault


class DwordByDword(ABC):
    """A space that moves consecutive dwords one after the other."""

    def load_dwords(self, g: Group, addr: Array, count: int, lanes: Array | None, width: int) -> list[Array]:
        """``count`` consecutive dwords, each (n, width)."""
        return [self.load(g, _plus(addr, 4 * k), 4, lanes, width) for k in range(count)]

    def store_dwords(self, g: Group, addr: Array, values: list[Array], lanes: Array | None, width: int) -> None:
        """Consecutive dwords, each (n, width) or broadcast to it."""
        for k, value in enumerate(values):
            self.store(g, _plus(addr, 4 * k), value, 4, lanes, width)

    @abstractmethod
    def load(self, g: Group, addr: Array, nbytes: int, lanes: Array | None, width: int) -> Array:
        """Words of 1 to 8 bytes, (n, width); lanes that take no part get 0."""

    @abstractmethod
    def store(self, g: Group, addr: Array, value: Array, nbytes: int, lanes: Array | None, width: int) -> None:
        """Store words of 1 to 8 bytes."""


class Global:
    """The address space of the process. ``width`` is L, or 1 for scalar loads."""

    name = "global"

    def load(self, g: Group, addr: Array, nbytes: int, lanes: Array | None, width: int) -> Array:
        flat = _split(g, addr, lanes, width).astype(np.uint64, copy=False)
        try:
            values = g.memory.load(flat, nbytes)
        except PageFault as fault:
            raise _blame(fault, g, lanes, width) from None
        return _join(g, values, lanes, width)

    def store(self, g: Group, addr: Array, value: Array, nbytes: int, lanes: Array | None, width: int) -> None:
        flat = _split(g, addr, lanes, width).astype(np.uint64, copy=False)
        data = _split(g, value, lanes, width)
        try:
            g.memory.store(flat, data, nbytes)
        except PageFault as fault:
            raise _blame(fault, g, lanes, width) from None

    def load_dwords(self, g: Group, addr: Array, count: int, lanes: Array | None, width: int) -> list[Array]:
        """``count`` consecutive dwords, each (n, width)."""
        flat = _split(g, addr, lanes, width).astype(np.uint64, copy=False)
        if not flat.size:
            return [np.zeros((g.n, width), np.uint32)] * count
        try:
            rows = g.memory.load_dwords(flat, count)
        except PageFault as fault:
            raise _blame(fault, g, lanes, width) from None
        return [_join(g, row, lanes, width) for row in rows]

    def store_dwords(self, g: Group, addr: Array, values: list[Array], lanes: Array | None, width: int) -> None:
        """Consecutive dwords, each (n, width) or broadcast to it."""
        flat = _split(g, addr, lanes, width).astype(np.uint64, copy=False)
        if not flat.size:
            return
        try:
            g.memory.store_dwords(flat, _columns(g, values, lanes, width))
        except PageFault as fault:
            raise _blame(fault, g, lanes, width) from None


class Lds(DwordByDword):
    """The LDS of the waves' workgroups. Out of range: a load gives 0, a store writes the bytes in range.

    Sources: "LDS out-of-range behavior" of the RDNA3 and RDNA4 manuals.
    """

    name = "lds"

    def _place(self, g: Group, addr: Array, nbytes: int, lanes: Array | None, width: int) -> tuple[Array, Array]:
        """(positions in the LDS array, booleans: inside the workgroup's allocation), one-dimensional."""
        batch = g.batch
        offset = addr.astype(np.int64)
        inside = offset + nbytes <= batch.lds_bytes
        base = (batch.group[g.index] * batch.lds_stride)[:, None]
        return _split(g, offset + base, lanes, width), _split(g, inside, lanes, width)

    def load(self, g: Group, addr: Array, nbytes: int, lanes: Array | None, width: int) -> Array:
        at, inside = self._place(g, addr, nbytes, lanes, width)
        whole = bool(inside.all())
        if not whole:
            at = np.where(inside, at, 0)
        values = g.batch.lds_words.load(at, nbytes)
        if not whole:
            values = np.where(inside, values, values.dtype.type(0))
        return _join(g, values, lanes, width)

    def store(self, g: Group, addr: Array, value: Array, nbytes: int, lanes: Array | None, width: int) -> None:
        at, inside = self._place(g, addr, nbytes, lanes, width)
        data = _split(g, value, lanes, width)
        if not inside.all():
            self._store_bytes(g, at, data, nbytes, lanes, width, addr)
            return
        g.batch.lds_words.store(at, data, nbytes)

    def load_dwords(self, g: Group, addr: Array, count: int, lanes: Array | None, width: int) -> list[Array]:
        """``count`` consecutive dwords, each (n, width)."""
        at, inside = self._place(g, addr, 4 * count, lanes, width)
        if not inside.all():
            return super().load_dwords(g, addr, count, lanes, width)
        words = g.batch.lds_words.load_dwords(at, count)
        return [_join(g, row, lanes, width) for row in words]

    def store_dwords(self, g: Group, addr: Array, values: list[Array], lanes: Array | None, width: int) -> None:
        """Consecutive dwords, each (n, width) or broadcast to it."""
        at, inside = self._place(g, addr, 4 * len(values), lanes, width)
        if not inside.all():
            super().store_dwords(g, addr, values, lanes, width)
            return
        g.batch.lds_words.store_dwords(at, _columns(g, values, lanes, width))

    def _store_bytes(
        self, g: Group, at: Array, data: Array, nbytes: int, lanes: Array | None, width: int, addr: Array
    ) -> None:
        flat = _split(g, addr, lanes, width).astype(np.int64, copy=False)
        for k in range(nbytes):
            inside = flat + k < g.batch.lds_bytes
            byte = (data >> data.dtype.type(8 * k)).astype(np.uint8)
            g.batch.lds[at[inside] + k] = byte[inside]


class Scratch(DwordByDword):
    """Private memory: addresses are byte offsets of a lane, stored dword by dword with the lanes interleaved.

    Dword d of lane l lies at wave base + (d * lanes + l) * 4, as the swizzled scratch buffer of the hardware.
    """

    name = "scratch"

    def __init__(self) -> None:
        self._memory = Global()

    def _swizzle(self, g: Group, offset: Array) -> Array:
        at = offset.astype(np.uint64) & np.uint64(0xFFFFFFFF)
        base = g.batch.scratch[g.index][:, None]
        lane = g.batch.lane_ids.astype(np.uint64)
        dword = (at >> np.uint64(2)) * np.uint64(g.lanes) + lane
        place: Array = base + dword * np.uint64(4) + (at & np.uint64(3))
        return place

    def _parts(self, addr: Array, nbytes: int) -> int:
        """Bytes that can be moved at once: an access may not cross a dword of the interleaved storage."""
        step = min(nbytes, 4)
        return step if not (addr & np.array(step - 1, addr.dtype)).any() else 1

    def load(self, g: Group, addr: Array, nbytes: int, lanes: Array | None, width: int) -> Array:
        self._check(g, addr, nbytes, lanes, width)
        step = self._parts(addr, nbytes)
        out = np.zeros((g.n, width), f"u{nbytes}")
        for k in range(0, nbytes, step):
            part = self._memory.load(g, self._swizzle(g, addr + np.array(k, addr.dtype)), step, lanes, width)
            out |= part.astype(out.dtype) << out.dtype.type(8 * k)
        return out

    def store(self, g: Group, addr: Array, value: Array, nbytes: int, lanes: Array | None, width: int) -> None:
        self._check(g, addr, nbytes, lanes, width)
        step = self._parts(addr, nbytes)
        data = np.broadcast_to(value, (g.n, width)).astype(f"u{nbytes}")
        for k in range(0, nbytes, step):
            part = (data >> data.dtype.type(8 * k)).astype(f"u{step}")
            self._memory.store(g, self._swizzle(g, addr + np.array(k, addr.dtype)), part, step, lanes, width)

    def _check(self, g: Group, addr: Array, nbytes: int, lanes: Array | None, width: int) -> None:
        flat = _split(g, addr, lanes, width).astype(np.uint64) & np.uint64(0xFFFFFFFF)
        limit = g.batch.scratch_bytes // g.lanes
        if flat.size and int(flat.max()) + nbytes > limit:
            at = int(np.argmax(flat))
            fault = PageFault("", address=int(flat[at]), index=at)
            where = _blame(fault, g, lanes, width).where
            raise MemoryViolation(
                f"scratch offset {int(flat[at]):#x} lies outside the {limit} bytes of a lane", where=where
            )


GLOBAL, LDS, SCRATCH = Global(), Lds(), Scratch()
