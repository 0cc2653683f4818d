"""Scalar memory instructions: loads (RDNA4: also smaller than a dword), on CDNA also stores and atomics.

Every dword of a buffer is checked by itself: it is in range below NUM_RECORDS times the stride (1 where the stride is
0). Addresses of scratch count their register offset in units of 64 bytes. Probes of address translation, prefetches and
cache controls change nothing that a program can see here: every access is coherent.

Sources: "Scalar Memory Operations" of the RDNA3, RDNA4 and CDNA3 manuals, "Scalar scratch" of the Vega manual.
"""

from __future__ import annotations

import numpy as np

from mockgpu.isa.instruction import Instruction, Operand
from mockgpu.isa.registers import Kind
from mockgpu.machine.context import BitsWriter
from mockgpu.machine.errors import MemoryViolation
from mockgpu.machine.memory_context import MemoryContext, is_atomic, memory_step
from mockgpu.machine.operands import Reader, as_bits, constant, dword, reader, scalar_reader, scalar_writer
from mockgpu.machine.semantics import evaluator_of, opcode_program
from mockgpu.machine.space import GLOBAL
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group
from mockgpu.pcode.ir import Program

_NOTHING = ("s_gl1_inv", "s_dcache_", "s_atc_probe")
_BYTES, _HALVES = ("_u8", "_i8"), ("_u16", "_i16")
_MOST_DWORDS = 16
_SCRATCH_UNIT = 64  # bytes


class ScalarMemory(MemoryContext):
    """Accesses of a wave. ``limit`` gives the end address of a buffer: beyond it dwords read 0 and are not stored."""

    def __init__(self, instruction: Instruction, wave_size: int, address: Reader, limit: Reader | None):
        super().__init__(instruction, wave_size, GLOBAL, address, vector=False)
        self.limit = limit
        self.end: Array | None = None
        self.allows_bursts = limit is None

    def begin(self, g: Group) -> None:
        """As MemoryContext's; the data may replace the descriptor, so that its bound is read now."""
        super().begin(g)
        self.end = None if self.limit is None else self.limit(g)

    def _inside(self, addr: Array, mask: Array | None) -> Array | None:
        if self.end is None:
            return mask
        inside: Array = addr < self.end
        return inside if mask is None else inside & mask

    def load(self, addr: Array, bits: int, mask: Array | None) -> Array:
        """As MemoryContext's, with the buffer's bound."""
        return super().load(addr, bits, self._inside(addr, mask))

    def store(self, addr: Array, value: Array, bits: int, mask: Array | None) -> None:
        """As MemoryContext's, with the buffer's bound."""
        super().store(addr, value, bits, self._inside(addr, mask))

    def bind_scalars(self, operand: Operand) -> None:
        """The scalar registers that give or take the data."""
        null = self.arch.null_register
        self.reads["DATA"] = lambda g, bits: as_bits(scalar_reader(operand.code, max(bits, 32), null)(g), bits)
        self.writes["RETURN_DATA"] = self._result(operand)
        for k in range(_MOST_DWORDS):
            self._bind_scalar(k, operand)

    def _result(self, operand: Operand) -> BitsWriter:
        if not operand.is_dst:  # an atomic that returns nothing
            return lambda g, v, bits, m: None
        code, null = operand.code, self.arch.null_register
        return lambda g, v, bits, m: scalar_writer(code, max(bits, 32), null)(g, as_bits(v, max(bits, 32)), m)

    def _bind_scalar(self, k: int, operand: Operand) -> None:
        code, null = operand.code, self.arch.null_register
        dropped = code == null or not operand.is_dst

        def write(g: Group, value: Array, bits: int, mask: Array | None) -> None:
            if not dropped:
                g.write_scalar(code + k, dword(value, 0), mask)

        self.reads[f"DATA.{k}"] = lambda g, bits: as_bits(g.scalar(code + k), bits)
        self.writes[f"RETURN_DATA.{k}"] = write


# -- addresses ------------------------------------------------------------------------------------------------


def _immediate(instruction: Instruction) -> int:
    name = "ioffset" if "ioffset" in instruction.fields else "offset"
    field = instruction.layout.by_name[name]
    bits, value = field.hi - field.lo + 1, instruction.fields[name]
    return value - (1 << bits) if value >> (bits - 1) else value


def _counted(mnemonic: str) -> Array:
    """The address bits that count: small loads are aligned to their size, others to dwords."""
    lost = 0 if mnemonic.endswith(_BYTES) else 1 if mnemonic.endswith(_HALVES) else 3
    return constant(~lost, 64)


def _total_offset(instruction: Instruction) -> Reader:
    """Immediate plus scalar offset, (n, 1) or (1, 1) uint64, each aligned by itself."""
    counted = _counted(instruction.mnemonic)
    immediate = constant(_immediate(instruction), 64) & counted
    scalar = next((o for o in instruction.operands if o.field == "soffset"), None)
    if scalar is None or scalar.kind is Kind.NULL:
        return lambda g: immediate
    read = reader(instruction.arch, scalar, bits=32)
    unit = np.uint64(_SCRATCH_UNIT if "_scratch_" in instruction.mnemonic else 1)
    return lambda g: immediate + (read(g).astype(np.uint64) * unit & counted)


def _context(instruction: Instruction, wave_size: int) -> ScalarMemory:
    base, offset = instruction.operand("sbase"), _total_offset(instruction)
    counted = _counted(instruction.mnemonic)
    if "buffer" not in instruction.mnemonic:
        pointer = reader(instruction.arch, base, bits=64)
        return ScalarMemory(instruction, wave_size, lambda g: (pointer(g) & counted) + offset(g), None)
    code, negative = base.code, "ioffset" in instruction.fields and _immediate(instruction) < 0

    def start(g: Group) -> Array:
        if negative:
            raise MemoryViolation(f"{instruction.mnemonic}: the offset {_immediate(instruction)} is negative")
        return g.scalar64(code) & np.uint64(0xFFFF_FFFF_FFFF) & counted

    def limit(g: Group) -> Array:
        stride = g.scalar(code + 1) >> np.uint32(16) & np.uint32(0x3FFF)
        records = g.scalar(code + 2).astype(np.uint64)
        end: Array = start(g) + records * np.maximum(stride, np.uint32(1)).astype(np.uint64)
        return end

    return ScalarMemory(instruction, wave_size, lambda g: start(g) + offset(g), limit)


# -- steps ----------------------------------------------------------------------------------------------------


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a scalar memory instruction. Raises NoSemanticsError or IllegalInstruction."""
    mnemonic = instruction.mnemonic
    if mnemonic.startswith(_NOTHING) or "prefetch" in mnemonic:
        return Step(_nothing, "smem")
    if "time" in mnemonic:
        return _clock(instruction)
    program = opcode_program(instruction.opcode)
    ctx = _context(instruction, wave_size)
    ctx.bind_scalars(instruction.operand("sdata"))
    return _atomic_step(ctx, program) if is_atomic(program) else memory_step(ctx, program, "smem")


def _atomic_step(ctx: ScalarMemory, program: Program) -> Step:
    """One wave after the other: each has one address."""
    evaluator = evaluator_of(program)

    def atomic(g: Group) -> None:
        for wave in np.arange(g.batch.waves)[g.index]:
            ctx.begin(Group(g.batch, slice(int(wave), int(wave) + 1), 1, g.memory, g.pc, g.mode))
            evaluator.run(ctx)

    return Step(atomic, "smem")


def _nothing(g: Group) -> None:
    """Probes, prefetches and cache controls."""


def _clock(instruction: Instruction) -> Step:
    """S_MEMTIME and S_MEMREALTIME: the deterministic clock."""
    code = instruction.operand("sdata").code

    def clock(g: Group) -> None:
        for k in range(2):
            g.write_scalar(code + k, as_bits(constant(g.batch.clock >> 32 * k, 32), 32))

    return Step(clock, "smem")
