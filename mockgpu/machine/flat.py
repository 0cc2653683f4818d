"""FLAT, GLOBAL and SCRATCH instructions (VFLAT, VGLOBAL, VSCRATCH on RDNA4).

Sources: "Flat, Scratch and Global" chapters of the RDNA3, RDNA4 and CDNA3 manuals.
"""

from __future__ import annotations

import numpy as np

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.instruction import Instruction, Operand
from mockgpu.isa.registers import Kind
from mockgpu.machine import lds_load, transpose
from mockgpu.machine.memory_context import MemoryContext, Space, memory_step
from mockgpu.machine.operands import APERTURE_SIZE, PRIVATE_APERTURE, SHARED_APERTURE, Reader, constant, scalar_reader
from mockgpu.machine.semantics import opcode_program
from mockgpu.machine.space import GLOBAL, LDS, SCRATCH
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group

_SCRATCH_FORMATS = frozenset({"SCRATCH", "VSCRATCH"})
_FLAT_FORMATS = frozenset({"FLAT", "VFLAT"})
#: Listed among the flat opcodes of RDNA3's tables, without operands; the manual has the global form alone.
_GLOBAL_ONLY = frozenset({"flat_atomic_csub_u32"})
_CACHE_CONTROL = frozenset({"global_inv", "global_wb", "global_wbinv"})
_GEOMETRY_REGISTER = "VGT_GS_MAX_WAVE_ID"


class Flat:
    """The unified address space: two apertures lead to LDS and scratch, the rest is global."""

    name = "flat"

    def _split(self, g: Group, addr: Array, lanes: Array | None) -> list[tuple[Space, Array, Array | None]]:
        full = np.broadcast_to(addr, (g.n, g.lanes))
        high = full >> np.uint64(32)
        shared = high == np.uint64(SHARED_APERTURE // APERTURE_SIZE)
        private = high == np.uint64(PRIVATE_APERTURE // APERTURE_SIZE)
        if not (shared.any() or private.any()):
            return [(GLOBAL, full, lanes)]
        active = np.ones((g.n, g.lanes), np.bool_) if lanes is None else np.broadcast_to(lanes, (g.n, g.lanes))
        inside = full & np.uint64(APERTURE_SIZE - 1)
        parts: list[tuple[Space, Array, Array]] = [
            (GLOBAL, full, active & ~shared & ~private),
            (LDS, inside, active & shared),
            (SCRATCH, inside, active & private),
        ]
        return [part for part in parts if part[2].any()]

    def load(self, g: Group, addr: Array, nbytes: int, lanes: Array | None, width: int) -> Array:
        parts = self._split(g, addr, lanes)
        if len(parts) == 1:
            space, at, chosen = parts[0]
            return space.load(g, at, nbytes, chosen, width)
        out = np.zeros((g.n, width), f"u{nbytes}")
        for space, at, chosen in parts:
            out |= space.load(g, at, nbytes, chosen, width)
        return out

    def store(self, g: Group, addr: Array, value: Array, nbytes: int, lanes: Array | None, width: int) -> None:
        for space, at, chosen in self._split(g, addr, lanes):
            space.store(g, at, value, nbytes, chosen, width)

    def load_dwords(self, g: Group, addr: Array, count: int, lanes: Array | None, width: int) -> list[Array]:
        """``count`` consecutive dwords, each (n, width)."""
        parts = self._split(g, addr, lanes)
        if len(parts) == 1:
            space, at, chosen = parts[0]
            return space.load_dwords(g, at, count, chosen, width)
        out = [np.zeros((g.n, width), np.uint32) for _ in range(count)]
        for space, at, chosen in parts:
            for row, value in zip(out, space.load_dwords(g, at, count, chosen, width), strict=True):
                row |= value
        return out

    def store_dwords(self, g: Group, addr: Array, values: list[Array], lanes: Array | None, width: int) -> None:
        """Consecutive dwords, each (n, width) or broadcast to it."""
        for space, at, chosen in self._split(g, addr, lanes):
            space.store_dwords(g, at, values, chosen, width)


FLAT = Flat()


def signed_offset(instruction: Instruction) -> int:
    """The instruction's byte offset. FLAT on parts with 13-bit offsets ignores the sign bit."""
    name = "ioffset" if "ioffset" in instruction.fields else "offset"
    field = instruction.layout.by_name[name]
    bits, value = field.hi - field.lo + 1, instruction.fields[name]
    if instruction.format == "FLAT":
        return value & ((1 << (bits - 1)) - 1)
    return value - (1 << bits) if value >> (bits - 1) else value


def _view(instruction: Instruction, *names: str) -> Operand | None:
    return next((o for o in instruction.operands if o.field in names), None)


def _address(instruction: Instruction) -> Reader:
    """Byte address of every lane: 64 bits, or the 32-bit offset of scratch."""
    vector, scalar = _view(instruction, "addr", "vaddr"), _view(instruction, "saddr")
    if scalar is not None and scalar.kind is Kind.NULL:
        scalar = None
    offset, null = signed_offset(instruction), instruction.arch.null_register
    if instruction.format in _SCRATCH_FORMATS:
        return _scratch_address(vector, scalar, offset, null)
    step = np.uint64(offset & (1 << 64) - 1)
    base = scalar_reader(scalar.code, 64, null) if scalar is not None else None
    if vector is None:  # the lane number is added by the program
        only = base or (lambda g: np.zeros((1, 1), np.uint64))
        return lambda g: only(g) + step
    reg = vector.index
    if base is None:
        return lambda g: g.vector64(reg) + step
    start = base
    return lambda g: start(g) + g.vector(reg).astype(np.uint64) + step


def _scratch_address(vector: Operand | None, scalar: Operand | None, offset: int, null: int | None) -> Reader:
    step = np.array([[offset & 0xFFFFFFFF]], np.uint32)

    def address(g: Group) -> Array:
        at = step
        if vector is not None:
            at = at + g.vector(vector.index)
        if scalar is not None:
            at = at + scalar_reader(scalar.code, 32, null)(g)
        return at.astype(np.uint64)

    return address


def _space(instruction: Instruction) -> Space:
    if instruction.format in _SCRATCH_FORMATS:
        return SCRATCH
    return FLAT if instruction.format in _FLAT_FORMATS else GLOBAL


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a flat, global or scratch instruction. Raises NoSemanticsError or IllegalInstruction."""
    mnemonic = instruction.mnemonic
    global_only = mnemonic in _GLOBAL_ONLY or not mnemonic.startswith("flat_")
    if instruction.format in _FLAT_FORMATS and global_only:
        raise NoSemanticsError(mnemonic, "exists in the global segment alone", instruction.arch.name)
    if mnemonic in _CACHE_CONTROL:
        return Step(_nothing, "vmem")
    ctx = MemoryContext(instruction, wave_size, _space(instruction), _address(instruction))
    if lds_load.is_flat_load_to_lds(mnemonic):
        ctx.address = _by_lane(ctx.address) if "addtid" in mnemonic else ctx.address
        return lds_load.build_flat(instruction, ctx, signed_offset(instruction))
    if transpose.is_global(mnemonic):
        return transpose.build_global(instruction, ctx)
    program = opcode_program(instruction.opcode)
    if _GEOMETRY_REGISTER in program.reads:
        raise NoSemanticsError(mnemonic, "graphics only: orders the waves of geometry shaders", instruction.arch.name)
    data = _view(instruction, "data", "vdata", "vsrc")
    if data is not None:
        ctx.bind_data("DATA", data)
        number = data.index
        ctx.reads["DATA_REG"] = lambda g, bits: constant(number, bits)
    ctx.bind_result(_view(instruction, "vdst"))
    return memory_step(ctx, program, "vmem")


def _by_lane(address: Reader) -> Reader:
    """The address of a dword for each lane."""
    return lambda g: address(g) + g.batch.lane_ids.astype(np.uint64) * np.uint64(4)


def _nothing(g: Group) -> None:
    """Every access is coherent here, so that writing back and invalidating caches changes nothing."""
