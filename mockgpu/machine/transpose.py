"""Loads that transpose a block of a matrix among lanes: DS_READ_B*_TR_B* of CDNA4, GLOBAL_LOAD_TR_B* of RDNA4.

The data of a group of G lanes is one run of elements, lane after lane; element n of the group's lane l is then element
G n + l of the run. G is 16 for LDS and 8 for global memory. The 16-bit forms were seen on silicon (gfx950 and
gfx1201); that the 8-, 6- and 4-bit forms follow the same rule is assumed, in line with the K values that the manuals
give for each register.

In wave64 the global form takes the addresses of lanes 0-31; lanes 32-63 get the second half of their registers. All
lanes have to be active, else the result is undefined: here lanes that are off count as zeros and are not written.

Sources: "MFMA Transpose Load from LDS" of the CDNA4 manual, "WMMA Load-Transpose Instructions" of the RDNA4 manual.
"""

from __future__ import annotations

import re

import numpy as np

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.memory_context import MemoryContext
from mockgpu.machine.operands import register_row
from mockgpu.machine.space import LDS
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group

_LDS_GROUP, _GLOBAL_GROUP = 16, 8
_LDS_FORM = re.compile(r"ds_read_b(\d+)_tr_b(\d+)")
_GLOBAL_FORM = re.compile(r"global_load_tr_b(\d+)")
_GLOBAL_ELEMENTS = 8  # of a lane
_ADDRESSES = 32  # lanes whose addresses a global load takes


def transposed(dwords: list[Array], bits: int, group: int) -> list[Array]:
    """The dwords of all lanes, (n, L) each, with their elements of ``bits`` bits transposed in groups of lanes."""
    stacked = np.stack(dwords, axis=-1)  # (n, L, dwords)
    n, lanes, count = stacked.shape
    elements = 32 * count // bits
    flat = np.unpackbits(stacked.view(np.uint8), axis=-1, bitorder="little")
    runs = flat.reshape(n, lanes // group, elements, group, bits)
    moved = np.ascontiguousarray(runs.transpose(0, 1, 3, 2, 4)).reshape(n, lanes, 32 * count)
    packed = np.packbits(moved, axis=-1, bitorder="little").view(np.uint32)
    return [packed[:, :, k] for k in range(count)]


def build_lds(instruction: Instruction, wave_size: int) -> Step | None:
    """The step of a transposing load from LDS, or None for another instruction."""
    form = _LDS_FORM.fullmatch(instruction.mnemonic)
    if form is None:
        return None
    count, bits = int(form[1]) // 32, int(form[2])
    reg, dst = instruction.operand("addr").index, register_row(instruction.operand("vdst"))
    offset = np.uint64(instruction.fields["offset1"] << 8 | instruction.fields["offset0"])

    def load_transposed(g: Group) -> None:
        dwords = LDS.load_dwords(g, g.vector(reg).astype(np.uint64) + offset, count, g.exec, g.lanes)
        for k, value in enumerate(transposed(dwords, bits, _LDS_GROUP)):
            g.write_vector(dst + k, value, g.exec)

    return Step(load_transposed, "lds")


def is_global(mnemonic: str) -> bool:
    """Whether an instruction is a transposing load from global memory."""
    return _GLOBAL_FORM.fullmatch(mnemonic) is not None


def build_global(instruction: Instruction, ctx: MemoryContext) -> Step:
    """The step of a transposing load from global memory, whose addresses ``ctx`` gives."""
    form = _GLOBAL_FORM.fullmatch(instruction.mnemonic)
    assert form is not None
    count = int(form[1]) // 32
    dst = register_row(instruction.operand("vdst"))

    def load_transposed(g: Group) -> None:
        ctx.begin(g)
        first = np.arange(g.lanes)[None, :] < _ADDRESSES
        dwords = [ctx.load(ctx.addr + np.uint64(4 * k), 32, first)[:, :_ADDRESSES] for k in range(count)]
        values = transposed(dwords, 32 * count // _GLOBAL_ELEMENTS, _GLOBAL_GROUP)
        if g.lanes > _ADDRESSES:
            half = count // 2
            values = [np.concatenate((values[k], values[k + half]), axis=1) for k in range(half)]
        for k, value in enumerate(values):
            g.write_vector(dst + k, value, g.exec)

    return Step(load_transposed, "vmem")
