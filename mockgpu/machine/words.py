"""Bytes seen as words of several sizes: gathering and scattering at byte addresses that are known to be inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Addresses = npt.NDArray[np.int64]

_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4}


class Words:
    """A block of bytes. Addresses are one-dimensional arrays of byte offsets in it; values are little-endian.

    Nothing is checked here. One gather of wide words costs far less than many of narrow ones, so consecutive dwords
    move in words as wide as their alignment allows. Of stores to equal addresses the last one wins.
    """

    def __init__(self, raw: npt.NDArray[np.uint8]):
        self._views: dict[int, npt.NDArray[Any]] = {
            n: raw[: raw.size // n * n].view(f"u{n}" if n < 16 else "V16") for n in _SHIFT
        }

    def load(self, at: Addresses, nbytes: int) -> npt.NDArray[Any]:
        """Words of ``nbytes`` (1, 2, 4 or 8) bytes."""
        if not _alignment(at) & (nbytes - 1):
            word: npt.NDArray[Any] = self._views[nbytes][at >> _SHIFT[nbytes]]
            return word
        out = np.zeros(at.shape, f"u{nbytes}")
        for k in range(nbytes):
            out |= self._views[1][at + k].astype(out.dtype) << out.dtype.type(8 * k)
        return out

    def store(self, at: Addresses, value: npt.NDArray[Any], nbytes: int) -> None:
        """Words of ``nbytes`` (1, 2, 4 or 8) bytes, in the low bits of ``value``."""
        value = value.astype(f"u{nbytes}", copy=False)
        if not _alignment(at) & (nbytes - 1):
            self._views[nbytes][at >> _SHIFT[nbytes]] = value
            return
        self._store_bytes(at, np.ascontiguousarray(np.broadcast_to(value, at.shape)), nbytes)

    def _store_bytes(self, at: Addresses, values: npt.NDArray[Any], nbytes: int) -> None:
        """``nbytes`` bytes of contiguous ``values`` to every address, one address after the other."""
        self._views[1][at[:, None] + np.arange(nbytes)] = values.view(np.uint8).reshape(at.size, nbytes)

    def load_dwords(self, at: Addresses, count: int) -> npt.NDArray[np.uint32]:
        """``count`` consecutive dwords from every address, (count, addresses)."""
        low = _alignment(at)
        if low & 3:
            return np.stack([self.load(at + 4 * k, 4) for k in range(count)])
        view, index = self._wide(at, count, low)
        return view[index].view(np.uint32).reshape(at.size, count).T

    def store_dwords(self, at: Addresses, values: npt.NDArray[np.uint32]) -> None:
        """Consecutive dwords to every address, (addresses, count) and contiguous; of overlapping ones the last wins."""
        count, low = values.shape[1], _alignment(at)
        if low & 3:
            self._store_bytes(at, values, 4 * count)
            return
        view, index = self._wide(at, count, low)
        view[index] = values.view(view.dtype).reshape(index.shape)

    def _wide(self, at: Addresses, count: int, low: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """The view of the widest words that ``count`` dwords from ``at`` consist of, and their places in it."""
        size = 4 * count
        unit = next(n for n in (16, 8, 4) if not (low | size) & (n - 1))
        index = at >> _SHIFT[unit]
        return self._views[unit], index if size == unit else index[:, None] + np.arange(size // unit)


def _alignment(at: Addresses) -> int:
    """All addresses or-ed: its low bits that are zero are zero in every address."""
    return int(np.bitwise_or.reduce(at))
