"""The native engine: workgroups run by handlers, and by the oracle where an instruction has no handler."""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections import Counter

import numpy as np

from mockgpu.isa.arch import Arch
from mockgpu.isa.errors import ConfigError
from mockgpu.machine.engine import OracleEngine
from mockgpu.machine.launch import Launch, LaunchStats
from mockgpu.machine.memory import Memory
from mockgpu.machine.native import host
from mockgpu.machine.native.callout import Callouts
from mockgpu.machine.native.handlers import Handlers
from mockgpu.machine.native.layout import Reason
from mockgpu.machine.native.prepared import Prepared
from mockgpu.machine.native.space import Space
from mockgpu.machine.native.worker import RUN, TURNS, Frame, Template, Worker
from mockgpu.machine.observer import Observer
from mockgpu.machine.waves import Batch

_FRAMES = 64  # kinds of launches whose memory is kept


class NativeEngine:
    """Runs launches by compiled handlers, bit for bit as the oracle does. ``observer`` makes it use the oracle.

    ``level`` is the level of the host that code is made for (host.LEVELS).
    """

    name = "threaded"

    def __init__(self, arch: Arch, level: str = host.NATIVE):
        self.arch = arch
        self.observer: Observer | None = None
        self.handlers = Handlers(level)
        self.oracle = OracleEngine(arch)
        self._run = RUN(self.handlers.run_loop())
        self._spaces: weakref.WeakKeyDictionary[Memory, Space] = weakref.WeakKeyDictionary()
        self._frames: dict[Frame, Worker] = {}
        self._lock = threading.Lock()

    def run(self, launch: Launch, memory: Memory, *, timeout: float) -> LaunchStats:
        """Execute one dispatch to its end.

        Raises GuestFault (PageFault, IllegalInstruction, KernelTimeout, Deadlock, MemoryViolation) with ``where``.
        """
        if launch.wave_size not in self.arch.wave_sizes:
            raise ConfigError("wave size", launch.wave_size, self.arch.wave_sizes)
        if self.observer is not None:
            self.oracle.observer = self.observer
            return self.oracle.run(launch, memory, timeout=timeout)
        with self._lock:
            return self._launch(launch, memory, timeout)

    def _launch(self, launch: Launch, memory: Memory, timeout: float) -> LaunchStats:
        space = self._space(memory)
        space.check_again()
        worker = self._worker(launch)
        template = worker.template
        template.set_arguments(launch.user_data)
        entry = space.enter(template.kind, launch.entry)
        groups = launch.grid[0] * launch.grid[1] * launch.grid[2]
        shared = ctypes.c_int64(0)
        worker.start(launch, space, entry, ctypes.addressof(shared), groups)
        callouts = Callouts(worker, space, launch, memory)
        self._until_done(worker, callouts, timeout)
        stats = LaunchStats(waves=groups * template.waves, interrupts=worker.slot.batch.interrupts)
        worker.slot.batch.interrupts = []
        total = _by_class(space, worker)
        stats.by_class, stats.instructions = dict(total), total.total()
        return stats

    def run_code(self, batch: Batch, memory: Memory, end: int, *, timeout: float = 60.0) -> Counter[str]:
        """Run the prepared waves of one workgroup on code without a terminator: a wave ends at byte address ``end``."""
        with self._lock:
            space = Space(self.arch, memory, self.handlers, stop=end)
            prepared = Prepared(self.arch, batch, space)
            callouts = Callouts(prepared.worker, space, prepared.launch, memory)
            try:
                self._until_done(prepared.worker, callouts, timeout)
            finally:
                prepared.give_back()
            return _by_class(space, prepared.worker)

    def _until_done(self, worker: Worker, callouts: Callouts, timeout: float) -> None:
        context, run, address = worker.context, self._run, worker.address
        deadline, ended = time.monotonic() + timeout, 0
        while (reason := run(address)) != Reason.DONE:
            if reason == Reason.TURNS:
                context["turns"] = TURNS
            elif reason == Reason.DEADLOCK:
                raise callouts.deadlock()
            elif reason == Reason.END_RETURN:
                callouts.wave_ended()
            else:
                callouts.handle(reason)
            if (now := time.monotonic()) > deadline:
                if int(context["ended"]) == ended:
                    raise callouts.timeout(timeout)
                deadline, ended = now + timeout, int(context["ended"])

    def _space(self, memory: Memory) -> Space:
        space = self._spaces.get(memory)
        if space is None:
            held: Memory = weakref.proxy(memory)  # an address space must be able to die
            space = self._spaces[memory] = Space(self.arch, held, self.handlers)
        space.forget_unused()
        return space

    def _worker(self, launch: Launch) -> Worker:
        frame = Frame.of(launch, self.arch)
        worker = self._frames.get(frame)
        if worker is None:
            if len(self._frames) >= _FRAMES:
                self._frames.pop(next(iter(self._frames)))
            worker = self._frames[frame] = Worker(self.arch, Template.of_launch(launch, self.arch), launch, 0)
        worker.slot.batch.kernel = launch.kernel
        return worker


def _by_class(space: Space, worker: Worker) -> Counter[str]:
    """Executed wave-instructions by class, from the counters of blocks, which start again from zero."""
    total: Counter[str] = Counter()
    for block in np.flatnonzero(worker.counters[1 : space.counters]):
        number = int(block) + 1
        times = int(worker.counters[number])
        for kind, count in space.counts(number).items():
            total[kind] += count * times
    worker.counters[:] = 0
    return total
