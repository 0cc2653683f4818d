"""Programs of the IR as LLVM code: statements under predicates, loops unrolled.

``emit_program(program, ctx)`` emits the whole effect of an instruction. Conditions become masks and selects; a
condition that is a constant chooses at once.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from mockgpu.pcode import ir
from mockgpu.pcode.llvm import integers
from mockgpu.pcode.llvm.context import LlvmContext
from mockgpu.pcode.llvm.expressions import Expressions, both, is_float_operand
from mockgpu.pcode.llvm.values import NotNative, Value, constant, container, resize, same, select
from mockgpu.pcode.numeric_mode import Round
from mockgpu.pcode.oracle import _arrays, _loop_types, _tests_only, _written
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


@functools.lru_cache(maxsize=2048)
def _prepare(program: ir.Program) -> _Prepared:
    body = simplify(split_wide_locals(halve_wide_sums(program.body)))
    names = list(walk(body))
    written = frozenset(place.name for place in _written(names))
    return _Prepared(body, written, _arrays(names), _loop_types(names), _tests_only(names))


def emit_program(program: ir.Program, ctx: LlvmContext) -> None:
    """Emit a program. Raises NotNative for what has no native form."""
    prepared = _prepare(program)
    _Statements(ctx, prepared).run(prepared.body)


class _Statements(Expressions):
    def __init__(self, ctx: LlvmContext, prepared: _Prepared):
        super().__init__(ctx, prepared.written, prepared.arrays, not prepared.tests_only)
        self.loops = prepared.loops

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
            self.locals[x.name] = zero
        else:
            self.arrays[x.name] = [zero] * x.length

    # -- control ------------------------------------------------------------------------------------------------------

    def _if(self, x: ir.If) -> None:
        outer = self.mask
        rest = outer
        try:
            for cond, body in x.arms:
                self.mask = rest
                holds = self.value(cond)
                known = integers.known(holds)
                if known == 0:
                    continue
                self.mask = rest if known else both(self.b, rest, holds)
                self.run(body)
                if known:
                    return
                rest = both(self.b, rest, self.b.not_(holds))
            self.mask = rest
            self.run(x.orelse)
        finally:
            self.mask = outer

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
        for i in range(first, last + 1):
            self.locals[x.var] = constant(i & ((1 << bits) - 1), container(bits))
            self.run(x.body)

    # -- assignment ---------------------------------------------------------------------------------------------------

    def _assign(self, x: ir.Assign) -> None:
        value = self.value(x.value)
        if self.flush and is_float_operand(x.target) and not _is_arithmetic(x.value):
            value = self.flushed_output(x.target.type, value)
        self.store(x.target, value)

    def store(self, target: ir.Expr, value: Value) -> None:
        """Write to a place under the predicate."""
        match target:
            case ir.Operand():
                self._to_operand(target, value)
            case ir.Local():
                old = self.locals.get(target.name)
                self.locals[target.name] = self._masked(value, old, target.type.bits)
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

    def _masked(self, value: Value, old: Value | None, bits: int) -> Value:
        if self.mask is None:
            return value
        if old is None:
            old = constant(0, container(bits))
        return select(self.b, self.mask, value, resize(self.b, old, container(bits)))

    def _to_operand(self, target: ir.Operand, value: Value) -> None:
        if target.name != "ROUND_MODE":
            self.ctx.write(target.name, value, target.type.bits, self.mask)
            return
        number = integers.known(value)
        if number is None or self.mask is not None:
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
            items[index] = self._masked(value, items[index], target.type.bits)
            return
        for k in range(length):
            here = both(self.b, self.mask, self.b.icmp_unsigned("==", at, same(at, k)))
            assert here is not None
            items[k] = select(self.b, here, value, items[k])

    def _to_bits(self, target: ir.Bits, value: Value) -> None:
        base, bits, width = target.base, target.type.bits, target.base.type.bits
        lo = self.value(target.lo)
        if integers.known(lo) == 0 and bits == width:
            self.store(base, value)
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
            self.ctx.write(f"{name}.{at // 32 + k}", part, 32, self.mask)
        return True

    def _to_lane_bit(self, target: ir.LaneBit, value: Value) -> None:
        if target.lane is None:
            self.ctx.write_lane_mask(target.name, value, self.mask)
            return
        old = self.ctx.read(target.name, 64)
        new = integers.insert(self.b, old, 64, self.value(target.lane), value, 1)
        self.ctx.write(target.name, new, 64, self.mask)

    def _to_sgprs(self, target: ir.Sgpr, value: Value) -> None:
        first = self.value(target.reg)
        for k in range(target.type.bits // 32):
            number = first if k == 0 else self.b.add(first, same(first, k))
            self.ctx.write_sgpr(number, integers.extract(self.b, value, constant(32 * k, 32), 32), self.mask)
