"""Sub-dword addressing (CDNA): parts of registers as sources and results. The twin of :mod:`mockgpu.machine.sdwa`."""

from __future__ import annotations

from mockgpu.isa.instruction import Operand, Sdwa
from mockgpu.machine.sdwa import _KEEP, _SIGN, _place
from mockgpu.pcode.llvm.values import Builder, Value, container, resize, same, unify


def selected(b: Builder, value: Value, operand: Operand) -> Value:
    """The part of a register (32 bits) that the source's selector names, zero- or sign-extended."""
    first, bits = _place(6 if operand.sel is None else operand.sel)
    if first:
        value = b.lshr(value, same(value, first))
    if bits < 32:
        value = _sign_extended(b, value, bits) if operand.sext else b.and_(value, same(value, (1 << bits) - 1))
    return resize(b, value, container(max(16, operand.bits)))


def placed(b: Builder, how: Sdwa, part: Value, old: Value) -> Value:
    """The destination register with a result put where the selector says."""
    first, bits = _place(how.dst_sel)
    part, old = unify(b, part, old)
    if bits == 32:
        return part
    mask = (1 << bits) - 1
    moved = b.shl(b.and_(part, same(part, mask)), same(part, first))
    if how.dst_unused == _KEEP:
        return b.or_(b.and_(old, same(old, ~(mask << first))), moved)
    if how.dst_unused == _SIGN:
        return b.shl(_sign_extended(b, part, bits), same(part, first))
    return moved


def _sign_extended(b: Builder, value: Value, bits: int) -> Value:
    spare = same(value, 32 - bits)
    return b.ashr(b.shl(value, spare), spare)
