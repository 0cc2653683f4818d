"""Vector memory: FLAT, GLOBAL, SCRATCH and DS loads, stores and atomics. Twin of flat, lds and memory_context."""

from __future__ import annotations

from llvmlite import ir as llvm

from mockgpu.isa.instruction import Operand
from mockgpu.isa.registers import Kind
from mockgpu.machine import lds, lds_count, transpose
from mockgpu.machine.burst import burst_of
from mockgpu.machine.flat import _CACHE_CONTROL, _FLAT_FORMATS, _GEOMETRY_REGISTER, _GLOBAL_ONLY, _SCRATCH_FORMATS
from mockgpu.machine.lds_load import is_flat_load_to_lds
from mockgpu.machine.memory_context import access_bytes, is_atomic
from mockgpu.machine.native.emit_atomic import emit_atomic
from mockgpu.machine.native.emit_lds import LANE_MOVES
from mockgpu.machine.native.emitter import I64, Emitter
from mockgpu.machine.native.memory_context import FLAT, GLOBAL, LDS, SCRATCH, MemoryContext, Parts
from mockgpu.machine.semantics import opcode_program
from mockgpu.pcode import ir
from mockgpu.pcode.llvm.program import emit_program
from mockgpu.pcode.llvm.values import NotNative, Value, broadcast, constant, resize, same


def _view(e: Emitter, *names: str) -> Operand | None:
    return next((o for o in e.instruction.operands if o.field in names), None)


def _offset(e: Emitter) -> Value:
    """The instruction's signed byte offset as i64. FLAT on parts with 13-bit offsets ignores the sign bit."""
    i = e.instruction
    name = "ioffset" if "ioffset" in i.fields else "offset"
    place = i.layout.by_name[name]
    bits = place.hi - place.lo + 1
    value = e.param(name)
    if i.format == "FLAT":
        return e.b.zext(e.b.and_(value, same(value, (1 << (bits - 1)) - 1)), I64)
    spare = same(value, 32 - bits)
    return e.b.sext(e.b.ashr(e.b.shl(value, spare), spare), I64)


def _address(e: Emitter) -> tuple[Value, Parts | None]:
    """The byte address of every lane, i64 or <lanes x i64>, and its parts where it has two."""
    b = e.b
    vector, scalar = _view(e, "addr", "vaddr"), _view(e, "saddr")
    if scalar is not None and scalar.kind is Kind.NULL:
        scalar = None
    if scalar is not None and (scalar.code < 0 or scalar.code >= 128):
        raise NotNative(f"address in {scalar.kind}")
    offset = _offset(e)
    if e.instruction.format in _SCRATCH_FORMATS:
        return _scratch_address(e, vector, scalar, offset), None
    if vector is None:
        base = e.scalar(e.param("saddr"), 64) if scalar is not None else I64(0)
        return b.add(base, offset), None
    register = e.param(vector.field)
    if scalar is None:
        addr = e.vector64(register)
        parts = addr, offset, (id(e.vector(register)), id(e.vector(register, 1)))
        return b.add(addr, broadcast(b, offset, e.lanes)), parts
    start = b.add(e.scalar(e.param("saddr"), 64), offset)
    own = e.vector(register)
    lanes = b.zext(own, llvm.VectorType(I64, e.lanes))
    return b.add(lanes, broadcast(b, start, e.lanes)), (own, start, id(own))


def _scratch_address(e: Emitter, vector: Operand | None, scalar: Operand | None, offset: Value) -> Value:
    b = e.b
    at: Value = resize(b, offset, 32)
    if scalar is not None:
        at = b.add(at, e.scalar(e.param("saddr")))
    if vector is not None:
        at = b.add(e.vector(e.param(vector.field)), broadcast(b, at, e.lanes))
    return resize(b, at, 64)


def emit_flat(e: Emitter) -> None:
    """A FLAT, GLOBAL or SCRATCH instruction."""
    i = e.instruction
    mnemonic = i.mnemonic
    if i.format in _FLAT_FORMATS and (mnemonic in _GLOBAL_ONLY or not mnemonic.startswith("flat_")):
        raise NotNative("exists in the global segment alone")
    if mnemonic in _CACHE_CONTROL:
        e.next()
        return
    if is_flat_load_to_lds(mnemonic) or transpose.is_global(mnemonic) or i.fields.get("lds", 0):
        raise NotNative("moves data between memory and LDS, or transposes")
    program = opcode_program(i.opcode)
    if _GEOMETRY_REGISTER in program.reads:
        raise NotNative("graphics only")
    space = SCRATCH if i.format in _SCRATCH_FORMATS else FLAT if i.format in _FLAT_FORMATS else GLOBAL
    addr, parts = _address(e)
    ctx = MemoryContext(e, space, broadcast(e.b, addr, e.lanes))
    ctx.parts = parts
    data = _view(e, "data", "vdata", "vsrc")
    if data is not None:
        ctx.bind_data("DATA", data)
        ctx.reads["DATA_REG"] = _no_register
    ctx.bind_result(_view(e, "vdst"))
    _finish(ctx, program)


def _no_register(bits: int) -> Value:
    raise NotNative("a register by computed number")


def emit_ds(e: Emitter) -> None:
    """A DS instruction."""
    i = e.instruction
    if i.fields.get("gds"):
        raise NotNative("global data share")
    if i.mnemonic == "ds_nop":
        e.next()
        return
    if i.mnemonic in LANE_MOVES:
        LANE_MOVES[i.mnemonic](e)
        e.next()
        return
    if lds.graphics_or_global(i.mnemonic) is not None:
        raise NotNative("no plain access to LDS")
    if lds_count.build(i) is not None or transpose.build_lds(i, e.lanes) is not None:
        raise NotNative("counts or transposes in LDS")
    program = opcode_program(i.opcode)
    fields = {o.field: o for o in i.operands}
    addr: Value = constant(0, 64, e.lanes)
    if "addr" in fields:
        addr = e.b.zext(e.vector(e.param("addr")), llvm.VectorType(I64, e.lanes))
    ctx = MemoryContext(e, LDS, addr)
    if "data0" in fields:
        ctx.bind_data("DATA", fields["data0"])
    if "data1" in fields:
        ctx.bind_data("DATA2", fields["data1"])
    ctx.bind_result(fields.get("vdst"))
    _finish(ctx, program)


def _finish(ctx: MemoryContext, program: ir.Program) -> None:
    if is_atomic(program):
        emit_atomic(ctx, program, access_bytes(program))
        return
    burst = burst_of(program) if ctx.space != SCRATCH else None  # dwords of a lane do not lie side by side there
    if burst is not None:
        ctx.burst = burst.dwords, burst.operand
        program = burst.first
    emit_program(program, ctx)
    ctx.commit()
    ctx.e.next()
