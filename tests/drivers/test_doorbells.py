"""Trapped memory: writes are noticed, reads are plain, old views retire."""

import ctypes
import struct
from typing import Any

import pytest

from mockgpu.drivers import doorbells, hostmem
from mockgpu.drivers.doorbells import RetiredDoorbellError, TrapView


class Interface:
    """Built like tinygrad's MMIOInterface."""

    def __init__(self, addr: int, nbytes: int, fmt: str = "B"):
        raw: Any = memoryview((ctypes.c_uint8 * nbytes).from_address(addr))
        self.mv, self.addr, self.nbytes, self.fmt = raw.cast("B").cast(fmt), addr, nbytes, fmt

    def __setitem__(self, k: Any, v: Any) -> None:
        self.mv[k] = v


def page() -> tuple[int, list[tuple[int, int]]]:
    base, rung = hostmem.back(0, 0x2000, replace=False), []
    doorbells.trap(base, 0x2000, lambda offset, value: rung.append((offset, value)))
    return base, rung


def trapped(address: int, nbytes: int, fmt: str = "B") -> TrapView:
    view = doorbells.view(address, nbytes, fmt)
    assert view is not None
    return view


def test_write_is_stored_and_rings() -> None:
    base, rung = page()
    trapped(base + 16, 8, "Q")[0] = 5
    assert rung == [(16, 5)]
    assert struct.unpack("Q", hostmem.read(base + 16, 8)) == (5,)


def test_same_value_rings_again() -> None:
    base, rung = page()
    view = trapped(base, 8, "Q")
    view[0] = 0
    view[0] = 0
    assert rung == [(0, 0), (0, 0)]


def test_read_does_not_ring() -> None:
    base, rung = page()
    view = trapped(base, 16, "Q")
    assert (view[0], view[-1], len(view)) == (0, 0, 2)
    assert rung == []


def test_slice_rings_every_element_in_order() -> None:
    base, rung = page()
    trapped(base, 32, "Q")[1:3] = memoryview(struct.pack("QQ", 7, 8)).cast("Q")
    assert rung == [(8, 7), (16, 8)]


def test_negative_index_rings_the_right_slot() -> None:
    base, rung = page()
    trapped(base, 32, "Q")[-1] = 9
    assert rung == [(24, 9)]


def test_other_memory_has_no_view() -> None:
    base = hostmem.back(0, 0x4000, replace=False)
    doorbells.trap(base + 0x1000, 0x2000, lambda offset, value: None)
    assert doorbells.view(base + 0xFF8, 8, "Q") is None
    assert doorbells.view(base + 0x3000, 8, "Q") is None


def test_view_of_an_unmapped_page_says_so() -> None:
    base, rung = page()
    view = trapped(base, 8, "Q")
    doorbells.retire(base, 0x2000, replaced=False)
    with pytest.raises(RetiredDoorbellError, match="unmapped"):
        view[0] = 1
    assert doorbells.view(base, 8, "Q") is None
    assert rung == []


def test_view_of_a_replaced_page_is_plain_memory() -> None:
    base, rung = page()
    view = trapped(base, 8, "Q")
    hostmem.back(base, 0x2000, replace=True)
    doorbells.retire(base, 0x2000, replaced=True)
    view[0] = 3
    assert view[0] == 3
    assert rung == []


def test_trapping_a_page_again_retires_the_old_owner() -> None:
    base, old = page()
    new: list[int] = []
    doorbells.trap(base, 0x2000, lambda offset, value: new.append(value))
    trapped(base, 8, "Q")[0] = 1
    assert (old, new) == ([], [1])


def test_installed_interface_traps_only_doorbells() -> None:
    base, rung = page()
    kind = type("Fresh", (Interface,), {})
    doorbells.install(kind)
    doorbells.install(kind)
    kind(base, 8, "Q")[0] = 4
    assert rung == [(0, 4)]
    assert isinstance(kind(hostmem.back(0, 4096, replace=False), 8, "Q").mv, memoryview)
    assert not getattr(Interface.__init__, "traps_doorbells", False)


# -- watches ----------------------------------------------------------------------------------------------------------


def test_watch_notices_a_write_to_its_dword_only() -> None:
    base, rung = hostmem.back(0, 4096, replace=False), []
    doorbells.watch([base + 64], lambda offset, value: rung.append(value))
    assert doorbells.view(base + 68, 8, "Q") is None
    trapped(base + 64, 8, "Q")[0] = 5
    trapped(base + 64, 4096 - 64)[:] = bytes([7]) * (4096 - 64)
    assert rung == [5, 7, 7, 7, 7]
    doorbells.watch([], lambda offset, value: None)
    assert doorbells.view(base + 64, 8, "Q") is None


def test_watches_leave_doorbells_alone() -> None:
    base, rung = page()
    doorbells.watch([hostmem.back(0, 4096, replace=False)], lambda offset, value: None)
    doorbells.watch([], lambda offset, value: None)
    trapped(base, 8, "Q")[0] = 1
    assert rung == [(0, 1)]
