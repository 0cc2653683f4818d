"""Runs a batch of waves to its end: which waves execute next, barriers, faults and the time limit.

All waves at the same PC (and MODE) execute together. When they diverge, those with the lowest PC go first, so that
the others are waiting where the paths join again; now and then the wave that waited longest goes instead, so that
a wave that spins on another one's store cannot stop it for ever.
"""

from __future__ import annotations

import bisect
import time
from collections import Counter

import numpy as np

from mockgpu.isa.errors import MockGPUError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.code import Block, Code, registers_needed
from mockgpu.machine.errors import Deadlock, GuestFault, IllegalInstruction, KernelTimeout, Where
from mockgpu.machine.memory import Memory
from mockgpu.machine.observer import Observer
from mockgpu.machine.step import Step
from mockgpu.machine.waves import BARRIER, ENDED, RUNNING, WAITING, Array, Batch, Group, Index
from mockgpu.pcode.numeric import quiet_ieee

_FAIR = 4096  # blocks after which the longest waiting wave goes first


class Scheduler:
    """Executes one batch. ``timeout`` bounds the wall-clock seconds between two waves ending."""

    def __init__(self, batch: Batch, memory: Memory, code: Code, timeout: float, observer: Observer | None = None):
        self.batch, self.memory, self.code, self.observer = batch, memory, code, observer
        self.timeout = timeout
        batch.observer = observer
        self.executed: Counter[int] = Counter()  # waves that executed a block, by id of its counts
        self.counts: dict[int, tuple[dict[str, int], int]] = {}
        self.by_class: Counter[str] = Counter()
        self._ran = np.zeros(batch.waves, np.int64)
        self._tick = self._blocks = 0
        self._alone = True
        self._limit: int | None = None

    def run(self) -> None:
        """Run until every wave has ended. Raises GuestFault with ``where`` filled in."""
        with quiet_ieee():
            self._run()

    def _run(self) -> None:
        if self.observer is not None:
            self.observer.waves_start(self.batch)
        deadline = time.monotonic() + self.timeout
        live = self.batch.waves
        group = self._choose()
        while group is not None:
            self._execute(group, self.code.block(group.pc))
            now = time.monotonic()
            if now > deadline:
                self._check_progress(group, live)
                live, deadline = self._live(), now + self.timeout
            if not self._goes_on(group):
                group = self._choose()

    def _live(self) -> int:
        return int((self.batch.state != ENDED).sum())

    def _check_progress(self, group: Group, live: int) -> None:
        if self._live() < live:
            return
        fault = KernelTimeout(
            f"no wave has ended for {self.timeout:g} s; raise MOCKGPU_TIMEOUT if the kernel is only slow"
        )
        pc = int(self.batch.pc[group.index].min()) if group.moved else group.pc
        self._locate(fault, group, pc)
        self._report(fault)
        raise fault

    # -- choosing ---------------------------------------------------------------------------------------------

    def _choose(self) -> Group | None:
        """The waves to run next. Sets the lowest PC at which other waves wait in front of them."""
        batch = self.batch
        runnable = batch.state == RUNNING
        running = int(runnable.sum())
        if not running:
            if (batch.state == ENDED).all():
                return None
            raise self._deadlock()
        pc = self._next_pc(runnable)
        chosen = runnable & (batch.pc == pc)
        mode = int(batch.mode[np.argmax(chosen)])
        chosen &= batch.mode == mode
        index = _index(chosen)
        self._ran[index] = self._tick
        n = int(chosen.sum())
        self._alone = n == running
        self._limit = None
        if not self._alone:
            ahead = batch.pc[runnable & (batch.pc > pc)]
            self._limit = int(ahead.min()) if len(ahead) else None
        return Group(batch, index, n, self.memory, pc, mode)

    def _next_pc(self, runnable: Array) -> int:
        batch, fair = self.batch, self._blocks >= _FAIR
        self._tick += 1
        self._blocks = 0
        if fair:
            return int(batch.pc[np.argmin(np.where(runnable, self._ran, self._tick))])
        return int(batch.pc[runnable].min())

    def _goes_on(self, group: Group) -> bool:
        """Whether the same waves simply go on together, so that no new choice is needed."""
        self._blocks += 1
        if group.changed or (not self._alone and self._blocks >= _FAIR):
            return False
        pcs = self.batch.pc[group.index]
        pc = int(pcs[0])
        if group.moved:
            group.moved = False
            if group.n > 1 and not (pcs == pc).all():
                return False
        group.pc = pc
        return self._limit is None or pc < self._limit

    def _deadlock(self) -> Deadlock:
        waiting = np.flatnonzero((self.batch.state == BARRIER) | (self.batch.state == WAITING))
        fault = Deadlock(f"{len(waiting)} waves wait at a barrier that cannot complete")
        one = int(waiting[0])
        index = slice(one, one + 1)
        self._locate(
            fault, Group(self.batch, index, 1, self.memory, int(self.batch.pc[one]), 0), int(self.batch.pc[one])
        )
        self._report(fault)
        return fault

    # -- executing --------------------------------------------------------------------------------------------

    def _execute(self, group: Group, block: Block) -> None:
        """Run the steps of a block, as far as the PC at which other waves wait."""
        steps, pcs, end = block.steps, block.pcs, block.end
        if self._limit is not None and self._limit < end:
            count = bisect.bisect_left(pcs, self._limit)
            if count < len(steps):
                steps, end = steps[:count], pcs[count]
        if block.needs[0] > self.batch.vgprs or block.needs[1] > self.batch.accs:
            steps = [self._checked(step) for step in steps]
        try:
            if self.observer is None:
                for step, pc in zip(steps, pcs, strict=False):
                    group.pc = pc
                    step.run(group)
            else:
                self._execute_observed(group, steps, pcs)
        except GuestFault as fault:
            self._locate(fault, group, group.pc)
            self._report(fault)
            raise
        except MockGPUError as e:  # semantics that cannot be evaluated
            raise self._illegal(f"illegal instruction: {e}", group) from e
        except IndexError as e:
            have = f"the kernel declares {self.batch.vgprs} vector registers"
            raise self._illegal(f"a register outside the register file: {have} ({e})", group) from e
        self._count(block, len(steps), group.n)
        if not group.moved:
            self.batch.pc[group.index] = end
        elif steps[-1].ends:
            self._after_move()

    def _illegal(self, message: str, group: Group) -> IllegalInstruction:
        fault = IllegalInstruction(message)
        self._locate(fault, group, group.pc)
        self._report(fault)
        return fault

    def _checked(self, step: Step) -> Step:
        """The step, or one that raises because it needs registers that the waves do not have."""
        vectors, accs = registers_needed(step, self.batch.lanes)
        if vectors <= self.batch.vgprs and accs <= self.batch.accs:
            return step

        def run(g: Group) -> None:
            have = f"the kernel declares {self.batch.vgprs} vector and {self.batch.accs} accumulation registers"
            raise IllegalInstruction(f"a register outside the register file: {have}")

        return Step(run, step.kind, step.ends, step.instruction)

    def _execute_observed(self, group: Group, steps: list[Step], pcs: list[int]) -> None:
        assert self.observer is not None
        waves = np.arange(self.batch.waves)[group.index]
        for step, pc in zip(steps, pcs, strict=False):
            group.pc = pc
            step.run(group)
            if step.instruction is not None:
                self.observer.instruction(self.batch, waves, pc, step.instruction)
        ended = waves[self.batch.state[group.index] == ENDED]
        if len(ended):
            self.observer.wave_end(self.batch, ended)

    def _count(self, block: Block, steps: int, waves: int) -> None:
        self.batch.clock += steps
        if steps == len(block.steps):
            key = id(block.counts)
            self.executed[key] += waves
            self.counts[key] = (block.counts, steps)
            return
        for step in block.steps[:steps]:
            if step.kind:
                self.by_class[step.kind] += waves

    def totals(self) -> Counter[str]:
        """Executed wave-instructions by class."""
        total = Counter(self.by_class)
        for key, waves in self.executed.items():
            for kind, count in self.counts[key][0].items():
                total[kind] += count * waves
        return total

    def _after_move(self) -> None:
        """Release barriers that are complete. Waves that have ended count as arrived."""
        batch = self.batch
        if batch.barriers is not None:
            batch.barriers.settle()
        waiting = batch.state == BARRIER
        if not waiting.any():
            return
        groups = len(batch.workgroups)
        missing = np.bincount(batch.group[batch.state == RUNNING], minlength=groups)
        free = waiting & (missing[batch.group] == 0)
        if not free.any():
            return
        batch.state[free] = RUNNING
        if self.observer is not None:
            for group in np.unique(batch.group[free]):
                self.observer.barrier(batch, int(group))

    # -- faults -----------------------------------------------------------------------------------------------

    def _locate(self, fault: GuestFault, group: Group, pc: int) -> None:
        """Fill in the place of a fault: ``where.wave`` counts inside the group until here, inside the batch after."""
        batch = self.batch
        members = np.arange(batch.waves)[group.index]
        one = int(members[fault.where.wave or 0])
        fault.where = Where(
            kernel=batch.kernel,
            pc=pc,
            workgroup=batch.workgroups[int(batch.group[one])] if batch.workgroups else None,
            wave=int(batch.ordinal[one]),
            lane=fault.where.lane,
            instruction=self._text(pc),
        )

    def _text(self, pc: int) -> str:
        instruction = self.code.block(pc).steps[0].instruction
        return disassembly(instruction, pc) if instruction is not None else ""

    def _report(self, fault: GuestFault) -> None:
        if self.observer is not None:
            self.observer.fault(self.batch, fault)


def disassembly(instruction: Instruction, pc: int) -> str:
    """The instruction in assembly syntax."""
    from mockgpu.isa.disasm import disassemble

    return disassemble(instruction, pc)


def _index(chosen: Array) -> Index:
    """Booleans over all waves as a slice where they are neighbours, else as numbers."""
    numbers = np.flatnonzero(chosen)
    first, last = int(numbers[0]), int(numbers[-1])
    if last - first + 1 == len(numbers):
        return slice(first, last + 1)
    return numbers
