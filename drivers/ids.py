"""Small numbers that name things, as the kernel hands them out: the lowest that is free."""

from __future__ import annotations

import heapq


class IdPool:
    """Numbers from ``first`` on, ``count`` of them."""

    def __init__(self, count: int, first: int = 0):
        self.first, self.end = first, first + count
        self._next = first
        self._returned: list[int] = []

    def take(self) -> int | None:
        """The lowest free number, or None when all are taken."""
        if self._returned:
            return heapq.heappop(self._returned)
        if self._next == self.end:
            return None
        self._next += 1
        return self._next - 1

    def give(self, number: int) -> None:
        heapq.heappush(self._returned, number)
