"""DS instructions: LDS loads, stores and atomics, and the lane permutes that use the LDS hardware.

Sources: "Data share operations" of the RDNA3, RDNA4 and CDNA3 manuals; swizzle patterns: "DS_SWIZZLE_B32" there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine import lds_count, transpose
from mockgpu.machine.errors import IllegalInstruction, MemoryViolation
from mockgpu.machine.memory_context import MemoryContext, access_bytes, is_atomic, memory_step
from mockgpu.machine.operands import register_row
from mockgpu.machine.semantics import opcode_program
from mockgpu.machine.space import LDS
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group

_HALF = 32
#: Parts that permute inside halves of 32 lanes, as their text says; others across the wave (seen on gfx1201, gfx950).
_PERMUTE_IN_HALVES = frozenset({"rdna3"})


class LdsContext(MemoryContext):
    """LDS addresses are offsets in the workgroup's allocation."""

    local = True
    atomic_bytes = 0

    def load(self, addr: Array, bits: int, mask: Array | None) -> Array:
        """As MemoryContext's; an atomic outside the allocation is a violation."""
        if self.atomic_bytes:
            self._check_range(addr)
        return super().load(addr, bits, mask)

    def _check_range(self, addr: Array) -> None:
        g = self.g
        outside = np.broadcast_to(addr + addr.dtype.type(self.atomic_bytes) > g.batch.lds_bytes, (g.n, g.lanes))
        outside = outside & (g.active if g.exec is None else g.exec)
        if outside.any():
            at = int(np.broadcast_to(addr, outside.shape)[outside][0])
            raise MemoryViolation(f"LDS atomic at {at:#x} outside the {g.batch.lds_bytes} bytes of the workgroup")


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a DS instruction. Raises NoSemanticsError or IllegalInstruction."""
    if instruction.fields.get("gds") and graphics_or_global(instruction.mnemonic) is None:
        raise IllegalInstruction(f"{instruction.mnemonic}: the global data share does not exist here")
    if instruction.mnemonic == "ds_nop":
        return Step(lambda g: None, "lds")
    reason = graphics_or_global(instruction.mnemonic)
    if reason is not None:
        raise NoSemanticsError(instruction.mnemonic, reason, instruction.arch.name)
    other = lds_count.build(instruction) or transpose.build_lds(instruction, wave_size)
    if other is not None:
        return other
    lane_op = _LANE_OPS.get(instruction.mnemonic)
    if lane_op is not None:
        return Step(lane_op(instruction, wave_size), "lds")
    program = opcode_program(instruction.opcode)
    fields = {o.field: o for o in instruction.operands}
    reg = fields["addr"].index if "addr" in fields else None
    zero = np.zeros((1, 1), np.uint64)
    ctx = LdsContext(instruction, wave_size, LDS, lambda g: zero if reg is None else g.vector(reg).astype(np.uint64))
    if "data0" in fields:
        ctx.bind_data("DATA", fields["data0"])
    if "data1" in fields:
        ctx.bind_data("DATA2", fields["data1"])
    ctx.bind_result(fields.get("vdst"))
    if is_atomic(program):
        ctx.atomic_bytes = access_bytes(program)
    return memory_step(ctx, program, "lds")


def graphics_or_global(mnemonic: str) -> str | None:
    """Why a compute kernel cannot execute an instruction; None if it can."""
    return next((reason for part, reason in _BEYOND.items() if part in mnemonic), None)


_BEYOND = {
    "_gws_": "global wave sync: no queue here owns any",
    "_ordered_count": "the global data share does not exist here",
    "_gs_reg": "graphics only: counters of geometry shaders",
    "_bvh_stack": "graphics only: ray traversal stack",
}


# -- lane permutes --------------------------------------------------------------------------------------------


def _offset(instruction: Instruction) -> int:
    return instruction.fields["offset1"] << 8 | instruction.fields["offset0"]


def _swizzle_source(offset: int, lanes: int) -> Array:
    """The lane that each lane reads."""
    ids = np.arange(lanes)
    inside, half = ids & (_HALF - 1), ids & ~(_HALF - 1)
    if offset >= 0xE000:
        return half + _fft(offset & 0x1F, inside)
    if offset >= 0xC000:
        return half + _rotate(offset, inside)
    if offset & 0x8000:
        return (ids & ~3) + (offset >> 2 * (ids & 3) & 3)
    and_mask, or_mask, xor_mask = offset & 0x1F, offset >> 5 & 0x1F, offset >> 10 & 0x1F
    return half + (((inside & and_mask) | or_mask) ^ xor_mask)


def _fft(mask: int, inside: Array) -> Array:
    """Bit-reversed lane order of a transform; the bits of ``mask`` stay."""
    swapped = np.zeros_like(inside)
    for bit in range(5):
        swapped |= (inside >> bit & 1) << (4 - bit)
    return swapped >> mask.bit_count() | inside & mask


def _rotate(offset: int, inside: Array) -> Array:
    """Rotation by [9:5] lanes, to the right if bit 10 is set, of the lane bits that ``[4:0]`` does not keep."""
    kept, amount = offset & 0x1F, offset >> 5 & 0x1F
    step = amount if offset >> 10 & 1 else -amount
    return inside & kept | (inside + step) & (_HALF - 1) & ~kept


def _swizzle(instruction: Instruction, wave_size: int) -> Callable[[Group], None]:
    source = _swizzle_source(_offset(instruction), wave_size)
    reg, dst = (register_row(instruction.operand(f)) for f in ("addr", "vdst"))

    def run(g: Group) -> None:
        value = g.vector(reg)[:, source]
        if g.exec is not None:
            value = np.where(g.exec[:, source], value, np.uint32(0))
        g.write_vector(dst, value, g.exec)

    return run


def _lane_numbers(g: Group, reg: int, offset: int, whole_wave: bool) -> Array:
    """The lanes that byte addresses name, (n, L): modulo the wave, or inside the own half of 32."""
    lane = ((g.vector(reg) + np.uint32(offset)) >> np.uint32(2)).astype(np.int64)
    if whole_wave:
        return lane % g.lanes
    return lane % _HALF + (np.arange(g.lanes) & ~(_HALF - 1))


def _bpermute(instruction: Instruction, wave_size: int) -> Callable[[Group], None]:
    """Each lane reads the lane that its address names; lanes that EXEC turns off give 0."""
    reg, data, dst = (register_row(instruction.operand(f)) for f in ("addr", "data0", "vdst"))
    offset, whole = _offset(instruction), _whole_wave(instruction)
    fetch_inactive = instruction.mnemonic.endswith("_fi_b32")

    def run(g: Group) -> None:
        source = _lane_numbers(g, reg, offset, whole)
        value = np.take_along_axis(g.vector(data), source, axis=1)
        if g.exec is not None and not fetch_inactive:
            value = np.where(np.take_along_axis(g.exec, source, axis=1), value, np.uint32(0))
        g.write_vector(dst, value, g.exec)

    return run


def _permute(instruction: Instruction, wave_size: int) -> Callable[[Group], None]:
    """Each active lane sends its data to the lane that its address names; the highest sender wins, others get 0."""
    reg, data, dst = (register_row(instruction.operand(f)) for f in ("addr", "data0", "vdst"))
    offset, whole = _offset(instruction), _whole_wave(instruction)

    def run(g: Group) -> None:
        target = _lane_numbers(g, reg, offset, whole)
        out = np.zeros((g.n, g.lanes), np.uint32)
        waves, lanes = np.nonzero(g.active)
        out[waves, target[waves, lanes]] = g.vector(data)[waves, lanes]
        g.write_vector(dst, out, g.exec)

    return run


def _whole_wave(instruction: Instruction) -> bool:
    return instruction.arch.tables not in _PERMUTE_IN_HALVES


_LANE_OPS: dict[str, Callable[[Instruction, int], Callable[[Group], None]]] = {
    "ds_swizzle_b32": _swizzle,
    "ds_permute_b32": _permute,
    "ds_bpermute_b32": _bpermute,
    "ds_bpermute_fi_b32": _bpermute,
}
