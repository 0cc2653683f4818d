"""Atomics on images: the pseudocode of the instruction at the address of a texel.

DMASK counts the dwords of data and so tells 32-bit from 64-bit atomics; the latter do what the global atomic of that
width does. A texel outside the image is left alone and returns 0, as does an image that is not bound.

Sources: "Data VGPRs" (atomics) of the RDNA3 and RDNA4 manuals.
"""

from __future__ import annotations

import numpy as np

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.image_context import ImageContext
from mockgpu.machine.memory_context import access_bytes, run_atomic
from mockgpu.machine.semantics import evaluator_of, named_program, opcode_program
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Group
from mockgpu.pcode.ir import Program

#: The global atomic that does on 64 bits what an image atomic does.
_WIDE = {
    "swap": "SWAP_B64", "cmpswap": "CMPSWAP_B64", "add": "ADD_U64", "sub": "SUB_U64", "smin": "MIN_I64",
    "umin": "MIN_U64", "smax": "MAX_I64", "umax": "MAX_U64", "and": "AND_B64", "or": "OR_B64", "xor": "XOR_B64",
    "inc": "INC_U64", "dec": "DEC_U64", "add_uint": "ADD_U64", "sub_uint": "SUB_U64", "min_int": "MIN_I64",
    "min_uint": "MIN_U64", "max_int": "MAX_I64", "max_uint": "MAX_U64", "inc_uint": "INC_U64", "dec_uint": "DEC_U64",
}  # fmt: skip
_GLOBAL_TABLES = {"rdna3": "GLOBALOp", "rdna4": "VGLOBALOp"}
_MASK_OF_DWORDS = {1: 0x1, 2: 0x3, 4: 0xF}


def build(instruction: Instruction, ctx: ImageContext) -> Step:
    """The step of an image atomic. Raises NoSemanticsError, and IllegalInstruction for a DMASK that has no meaning."""
    program = _program(instruction)
    size = access_bytes(program)
    data = instruction.operand("vdata")
    ctx.bind_data("DATA", data)
    ctx.bind_result(data)
    evaluator = evaluator_of(program)

    def atomic(g: Group) -> None:
        ctx.start(g)
        used = np.zeros((g.n, 1), np.bool_)
        for fmt, waves in ctx.formats(g):
            if fmt.nbytes != size:
                what = f"a {8 * size}-bit atomic on an image of format {fmt.name}"
                raise IllegalInstruction(f"{instruction.mnemonic}: {what}")
            used |= waves
        ctx.aim(size, used)
        run_atomic(ctx, evaluator, g, size, False)

    return Step(atomic, "vmem")


def _program(instruction: Instruction) -> Program:
    mask, operation = instruction.fields["dmask"], instruction.mnemonic.removeprefix("image_atomic_")
    dwords = 2 if operation == "cmpswap" else 1
    if mask == _MASK_OF_DWORDS[dwords]:
        return opcode_program(instruction.opcode)
    if mask == _MASK_OF_DWORDS[2 * dwords] and operation in _WIDE:
        family = instruction.arch.family
        return named_program(family, _GLOBAL_TABLES[family], f"GLOBAL_ATOMIC_{_WIDE[operation]}")
    raise IllegalInstruction(f"{instruction.mnemonic}: DMASK {mask:#x} names no amount of data that it can take")
