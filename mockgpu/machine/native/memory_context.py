"""The context of vector memory instructions: addresses, data registers, spaces. Twin of machine/memory_context.py."""

from __future__ import annotations

from typing import TypeAlias

from llvmlite import ir as llvm

from mockgpu.isa.instruction import Operand
from mockgpu.machine.memory_context import _MOST_DWORDS
from mockgpu.machine.native.access import Access
from mockgpu.machine.native.context import NativeContext
from mockgpu.machine.native.emitter import I64, Emitter
from mockgpu.machine.operands import APERTURE_SIZE, PRIVATE_APERTURE, SHARED_APERTURE
from mockgpu.pcode.llvm.float_env import any_lane
from mockgpu.pcode.llvm.values import Value, broadcast, container, resize, same
from mockgpu.pcode.numeric import Round

#: An address in parts: what differs between lanes, what is added to all of them, and what tells one from another.
Parts: TypeAlias = "tuple[Value, Value, object]"

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
