"""Places linked images in memory that may be executed."""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from collections.abc import Sequence
from typing import Any

from mockgpu.machine.native.host import HostError
from mockgpu.machine.native.link import PAGE, Image, link

_DARWIN_MAP_JIT = 0x800
_PROT_READ_EXEC = mmap.PROT_READ | mmap.PROT_EXEC


class Region:
    """Images in executable memory. ``addresses`` has where each begins.

    The memory is freed with the region: keep it as long as its code may run.
    """

    def __init__(self, images: Sequence[bytes]):
        starts, size = [], 0
        for image in images:
            starts.append(size)
            size += -(-len(image) // PAGE) * PAGE
        self.size = max(size, PAGE)
        self._map = _mapping(self.size)
        self._view = ctypes.c_char.from_buffer(self._map)  # keeps the mapping open
        base = ctypes.addressof(self._view)
        _fill(self._map, base, list(zip(starts, images, strict=True)))
        self.addresses = [base + start for start in starts]


class Code:
    """One object file, loaded. ``code[symbol]`` is an address; keep the object as long as its code may run."""

    def __init__(self, image: Image):
        self._region = Region([image.data])
        self._symbols = image.symbols

    def __getitem__(self, symbol: str) -> int:
        return self._region.addresses[0] + self._symbols[symbol]

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._symbols


def load(data: bytes) -> Code:
    """Load an object file. Raises ObjectError and HostError."""
    return Code(link(data))


def _mapping(size: int) -> mmap.mmap:
    flags, protection = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE
    if sys.platform == "darwin":
        flags, protection = flags | _DARWIN_MAP_JIT, protection | mmap.PROT_EXEC
    try:
        return mmap.mmap(-1, size, flags=flags, prot=protection)
    except OSError as error:
        raise HostError(f"no {size} bytes of memory for code: {error.strerror}") from error


def _fill(memory: mmap.mmap, base: int, parts: list[tuple[int, bytes]]) -> None:
    """Write images, then let them be executed and no longer written."""
    libc = _libc()
    if sys.platform == "darwin":
        libc.pthread_jit_write_protect_np(0)
    for start, data in parts:
        memory[start : start + len(data)] = data
    if sys.platform == "darwin":
        libc.pthread_jit_write_protect_np(1)
        libc.sys_icache_invalidate(ctypes.c_void_p(base), ctypes.c_size_t(len(memory)))
        return
    if libc.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(len(memory)), _PROT_READ_EXEC):
        raise HostError(f"the system refuses to let code be executed: errno {ctypes.get_errno()} from mprotect")
    _flush_arm(base, len(memory))


def _flush_arm(base: int, size: int) -> None:
    """Let an AArch64 CPU see new instructions; x86 sees them by itself."""
    import platform

    if platform.machine().lower() in ("aarch64", "arm64"):
        clear = ctypes.CDLL("libgcc_s.so.1").__clear_cache
        clear(ctypes.c_void_p(base), ctypes.c_void_p(base + size))


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
