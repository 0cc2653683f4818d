"""Vector memory: FLAT, GLOBAL, SCRATCH and DS loads, stores and atomics. Twin of flat, lds and memory_context."""

from __future__ import annotations

from typing import TypeAlias

from llvmlite import ir as llvm

from mockgpu.isa.instruction import Operand
from mockgpu.isa.registers import Kind
from mockgpu.machine import lds, lds_count, transpose
from mockgpu.machine.burst import burst_of
from mockgpu.machine.flat import _CACHE_CONTROL, _FLAT_FORMATS, _GEOMETRY_REGISTER, _GLOBAL_ONLY, _SCRATCH_FORMATS
from mockgpu.machine.lds_load import is_flat_load_to_lds
from mockgpu.machine.memory_context import _MOST_DWORDS, access_bytes, is_atomic
from mockgpu.machine.native.access import Access
from mockgpu.machine.native.context import NativeContext
from mockgpu.machine.native.emit_atomic import emit_atomic
from mockgpu.machine.native.emitter import I64, Emitter
from mockgpu.machine.operands import APERTURE_SIZE, PRIVATE_APERTURE, SHARED_APERTURE
from mockgpu.machine.semantics import opcode_program
from mockgpu.pcode import ir
from mockgpu.pcode.llvm.float_env import any_lane
from mockgpu.pcode.llvm.program import emit_program
from mockgpu.pcode.llvm.values import NotNative, Value, broadcast, constant, container, resize, same
from mockgpu.pcode.numeric import Round

GLOBAL, FLAT, SCRATCH, LDS = "global", "flat", "scratch", "lds"


class MemoryContext(NativeContext):
    """``addr`` is the byte address of every lane, <lanes x i64>; ``space`` what it leads to."""

    def __init__(self, e: Emitter, space: str, addr: Value):
        super().__init__(e, vector=True)
        self.mode = self.mode.with_round(Round.NEAREST_EVEN)  # float atomics do not see the rounding mode
        self.space, self.addr = space, addr
        self.access = Access(e)
        self.burst: tuple[int, str] | None = None
        self.parts: Parts | None = None
        self.reads["ADDR"] = lambda bits: resize(self.b, self.addr, container(bits))

    def bind_data(self, name: str, operand: Operand) -> None:
        """A vector source, as a whole and dword by dword."""
        offset = self.e.param(operand.field)
        whole = self.vector_reader(offset)
        self.reads[name] = lambda bits: resize(self.b, whole(max(bits, 32)), container(bits))
        for k in range(_MOST_DWORDS):
            self._bind_part(name, offset, k)

    def _bind_part(self, name: str, offset: Value, k: int) -> None:
        self.reads[f"{name}.{k}"] = lambda bits: resize(self.b, self.e.vector(offset, k), container(bits))

    def bind_result(self, operand: Operand | None) -> None:
        """The vector registers that take RETURN_DATA; None when the instruction returns nothing."""
        self.writes["RETURN_DATA"] = lambda value, bits: None
        self.reads["RETURN_DATA"] = self.fixed(0)
        if operand is None or not operand.is_dst:
            return
        offset = self.e.param(operand.field)
        whole, write = self.vector_reader(offset), self.vector_writer(offset)
        self.reads["RETURN_DATA"] = lambda bits: resize(self.b, whole(max(bits, 32)), container(bits))
        self.writes["RETURN_DATA"] = lambda value, bits: write(
            resize(self.b, value, container(max(bits, 32))), max(bits, 32)
        )
        for k in range(_MOST_DWORDS):
            self._bind_part("RETURN_DATA", offset, k)
            self._bind_result_part(offset, k)

    def _bind_result_part(self, offset: Value, k: int) -> None:
        self.writes[f"RETURN_DATA.{k}"] = lambda value, bits: self.e.set_vector(
            offset, resize(self.b, value, 32), self.exec(), k
        )

    # -- memory -----------------------------------------------------------------------------------------------

    def active(self, mask: Value | None) -> Value:
        """The lanes that take part."""
        if mask is None:
            return self.exec()
        return self.b.and_(self.exec(), broadcast(self.b, mask, self.wave_size))

    def load(self, addr: Value, bits: int, mask: Value | None) -> Value:
        """``bits`` (8 to 64) of memory for the active lanes; the others get 0."""
        count, operand = self.burst or (1, "")
        if self._is_patterned(addr, bits, mask):
            assert self.parts is not None
            first, *others = self.access.load_patterned(*self.parts, count)
            for k, value in enumerate(others, 1):
                self.write(f"{operand}.{k}", value, 32, None)
            return first
        active = self.active(mask)
        place, active = self.place(addr, bits // 8 * count, active)
        limit = I64(0) if self.space == LDS else None
        first, *others = self.access.load(place, bits, active, count, limit)
        for k, value in enumerate(others, 1):
            self.write(f"{operand}.{k}", value, 32, None)
        return resize(self.b, first, container(bits))

    def store(self, addr: Value, value: Value, bits: int, mask: Value | None) -> None:
        """Store ``bits`` (8 to 64) for the active lanes."""
        count, operand = self.burst or (1, "")
        values = [resize(self.b, value, bits)]
        values += [resize(self.b, self.read(f"{operand}.{k}", 32), 32) for k in range(1, count)]
        if self._is_patterned(addr, bits, mask):
            assert self.parts is not None
            self.access.store_patterned(*self.parts, values)
            return
        active = self.active(mask)
        place, active = self.place(addr, bits // 8 * count, active, stores=True)
        self.access.store(place, values, bits, active, checked=self.space != LDS)

    def _is_patterned(self, addr: Value, bits: int, mask: Value | None) -> bool:
        """Whether the access is one of dwords at the instruction's address, in code that remembers patterns."""
        known = self.parts is not None and self.e.memo is not None
        return known and addr is self.addr and bits == 32 and mask is None and self.space == GLOBAL

    def place(self, addr: Value, size: int, active: Value, *, stores: bool = False) -> tuple[Value, Value]:
        """Host addresses, and the lanes that access them. Leaves the rare cases to Python."""
        addr = broadcast(self.b, addr, self.wave_size)
        if self.space == FLAT:
            self._leave_apertures(addr, active)
        if self.space == SCRATCH:
            return self._swizzled(addr, size, active), active
        if self.space == LDS:
            return self._in_lds(addr, size, active, stores)
        return addr, active

    def _leave_apertures(self, addr: Value, active: Value) -> None:
        """Addresses of LDS and scratch in the flat space."""
        b = self.b
        high = b.lshr(addr, same(addr, 32))
        shared = b.icmp_unsigned("==", high, same(high, SHARED_APERTURE // APERTURE_SIZE))
        private = b.icmp_unsigned("==", high, same(high, PRIVATE_APERTURE // APERTURE_SIZE))
        self.access.bail(any_lane(self, b.and_(b.or_(shared, private), active)))

    def _swizzled(self, addr: Value, size: int, active: Value) -> Value:
        """Dword d of lane l lies at wave base + (d * lanes + l) * 4. Accesses are whole dwords inside the limit."""
        b, e, n = self.b, self.e, self.wave_size
        at = b.and_(addr, same(addr, 0xFFFFFFFF))
        limit = b.udiv(e.header("scratch_bytes", I64), I64(n))
        outside = b.icmp_unsigned(">", b.add(at, same(at, size)), broadcast(b, limit, n))
        step = min(size, 4)
        odd = b.icmp_unsigned("!=", b.and_(at, same(at, step - 1)), same(at, 0))
        self.access.bail(any_lane(self, b.and_(active, b.or_(outside, odd))))
        lane = llvm.Constant(at.type, [4 * k for k in range(n)])
        dword = b.mul(b.lshr(at, same(at, 2)), same(at, 4 * n))
        base = broadcast(b, e.header("scratch", I64), n)
        return b.add(b.add(base, dword), b.add(lane, b.and_(at, same(at, 3))))

    def _in_lds(self, addr: Value, size: int, active: Value, stores: bool) -> tuple[Value, Value]:
        """Loads from outside the allocation give 0; stores there are left to Python."""
        b, e, n = self.b, self.e, self.wave_size
        end = b.add(addr, same(addr, size))
        inside = b.icmp_unsigned("<=", end, broadcast(b, e.header("lds_bytes", I64), n))
        if stores or self.burst is not None:
            self.access.bail(any_lane(self, b.and_(active, b.not_(inside))))
        else:
            active = b.and_(active, inside)
        return b.add(addr, broadcast(b, e.header("lds", I64), n)), active


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


#: An address in parts: what differs between lanes, what is added to all of them, and what tells one from another.
Parts: TypeAlias = "tuple[Value, Value, object]"


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
    if lds.graphics_or_global(i.mnemonic) is not None or i.mnemonic in lds._LANE_OPS:
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
