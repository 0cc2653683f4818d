"""GPU virtual memory: one address space per process (VMID), with mappings and permissions.

For KFD the GPU virtual address of a page is its host virtual address (SVM): a mapping then says which part of
the host's address space the GPU may touch. The data is reached through one flat numpy view of the whole user
address space; no access happens before its range was checked against the mappings, so that a stray guest
address becomes a :class:`~mockgpu.machine.errors.PageFault` and never a host crash.
"""

from __future__ import annotations

import bisect
import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mockgpu.machine.errors import PageFault
from mockgpu.machine.words import Words

PAGE = 4096
#: Accesses wrap at the end of the canonical user half; nothing is ever mapped above it.
VA_LIMIT = 1 << 47

_SPAN = VA_LIMIT - 2 * PAGE
_RAW = (ctypes.c_uint8 * _SPAN).from_address(PAGE)
_FLAT = Words(np.frombuffer(_RAW, np.uint8))  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Mapping:
    """A range of GPU virtual addresses, ``[va, va + size)`` in bytes, and what the GPU may do there."""

    va: int
    size: int
    read: bool = True
    write: bool = True
    execute: bool = True
    tag: str = ""

    @property
    def end(self) -> int:
        return self.va + self.size

    def allows(self, access: str) -> bool:
        return {"read": self.read, "write": self.write, "execute": self.execute}[access]


class Memory:
    """An address space. Mappings never overlap; looking one up is a binary search.

    ``version`` grows with every change of the mappings, so that engines know when to decode again.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._maps: list[Mapping] = []
        self.version = 0
        self._np_starts = np.zeros(0, np.uint64)
        self._np_ends = np.zeros(0, np.uint64)
        self._np_access = {a: np.zeros(0, bool) for a in ("read", "write", "execute")}
        self._last: dict[str, tuple[int, int]] = dict.fromkeys(("read", "write", "execute"), (0, 0))

    # -- mappings ---------------------------------------------------------------------------------------------

    def map(
        self, va: int, size: int, *, read: bool = True, write: bool = True, execute: bool = True, tag: str = ""
    ) -> Mapping:
        """Make ``[va, va + size)`` accessible. Raises ValueError if it overlaps a mapping or leaves the user half."""
        if size <= 0 or va < PAGE or va + size > VA_LIMIT - PAGE:
            raise ValueError(f"mapping [{va:#x}, {va + size:#x}) is empty or outside the user address space")
        i = bisect.bisect_right(self._starts, va)
        if (i > 0 and self._maps[i - 1].end > va) or (i < len(self._maps) and self._maps[i].va < va + size):
            raise ValueError(f"mapping [{va:#x}, {va + size:#x}) overlaps another")
        m = Mapping(va, size, read, write, execute, tag)
        self._starts.insert(i, va)
        self._maps.insert(i, m)
        self._changed()
        return m

    def unmap(self, va: int) -> Mapping:
        """Remove the mapping that starts at ``va`` and return it. Raises KeyError if none starts there."""
        i = bisect.bisect_left(self._starts, va)
        if i == len(self._starts) or self._starts[i] != va:
            raise KeyError(f"no mapping starts at {va:#x}")
        self._starts.pop(i)
        m = self._maps.pop(i)
        self._changed()
        return m

    def _changed(self) -> None:
        self.version += 1
        self._np_starts = np.array(self._starts, np.uint64)
        self._np_ends = np.array([m.end for m in self._maps], np.uint64)
        self._np_access = {a: np.array([m.allows(a) for m in self._maps], bool) for a in self._np_access}
        self._last = dict.fromkeys(self._last, (0, 0))

    def find(self, va: int) -> Mapping | None:
        """The mapping that holds byte address ``va``, or None."""
        i = bisect.bisect_right(self._starts, va) - 1
        return self._maps[i] if i >= 0 and va < self._maps[i].end else None

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._maps)

    # -- checks -----------------------------------------------------------------------------------------------

    def check(self, va: int, size: int, access: str) -> None:
        """Raise PageFault unless every byte of ``[va, va + size)`` allows ``access`` (adjacent mappings join)."""
        lo, hi = self._last[access]
        if lo <= va and va + size <= hi:
            return
        at = va
        while True:
            m = self.find(at)
            if m is None or not m.allows(access):
                raise page_fault(at, access, present=m is not None)
            self._last[access] = (m.va, m.end)
            if va + size <= m.end:
                return
            at = m.end

    def _check_array(self, addr: npt.NDArray[np.uint64], nbytes: int, access: str) -> None:
        low, high = int(addr.min()), int(addr.max()) + nbytes
        lo, hi = self._last[access]
        if lo <= low and high <= hi:
            return
        m = self.find(low)
        if m is not None and high <= m.end and m.allows(access):
            self._last[access] = (m.va, m.end)
            return
        # Several mappings, or a fault: look at every element.
        i = np.searchsorted(self._np_starts, addr, side="right").astype(np.int64) - 1
        inside = i >= 0
        if len(self._np_starts):
            j = np.maximum(i, 0)
            whole = inside & (addr + np.uint64(nbytes) <= self._np_ends[j]) & self._np_access[access][j]
        else:
            whole = np.zeros(addr.shape, bool)
        for k in np.flatnonzero(~whole):  # straddles two mappings, or faults
            try:
                self.check(int(addr[k]), nbytes, access)
            except PageFault as e:
                e.index = int(k)
                raise

    # -- data, one address ------------------------------------------------------------------------------------

    def read(self, va: int, size: int, access: str = "read") -> bytes:
        """``size`` bytes from ``va``. Raises PageFault."""
        self.check(va, size, access)
        return ctypes.string_at(va, size)

    def write(self, va: int, data: bytes) -> None:
        """Store ``data`` at ``va``. Raises PageFault."""
        self.check(va, len(data), "write")
        ctypes.memmove(va, data, len(data))

    def copy(self, dst: int, src: int, size: int) -> None:
        """Copy ``size`` bytes; ranges may overlap. Raises PageFault before anything is written."""
        self.check(src, size, "read")
        self.check(dst, size, "write")
        ctypes.memmove(dst, src, size)

    def fill(self, dst: int, pattern: bytes, size: int) -> None:
        """Fill ``size`` bytes with a repeated ``pattern``. Raises PageFault."""
        self.check(dst, size, "write")
        ctypes.memmove(dst, (pattern * -(-size // len(pattern)))[:size], size)

    def read_u32(self, va: int) -> int:
        return int.from_bytes(self.read(va, 4), "little")

    def read_u64(self, va: int) -> int:
        return int.from_bytes(self.read(va, 8), "little")

    def write_u32(self, va: int, value: int) -> None:
        self.write(va, (value & 0xFFFFFFFF).to_bytes(4, "little"))

    def write_u64(self, va: int, value: int) -> None:
        self.write(va, (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little"))

    # -- data, many addresses ---------------------------------------------------------------------------------

    def load(self, addr: npt.NDArray[np.uint64], nbytes: int) -> npt.NDArray[Any]:
        """Gather little-endian words. ``addr`` is a one-dimensional array of byte addresses, ``nbytes`` 1, 2, 4 or 8.

        Returns an unsigned array of the same length. Raises PageFault with ``index`` set.
        """
        if not addr.size:
            return np.zeros(0, f"u{nbytes}")
        self._check_array(addr, nbytes, "read")
        return _FLAT.load(_place(addr), nbytes)

    def store(self, addr: npt.NDArray[np.uint64], value: npt.NDArray[Any], nbytes: int) -> None:
        """Scatter little-endian words; of equal addresses the last wins. Raises PageFault with ``index`` set."""
        if not addr.size:
            return
        self._check_array(addr, nbytes, "write")
        _FLAT.store(_place(addr), value, nbytes)

    def load_dwords(self, addr: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.uint32]:
        """Gather ``count`` consecutive dwords from every address: shape (count, addresses). Raises PageFault."""
        self._check_array(addr, 4 * count, "read")
        return _FLAT.load_dwords(_place(addr), count)

    def store_dwords(self, addr: npt.NDArray[np.uint64], values: npt.NDArray[np.uint32]) -> None:
        """Scatter dwords, shape (addresses, count) and contiguous, to consecutive places from every address.

        Raises PageFault before anything is written.
        """
        self._check_array(addr, 4 * values.shape[1], "write")
        _FLAT.store_dwords(_place(addr), values)


def _place(addr: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Where byte addresses that have been checked lie in the flat view."""
    return addr.view(np.int64) - PAGE


def page_fault(va: int, access: str, *, present: bool) -> PageFault:
    """A PageFault that says in words what was wrong at byte address ``va``."""
    why = f"the page is mapped but does not allow {access}" if present else "no mapping holds this address"
    return PageFault(f"page fault: {access} at {va:#x}, {why}", address=va, access=access, present=present)
