"""Instructions that end, halt or trap a wave, and the one that changes how many vector registers it has.

Sources: "Program control" and the SOPP chapters of the RDNA3, RDNA4 and CDNA3 manuals; S_ALLOC_VGPR of the RDNA4
manual.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.errors import IllegalInstruction, Trap
from mockgpu.machine.operands import as_bits, reader
from mockgpu.machine.step import Step
from mockgpu.machine.waves import ENDED, Group

_HALT, _FATAL_HALT = 1, 4  # bits of the immediate of S_SETHALT
#: Registers that S_ALLOC_VGPR gives or takes at once, and the most that a wave can have.
ALLOCATION_BLOCK, MOST_REGISTERS = 16, 256


def end(instruction: Instruction) -> Step:
    """The wave ends."""

    def run(g: Group) -> None:
        g.batch.state[g.index] = ENDED
        g.batch.pc[g.index] = g.pc
        g.moved = g.changed = True

    return Step(run, "control", ends=True)


def kill(instruction: Instruction) -> Step:
    """S_SETKILL 1 ends the wave; 0 does nothing."""
    return end(instruction) if instruction.fields["simm16"] & 1 else Step(lambda g: None, "control")


def halt(instruction: Instruction) -> Step:
    """S_SETHALT: 0 does nothing to a wave that runs. A halted wave would wait for a debugger for ever."""
    if not instruction.fields["simm16"] & (_HALT | _FATAL_HALT):
        return Step(lambda g: None, "control")
    return _raising(f"{instruction.mnemonic}: the wave halts for a debugger that is not there")


def trap(instruction: Instruction) -> Step:
    """S_TRAP: without a trap handler the host gets an exception."""
    return _raising(f"s_trap {instruction.fields['simm16'] & 0xFF}: the kernel stops itself")


def code_end(instruction: Instruction) -> Step:
    """S_CODE_END stands behind the last instruction: whoever executes it has run past the end."""
    return _raising(f"{instruction.mnemonic}: execution ran past the end of the kernel")


def privileged(instruction: Instruction) -> Step:
    """Instructions that only a trap handler may execute fault in a kernel."""
    return _raising(f"{instruction.mnemonic}: a privileged instruction outside of a trap handler")


def _raising(message: str) -> Step:
    def run(g: Group) -> None:
        raise Trap(message)

    return Step(run, "control", ends=True)


def allocate(instruction: Instruction) -> Step:
    """S_ALLOC_VGPR: ask for a number of vector registers; SCC says whether the wave got them.

    The number is rounded up to whole blocks of 16. Here a wave gets up to 256 at once, so that only more is refused.
    Raises IllegalInstruction in a wave64 and in a kernel without dynamic vector registers.
    """
    wanted = reader(instruction.arch, instruction.operand("ssrc0"))

    def run(g: Group) -> None:
        batch = g.batch
        if batch.lanes != 32 or batch.dynamic_vgprs is None:
            raise IllegalInstruction(f"{instruction.mnemonic}: the kernel has no dynamic vector registers")
        numbers = np.broadcast_to(as_bits(wanted(g), 32), (g.n, 1))[:, 0].astype(np.int64) & 0x1FF
        rounded = -(-numbers // ALLOCATION_BLOCK) * ALLOCATION_BLOCK
        granted = rounded <= MOST_REGISTERS
        batch.dynamic_vgprs[g.index] = np.where(granted, rounded, batch.dynamic_vgprs[g.index])
        batch.scc[g.index] = granted

    return Step(run, "salu")


#: The builders by mnemonic.
WAVE_STEPS: dict[str, Callable[[Instruction], Step]] = {
    "s_endpgm": end,
    "s_endpgm_saved": end,
    "s_endpgm_ordered_ps_done": end,
    "s_setkill": kill,
    "s_sethalt": halt,
    "s_trap": trap,
    "s_code_end": code_end,
    "s_rfe_b64": privileged,
    "s_rfe_restore_b64": privileged,
    "s_alloc_vgpr": allocate,
}
