"""Atomic memory instructions: one lane after the other, lower lanes first, each by a compare-and-swap loop."""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm

from mockgpu.machine.native.context import NativeContext
from mockgpu.machine.native.emitter import I64, PTR, Emitter
from mockgpu.machine.native.layout import READ, WRITE
from mockgpu.machine.native.memory_context import MemoryContext
from mockgpu.pcode import ir
from mockgpu.pcode.llvm.float_env import any_lane
from mockgpu.pcode.llvm.program import emit_program
from mockgpu.pcode.llvm.values import NotNative, Value, broadcast, container, resize, same

_LDS = "lds"


class LaneContext(NativeContext):
    """One lane of an atomic instruction: every operand is the lane's own, uniform.

    ``base`` is what is added to addresses to get host addresses. With ``shared`` memory the value is read once and the
    new one put in its place by one compare-and-swap at the end: other threads may be at work there.
    """

    def __init__(self, e: Emitter, whole: MemoryContext, lane: Value, addr: Value, base: Value, shared: bool):
        super().__init__(e, vector=False)
        self.mode = whole.mode
        self.lane, self.base, self.shared = lane, base, shared
        self.start: llvm.Block | None = None
        self.old: Value | None = None
        self.new: Value | None = None
        self.pointer: Value | None = None
        self.reads["ADDR"] = lambda bits: resize(self.b, addr, container(bits))
        for o in e.instruction.operands:
            name = {"data": "DATA", "vdata": "DATA", "vsrc": "DATA", "data0": "DATA", "data1": "DATA2"}.get(o.field)
            if name is not None and o.is_src:
                self._bind(name, e.param(o.field), o.bits)
            if o.field == "vdst" and o.is_dst:
                self._bind_result(e.param(o.field), o.bits)
        if "RETURN_DATA" not in self.writes:
            self.writes["RETURN_DATA"] = _drop

    def _at(self, offset: Value, k: int) -> Value:
        first = self.e.vector_at(offset, k)
        return self.b.gep(first, [self.lane], source_etype=llvm.IntType(32))

    def _dword(self, offset: Value, k: int) -> Value:
        return self.b.load(self._at(offset, k), typ=llvm.IntType(32), align=4)

    def _bind(self, name: str, offset: Value, bits: int) -> None:
        count = -(-bits // 32)

        def read(wanted: int) -> Value:
            width = container(max(wanted, 32))
            value: Value = resize(self.b, self._dword(offset, 0), width)
            for k in range(1, min(count, width // 32)):
                part = resize(self.b, self._dword(offset, k), width)
                value = self.b.or_(value, self.b.shl(part, same(part, 32 * k)))
            return resize(self.b, value, container(wanted))

        self.reads[name] = read
        for k in range(count):
            self._bind_part(name, offset, k)

    def _bind_part(self, name: str, offset: Value, k: int) -> None:
        self.reads[f"{name}.{k}"] = lambda bits: resize(self.b, self._dword(offset, k), container(bits))

    def _bind_result(self, offset: Value, bits: int) -> None:
        def write(value: Value, wide: int) -> None:
            value = resize(self.b, value, container(max(wide, 32)))
            for k in range(-(-max(wide, 32) // 32)):
                part = self.b.lshr(value, same(value, 32 * k)) if k else value
                self.b.store(resize(self.b, part, 32), self._at(offset, k), align=4)

        self.writes["RETURN_DATA"] = write
        self.reads["RETURN_DATA"] = lambda wanted: resize(self.b, self._dword(offset, 0), container(wanted))
        for k in range(-(-bits // 32)):
            self._bind_part("RETURN_DATA", offset, k)
            self._bind_result_part(offset, k)

    def _bind_result_part(self, offset: Value, k: int) -> None:
        self.writes[f"RETURN_DATA.{k}"] = lambda value, bits: self.b.store(
            resize(self.b, value, 32), self._at(offset, k), align=4
        )

    def begin(self) -> None:
        """The place to which a lost race goes back."""
        if self.shared:
            self.start = self.b.append_basic_block("again")
            self.b.branch(self.start)
            self.b.position_at_end(self.start)

    def load(self, addr: Value, bits: int, mask: Value | None) -> Value:
        """Memory of the lane."""
        if mask is not None:
            raise NotNative("an atomic under a condition")
        known = self.old if self.new is None else self.new
        if self.shared and known is not None:
            return resize(self.b, known, container(bits))
        pointer = self._pointer(addr)
        if self.shared:
            value: Value = self.b.load_atomic(pointer, "monotonic", bits // 8, typ=llvm.IntType(bits))
            self.old, self.pointer = value, pointer
        else:
            value = self.b.load(pointer, typ=llvm.IntType(bits), align=1)
        return resize(self.b, value, container(bits))

    def store(self, addr: Value, value: Value, bits: int, mask: Value | None) -> None:
        """Put the new value in the place of the old one; with shared memory when the instruction ends."""
        b, new = self.b, resize(self.b, value, bits)
        if not self.shared:
            if mask is not None:  # DS_CONDXCHG32: its address is not that by which lanes are kept apart
                raise NotNative("an atomic under a condition")
            b.store(new, self._pointer(addr), align=1)
            return
        if self.old is None:
            raise NotNative("an atomic that does not read")
        if mask is not None:
            before = self.old if self.new is None else self.new
            new = b.select(mask, new, resize(b, before, bits))
        self.new = new

    def _pointer(self, addr: Value) -> Value:
        return self.b.inttoptr(self.b.add(resize(self.b, addr, 64), self.base), PTR)

    def swap(self) -> None:
        """Write the new value if memory still holds the old one, else do it all again."""
        if self.new is None:
            return
        b, old = self.b, self.old
        assert old is not None and self.start is not None
        pair = b.cmpxchg(self.pointer, old, resize(b, self.new, old.type.width), "seq_cst", "monotonic")
        won = b.append_basic_block("won")
        b.cbranch(b.extract_value(pair, 1), won, self.start)
        b.position_at_end(won)


def _drop(value: Value, bits: int) -> None:
    """An instruction that returns nothing."""


def emit_atomic(ctx: MemoryContext, program: ir.Program, size: int) -> None:
    """The loop over active lanes. Misaligned addresses, and LDS out of range, are left to Python."""
    e, b = ctx.e, ctx.b
    addr, active, n = ctx.addr, ctx.exec(), ctx.wave_size
    two = "OFFSET1" in program.reads
    if not two:
        odd = b.icmp_unsigned("!=", b.and_(addr, same(addr, size - 1)), same(addr, 0))
        ctx.access.bail(any_lane(ctx, b.and_(active, odd)))
    base: Any = I64(0)
    if ctx.space == _LDS:
        base = e.header("lds", I64)
        furthest = 0xFFFF + 255 * 64 * size if two else 0xFFFF
        _check_lds(ctx, program, size, furthest)
    else:
        place, _ = ctx.place(addr, size, active)
        ctx.access.check_lanes(place, size, active, READ)
        ctx.access.check_lanes(place, size, active, WRITE)
        addr = place
    b.store(addr, e.context_at("lane_addresses"), align=8)
    addresses = e.context_at("lane_addresses")

    def step(lane: Value) -> None:
        own = b.load(b.gep(addresses, [lane], source_etype=I64), typ=I64)
        one = LaneContext(e, ctx, lane, own, base, ctx.space != _LDS)
        one.begin()
        emit_program(program, one)
        one.swap()
        one.commit()

    ctx.access.each_lane(e.packed(active), step)
    e.next()
    assert n


def _check_lds(ctx: MemoryContext, program: ir.Program, size: int, furthest: int) -> None:
    """Leave where an address, with the largest offset that the instruction has, passes the end of LDS."""
    e, b = ctx.e, ctx.b
    top: Value = I64(size)
    if e.has_param("offset0"):
        low, high = (b.zext(e.param(name), I64) for name in ("offset0", "offset1"))
        if "OFFSET1" in program.reads:
            larger = b.select(b.icmp_unsigned(">", low, high), low, high)
            top = b.add(b.mul(larger, I64(64 * size)), I64(size))
        else:
            top = b.add(b.or_(low, b.shl(high, I64(8))), I64(size))
    end = b.add(ctx.addr, broadcast(b, top, ctx.wave_size))
    outside = b.icmp_unsigned(">", end, broadcast(b, e.header("lds_bytes", I64), ctx.wave_size))
    ctx.access.bail(any_lane(ctx, b.and_(ctx.exec(), outside)))
    assert furthest
