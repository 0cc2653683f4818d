"""PM4: the packet decoder of compute queues (MEC). Opcodes are named from tinygrad's generated kernel headers."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping

from mockgpu.machine.errors import PacketError, PageFault
from mockgpu.machine.pm4_packets import HANDLERS
from mockgpu.machine.queue import Frame, Outcome, Packet, QueueHost, RingQueue, Status, Wait

TYPE2_FILLER = 0x80000000
#: A NOP whose count field is all ones is the header alone.
ONE_DWORD_NOP = 0xFFFF1000
_COUNT_MASK = 0x3FFF
_AHEAD = 16  # dwords looked at together: most packets are shorter


@functools.cache
def opcode_names(table: str) -> Mapping[int, str]:
    """Packet names by opcode from ``tinygrad.runtime.autogen.am.<table>`` (``pm4_nv``, ``pm4_soc15``)."""
    module = importlib.import_module(f"tinygrad.runtime.autogen.am.{table}")
    names: dict[int, str] = {}
    for symbol, value in vars(module).items():
        name = symbol.removeprefix("PACKET3_")
        if name != symbol and "__" not in name and isinstance(value, int) and value < 0x100:
            names.setdefault(value, name)
    return names


class Pm4Queue(RingQueue):
    """A compute queue. Pointers count dwords."""

    kind = "PM4"
    unit = 4

    def __init__(
        self,
        host: QueueHost,
        queue_id: int,
        base: int,
        nbytes: int,
        read_pointer: int,
        write_pointer: int,
        *,
        table: str = "pm4_nv",
        xcc: int = 0,
    ):
        super().__init__(host, queue_id, base, nbytes, read_pointer, write_pointer)
        self.names = opcode_names(table)
        self.xcc = xcc

    def _execute(self, frame: Frame) -> Outcome:
        try:
            words = frame.peek(self.host.memory, min(frame.available, _AHEAD))
        except PageFault:  # perhaps only behind this packet
            words = frame.peek(self.host.memory, 1)
        header = words[0]
        if header in (TYPE2_FILLER, ONE_DWORD_NOP):
            frame.read += frame.run_length(self.host.memory, header)
            return Outcome(Status.RETIRED, "NOP")
        opcode = header >> 8 & 0xFF
        name = self.names.get(opcode, "unknown packet")
        if header >> 30 != 3:
            raise self._bad_header(frame, header)
        count = (header >> 16 & _COUNT_MASK) + 2
        if not self.whole(frame, count, name):
            return Outcome(Status.NEED_INPUT)
        words = words[:count] if count <= len(words) else frame.peek(self.host.memory, count)
        packet = Packet(name, opcode, words, frame.offset, None if frame.ring else frame.base)
        self.packet = packet
        return self.finish(frame, packet, self._handle(packet))

    def _handle(self, packet: Packet) -> Wait | None:
        entry = HANDLERS.get(packet.name)
        if entry is None:
            raise self.reject(packet, "this PM4 packet is not supported")
        if packet.words[0] & 1:
            raise self.reject(packet, "the predicate bit is set, and compute queues have no predication")
        low, high, handler = entry
        operands = len(packet.words) - 1
        if not low <= operands <= high:
            wanted = f"{low}" if low == high else f"{low} to {high}"
            raise self.reject(packet, f"it has {operands} operand dwords where {wanted} belong")
        return handler(self, packet)

    def _bad_header(self, frame: Frame, header: int) -> PacketError:
        words = frame.peek(self.host.memory, min(4, frame.available))
        shown = " ".join(f"{w:08x}" for w in words)
        return PacketError(
            f"{self.name}: a type-{header >> 30} packet header at {self.place(frame)}, "
            f"only type 3 is legal here; dwords: {shown}",
            opcode=header >> 8 & 0xFF,
            dwords=words,
            offset=frame.offset,
        )
