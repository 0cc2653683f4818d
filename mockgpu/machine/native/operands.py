"""Source operands of an instruction as readers: registers, constants, special values. See machine/operands.py."""

from __future__ import annotations

from mockgpu.isa.instruction import Operand
from mockgpu.isa.registers import Kind
from mockgpu.machine.native.context import NativeContext, Reader
from mockgpu.machine.operands import _APERTURES, VECTORS
from mockgpu.machine.waves import EXEC, VCC
from mockgpu.pcode.llvm.values import NotNative, Value, container, resize


def reader(ctx: NativeContext, operand: Operand) -> Reader:
    """The operand without modifiers. Raises NotNative for one that cannot be read."""
    e, name = ctx.e, operand.field
    if operand.kind in VECTORS:
        return ctx.vector_reader(e.param(name), high=operand.hi)
    if 0 <= operand.code < 128:
        if operand.code == e.arch.null_register:
            return ctx.fixed(0)
        return _narrowed(ctx, ctx.scalar_reader(e.param(name)), operand)
    if operand.kind in (Kind.INT, Kind.FLOAT, Kind.LITERAL, Kind.IMM):
        return _constant(ctx, operand)
    return _special(ctx, operand)


def _narrowed(ctx: NativeContext, read: Reader, operand: Operand) -> Reader:
    """As many bits as the operand has, whatever is asked for."""
    have = operand.bits
    return lambda bits: resize(ctx.b, read(min(bits, max(have, 32))), container(bits))


def _constant(ctx: NativeContext, operand: Operand) -> Reader:
    e = ctx.e

    def read(bits: int) -> Value:
        if bits <= 32 or not e.has_param(f"{operand.field}.hi"):
            return resize(ctx.b, e.param(operand.field), container(bits))
        return resize(ctx.b, e.param64(operand.field), container(bits))

    return read


def _special(ctx: NativeContext, operand: Operand) -> Reader:
    kind = operand.kind
    if kind in _APERTURES:
        return ctx.fixed(_APERTURES[kind])
    if kind is Kind.SCC:
        return ctx.reads["SCC"]
    if kind is Kind.VCCZ:
        return lambda bits: ctx.is_zero(VCC, bits)
    if kind is Kind.EXECZ:
        return lambda bits: ctx.is_zero(EXEC, bits)
    raise NotNative(f"operand {kind}")
