"""A machine with a driver and an engine that only take notes, and rings to feed it by hand."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

from mockgpu.drivers.boards import get_board
from mockgpu.machine.clock import WorkClock
from mockgpu.machine.device import Device, Machine
from mockgpu.machine.errors import GuestFault
from mockgpu.machine.launch import Launch, LaunchStats
from mockgpu.machine.memory import PAGE, Memory
from mockgpu.machine.pm4 import Pm4Queue
from mockgpu.machine.queue import RingQueue
from mockgpu.machine.sdma import SdmaQueue


@dataclass
class NoteDriver:
    """Remembers interrupts, faults and watched addresses."""

    interrupts: list[int] = field(default_factory=list)
    faults: list[GuestFault] = field(default_factory=list)
    watched: frozenset[int] = frozenset()

    def interrupt(self, device: Device, context_id: int) -> None:
        self.interrupts.append(context_id)

    def fault(self, device: Device, fault: GuestFault) -> None:
        self.faults.append(fault)

    def watch(self, addresses: frozenset[int]) -> None:
        self.watched = addresses


@dataclass
class NoteEngine:
    """Remembers launches; ``error`` is raised instead when set."""

    name: str = "notes"
    launches: list[Launch] = field(default_factory=list)
    error: BaseException | None = None

    def run(self, launch: Launch, memory: Memory, *, timeout: float) -> LaunchStats:
        self.launches.append(launch)
        if self.error is not None:
            raise self.error
        return LaunchStats(waves=2, instructions=100, by_class={"valu": 100})


class Block:
    """Page-aligned host memory that stays alive as long as this object."""

    def __init__(self, nbytes: int = PAGE):
        self._raw = ctypes.create_string_buffer(nbytes + PAGE)
        self.va = -(-ctypes.addressof(self._raw) // PAGE) * PAGE
        self.nbytes = nbytes

    def _words(self, index: int, count: int) -> ctypes.Array[ctypes.c_uint32]:
        return (ctypes.c_uint32 * count).from_address(self.va + 4 * index)

    def __getitem__(self, index: int) -> int:
        return self._words(index, 1)[0]

    def __setitem__(self, index: int, value: int) -> None:
        self._words(index, 1)[0] = value

    def put(self, index: int, *words: int) -> None:
        self._words(index, len(words))[:] = list(words)

    def bytes(self, start: int, size: int) -> bytes:
        return ctypes.string_at(self.va + start, size)


class Bench:
    """One machine of ``devices`` gfx1100 with noting parts, and memory blocks that every device sees."""

    def __init__(self, devices: int = 1):
        self.driver, self.engine = NoteDriver(), NoteEngine()
        self.machine = Machine(self.driver, WorkClock(), timeout=5.0)
        config = get_board("gfx1100").machine_config()
        for _ in range(devices):
            self.machine.add_device(config, lambda: self.engine)
        self._blocks: list[Block] = []

    @property
    def device(self) -> Device:
        return self.machine.devices[0]

    def block(self, nbytes: int = PAGE, *, write: bool = True) -> Block:
        block = Block(nbytes)
        self._blocks.append(block)
        for device in self.machine.devices:
            device.memory.map(block.va, nbytes, write=write)
        return block

    def pm4(self, ring_bytes: int = PAGE, device: int = 0) -> Feed:
        return self._feed(Pm4Queue, ring_bytes, device)

    def sdma(self, ring_bytes: int = PAGE, device: int = 0) -> Feed:
        return self._feed(SdmaQueue, ring_bytes, device)

    def _feed(self, kind: type[Pm4Queue] | type[SdmaQueue], ring_bytes: int, index: int) -> Feed:
        ring, pointers, device = self.block(max(ring_bytes, PAGE)), self.block(), self.machine.devices[index]
        queue = kind(device, len(device.queues), ring.va, ring_bytes, pointers.va, pointers.va + 8)
        device.queues.append(queue)
        return Feed(device, queue, ring, pointers, ring_bytes // 4)


@dataclass
class Feed:
    """The host's end of a queue."""

    device: Device
    queue: RingQueue
    ring: Block
    pointers: Block
    size: int
    put: int = 0

    def write(self, *words: int) -> Feed:
        for word in words:
            self.ring[self.put % self.size] = word
            self.put += 1
        return self

    def ring_doorbell(self) -> None:
        self.device.doorbell(self.queue, self.put * 4 // self.queue.unit)

    def send(self, *words: int) -> None:
        self.write(*words).ring_doorbell()

    @property
    def read_pointer(self) -> int:
        return self.pointers[0] | self.pointers[1] << 32


def pkt3(opcode: int, *operands: int) -> tuple[int, ...]:
    """A type-3 packet."""
    return (3 << 30 | (len(operands) - 1 & 0x3FFF) << 16 | opcode << 8, *operands)


def lo_hi(value: int) -> tuple[int, int]:
    return value & 0xFFFFFFFF, value >> 32
