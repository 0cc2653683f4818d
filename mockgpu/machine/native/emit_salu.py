"""Scalar ALU instructions: SOP1, SOP2, SOPC, SOPK. The twin of :mod:`mockgpu.machine.salu`."""

from __future__ import annotations

from mockgpu.isa.instruction import Operand
from mockgpu.machine.native import emit_control
from mockgpu.machine.native.context import NativeContext
from mockgpu.machine.native.emitter import Emitter
from mockgpu.machine.native.flow import Flow, flow_of
from mockgpu.machine.native.layout import Reason
from mockgpu.machine.native.operands import reader
from mockgpu.machine.semantics import opcode_program, writes_mode
from mockgpu.pcode import ir
from mockgpu.pcode.llvm.program import emit_program
from mockgpu.pcode.llvm.values import NotNative, Value, constant

_SOURCES = {"ssrc0": "S0", "ssrc1": "S1"}


def _context(e: Emitter) -> NativeContext:
    ctx = NativeContext(e, vector=False)
    ctx.reads["PC"] = lambda bits: e.pc()
    for operand in e.instruction.operands:
        if operand.field in _SOURCES:
            ctx.reads[_SOURCES[operand.field]] = reader(ctx, operand)
        elif operand.field == "sdst":
            _bind_destination(ctx, operand)
    return ctx


def _bind_destination(ctx: NativeContext, operand: Operand) -> None:
    e = ctx.e
    if operand.code == e.arch.null_register:
        ctx.reads["D0"] = ctx.fixed(0)
        ctx.writes["D0"] = _drop
    else:
        ctx.reads["D0"] = ctx.scalar_reader(e.param("sdst"))
        ctx.writes["D0"] = ctx.scalar_writer(e.param("sdst"))
    ctx.reads.setdefault("S0", ctx.reads["D0"])


def _drop(value: Value, bits: int) -> None:
    """The null register keeps nothing."""


def _program(e: Emitter) -> ir.Program:
    program = opcode_program(e.instruction.opcode)
    if writes_mode(program):
        raise NotNative("MODE or a hardware register is written")
    return program


def emit(e: Emitter) -> None:
    """A scalar ALU instruction."""
    if emit_control.is_special(e.instruction.mnemonic):
        emit_control.emit(e)
        return
    program = _program(e)
    if flow_of(e.instruction) is not Flow.GOES_ON:
        _branch(e, program)
        return
    ctx, opcode = _context(e), e.instruction.opcode
    emit_program(program, ctx, (opcode.family, opcode.table, opcode.name))
    ctx.commit()
    e.next()


def _branch(e: Emitter, program: ir.Program) -> None:
    """Jumps through registers, and calls: the new PC leads to a record that Python finds."""
    if "PC" not in program.writes:
        raise NotNative("ends a block")
    ctx = _context(e)
    after = e.b.add(e.pc(), constant(e.instruction.size, 64))
    emit_program(program, ctx)
    ctx.commit()
    e.count_block()
    target = after if ctx.jump is None else ctx.jump
    e.set_header("pc", target)
    e.exit(Reason.JUMP)
