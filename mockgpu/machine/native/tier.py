"""Which code is compiled together, and when: blocks that have executed often, on a thread of their own.

No launch waits for it. When the functions of segments are ready they are put in the place of handlers, one store each.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import numpy.typing as npt

from mockgpu.machine.native import host
from mockgpu.machine.native.cache import Batch
from mockgpu.machine.native.handlers import Handlers
from mockgpu.machine.native.program import Translation
from mockgpu.machine.native.space import Kind

log = logging.getLogger("mockgpu.native")

#: Executed instructions of a translation after which its hot blocks are compiled, and what makes a block hot.
THRESHOLD, HOT_SHARE = 1 << 22, 64
#: Regions that a launch may give up, and the share of its blocks (one in so many) from which on it costs too much.
_MOST_ABORTS, _ABORT_SHARE = 1000, 8
When = Literal["never", "hot", "first"]


class Tier:
    """The second tier of an engine. ``when``: never, in the background once code is hot, or before it first runs."""

    def __init__(self, handlers: Handlers, when: When):
        self.handlers, self.when = handlers, when
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def translated(self, translation: Translation, kind: Kind) -> None:
        """New code: compile all of it at once where that is wanted."""
        if self.when == "first":
            translation.tiered = True
            self._compile(translation, list(range(len(translation.runs))), kind)

    def executed(self, translation: Translation, kind: Kind, blocks: int, aborts: int) -> None:
        """A launch has executed ``blocks`` blocks, and given up ``aborts`` regions of compiled segments."""
        if aborts > _MOST_ABORTS and aborts * _ABORT_SHARE > blocks:
            self._take_back(translation)
        self._look_at(translation, kind, translation.executed)

    def running(self, translation: Translation, kind: Kind, counters: npt.NDArray[np.int64]) -> None:
        """A launch has been at work for a while: ``counters`` say how often each block has executed in it."""
        if self.when != "hot" or translation.tiered:
            return
        first = translation.first_counter
        times = counters[first : first + len(translation.lengths)]
        now = {n: int(t) * translation.lengths[n] for n, t in enumerate(times) if t}
        self._look_at(translation, kind, translation.executed + Counter(now))

    def _look_at(self, translation: Translation, kind: Kind, executed: Counter[int]) -> None:
        total = executed.total()
        if self.when != "hot" or translation.tiered or total < THRESHOLD:
            return
        translation.tiered = True
        blocks = [block for block, count in executed.items() if count * HOT_SHARE >= total]
        if self._pool is None or self._process != os.getpid():  # a forked process has no threads
            self._pool, self._process = ThreadPoolExecutor(1, "mockgpu-jit"), os.getpid()
        self._pool.submit(self._in_background, translation, blocks, kind)

    @staticmethod
    def _take_back(translation: Translation) -> None:
        """Let the handlers serve again: the data has NaN, or addresses in many mappings, nearly everywhere."""
        count = translation.count
        translation.records["handler"][:count] = translation.records["handler"][count:]

    def _in_background(self, translation: Translation, blocks: list[int], kind: Kind) -> None:
        try:
            self._compile(translation, blocks, kind)
        except Exception:  # the handlers go on serving; the mistake must not get lost
            log.exception("hot code cannot be compiled; it goes on in the threaded tier")

    def wait(self) -> None:
        """Until nothing is being compiled any more."""
        if self._pool is not None and self._process == os.getpid():
            self._pool.submit(int).result()

    def _compile(self, translation: Translation, blocks: list[int], kind: Kind) -> None:
        from mockgpu.machine.native import jit

        found = {s.key: s for s in jit.segments(translation, sorted(blocks), kind)}

        def make(keys: list[str]) -> Batch:
            return self._make(translation, [found[key] for key in keys], kind)

        for key, address in self.handlers.cache.get(found, make).addresses.items():
            place = translation.record(found[key].first)
            ctypes.c_uint64.from_address(place).value = address

    def _make(self, translation: Translation, wanted: list[object], kind: Kind) -> Batch:
        from llvmlite import ir

        from mockgpu.machine.native import jit
        from mockgpu.machine.native.compile import compile_ir
        from mockgpu.pcode.llvm.values import NotNative

        target = host.host_target(self.handlers.level)
        module, symbols, refused = ir.Module("segments"), {}, {}
        for segment in wanted:
            assert isinstance(segment, jit.Segment)
            try:
                jit.emit_segment(module, translation, segment, kind, target.features)
                symbols[segment.key] = segment.symbol
            except NotNative as e:
                refused[segment.key] = e.reason
        return Batch(compile_ir(str(module), target) if symbols else b"", symbols, refused)
