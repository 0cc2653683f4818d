"""KFD memory: buffers, their handles and host pages, and what each GPU may access.

A buffer's GPU address is its host address. Its pages are put there when the host maps the buffer (or when a GPU
does), and stay until the buffer is freed, whatever the host unmaps: the GPU never meets missing pages.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import ModuleType

from mockgpu.drivers import hostmem
from mockgpu.drivers.gpu import Gpu, Gpus
from mockgpu.drivers.refusal import Refused, invalid

_MMAP_STEP = 1 << 32
DOORBELL_BYTES = 0x2000


@functools.cache
def header() -> ModuleType:
    """tinygrad's generated KFD header."""
    from tinygrad.runtime.autogen import kfd

    return kfd


@dataclass(eq=False, slots=True)
class Buffer:
    """A piece of memory. ``size`` is page aligned; ``kind`` is VRAM, GTT, USERPTR or DOORBELL.

    ``backed``: host pages lie at ``va``. ``host_gone``: the host unmapped it. ``gpus`` have it mapped.
    """

    handle: int
    owner: Gpu
    va: int
    size: int
    flags: int
    kind: str
    mmap_offset: int
    backed: bool = False
    host_gone: bool = False
    gpus: set[Gpu] = field(default_factory=set)

    @property
    def end(self) -> int:
        return self.va + self.size

    def __str__(self) -> str:
        return f"{self.kind} buffer {self.handle:#x} at [{self.va:#x}, {self.end:#x})"


class MemoryManager:
    """All buffers of the process. ``sysmem_bytes`` bounds GTT and user memory of all GPUs together."""

    def __init__(self, gpus: Gpus, sysmem_bytes: int):
        self._gpus = gpus
        self.sysmem_bytes, self.sysmem_used = sysmem_bytes, 0
        self._buffers: dict[int, Buffer] = {}
        self._by_va: dict[int, Buffer] = {}
        self._next_id = 1

    # -- allocate and free ------------------------------------------------------------------------------------

    def alloc(self, gpu: Gpu, va: int, size: int, flags: int, offset: int) -> Buffer:
        """A new buffer of ``size`` bytes at ``va``. ``offset`` is the host address of user memory.

        Refuses with EINVAL, ENOMEM, ENODEV (no address space acquired) or EFAULT (user memory that is not there).
        """
        kind = self._kind(flags)
        if gpu.drm_file is None:
            raise Refused(errno.ENODEV, f"no address space was acquired for GPU {gpu.gpu_id:#x}")
        if not size or va % hostmem.PAGE or not 0 < va < va + size < 1 << 47:
            raise invalid(f"{size} bytes at {va:#x} are empty, misaligned or outside the address space")
        aligned = hostmem.page_align(size)
        if kind == "USERPTR":
            self._check_user(va, size, offset)
        if kind == "DOORBELL" and size != DOORBELL_BYTES:
            raise invalid(f"the doorbell aperture has {DOORBELL_BYTES:#x} bytes, not {size:#x}")
        self._charge(gpu, kind, aligned)
        handle, mmap_offset = gpu.gpu_id << 32 | self._next_id, self._next_id * _MMAP_STEP
        self._next_id += 1
        buffer = Buffer(handle, gpu, va, aligned, flags, kind, mmap_offset, backed=kind == "USERPTR")
        self._buffers[handle] = self._by_va[va] = buffer
        return buffer

    def _kind(self, flags: int) -> str:
        kfd = header()
        for kind in ("VRAM", "GTT", "USERPTR", "DOORBELL"):
            if flags & getattr(kfd, f"KFD_IOC_ALLOC_MEM_FLAGS_{kind}"):
                return kind
        raise invalid(f"flags {flags:#x} name no supported kind of memory")

    def _check_user(self, va: int, size: int, offset: int) -> None:
        if va != offset:
            raise invalid(f"user memory at {offset:#x} cannot have another GPU address ({va:#x})")
        for address in (va, va + size - 1):
            try:
                hostmem.read(address, 1)
            except OSError as error:
                raise Refused(errno.EFAULT, f"user memory at {address:#x} is not mapped") from error

    def _charge(self, gpu: Gpu, kind: str, size: int) -> None:
        if kind == "VRAM":
            if size > gpu.vram_free:
                raise Refused(errno.ENOMEM, f"{size} bytes wanted, GPU {gpu.gpu_id:#x} has {gpu.vram_free} left")
            gpu.vram_used += size
        elif kind in ("GTT", "USERPTR"):
            free = self.sysmem_bytes - self.sysmem_used
            if size > free:
                raise Refused(errno.ENOMEM, f"{size} bytes wanted, {free} of system memory are free for GPUs")
            self.sysmem_used += size

    def find(self, handle: int, missing: int = errno.EINVAL) -> Buffer:
        """The buffer of a handle. Refuses with EINVAL for a GPU that is not there, ``missing`` for the rest."""
        self._gpus.get(handle >> 32)
        buffer = self._buffers.get(handle)
        if buffer is None:
            raise Refused(missing, f"no buffer has handle {handle:#x} (never allocated, or freed)")
        return buffer

    def free(self, handle: int) -> None:
        """Refuses with EINVAL for an unknown handle and EBUSY while a GPU has the buffer mapped."""
        buffer = self.find(handle)
        if buffer.gpus:
            raise Refused(errno.EBUSY, f"{buffer} is still mapped to {len(buffer.gpus)} GPUs")
        if buffer.host_gone and buffer.backed and buffer.kind != "USERPTR":
            hostmem.unmap(buffer.va, buffer.size)
        if buffer.kind == "VRAM":
            buffer.owner.vram_used -= buffer.size
        elif buffer.kind in ("GTT", "USERPTR"):
            self.sysmem_used -= buffer.size
        del self._buffers[handle]
        if self._by_va.get(buffer.va) is buffer:
            del self._by_va[buffer.va]

    # -- what GPUs access -------------------------------------------------------------------------------------

    def map(self, buffer: Buffer, gpu: Gpu) -> None:
        """Let ``gpu`` access ``buffer``; nothing happens when it does already. Refuses with EINVAL on an overlap."""
        if gpu in buffer.gpus:
            return
        if gpu.drm_file is None:
            raise Refused(errno.ENODEV, f"no address space was acquired for GPU {gpu.gpu_id:#x}")
        self._back(buffer)
        if buffer.kind != "DOORBELL":
            kfd = header()
            write = bool(buffer.flags & kfd.KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)
            execute = bool(buffer.flags & kfd.KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE)
            try:
                gpu.device.memory.map(buffer.va, buffer.size, write=write, execute=execute, tag=buffer.kind)
            except ValueError as error:
                raise invalid(str(error)) from error
        buffer.gpus.add(gpu)

    def unmap(self, buffer: Buffer, gpu: Gpu) -> None:
        """Take ``buffer`` from ``gpu``; nothing happens when it has it not."""
        if gpu not in buffer.gpus:
            return
        buffer.gpus.remove(gpu)
        if buffer.kind != "DOORBELL":
            gpu.device.memory.unmap(buffer.va)

    def _back(self, buffer: Buffer) -> None:
        """Pages for a buffer that the host did not map: into a hole, or into address space that was set aside."""
        if buffer.backed or buffer.kind == "DOORBELL":
            return
        try:
            hostmem.back(buffer.va, buffer.size, replace=hostmem.is_reserved(buffer.va, buffer.size))
        except OSError as error:
            raise invalid(f"{buffer}: the host uses these addresses for something else ({error})") from error
        buffer.backed = buffer.host_gone = True

    # -- what the host maps -----------------------------------------------------------------------------------

    def mmap(self, gpu: Gpu, start: int, size: int, offset: int) -> int:
        """The host maps a buffer of ``gpu`` through its render node. Returns the address. Refuses with EINVAL."""
        buffer = self._buffers.get(gpu.gpu_id << 32 | offset // _MMAP_STEP)
        if buffer is None or buffer.mmap_offset != offset or buffer.kind not in ("VRAM", "GTT"):
            raise invalid(f"no buffer of GPU {gpu.gpu_id:#x} has mmap offset {offset:#x}")
        if hostmem.page_align(size) > buffer.size:
            raise invalid(f"{size} bytes are more than {buffer} has")
        if start != buffer.va:
            raise invalid(f"{buffer} can be mapped at its own address only, not at {start:#x}")
        if not buffer.backed:
            try:
                hostmem.back(start, buffer.size, replace=True)
            except OSError as error:
                raise Refused(error.errno or errno.ENOMEM, f"{buffer}: {error}") from error
            buffer.backed = True
        buffer.host_gone = False
        return start

    def munmap(self, start: int, size: int) -> bool:
        """The host unmaps a range. Returns whether it holds driver memory, whose pages then stay until it is freed."""
        end = start + hostmem.page_align(size)
        touched = self._overlapping(start, end)
        kept = []
        for buffer in touched:
            if buffer.kind == "USERPTR":
                self._invalidate(buffer)
            elif buffer.backed:
                buffer.host_gone = True
                kept.append(buffer)
        at = start
        for buffer in kept:
            if at < buffer.va:
                hostmem.unmap(at, buffer.va - at)
            at = max(at, buffer.end)
        if kept and at < end:
            hostmem.unmap(at, end - at)
        return bool(kept)

    def _overlapping(self, start: int, end: int) -> list[Buffer]:
        exact = self._by_va.get(start)
        if exact is not None and exact.end == end:
            return [b for b in self._buffers.values() if b.va == start] if exact.kind == "USERPTR" else [exact]
        found = [b for b in self._buffers.values() if b.va < end and start < b.end]
        return sorted(found, key=lambda b: b.va)

    def _invalidate(self, buffer: Buffer) -> None:
        """User memory went away under the GPUs: their accesses fault from now on."""
        for gpu in list(buffer.gpus):
            self.unmap(buffer, gpu)

    def buffers(self) -> Iterable[Buffer]:
        return self._buffers.values()
