"""The native engine: workgroups run by handlers, and by the oracle where an instruction has no handler."""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from mockgpu.isa.arch import Arch
from mockgpu.isa.errors import ConfigError
from mockgpu.machine.launch import Launch, LaunchStats
from mockgpu.machine.memory import Memory
from mockgpu.machine.native import host
from mockgpu.machine.native.handlers import Handlers
from mockgpu.machine.native.prepared import Prepared
from mockgpu.machine.native.space import Space
from mockgpu.machine.native.team import Team
from mockgpu.machine.native.tier import Tier, When
from mockgpu.machine.native.worker import RUN, Frame, Template, Worker
from mockgpu.machine.observer import Observer
from mockgpu.machine.waves import Batch

if TYPE_CHECKING:
    from mockgpu.machine.oracle_engine import OracleEngine

_FRAMES = 64  # kinds of launches whose memory is kept


class NativeEngine:
    """Runs launches by compiled handlers, bit for bit as the oracle does. ``observer`` makes it use the oracle.

    ``level`` is the level of the host that code is made for (host.LEVELS); ``threads`` the most that a launch uses,
    0 for one per CPU; ``when`` says when code is compiled together (:class:`~mockgpu.machine.native.tier.Tier`).
    """

    def __init__(self, arch: Arch, level: str = host.NATIVE, threads: int = 0, when: When = "hot"):
        self.arch = arch
        self.name = {"never": "threaded", "hot": "auto", "first": "jit"}[when]
        self.threads = threads or usable_cpus()
        self._threads: ThreadPoolExecutor | None = None
        self._process = 0
        self.observer: Observer | None = None
        self.handlers = Handlers(level)
        self._oracle: OracleEngine | None = None
        self.tier = Tier(self.handlers, when)
        self._run = RUN(self.handlers.run_loop())
        self._spaces: weakref.WeakKeyDictionary[Memory, Space] = weakref.WeakKeyDictionary()
        self._frames: dict[Frame, list[Worker]] = {}
        self._lock = threading.Lock()

    def run(self, launch: Launch, memory: Memory, *, timeout: float) -> LaunchStats:
        """Execute one dispatch to its end.

        Raises GuestFault (PageFault, IllegalInstruction, KernelTimeout, Deadlock, MemoryViolation) with ``where``.
        """
        if launch.wave_size not in self.arch.wave_sizes:
            raise ConfigError("wave size", launch.wave_size, self.arch.wave_sizes)
        if self.observer is not None:
            return self._observed(launch, memory, timeout)
        with self._lock:
            return self._launch(launch, memory, timeout)

    def _observed(self, launch: Launch, memory: Memory, timeout: float) -> LaunchStats:
        from mockgpu.machine.oracle_engine import OracleEngine

        if self._oracle is None:
            self._oracle = OracleEngine(self.arch)
        self._oracle.observer = self.observer
        return self._oracle.run(launch, memory, timeout=timeout)

    def _launch(self, launch: Launch, memory: Memory, timeout: float) -> LaunchStats:
        space = self._space(memory)
        space.check_again()
        frame = Frame.of(launch, self.arch)
        first = self._worker(frame, launch, 0)
        first.template.set_arguments(launch.user_data)
        entry = space.enter(first.template.kind, launch.entry)
        size = self._team_size(launch, first)
        team = Team(
            self._run, lambda n: self._worker(frame, launch, n), size, self._pool(size),
            launch, space, memory, timeout,
        )  # fmt: skip
        kind = first.template.kind
        team.on_turns = lambda worker: self.tier.running(entry.translation, kind, worker.counters)
        team.execute(entry)
        blocks = sum(int(worker.counters.sum()) for worker in team.workers)
        aborts = sum(int(worker.context["aborts"]) for worker in team.workers)
        statistics = _statistics(team)
        self.tier.executed(entry.translation, kind, blocks, aborts)
        return statistics

    def run_code(self, batch: Batch, memory: Memory, end: int, *, timeout: float = 60.0) -> Counter[str]:
        """Run the prepared waves of one workgroup on code without a terminator: a wave ends at byte address ``end``."""
        with self._lock:
            space = Space(self.arch, memory, self.handlers, stop=end)
            space.on_translation = self.tier.translated
            prepared = Prepared(self.arch, batch, space)
            team = Team(self._run, lambda n: prepared.worker, 1, None, prepared.launch, space, memory, timeout)
            try:
                team.resume(prepared.worker)
            finally:
                prepared.give_back()
            return _by_class(space, prepared.worker)

    def _space(self, memory: Memory) -> Space:
        space = self._spaces.get(memory)
        if space is None:
            held: Memory = weakref.proxy(memory)  # an address space must be able to die
            space = self._spaces[memory] = Space(self.arch, held, self.handlers)
            space.on_translation = self.tier.translated
        space.forget_unused()
        return space

    def _worker(self, frame: Frame, launch: Launch, number: int) -> Worker:
        """The worker of a kind of launches for the n-th thread."""
        workers = self._frames.get(frame)
        if workers is None:
            if len(self._frames) >= _FRAMES:
                self._frames.pop(next(iter(self._frames)))
            workers = self._frames[frame] = [Worker(self.arch, Template.of_launch(launch, self.arch), launch, 0)]
        while len(workers) <= number:
            workers.append(Worker(self.arch, workers[0].template, launch, len(workers)))
        workers[number].slot.batch.kernel = launch.kernel
        return workers[number]

    def _team_size(self, launch: Launch, first: Worker) -> int:
        """Threads that a launch may use: waves that run at once need scratch of their own."""
        if launch.scratch_wave_bytes and launch.scratch_waves:
            return max(1, min(self.threads, launch.scratch_waves // first.template.waves))
        return self.threads

    def _pool(self, size: int) -> ThreadPoolExecutor | None:
        if size > 1 and (self._threads is None or self._process != os.getpid()):
            self._process = os.getpid()  # a forked process has no threads
            self._threads = ThreadPoolExecutor(self.threads - 1, "mockgpu")
        return self._threads


def _statistics(team: Team) -> LaunchStats:
    first = team.workers[0]
    stats = LaunchStats(waves=team.groups * first.template.waves)
    total: Counter[str] = Counter()
    for worker in team.workers:
        stats.interrupts += worker.slot.batch.interrupts
        worker.slot.batch.interrupts = []
        total += _by_class(team.space, worker)
    stats.by_class, stats.instructions = dict(total), total.total()
    return stats


def usable_cpus() -> int:
    """CPUs that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def _by_class(space: Space, worker: Worker) -> Counter[str]:
    """Executed wave-instructions by class, from the counters of blocks, which start again from zero."""
    total: Counter[str] = Counter()
    for block in np.flatnonzero(worker.counters[1 : space.counters]):
        number = int(block) + 1
        times = int(worker.counters[number])
        translation, index = space.block(number)
        translation.executed[index] += times * translation.lengths[index]
        for kind, count in translation.counts[index].items():
            total[kind] += count * times
    worker.counters[:] = 0
    return total
