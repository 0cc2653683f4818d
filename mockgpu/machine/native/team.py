"""One launch on one or more threads: workers take workgroups off a shared counter until none is left.

A launch begins on the calling thread; others join when it turns out to be long. A fault in one worker stops all.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from mockgpu.machine.launch import Launch
from mockgpu.machine.memory import Memory
from mockgpu.machine.native.callout import Callouts
from mockgpu.machine.native.layout import Reason
from mockgpu.machine.native.space import Place, Space
from mockgpu.machine.native.worker import TURNS, Worker

#: Turns of the first worker before others join: about a millisecond or two.
_ALONE = 1


class Team:
    """Runs ``launch``. ``run`` is the native run loop, ``worker(n)`` gives the n-th worker, of at most ``size``.

    ``on_turns`` is called now and then while the first worker is at work.
    """

    def __init__(
        self, run: Callable[[int], int], worker: Callable[[int], Worker], size: int, pool: ThreadPoolExecutor | None,
        launch: Launch, space: Space, memory: Memory, timeout: float,
    ):  # fmt: skip
        self.run, self.worker, self.size, self.pool = run, worker, size, pool
        self.launch, self.space, self.memory, self.timeout = launch, space, memory, timeout
        self.groups = launch.grid[0] * launch.grid[1] * launch.grid[2]
        self.workers: list[Worker] = []
        self._next = ctypes.c_int64(0)
        self._callouts = threading.Lock()  # the oracle's steps and the translator are not made for several threads
        self._helpers: list[Future[None]] = []
        self.on_turns: Callable[[Worker], None] = lambda worker: None
        self._stopped = False
        self._deadline = time.monotonic() + timeout
        self._ended = 0

    def execute(self, entry: Place) -> None:
        """Run all workgroups. Raises GuestFault; KeyboardInterrupt and the like after all threads have stopped."""
        first = self._join(0, entry)
        if self.size > 1:
            first.context["turns"] = _ALONE
        try:
            self._work(first, entry)
        except BaseException:
            self._stop()
            self._wait()
            raise
        faults = [fault for fault in self._wait() if fault is not None]
        if faults:
            raise faults[0]

    def resume(self, worker: Worker) -> None:
        """Run waves that have been put into a worker, to their end."""
        self.workers.append(worker)
        self._work(worker, None)

    def _join(self, number: int, entry: Place) -> Worker:
        worker = self.worker(number)
        worker.start(self.launch, self.space, entry, ctypes.addressof(self._next), self.groups)
        self.workers.append(worker)
        return worker

    def _work(self, worker: Worker, entry: Place | None) -> None:
        context, run, address = worker.context, self.run, worker.address
        callouts = Callouts(worker, self.space, self.launch, self.memory)
        while not self._stopped and (reason := run(address)) != Reason.DONE:
            if reason == Reason.TURNS:
                context["turns"] = TURNS
                if worker.number == 0:
                    self.on_turns(worker)
                if entry is not None and worker.number == 0 and self.size > 1 and not self._helpers:
                    self._call_help(entry)
            else:
                with self._callouts:
                    self._serve(callouts, reason)
            if time.monotonic() > self._deadline:
                self._check_progress(callouts)

    @staticmethod
    def _serve(callouts: Callouts, reason: int) -> None:
        if reason == Reason.DEADLOCK:
            raise callouts.deadlock()
        if reason == Reason.END_RETURN:
            callouts.wave_ended()
        else:
            callouts.handle(reason)

    def _check_progress(self, callouts: Callouts) -> None:
        ended = sum(int(worker.context["ended"]) for worker in self.workers)
        if ended == self._ended:
            raise callouts.timeout(self.timeout)
        self._ended, self._deadline = ended, time.monotonic() + self.timeout

    # -- other threads ----------------------------------------------------------------------------------------

    def _call_help(self, entry: Place) -> None:
        """Let other threads take part, as many as there are workgroups for."""
        left = self.groups - self._next.value
        with self._callouts:
            for number in range(1, min(self.size, left + 1)):
                assert self.pool is not None
                worker = self._join(number, entry)
                self._helpers.append(self.pool.submit(self._help, worker, entry))

    def _help(self, worker: Worker, entry: Place) -> None:
        try:
            self._work(worker, entry)
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        """Make all workers return soon: none starts another workgroup, and no turn goes on."""
        self._stopped = True
        self._next.value = 1 << 62
        for worker in self.workers:
            worker.context["turns"] = 0
            worker.context["budget"] = -1

    def _wait(self) -> list[BaseException | None]:
        """Wait for the other threads; what each of them raised."""
        return [helper.exception() for helper in self._helpers]
