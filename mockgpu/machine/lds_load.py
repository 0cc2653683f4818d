"""Loads that write their data to LDS instead of vector registers, and DS_DIRECT_LOAD, which reads LDS for the wave.

A load to LDS writes, for every active lane, at M0 + instruction offset + 4 times the lane number; loads of three or
four dwords step by 16 bytes from lane to lane, and three dwords leave the fourth alone. Small data is extended to a
dword, as in the load of the same name to registers (assumed). Lanes whose place lies outside the workgroup's LDS do not
load.

Sources: "Memory Buffer Load to LDS" and "Addressing" of flat instructions of the CDNA3 manual, "LDS Direct Load" of the
RDNA3 and RDNA4 manuals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mockgpu.isa.arch import Arch
from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.buffer_context import BufferContext
from mockgpu.machine.buffer_typed import TypedAccess
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.memory_context import MemoryContext
from mockgpu.machine.space import LDS
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group
from mockgpu.pcode.numeric_convert import extend

#: What each ending loads: bits, whether signed, dwords.
_DATA = {
    "u8": (8, False, 1), "i8": (8, True, 1), "u16": (16, False, 1), "i16": (16, True, 1), "b32": (32, False, 1),
    "ubyte": (8, False, 1), "sbyte": (8, True, 1), "ushort": (16, False, 1), "sshort": (16, True, 1),
    "dword": (32, False, 1), "dwordx3": (32, False, 3), "dwordx4": (32, False, 4),
}  # fmt: skip
#: Bits of M0 that count: a multiple of four.
_M0_BITS = {"rdna3": np.uint32(0xFFFC), "cdna": np.uint32(0x3FFFC)}

Fetch = Callable[[Group, "Array | None"], list[Array]]


def is_buffer_load_to_lds(instruction: Instruction) -> bool:
    """Whether a buffer instruction puts its data into LDS: by its name, or by the LDS bit of CDNA."""
    return bool(instruction.fields.get("lds")) or "_load_lds_" in instruction.mnemonic


def build_buffer(instruction: Instruction, wave_size: int) -> Step:
    """The step of a buffer load to LDS. Raises IllegalInstruction for data that cannot go there."""
    offset = instruction.fields["offset"]
    if instruction.mnemonic.endswith("_format_x"):
        access = TypedAccess(instruction, wave_size)
        return _step(instruction.arch, lambda g, lanes: access.components(g), 1, offset)
    ending = instruction.mnemonic.rsplit("_", 1)[-1]
    if "_load_" not in instruction.mnemonic or ending not in _DATA:
        raise IllegalInstruction(f"{instruction.mnemonic}: cannot put its data into LDS")
    ctx = BufferContext(instruction, wave_size)
    return _step(instruction.arch, _fetcher(ctx, ending), _DATA[ending][2], offset)


def build_flat(instruction: Instruction, ctx: MemoryContext, offset: int) -> Step:
    """The step of a global or scratch load to LDS; ``offset`` is the instruction's, in bytes."""
    ending = instruction.mnemonic.rsplit("_", 1)[-1]
    return _step(instruction.arch, _fetcher(ctx, ending), _DATA[ending][2], offset)


def _fetcher(ctx: MemoryContext, ending: str) -> Fetch:
    bits, signed, dwords = _DATA[ending]

    def fetch(g: Group, lanes: Array | None) -> list[Array]:
        ctx.begin(g)
        values = [ctx.load(ctx.addr + np.uint64(4 * k), bits, lanes).astype(np.uint32) for k in range(dwords)]
        return [extend(v, bits, 32).astype(np.uint32) if signed else v for v in values]

    return fetch


def _step(arch: Arch, fetch: Fetch, dwords: int, offset: int) -> Step:
    step = 16 if dwords > 1 else 4
    m0, counted = arch.m0_register, _M0_BITS[arch.family]

    def load_to_lds(g: Group) -> None:
        base = (g.scalar(m0) & counted).astype(np.int64) + offset
        place = base + np.arange(g.lanes) * step
        legal = (place >= 0) & (place + 4 * dwords <= g.batch.lds_bytes)
        lanes = g.lanes_of(legal)
        for k, value in enumerate(fetch(g, legal)):
            LDS.store(g, place + 4 * k, value, 4, lanes, g.lanes)

    return Step(load_to_lds, "vmem")


# -- LDS to all lanes -----------------------------------------------------------------------------------------

_TYPES = {0: (1, False), 1: (2, False), 2: (4, False), 4: (1, True), 5: (2, True)}  # bytes, signed
_QUAD = 4


def build_direct(instruction: Instruction, wave_size: int) -> Step:
    """DS_DIRECT_LOAD: the value at M0[15:0], of the type in M0[18:16], to all quads with an active lane.

    Raises NoSemanticsError for the load of pixel parameters, which compute kernels do not have.
    """
    if "param" in instruction.mnemonic:
        reason = "graphics only: loads parameters of a pixel shader"
        raise NoSemanticsError(instruction.mnemonic, reason, instruction.arch.name)
    m0, dst = instruction.arch.m0_register, instruction.operand("vdst").index

    def direct_load(g: Group) -> None:
        word = g.scalar(m0)
        quads = np.repeat(g.active.reshape(g.n, -1, _QUAD).any(axis=2), _QUAD, axis=1)
        kinds = word >> np.uint32(16) & np.uint32(7)
        for number in np.unique(kinds[g.active.any(axis=1)]):
            if number not in _TYPES:
                raise IllegalInstruction(f"{instruction.mnemonic}: data type {number} in M0 is reserved")
            nbytes, signed = _TYPES[int(number)]
            waves = kinds == number
            value = LDS.load(g, (word & np.uint32(0xFFFF)).astype(np.uint64), nbytes, waves, 1).astype(np.uint32)
            value = extend(value, 8 * nbytes, 32).astype(np.uint32) if signed else value
            g.write_vector(dst, np.broadcast_to(value, quads.shape), quads & waves)

    return Step(direct_load, "lds")


def is_flat_load_to_lds(mnemonic: str) -> bool:
    """Whether a flat, global or scratch instruction loads to LDS."""
    return "_load_lds_" in mnemonic
