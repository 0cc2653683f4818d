"""A host program by hand: ioctls on an emulated system of its own, without tinygrad's runtime."""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from mockgpu.drivers import doorbells, hostmem, kfd
from mockgpu.drivers.kfd_memory import DOORBELL_BYTES, header
from mockgpu.drivers.settings import Settings
from support.queues import NoteEngine

WRITABLE, EXECUTABLE = 1 << 31, 1 << 30
VRAM, GTT, USERPTR, DOORBELL = 1, 2, 4, 8
MIB = 1 << 20


@dataclass
class Memory:
    """An allocated buffer. ``words`` reads and writes it from the host."""

    va: int
    size: int
    handle: int

    @functools.cached_property
    def words(self) -> ctypes.Array[ctypes.c_uint32]:
        return (ctypes.c_uint32 * (self.size // 4)).from_address(self.va)


@dataclass
class Ring:
    """A user-mode queue from the host's side."""

    queue_id: int
    doorbell: doorbells.TrapView
    ring: Memory
    pointers: Memory
    unit: int
    put: int = 0

    def send(self, *words: int) -> None:
        for word in words:
            self.ring.words[self.put % (self.ring.size // 4)] = word
            self.put += 1
        self.doorbell[0] = self.put * 4 // self.unit

    @property
    def read_pointer(self) -> int:
        return self.pointers.words[0] | self.pointers.words[1] << 32


class Host:
    """``devices`` GPUs of 64 MiB, with the address spaces acquired."""

    def __init__(self, devices: int = 2, vram_bytes: int = 64 * MIB):
        self.system = kfd.KfdSystem(Settings(devices=devices, vram_bytes=vram_bytes, deadlock_seconds=0.05))
        self.engine = NoteEngine()
        self.ids = [gpu.gpu_id for gpu in self.system.gpus.all]
        for i, gpu in enumerate(self.system.gpus.all):
            gpu.device._make_engine = lambda: self.engine
            self.system.drm_files[1000 + i] = gpu
            self.call("ACQUIRE_VM", drm_fd=1000 + i, gpu_id=gpu.gpu_id)
        self._doorbells: dict[int, int] = {}

    def call(self, name: str, **fields: int) -> Any:
        """One ioctl by name; returns its struct. Raises OSError."""
        number, struct = next((n, s) for n, (found, s) in kfd.ioctl_table().items() if found == name)
        args = struct(**fields)
        self.system.ioctl(3 << 30 | ctypes.sizeof(args) << 16 | ord("K") << 8 | number, args)
        return args

    # -- memory -----------------------------------------------------------------------------------------------

    def reserve(self, size: int) -> int:
        return hostmem.map_fd(0, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | hostmem.MAP_NORESERVE, -1, 0)

    def alloc(self, size: int, gpu: int = 0, flags: int = GTT | WRITABLE | EXECUTABLE, *, host: bool = True) -> Memory:
        """Reserve addresses, allocate, and let the host map the buffer."""
        va = self.reserve(size)
        args = self.call("ALLOC_MEMORY_OF_GPU", va_addr=va, size=size, gpu_id=self.ids[gpu], flags=flags)
        if host:
            self.system.drm_mmap(self.system.gpus.all[gpu], va, size, args.mmap_offset)
        return Memory(va, size, args.handle)

    def gpu_list(self, call: str, handle: int, *gpu_ids: int, done: int = 0) -> Any:
        array = (ctypes.c_uint32 * len(gpu_ids))(*gpu_ids)
        address = ctypes.addressof(array)
        return self.call(call, handle=handle, device_ids_array_ptr=address, n_devices=len(gpu_ids), n_success=done)

    def map(self, memory: Memory, *gpus: int) -> Memory:
        self.gpu_list("MAP_MEMORY_TO_GPU", memory.handle, *(self.ids[g] for g in gpus or (0,)))
        return memory

    def unmap(self, memory: Memory, *gpus: int) -> None:
        self.gpu_list("UNMAP_MEMORY_FROM_GPU", memory.handle, *(self.ids[g] for g in gpus or (0,)))

    # -- queues -----------------------------------------------------------------------------------------------

    def queue_fields(
        self, gpu: int = 0, kind: int = 0, ring_bytes: int = 4096
    ) -> tuple[Memory, Memory, dict[str, int]]:
        ring, pointers = self.map(self.alloc(ring_bytes, gpu), gpu), self.map(self.alloc(4096, gpu), gpu)
        return (
            ring,
            pointers,
            {
                "ring_base_address": ring.va,
                "ring_size": ring_bytes,
                "gpu_id": self.ids[gpu],
                "queue_type": kind,
                "queue_percentage": 100,
                "queue_priority": 7,
                "read_pointer_address": pointers.va,
                "write_pointer_address": pointers.va + 8,
            },
        )

    def queue(self, gpu: int = 0, kind: int = 0) -> Ring:
        ring, pointers, fields = self.queue_fields(gpu, kind)
        made = self.call("CREATE_QUEUE", **fields)
        base = made.doorbell_offset & ~(DOORBELL_BYTES - 1)
        if gpu not in self._doorbells:
            self._doorbells[gpu] = self.system.kfd_mmap(0, DOORBELL_BYTES, mmap.MAP_SHARED, base)
        view = doorbells.view(self._doorbells[gpu] + made.doorbell_offset - base, 8, "Q")
        assert view is not None
        return Ring(made.queue_id, view, ring, pointers, 1 if kind == header().KFD_IOC_QUEUE_TYPE_SDMA else 4)

    # -- events -----------------------------------------------------------------------------------------------

    def event_page(self) -> Memory:
        page = self.map(self.alloc(0x8000), 0)
        self.call("CREATE_EVENT", event_page_offset=page.handle)
        return page

    def event(self, kind: int = 0, *, auto_reset: bool = False) -> int:
        made: int = self.call("CREATE_EVENT", event_type=kind, auto_reset=int(auto_reset)).event_id
        return made

    def wait(self, *ids: int, every: bool = False, timeout: int = 0, ages: tuple[int, ...] = ()) -> tuple[int, Any]:
        """Result and the array of ``struct kfd_event_data``."""
        data = (header().struct_kfd_event_data * len(ids))()
        for i, event_id in enumerate(ids):
            data[i].event_id = event_id
            data[i].signal_event_data.last_event_age = ages[i] if ages else 0
        address = ctypes.addressof(data) if ids else 0
        args = self.call(
            "WAIT_EVENTS", events_ptr=address, num_events=len(ids), wait_for_all=int(every), timeout=timeout
        )
        return args.wait_result, data


@contextmanager
def refused(number: int, caplog: pytest.LogCaptureFixture, *words: str) -> Iterator[None]:
    """The call inside fails with errno ``number`` and logs one line with ``words``."""
    caplog.clear()
    with caplog.at_level("WARNING", "mockgpu.kfd"), pytest.raises(OSError) as caught:
        yield
    assert caught.value.errno == number
    (line,) = [r.getMessage() for r in caplog.records if r.name == "mockgpu.kfd"]
    for word in words:
        assert word in line
