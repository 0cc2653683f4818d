"""Scalar memory instructions: loads of dwords (RDNA4: also smaller) into scalar registers.

Sources: "Scalar memory operations" of the RDNA3, RDNA4 and CDNA3 manuals.
"""

from __future__ import annotations

import numpy as np

from mockgpu.isa.instruction import Instruction, Operand
from mockgpu.isa.registers import Kind
from mockgpu.machine.memory_context import MemoryContext, memory_step
from mockgpu.machine.operands import Reader, as_bits, constant, dword, reader
from mockgpu.machine.semantics import opcode_program
from mockgpu.machine.space import GLOBAL
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group

_NOTHING = frozenset({"s_gl1_inv", "s_dcache_inv", "s_dcache_wb", "s_dcache_inv_vol", "s_dcache_wb_vol"})
_SMALL = ("_u8", "_i8", "_u16", "_i16")
_MOST_DWORDS = 16


class ScalarMemory(MemoryContext):
    """Loads of a wave. ``limit`` gives the end address of a buffer: dwords beyond it read 0."""

    def __init__(self, instruction: Instruction, wave_size: int, address: Reader, limit: Reader | None):
        super().__init__(instruction, wave_size, GLOBAL, address, vector=False)
        self.limit = limit
        self.allows_bursts = limit is None

    def load(self, addr: Array, bits: int, mask: Array | None) -> Array:
        """As MemoryContext's, with the buffer's bound."""
        if self.limit is None:
            return super().load(addr, bits, mask)
        inside = addr + np.uint64(bits // 8) <= self.limit(self.g)
        return super().load(addr, bits, inside if mask is None else inside & mask)

    def bind_scalars(self, operand: Operand) -> None:
        """The scalar registers that take the data."""
        null = self.arch.null_register
        for k in range(_MOST_DWORDS):
            self._bind_scalar(k, operand.code + k, operand.code == null)

    def _bind_scalar(self, k: int, code: int, dropped: bool) -> None:
        def write(g: Group, value: Array, bits: int, mask: Array | None) -> None:
            if not dropped:
                g.write_scalar(code, dword(value, 0), mask)

        self.writes[f"RETURN_DATA.{k}"] = write
        if k == 0:
            self.writes["RETURN_DATA"] = write


def _offset(instruction: Instruction) -> int:
    name = "ioffset" if "ioffset" in instruction.fields else "offset"
    field = instruction.layout.by_name[name]
    bits, value = field.hi - field.lo + 1, instruction.fields[name]
    return value - (1 << bits) if value >> (bits - 1) else value


def _total_offset(instruction: Instruction) -> Reader:
    """Immediate plus SGPR offset, (n, 1) or (1, 1) uint64."""
    immediate = constant(_offset(instruction), 64)
    scalar = next((o for o in instruction.operands if o.field == "soffset"), None)
    if scalar is None or scalar.kind is Kind.NULL:
        return lambda g: immediate
    read = reader(instruction.arch, scalar, bits=32)
    return lambda g: immediate + read(g).astype(np.uint64)


def _build_load(instruction: Instruction, wave_size: int) -> ScalarMemory:
    base = instruction.operand("sbase")
    offset = _total_offset(instruction)
    aligned = constant(-1 if any(s in instruction.mnemonic for s in _SMALL) else -4, 64)
    if "buffer" not in instruction.mnemonic:
        pointer = reader(instruction.arch, base, bits=64)
        return ScalarMemory(instruction, wave_size, lambda g: (pointer(g) + offset(g)) & aligned, None)
    code = base.code

    def start(g: Group) -> Array:
        return g.scalar64(code) & np.uint64(0xFFFF_FFFF_FFFF)

    def limit(g: Group) -> Array:
        stride = g.scalar(code + 1) >> np.uint32(16) & np.uint32(0x3FFF)
        records = g.scalar(code + 2).astype(np.uint64)
        end: Array = start(g) + records * np.maximum(stride, np.uint32(1)).astype(np.uint64)
        return end

    return ScalarMemory(instruction, wave_size, lambda g: (start(g) + offset(g)) & aligned, limit)


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a scalar memory instruction. Raises NoSemanticsError or IllegalInstruction."""
    if instruction.mnemonic in _NOTHING or "prefetch" in instruction.mnemonic:
        return Step(lambda g: None, "smem")
    if "time" in instruction.mnemonic:
        return _clock(instruction)
    program = opcode_program(instruction.opcode)
    ctx = _build_load(instruction, wave_size)
    ctx.bind_scalars(instruction.operand("sdata"))
    return memory_step(ctx, program, "smem")


def _clock(instruction: Instruction) -> Step:
    """S_MEMTIME and S_MEMREALTIME: the deterministic clock."""
    code = instruction.operand("sdata").code

    def run(g: Group) -> None:
        for k in range(2):
            g.write_scalar(code + k, as_bits(constant(g.batch.clock >> 32 * k, 32), 32))

    return Step(run, "smem")
