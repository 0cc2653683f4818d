"""Scalar memory loads. The twin of :mod:`mockgpu.machine.smem`."""

from __future__ import annotations

from mockgpu.isa.instruction import Operand
from mockgpu.isa.registers import Kind
from mockgpu.machine.burst import burst_of
from mockgpu.machine.memory_context import is_atomic
from mockgpu.machine.native.access import Access
from mockgpu.machine.native.context import NativeContext
from mockgpu.machine.native.emitter import I64, Emitter
from mockgpu.machine.native.layout import READ
from mockgpu.machine.native.operands import reader
from mockgpu.machine.semantics import opcode_program
from mockgpu.machine.smem import _BYTES, _HALVES, _MOST_DWORDS, _NOTHING, _SCRATCH_UNIT
from mockgpu.pcode.llvm.program import emit_program
from mockgpu.pcode.llvm.values import NotNative, Value, container, resize


class ScalarMemory(NativeContext):
    """Accesses of a wave. ``limit`` is the end address of a buffer: beyond it dwords read 0."""

    def __init__(self, e: Emitter, addr: Value, limit: Value | None):
        super().__init__(e, vector=False)
        self.limit, self.access = limit, Access(e)
        self.burst: tuple[int, str] | None = None
        self.reads["ADDR"] = lambda bits: resize(self.b, addr, container(bits))

    def bind(self, operand: Operand) -> None:
        """The scalar registers that take the data."""
        if not operand.is_dst:
            raise NotNative("scalar stores and atomics")
        if operand.code == self.arch.null_register:
            raise NotNative("data in the null register")
        offset = self.e.param(operand.field)
        write = self.scalar_writer(offset)
        self.writes["RETURN_DATA"] = lambda value, bits: write(
            resize(self.b, value, container(max(bits, 32))), max(bits, 32)
        )
        for k in range(_MOST_DWORDS):
            self._bind_part(offset, k)

    def _bind_part(self, offset: Value, k: int) -> None:
        self.writes[f"RETURN_DATA.{k}"] = lambda value, bits: self.e.set_scalar(offset, resize(self.b, value, 32), k)

    def load(self, addr: Value, bits: int, mask: Value | None) -> Value:
        """``bits`` of memory, or of a burst of dwords the first."""
        if mask is not None:
            raise NotNative("a scalar load under a condition")
        b = self.b
        count, operand = self.burst or (1, "")
        size = I64(bits // 8 * count)
        if self.limit is not None:
            return self._inside(addr, bits)
        self.access.check_range(addr, b.add(addr, size), READ)
        whole = self.access.load_one(addr, bits * count)
        for k in range(1, count):
            self.write(f"{operand}.{k}", resize(b, b.lshr(whole, whole.type(32 * k)), 32), 32, None)
        return resize(b, resize(b, whole, bits), container(bits))

    def _inside(self, addr: Value, bits: int) -> Value:
        """A dword of a buffer, 0 beyond its end."""
        b = self.b
        beyond = b.icmp_unsigned(">=", addr, self.limit)
        self.access.check_range(addr, b.add(addr, I64(bits // 8)), READ, beyond)
        before = b.block
        there, after = b.append_basic_block("there"), b.append_basic_block("after")
        b.cbranch(beyond, after, there)
        b.position_at_end(there)
        found = self.access.load_one(addr, bits)
        b.branch(after)
        b.position_at_end(after)
        value = b.phi(found.type)
        value.add_incoming(found.type(0), before)
        value.add_incoming(found, there)
        return resize(b, value, container(bits))


def _offset(e: Emitter) -> Value:
    """Immediate plus scalar offset, each aligned by itself."""
    b, i = e.b, e.instruction
    name = "ioffset" if "ioffset" in i.fields else "offset"
    place = i.layout.by_name[name]
    spare = 32 - (place.hi - place.lo + 1)
    raw = e.param(name)
    value = b.sext(b.ashr(b.shl(raw, raw.type(spare)), raw.type(spare)), I64)
    value = b.and_(value, _counted(i.mnemonic))
    scalar = next((o for o in i.operands if o.field == "soffset"), None)
    if scalar is None or scalar.kind is Kind.NULL:
        return value
    more = b.zext(reader(NativeContext(e, vector=False), scalar)(32), I64)
    if "_scratch_" in i.mnemonic:
        more = b.mul(more, I64(_SCRATCH_UNIT))
    return b.add(value, b.and_(more, _counted(i.mnemonic)))


def _counted(mnemonic: str) -> Value:
    """The address bits that count: small loads are aligned to their size, others to dwords."""
    lost = 0 if mnemonic.endswith(_BYTES) else 1 if mnemonic.endswith(_HALVES) else 3
    return I64(~lost & (1 << 64) - 1)


def emit(e: Emitter) -> None:
    """A scalar memory instruction."""
    i, b = e.instruction, e.b
    if i.mnemonic.startswith(_NOTHING) or "prefetch" in i.mnemonic:
        e.next()
        return
    if "time" in i.mnemonic:
        raise NotNative("clocks")
    program = opcode_program(i.opcode)
    if is_atomic(program):
        raise NotNative("scalar stores and atomics")
    ctx = _context(e)
    ctx.bind(i.operand("sdata"))
    burst = burst_of(program) if ctx.limit is None else None
    if burst is not None:
        ctx.burst = burst.dwords, burst.operand
        program = burst.first
    emit_program(program, ctx)
    ctx.commit()
    e.next()
    assert b


def _context(e: Emitter) -> ScalarMemory:
    i, b = e.instruction, e.b
    base = i.operand("sbase")
    if not 0 <= base.code < 128 or base.code == e.arch.null_register:
        raise NotNative(f"base address in {base.kind}")
    pointer, counted = e.param("sbase"), _counted(i.mnemonic)
    offset = _offset(e)
    if "buffer" not in i.mnemonic:
        start = b.and_(e.scalar(pointer, 64), counted)
        return ScalarMemory(e, b.add(start, offset), None)
    if "ioffset" in i.fields:
        raise NotNative("buffer loads with signed offsets")
    start = b.and_(b.and_(e.scalar(pointer, 64), I64(0xFFFF_FFFF_FFFF)), counted)
    stride = b.and_(b.lshr(e.scalar(pointer, 32, 1), _i32(16)), _i32(0x3FFF))
    records = b.zext(e.scalar(pointer, 32, 2), I64)
    step = b.select(b.icmp_unsigned("==", stride, _i32(0)), _i32(1), stride)
    limit = b.add(start, b.mul(records, b.zext(step, I64)))
    return ScalarMemory(e, b.add(start, offset), limit)


def _i32(value: int) -> Value:
    from mockgpu.machine.native.emitter import I32

    return I32(value)
