"""Queues: resumable packet decoders over a ring of dwords in guest memory.

A decoder takes one packet at a time. :meth:`RingQueue.step` answers with one :class:`Outcome`:
need input (the ring is empty, or holds only part of a packet), retired (one packet done), blocked (on what),
unsupported (which packet, decoded) or fault. A blocked packet stays in place and is tried again by the next step.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mockgpu.isa.errors import MockGPUError
from mockgpu.machine.clock import DeviceClock
from mockgpu.machine.errors import GuestFault, PacketError, PageFault, Where
from mockgpu.machine.launch import Launch
from mockgpu.machine.memory import Memory
from mockgpu.machine.pm4_dispatch import ScratchUnits
from mockgpu.machine.registers import RegisterFile

#: Indirect buffers that may be open at once; deeper nesting is taken for a loop.
MAX_DEPTH = 8
#: Chained indirect buffers between two packets of the ring; more are taken for an endless loop.
MAX_CHAIN = 1 << 16
_RUN_CHUNK = 4096
_PACKET_NS = 10


class Status(enum.Enum):
    NEED_INPUT = "need input"
    RETIRED = "retired"
    BLOCKED = "blocked"
    UNSUPPORTED = "unsupported"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one step did. ``packet`` is a packet's name.

    A blocked packet ``waits_for`` something, in words; ``address`` is the memory it looks at, if it is memory.
    """

    status: Status
    packet: str = ""
    waits_for: str = ""
    address: int | None = None
    error: MockGPUError | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a packet cannot retire yet, in words, and the memory it waits for (a byte address), if it is memory."""

    text: str
    address: int | None = None


NEED_INPUT = Outcome(Status.NEED_INPUT)


@dataclass(frozen=True, slots=True)
class Packet:
    """A decoded packet header with its operands: ``words`` are all dwords, header included.

    ``offset`` is the dword offset of the header in its ring, or in the indirect buffer at byte address ``buffer``.
    """

    name: str
    opcode: int
    words: tuple[int, ...]
    offset: int
    buffer: int | None = None

    @property
    def place(self) -> str:
        """Where the packet stands, in words."""
        if self.buffer is None:
            return f"ring dword {self.offset:#x}"
        return f"dword {self.offset:#x} of the indirect buffer at {self.buffer:#x}"

    def address(self, index: int) -> int:
        """The 64-bit value of dwords ``index`` (low) and ``index + 1`` (high)."""
        return self.words[index] | self.words[index + 1] << 32


@dataclass(slots=True)
class Frame:
    """A run of dwords that is being decoded: the ring, or an indirect buffer.

    ``base`` is a byte address, ``size`` the length in dwords, ``read`` and ``end`` dword positions that grow
    without wrapping (in a ring, position modulo size). ``skip`` dwords are still to be passed over unexecuted.
    """

    base: int
    size: int
    read: int
    end: int
    ring: bool
    skip: int = 0

    @property
    def offset(self) -> int:
        return self.read % self.size if self.ring else self.read

    @property
    def available(self) -> int:
        return self.end - self.read

    def peek(self, memory: Memory, count: int) -> tuple[int, ...]:
        """The next ``count`` dwords, around the end of the ring. Raises PageFault."""
        at = self.offset
        first = min(count, self.size - at)
        data = memory.read(self.base + 4 * at, 4 * first)
        if first < count:
            data += memory.read(self.base, 4 * (count - first))
        return tuple(memoryview(data).cast("I"))

    def run_length(self, memory: Memory, word: int) -> int:
        """How many of the next dwords equal ``word``, looking no further than one chunk or the end of the ring."""
        count = min(self.available, self.size - self.offset, _RUN_CHUNK)
        words = np.frombuffer(memory.read(self.base + 4 * self.offset, 4 * count), np.uint32)
        other = np.flatnonzero(words != word)
        return int(other[0]) if other.size else count


class QueueHost(Protocol):
    """What a queue needs of its device."""

    name: str
    memory: Memory
    registers: RegisterFile
    clock: DeviceClock
    scratch_units: ScratchUnits

    def interrupt(self, context_id: int) -> None:
        """Raise an end-of-pipe or trap interrupt that carries ``context_id`` (a KFD event id)."""

    def launch(self, launch: Launch) -> None:
        """Run a dispatch to its end. Raises GuestFault."""

    def copied(self, nbytes: int) -> None:
        """Account for ``nbytes`` moved by a copy engine."""


class RingQueue(abc.ABC):
    """A user-mode queue: a ring in guest memory, a write pointer from the doorbell, a read pointer written back.

    ``unit`` is the number of bytes that pointers count in. ``error`` is set once a packet failed; the queue then
    stands still until :meth:`drop`. ``packet`` is the packet of the last step, as far as it was decoded.
    """

    kind = "queue"
    unit = 4

    def __init__(self, host: QueueHost, queue_id: int, base: int, nbytes: int, read_pointer: int, write_pointer: int):
        self.host = host
        self.queue_id = queue_id
        self.read_pointer, self.write_pointer = read_pointer, write_pointer
        self.frames = [Frame(base, nbytes // 4, 0, 0, ring=True)]
        self.packet: Packet | None = None
        self.blocked: Outcome | None = None
        self.error: MockGPUError | None = None
        self.enabled = True
        self._hops = 0

    @property
    def name(self) -> str:
        return f"{self.host.name} {self.kind} queue {self.queue_id}"

    @property
    def ring(self) -> Frame:
        return self.frames[0]

    @property
    def pending(self) -> bool:
        """Whether there are dwords to decode (also when the queue is blocked)."""
        return len(self.frames) > 1 or self.ring.read < self.ring.end

    @property
    def runnable(self) -> bool:
        return self.enabled and self.error is None and self.pending

    # -- the host's side --------------------------------------------------------------------------------------

    def doorbell(self, value: int) -> None:
        """The host rang: ``value`` is the new write pointer, in the queue's unit. Raises PacketError if absurd."""
        if value % (4 // self.unit):
            raise self.complain(f"write pointer {value:#x} is not a whole number of dwords")
        end = value * self.unit // 4
        if end < self.ring.read:
            raise self.complain(f"write pointer {value:#x} lies behind the read pointer {self._pointer():#x}")
        if end - self.ring.read > self.ring.size:
            raise self.complain(f"write pointer {value:#x} is over a ring ahead of read pointer {self._pointer():#x}")
        self.ring.end = end

    def drop(self) -> None:
        """Forget everything that is queued, and the error: read pointer := write pointer."""
        del self.frames[1:]
        self.ring.read, self.ring.skip = self.ring.end, 0
        self.blocked = self.error = None
        try:
            self.publish()
        except PageFault as error:
            self.error = error

    def publish(self) -> None:
        """Write the read pointer back to memory. Raises PageFault."""
        self.host.memory.write_u64(self.read_pointer, self._pointer())

    def _pointer(self) -> int:
        return self.ring.read * 4 // self.unit

    def complain(self, why: str) -> PacketError:
        return PacketError(f"{self.name}: {why}")

    # -- decoding ---------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Step until the queue is empty, blocked or in error. Returns whether anything was retired."""
        retired = False
        while self.step().status is Status.RETIRED:
            retired = True
        if retired:
            try:
                self.publish()
            except PageFault as error:
                self.error = self.error or error
        return retired

    def step(self) -> Outcome:
        """Decode and execute one packet."""
        self.blocked = self.packet = None
        try:
            outcome = self._execute(self.frames[-1]) if self._advance() else NEED_INPUT
        except MockGPUError as error:
            self._say_where(error)
            self.error = error
            status = Status.UNSUPPORTED if isinstance(error, PacketError) else Status.FAULT
            return Outcome(status, error=error)
        if outcome.status is Status.BLOCKED:
            self.blocked = outcome
        return outcome

    def _say_where(self, error: MockGPUError) -> None:
        """A fault that no kernel caused names the packet that did."""
        if isinstance(error, PageFault) and error.where == Where():
            at = f"{self.packet.name} at {self.packet.place}" if self.packet else self.place(self.frames[-1])
            error.message = f"{error.message} ({self.name}: {at})"

    def _advance(self) -> bool:
        """Leave finished frames and pass over skipped dwords. False when there is nothing to decode."""
        while True:
            frame = self.frames[-1]
            passed = min(frame.skip, frame.available)
            frame.read += passed
            frame.skip -= passed
            if frame.available:
                return True
            if len(self.frames) == 1:
                self._hops = 0
                return False
            if frame.skip:
                raise self.complain(f"a conditional packet skips {frame.skip} dwords past its indirect buffer's end")
            self.frames.pop()

    @abc.abstractmethod
    def _execute(self, frame: Frame) -> Outcome:
        """Decode the packet at ``frame.read``; advance the frame when it retires."""

    def place(self, frame: Frame) -> str:
        """Where the next packet of ``frame`` stands, in words."""
        if frame.ring:
            return f"ring dword {frame.offset:#x}"
        return f"dword {frame.offset:#x} of the indirect buffer at {frame.base:#x}"

    def whole(self, frame: Frame, count: int, name: str) -> bool:
        """Whether ``count`` dwords are there. An indirect buffer that ends inside a packet is an error."""
        if frame.available >= count:
            return True
        if frame.ring:
            return False
        words = frame.peek(self.host.memory, frame.available)
        raise PacketError(
            f"{self.name}: the indirect buffer at {frame.base:#x} ends inside {name} at dword {frame.offset:#x}",
            dwords=words,
            offset=frame.offset,
        )

    def enter(self, packet: Packet, base: int, size: int, *, chain: bool = False) -> None:
        """Continue decoding in the indirect buffer of ``size`` dwords at byte address ``base``."""
        if base & 3 or not size:
            raise self.reject(packet, f"an indirect buffer of {size} dwords at {base:#x} is empty or misaligned")
        if chain:
            if len(self.frames) == 1:
                raise self.reject(packet, "a chained indirect buffer outside an indirect buffer")
            self.frames.pop()
            self._hops += 1
            if self._hops > MAX_CHAIN:
                raise self.reject(packet, f"more than {MAX_CHAIN} chained indirect buffers: an endless chain")
        if len(self.frames) > MAX_DEPTH:
            raise self.reject(packet, f"indirect buffers nested deeper than {MAX_DEPTH}")
        self.frames.append(Frame(base, size, 0, size, ring=False))

    def finish(self, frame: Frame, packet: Packet, wait: Wait | None) -> Outcome:
        """Pass over a packet that was executed, or stay at it when it has to wait."""
        if wait is not None:
            return Outcome(Status.BLOCKED, packet.name, f"{packet.name} at {packet.place}: {wait.text}", wait.address)
        frame.read += len(packet.words)
        self.host.clock.advance(_PACKET_NS)
        return Outcome(Status.RETIRED, packet.name)

    def reject(self, packet: Packet, why: str) -> PacketError:
        """The error that names a packet, its dwords and its place."""
        words = " ".join(f"{w:08x}" for w in packet.words[:16]) + (" ..." if len(packet.words) > 16 else "")
        return PacketError(
            f"{self.name}: {packet.name} (opcode {packet.opcode:#x}) at {packet.place}: {why}; dwords: {words}",
            opcode=packet.opcode,
            dwords=packet.words,
            offset=packet.offset,
        )


Compare = Callable[[int, int], bool]
#: The functions of WAIT_REG_MEM and POLL_REGMEM, by number: name and test of (value, reference), unsigned.
COMPARES: dict[int, tuple[str, Compare]] = {
    0: ("always", lambda value, reference: True),
    1: ("<", lambda value, reference: value < reference),
    2: ("<=", lambda value, reference: value <= reference),
    3: ("==", lambda value, reference: value == reference),
    4: ("!=", lambda value, reference: value != reference),
    5: (">=", lambda value, reference: value >= reference),
    6: (">", lambda value, reference: value > reference),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """``value & mask`` compared with ``reference`` by function number ``function``."""

    function: int
    mask: int
    reference: int

    def test(self, value: int, subject: str, address: int | None = None) -> Wait | None:
        """None when it holds for ``value``, else the wait for ``subject`` (at ``address``, if it is memory)."""
        symbol, compare = COMPARES[self.function]
        if compare(value & self.mask, self.reference):
            return None
        masked = "" if self.mask == 0xFFFFFFFF else f" & {self.mask:#x}"
        text = f"{subject}{masked} {symbol} {self.reference:#x} (it is {value & self.mask:#x})"
        return Wait(text, address)

    def test_memory(self, memory: Memory, address: int) -> Wait | None:
        """The same for the dword at ``address``. Raises PageFault."""
        return self.test(memory.read_u32(address), f"dword at {address:#x}", address)


def as_fault(error: MockGPUError) -> GuestFault:
    """Any error of the machine as a fault of the guest."""
    return error if isinstance(error, GuestFault) else GuestFault(str(error))
