"""KFD events: signals, memory exceptions, hardware exceptions; and what a wait for them finds.

Signal events have a 64-bit slot in the event page: all ones, until a GPU writes to it and raises an interrupt.
"""

from __future__ import annotations

import ctypes
import errno
from dataclasses import dataclass, field

from mockgpu.drivers import hostmem
from mockgpu.drivers.ids import IdPool
from mockgpu.drivers.kfd_memory import Buffer, header
from mockgpu.drivers.refusal import Refused, invalid

SIGNAL, HW_EXCEPTION, MEMORY = 0, 3, 8
SIGNAL_LIMIT = 4096
FIRST_OTHER_ID = 0x80000000
UNSIGNALED = (1 << 64) - 1
COMPLETE, TIMEOUT = 0, 1
#: Offset of ``event_id`` in ``struct kfd_event_data``, and the size of that struct.
_ID_OFFSET, DATA_BYTES = 40, 48


@dataclass(eq=False, slots=True)
class Event:
    """``data`` is what a wait copies to the host (memory or hardware exception); ``age`` counts signals."""

    event_id: int
    type: int
    auto_reset: bool
    signaled: bool = False
    age: int = 1
    data: bytes = b""
    gpu_id: int = 0

    def signal(self) -> None:
        self.signaled = True
        self.age += 1


@dataclass(slots=True)
class Waiter:
    """One entry of a wait: the host's data at ``address``, and the age it knows (0: does not care)."""

    event: Event
    address: int
    known_age: int
    activated: bool = False
    consumed: bool = False

    def test(self) -> None:
        """Take a signal if there is one; an auto-reset event is unsignaled by that."""
        if self.activated:
            return
        if self.event.signaled:
            self.activated = True
            if self.event.auto_reset:
                self.event.signaled, self.consumed = False, True
        elif self.known_age and self.known_age != self.event.age:
            self.activated = True

    def give_back(self) -> None:
        """The wait timed out: an auto-reset signal that it took is there again."""
        if self.consumed:
            self.event.signaled = True

    def deliver(self) -> None:
        """Copy the event's data to the host. Raises OSError EFAULT."""
        if not self.activated:
            return
        if self.event.type == SIGNAL:
            if self.known_age:
                hostmem.write(self.address, self.event.age.to_bytes(8, "little"))
        elif self.event.data:
            hostmem.write(self.address, self.event.data)


@dataclass
class EventTable:
    """All events of the process. ``page`` is the buffer of the signal slots, once there is one."""

    page: Buffer | None = None
    _events: dict[int, Event] = field(default_factory=dict)
    _signal_ids: IdPool = field(default_factory=lambda: IdPool(SIGNAL_LIMIT))
    _other_ids: IdPool = field(default_factory=lambda: IdPool(FIRST_OTHER_ID, FIRST_OTHER_ID))

    def set_page(self, buffer: Buffer) -> None:
        """Refuses with EINVAL when there is a page already or the buffer is too small."""
        if self.page is not None:
            raise invalid("the event page is already set")
        if buffer.size < SIGNAL_LIMIT * 8 or not buffer.backed:
            raise invalid(f"{buffer} is too small for an event page, or the host has not mapped it")
        self.page = buffer
        ctypes.memset(buffer.va, 0xFF, SIGNAL_LIMIT * 8)

    def create(self, event_type: int, auto_reset: bool) -> Event:
        """A new event. Refuses with ENOSPC when all signal slots are taken."""
        if event_type == SIGNAL:
            event_id = self._signal_ids.take()
            if event_id is None:
                raise Refused(errno.ENOSPC, f"all {SIGNAL_LIMIT} signal events are in use")
            self._reset_slot(event_id)
        else:
            event_id = self._other_ids.take()
            if event_id is None:
                raise Refused(errno.ENOSPC, "all event ids are in use")
        event = self._events[event_id] = Event(event_id, event_type, auto_reset)
        return event

    def get(self, event_id: int) -> Event:
        """Refuses with EINVAL for an id that no event has."""
        event = self._events.get(event_id)
        if event is None:
            raise invalid(f"no event has id {event_id:#x}")
        return event

    def destroy(self, event_id: int) -> None:
        del self._events[self.get(event_id).event_id]
        (self._signal_ids if event_id < SIGNAL_LIMIT else self._other_ids).give(event_id)

    def set(self, event_id: int) -> None:
        self._settable(event_id).signal()

    def reset(self, event_id: int) -> None:
        self._settable(event_id).signaled = False

    def _settable(self, event_id: int) -> Event:
        event = self.get(event_id)
        if event.type != SIGNAL:
            raise invalid(f"event {event_id:#x} is not a signal event; the host can neither set nor reset it")
        return event

    # -- what GPUs raise --------------------------------------------------------------------------------------

    def _slot(self, event_id: int) -> int:
        assert self.page is not None
        return ctypes.c_uint64.from_address(self.page.va + 8 * event_id).value

    def _reset_slot(self, event_id: int) -> None:
        if self.page is not None:
            ctypes.c_uint64.from_address(self.page.va + 8 * event_id).value = UNSIGNALED

    def interrupt(self, event_id: int) -> None:
        """A GPU raised an interrupt for ``event_id``: that event, or else every event whose slot was written."""
        if self.page is None:
            return
        named = self._events.get(event_id) if event_id < SIGNAL_LIMIT else None
        if named is not None and self._slot(event_id) != UNSIGNALED:
            self._acknowledge(named)
            return
        for event in self._events.values():
            if event.event_id < SIGNAL_LIMIT and self._slot(event.event_id) != UNSIGNALED:
                self._acknowledge(event)

    def _acknowledge(self, event: Event) -> None:
        self._reset_slot(event.event_id)
        event.signal()

    def memory_exception(self, gpu_id: int, va: int, *, present: bool, access: str) -> None:
        """Signal every memory event: an access of ``gpu_id`` to ``va`` failed."""
        data = header().struct_kfd_hsa_memory_exception_data()
        data.failure.NotPresent = int(not present)
        data.failure.ReadOnly = int(present and access == "write")
        data.failure.NoExecute = int(present and access == "execute")
        data.va, data.gpu_id = va, gpu_id
        self._raise(MEMORY, gpu_id, bytes(data))

    def hw_exception(self, gpu_id: int) -> None:
        """Signal every hardware exception event: an engine of ``gpu_id`` hangs and was stopped."""
        kfd = header()
        data = kfd.struct_kfd_hsa_hw_exception_data()
        data.reset_type = kfd.KFD_HW_EXCEPTION_PER_ENGINE_RESET
        data.reset_cause = kfd.KFD_HW_EXCEPTION_GPU_HANG
        data.gpu_id = gpu_id
        self._raise(HW_EXCEPTION, gpu_id, bytes(data))

    def _raise(self, event_type: int, gpu_id: int, data: bytes) -> None:
        for event in self._events.values():
            if event.type == event_type:
                event.data, event.gpu_id = data, gpu_id
                event.signal()

    def clear_exceptions(self, gpu_id: int) -> None:
        """Forget the exceptions of a GPU that was reset."""
        for event in self._events.values():
            if event.type in (MEMORY, HW_EXCEPTION) and event.gpu_id == gpu_id:
                event.signaled, event.data, event.gpu_id = False, b"", 0

    # -- waiting ----------------------------------------------------------------------------------------------

    def waiters(self, address: int, count: int) -> list[Waiter]:
        """The entries of a host array of ``struct kfd_event_data``. Refuses with EINVAL or EFAULT."""
        try:
            array = hostmem.read(address, count * DATA_BYTES) if count else b""
        except OSError as error:
            raise Refused(errno.EFAULT, str(error)) from error
        found = []
        for at in range(0, len(array), DATA_BYTES):
            event = self.get(int.from_bytes(array[at + _ID_OFFSET : at + _ID_OFFSET + 4], "little"))
            known = int.from_bytes(array[at : at + 8], "little") if event.type == SIGNAL else 0
            found.append(Waiter(event, address + at, known))
        return found


def test(waiters: list[Waiter], every: bool) -> int:
    """COMPLETE when any event (or ``every`` one; also of none at all) is there, else TIMEOUT."""
    for waiter in waiters:
        waiter.test()
    ready = [waiter.activated for waiter in waiters]
    return COMPLETE if all(ready) or (any(ready) and not every) else TIMEOUT
