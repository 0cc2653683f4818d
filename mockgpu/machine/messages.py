"""Messages of waves: S_SENDMSG, S_SENDMSGHALT and S_SENDMSG_RTN.

Sources: "Send message types" tables of the RDNA3, RDNA4 and CDNA3 manuals, S_SENDMSG_RTN_B32 and S_SENDMSG_RTN_B64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.errors import IllegalInstruction, Trap
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Group

INTERRUPT, DEALLOC_VGPRS = 1, 3
#: Messages that a compute kernel cannot send, and what they are for.
_FOREIGN = {
    2: "is for hull shaders",
    4: "saves a wave's context and belongs to the trap handler",
    5: "stops the launch of waves and belongs to the trap handler",
    6: "halts waves and belongs to the trap handler",
    7: "is for pixel shaders",
    8: "is for primitive shaders",
    9: "is for primitive shaders",
    10: "asks for the doorbell and belongs to the trap handler",
}
#: Messages that return a value: what they return. No trap handler is installed, so its addresses are 0.
_ANSWERS: dict[int, Callable[[Group], int]] = {
    0x80: lambda g: 0,  # number of the doorbell
    0x81: lambda g: 0,  # number of the draw or dispatch
    0x82: lambda g: 0,  # trap memory address
    0x83: lambda g: int(g.batch.clock),  # real time
    0x85: lambda g: 0,  # trap base address
    0x87: lambda g: 0,  # shader engine and die
}


def _send(instruction: Instruction) -> Callable[[Group], None]:
    number = instruction.fields["simm16"] & 0xF
    if number == INTERRUPT:
        return _interrupt
    if number == DEALLOC_VGPRS and instruction.arch.wave32:
        return lambda g: None
    why = _FOREIGN.get(number, "does not exist")
    raise IllegalInstruction(f"{instruction.mnemonic}: message {number} {why}")


def _interrupt(g: Group) -> None:
    """Every wave interrupts the host once, with M0 as its data."""
    g.batch.interrupts += [int(word) for word in g.batch.sgpr[g.batch.arch.m0_register, g.index]]


def message(instruction: Instruction) -> Step:
    """S_SENDMSG. Raises IllegalInstruction for messages that a compute kernel cannot send."""
    return Step(_send(instruction), "control")


def message_and_halt(instruction: Instruction) -> Step:
    """S_SENDMSGHALT: the message, then S_SETHALT 1."""
    send = _send(instruction)

    def run(g: Group) -> None:
        send(g)
        raise Trap(f"{instruction.mnemonic}: the wave halts for a debugger that is not there")

    return Step(run, "control", ends=True)


def message_return(instruction: Instruction) -> Step:
    """S_SENDMSG_RTN: the answer, cut or zero-extended to the destination.

    Raises IllegalInstruction for messages that only a trap handler may send.
    """
    number, code = instruction.fields["ssrc0"], instruction.operand("sdst").code
    answer, dwords = _ANSWERS.get(number), 2 if instruction.mnemonic.endswith("b64") else 1
    if answer is None:
        raise IllegalInstruction(f"{instruction.mnemonic}: message {number:#x} is not one that a kernel may send")
    value_of, null = answer, instruction.arch.null_register

    def run(g: Group) -> None:
        if code == null:
            return
        value = value_of(g)
        for k in range(dwords):
            g.write_scalar(code + k, np.full((1, 1), value >> 32 * k & 0xFFFFFFFF, np.uint32))

    return Step(run, "salu")
