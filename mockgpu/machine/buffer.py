"""MUBUF (VBUFFER on RDNA4) instructions: memory through a buffer resource descriptor.

Sources: "Memory buffer instructions" (addressing, range checking) and "Buffer resource descriptor" of the RDNA3 and
RDNA4 manuals. Typed formats are not modelled.
"""

from __future__ import annotations

import numpy as np

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.memory_context import MemoryContext, access_bytes, memory_step
from mockgpu.machine.operands import constant, reader
from mockgpu.machine.semantics import opcode_program
from mockgpu.machine.space import GLOBAL
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group

_STRUCTURED, _RAW_CHECK, _NO_CHECK, _RAW_BYTES = range(4)
_ELEMENT_BYTES = (2, 4, 8, 16)
_INDEX_STRIDES = (8, 16, 32, 64)


class BufferContext(MemoryContext):
    """Loads out of the buffer's range give 0, stores there are dropped."""

    allows_bursts = False

    def __init__(self, instruction: Instruction, wave_size: int, size: int):
        super().__init__(instruction, wave_size, GLOBAL, self._compute)
        self.size = size
        fields = instruction.fields
        resource = "srsrc" if "srsrc" in fields else "rsrc"
        self.resource = instruction.operand(resource).code
        self.offen, self.idxen = bool(fields["offen"]), bool(fields["idxen"])
        name = "ioffset" if "ioffset" in fields else "offset"
        self.immediate = np.uint64(fields[name])
        vaddr = next((o for o in instruction.operands if o.field == "vaddr"), None)
        self.vaddr = vaddr.index if vaddr is not None else 0
        soffset = next((o for o in instruction.operands if o.field == "soffset"), None)
        zero = constant(0, 32)
        self.soffset = (lambda g: zero) if soffset is None else reader(self.arch, soffset, bits=32)
        self.inside: Array

    def _compute(self, g: Group) -> Array:
        """Byte address of every lane; sets which lanes are in range."""
        word1, records, word3 = (g.scalar(self.resource + k) for k in (1, 2, 3))
        base = g.scalar64(self.resource) & np.uint64(0xFFFF_FFFF_FFFF)
        stride = (word1 >> np.uint32(16) & np.uint32(0x3FFF)).astype(np.uint64)
        swizzled = word1 >> np.uint32(30) & np.uint32(3)
        tid = word3 >> np.uint32(23) & np.uint32(1)
        zero = np.zeros((1, 1), np.uint64)
        index = g.vector(self.vaddr).astype(np.uint64) if self.idxen else zero
        offset = g.vector(self.vaddr + self.idxen).astype(np.uint64) if self.offen else zero
        offset = offset + self.immediate
        index = index + np.where(tid != 0, g.batch.lane_ids, np.uint32(0)).astype(np.uint64)
        self.inside = self._in_range(index, offset, stride, records.astype(np.uint64), word3)
        place = self._swizzle(index, offset, stride, word3, swizzled)
        return base + self.soffset(g).astype(np.uint64) + place

    def _in_range(self, index: Array, offset: Array, stride: Array, records: Array, word3: Array) -> Array:
        mode = word3 >> np.uint32(28) & np.uint32(3)
        size = np.uint64(self.size)
        structured = (index < records) & (offset + size <= stride)
        raw = (index < records) & (stride != 0) | (offset + size <= records) & (stride == 0)
        unchecked = records != 0
        flat = index * stride + offset + size <= records
        return np.select(
            [mode == _STRUCTURED, mode == _RAW_CHECK, mode == _NO_CHECK, mode == _RAW_BYTES],
            [np.where(stride == 0, raw, structured), raw, unchecked, flat],
            False,
        )

    def _swizzle(self, index: Array, offset: Array, stride: Array, word3: Array, swizzled: Array) -> Array:
        linear = index * stride + offset
        if not (swizzled != 0).any():
            return linear
        lanes = np.array(_INDEX_STRIDES, np.uint64)[word3 >> np.uint32(21) & np.uint32(3)]
        element = np.array(_ELEMENT_BYTES, np.uint64)[swizzled]
        block = (index // lanes * stride + offset // element * element) * lanes
        return np.where(swizzled != 0, block + index % lanes * element + offset % element, linear)

    def load(self, addr: Array, bits: int, mask: Array | None) -> Array:
        """As MemoryContext's, limited to the lanes in range."""
        return super().load(addr, bits, self.inside if mask is None else mask & self.inside)

    def store(self, addr: Array, value: Array, bits: int, mask: Array | None) -> None:
        """As MemoryContext's, limited to the lanes in range."""
        super().store(addr, value, bits, self.inside if mask is None else mask & self.inside)


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a buffer instruction. Raises NoSemanticsError or IllegalInstruction."""
    if instruction.mnemonic.endswith(("_inv", "_wb", "_wbl2", "_wbinvl1")):
        return Step(lambda g: None, "vmem")
    program = opcode_program(instruction.opcode)
    ctx = BufferContext(instruction, wave_size, access_bytes(program))
    data = instruction.operand("vdata")
    ctx.bind_data("DATA", data)
    ctx.bind_result(data)
    return memory_step(ctx, program, "vmem")
