"""Expressions of the IR as closures from a :class:`State` to a bit pattern array.

Denormals: arithmetic flushes its operands and results itself. Everything else (selections, conversions, copies) sees an
operand of float type already flushed as MODE says, which is how min, max or med3 treat denormals. Programs that look at
denormals whatever MODE says (V_CMP_CLASS) are compiled with ``flush=False``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from mockgpu.pcode import builtins, ir, oracle_ops
from mockgpu.pcode import numeric as num
from mockgpu.pcode.numeric import Bits, Mask
from mockgpu.pcode.oracle_state import CompileError, Eval, OracleError, State

_SELF_FLUSHING = frozenset(("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "lg"))
_ROUND_MODE = "ROUND_MODE"


def walk(node: Any) -> Iterator[Any]:
    """Every IR node in ``node`` (statements and expressions), itself first, in program order."""
    if isinstance(node, tuple):
        for part in node:
            yield from walk(part)
    elif type(node).__module__ == ir.__name__ and not isinstance(node, ir.Type):
        yield node
        for field in fields(node):
            yield from walk(getattr(node, field.name))


def single(x: Bits) -> int | None:
    """The value of patterns that are one value for all lanes, or None."""
    return int(x.item()) if x.size == 1 else None


def both(a: Mask | None, b: Mask | None) -> Mask | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b


class ExprCompiler:
    """Makes closures. ``slots`` are the places of the locals; ``cached`` the operands that no statement writes."""

    def __init__(self, slots: dict[str, int], arrays: dict[str, int], cached: frozenset[str], flush: bool) -> None:
        self.slots = slots
        self.arrays = arrays
        self.cached = cached
        self.flush = flush
        self.makers: dict[type, Callable[[Any], Eval]] = {
            ir.Const: self._const,
            ir.Operand: self._operand,
            ir.Local: self._local,
            ir.Element: self._element,
            ir.Bits: self._bits,
            ir.LaneBit: self._lane_bit,
            ir.Vgpr: self._vgpr,
            ir.Sgpr: self._sgpr,
            ir.HwReg: self._hwreg,
            ir.Mem: self._mem,
            ir.Unary: self._unary,
            ir.Binary: self._binary,
            ir.Select: self._select,
            ir.Cast: self._cast,
            ir.Bitcast: self._bitcast,
            ir.Concat: self._concat,
            ir.Call: self._call,
        }

    def compile(self, e: ir.Expr, raw: bool = False) -> Eval:
        """``raw``: the consumer flushes denormals itself or wants to see them."""
        maker = self.makers.get(type(e))
        if maker is None:
            raise CompileError(f"not an expression: {e!r}")
        made = maker(e)
        if raw or not self.flush or not self._is_float_operand(e):
            return made
        fmt = num.format_of(e.type)
        return lambda s: num.flush_input(fmt, s.mode, made(s))

    def _is_float_operand(self, e: ir.Expr) -> bool:
        """A float that is read from an operand, whole or in part (or seen through a change of type)."""
        if not e.type.is_float or e.type.bits < 16 or e.type.kind == "bf":
            return False
        while isinstance(e, (ir.Bits, ir.Bitcast)):
            e = e.base if isinstance(e, ir.Bits) else e.x
        return isinstance(e, ir.Operand)

    # -- leaves -------------------------------------------------------------------------------------------------------

    def _const(self, e: ir.Const) -> Eval:
        value = num.constant(e.type.bits, e.value & ((1 << e.type.bits) - 1))
        return lambda s: value

    def _operand(self, e: ir.Operand) -> Eval:
        name, bits = e.name, e.type.bits
        if name == _ROUND_MODE:
            return lambda s: num.constant(bits, int(s.mode.round_f32))
        if name not in self.cached:
            return lambda s: s.ctx.read(name, bits)
        key = (name, bits)

        def read(s: State) -> Bits:
            found = s.cache.get(key)
            if found is None:
                found = s.cache[key] = s.ctx.read(name, bits)
            return found

        return read

    def _slot(self, name: str) -> int:
        if name not in self.slots:
            raise CompileError(f"local {name} is never given a value")
        return self.slots[name]

    def _local(self, e: ir.Local) -> Eval:
        slot, zero = self._slot(e.name), num.constant(e.type.bits, 0)

        def read(s: State) -> Bits:
            value = s.locals[slot]
            return zero if value is None else value

        return read

    def length(self, name: str) -> int:
        """Elements of a local array."""
        if name not in self.arrays:
            raise CompileError(f"array {name} is not declared")
        return self.arrays[name]

    def _element(self, e: ir.Element) -> Eval:
        name, index, length = e.name, self.compile(e.index), self.length(e.name)
        zero = num.constant(e.type.bits, 0)

        def read(s: State) -> Bits:
            items = s.arrays.get(name)
            if items is None:
                return zero
            at = index(s)
            one = single(at)
            if one is None:
                return functools.reduce(lambda out, k: np.where(at == k, items[k], out), range(length), zero)
            if one >= length:
                raise OracleError(f"element {one} of array {name}, which has {length}")
            return items[one]

        return read

    # -- slices -------------------------------------------------------------------------------------------------------

    def _bits(self, e: ir.Bits) -> Eval:
        width, bits = e.base.type.bits, e.type.bits
        if isinstance(e.base, ir.Operand) and width > 32:
            return self._operand_bits(e, e.base)
        base = self.compile(e.base, raw=True)
        if isinstance(e.lo, ir.Const):
            lo = e.lo.value
            return lambda s: oracle_ops.extract(base(s), width, lo, bits)
        return self._varying_bits(base, self.compile(e.lo), width, bits)

    def _varying_bits(self, base: Eval, at: Eval, width: int, bits: int) -> Eval:
        def read(s: State) -> Bits:
            lo = at(s)
            one = single(lo)
            if one is not None:
                return oracle_ops.extract(base(s), width, one, bits)
            return oracle_ops.extract_at(base(s), width, lo, bits)

        return read

    def _operand_bits(self, e: ir.Bits, base: ir.Operand) -> Eval:
        """Only the dwords that are needed, if the context can read them alone."""
        whole, at = self._operand(base), self.compile(e.lo)
        name, width, bits = base.name, base.type.bits, e.type.bits
        cached = name in self.cached
        rest = self._varying_bits(whole, at, width, bits)

        def read(s: State) -> Bits:
            one = single(at(s))
            part = getattr(s.ctx, "read_slice", None)
            if part is None or one is None or one % 32 + bits > 64 or (cached and (name, width) in s.cache):
                return rest(s)
            first = one & ~31
            need = 32 if one - first + bits <= 32 else 64
            return oracle_ops.extract(part(name, first, min(need, width - first)), need, one - first, bits)

        return read

    # -- machine state ------------------------------------------------------------------------------------------------

    def _lane_bit(self, e: ir.LaneBit) -> Eval:
        name = e.name
        if e.lane is None:
            return lambda s: s.ctx.read_lane_mask(name)
        lane = self.compile(e.lane)
        return lambda s: oracle_ops.extract_at(s.ctx.read(name, 64), 64, np.asarray(lane(s)), 1)

    def _vgpr(self, e: ir.Vgpr) -> Eval:
        lane, reg, bits = self.compile(e.lane), self.compile(e.reg), e.type.bits
        return lambda s: num.resize(s.ctx.read_vgpr(lane(s), reg(s)), 32, bits)

    def _sgpr(self, e: ir.Sgpr) -> Eval:
        reg, bits = self.compile(e.reg), e.type.bits
        if bits <= 32:
            return lambda s: num.resize(s.ctx.read_sgpr(reg(s)), 32, bits)

        def read(s: State) -> Bits:
            first = reg(s)
            parts = [s.ctx.read_sgpr(first + first.dtype.type(k)) for k in range(bits // 32)]
            return join([(p, 32) for p in reversed(parts)], bits)

        return read

    def _hwreg(self, e: ir.HwReg) -> Eval:
        index, bits = self.compile(e.index), e.type.bits
        return lambda s: num.resize(s.ctx.read_hwreg(index(s)), 32, bits)

    def address(self, e: ir.Expr) -> Eval:
        """A byte address as 64 bits."""
        made, bits = self.compile(e), e.type.bits
        return made if bits == 64 else lambda s: num.resize(made(s), bits, 64)

    def _mem(self, e: ir.Mem) -> Eval:
        addr, bits = self.address(e.addr), e.type.bits
        return lambda s: s.ctx.load(addr(s), bits, s.mask)

    # -- operators ----------------------------------------------------------------------------------------------------

    def _unary(self, e: ir.Unary) -> Eval:
        step, x = oracle_ops.unary(e.op, e.x.type), self.compile(e.x)
        return lambda s: step(s.mode, x(s))

    def _binary(self, e: ir.Binary) -> Eval:
        if e.op in ("land", "lor"):
            return self._logic(e)
        if (narrow := _narrow_comparison(e)) is not None:
            return self._compare_with(*narrow)
        raw = e.a.type.is_float and e.op in _SELF_FLUSHING
        step = oracle_ops.binary(e.op, e.a.type, e.b.type)
        a, b = self.compile(e.a, raw), self.compile(e.b, raw)
        if e.op == "pow" and not _is_two(e.a):
            raise CompileError(f"only powers of two: {e!r}")
        if e.op in ("div", "mod") and not e.type.is_float:
            return lambda s: step(s.mode, a(s), _divisor(s, b(s)))
        return lambda s: step(s.mode, a(s), b(s))

    def _logic(self, e: ir.Binary) -> Eval:
        """The right side is left out when the left one decides for all lanes."""
        a, b, both_needed = self.compile(e.a), self.compile(e.b), e.op == "land"

        def run(s: State) -> Bits:
            left = a(s)
            count = np.count_nonzero(left)
            if both_needed:
                return left & b(s) if count else left
            return left if count == left.size else left | b(s)

        return run

    def _compare_with(self, op: str, x: ir.Expr, value: int) -> Eval:
        """A comparison of a number with a constant of its own type, without a conversion."""
        fmt = num.format_of(x.type)
        step, made, constant = num.compare(op, fmt, True), self.compile(x), num.constant(fmt.bits, value)
        return lambda s: step(s.mode, made(s), constant)

    def _select(self, e: ir.Select) -> Eval:
        cond, a, b = self.compile(e.cond), self.compile(e.a), self.compile(e.b)
        touches = any(isinstance(x, (ir.Mem, ir.Vgpr)) for x in walk((e.a, e.b)))

        def choose(s: State) -> Bits:
            take = cond(s)
            count = np.count_nonzero(take)
            if count == take.size:
                return a(s)
            if count == 0:
                return b(s)
            if not touches:
                return np.where(take, a(s), b(s))
            return np.where(take, _under(s, a, take), _under(s, b, ~take))

        return choose

    def _cast(self, e: ir.Cast) -> Eval:
        step, x = oracle_ops.cast(e.x.type, e.type), self.compile(e.x)
        return lambda s: step(s.mode, x(s))

    def _bitcast(self, e: ir.Bitcast) -> Eval:
        x = self.compile(e.x, raw=True)
        if e.x.type.bits == e.type.bits:
            return x
        step = oracle_ops.bitcast(e.x.type, e.type)
        return lambda s: step(s.mode, x(s))

    def _concat(self, e: ir.Concat) -> Eval:
        parts = [(self.compile(p, raw=True), p.type.bits) for p in e.parts]
        total = e.type.bits
        return lambda s: join([(part(s), bits) for part, bits in parts], total)

    def _call(self, e: ir.Call) -> Eval:
        step = builtins.builtin(e.fn, tuple(a.type for a in e.args))
        raw = e.fn in builtins.FLUSHES or e.fn in builtins.RAW
        args = [self.compile(a, raw) for a in e.args]
        if len(args) == 1:
            (x,) = args
            return lambda s: step(s.mode, x(s))
        return lambda s: step(s.mode, *[a(s) for a in args])


def _narrow_comparison(e: ir.Binary) -> tuple[str, ir.Expr, int] | None:
    """``64'F(x) == 0.0`` is ``x == 0.0`` with the denormals of ``x``; likewise for infinities."""
    a, b = e.a, e.b
    if (
        e.op not in oracle_ops.COMPARISONS
        or not isinstance(a, ir.Cast)
        or not isinstance(b, ir.Const)
        or a.type != ir.F64
    ):
        return None
    if a.x.type not in (ir.F16, ir.F32):
        return None
    fmt = num.format_of(a.x.type)
    sign = fmt.sign if b.value & num.F64.sign else 0
    known = {0: 0, num.F64.inf: fmt.inf}
    found = known.get(b.value & num.F64.magnitude)
    return None if found is None else (e.op, a.x, sign | found)


def _divisor(s: State, b: Bits) -> Bits:
    """Zeros in lanes that do not count become ones: what those lanes hold must not stop the others."""
    zero = b == 0
    if not np.count_nonzero(zero):
        return b
    counts = zero if s.mask is None else zero & s.mask
    if s.ctx.lanes > 1:
        counts = counts & s.ctx.read_lane_mask("EXEC")
    return b if np.count_nonzero(counts) else np.where(zero, b.dtype.type(1), b)


def _is_two(e: ir.Expr) -> bool:
    if not isinstance(e, ir.Const) or not e.type.is_float:
        return False
    fmt = num.format_of(e.type)
    return e.value == (fmt.bias + 1) << fmt.man


def _under(s: State, step: Eval, mask: Mask) -> Bits:
    """``step`` with the predicate narrowed."""
    outer = s.mask
    s.mask = both(outer, mask)
    try:
        return step(s)
    finally:
        s.mask = outer


def join(parts: list[tuple[Bits, int]], total: int) -> Bits:
    """Concatenation, most significant part first."""
    word = num.container(total)
    out: Bits | None = None
    for value, bits in parts:
        wide = num.boxed(value) if word is np.object_ else value.astype(word)
        shift = bits if word is np.object_ else word(bits) if word is not np.bool_ else 0
        out = wide if out is None else (out << shift) | wide
    if out is None:
        raise CompileError("a concatenation of nothing")
    return out
