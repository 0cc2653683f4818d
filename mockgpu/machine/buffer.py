"""MUBUF instructions (VBUFFER on RDNA4) that do not convert: memory through a buffer resource descriptor.

Dwords of a wide access are checked one by one. On CDNA the two low address bits of an access of a dword or more are
ignored; the RDNA parts run as the kernel driver sets them up, with unaligned accesses allowed.

Sources: "Vector Memory Buffer Instructions" of the RDNA3, RDNA4 and CDNA3 manuals.
"""

from __future__ import annotations

from mockgpu.isa.instruction import Instruction
from mockgpu.machine import buffer_typed, lds_load
from mockgpu.machine.buffer_context import BufferContext
from mockgpu.machine.memory_context import is_atomic, memory_step
from mockgpu.machine.semantics import opcode_program
from mockgpu.machine.step import Step

_CACHE_CONTROL = ("_inv", "_wb", "_wbl2", "_wbinvl1", "_wbinvl1_vol", "_gl0_inv", "_gl1_inv")


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a buffer instruction. Raises NoSemanticsError or IllegalInstruction."""
    mnemonic = instruction.mnemonic
    if mnemonic.endswith(_CACHE_CONTROL):
        return Step(_nothing, "vmem")
    if lds_load.is_buffer_load_to_lds(instruction):
        return lds_load.build_buffer(instruction, wave_size)
    if "_format_" in mnemonic:
        return buffer_typed.build(instruction, wave_size)
    program = opcode_program(instruction.opcode)
    ctx = BufferContext(instruction, wave_size, whole=is_atomic(program))
    data = instruction.operand("vdata")
    ctx.bind_data("DATA", data)
    ctx.bind_result(data)
    return memory_step(ctx, program, "vmem")


def _nothing(g: object) -> None:
    """Every access is coherent here, so that writing back and invalidating caches changes nothing."""
