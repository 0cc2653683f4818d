"""Doorbells: writes to certain host addresses are noticed at once.

A doorbell page is ordinary host memory plus an entry in a registry. The runtime reaches memory through views; a view
that begins in a registered range is replaced by a :class:`TrapView`, whose writes also call the owner of the page.
The same serves for watches: single dwords that queues wait for, and that the host may write.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from mockgpu.isa.errors import MockGPUError

#: Called with the byte offset in the page and the written value.
Ring = Callable[[int, int], None]


class RetiredDoorbellError(MockGPUError):
    """A write through a view of a doorbell page that was unmapped since."""


@dataclass(eq=False, slots=True)
class Page:
    """A trapped range of host addresses.

    ``state`` is ``live``, ``replaced`` (other memory lies there now) or ``gone`` (nothing does).
    """

    base: int
    size: int
    ring: Ring
    state: str = "live"

    @property
    def end(self) -> int:
        return self.base + self.size


_pages: list[Page] = []
_watches: list[Page] = []
_low, _high = 1 << 64, 0


def _bounds() -> None:
    global _low, _high
    _low = min((p.base for p in _pages), default=1 << 64)
    _high = max((p.end for p in _pages), default=0)


def trap(base: int, size: int, ring: Ring) -> Page:
    """Watch ``[base, base + size)``, which must be mapped and writable. An older watch there is retired."""
    retire(base, size, replaced=True)
    page = Page(base, size, ring)
    _pages.append(page)
    _bounds()
    return page


def retire(base: int, size: int, *, replaced: bool) -> None:
    """Stop watching every page that overlaps ``[base, base + size)``: it was unmapped, or ``replaced``."""
    for page in [p for p in _pages if p.base < base + size and base < p.end]:
        page.state = "replaced" if replaced else "gone"
        _pages.remove(page)
        if page in _watches:
            _watches.remove(page)
    _bounds()


def watch(addresses: Iterable[int], ring: Ring) -> None:
    """Notice writes to exactly these dwords (besides the doorbells) from now on. Views made before notice nothing."""
    for page in _watches:
        page.state = "replaced"
        _pages.remove(page)
    _watches[:] = [Page(address, 4, ring) for address in addresses]
    _pages.extend(_watches)
    _bounds()


def forget() -> None:
    """Give up every page: this process was forked, and the doorbells belong to its parent."""
    for page in _pages:
        page.state = "gone"
    _pages.clear()
    _watches.clear()
    _bounds()


def view(address: int, nbytes: int, fmt: str = "B") -> TrapView | None:
    """A trapping view of ``[address, address + nbytes)`` if it starts in a watched page, else None."""
    if not _low <= address < _high:
        return None
    page = next((p for p in _pages if p.base <= address < p.end), None)
    return TrapView(page, address, nbytes, fmt) if page else None


class TrapView:
    """Indexes like a ``memoryview`` of format ``fmt``; every element written also rings the page's owner."""

    def __init__(self, page: Page, address: int, nbytes: int, fmt: str):
        self.page, self.address, self.fmt = page, address, fmt
        self.itemsize = struct.calcsize(fmt)
        self.nbytes = nbytes
        raw: Any = memoryview((ctypes.c_uint8 * nbytes).from_address(address))
        self._memory: memoryview[Any] = raw.cast("B").cast(fmt)

    def __len__(self) -> int:
        return len(self._memory)

    def _check(self) -> None:
        if self.page.state == "gone":
            raise RetiredDoorbellError(f"the doorbell page at {self.page.base:#x} was unmapped")

    def __getitem__(self, index: int | slice) -> Any:
        self._check()
        return self._memory[index]

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._check()
        self._memory[index] = value
        if self.page.state != "live":
            return
        for element in self._elements(index):
            offset = self.address + element * self.itemsize - self.page.base
            self.page.ring(offset, self._memory[element])

    def _elements(self, index: int | slice) -> list[int]:
        """The elements of ``index`` that lie in the page; a view may reach beyond it."""
        inside = range(min(len(self), -(-(self.page.end - self.address) // self.itemsize)))
        if isinstance(index, slice):
            written = range(*index.indices(len(self)))
            return [i for i in inside if i in written]
        return [i for i in inside if i == index % len(self)]


def install(interface: Any) -> None:
    """Make ``interface`` (tinygrad's MMIOInterface, or a class built like it) use trapping views.

    Its constructor takes (addr, nbytes, fmt) and sets ``mv``, ``addr``, ``nbytes``, ``fmt``. Installing twice is fine.
    """
    original = interface.__init__
    if getattr(original, "traps_doorbells", False):
        return

    @wraps(original)
    def init(self: Any, addr: int, nbytes: int, fmt: str = "B") -> None:
        trapped = view(addr, nbytes, fmt)
        if trapped is None:
            original(self, addr, nbytes, fmt)
        else:
            self.mv, self.addr, self.nbytes, self.fmt = trapped, addr, nbytes, fmt

    init.traps_doorbells = True  # type: ignore[attr-defined]
    interface.__init__ = init
