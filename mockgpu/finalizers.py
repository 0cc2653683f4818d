"""Frees that would have to wait for the device are put off until it is idle.

tinygrad frees a program's memory in a finalizer, and waits for the device before. Garbage collection runs finalizers at
any moment: between the reservation of a timeline value and the doorbell that submits it, or while the doorbell executes
kernels. A wait at that moment is for something that only the interrupted code can do; and an error that it finds would
be lost, because nobody sees what a finalizer raises.
"""

from __future__ import annotations

from functools import wraps
from typing import Any


def is_idle(buffer: Any) -> bool:
    """Whether every device that maps ``buffer`` (an ``HCQBuffer``) has done all that was asked of it."""
    devices = [d for d in buffer.mapped_devs if hasattr(d, "timeline_signal")]
    return all(d.error_state is None and d.timeline_signal.value >= d.timeline_value - 1 for d in devices)


def put_off_frees(allocator: Any) -> None:
    """Make ``allocator`` (the class ``AMDAllocator``) free idle buffers only, the others with a later call."""
    free_now, alloc_now = allocator._free, allocator._alloc
    waiting: list[tuple[Any, Any, Any]] = []

    def free_waiting() -> None:
        for _ in range(len(waiting)):
            owner, buffer, options = waiting.pop(0)
            free(owner, buffer, options)

    @wraps(free_now)
    def free(self: Any, buffer: Any, options: Any = None) -> None:
        if is_idle(buffer):
            free_now(self, buffer, options)
        else:
            waiting.append((self, buffer, options))

    @wraps(alloc_now)
    def alloc(self: Any, size: int, options: Any) -> Any:
        free_waiting()
        try:
            return alloc_now(self, size, options)
        except MemoryError:
            if not waiting:
                raise
            self.dev.synchronize()
            free_waiting()
            return alloc_now(self, size, options)

    allocator._free, allocator._alloc = free, alloc
