"""VOPD: two vector instructions in one; both read before either writes. The twin of :mod:`mockgpu.machine.vopd`."""

from __future__ import annotations

from mockgpu.isa.opcode import Opcode
from mockgpu.machine.native.emit_valu import VectorContext
from mockgpu.machine.native.emitter import Emitter
from mockgpu.machine.semantics import opcode_program
from mockgpu.machine.vopd import _SOURCES_X, _SOURCES_Y, single_opcode
from mockgpu.pcode.llvm.program import emit_program
from mockgpu.pcode.llvm.values import NotNative


def _half(e: Emitter, opcode: Opcode, names: dict[str, str], result: str) -> VectorContext:
    """One half, computed but not stored."""
    program = opcode_program(single_opcode(opcode))
    ctx = VectorContext(e, program)
    ctx.bind_sources(e.instruction.operands, names)
    offset = e.param(result)
    ctx.reads["D0"] = ctx.vector_reader(offset)
    ctx.writes["D0"] = ctx.vector_writer(offset)
    if "S2" in program.reads and "S2" not in ctx.reads:
        ctx.reads["S2"] = ctx.reads["D0"]
    emit_program(program, ctx)
    return ctx


def emit(e: Emitter) -> None:
    """A dual-issue pair."""
    i = e.instruction
    if e.lanes != 32 or i.opcode_y is None:
        raise NotNative("dual issue exists in wave32 only")
    x = _half(e, i.opcode, _SOURCES_X, "vdstx")
    y = _half(e, i.opcode_y, _SOURCES_Y, "vdsty")
    x.commit()
    y.commit()
    e.next()
