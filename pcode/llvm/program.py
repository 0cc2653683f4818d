"""Programs of the IR as LLVM code: statements under predicates, loops unrolled.

``emit_program(program, ctx)`` emits the whole effect of an instruction. Conditions become selects where their arms
join; memory and registers of other lanes see them as masks. A condition that is a constant chooses at once. Operands
that are written reach the context once, at the end.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass

from mockgpu.pcode import ir
from mockgpu.pcode.llvm import integers, tuned, wide
from mockgpu.pcode.llvm.context import LlvmContext
from mockgpu.pcode.llvm.expressions import Expressions, is_float_operand
from mockgpu.pcode.llvm.results import Result, merge
from mockgpu.pcode.llvm.values import NotNative, Value, constant, container, same, select
from mockgpu.pcode.llvm.wide import Wide
from mockgpu.pcode.numeric_mode import Round
from mockgpu.pcode.oracle import _arrays, _loop_types, _read_early, _tests_only, _written
from mockgpu.pcode.oracle_expr import walk
from mockgpu.pcode.oracle_limbs import halve_wide_sums
from mockgpu.pcode.oracle_simplify import simplify
from mockgpu.pcode.oracle_split import split_wide_locals
from mockgpu.pcode.oracle_stmt import _is_arithmetic

#: Turns of a loop that are written out.
_MOST_TURNS = 128


@dataclass(frozen=True)
class _Prepared:
    body: tuple[ir.Stmt, ...]
    written: frozenset[str]
    arrays: dict[str, int]
    loops: dict[str, ir.Type]
    tests_only: bool
    uses: Counter[str]
    early: tuple[tuple[str, int], ...]


@functools.lru_cache(maxsize=2048)
def _prepare(program: ir.Program) -> _Prepared:
    body = simplify(split_wide_locals(halve_wide_sums(program.body)))
    names = list(walk(body))
    written = frozenset(place.name for place in _written(names))
    early = _early(names, written)
    return _Prepared(body, written, _arrays(names), _loop_types(names), _tests_only(names), _uses(names), early)


def _is_flushed(e: ir.Expr) -> bool:
    """Whether denormals of a value have been flushed already, where MODE says so."""
    return _is_arithmetic(e) or (isinstance(e, ir.Call) and e.fn == "fma")


def _uses(nodes: list[object]) -> Counter[str]:
    """How often each local is named."""
    return Counter(n.name for n in nodes if isinstance(n, ir.Local))


def _early(nodes: list[object], written: frozenset[str]) -> tuple[tuple[str, int], ...]:
    """Operands to be read first: registers by number are written at once, and might be the same ones."""
    if not any(isinstance(n, ir.Assign) and isinstance(n.target, (ir.Vgpr, ir.Sgpr)) for n in nodes):
        return ()
    return _read_early(nodes, frozenset(n.name for n in nodes if isinstance(n, ir.Operand)) - written - {"ROUND_MODE"})


def emit_program(program: ir.Program, ctx: LlvmContext, opcode: tuple[str, str, str] | None = None) -> None:
    """Emit a program. Raises NotNative for what has no native form.

    ``opcode`` is the family, table and name of the opcode that it is from: some have a faster form of their own
    (:mod:`~mockgpu.pcode.llvm.tuned`).
    """
    prepared = _prepare(program)
    statements = Statements(ctx, prepared)
    for name, bits in prepared.early:
        statements.value(ir.Operand(ir.Type("b", bits), name))
    form = None if opcode is None else tuned.find(opcode, program)
    if form is None or not form(statements):
        statements.run(prepared.body)
    statements.finish()


@dataclass(slots=True)
class _Variables:
    """Everything that statements change and that arms of a condition have their own of."""

    locals: dict[str, Value | Wide]
    arrays: dict[str, list[Value]]
    results: dict[str, Result]


class Statements(Expressions):
    """Runs the statements of one program."""

    def __init__(self, ctx: LlvmContext, prepared: _Prepared):
        super().__init__(ctx, prepared.written, prepared.arrays, not prepared.tests_only)
        self.body, self.loops, self.uses = prepared.body, prepared.loops, prepared.uses
        self._turning = 0  # loops around the statement

    def run(self, body: tuple[ir.Stmt, ...]) -> None:
        """Statements in order."""
        for x in body:
            match x:
                case ir.Declare():
                    self._declare(x)
                case ir.Assign():
                    self._assign(x)
                case ir.If():
                    self._if(x)
                case ir.For():
                    self._for(x)
                case ir.Effect():
                    self.ctx.effect(x.call.fn, tuple(self.value(a) for a in x.call.args), self.mask)
                case _:
                    raise NotNative(f"a loop of unknown length: {x.source}")

    def _declare(self, x: ir.Declare) -> None:
        zero = constant(0, container(x.type.bits))
        if x.length is None:
            bits = x.type.bits
            self.locals[x.name] = wide.wide_constant(0, bits) if wide.is_wide(bits) else zero
        else:
            self.arrays[x.name] = [zero] * x.length

    # -- control ------------------------------------------------------------------------------------------------------

    def _if(self, x: ir.If) -> None:
        """Each arm runs on variables of its own; they join by the conditions, the last arm first."""
        outer, before = self.conds, self._snapshot()
        ways: list[tuple[Value | None, _Variables]] = []
        for cond, body in x.arms:
            holds = self.value(cond)
            taken = integers.known(holds)
            if taken == 0:
                continue
            entered = self.conds
            self.conds = entered if taken else (*entered, (holds, True))
            self.run(body)
            ways.append((None if taken else holds, self._snapshot()))
            self._restore(before)
            self.conds = entered if taken else (*entered, (holds, False))
            if taken:
                break
        else:
            self.run(x.orelse)
            ways.append((None, self._snapshot()))
        self.conds = outer
        _, joined = ways.pop()
        inner = self._inner(x)
        for holds, way in reversed(ways):
            joined = self._join(holds, way, joined, inner)
        self._restore(joined)

    def _snapshot(self) -> _Variables:
        return _Variables(dict(self.locals), {n: list(items) for n, items in self.arrays.items()}, dict(self.results))

    def _restore(self, kept: _Variables) -> None:
        self.locals, self.results = dict(kept.locals), dict(kept.results)
        self.arrays = {n: list(items) for n, items in kept.arrays.items()}

    def _inner(self, x: ir.If) -> frozenset[str]:
        """The locals that nothing outside ``x`` names: they need not be joined."""
        if self._turning:
            return frozenset()
        inside = _uses(list(walk(x)))
        return frozenset(name for name, count in inside.items() if self.uses[name] == count)

    def _join(self, cond: Value, a: _Variables, b: _Variables, inner: frozenset[str]) -> _Variables:
        """The variables where ``a`` holds in the lanes of ``cond`` and ``b`` in the others."""
        out = _Variables({}, {}, {})
        for name in {**a.locals, **b.locals}:
            if name not in inner:
                out.locals[name] = self._joined(cond, a.locals.get(name), b.locals.get(name))
        for name in {**a.arrays, **b.arrays}:
            x, y = a.arrays.get(name), b.arrays.get(name)
            pairs = [(p, p) for p in x or y or []] if x is None or y is None else zip(x, y, strict=True)
            out.arrays[name] = [self._joined(cond, p, q) for p, q in pairs]
        for name in {**b.results, **a.results}:
            out.results[name] = merge(self.b, cond, a.results.get(name), b.results.get(name))
        return out

    def _joined(self, cond: Value, x: Value | Wide | None, y: Value | Wide | None) -> Value | Wide:
        if x is y:
            return x
        if isinstance(x, Wide) or isinstance(y, Wide):
            given = x if isinstance(x, Wide) else y
            assert isinstance(given, Wide)
            zero = Wide((constant(0, 32),) * len(given.dwords))
            return wide.choose(self.b, cond, zero if x is None else x, zero if y is None else y)
        if x is None or y is None:
            given = y if x is None else x
            zero = same(given, 0)
            x, y = (zero, given) if x is None else (given, zero)
        return select(self.b, cond, x, y)

    def _for(self, x: ir.For) -> None:
        first, last = integers.known(self.value(x.start)), integers.known(self.value(x.stop))
        if first is None or last is None:
            raise NotNative(f"a loop whose bounds are not constant: {x.source}")
        if x.start.type.kind == "i":
            first = integers.signed_number(first, x.start.type.bits)
        if x.stop.type.kind == "i":
            last = integers.signed_number(last, x.stop.type.bits)
        if last - first >= _MOST_TURNS:
            raise NotNative(f"a loop of {last - first + 1} turns")
        bits = self.loops.get(x.var, x.start.type).bits
        self._turning += 1
        for i in range(first, last + 1):
            self.locals[x.var] = constant(i & ((1 << bits) - 1), container(bits))
            self.run(x.body)
        self._turning -= 1

    # -- assignment ---------------------------------------------------------------------------------------------------

    def _assign(self, x: ir.Assign) -> None:
        if wide.is_wide(x.value.type.bits):
            self._assign_wide(x)
            return
        value = self.value(x.value)
        if self.flush and is_float_operand(x.target) and not _is_flushed(x.value):
            value = self.flushed_output(x.target.type, value)
        self.store(x.target, value)

    def _assign_wide(self, x: ir.Assign) -> None:
        target, bits = x.target, x.value.type.bits
        value = self.wide_value(x.value)
        if isinstance(target, ir.Local):
            self.locals[target.name] = value
        elif isinstance(target, ir.Operand) and self.in_parts(target.name, bits):
            for k, part in enumerate(value.dwords):
                self._write(f"{target.name}.{k}", part, 32)
        else:
            self.store(target, integers.cut(self.b, wide.whole(self.b, value), bits))

    def store(self, target: ir.Expr, value: Value) -> None:
        """Write to a place under the predicate."""
        match target:
            case ir.Operand():
                self._to_operand(target, value)
            case ir.Local():
                self.locals[target.name] = value
            case ir.Element():
                self._to_element(target, value)
            case ir.Bits():
                self._to_bits(target, value)
            case ir.Bitcast() if target.type.bits == target.x.type.bits:
                self.store(target.x, value)
            case ir.LaneBit():
                self._to_lane_bit(target, value)
            case ir.Mem():
                self.ctx.store(self.address(target.addr), value, target.type.bits, self.mask)
            case ir.Vgpr():
                self.ctx.write_vgpr(self.value(target.lane), self.value(target.reg), value, self.mask)
            case ir.Sgpr():
                self._to_sgprs(target, value)
            case ir.HwReg():
                self.ctx.write_hwreg(self.value(target.index), value, self.mask)
            case _:
                raise NotNative(f"assignment to {target}")

    def _to_operand(self, target: ir.Operand, value: Value) -> None:
        if target.name != "ROUND_MODE":
            self._write(target.name, value, target.type.bits)
            return
        number = integers.known(value)
        if number is None or self.conds:
            raise NotNative("a rounding mode that varies")
        self.mode = self.mode.with_round(Round(number & 3))

    def _to_element(self, target: ir.Element, value: Value) -> None:
        length = self.lengths[target.name]
        items = self.arrays.setdefault(target.name, [constant(0, container(target.type.bits))] * length)
        at = self.value(target.index)
        index = integers.known(at)
        if index is not None:
            if index >= length:
                raise NotNative(f"element {index} of array {target.name}")
            items[index] = value
            return
        for k in range(length):
            items[k] = select(self.b, self.b.icmp_unsigned("==", at, same(at, k)), value, items[k])

    def _to_bits(self, target: ir.Bits, value: Value) -> None:
        base, bits, width = target.base, target.type.bits, target.base.type.bits
        lo = self.value(target.lo)
        if integers.known(lo) == 0 and bits == width:
            self.store(base, value)
            return
        held, at = self.locals.get(base.name) if isinstance(base, ir.Local) else None, integers.known(lo)
        if isinstance(base, ir.Local) and isinstance(held, Wide):
            if at is None:
                new = integers.insert(self.b, self.value(base, raw=True), width, lo, value, bits)
                self.locals[base.name] = wide.split(self.b, new, width)
            else:
                self.locals[base.name] = wide.insert(self.b, held, at, value, bits)
            return
        if isinstance(base, ir.Operand) and width > 32 and self._put_parts(base.name, lo, value, bits):
            return
        self.store(base, integers.insert(self.b, self.value(base, raw=True), width, lo, value, bits))

    def _put_parts(self, name: str, lo: Value, value: Value, bits: int) -> bool:
        """Write whole dwords alone where the context can; False if it cannot."""
        at = integers.known(lo)
        if at is None or at % 32 or bits not in (32, 64) or not self.ctx.has_part(name, at // 32):
            return False
        for k in range(bits // 32):
            part = integers.extract(self.b, value, constant(32 * k, 32), 32)
            self._write(f"{name}.{at // 32 + k}", part, 32)
        return True

    def _to_lane_bit(self, target: ir.LaneBit, value: Value) -> None:
        if target.lane is None:
            self.results[f"lanes of {target.name}"] = Result(target.name, value, 0, None)
            return
        old = self.read_operand(target.name, 64)
        self._write(target.name, integers.insert(self.b, old, 64, self.value(target.lane), value, 1), 64)

    def _write(self, name: str, value: Value, bits: int) -> None:
        """Keep back what an operand gets."""
        old = self.results.get(name)
        if old is not None and old.bits != bits:
            raise NotNative(f"{name} written as {old.bits} and as {bits} bits")
        self.results[name] = Result(name, value, bits, None)

    def aside(self, name: str) -> Value:
        """What the whole program, run as it is written, gives the operand ``name``; nothing else comes of it."""
        before = self._snapshot()
        self.run(self.body)
        out = self.results[name].value
        self._restore(before)
        self._masks.clear()
        return out

    def write(self, name: str, value: Value, bits: int) -> None:
        """Write a whole operand."""
        self._write(name, value, bits)

    def finish(self) -> None:
        """Hand the results to the context."""
        for r in self.results.values():
            if r.bits:
                self.ctx.write(r.name, r.value, r.bits, r.where)
            else:
                self.ctx.write_lane_mask(r.name, r.value, r.where)

    def _to_sgprs(self, target: ir.Sgpr, value: Value) -> None:
        first = self.value(target.reg)
        for k in range(target.type.bits // 32):
            number = first if k == 0 else self.b.add(first, same(first, k))
            self.ctx.write_sgpr(number, integers.extract(self.b, value, constant(32 * k, 32), 32), self.mask)
