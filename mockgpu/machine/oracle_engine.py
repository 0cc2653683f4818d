"""The oracle: the engine that evaluates the pseudocode on numpy arrays."""

from __future__ import annotations

import threading
import weakref
from collections import Counter

from mockgpu.isa.arch import Arch
from mockgpu.isa.errors import ConfigError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.code import Code
from mockgpu.machine.dispatch import batches
from mockgpu.machine.launch import Launch, LaunchStats
from mockgpu.machine.memory import Memory
from mockgpu.machine.observer import Observer
from mockgpu.machine.scheduler import Scheduler
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Batch


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
