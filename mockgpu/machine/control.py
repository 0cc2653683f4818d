"""Program control: SOPP, and scalar instructions whose text is prose or concerns the wave as a whole.

Waits do nothing here, because every instruction completes before the next one starts; so do hints and cache
controls. Sources: "Program control" and the SOPP opcode chapters of the RDNA3, RDNA4 and CDNA3 manuals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.branch import branch
from mockgpu.machine.context import Context
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.semantics import evaluator_of, opcode_program
from mockgpu.machine.step import Step
from mockgpu.machine.waves import BARRIER, ENDED, Group

#: Instructions that wait, hint or tell the memory system something: nothing that a program can see here.
_WAITS = """
s_waitcnt s_waitcnt_depctr s_wait_idle s_wait_event s_waitcnt_vscnt s_waitcnt_vmcnt s_waitcnt_expcnt s_waitcnt_lgkmcnt
s_wait_loadcnt s_wait_storecnt s_wait_samplecnt s_wait_bvhcnt s_wait_expcnt s_wait_dscnt s_wait_kmcnt
s_wait_loadcnt_dscnt s_wait_storecnt_dscnt s_wait_alu s_delay_alu s_nop s_sleep s_sleep_var
"""
_HINTS = """
s_setprio s_clause s_icache_inv s_inst_prefetch s_set_inst_prefetch_distance s_ttracedata s_ttracedata_imm
s_incperflevel s_decperflevel s_wakeup s_code_end s_version s_singleuse_vdst
"""
NOTHING = frozenset(f"{_WAITS} {_HINTS}".split())

#: Messages of S_SENDMSG that a compute wave may send and that have no effect on it.
_HARMLESS_MESSAGES = {3: "dealloc_vgprs"}


def _end(instruction: Instruction) -> Step:
    def run(g: Group) -> None:
        g.batch.state[g.index] = ENDED
        g.batch.pc[g.index] = g.pc
        g.moved = g.changed = True

    return Step(run, "control", ends=True)


def _barrier(instruction: Instruction) -> Step:
    """Wait until all waves of the workgroup that have not ended are here. A lone wave goes on."""

    def run(g: Group) -> None:
        g.batch.pc[g.index] = g.pc + instruction.size
        g.batch.state[g.index] = BARRIER
        g.moved = g.changed = True

    return Step(run, "control", ends=True)


def _trap(instruction: Instruction) -> Step:
    number = instruction.fields["simm16"] & 0xFF

    def run(g: Group) -> None:
        raise IllegalInstruction(f"s_trap {number}: no trap handler is installed")

    return Step(run, "control", ends=True)


def _halt(instruction: Instruction) -> Step:
    def run(g: Group) -> None:
        raise IllegalInstruction("s_sethalt: the wave halts for a debugger that is not there")

    return Step(run, "control", ends=True)


def _message(instruction: Instruction) -> Step:
    number = instruction.fields["simm16"]
    if number & 0xF in _HARMLESS_MESSAGES:
        return Step(lambda g: None, "control")

    def run(g: Group) -> None:
        raise IllegalInstruction(f"s_sendmsg {number:#x}: a compute wave cannot send this message here")

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


def _message_return(instruction: Instruction) -> Step:
    """S_SENDMSG_RTN: the messages that return a constant or the clock."""
    number, code, wide = instruction.fields["ssrc0"], instruction.fields["sdst"], instruction.mnemonic.endswith("b64")

    def run(g: Group) -> None:
        if number not in (0x82, 0x83):
            raise IllegalInstruction(f"{instruction.mnemonic} {number:#x}: this message has no answer here")
        clock = g.batch.clock
        for k in range(1 + wide):
            g.write_scalar(code + k, np.full((1, 1), clock >> 32 * k & 0xFFFFFFFF, np.uint32))

    return Step(run, "salu")


_SPECIAL: dict[str, Callable[[Instruction], Step]] = {
    "s_endpgm": _end,
    "s_endpgm_saved": _end,
    "s_barrier": _barrier,
    "s_trap": _trap,
    "s_sethalt": _halt,
    "s_sendmsg": _message,
    "s_round_mode": _set_mode(0),
    "s_denorm_mode": _set_mode(4),
    "s_sendmsg_rtn_b32": _message_return,
    "s_sendmsg_rtn_b64": _message_return,
}


def special(instruction: Instruction) -> Step | None:
    """The step of an instruction that pseudocode does not describe, or None."""
    if instruction.mnemonic in NOTHING:
        return Step(lambda g: None, "control")
    make = _SPECIAL.get(instruction.mnemonic)
    return make(instruction) if make is not None else None


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a SOPP instruction: a branch by its pseudocode, or one of the above."""
    found = special(instruction)
    if found is not None:
        return found
    program = opcode_program(instruction.opcode)
    if "PC" not in program.writes:
        raise NoSemanticsError(instruction.mnemonic, "not a branch", instruction.arch.name)
    ctx = Context(instruction.arch, instruction, wave_size, vector=False)
    return branch(ctx, evaluator_of(program), instruction.size)
