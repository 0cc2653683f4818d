"""The registry of engines, and the oracle: the engine that evaluates the pseudocode on numpy arrays."""

from __future__ import annotations

import logging
import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from mockgpu.isa.arch import Arch
from mockgpu.isa.errors import ConfigError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.code import Code
from mockgpu.machine.dispatch import batches
from mockgpu.machine.launch import Engine, Launch, LaunchStats
from mockgpu.machine.memory import Memory
from mockgpu.machine.observer import Observer
from mockgpu.machine.scheduler import Scheduler
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Batch

if TYPE_CHECKING:
    from mockgpu.machine.native.tier import When

log = logging.getLogger("mockgpu.machine")


class OracleEngine:
    """Runs every wave by evaluating the lowered pseudocode: slow, readable, and right to the bit.

    Decoded instructions are kept for the engine's life, blocks of code as long as their bytes stay the same.
    ``observer`` may be set at any time between launches.
    """

    name = "oracle"

    def __init__(self, arch: Arch):
        self.arch = arch
        self.observer: Observer | None = None
        self._steps: dict[int, dict[Instruction, Step]] = {}
        self._code: weakref.WeakKeyDictionary[Memory, dict[int, Code]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()  # contexts of decoded instructions are shared between launches

    def run(self, launch: Launch, memory: Memory, *, timeout: float) -> LaunchStats:
        """Execute one dispatch to its end.

        Raises GuestFault (PageFault, IllegalInstruction, KernelTimeout, Deadlock, MemoryViolation) with ``where``.
        """
        if launch.wave_size not in self.arch.wave_sizes:
            raise ConfigError("wave size", launch.wave_size, self.arch.wave_sizes)
        stats = LaunchStats()
        total: Counter[str] = Counter()
        with self._lock:
            code = self.code(memory, launch.wave_size)
            code.new_launch()
            for batch in batches(launch, self.arch):
                total += self.run_batch(batch, memory, code, timeout)
                stats.waves += batch.waves
                stats.interrupts += batch.interrupts
        stats.by_class = dict(total)
        stats.instructions = sum(total.values())
        return stats

    def run_batch(self, batch: Batch, memory: Memory, code: Code, timeout: float) -> Counter[str]:
        """Run the waves of a batch to their end; returns the executed wave-instructions by class."""
        scheduler = Scheduler(batch, memory, code, timeout, self.observer)
        scheduler.run()
        return scheduler.totals()

    def run_code(self, batch: Batch, memory: Memory, end: int, *, timeout: float = 60.0) -> Counter[str]:
        """Run prepared waves on code without a terminator: a wave ends when its PC reaches ``end``."""
        with self._lock:
            code = Code(self.arch, batch.lanes, memory, self._steps.setdefault(batch.lanes, {}))
            code.stop = end
            return self.run_batch(batch, memory, code, timeout)

    def code(self, memory: Memory, wave_size: int) -> Code:
        """The cached code of an address space."""
        by_size = self._code.setdefault(memory, {})
        if wave_size not in by_size:
            # The address space must be able to die: its code holds no reference to it.
            held: Memory = weakref.proxy(memory)
            by_size[wave_size] = Code(self.arch, wave_size, held, self._steps.setdefault(wave_size, {}))
        return by_size[wave_size]


def _oracle(arch: Arch, host_level: str = "native") -> Engine:
    return OracleEngine(arch)


def _native(when: When) -> _Maker:
    def make(arch: Arch, host_level: str = "native") -> Engine:
        from mockgpu.machine.native.engine import NativeEngine  # only for those who ask: it maps code

        return NativeEngine(arch, host_level, when=when)

    return make


def _auto(arch: Arch, host_level: str = "native") -> Engine:
    """The native engine, or the oracle on a host for which no native code can be made; then the log says so."""
    from mockgpu.machine.native.host import HostError

    try:
        return _native("hot")(arch, host_level)
    except HostError as error:
        log.warning("%s; the kernels run on the oracle engine, which is slow", error)
        return OracleEngine(arch)


class _Maker(Protocol):
    def __call__(self, arch: Arch, host_level: str = "native") -> Engine: ...


ENGINES: dict[str, _Maker] = {
    "auto": _auto,
    "oracle": _oracle,
    "threaded": _native("never"),
    "jit": _native("first"),
}


def make_engine(arch: Arch, name: str = "oracle", host_level: str = "native") -> Engine:
    """A new engine for a target; ``host_level`` as in mockgpu.machine.native.host, for engines that make host code.

    Raises ConfigError, which lists the names, for an unknown engine or level.
    """
    if name not in ENGINES:
        raise ConfigError("engine", name, ENGINES)
    return ENGINES[name](arch, host_level)
