"""Decoded code: instructions as executable steps, joined to straight-line blocks, cached across launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mockgpu.isa.arch import Arch
from mockgpu.isa.decode import decode
from mockgpu.isa.errors import DecodeError, MockGPUError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.errors import GuestFault, IllegalInstruction, PageFault
from mockgpu.machine.execute import build_step
from mockgpu.machine.memory import Memory
from mockgpu.machine.step import Step
from mockgpu.machine.waves import ENDED, Group

_MAX_STEPS = 128  # instructions of a block; short enough that a time-out is noticed soon
_FETCH = 1024  # bytes read at once while decoding
_LONGEST = 16  # bytes of the longest instruction


@dataclass(slots=True)
class Block:
    """Steps from ``pcs[0]`` up to a branch, or to ``end``. ``raw`` are the bytes that were decoded.

    ``needs`` are the numbers of vector and of accumulation registers that the steps need, see :func:`registers_needed`.
    """

    steps: list[Step]
    pcs: list[int]
    end: int
    raw: bytes
    counts: dict[str, int] = field(default_factory=dict)
    epoch: int = 0
    needs: tuple[int, int] = (0, 0)


def registers_needed(step: Step, wave_size: int) -> tuple[int, int]:
    """How many vector and accumulation registers a wave must have for a step, where both lie in one register file.

    Elsewhere (0, 0): a register that a wave lacks is no row of its array, so that using it is noticed anyhow.
    """
    instruction = step.instruction
    if instruction is None or not instruction.arch.acc_vgprs:
        return 0, 0
    touched = instruction.reads_in(wave_size) | instruction.writes_in(wave_size)
    vectors = max((r.number + 1 for r in touched if r.file == "v"), default=0)
    return vectors, max((r.number + 1 for r in touched if r.file == "a"), default=0)


def _raising(fault: Callable[[], GuestFault]) -> Step:
    def run(g: Group) -> None:
        raise fault()

    return Step(run, "other", ends=True)


def _end_waves(g: Group) -> None:
    g.batch.state[g.index] = ENDED
    g.batch.pc[g.index] = g.pc
    g.moved = g.changed = True


class Code:
    """The blocks of one address space. ``stop`` is an address at which waves end without an instruction."""

    def __init__(self, arch: Arch, wave_size: int, memory: Memory, steps: dict[Instruction, Step]):
        self.arch, self.wave_size, self.memory = arch, wave_size, memory
        self.stop: int | None = None
        self._steps = steps
        self._blocks: dict[int, Block] = {}
        self._epoch = 0

    def new_launch(self) -> None:
        """The bytes in memory may have changed since the last launch: compare before blocks are used again."""
        self._epoch += 1

    def block(self, pc: int) -> Block:
        """The block that starts at byte address ``pc``."""
        found = self._blocks.get(pc)
        if found is not None and (found.epoch == self._epoch or self._unchanged(found)):
            found.epoch = self._epoch
            return found
        found = self._build(pc)
        found.epoch = self._epoch
        self._blocks[pc] = found
        return found

    def _unchanged(self, block: Block) -> bool:
        if not block.raw or self.stop is not None:
            return False
        try:
            return self.memory.read(block.pcs[0], len(block.raw), "execute") == block.raw
        except PageFault:
            return False

    def _build(self, pc: int) -> Block:
        start, raw, base = pc, b"", pc
        steps: list[Step] = []
        pcs: list[int] = []
        while len(steps) < _MAX_STEPS:
            if pc == self.stop:
                steps.append(Step(_end_waves, "", ends=True))
                pcs.append(pc)
                break
            if len(raw) - (pc - base) < _LONGEST:
                raw, base = self._fetch(pc), pc
            step, size = self._step(raw, pc - base, pc)
            steps.append(step)
            pcs.append(pc)
            pc += size
            if step.ends:
                break
        block = Block(steps, pcs, pc, self.memory.read(start, pc - start, "execute") if pc > start else b"")
        for step in steps:
            if step.kind:
                block.counts[step.kind] = block.counts.get(step.kind, 0) + 1
        needed = [registers_needed(step, self.wave_size) for step in steps]
        block.needs = max(v for v, _ in needed), max(a for _, a in needed)
        return block

    def _fetch(self, pc: int) -> bytes:
        """Up to ``_FETCH`` executable bytes from ``pc``, fewer where the mappings end."""
        size = 0
        while size < _FETCH:
            mapping = self.memory.find(pc + size)
            if mapping is None or not mapping.execute:
                break
            size = mapping.end - pc
        size = min(size, _FETCH)
        return self.memory.read(pc, size, "execute") if size else b""

    def _step(self, raw: bytes, offset: int, pc: int) -> tuple[Step, int]:
        """The step of the instruction at ``pc`` and its size; what cannot execute becomes a step that raises."""
        if offset >= len(raw):
            return _raising(lambda: self._fetch_fault(pc)), 0
        try:
            instruction = decode(self.arch, raw, offset)
        except DecodeError as e:
            reason = f"illegal instruction: {e.reason}, first dword {e.word or 0:#010x}"
            return _raising(lambda: IllegalInstruction(reason)), 0
        step = self._steps.get(instruction)
        if step is None:
            try:
                step = build_step(instruction, self.wave_size)
            except (MockGPUError, LookupError) as e:
                reason = e.message if isinstance(e, IllegalInstruction) else str(e)
                step = _raising(lambda: IllegalInstruction(f"illegal instruction: {reason}"))
            step.instruction = instruction
            self._steps[instruction] = step
        return step, instruction.size

    def _fetch_fault(self, pc: int) -> GuestFault:
        try:
            self.memory.check(pc, 4, "execute")
        except PageFault as e:
            return e
        return IllegalInstruction(f"the instruction stream ends at {pc:#x}")
