"""The context of instructions that reach memory through a buffer resource descriptor."""

from __future__ import annotations

import numpy as np

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.buffer_resource import Descriptor
from mockgpu.machine.errors import MemoryViolation
from mockgpu.machine.memory_context import MemoryContext
from mockgpu.machine.operands import constant, reader
from mockgpu.machine.space import GLOBAL
from mockgpu.machine.waves import Array, Group

_DWORD = 4
_DWORD_BITS = np.uint64((1 << 64) - 4)
_ALIGNS_DWORDS = frozenset({"cdna"})


class BufferContext(MemoryContext):
    """Loads out of the buffer's range give 0, stores there are dropped.

    ``whole``: an access is in range as a whole or not at all (atomics, format instructions). ``converts``: the
    instruction is a format one.
    """

    allows_bursts = False

    def __init__(self, instruction: Instruction, wave_size: int, *, whole: bool = False, converts: bool = False):
        super().__init__(instruction, wave_size, GLOBAL, self._compute)
        fields = instruction.fields
        self.whole, self.converts = whole, converts
        self.code = instruction.operand("srsrc" if "srsrc" in fields else "rsrc").code
        self.offen, self.idxen = bool(fields["offen"]), bool(fields["idxen"])
        self.immediate = _immediate(instruction)
        vaddr = next((o for o in instruction.operands if o.field == "vaddr"), None)
        self.vaddr = vaddr.index if vaddr is not None else 0
        soffset = next((o for o in instruction.operands if o.field == "soffset"), None)
        zero = constant(0, 32)
        self.soffset = (lambda g: zero) if soffset is None else reader(self.arch, soffset, bits=32)
        self.descriptor: Descriptor
        self.index: Array
        self.offset: Array
        self.scalar: Array

    def _compute(self, g: Group) -> Array:
        """Byte address of every lane."""
        if self.immediate < 0 and g.active.any():
            raise MemoryViolation(f"{self.instruction.mnemonic}: the offset {self.immediate} is negative")
        self.descriptor = d = Descriptor(self.arch, g, self.code, converts=self.converts)
        zero = np.zeros((1, 1), np.uint64)
        index = g.vector(self.vaddr).astype(np.uint64) if self.idxen else zero
        offset = g.vector(self.vaddr + self.idxen).astype(np.uint64) if self.offen else zero
        self.index = index + np.where(d.add_tid, g.batch.lane_ids, np.uint32(0)).astype(np.uint64)
        self.offset = offset + np.uint64(max(self.immediate, 0))
        self.scalar = self.soffset(g).astype(np.uint64)
        return d.place(self.index, self.offset, self.scalar)

    def inside(self, addr: Array, nbytes: int) -> Array:
        """Which lanes have the ``nbytes`` bytes at ``addr`` (the lanes' address or a little more) in range."""
        offset = self.offset + (addr - self.addr)
        d = self.descriptor
        checked = d.inside(self.index, offset, self.scalar, nbytes, indexed=self.idxen, whole=self.whole)
        return checked & ~d.unbound

    def _aligned(self, addr: Array, nbytes: int) -> Array:
        if nbytes >= _DWORD and self.arch.family in _ALIGNS_DWORDS:
            return addr & _DWORD_BITS
        return addr

    def load(self, addr: Array, bits: int, mask: Array | None) -> Array:
        """As MemoryContext's, limited to the lanes in range."""
        inside = self.inside(addr, bits // 8)
        return self.fetch(addr, bits, inside if mask is None else mask & inside)

    def store(self, addr: Array, value: Array, bits: int, mask: Array | None) -> None:
        """As MemoryContext's, limited to the lanes in range."""
        inside = self.inside(addr, bits // 8)
        self.put(addr, value, bits, inside if mask is None else mask & inside)

    def fetch(self, addr: Array, bits: int, mask: Array) -> Array:
        """Load for lanes whose range is checked already."""
        return super().load(self._aligned(addr, bits // 8), bits, mask)

    def put(self, addr: Array, value: Array, bits: int, mask: Array) -> None:
        """Store for lanes whose range is checked already."""
        super().store(self._aligned(addr, bits // 8), value, bits, mask)


def _immediate(instruction: Instruction) -> int:
    """The byte offset in the instruction: unsigned, on RDNA4 signed but not allowed to be negative."""
    if "offset" in instruction.fields:
        return instruction.fields["offset"]
    field = instruction.layout.by_name["ioffset"]
    bits, value = field.hi - field.lo + 1, instruction.fields["ioffset"]
    return value - (1 << bits) if value >> (bits - 1) else value
