"""SDMA: the packet decoder of the copy engines, versions 4.4 to 7 (the packets that they share).

Layouts follow the ``SDMA_PKT_*`` fields of tinygrad's generated ``sdma_*`` headers. FENCE writes 32 bits. Pointers
count bytes. Caches are not modelled, so GCR requests have no effect.
"""

from __future__ import annotations

from collections.abc import Callable

from mockgpu.machine.errors import PacketError
from mockgpu.machine.queue import COMPARES, Condition, Frame, Outcome, Packet, QueueHost, RingQueue, Status, Wait
from mockgpu.machine.queue_atomics import apply_atomic, atomic_bits, atomic_name

_NAMES = {
    0: "NOP",
    1: "COPY",
    2: "WRITE",
    4: "INDIRECT",
    5: "FENCE",
    6: "TRAP",
    7: "SEM",
    8: "POLL_REGMEM",
    9: "COND_EXE",
    10: "ATOMIC",
    11: "CONST_FILL",
    12: "PTEPDE",
    13: "TIMESTAMP",
    14: "SRBM_WRITE",
    15: "PRE_EXE",
    16: "GPUVM_INV",
    17: "GCR_REQ",
    32: "DUMMY_TRAP",
}
_COPY_BROADCAST = 1 << 27
#: A copy or fill engine counts bytes minus one from this version on; its count field has this many bits.
COUNT_BITS = {4: 22, 5: 30, 6: 30, 7: 30}


class SdmaQueue(RingQueue):
    """A copy queue. Pointers count bytes. ``count_bits`` is the width of the byte count of COPY and CONST_FILL."""

    kind = "SDMA"
    unit = 1

    def __init__(
        self,
        host: QueueHost,
        queue_id: int,
        base: int,
        nbytes: int,
        read_pointer: int,
        write_pointer: int,
        *,
        count_bits: int = 30,
    ):
        super().__init__(host, queue_id, base, nbytes, read_pointer, write_pointer)
        self.count_mask = (1 << count_bits) - 1

    def _execute(self, frame: Frame) -> Outcome:
        header = frame.peek(self.host.memory, 1)[0]
        if header == 0:
            frame.read += frame.run_length(self.host.memory, 0)
            return Outcome(Status.RETIRED, "NOP")
        opcode = header & 0xFF
        name = _NAMES.get(opcode, "unknown packet")
        count = self._length(frame, name, header)
        if count is None or not self.whole(frame, count, name):
            return Outcome(Status.NEED_INPUT)
        buffer = None if frame.ring else frame.base
        packet = Packet(name, opcode, frame.peek(self.host.memory, count), frame.offset, buffer)
        self.packet = packet
        return self.finish(frame, packet, _HANDLERS[name](self, packet))

    def _length(self, frame: Frame, name: str, header: int) -> int | None:
        """The length of the packet in dwords, or None when the ring does not yet hold enough to tell."""
        sub = header >> 8 & 0xFF
        fixed = _LENGTHS.get((name, sub))
        if name == "COPY" and sub == 0:
            return 9 if header & _COPY_BROADCAST else 7
        if name == "NOP":
            return (header >> 16 & 0x3FFF) + 1
        if name == "WRITE" and sub == 0:
            if not self.whole(frame, 4, name):
                return None
            return (frame.peek(self.host.memory, 4)[3] & 0xFFFFF) + 5
        if fixed is None:
            raise self._unsupported(frame, name, header)
        return fixed

    def _unsupported(self, frame: Frame, name: str, header: int) -> PacketError:
        words = frame.peek(self.host.memory, min(8, frame.available))
        packet = Packet(name, header & 0xFF, words, frame.offset, None if frame.ring else frame.base)
        return self.reject(packet, f"this SDMA packet (sub-opcode {header >> 8 & 0xFF}) is not supported")


#: Length in dwords of the packets of one size, by name and sub-opcode.
_LENGTHS: dict[tuple[str, int], int] = {
    ("INDIRECT", 0): 6,
    ("FENCE", 0): 4,
    ("TRAP", 0): 2,
    ("POLL_REGMEM", 0): 6,
    ("ATOMIC", 0): 8,
    ("CONST_FILL", 0): 5,
    ("TIMESTAMP", 1): 3,
    ("TIMESTAMP", 2): 3,
    ("GCR_REQ", 0): 5,
    ("GCR_REQ", 1): 5,
}


def _nop(queue: SdmaQueue, packet: Packet) -> Wait | None:
    return None


def _copy(queue: SdmaQueue, packet: Packet) -> Wait | None:
    nbytes = (packet.words[1] & queue.count_mask) + 1
    if packet.words[1] & ~queue.count_mask:
        raise queue.reject(packet, f"the byte count {packet.words[1]:#x} has bits above its field")
    memory, source = queue.host.memory, packet.address(3)
    for destination in range(5, len(packet.words), 2):
        memory.copy(packet.address(destination), source, nbytes)
    queue.host.copied(nbytes)
    return None


def _write(queue: SdmaQueue, packet: Packet) -> Wait | None:
    data = b"".join(word.to_bytes(4, "little") for word in packet.words[4:])
    queue.host.memory.write(packet.address(1), data)
    return None


def _fence(queue: SdmaQueue, packet: Packet) -> Wait | None:
    queue.host.memory.write_u32(packet.address(1), packet.words[3])
    return None


def _trap(queue: SdmaQueue, packet: Packet) -> Wait | None:
    queue.host.interrupt(packet.words[1] & 0x0FFFFFFF)
    return None


_POLL_MEMORY, _POLL_HDP_FLUSH = 1 << 31, 1 << 26


def _poll_regmem(queue: SdmaQueue, packet: Packet) -> Wait | None:
    header, function = packet.words[0], packet.words[0] >> 28 & 7
    if function not in COMPARES:
        raise queue.reject(packet, f"function {function} is reserved")
    if header & _POLL_HDP_FLUSH:
        raise queue.reject(packet, "an HDP flush from a user queue is not supported")
    condition = Condition(function, packet.words[4], packet.words[3])
    if header & _POLL_MEMORY:
        return condition.test_memory(queue.host.memory, packet.address(1))
    registers, address = queue.host.registers, packet.words[1] >> 2
    return condition.test(registers.read(address), registers.map.name(address))


def _timestamp(queue: SdmaQueue, packet: Packet) -> Wait | None:
    queue.host.memory.write_u64(packet.address(1) & ~7, queue.host.clock.ticks)
    return None


def _const_fill(queue: SdmaQueue, packet: Packet) -> Wait | None:
    size, nbytes = packet.words[0] >> 30, (packet.words[4] & queue.count_mask) + 1
    pattern = packet.words[3].to_bytes(4, "little")
    if size != 2 and len(set(pattern)) > 1:
        raise queue.reject(packet, f"fill size {size} with a pattern of unequal bytes is not supported (2, dwords, is)")
    queue.host.memory.fill(packet.address(1), pattern, nbytes)
    queue.host.copied(nbytes)
    return None


_ATOMIC_LOOP = 1 << 16


def _atomic(queue: SdmaQueue, packet: Packet) -> Wait | None:
    opcode = packet.words[0] >> 25
    name = atomic_name(opcode)
    if name is None:
        raise queue.reject(packet, f"atomic operation {opcode:#x} is not supported")
    memory, address, nbytes = queue.host.memory, packet.address(1), atomic_bits(opcode) // 8
    old = int.from_bytes(memory.read(address, nbytes), "little")
    compare = packet.address(5) & ((1 << 8 * nbytes) - 1)
    if packet.words[0] & _ATOMIC_LOOP and old != compare:
        return Wait(f"{name} at {address:#x} until memory is {compare:#x} (it is {old:#x})", address)
    memory.write(address, apply_atomic(opcode, old, packet.address(3), compare).to_bytes(nbytes, "little"))
    return None


def _indirect(queue: SdmaQueue, packet: Packet) -> Wait | None:
    base, size = packet.address(1), packet.words[3] & 0xFFFFF
    queue.host.memory.check(base, 4 * max(size, 1), "read")
    queue.enter(packet, base, size)
    return None


_HANDLERS: dict[str, Callable[[SdmaQueue, Packet], Wait | None]] = {
    "NOP": _nop,
    "GCR_REQ": _nop,
    "COPY": _copy,
    "WRITE": _write,
    "FENCE": _fence,
    "TRAP": _trap,
    "POLL_REGMEM": _poll_regmem,
    "TIMESTAMP": _timestamp,
    "CONST_FILL": _const_fill,
    "ATOMIC": _atomic,
    "INDIRECT": _indirect,
}
