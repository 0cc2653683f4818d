"""The host's address space: mappings through the C library, and copies that fail instead of crashing."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

PAGE = mmap.PAGESIZE
PROT_RW = mmap.PROT_READ | mmap.PROT_WRITE
MAP_FIXED, MAP_NORESERVE, MAP_FIXED_NOREPLACE = 0x10, 0x4000, 0x100000
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
_libc.munmap.restype = ctypes.c_int
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


def page_align(nbytes: int) -> int:
    return -(-nbytes // PAGE) * PAGE


def map_fd(start: int, size: int, prot: int, flags: int, fd: int, offset: int) -> int:
    """mmap(2); returns the address. Raises OSError with the errno."""
    address = _libc.mmap(start, size, prot, flags, fd, offset)
    if address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, f"Failed to mmap {size} bytes at {start:#x}: {os.strerror(number)}")
    return int(address or 0)


def unmap(start: int, size: int) -> int:
    """munmap(2); returns 0, or -1 with the C errno set."""
    return int(_libc.munmap(start, size))


def back(start: int, size: int, *, replace: bool) -> int:
    """Put fresh zeroed pages at ``start`` (anywhere for 0). Pages are taken from the host only when touched.

    With ``replace`` what lies there is replaced, else OSError EEXIST is raised.
    """
    fixed = 0 if not start else MAP_FIXED if replace else MAP_FIXED_NOREPLACE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE | fixed
    return map_fd(start, size, PROT_RW, flags, -1, 0)


def is_reserved(start: int, size: int) -> bool:
    """Whether ``[start, start + size)`` is wholly an inaccessible anonymous mapping: address space set aside."""
    at = start
    with open("/proc/self/maps") as maps:
        for line in maps:
            bounds, permissions, _, device, _ = line.split(None, 5)[:5]
            low, high = (int(part, 16) for part in bounds.split("-"))
            if low <= at < high:
                if not permissions.startswith("---") or device != "00:00":
                    return False
                at = high
                if at >= start + size:
                    return True
    return False


def read(address: int, size: int) -> bytes:
    """``size`` bytes of this process. Raises OSError EFAULT where nothing is mapped."""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            data = os.pread(memory.fileno(), size, address)
    except (OSError, OverflowError) as error:
        raise _fault(address, size) from error
    if len(data) != size:
        raise _fault(address, size)
    return data


def write(address: int, data: bytes) -> None:
    """Store ``data`` in this process. Raises OSError EFAULT where nothing is mapped."""
    try:
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            written = os.pwrite(memory.fileno(), data, address)
    except (OSError, OverflowError) as error:
        raise _fault(address, len(data)) from error
    if written != len(data):
        raise _fault(address, len(data))


def _fault(address: int, size: int) -> OSError:
    return OSError(errno.EFAULT, f"Bad address: {size} bytes at {address:#x}")
