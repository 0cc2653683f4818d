"""What native code leaves to Python: instructions without a handler, jumps through registers, faults.

The oracle's step executes the instruction on the wave's own memory. A handler that meets a fault changes nothing before
it returns, so that the same step then raises the fault, with the same words as in the oracle's engine.
"""

from __future__ import annotations

import numpy as np

from mockgpu.isa.decode import decode
from mockgpu.isa.disasm import disassemble
from mockgpu.isa.errors import DecodeError, MockGPUError
from mockgpu.machine.errors import Deadlock, GuestFault, IllegalInstruction, KernelTimeout, PageFault, Where
from mockgpu.machine.launch import Launch
from mockgpu.machine.memory import Memory
from mockgpu.machine.native.flow import REFETCHES
from mockgpu.machine.native.layout import RECORD_BYTES, Reason
from mockgpu.machine.native.program import Item, Translation
from mockgpu.machine.native.space import Kind, Space
from mockgpu.machine.native.worker import SLICE, Worker
from mockgpu.machine.step import Step
from mockgpu.machine.waves import BARRIER, ENDED, WAITING, Group
from mockgpu.pcode.numeric_host import quiet_ieee

#: Native instructions that take as long as one that Python executes.
_COST = 1 << 14


class Callouts:
    """Executes what native code could not, for the waves of one worker during one launch."""

    def __init__(self, worker: Worker, space: Space, launch: Launch, memory: Memory):
        self.worker, self.space, self.launch, self.memory = worker, space, launch, memory
        self.batch = worker.slot.batch
        self.context = worker.context

    def handle(self, reason: int) -> None:
        """Do what the run loop returned for; the wave can go on afterwards. Raises GuestFault."""
        wave = int(self.context["current"])
        if reason == Reason.JUMP:
            self._enter(wave, int(self.batch.pc[wave]))
        else:
            record = int(self.context["exit_record"])
            translation = self.space.find(record)
            self._execute(wave, translation, translation.index(record), record)
        self._charge()

    def _charge(self) -> None:
        """Python's work counts against the wave's turn: it may be all that the wave does in a loop."""
        self.context["budget"] -= _COST
        if self.context["budget"] < 0:
            self.context["budget"] = SLICE
            self.context["current"] += 1

    def _execute(self, wave: int, translation: Translation, index: int, record: int) -> None:
        item = translation.items[index]
        batch, worker = self.batch, self.worker
        batch.pc[wave] = item.pc
        mode = int(batch.mode[wave])
        batch.clock = worker.executed()
        worker.callouts += 1
        step = translation.steps.get(index)
        if step is None:
            step = translation.steps[index] = self._step(item)
        group = Group(batch, slice(wave, wave + 1), 1, self.memory, item.pc, mode)
        self._run(step, group, wave)
        if index in translation.ends:
            worker.counters[translation.first_counter + translation.ends[index]] += 1
        self._go_on(wave, group, item, record, mode)

    def _go_on(self, wave: int, group: Group, item: Item, record: int, mode: int) -> None:
        """Say where the wave goes on after an instruction that Python has executed."""
        batch = self.batch
        if batch.barriers is not None:
            self.context["returns_at_end"] = 1
            batch.barriers.settle()
        if batch.state[wave] == ENDED:
            self.context["live"] -= 1
            self.context["ended"] += 1
            self.wave_ended()
            return
        refetch = item.instruction is not None and item.instruction.mnemonic in REFETCHES
        if refetch:
            self.space.check_again()
        if not group.moved:
            batch.pc[wave] = item.after
        if group.moved or refetch or int(batch.mode[wave]) != mode:
            self._enter(wave, int(batch.pc[wave]))
        else:
            self.worker.slot.headers["record"][wave] = record + RECORD_BYTES

    def _enter(self, wave: int, pc: int) -> None:
        """Let the wave go on at a byte address."""
        kind = self.worker.template.kind
        here = Kind(kind.lanes, kind.vgprs, kind.accs, int(self.batch.mode[wave]))
        place = self.space.enter(here, pc)
        self.worker.grow_counters(self.space)
        self.worker.slot.headers["record"][wave] = place.record

    def wave_ended(self) -> None:
        """A wave of a workgroup about which Python keeps something has ended."""
        if self.context["live"] == 0:
            self.worker.fresh_group()
        elif self.batch.barriers is not None:
            self.batch.barriers.settle()

    # -- the oracle's step ------------------------------------------------------------------------------------

    def _step(self, item: Item) -> Step:
        from mockgpu.machine.execute import build_step  # with all of the oracle: few kernels need it

        if item.instruction is None:
            return _raising(self._undecodable(item.pc))
        try:
            step = build_step(item.instruction, self.batch.lanes)
            step.instruction = item.instruction
            return step
        except (MockGPUError, LookupError) as e:
            reason = e.message if isinstance(e, IllegalInstruction) else str(e)
            return _raising(IllegalInstruction(f"illegal instruction: {reason}"))

    def _undecodable(self, pc: int) -> GuestFault:
        """The fault of fetching or decoding at ``pc``."""
        try:
            self.memory.check(pc, 4, "execute")
            decode(self.space.arch, self._fetch(pc))
        except PageFault as fault:
            return fault
        except DecodeError as e:
            return IllegalInstruction(f"illegal instruction: {e.reason}, first dword {e.word or 0:#010x}")
        return IllegalInstruction(f"the instruction stream ends at {pc:#x}")

    def _fetch(self, pc: int) -> bytes:
        mapping = self.memory.find(pc)
        size = 16 if mapping is None else min(16, mapping.end - pc)
        return self.memory.read(pc, size, "execute")

    def _run(self, step: Step, group: Group, wave: int) -> None:
        try:
            self._check_registers(step)
            with quiet_ieee():
                step.run(group)
        except GuestFault as fault:
            raise self.locate(fault, wave) from fault.__cause__
        except MockGPUError as e:
            raise self.locate(IllegalInstruction(f"illegal instruction: {e}"), wave) from e
        except IndexError as e:
            have = f"the kernel declares {self.batch.vgprs} vector registers"
            message = f"illegal instruction: a register outside the register file: {have} ({e})"
            raise self.locate(IllegalInstruction(message), wave) from e

    def _check_registers(self, step: Step) -> None:
        from mockgpu.machine.code import registers_needed

        vectors, accs = registers_needed(step, self.batch.lanes)
        if vectors > self.batch.vgprs or accs > self.batch.accs:
            have = f"the kernel declares {self.batch.vgprs} vector and {self.batch.accs} accumulation registers"
            raise IllegalInstruction(f"a register outside the register file: {have}")

    # -- faults -----------------------------------------------------------------------------------------------

    def locate(self, fault: GuestFault, wave: int) -> GuestFault:
        """Fill in the place of a fault of a wave."""
        pc = int(self.batch.pc[wave])
        fault.where = Where(
            kernel=self.launch.kernel,
            pc=pc,
            workgroup=self.worker.workgroup(self.launch),
            wave=wave,
            lane=fault.where.lane,
            instruction=self._text(pc),
        )
        return fault

    def timeout(self, seconds: float) -> GuestFault:
        """No wave has ended for too long: name the one that ran last."""
        message = f"no wave has ended for {seconds:g} s; raise MOCKGPU_TIMEOUT if the kernel is only slow"
        wave = (int(self.context["current"]) - 1) % self.worker.template.waves
        record = int(self.worker.slot.headers["record"][wave])
        translation = self.space.find(record)
        self.batch.pc[wave] = translation.items[translation.index(record)].pc
        return self.locate(KernelTimeout(message), wave)

    def _text(self, pc: int) -> str:
        try:
            return disassemble(decode(self.space.arch, self._fetch(pc)), pc)
        except (MockGPUError, PageFault):
            return ""

    def deadlock(self) -> GuestFault:
        """Waves wait at a barrier that cannot complete."""
        state = self.batch.state
        waiting = np.flatnonzero((state == BARRIER) | (state == WAITING))
        fault = Deadlock(f"{len(waiting)} waves wait at a barrier that cannot complete")
        return self.locate(fault, int(waiting[0]))


def _raising(fault: GuestFault) -> Step:
    def run(g: Group) -> None:
        raise fault

    return Step(run, "other", ends=True)
