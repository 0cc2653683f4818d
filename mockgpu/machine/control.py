"""Program control: SOPP, and scalar instructions whose text is prose or concerns the wave as a whole.

Waits do nothing here, because every instruction completes before the next one starts; so do hints and cache
controls. What ends or stops a wave is in :mod:`mockgpu.machine.wave_control`, messages and split barriers have files of
their own.

Sources: "Program control" and the SOPP opcode chapters of the RDNA3, RDNA4 and CDNA3 manuals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.barrier import BARRIER_STEPS
from mockgpu.machine.branch import branch, changing, evaluate
from mockgpu.machine.context import Context
from mockgpu.machine.control_names import NOTHING
from mockgpu.machine.messages import message, message_and_halt, message_return
from mockgpu.machine.semantics import evaluator_of, opcode_program, writes_mode
from mockgpu.machine.step import Step
from mockgpu.machine.wave_control import WAVE_STEPS
from mockgpu.machine.waves import BARRIER, Group


def _barrier(instruction: Instruction) -> Step:
    """Wait until all waves of the workgroup that have not ended are here. A lone wave goes on."""

    def run(g: Group) -> None:
        g.batch.pc[g.index] = g.pc + instruction.size
        g.batch.state[g.index] = BARRIER
        g.moved = g.changed = True

    return Step(run, "control", ends=True)


def _set_mode(shift: int) -> Callable[[Instruction], Step]:
    """S_ROUND_MODE and S_DENORM_MODE write four bits of MODE."""

    def make(instruction: Instruction) -> Step:
        value = np.uint32((instruction.fields["simm16"] & 0xF) << shift)
        kept = np.uint32(0xFFFFFFFF ^ 0xF << shift)

        def run(g: Group) -> None:
            g.batch.mode[g.index] = g.batch.mode[g.index] & kept | value
            g.changed = True

        return Step(run, "control", ends=True)

    return make


#: The builders by mnemonic.
SPECIAL: dict[str, Callable[[Instruction], Step]] = {
    **WAVE_STEPS,
    **BARRIER_STEPS,
    "s_barrier": _barrier,
    "s_sendmsg": message,
    "s_sendmsghalt": message_and_halt,
    "s_sendmsg_rtn_b32": message_return,
    "s_sendmsg_rtn_b64": message_return,
    "s_round_mode": _set_mode(0),
    "s_denorm_mode": _set_mode(4),
}


def special(instruction: Instruction) -> Step | None:
    """The step of an instruction that pseudocode does not describe, or None."""
    if instruction.mnemonic in NOTHING:
        return Step(lambda g: None, "control")
    make = SPECIAL.get(instruction.mnemonic)
    return make(instruction) if make is not None else None


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a SOPP instruction: a branch by its pseudocode, or one of the above."""
    found = special(instruction)
    if found is not None:
        return found
    program = opcode_program(instruction.opcode)
    ctx, evaluator = Context(instruction.arch, instruction, wave_size, vector=False), evaluator_of(program)
    if "PC" in program.writes:
        return branch(ctx, evaluator, instruction.size)
    if not program.writes:
        raise NoSemanticsError(instruction.mnemonic, "its text has no effect", instruction.arch.name)
    if writes_mode(program):
        return Step(changing(ctx, evaluator), "control", ends=True)
    return Step(lambda g: evaluate(ctx, evaluator, g), "control")
