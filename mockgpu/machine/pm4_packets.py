"""What each PM4 packet does. A handler returns None when the packet retired, or what it waits for.

Layouts follow the fields named in tinygrad's generated ``pm4_nv`` and ``pm4_soc15`` headers. Caches are not modelled:
every access is coherent, so flushes and invalidations have no effect. A dispatch ends before the next packet is
decoded, so waiting for idle shaders has none either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mockgpu.machine import pm4_dispatch
from mockgpu.machine.queue import COMPARES, Condition, Frame, Packet, QueueHost, Wait
from mockgpu.machine.queue_atomics import apply_atomic, atomic_bits, atomic_name

SH_REGISTERS = (0x2C00, 0x3000)
#: The packet's offset field is 16 bits wide, so it reaches far beyond the headers' UCONFIG_REG_END.
UCONFIG_REGISTERS = (0xC000, 0xC000 + 0x10000)
_IB_VALID = 1 << 23
_IB_CHAIN = 1 << 20


class Processor(Protocol):
    """The queue that executes packets."""

    @property
    def frames(self) -> list[Frame]: ...
    @property
    def host(self) -> QueueHost: ...
    @property
    def xcc(self) -> int: ...
    def reject(self, packet: Packet, why: str) -> Exception: ...
    def enter(self, packet: Packet, base: int, size: int, *, chain: bool = False) -> None: ...


Handler = Callable[[Processor, Packet], Wait | None]
#: By packet name: fewest and most operand dwords (header excluded), and the handler.
HANDLERS: dict[str, tuple[int, int, Handler]] = {}
_ANY = 1 << 14


def _packet(name: str, low: int, high: int | None = None) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        HANDLERS[name] = (low, low if high is None else high, handler)
        return handler

    return register


def _choose(queue: Processor, packet: Packet, what: str, value: int, good: dict[int, str]) -> str:
    """The meaning of a selector, or an error that lists the supported ones."""
    if value not in good:
        listed = ", ".join(f"{k} {v}" for k, v in good.items())
        raise queue.reject(packet, f"{what} {value} is not supported (supported: {listed})")
    return good[value]


@_packet("NOP", 1, _ANY)
def _nop(queue: Processor, packet: Packet) -> Wait | None:
    return None


@_packet("ACQUIRE_MEM", 6, 7)
def _acquire_mem(queue: Processor, packet: Packet) -> Wait | None:
    return None


# -- registers --------------------------------------------------------------------------------------------------


def _set_registers(queue: Processor, packet: Packet, window: tuple[int, int]) -> Wait | None:
    offset = packet.words[1]
    if offset >> 16:
        raise queue.reject(packet, f"register offset {offset:#x} has bits above its 16-bit field")
    first = window[0] + offset
    if first + len(packet.words) - 2 > window[1]:
        raise queue.reject(packet, f"registers {first:#x} and up lie outside [{window[0]:#x}, {window[1]:#x})")
    for i, value in enumerate(packet.words[2:]):
        queue.host.registers.write(first + i, value)
    return None


@_packet("SET_SH_REG", 2, _ANY)
def _set_sh_reg(queue: Processor, packet: Packet) -> Wait | None:
    return _set_registers(queue, packet, SH_REGISTERS)


@_packet("SET_UCONFIG_REG", 2, _ANY)
def _set_uconfig_reg(queue: Processor, packet: Packet) -> Wait | None:
    return _set_registers(queue, packet, UCONFIG_REGISTERS)


# -- dispatch ---------------------------------------------------------------------------------------------------


@_packet("DISPATCH_DIRECT", 4)
def _dispatch_direct(queue: Processor, packet: Packet) -> Wait | None:
    _, x, y, z, initiator = packet.words
    _dispatch(queue, packet, (x, y, z), initiator)
    return None


@_packet("DISPATCH_INDIRECT", 3)
def _dispatch_indirect(queue: Processor, packet: Packet) -> Wait | None:
    at = packet.address(1)
    x, y, z = (queue.host.memory.read_u32(at + 4 * i) for i in range(3))
    _dispatch(queue, packet, (x, y, z), packet.words[3])
    return None


def _dispatch(queue: Processor, packet: Packet, size: tuple[int, int, int], initiator: int) -> None:
    try:
        launch = pm4_dispatch.build_launch(queue.host.registers, size, initiator, queue.host.scratch_units)
    except pm4_dispatch.BadDispatch as error:
        raise queue.reject(packet, str(error)) from error
    if all(launch.grid):
        queue.host.launch(launch)


# -- waiting and signalling -------------------------------------------------------------------------------------

_REGISTER_SPACE, _MEMORY_SPACE = 0, 1
_WRITE_THEN_WAIT = 1
_SPACES = {_REGISTER_SPACE: "register", _MEMORY_SPACE: "memory"}
_OPERATIONS = {0: "wait", _WRITE_THEN_WAIT: "write, then wait", 3: "wait, preemptable"}


@_packet("WAIT_REG_MEM", 6)
def _wait_reg_mem(queue: Processor, packet: Packet) -> Wait | None:
    control, _, second, reference, mask = packet.words[1:6]
    function, space, operation = control & 7, control >> 4 & 3, control >> 6 & 3
    _choose(queue, packet, "function", function, {k: v[0] for k, v in COMPARES.items()})
    _choose(queue, packet, "memory space", space, _SPACES)
    _choose(queue, packet, "operation", operation, _OPERATIONS)
    condition = Condition(function, mask, reference)
    if space == _MEMORY_SPACE:
        return condition.test_memory(queue.host.memory, packet.address(2) & ~3)
    registers, polled = queue.host.registers, packet.words[2] & 0x3FFFF
    if operation == _WRITE_THEN_WAIT:
        registers.write(polled, reference)
        polled = second & 0x3FFFF
    return condition.test(registers.read(polled), registers.map.name(polled))


#: Bits of RELEASE_MEM's third dword.
_DATA_NONE, _DATA_32, _DATA_64, _DATA_CLOCK = 0, 1, 2, 3
_DATA_SELECTORS = {_DATA_NONE: "none", _DATA_32: "32 bits", _DATA_64: "64 bits", _DATA_CLOCK: "GPU clock"}
_DESTINATIONS = {0: "memory controller", 1: "TC L2"}
_INTERRUPTS = {0: "none", 1: "interrupt", 2: "interrupt after write", 3: "data after write", 4: "always, with context"}
_INTERRUPTING = (1, 2, 4)
_INTERRUPT_ONLY = 1


@_packet("RELEASE_MEM", 6, 7)
def _release_mem(queue: Processor, packet: Packet) -> Wait | None:
    select = packet.words[2]
    data, interrupt, destination = select >> 29, select >> 24 & 7, select >> 16 & 3
    _choose(queue, packet, "data_sel", data, _DATA_SELECTORS)
    _choose(queue, packet, "int_sel", interrupt, _INTERRUPTS)
    _choose(queue, packet, "dst_sel", destination, _DESTINATIONS)
    if interrupt != _INTERRUPT_ONLY:
        _write_release(queue, packet, data)
    if interrupt in _INTERRUPTING:
        queue.host.interrupt(packet.words[7] if len(packet.words) > 7 else 0)
    return None


def _write_release(queue: Processor, packet: Packet, data: int) -> None:
    memory, address = queue.host.memory, packet.address(3)
    if data == _DATA_32:
        memory.write_u32(address & ~3, packet.words[5])
    elif data == _DATA_64:
        memory.write_u64(address & ~7, packet.address(5))
    elif data == _DATA_CLOCK:
        memory.write_u64(address & ~7, queue.host.clock.ticks)


@_packet("EVENT_WRITE", 1)
def _event_write(queue: Processor, packet: Packet) -> Wait | None:
    return None


# -- control flow -----------------------------------------------------------------------------------------------


@_packet("INDIRECT_BUFFER", 3)
def _indirect_buffer(queue: Processor, packet: Packet) -> Wait | None:
    control = packet.words[3]
    if not control & _IB_VALID:
        raise queue.reject(packet, "its VALID bit is not set")
    size, base = control & 0xFFFFF, packet.address(1)
    queue.host.memory.check(base, 4 * max(size, 1), "read")
    if control & _IB_CHAIN:
        queue.enter(packet, base, size, chain=True)
    else:
        queue.enter(packet, base, size)
    return None


@_packet("PRED_EXEC", 1)
def _pred_exec(queue: Processor, packet: Packet) -> Wait | None:
    word = packet.words[1]
    if not word >> 24 >> queue.xcc & 1:
        queue.frames[-1].skip = word & 0x3FFF
    return None


@_packet("COND_EXEC", 4)
def _cond_exec(queue: Processor, packet: Packet) -> Wait | None:
    if queue.host.memory.read_u32(packet.address(1) & ~3) == 0:
        queue.frames[-1].skip = packet.words[4] & 0x3FFF
    return None


# -- moving data ------------------------------------------------------------------------------------------------

_SRC_REGISTER, _SRC_PERF, _SRC_IMMEDIATE, _SRC_CLOCK, _SRC_SYSTEM_CLOCK = 0, 4, 5, 9, 10
_COPY_SOURCES = {
    _SRC_REGISTER: "register",
    1: "memory",
    2: "TC L2",
    _SRC_PERF: "perf counter",
    _SRC_IMMEDIATE: "immediate",
    _SRC_CLOCK: "GPU clock",
    _SRC_SYSTEM_CLOCK: "system clock",
}
_DST_REGISTER, _DST_PERF = 0, 4
_COPY_DESTINATIONS = {_DST_REGISTER: "register", 2: "TC L2", _DST_PERF: "perf counter", 5: "memory"}


@_packet("COPY_DATA", 5)
def _copy_data(queue: Processor, packet: Packet) -> Wait | None:
    control = packet.words[1]
    source, destination, wide = control & 0xF, control >> 8 & 0xF, bool(control >> 16 & 1)
    _choose(queue, packet, "src_sel", source, _COPY_SOURCES)
    _choose(queue, packet, "dst_sel", destination, _COPY_DESTINATIONS)
    _store_copy(queue, packet, destination, wide, _load_copy(queue, packet, source, wide))
    return None


def _load_copy(queue: Processor, packet: Packet, source: int, wide: bool) -> int:
    registers, memory = queue.host.registers, queue.host.memory
    if source in (_SRC_REGISTER, _SRC_PERF):
        address = packet.words[2] & 0x3FFFF
        return registers.read(address) | (registers.read(address + 1) << 32 if wide else 0)
    if source == _SRC_IMMEDIATE:
        return packet.address(2)
    if source in (_SRC_CLOCK, _SRC_SYSTEM_CLOCK):
        return queue.host.clock.ticks
    address = packet.address(2)
    return memory.read_u64(address & ~7) if wide else memory.read_u32(address & ~3)


def _store_copy(queue: Processor, packet: Packet, destination: int, wide: bool, value: int) -> None:
    registers, memory = queue.host.registers, queue.host.memory
    if destination in (_DST_REGISTER, _DST_PERF):
        address = packet.words[4] & 0x3FFFF
        registers.write(address, value)
        if wide:
            registers.write(address + 1, value >> 32)
    elif wide:
        memory.write_u64(packet.address(4) & ~7, value)
    else:
        memory.write_u32(packet.address(4) & ~3, value)


@_packet("WRITE_DATA", 4, _ANY)
def _write_data(queue: Processor, packet: Packet) -> Wait | None:
    control, data = packet.words[1], packet.words[4:]
    destination, one_address = control >> 8 & 0xF, control >> 16 & 1
    _choose(queue, packet, "dst_sel", destination, {0: "register", 2: "TC L2", 5: "memory"})
    if destination == 0:
        for i, value in enumerate(data):
            queue.host.registers.write((packet.words[2] & 0x3FFFF) + (0 if one_address else i), value)
        return None
    address = packet.address(2) & ~3
    if one_address:
        data = data[-1:]
    queue.host.memory.write(address, b"".join(value.to_bytes(4, "little") for value in data))
    return None


_DMA_FILL = 2
_DMA_REGISTER_SPACE, _DMA_NO_INCREMENT = 3 << 26, 3 << 28


@_packet("DMA_DATA", 6)
def _dma_data(queue: Processor, packet: Packet) -> Wait | None:
    control, command = packet.words[1], packet.words[6]
    source, destination, nbytes = control >> 29 & 3, control >> 20 & 3, command & 0x3FFFFFF
    _choose(queue, packet, "src_sel", source, {0: "memory", _DMA_FILL: "data", 3: "TC L2"})
    _choose(queue, packet, "dst_sel", destination, {0: "memory", 3: "TC L2"})
    if command & (_DMA_REGISTER_SPACE | _DMA_NO_INCREMENT):
        raise queue.reject(packet, "register space or fixed addresses are not supported")
    if not nbytes:
        return None
    if source == _DMA_FILL:
        queue.host.memory.fill(packet.address(4), packet.words[2].to_bytes(4, "little"), nbytes)
    else:
        queue.host.memory.copy(packet.address(4), packet.address(2), nbytes)
    queue.host.copied(nbytes)
    return None


_ATOMIC_LOOP = 1
_ATOMIC_COMMANDS = {0: "single pass", _ATOMIC_LOOP: "loop until compare", 2: "wait for write", 3: "send and continue"}


@_packet("ATOMIC_MEM", 8)
def _atomic_mem(queue: Processor, packet: Packet) -> Wait | None:
    opcode, command = packet.words[1] & 0x7F, packet.words[1] >> 8 & 0xF
    name = atomic_name(opcode)
    if name is None:
        raise queue.reject(packet, f"atomic operation {opcode:#x} is not supported")
    _choose(queue, packet, "command", command, _ATOMIC_COMMANDS)
    nbytes, address, memory = atomic_bits(opcode) // 8, packet.address(2), queue.host.memory
    old = int.from_bytes(memory.read(address, nbytes), "little")
    compare = packet.address(6) & ((1 << 8 * nbytes) - 1)
    if command == _ATOMIC_LOOP and old != compare:
        return Wait(f"{name} at {address:#x} until memory is {compare:#x} (it is {old:#x})", address)
    memory.write(address, apply_atomic(opcode, old, packet.address(4), compare).to_bytes(nbytes, "little"))
    return None
