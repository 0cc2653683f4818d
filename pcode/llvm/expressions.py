"""Expressions of the IR as LLVM values: the twin of :mod:`mockgpu.pcode.oracle_expr`, with the same rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mockgpu.pcode import builtins, ir
from mockgpu.pcode import numeric as num
from mockgpu.pcode.llvm import integers, wide
from mockgpu.pcode.llvm.context import LlvmContext
from mockgpu.pcode.llvm.convert import cast_floats
from mockgpu.pcode.llvm.float_builtins import FLOAT_BUILTINS
from mockgpu.pcode.llvm.float_ops import binary as float_binary
from mockgpu.pcode.llvm.float_ops import compare as float_compare
from mockgpu.pcode.llvm.float_ops import flush_input, flush_output
from mockgpu.pcode.llvm.idioms import funnel_shift
from mockgpu.pcode.llvm.results import Result
from mockgpu.pcode.llvm.values import (
    Builder,
    NotNative,
    Value,
    constant,
    container,
    lanes_of,
    resize,
    same,
    select,
    unify,
)
from mockgpu.pcode.llvm.wide import Wide
from mockgpu.pcode.numeric_mode import Mode
from mockgpu.pcode.oracle_expr import _SELF_FLUSHING, _is_two, _narrow_comparison, walk

_ROUND_MODE = "ROUND_MODE"


class Expressions:
    """Emits expressions.

    ``conds`` are the conditions in force, ``locals``, ``arrays`` and ``results`` what the program has assigned.

    It is also the :class:`~mockgpu.pcode.llvm.float_env.Env` of the float code.
    """

    def __init__(self, ctx: LlvmContext, written: frozenset[str], arrays: dict[str, int], flush: bool):
        self.ctx, self.written, self.lengths, self.flush = ctx, written, arrays, flush
        self.mode: Mode = ctx.mode
        self.features = ctx.features
        self.defer = getattr(ctx, "defer", None)
        self.locals: dict[str, Value | Wide] = {}
        self.arrays: dict[str, list[Value]] = {}
        self.results: dict[str, Result] = {}
        self.conds: tuple[tuple[Value, bool], ...] = ()
        self._masks: dict[tuple[tuple[int, bool], ...], Value] = {}
        self._cache: dict[tuple[str, int], Value] = {}
        self._makers: dict[type, Callable[[Any], Value]] = {
            ir.Const: self._const, ir.Operand: self._operand, ir.Local: self._local, ir.Element: self._element,
            ir.Bits: self._bits, ir.LaneBit: self._lane_bit, ir.Vgpr: self._vgpr, ir.Sgpr: self._sgpr,
            ir.HwReg: self._hwreg, ir.Mem: self._mem, ir.Unary: self._unary, ir.Binary: self._binary,
            ir.Select: self._select, ir.Cast: self._cast, ir.Bitcast: self._bitcast, ir.Concat: self._concat,
            ir.Call: self._call,
        }  # fmt: skip

    @property
    def b(self) -> Builder:
        return self.ctx.b

    @property
    def mask(self) -> Value | None:
        """The predicate in force: the conjunction of the conditions around, made when it is asked for."""
        out: Value | None = None
        key: tuple[tuple[int, bool], ...] = ()
        for cond, wanted in self.conds:
            key = (*key, (id(cond), wanted))
            if key not in self._masks:
                one = cond if wanted else self.b.not_(cond)
                self._masks[key] = one if out is None else both(self.b, out, one)
            out = self._masks[key]
        return out

    def value(self, e: ir.Expr, raw: bool = False) -> Value:
        """The pattern of an expression. ``raw``: the consumer flushes denormals itself or wants to see them."""
        made = self._makers[type(e)](e)
        if raw or not self.flush or not is_float_operand(e):
            return made
        return flush_input(self, num.format_of(e.type), made)

    # -- leaves -------------------------------------------------------------------------------------------------------

    def _const(self, e: ir.Const) -> Value:
        return constant(e.value & ((1 << e.type.bits) - 1), container(e.type.bits))

    def _operand(self, e: ir.Operand) -> Value:
        name, bits = e.name, e.type.bits
        if name == _ROUND_MODE:
            return constant(int(self.mode.round_f32), container(bits))
        if name in self.written:
            return self.read_operand(name, bits)
        if (name, bits) not in self._cache:
            self._cache[name, bits] = self._read(name, bits)
        return self._cache[name, bits]

    def read_operand(self, name: str, bits: int) -> Value:
        """An operand that the program also writes, with what it has been given so far."""
        if f"lanes of {name}" in self.results:
            raise NotNative(f"{name} is read after lanes of it were written")
        found = self.results.get(name)
        if found is None:
            return self._with_parts(name, bits)
        if bits > found.bits:
            raise NotNative(f"{name} read as {bits} bits after {found.bits} were written")
        new = integers.bitcast(self.b, found.value, bits)
        return new if found.where is None else select(self.b, found.where, new, self._read(name, bits))

    def _with_parts(self, name: str, bits: int) -> Value:
        """An operand of which dwords may have been written alone."""
        value = self._read(name, bits)
        for k in range(-(-bits // 32)):
            part = self.results.get(f"{name}.{k}")
            if part is None:
                continue
            new = part.value
            if part.where is not None:
                new = select(self.b, part.where, new, self._read(f"{name}.{k}", 32))
            value = integers.insert(self.b, value, bits, constant(32 * k, 32), new, 32)
        return value

    def _read(self, name: str, bits: int) -> Value:
        return integers.cut(self.b, self.ctx.read(name, bits), bits)

    def wide_value(self, e: ir.Expr) -> Wide:
        """A value of more than 64 bits as dwords."""
        bits, inner = e.type.bits, e
        while isinstance(inner, ir.Bitcast) and inner.x.type.bits == bits:
            inner = inner.x
        if isinstance(inner, ir.Const):
            return wide.wide_constant(inner.value, bits)
        if isinstance(inner, ir.Local):
            found = self.locals.get(inner.name)
            return found if isinstance(found, Wide) else wide.wide_constant(0, bits)
        if isinstance(inner, ir.Operand) and self.in_parts(inner.name, bits):
            return Wide(tuple(self.read_operand(f"{inner.name}.{k}", 32) for k in range(bits // 32)))
        return wide.split(self.b, self.value(e), bits)

    def in_parts(self, name: str, bits: int) -> bool:
        """Whether all dwords of an operand can be read or written alone."""
        return (
            bits % 32 == 0 and name not in self.results and all(self.ctx.has_part(name, k) for k in range(bits // 32))
        )

    def _local(self, e: ir.Local) -> Value:
        found = self.locals.get(e.name)
        if isinstance(found, Wide):
            return resize(self.b, wide.whole(self.b, found), container(e.type.bits))
        return constant(0, container(e.type.bits)) if found is None else resize(self.b, found, container(e.type.bits))

    def _element(self, e: ir.Element) -> Value:
        items = self.arrays.get(e.name)
        if items is None:
            return constant(0, container(e.type.bits))
        at = self.value(e.index)
        if (index := integers.known(at)) is not None:
            if index >= len(items):
                raise NotNative(f"element {index} of array {e.name}")
            return items[index]
        out: Value = constant(0, container(e.type.bits))
        for k, item in enumerate(items):
            out = select(self.b, self.b.icmp_unsigned("==", at, same(at, k)), item, out)
        return out

    def _bits(self, e: ir.Bits) -> Value:
        if isinstance(e.base, ir.Operand) and e.base.type.bits > 32 and (part := self._part(e, e.base)) is not None:
            return part
        lo = self.value(e.lo)
        if isinstance(e.base, ir.Local) and (at := integers.known(lo)) is not None and e.type.bits <= wide.NARROW:
            held = self.locals.get(e.base.name)
            if isinstance(held, Wide):
                return wide.extract(self.b, held, at, e.type.bits)
        return integers.extract(self.b, self.value(e.base, raw=True), lo, e.type.bits)

    def _part(self, e: ir.Bits, base: ir.Operand) -> Value | None:
        """Only the dwords that are needed, if the context can read them alone."""
        at, name = integers.known(self.value(e.lo)), base.name
        if at is None or at % 32 + e.type.bits > 64 or name in self.results:
            return None
        first, count = at // 32, 1 if at % 32 + e.type.bits <= 32 else 2
        if not all(self.ctx.has_part(name, first + k) for k in range(count)):
            return None
        words = [(self.read_operand(f"{name}.{first + k}", 32), 32) for k in reversed(range(count))]
        whole = integers.concat(self.b, words, 32 * count)
        return integers.extract(self.b, whole, constant(at % 32, 32), e.type.bits)

    # -- machine state ------------------------------------------------------------------------------------------------

    def _lane_bit(self, e: ir.LaneBit) -> Value:
        if e.lane is not None:
            return integers.extract(self.b, self.read_operand(e.name, 64), self.value(e.lane), 1)
        found = self.results.get(f"lanes of {e.name}")
        if found is None:
            return self.ctx.read_lane_mask(e.name)
        return (
            found.value
            if found.where is None
            else select(self.b, found.where, found.value, self.ctx.read_lane_mask(e.name))
        )

    def _vgpr(self, e: ir.Vgpr) -> Value:
        return integers.bitcast(self.b, self.ctx.read_vgpr(self.value(e.lane), self.value(e.reg)), e.type.bits)

    def _sgpr(self, e: ir.Sgpr) -> Value:
        first = self.value(e.reg)
        if e.type.bits <= 32:
            return integers.bitcast(self.b, self.ctx.read_sgpr(first), e.type.bits)
        count = e.type.bits // 32
        parts = [self.ctx.read_sgpr(self.b.add(first, same(first, k))) for k in range(count)]
        return integers.concat(self.b, [(part, 32) for part in reversed(parts)], e.type.bits)

    def _hwreg(self, e: ir.HwReg) -> Value:
        return integers.bitcast(self.b, self.ctx.read_hwreg(self.value(e.index)), e.type.bits)

    def address(self, e: ir.Expr) -> Value:
        """A byte address as 64 bits."""
        return resize(self.b, self.value(e), 64)

    def _mem(self, e: ir.Mem) -> Value:
        return self.ctx.load(self.address(e.addr), e.type.bits, self.mask)

    # -- operators ----------------------------------------------------------------------------------------------------

    def _unary(self, e: ir.Unary) -> Value:
        b, x, bits = self.b, self.value(e.x), e.x.type.bits
        if e.op == "lnot":
            return b.icmp_unsigned("==", x, same(x, 0)) if integers.known(x) is None else _flag(not integers.known(x))
        if e.op == "not":
            return b.xor(x, same(x, (1 << bits) - 1))
        if e.op != "neg":
            raise NotNative(f"unary operator {e.op}")
        if e.x.type.is_float:
            return b.xor(x, same(x, 1 << (bits - 1)))
        if (number := integers.known(x)) is not None:
            return constant(-number & ((1 << bits) - 1), container(bits))
        return integers.cut(b, b.neg(x), bits) if bits > 1 else x

    def _binary(self, e: ir.Binary) -> Value:
        if e.op in ("land", "lor"):
            return self._logic(e)
        if (narrow := _narrow_comparison(e)) is not None:
            op, x, number = narrow
            fmt = num.format_of(x.type)
            return float_compare(op, fmt, True)(self, self.value(x), constant(number, container(fmt.bits)))
        raw = e.a.type.is_float and e.op in _SELF_FLUSHING
        x, y = self.value(e.a, raw), self.value(e.b, raw)
        if e.op == "pow":
            return self._power(e, y)
        if e.a.type.is_float and e.op not in ("and", "or", "xor", "shl", "shr"):
            fmt = num.format_of(e.a.type)
            if e.op in integers.COMPARISONS:
                return float_compare(e.op, fmt)(self, x, y)
            return float_binary(e.op, fmt)(self, x, y)
        return integers.binary(self.b, e.op, e.a.type, e.b.type, x, y)

    def _power(self, e: ir.Binary, power: Value) -> Value:
        if not _is_two(e.a):
            raise NotNative("a power of another number than two")
        fmt = num.format_of(e.a.type)
        one = constant(fmt.bias << fmt.man, container(fmt.bits))
        return self._builtin("ldexp", (e.a.type, e.b.type), [one, power])

    def _logic(self, e: ir.Binary) -> Value:
        x = self.value(e.a)
        needs_both = e.op == "land"
        if (left := integers.known(x)) is not None:
            return self.value(e.b) if bool(left) == needs_both else x
        x, y = unify(self.b, x, self.value(e.b))
        return self.b.and_(x, y) if needs_both else self.b.or_(x, y)

    def _select(self, e: ir.Select) -> Value:
        cond = self.value(e.cond)
        if (taken := integers.known(cond)) is not None:
            return self.value(e.a if taken else e.b)
        if any(isinstance(x, (ir.Mem, ir.Vgpr)) for x in walk((e.a, e.b))):
            a = self._under(cond, True, e.a)
            return select(self.b, cond, a, self._under(cond, False, e.b))
        return select(self.b, cond, self.value(e.a), self.value(e.b))

    def _under(self, cond: Value, wanted: bool, e: ir.Expr) -> Value:
        """An expression with the predicate narrowed."""
        outer = self.conds
        self.conds = (*outer, (cond, wanted))
        try:
            return self.value(e)
        finally:
            self.conds = outer

    def _cast(self, e: ir.Cast) -> Value:
        source, target = e.x.type, e.type
        x = self.value(e.x)
        if source.is_float or target.is_float:
            return cast_floats(self, source, target, x)
        return integers.convert(self.b, x, source, target)

    def _bitcast(self, e: ir.Bitcast) -> Value:
        if (shifted := funnel_shift(e)) is not None:
            high, low, count = (self.value(x, raw=True) for x in shifted)
            parts = unify(self.b, high, low, resize(self.b, count, 32))
            return integers.call(self.b, "fshr", *parts)
        return integers.bitcast(self.b, self.value(e.x, raw=True), e.type.bits)

    def _concat(self, e: ir.Concat) -> Value:
        parts = [(self.value(p, raw=True), p.type.bits) for p in e.parts]
        return integers.concat(self.b, parts, e.type.bits)

    def _call(self, e: ir.Call) -> Value:
        raw = e.fn in builtins.FLUSHES or e.fn in builtins.RAW
        return self._builtin(e.fn, tuple(a.type for a in e.args), [self.value(a, raw) for a in e.args])

    def _builtin(self, name: str, types: tuple[ir.Type, ...], args: list[Value]) -> Value:
        if name in integers.INTEGER:
            return integers.INTEGER[name](types)(self.b, *args)
        if name not in FLOAT_BUILTINS:
            raise NotNative(f"function {name}")
        return FLOAT_BUILTINS[name](types)(self, *args)

    def flushed_output(self, type: ir.Type, value: Value) -> Value:
        """A float result that no arithmetic has flushed."""
        return flush_output(self, num.format_of(type), value)


def _flag(value: bool) -> Value:
    return constant(int(value), 1)


def is_float_operand(e: ir.Expr) -> bool:
    """A float that is read from an operand, whole or in part (or seen through a change of type)."""
    if not e.type.is_float or e.type.bits < 16 or e.type.kind == "bf":
        return False
    while isinstance(e, (ir.Bits, ir.Bitcast)):
        e = e.base if isinstance(e, ir.Bits) else e.x
    return isinstance(e, ir.Operand)


def both(b: Builder, x: Value | None, y: Value | None) -> Value | None:
    """The conjunction of predicates; None is one that holds everywhere."""
    if x is None or y is None:
        return y if x is None else x
    x, y = unify(b, x, y)
    return b.and_(x, y)


__all__ = ["Expressions", "both", "is_float_operand", "lanes_of"]
