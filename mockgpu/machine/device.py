"""A device and the machine of all devices: who owns the queues, who runs them, and where faults go.

Everything runs synchronously: a doorbell runs every runnable queue of every device until none can go on. A queue that
waits for a signal stays blocked and is tried again by the next run.
"""

from __future__ import annotations

import bisect
import gc
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from mockgpu.isa.errors import MockGPUError
from mockgpu.machine.clock import DeviceClock
from mockgpu.machine.errors import Deadlock, EmulatorError, GuestFault
from mockgpu.machine.launch import Engine, Launch, LaunchStats
from mockgpu.machine.memory import Memory
from mockgpu.machine.pm4_dispatch import ScratchUnits
from mockgpu.machine.queue import Outcome, RingQueue, as_fault
from mockgpu.machine.registers import IpBlock, RegisterFile, model_hdp_flush, register_map

log = logging.getLogger("mockgpu.fault")


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """What the machine needs to know of a board. Clock in MHz; ``copy_bytes_per_ns`` is the speed of copy engines."""

    arch: str
    ip_blocks: tuple[IpBlock, ...]
    simds: int
    engine_clock_mhz: int
    scratch_units: ScratchUnits = field(default_factory=ScratchUnits)
    pm4_table: str = "pm4_nv"
    sdma_count_bits: int = 30
    copy_bytes_per_ns: float = 25.0
    launch_overhead_ns: float = 2000.0


@dataclass(slots=True)
class Statistics:
    """Counters over the life of the machine."""

    kernels: int = 0
    waves: int = 0
    instructions: int = 0
    faults: int = 0
    copied_bytes: int = 0
    by_class: dict[str, int] = field(default_factory=dict)

    def add(self, stats: LaunchStats) -> None:
        self.kernels += 1
        self.waves += stats.waves
        self.instructions += stats.instructions
        for name, count in stats.by_class.items():
            self.by_class[name] = self.by_class.get(name, 0) + count


class Driver(Protocol):
    """Who takes the interrupts and faults of the devices."""

    def interrupt(self, device: Device, context_id: int) -> None: ...

    def fault(self, device: Device, fault: GuestFault) -> None: ...

    def watch(self, addresses: frozenset[int]) -> None:
        """Queues are blocked on exactly these dwords of memory now: run the machine when the host writes one."""


class SymbolTable:
    """Which kernel's code lies where: ranges of byte addresses with names. A new range replaces what it overlaps."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ranges: list[tuple[int, int, str]] = []

    def add(self, va: int, size: int, name: str) -> None:
        kept = [r for r in self._ranges if r[1] <= va or r[0] >= va + size]
        self._ranges = sorted([*kept, (va, va + size, name)])
        self._starts = [r[0] for r in self._ranges]

    def name(self, va: int) -> str:
        """The name of the code that holds byte address ``va``, or ''."""
        i = bisect.bisect_right(self._starts, va) - 1
        return self._ranges[i][2] if i >= 0 and va < self._ranges[i][1] else ""


class Device:
    """One GPU: its address space, registers and queues. A fault stops all of its queues until :meth:`reset`.

    ``fault_report`` keeps the full text of every fault since the last reset.
    """

    def __init__(self, machine: Machine, index: int, config: DeviceConfig, make_engine: Callable[[], Engine]):
        self.machine, self.index, self.config = machine, index, config
        self.name = f"AMD:{index}"
        self.memory = Memory()
        self.registers = RegisterFile(register_map(config.ip_blocks))
        model_hdp_flush(self.registers)
        self.clock = machine.clock
        self.timeout = machine.timeout
        self.scratch_units = config.scratch_units
        self.queues: list[RingQueue] = []
        self.fault: GuestFault | None = None
        self.fault_report: list[str] = []
        self._symbols = SymbolTable()
        self._make_engine = make_engine
        self._engine: Engine | None = None

    # -- what queues need ---------------------------------------------------------------------------------------

    def interrupt(self, context_id: int) -> None:
        self.machine.driver.interrupt(self, context_id)

    def copied(self, nbytes: int) -> None:
        self.machine.statistics.copied_bytes += nbytes
        self.clock.advance(nbytes / self.config.copy_bytes_per_ns)

    def launch(self, launch: Launch) -> None:
        """Run a dispatch on the engine. Raises GuestFault."""
        if self._engine is None:
            self._engine = self._make_engine()
        named = _with_name(launch, self._symbols.name(launch.entry))
        stats = self._engine.run(named, self.memory, timeout=self.timeout)
        self.machine.statistics.add(stats)
        for context_id in stats.interrupts:
            self.interrupt(context_id)
        self.clock.advance(self._duration(stats))

    def _duration(self, stats: LaunchStats) -> float:
        """Nanoseconds of a dispatch: one wave-instruction per cycle and SIMD, plus the cost of starting."""
        busy = max(1, min(stats.waves, self.config.simds))
        return self.config.launch_overhead_ns + stats.instructions / busy * 1000 / self.config.engine_clock_mhz

    # -- what the driver needs ----------------------------------------------------------------------------------

    def register_code(self, va: int, size: int, name: str) -> None:
        """Name the code at ``[va, va + size)``, for launches and fault texts."""
        self._symbols.add(va, size, name)

    def kernel_name(self, va: int) -> str:
        return self._symbols.name(va)

    def doorbell(self, queue: RingQueue, value: int) -> None:
        """The host rang ``queue`` with a new write pointer; run the machine."""
        with self.machine.lock:
            try:
                queue.doorbell(value)
            except MockGPUError as error:
                queue.error = error
                self.fail(as_fault(error))
            self.machine.run(queue)

    def fail(self, fault: GuestFault) -> None:
        """Stop the queues of this device and tell the driver."""
        self.fault = fault
        self.fault_report.append(str(fault))
        self.machine.statistics.faults += 1
        log.error("%s on %s: %s", type(fault).__name__, self.name, fault)
        self.machine.driver.fault(self, fault)

    def reset(self) -> None:
        """Drop everything that is queued and clear the fault; memory, registers and queues stay."""
        with self.machine.lock:
            self.fault = None
            self.fault_report.clear()
            for queue in self.queues:
                queue.drop()
            self.machine.run()


class Machine:
    """All devices of a process, and the scheduler of their queues."""

    def __init__(self, driver: Driver, clock: DeviceClock, *, timeout: float):
        self.driver, self.clock, self.timeout = driver, clock, timeout
        self.devices: list[Device] = []
        self.statistics = Statistics()
        self.lock = threading.RLock()
        self._running = False
        self._watched: frozenset[int] = frozenset()

    def add_device(self, config: DeviceConfig, make_engine: Callable[[], Engine]) -> Device:
        device = Device(self, len(self.devices), config, make_engine)
        self.devices.append(device)
        return device

    def _runnable(self, first: RingQueue | None) -> Iterator[tuple[Device, RingQueue]]:
        queues = [(d, q) for d in self.devices if d.fault is None for q in d.queues if q.runnable]
        return iter(sorted(queues, key=lambda pair: pair[1] is not first))

    def run(self, first: RingQueue | None = None) -> bool:
        """Run queues, ``first`` before the others, until none makes progress. Returns whether any did."""
        with self.lock:
            if self._running:  # A doorbell rung by what a queue does: the outer run takes it up.
                return False
            self._running = True
            try:
                with _no_collection():
                    return self._run(first)
            finally:
                self._running = False
                self._tell_blocked()

    @property
    def running(self) -> bool:
        """Whether queues are being run; for the thread that holds the lock, that it is inside of that run."""
        return self._running

    def _run(self, first: RingQueue | None) -> bool:
        any_progress, progress = False, True
        while progress:
            progress = False
            for device, queue in self._runnable(first):
                if device.fault is None:
                    progress |= self._run_queue(device, queue)
            any_progress |= progress
        return any_progress

    def _run_queue(self, device: Device, queue: RingQueue) -> bool:
        progress = False
        try:
            progress = queue.run()
        except Exception as error:
            # A mistake of the emulator. It takes the way of every fault, so that the process can go on.
            log.exception("a mistake of mockgpu itself, please report it")
            queue.error = EmulatorError(f"{queue.name}: internal error of mockgpu, {type(error).__name__}: {error}")
        except BaseException:
            # Ctrl-C is no fault: leave no queue half way, and let it out.
            queue.drop()
            raise
        if queue.error is not None:
            device.fail(as_fault(queue.error))
        return progress

    def _blocked(self) -> list[tuple[RingQueue, Outcome]]:
        return [
            (queue, queue.blocked)
            for device in self.devices
            if device.fault is None
            for queue in device.queues
            if queue.runnable and queue.blocked is not None
        ]

    def _tell_blocked(self) -> None:
        addresses = frozenset(outcome.address for _, outcome in self._blocked() if outcome.address is not None)
        if addresses != self._watched:
            self._watched = addresses
            self.driver.watch(addresses)

    def blocked(self) -> list[str]:
        """What each blocked queue waits for, one line per queue."""
        with self.lock:
            return [f"{queue.name}: {outcome.waits_for}" for queue, outcome in self._blocked()]

    def break_deadlock(self) -> bool:
        """Fail every device whose queues are blocked, with a report of all of them. False if none is blocked."""
        with self.lock:
            lines = self.blocked()
            if not lines:
                return False
            text = "deadlock: no queue can go on and nothing is left to wake them:\n  " + "\n  ".join(lines)
            for device in self.devices:
                if device.fault is None and any(q.runnable and q.blocked for q in device.queues):
                    device.fail(Deadlock(text))
            return True


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from running finalizers of the host in the middle of a packet.

    They may free device memory, for which the host first waits until the GPU is done: it would wait for itself.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _with_name(launch: Launch, kernel: str) -> Launch:
    return replace(launch, kernel=kernel) if kernel else launch
