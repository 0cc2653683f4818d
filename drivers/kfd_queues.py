"""KFD queues and their doorbells: creating, changing and destroying user-mode queues."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

from mockgpu.drivers import doorbells, hostmem
from mockgpu.drivers.gpu import Gpu
from mockgpu.drivers.ids import IdPool
from mockgpu.drivers.kfd_memory import DOORBELL_BYTES, header
from mockgpu.drivers.refusal import Refused, invalid
from mockgpu.machine.errors import PageFault
from mockgpu.machine.pm4 import Pm4Queue
from mockgpu.machine.queue import RingQueue
from mockgpu.machine.sdma import SdmaQueue

#: Where a mapping of /dev/kfd leads: the two top bits of its offset, and the GPU id below them.
MMAP_TYPE_SHIFT, MMAP_TYPE_DOORBELL = 62, 3
MMAP_GPU_SHIFT, MMAP_GPU_BITS = 46, 16
MAX_QUEUES = 1024
DOORBELL_SLOTS = DOORBELL_BYTES // 8
_MIN_RING = 0x400


@dataclass(eq=False, slots=True)
class KfdQueue:
    """A queue and its place in the doorbell page of its GPU."""

    queue_id: int
    gpu: Gpu
    type: int
    ring: RingQueue
    slot: int


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """The arguments of CREATE_QUEUE that matter. Addresses and sizes in bytes."""

    type: int
    ring_base: int
    ring_size: int
    read_pointer: int
    write_pointer: int
    percentage: int
    priority: int


class QueueManager:
    """All queues of the process."""

    def __init__(self) -> None:
        self._queues: dict[int, KfdQueue] = {}
        self._slots: dict[tuple[Gpu, int], KfdQueue] = {}
        self._ids = IdPool(MAX_QUEUES)
        self._slot_ids: dict[Gpu, IdPool] = {}

    # -- create, update, destroy ------------------------------------------------------------------------------

    def create(self, gpu: Gpu, request: QueueRequest) -> KfdQueue:
        """Refuses with EINVAL, EFAULT (pointers that the GPU cannot reach) or ENOMEM (no queue left)."""
        self._check(gpu, request)
        build = self._builder(gpu, request.type)
        queue_id = self._ids.take()
        if queue_id is None:
            raise Refused(errno.ENOMEM, f"all {MAX_QUEUES} queues of the process are in use")
        slot = self._slot_ids.setdefault(gpu, IdPool(DOORBELL_SLOTS)).take()
        assert slot is not None, "a process has no more queues than a GPU has doorbells"
        ring = build(queue_id, request)
        ring.publish()
        queue = KfdQueue(queue_id, gpu, request.type, ring, slot)
        self._queues[queue_id] = self._slots[gpu, slot] = queue
        gpu.device.queues.append(ring)
        return queue

    def _builder(self, gpu: Gpu, queue_type: int) -> Callable[[int, QueueRequest], RingQueue]:
        kfd, board = header(), gpu.board

        def pm4(queue_id: int, r: QueueRequest) -> RingQueue:
            place = (r.ring_base, r.ring_size, r.read_pointer, r.write_pointer)
            return Pm4Queue(gpu.device, queue_id, *place, table=board.pm4_table)

        def sdma(queue_id: int, r: QueueRequest) -> RingQueue:
            place = (r.ring_base, r.ring_size, r.read_pointer, r.write_pointer)
            return SdmaQueue(gpu.device, queue_id, *place, count_bits=board.sdma_count_bits)

        if queue_type == kfd.KFD_IOC_QUEUE_TYPE_COMPUTE:
            return pm4
        if queue_type in (kfd.KFD_IOC_QUEUE_TYPE_SDMA, kfd.KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID):
            used = sum(q.gpu is gpu and isinstance(q.ring, SdmaQueue) for q in self._queues.values())
            if used >= board.sdma_queues:
                raise Refused(errno.ENOMEM, f"all {board.sdma_queues} SDMA queues of GPU {gpu.gpu_id:#x} are in use")
            return sdma
        if queue_type == kfd.KFD_IOC_QUEUE_TYPE_COMPUTE_AQL:
            raise invalid("AQL queues are not emulated yet; use PM4 (AMD_AQL=0)")
        raise invalid(f"queue type {queue_type} is not supported")

    def _check(self, gpu: Gpu, request: QueueRequest) -> None:
        kfd = header()
        if request.percentage & 0xFF > kfd.KFD_MAX_QUEUE_PERCENTAGE:
            raise invalid(f"queue percentage {request.percentage & 0xFF} is above {kfd.KFD_MAX_QUEUE_PERCENTAGE}")
        if request.priority > kfd.KFD_MAX_QUEUE_PRIORITY:
            raise invalid(f"queue priority {request.priority} is above {kfd.KFD_MAX_QUEUE_PRIORITY}")
        self._check_ring(gpu, request.ring_base, request.ring_size)
        self._check_reach(gpu, "read pointer", request.read_pointer, 8, "write")
        self._check_reach(gpu, "write pointer", request.write_pointer, 8, "read")

    def _check_ring(self, gpu: Gpu, base: int, size: int) -> None:
        if size < _MIN_RING or size & (size - 1):
            raise invalid(f"a ring of {size:#x} bytes; a power of two from {_MIN_RING:#x} on is needed")
        if base & 0xFF:
            raise invalid(f"the ring at {base:#x} is not aligned to 256 bytes")
        self._check_reach(gpu, "ring", base, size, "read")

    def _check_reach(self, gpu: Gpu, what: str, address: int, size: int, access: str) -> None:
        if address & 3:
            raise invalid(f"the {what} at {address:#x} is misaligned")
        try:
            gpu.device.memory.check(address, size, access)
        except PageFault as fault:
            raise Refused(errno.EFAULT, f"the {what} at {address:#x} is out of the GPU's reach: {fault}") from fault

    def get(self, queue_id: int, missing: int) -> KfdQueue:
        queue = self._queues.get(queue_id)
        if queue is None:
            raise Refused(missing, f"no queue has id {queue_id}")
        return queue

    def destroy(self, queue_id: int) -> None:
        """Refuses with EINVAL for an unknown id."""
        queue = self.get(queue_id, errno.EINVAL)
        queue.gpu.device.queues.remove(queue.ring)
        del self._queues[queue_id], self._slots[queue.gpu, queue.slot]
        self._ids.give(queue_id)
        self._slot_ids[queue.gpu].give(queue.slot)

    def update(self, queue_id: int, base: int, size: int, percentage: int, priority: int) -> None:
        """Move the ring; a queue without a ring or without a share of the GPU rests. Refuses with EFAULT or EINVAL."""
        kfd = header()
        queue = self.get(queue_id, errno.EFAULT)
        if percentage & 0xFF > kfd.KFD_MAX_QUEUE_PERCENTAGE or priority > kfd.KFD_MAX_QUEUE_PRIORITY:
            raise invalid(f"queue percentage {percentage & 0xFF} or priority {priority} is out of range")
        enabled = bool(base and size and percentage & 0xFF)
        if enabled:
            self._check_ring(queue.gpu, base, size)
            queue.ring.ring.base, queue.ring.ring.size = base, size // 4
        queue.ring.enabled = enabled

    # -- doorbells --------------------------------------------------------------------------------------------

    def doorbell_offset(self, queue: KfdQueue) -> int:
        """What CREATE_QUEUE returns: where to map /dev/kfd, plus the byte offset of the queue's doorbell."""
        return MMAP_TYPE_DOORBELL << MMAP_TYPE_SHIFT | queue.gpu.gpu_id << MMAP_GPU_SHIFT | 8 * queue.slot

    def map_doorbells(self, gpu: Gpu, start: int, size: int, *, fixed: bool) -> int:
        """Map the doorbell page of ``gpu`` into the host. Returns the address. Refuses with EINVAL."""
        if size != DOORBELL_BYTES:
            raise invalid(f"the doorbell aperture has {DOORBELL_BYTES:#x} bytes, not {size:#x}")
        address = hostmem.back(start if fixed else 0, size, replace=fixed)
        doorbells.trap(address, size, lambda offset, value: self.ring_doorbell(gpu, offset, value))
        return address

    def ring_doorbell(self, gpu: Gpu, offset: int, value: int) -> None:
        """The host wrote ``value`` at byte ``offset`` of the doorbell page. A slot without a queue is ignored."""
        queue = self._slots.get((gpu, offset // 8))
        if queue is not None:
            gpu.device.doorbell(queue.ring, value)


def parse_mmap_offset(offset: int) -> tuple[int, int]:
    """The kind and the GPU id of a mapping of /dev/kfd."""
    offset &= (1 << 64) - 1
    return offset >> MMAP_TYPE_SHIFT, offset >> MMAP_GPU_SHIFT & ((1 << MMAP_GPU_BITS) - 1)
