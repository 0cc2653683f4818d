"""The device clock: the 100 MHz reference counter that timestamps packets and answers clock queries.

By default it is deterministic: it stands still until the machine works, so that traces and profiles repeat.
"""

from __future__ import annotations

import time
from typing import Protocol

#: Frequency of the reference counter (``gpu_counter_freq`` of the DRM device info is this in kHz).
TICKS_PER_SECOND = 100_000_000
_PS_PER_TICK = 1_000_000_000_000 // TICKS_PER_SECOND


class DeviceClock(Protocol):
    """Something that counts 100 MHz ticks. ``advance`` tells it that work of that many nanoseconds was done."""

    @property
    def ticks(self) -> int: ...

    def advance(self, nanoseconds: float) -> None: ...


class WorkClock:
    """Advances with work only. Starts at one tick, so that a timestamp is never mistaken for unwritten memory."""

    def __init__(self) -> None:
        self._ps = _PS_PER_TICK

    @property
    def ticks(self) -> int:
        return self._ps // _PS_PER_TICK

    def advance(self, nanoseconds: float) -> None:
        self._ps += max(1, int(nanoseconds * 1000))


class WallClock:
    """Follows the host's monotonic clock; work adds nothing."""

    @property
    def ticks(self) -> int:
        return time.monotonic_ns() * TICKS_PER_SECOND // 1_000_000_000

    def advance(self, nanoseconds: float) -> None:
        del nanoseconds


#: Names of the clocks that a setting can choose.
CLOCKS: dict[str, type[WorkClock] | type[WallClock]] = {"work": WorkClock, "wall": WallClock}
