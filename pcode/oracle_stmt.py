"""Statements of the IR as closures, and the same statements one by one for watching."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mockgpu.pcode import ir, oracle_ops
from mockgpu.pcode import numeric as num
from mockgpu.pcode.numeric import Bits, Mask, quiet_ieee
from mockgpu.pcode.oracle_expr import _ROUND_MODE, ExprCompiler, both, single
from mockgpu.pcode.oracle_state import CompileError, Eval, Exec, LoopLimitError, OracleError, State

#: Turns of a While after which we call it endless; the longest loop of the pseudocode makes 64.
MAX_TURNS = 4096

#: Writes a value to a place under the state's predicate.
Store = Callable[[State, Bits], None]


@dataclass(slots=True)
class Node:
    """A compiled statement. ``steps`` is None for one without statements inside."""

    statement: ir.Stmt
    run: Exec
    steps: Callable[[State], Iterator[ir.Stmt]] | None = None


class Block:
    """Statements in order."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes
        self.run: Exec = _sequence(tuple(n.run for n in nodes))

    def steps(self, s: State) -> Iterator[ir.Stmt]:
        """Yield each statement, then run it."""
        for node in self.nodes:
            yield node.statement
            if node.steps is not None:
                yield from node.steps(s)
            else:
                with quiet_ieee():
                    node.run(s)


def _sequence(runs: tuple[Exec, ...]) -> Exec:
    if len(runs) == 1:
        return runs[0]
    if len(runs) == 2:
        first, second = runs

        def two(s: State) -> None:
            first(s)
            second(s)

        return two

    def many(s: State) -> None:
        for run in runs:
            run(s)

    return many


def _drain(steps: Callable[[State, bool], Iterator[ir.Stmt]]) -> Exec:
    """The statement without stopping."""

    def run(s: State) -> None:
        for _ in steps(s, False):
            pass

    return run


def _body(block: Block, s: State, watch: bool) -> Iterator[ir.Stmt]:
    if watch:
        yield from block.steps(s)
    else:
        block.run(s)


def _quietly(cond: Eval, s: State, watch: bool) -> Bits:
    if not watch:
        return cond(s)
    with quiet_ieee():
        return cond(s)


class StmtCompiler(ExprCompiler):
    """Adds statements. ``loop_types`` are the types of loop variables."""

    def __init__(
        self,
        slots: dict[str, int],
        arrays: dict[str, int],
        cached: frozenset[str],
        flush: bool,
        loop_types: dict[str, ir.Type],
    ) -> None:
        super().__init__(slots, arrays, cached, flush)
        self.loop_types = loop_types

    def block(self, body: tuple[ir.Stmt, ...]) -> Block:
        """A sequence of statements."""
        return Block(tuple(self.statement(x) for x in body))

    def statement(self, x: ir.Stmt) -> Node:
        match x:
            case ir.Declare():
                return Node(x, self._declare(x))
            case ir.Assign():
                return Node(x, self._assign(x))
            case ir.Effect():
                return Node(x, self._effect(x))
            case ir.If():
                return self._if(x)
            case ir.For():
                return self._flow(x, self._for(x))
            case ir.While():
                return self._flow(x, self._while(x))
        raise CompileError(f"not a statement: {x!r}")

    def _flow(self, x: ir.Stmt, steps: Callable[[State, bool], Iterator[ir.Stmt]]) -> Node:
        return Node(x, _drain(steps), lambda s: steps(s, True))

    # -- control ------------------------------------------------------------------------------------------------------

    def _if(self, x: ir.If) -> Node:
        """Both ways of running it are written out: a generator would cost more than what most arms do."""
        arms = [(self.compile(cond), self.block(body)) for cond, body in x.arms]
        orelse = self.block(x.orelse)

        def run(s: State) -> None:
            outer = s.mask
            try:
                for cond, body in arms:
                    taken, rest = _split(s.mask, cond(s))
                    if taken is not _NOBODY:
                        s.mask = taken
                        body.run(s)
                    if rest is _NOBODY:
                        return
                    s.mask = rest
                orelse.run(s)
            finally:
                s.mask = outer

        def steps(s: State) -> Iterator[ir.Stmt]:
            outer = s.mask
            try:
                for cond, body in arms:
                    taken, rest = _split(s.mask, _quietly(cond, s, True))
                    if taken is not _NOBODY:
                        s.mask = taken
                        yield from body.steps(s)
                    if rest is _NOBODY:
                        return
                    s.mask = rest
                yield from orelse.steps(s)
            finally:
                s.mask = outer

        return Node(x, run, steps)

    def _for(self, x: ir.For) -> Callable[[State, bool], Iterator[ir.Stmt]]:
        start, stop, body = self.compile(x.start), self.compile(x.stop), self.block(x.body)
        slot = self._slot(x.var)
        bits = self.loop_types.get(x.var, x.start.type).bits
        first_type, last_type = x.start.type, x.stop.type

        def steps(s: State, watch: bool) -> Iterator[ir.Stmt]:
            first = _bound(_quietly(start, s, watch), first_type, x.var)
            last = _bound(_quietly(stop, s, watch), last_type, x.var)
            for i in range(first, last + 1):
                s.locals[slot] = num.constant(bits, i & ((1 << bits) - 1))
                yield from _body(body, s, watch)

        return steps

    def _while(self, x: ir.While) -> Callable[[State, bool], Iterator[ir.Stmt]]:
        cond, body = self.compile(x.cond), self.block(x.body)

        def steps(s: State, watch: bool) -> Iterator[ir.Stmt]:
            outer = s.mask
            try:
                for _ in range(MAX_TURNS):
                    taken, _ = _split(s.mask, _quietly(cond, s, watch))
                    if taken is _NOBODY:
                        return
                    s.mask = taken
                    yield from _body(body, s, watch)
                raise LoopLimitError(f"a loop is still running after {MAX_TURNS} turns: {x.source or x.cond}")
            finally:
                s.mask = outer

        return steps

    # -- simple statements --------------------------------------------------------------------------------------------

    def _declare(self, x: ir.Declare) -> Exec:
        zero = num.constant(x.type.bits, 0)
        name = x.name
        if x.length is not None:
            length = x.length

            def fresh(s: State) -> None:
                s.arrays[name] = [zero] * length

            return fresh
        slot = self._slot(name)

        def clear(s: State) -> None:
            s.locals[slot] = zero

        return clear

    def _effect(self, x: ir.Effect) -> Exec:
        fn, args = x.call.fn, tuple(self.compile(a) for a in x.call.args)
        return lambda s: s.ctx.effect(fn, tuple(a(s) for a in args), s.mask)

    def _assign(self, x: ir.Assign) -> Exec:
        value, store = self.compile(x.value), self.store(x.target)
        wanted, given = x.target.type, x.value.type
        if wanted.bits != given.bits:
            raise CompileError(f"{given} assigned to {wanted}: {x.source or x.target}")
        if self.flush and self._is_float_operand(x.target) and not _is_arithmetic(x.value):
            fmt = num.format_of(wanted)
            return lambda s: store(s, num.flush_output(fmt, s.mode, value(s)))
        return lambda s: store(s, value(s))

    # -- targets ------------------------------------------------------------------------------------------------------

    def store(self, target: ir.Expr) -> Store:
        """The function that writes to ``target``."""
        match target:
            case ir.Operand():
                return self._to_operand(target)
            case ir.Local():
                return self._to_local(target)
            case ir.Element():
                return self._to_element(target)
            case ir.Bits():
                return self._to_bits(target)
            case ir.Bitcast() if target.type.bits == target.x.type.bits:
                return self.store(target.x)
            case ir.LaneBit():
                return self._to_lane_bit(target)
            case ir.Mem():
                addr, bits = self.address(target.addr), target.type.bits
                return lambda s, v: s.ctx.store(addr(s), v, bits, s.mask)
            case ir.Vgpr() | ir.Sgpr() | ir.HwReg():
                return self._to_register(target)
        raise CompileError(f"cannot be assigned: {target!r}")

    def _to_operand(self, target: ir.Operand) -> Store:
        name, bits = target.name, target.type.bits
        if name == _ROUND_MODE:
            return _set_round_mode
        return lambda s, v: s.ctx.write(name, v, bits, s.mask)

    def _to_local(self, target: ir.Local) -> Store:
        slot, zero = self._slot(target.name), num.constant(target.type.bits, 0)

        def put(s: State, v: Bits) -> None:
            if s.mask is not None:
                old = s.locals[slot]
                v = np.where(s.mask, v, zero if old is None else old)
            s.locals[slot] = v

        return put

    def _to_element(self, target: ir.Element) -> Store:
        name, index, length = target.name, self.compile(target.index), self.length(target.name)
        zero = num.constant(target.type.bits, 0)

        def put(s: State, v: Bits) -> None:
            items = s.arrays.setdefault(name, [zero] * length)
            at = index(s)
            one = single(at)
            if one is not None and one >= length:
                raise OracleError(f"element {one} of array {name}, which has {length}")
            for k in range(length) if one is None else (one,):
                mask = both(s.mask, at == k) if one is None else s.mask
                items[k] = v if mask is None else np.where(mask, v, items[k])

        return put

    def _to_bits(self, target: ir.Bits) -> Store:
        base, bits, width = target.base, target.type.bits, target.base.type.bits
        put, old, at = self.store(base), self.compile(base, raw=True), self.compile(target.lo)
        slice_of = base.name if isinstance(base, ir.Operand) and width > 32 else None

        def insert(s: State, v: Bits) -> None:
            lo = at(s)
            one = single(lo)
            if one == 0 and bits == width:
                put(s, v)
                return
            if slice_of is not None and one is not None and _put_slice(s, slice_of, one, v, bits):
                return
            put(s, oracle_ops.insert(old(s), width, lo if one is None else one, v, bits))

        return insert

    def _to_lane_bit(self, target: ir.LaneBit) -> Store:
        name = target.name
        if target.lane is None:
            return lambda s, v: s.ctx.write_lane_mask(name, v, s.mask)
        lane = self.compile(target.lane)

        def put(s: State, v: Bits) -> None:
            new = oracle_ops.insert(s.ctx.read(name, 64), 64, np.asarray(lane(s)), np.asarray(v), 1)
            s.ctx.write(name, new, 64, s.mask)

        return put

    def _to_register(self, target: ir.Vgpr | ir.Sgpr | ir.HwReg) -> Store:
        bits = target.type.bits
        if isinstance(target, ir.Sgpr):
            return self._to_sgprs(self.compile(target.reg), bits)
        if bits != 32:
            raise CompileError(f"registers have 32 bits, not {bits}: {target}")
        if isinstance(target, ir.HwReg):
            index = self.compile(target.index)
            return lambda s, v: s.ctx.write_hwreg(index(s), v, s.mask)
        lane, reg = self.compile(target.lane), self.compile(target.reg)
        return lambda s, v: s.ctx.write_vgpr(lane(s), reg(s), v, s.mask)

    def _to_sgprs(self, reg: Eval, bits: int) -> Store:
        if bits % 32:
            raise CompileError(f"scalar registers have 32 bits, not {bits}")

        def put(s: State, v: Bits) -> None:
            first = reg(s)
            for k in range(bits // 32):
                part = v if bits == 32 else oracle_ops.extract(v, bits, 32 * k, 32)
                s.ctx.write_sgpr(first + first.dtype.type(k), part, s.mask)

        return put


def _put_slice(s: State, name: str, lo: int, value: Bits, bits: int) -> bool:
    """Write whole dwords alone where the context can; False if it cannot."""
    if lo % 32 or bits not in (32, 64):
        return False
    write = getattr(s.ctx, "write_slice", None)
    if write is None:
        return False
    write(name, lo, value, bits, s.mask)
    return True


def _set_round_mode(s: State, v: Bits) -> None:
    """From here on, in this program."""
    one = single(v)
    if one is None or s.mask is not None:
        raise OracleError("the rounding mode cannot differ between lanes")
    s.mode = s.mode.with_round(one & 3)


def _is_arithmetic(e: ir.Expr) -> bool:
    """The value comes out of an operation that flushed it as MODE says."""
    return isinstance(e, ir.Binary) and e.op in ("add", "sub", "mul", "div")


#: The predicate that holds nowhere.
_NOBODY: Any = object()


def _split(mask: Mask | None, cond: Bits) -> tuple[Any, Any]:
    """The lanes under ``mask`` where ``cond`` holds, and the others; ``_NOBODY`` where there is no lane left."""
    if cond.size == 1:
        return (mask, _NOBODY) if cond.item() else (_NOBODY, mask)
    taken = cond if mask is None else mask & cond
    count = np.count_nonzero(taken)
    if count == 0:
        return _NOBODY, mask
    if mask is None:
        return (None, _NOBODY) if count == cond.size else (cond, ~cond)
    rest = mask ^ taken
    return (taken, rest) if np.count_nonzero(rest) else (mask, _NOBODY)


def _bound(x: Bits, type: ir.Type, name: str) -> int:
    """A loop's bound, which must be one number for all lanes."""
    flat = np.asarray(x).ravel()
    if np.count_nonzero(flat != flat[0]):
        raise OracleError(f"the bounds of the loop over {name} differ between lanes")
    value = int(flat[0])
    return value - (1 << type.bits) if type.kind == "i" and value >> (type.bits - 1) else value
