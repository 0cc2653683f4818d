"""Loads and stores of many lanes, and of one: how addresses are checked and which host access they become.

In this order: neighbouring lanes at neighbouring addresses (one wide access), all lanes at one address, gather and
scatter. Whatever faults, and whatever is too rare to be worth code, is left to Python before anything has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from mockgpu.machine.native import bounds, lanes_moved, patterns
from mockgpu.machine.native.emitter import I1, I8, I32, I64, PTR, Emitter
from mockgpu.machine.native.lanes_moved import interleaved, joined, order, padded
from mockgpu.machine.native.layout import READ, WRITE, Reason
from mockgpu.pcode.llvm.float_env import any_lane
from mockgpu.pcode.llvm.values import Value, broadcast, constant, lanes_of, like, resize, same

#: A way to load: its name, whether it can be gone (an i1, or a function that emits it), and what emits it.
_Way: TypeAlias = "tuple[str, Value | Callable[[], Value], Callable[[], list[Value]]]"


class Access:
    """Emits accesses to flat memory for one instruction."""

    def __init__(self, e: Emitter):
        self.e, self.lanes = e, e.lanes
        self.features = e.features

    @property
    def b(self) -> ir.IRBuilder:
        return self.e.b

    def bail(self, cond: Value) -> None:
        """Leave the instruction to Python where ``cond`` (an i1) holds."""
        with self.e.unlikely(cond):
            self.e.exit(Reason.CALLOUT)

    # -- checks -----------------------------------------------------------------------------------------------

    def _range(self, access: int) -> tuple[Value, Value]:
        name = "read" if access == READ else "write"
        return self.e.get_context(f"{name}_lo"), self.e.get_context(f"{name}_hi")

    def check_range(self, first: Value, end: Value, access: int, skip: Value | None = None) -> None:
        """Leave unless all bytes from ``first`` to ``end`` allow the access, or ``skip`` holds."""
        b = self.b
        low, high = self._range(access)
        inside = b.and_(b.icmp_unsigned(">=", first, low), b.icmp_unsigned("<=", end, high))
        inside = b.and_(inside, b.icmp_unsigned("<=", first, end))
        miss = b.not_(inside)
        if skip is not None:
            miss = b.and_(miss, b.not_(skip))
        with self.e.unlikely(miss):
            allowed = b.call(bounds.lookup(self.e.module), [self.e.context, first, end, I64(access)])
            self.bail(b.not_(allowed))

    def check_lanes(self, addr: Value, size: int, active: Value, access: int) -> None:
        """Leave unless every active lane may access ``size`` bytes at its address."""
        b = self.b
        low, high = self._range(access)
        end = b.add(addr, same(addr, size))
        inside = b.icmp_unsigned(">=", addr, broadcast(b, low, self.lanes))
        inside = b.and_(inside, b.icmp_unsigned("<=", end, broadcast(b, high, self.lanes)))
        inside = b.and_(inside, b.icmp_unsigned("<", addr, end))
        missing = b.and_(active, b.not_(inside))
        with self.e.unlikely(any_lane(self, missing)):
            b.store(addr, self.e.context_at("lane_addresses"), align=8)
            bits = resize(b, self.e.packed(active), 64)
            allowed = b.call(bounds.check(self.e.module), [self.e.context, bits, I64(size), I64(access)])
            self.bail(b.not_(allowed))

    # -- many lanes -------------------------------------------------------------------------------------------

    def _is_row(self, addr: Value, step: int, active: Value) -> tuple[Value, Value]:
        """(whether active lanes access consecutive places ``step`` bytes apart, the address of lane 0)."""
        b = self.b
        first = b.extract_element(addr, I32(0))
        row = ir.Constant(addr.type, [k * step for k in range(self.lanes)])
        wrong = b.icmp_unsigned("!=", addr, b.add(broadcast(b, first, self.lanes), row))
        wrong = b.and_(wrong, active)
        lane0 = b.extract_element(active, I32(0))
        return b.and_(lane0, b.not_(any_lane(self, wrong))), first

    def load(self, addr: Value, bits: int, active: Value, dwords: int = 1, limit: Value | None = None) -> list[Value]:
        """``dwords`` values of ``bits`` bits from consecutive places of every active lane; the others get 0.

        ``addr`` is <lanes x i64>. Without ``limit`` the addresses are checked against the mappings.
        """
        b, size = self.b, bits // 8
        addr = broadcast(b, addr, self.lanes)
        row, first = self._is_row(addr, size * dwords, active)
        ways: list[_Way] = [("row", row, lambda: self._row_values(first, bits, dwords, active))]
        if bits == 32:
            ways += self._grouped(addr, dwords, active)
        done = b.append_basic_block("loaded")
        results: list[tuple[ir.Block, list[Value]]] = []
        for number, (name, holds, values) in enumerate(ways):
            taken, other = b.append_basic_block(name), b.append_basic_block("not_" + name)
            b.cbranch(holds() if callable(holds) else holds, taken, other)
            b.position_at_end(taken)
            if limit is None and number == 0:
                self._check_row(first, size * dwords, active, READ)
            elif limit is None:
                self.check_lanes(addr, size * dwords, active, READ)
            found = values()
            results.append((b.block, found))
            b.branch(done)
            b.position_at_end(other)
        if limit is None:
            self.check_lanes(addr, size * dwords, active, READ)
        scattered = self._collect(addr, dwords, active) if bits == 32 else [self._gather(addr, bits, active)]
        results.append((b.block, scattered))
        b.branch(done)
        b.position_at_end(done)
        return [_joined_values(b, results, k) for k in range(dwords)]

    def load_patterned(self, base: Value, offset: Value, key: object, dwords: int) -> list[Value]:
        """Dwords of all lanes at ``base`` plus the uniform ``offset``; ``key`` tells one base from another.

        For code in which all lanes are active and earlier accesses may have found out the pattern.
        """
        b, e, n = self.b, self.e, self.lanes
        size = 4 * dwords
        pattern = self._pattern(base, key)
        row = patterns.row_of(e, pattern, size)
        self._check_pattern(pattern, offset, size, READ)
        other = b.select(pattern.periodic, I32(patterns.PERIODIC), I32(patterns.OTHER))
        kind = b.select(row, I32(patterns.ROW), b.select(pattern.uniform, I32(patterns.UNIFORM), other))
        names = ("row", "uniform", "periodic", "other")
        blocks = [b.append_basic_block(name) for name in names]
        done = b.append_basic_block("loaded")
        switch = b.switch(kind, blocks[patterns.OTHER])
        for number in range(patterns.OTHER):
            switch.add_case(I32(number), blocks[number])
        full = ir.Constant(ir.VectorType(I1, n), [1] * n)
        found: list[tuple[ir.Block, list[Value]]] = []
        for number, block in enumerate(blocks):
            b.position_at_end(block)
            if number == patterns.ROW:
                values = self._row_values(b.add(pattern.leaders[0], offset), 32, dwords, full)
            elif number == patterns.UNIFORM:
                words = patterns.load_group(e, pattern, range(0, n, 8), offset, dwords)
                values = patterns.spread_group(e, words, dwords, [k // 8 for k in range(n)])
            elif number == patterns.PERIODIC:
                words = patterns.load_group(e, pattern, range(8), offset, dwords)
                values = patterns.spread_group(e, words, dwords, [k % 8 for k in range(n)])
            else:
                values = self._collect(self._whole(base, offset), dwords, full)
            found.append((b.block, values))
            b.branch(done)
        b.position_at_end(done)
        return [_joined_values(b, found, k) for k in range(dwords)]

    def store_patterned(self, base: Value, offset: Value, key: object, values: list[Value]) -> None:
        """The same for a store of dwords."""
        b, e, n = self.b, self.e, self.lanes
        size = 4 * len(values)
        pattern = self._pattern(base, key)
        row = patterns.row_of(e, pattern, size)
        self._check_pattern(pattern, offset, size, WRITE)
        values = [broadcast(b, v, n) for v in values]
        full = ir.Constant(ir.VectorType(I1, n), [1] * n)
        with b.if_else(row) as (then, otherwise):
            with then:
                self._store_row(b.add(pattern.leaders[0], offset), values, 32, full)
            with otherwise:
                self._distribute(self._whole(base, offset), values, 32, full)

    def _pattern(self, base: Value, key: object) -> patterns.Pattern:
        memo = self.e.memo
        assert memo is not None
        if key not in memo:
            memo[key] = patterns.pattern_of(self.e, base)
        found = memo[key]
        assert isinstance(found, patterns.Pattern)
        return found

    def _check_pattern(self, pattern: patterns.Pattern, offset: Value, size: int, access: int) -> None:
        b = self.b
        first = b.add(pattern.low, offset)
        self.check_range(first, b.add(b.add(pattern.high, offset), I64(size)), access)

    def _whole(self, base: Value, offset: Value) -> Value:
        """The addresses of all lanes."""
        b = self.b
        return b.add(resize(b, base, 64), broadcast(b, offset, self.lanes))

    def _grouped(self, addr: Value, dwords: int, active: Value) -> list[_Way]:
        """Groups of eight active lanes that load from one address each, or all from the same eight addresses."""
        b, n = self.b, self.lanes

        def lead() -> Value:
            return b.shuffle_vector(addr, addr, order([lane & ~7 for lane in range(n)]))

        def all_lanes(flags: Value) -> Value:
            both = self.e.packed(b.and_(flags, active))
            return b.icmp_unsigned("==", both, same(both, -1))

        def is_uniform() -> Value:
            return all_lanes(b.icmp_unsigned("==", addr, lead()))

        def is_periodic() -> Value:
            return all_lanes(
                b.icmp_unsigned("==", addr, b.shuffle_vector(addr, addr, order([k & 7 for k in range(n)])))
            )

        def load(lanes: range) -> Value:
            """The dwords of some lanes, lane after lane."""
            kind = ir.VectorType(I32, dwords) if dwords > 1 else I32
            pointers = [b.inttoptr(b.extract_element(addr, I32(lane)), PTR) for lane in lanes]
            return joined(b, padded(b, [b.load(pointer, typ=kind, align=1) for pointer in pointers]))

        each = 4 if dwords == 3 else dwords

        def uniform() -> list[Value]:
            words = load(range(0, n, 8))
            orders = [[lane // 8 * each + k for lane in range(n)] for k in range(dwords)]
            return [b.shuffle_vector(words, words, order(row)) for row in orders]

        def periodic() -> list[Value]:
            words = load(range(8))
            orders = [[lane % 8 * each + k for lane in range(n)] for k in range(dwords)]
            return [b.shuffle_vector(words, words, order(row)) for row in orders]

        return [("uniform", is_uniform, uniform), ("periodic", is_periodic, periodic)]

    def _check_row(self, first: Value, step: int, active: Value, access: int) -> None:
        """The row from lane 0 to the last active lane."""
        b = self.b
        bits = self.e.packed(active)
        last = b.sub(same(bits, self.lanes - 1), b.ctlz(bits, I1(1)))
        end = b.add(first, b.mul(b.add(resize(b, last, 64), I64(1)), I64(step)))
        self.check_range(first, end, access)

    def _row_values(self, first: Value, bits: int, dwords: int, active: Value) -> list[Value]:
        b, n = self.b, self.lanes
        pointer = b.inttoptr(first, PTR)
        if dwords == 1:
            return [self._masked_load(pointer, bits, active)]
        flat = b.shuffle_vector(active, active, order([k // dwords for k in range(n * dwords)]))
        whole = self._masked_load(pointer, bits, flat)
        return [b.shuffle_vector(whole, whole, order(range(k, n * dwords, dwords))) for k in range(dwords)]

    def _masked_load(self, pointer: Value, bits: int, active: Value) -> Value:
        n = lanes_of(active)
        kind = ir.VectorType(ir.IntType(bits), n)
        name = f"llvm.masked.load.v{n}i{bits}.p0"
        function = self.e.intrinsic(name, ir.FunctionType(kind, [PTR, I32, active.type, kind]))
        return self.b.call(function, [pointer, I32(1), active, _zero(kind)])

    def _gather(self, addr: Value, bits: int, active: Value) -> Value:
        """Values of 8, 16 or 64 bits."""
        if bits < 32:
            return self._gather_small(addr, bits, active)
        low, high = self._collect(addr, 2, active)
        kind = ir.VectorType(I64, self.lanes)
        return self.b.or_(self.b.zext(low, kind), self.b.shl(self.b.zext(high, kind), same(_zero(kind), 32)))

    def _lane_addresses(self, addr: Value, active: Value) -> None:
        """Leave the addresses in the context; lanes that take no part get that of a spare place there.

        Scalar accesses are faster than gathers and scatters, which hosts had to slow down.
        """
        b, e = self.b, self.e
        spare = b.ptrtoint(e.context_at("lane_values"), I64)
        places = b.select(active, addr, broadcast(b, spare, self.lanes))
        b.store(places, e.context_at("lane_addresses"), align=8)

    def _lane_data(self, k: int) -> Value:
        """Pointer to where the context holds dword ``k`` of every lane."""
        return self.b.gep(self.e.context_at("lane_data"), [I32(4 * self.lanes * k)], source_etype=I8)

    def _collect(self, addr: Value, dwords: int, active: Value) -> list[Value]:
        """``dwords`` consecutive dwords of every lane; the others get 0, whatever the spare place holds."""
        self._lane_addresses(addr, active)
        self.b.call(lanes_moved.collect(self.e.module, self.lanes, dwords), [self.e.context])
        kind = ir.VectorType(I32, self.lanes)
        found = [self.b.load(self._lane_data(k), typ=kind, align=4) for k in range(dwords)]
        return [self.b.select(active, value, _zero(kind)) for value in found]

    def _gather_small(self, addr: Value, bits: int, active: Value) -> Value:
        """Bytes and words, lane by lane."""
        b, e, n = self.b, self.e, self.lanes
        b.store(addr, e.context_at("lane_addresses"), align=8)
        b.store(_zero(ir.VectorType(I64, n)), e.context_at("lane_values"), align=8)
        addresses, values = e.context_at("lane_addresses"), e.context_at("lane_values")

        def step(lane: Value) -> None:
            at = b.load(b.gep(addresses, [lane], source_etype=I64), typ=I64)
            found = b.load(b.inttoptr(at, PTR), typ=ir.IntType(bits), align=1)
            b.store(b.zext(found, I64), b.gep(values, [lane], source_etype=I64))

        self.each_lane(e.packed(active), step)
        return b.trunc(b.load(values, typ=ir.VectorType(I64, n), align=8), ir.VectorType(ir.IntType(bits), n))

    def store(
        self, addr: Value, values: list[Value], bits: int, active: Value, *, checked: bool = True
    ) -> None:  # fmt: skip
        """Values of ``bits`` bits to consecutive places of every active lane; of equal addresses the last lane wins."""
        b, size, count = self.b, bits // 8, len(values)
        addr = broadcast(b, addr, self.lanes)
        values = [broadcast(b, v, self.lanes) for v in values]
        row, first = self._is_row(addr, size * count, active)
        done = b.append_basic_block("stored")
        wide, scattered = b.append_basic_block("row"), b.append_basic_block("scattered")
        b.cbranch(row, wide, scattered)
        b.position_at_end(wide)
        if checked:
            self._check_row(first, size * count, active, WRITE)
        self._store_row(first, values, bits, active)
        b.branch(done)
        b.position_at_end(scattered)
        if checked:
            self.check_lanes(addr, size * count, active, WRITE)
        if bits < 32:
            self._scatter_small(addr, values[0], bits, active)
        else:
            self._distribute(addr, values, bits, active)
        b.branch(done)
        b.position_at_end(done)

    def _store_row(self, first: Value, values: list[Value], bits: int, active: Value) -> None:
        b, n, count = self.b, self.lanes, len(values)
        pointer = b.inttoptr(first, PTR)
        whole = values[0]
        if count > 1:
            whole = interleaved(b, values, n)
            active = b.shuffle_vector(active, active, order([k // count for k in range(n * count)]))
        kind = whole.type
        name = f"llvm.masked.store.v{n * count}i{bits}.p0"
        function = self.e.intrinsic(name, ir.FunctionType(ir.VoidType(), [kind, PTR, I32, active.type]))
        b.call(function, [whole, pointer, I32(1), active])

    def _distribute(self, addr: Value, values: list[Value], bits: int, active: Value) -> None:
        """Values of every lane to consecutive places, lane after lane."""
        b = self.b
        if bits == 64:
            kind = ir.VectorType(I32, self.lanes)
            high = [b.trunc(b.lshr(v, same(v, 32)), kind) for v in values]
            values = [part for v, h in zip(values, high, strict=True) for part in (b.trunc(v, kind), h)]
        self._lane_addresses(addr, active)
        for k, value in enumerate(values):
            b.store(value, self._lane_data(k), align=4)
        b.call(lanes_moved.distribute(self.e.module, self.lanes, len(values)), [self.e.context])

    def _scatter_small(self, addr: Value, value: Value, bits: int, active: Value) -> None:
        b, e, n = self.b, self.e, self.lanes
        addresses, values = e.context_at("lane_addresses"), e.context_at("lane_values")
        b.store(addr, addresses, align=8)
        b.store(b.zext(value, ir.VectorType(I64, n)), values, align=8)

        def step(lane: Value) -> None:
            at = b.load(b.gep(addresses, [lane], source_etype=I64), typ=I64)
            new = b.load(b.gep(values, [lane], source_etype=I64), typ=I64)
            b.store(b.trunc(new, ir.IntType(bits)), b.inttoptr(at, PTR), align=1)

        self.each_lane(e.packed(active), step)

    def each_lane(self, mask: Value, step: object) -> None:
        """Emit a loop over the lanes of a mask, in ascending order; ``step(lane)`` emits its body (lane an i64)."""
        b = self.b
        before = b.block
        head, body, out = (b.append_basic_block(n) for n in ("lanes", "lane", "after"))
        b.branch(head)
        b.position_at_end(head)
        left = b.phi(mask.type)
        left.add_incoming(mask, before)
        b.cbranch(b.icmp_unsigned("==", left, mask.type(0)), out, body)
        b.position_at_end(body)
        lane = resize(b, b.cttz(left, I1(1)), 64)
        step(lane)  # type: ignore[operator]
        left.add_incoming(b.and_(left, b.sub(left, left.type(1))), b.block)
        b.branch(head)
        b.position_at_end(out)

    # -- one address ------------------------------------------------------------------------------------------

    def load_one(self, addr: Value, bits: int) -> Value:
        """A value from one address that has been checked."""
        return self.b.load(self.b.inttoptr(addr, PTR), typ=ir.IntType(bits), align=1)


def _joined_values(b: ir.IRBuilder, found: list[tuple[ir.Block, list[Value]]], k: int) -> Value:
    """Value ``k`` of whichever way was taken."""
    phi = b.phi(found[0][1][k].type)
    for block, values in found:
        phi.add_incoming(values[k], block)
    return phi


def _zero(kind: ir.VectorType) -> ir.Constant:
    return ir.Constant(kind, [0] * kind.count)


__all__ = ["I8", "Access", "constant", "like"]
