"""Integer operations on bit patterns as LLVM IR, with the results of :mod:`mockgpu.pcode.oracle_ops` and builtins.

Patterns lie in containers with zero bits above their width. Operations on two constants are done here, so that
unrolled loops become straight code. Nothing here can trap or be poison, in whatever lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir

from mockgpu.pcode.ir import Type
from mockgpu.pcode.llvm.values import (
    Builder,
    NotNative,
    Value,
    constant,
    container,
    lanes_of,
    like,
    resize,
    same,
    select,
    unify,
    width_of,
)

Maker: TypeAlias = Callable[[tuple[Type, ...]], Callable[..., Value]]
I1 = ir.IntType(1)


def known(value: Value) -> int | None:
    """The number of a uniform constant, or None."""
    if isinstance(value, ir.Constant) and isinstance(value.type, ir.IntType):
        number: Any = value.constant
        if isinstance(number, int | bool):
            return int(number) & ((1 << int(value.type.width)) - 1)
    return None


def signed_number(number: int, bits: int) -> int:
    """A pattern as a two's complement number."""
    return number - (1 << bits) if number >> (bits - 1) & 1 else number


def cut(b: Builder, value: Value, bits: int) -> Value:
    """``value`` modulo 2**bits, in the container of ``bits``."""
    width = container(bits)
    if bits < width and width_of(value) >= width:
        value = resize(b, value, width)
        return b.and_(value, same(value, (1 << bits) - 1))
    return resize(b, value, width)


def extend(b: Builder, value: Value, bits: int) -> Value:
    """A two's complement pattern of ``bits`` bits, sign-extended through its container."""
    spare = width_of(value) - bits
    if not spare:
        return value
    return b.ashr(b.shl(value, same(value, spare)), same(value, spare))


def convert(b: Builder, value: Value, source: Type, target: Type) -> Value:
    """Conversion of a number: by the source's sign, modulo the target's width."""
    if (number := known(value)) is not None:
        if source.kind == "i":
            number = signed_number(number, source.bits)
        return constant(number & ((1 << target.bits) - 1), container(target.bits))
    if source.kind != "i" or target.bits <= source.bits:
        return cut(b, value, target.bits)
    full = extend(b, value, source.bits)
    width = container(target.bits)
    if width > width_of(full):
        full = b.sext(full, like(full, ir.IntType(width)))
    return cut(b, full, target.bits)


def bitcast(b: Builder, value: Value, bits: int) -> Value:
    """The same bits, zero-extended or truncated."""
    if (number := known(value)) is not None:
        return constant(number & ((1 << bits) - 1), container(bits))
    return cut(b, value, bits)


# -- operators --------------------------------------------------------------------------------------------------------

_FOLDS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, c: a + c, "sub": lambda a, c: a - c, "mul": lambda a, c: a * c,
    "and": lambda a, c: a & c, "or": lambda a, c: a | c, "xor": lambda a, c: a ^ c,
    "eq": lambda a, c: a == c, "ne": lambda a, c: a != c, "lg": lambda a, c: a != c,
    "lt": lambda a, c: a < c, "le": lambda a, c: a <= c, "gt": lambda a, c: a > c, "ge": lambda a, c: a >= c,
}  # fmt: skip
COMPARISONS = {"eq": "==", "ne": "!=", "lg": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def binary(b: Builder, op: str, type: Type, count: Type, x: Value, y: Value) -> Value:
    """``op`` on integers of ``type``; ``count`` is the type of the second operand, which matters to shifts alone."""
    bits = type.bits
    first, second = known(x), known(y)
    if first is not None and second is not None and (folded := _fold(op, type, first, second)) is not None:
        return constant(folded, 1 if op in COMPARISONS else container(bits))
    if op in ("shl", "shr"):
        return shift(b, op, type, count, x, y)
    x, y = unify(b, x, y)
    if op in COMPARISONS:
        return _compare(b, op, type, x, y)
    if op in ("and", "or", "xor"):
        return {"and": b.and_, "or": b.or_, "xor": b.xor}[op](x, y)
    if op in ("add", "sub", "mul"):
        return cut(b, {"add": b.add, "sub": b.sub, "mul": b.mul}[op](x, y), bits)
    if op in ("div", "mod"):
        return _divide(b, op, type, x, y)
    raise NotNative(f"operator {op} on {type}")


def _fold(op: str, type: Type, x: int, y: int) -> int | None:
    if op in ("shl", "shr"):
        value = signed_number(x, type.bits) if type.kind == "i" else x
        moved = value << min(y, type.bits) if op == "shl" else value >> min(y, type.bits)
        return moved & ((1 << type.bits) - 1)
    step = _FOLDS.get(op)
    if step is None:
        return None
    if type.kind == "i" and op in COMPARISONS:
        x, y = signed_number(x, type.bits), signed_number(y, type.bits)
    return step(x, y) & ((1 << type.bits) - 1)


def _compare(b: Builder, op: str, type: Type, x: Value, y: Value) -> Value:
    if type.kind == "i" and op in ("lt", "le", "gt", "ge"):
        return b.icmp_signed(COMPARISONS[op], extend(b, x, type.bits), extend(b, y, type.bits))
    return b.icmp_unsigned(COMPARISONS[op], x, y)


def _divide(b: Builder, op: str, type: Type, x: Value, y: Value) -> Value:
    """Toward zero. A zero divisor, which only lanes that do not count have, is taken as one."""
    zero = b.icmp_unsigned("==", y, same(y, 0))
    if type.kind != "i":
        safe = b.select(zero, same(y, 1), y)
        return b.udiv(x, safe) if op == "div" else b.urem(x, safe)
    x, y = extend(b, x, type.bits), extend(b, y, type.bits)
    minus = b.icmp_signed("==", y, same(y, -1))  # the smallest number divided by it overflows
    safe = b.select(b.or_(zero, minus), same(y, 1), y)
    if op == "div":
        return cut(b, b.select(minus, b.neg(x), b.sdiv(x, safe)), type.bits)
    return cut(b, b.select(minus, same(x, 0), b.srem(x, safe)), type.bits)


def shift(b: Builder, op: str, type: Type, count: Type, x: Value, y: Value) -> Value:
    """Counts from the width upwards shift everything out."""
    bits, width = type.bits, width_of(x)
    arithmetic = op == "shr" and type.kind == "i"
    if arithmetic:
        x = extend(b, x, bits)
    amount = known(y)
    if amount is not None:
        if amount >= bits and not arithmetic:
            return same(x, 0)
        return cut(b, _shifted(b, op, arithmetic, x, same(x, min(amount, width - 1))), bits)
    y_width = width_of(y)
    over = None
    if count.bits > 6 or (1 << count.bits) > width:
        limit = min(width, (1 << y_width) - 1)
        over = b.icmp_unsigned(">=", y, same(y, limit))
        if arithmetic:
            y, over = b.select(over, same(y, width - 1), y), None
    y = resize(b, y, width)
    x, y = unify(b, x, y)
    if over is None:
        return cut(b, _shifted(b, op, arithmetic, x, y), bits)
    moved = _shifted(b, op, arithmetic, x, y)
    return cut(b, select(b, over, same(x, 0), moved), bits)


def _shifted(b: Builder, op: str, arithmetic: bool, x: Value, y: Value) -> Value:
    return b.shl(x, y) if op == "shl" else b.ashr(x, y) if arithmetic else b.lshr(x, y)


def extract(b: Builder, x: Value, lo: Value, bits: int) -> Value:
    """``bits`` bits from bit ``lo``; bits past the end are zero."""
    at, width = known(lo), width_of(x)
    number = known(x)
    if at is not None:
        if at >= width:
            return constant(0, container(bits), lanes_of(x))
        if number is not None:
            return constant(number >> at & ((1 << bits) - 1), container(bits))
        if bits == 1 and at == width - 1:
            return b.icmp_signed("<", x, same(x, 0))
        moved = b.lshr(x, same(x, at)) if at else x
        return (
            cut(b, resize(b, moved, max(container(bits), width)), bits) if at + bits < width else _low(b, moved, bits)
        )
    moved = shift(b, "shr", Type("u", width), Type("u", width_of(lo)), x, lo)
    return cut(b, moved, bits)


def _low(b: Builder, moved: Value, bits: int) -> Value:
    """The low bits where nothing lies above them."""
    return resize(b, moved, container(bits))


def insert(b: Builder, old: Value, width: int, lo: Value, value: Value, bits: int) -> Value:
    """``old`` with ``bits`` bits from bit ``lo`` replaced."""
    size = width_of(old)
    if size == 1:
        return value
    ones = (1 << bits) - 1
    new = resize(b, value, size)
    if (at := known(lo)) is not None:
        if at >= width:
            return old
        hole = ones << at & ((1 << width) - 1)
        if hole == (1 << width) - 1:
            return new
        old, new = unify(b, old, new)
        placed = b.shl(new, same(new, at)) if at else new
        if at + bits > width:
            placed = b.and_(placed, same(placed, hole))
        return b.or_(b.and_(old, same(old, ~hole)), placed)
    unsigned, counts = Type("u", size), Type("u", width_of(lo))
    hole_at = shift(b, "shl", unsigned, counts, same(old, ones), lo)
    placed = shift(b, "shl", unsigned, counts, new, lo)
    old, hole_at, placed = unify(b, old, hole_at, placed)
    out = b.or_(b.and_(old, b.not_(hole_at)), b.and_(placed, hole_at))
    return cut(b, out, width) if width != size else out


def concat(b: Builder, parts: list[tuple[Value, int]], total: int) -> Value:
    """The parts, the first most significant."""
    width = container(total)
    numbers = [known(value) for value, _ in parts]
    if all(n is not None for n in numbers):
        out = 0
        for n, (_, bits) in zip(numbers, parts, strict=True):
            out = out << bits | (n or 0)
        return constant(out, width)
    value, at = None, total
    for part, bits in parts:
        at -= bits
        if known(part) == 0:
            continue
        wide = resize(b, part, width)
        placed = b.shl(wide, same(wide, at)) if at else wide
        if value is None:
            value = placed
        else:
            value, placed = unify(b, value, placed)
            value = b.or_(value, placed)
    return constant(0, width) if value is None else value


# -- builtins ---------------------------------------------------------------------------------------------------------


def call(b: Builder, name: str, *args: Value) -> Value:
    """An LLVM intrinsic on integers, overloaded on the type of the first argument."""
    kind = args[0].type
    suffix = f"v{kind.count}i{kind.element.width}" if isinstance(kind, ir.VectorType) else f"i{kind.width}"
    full = f"llvm.{name}.{suffix}"
    function = b.module.globals.get(full)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(kind, [a.type for a in args]), full)
    return b.call(function, list(args))


def _saturate(bits: int, signed: bool) -> Maker:
    def make(args: tuple[Type, ...]) -> Callable[..., Value]:
        def run(b: Builder, x: Value) -> Value:
            if not signed:
                return cut(b, call(b, "umin", x, same(x, (1 << bits) - 1)), bits)
            full, half = extend(b, x, args[0].bits), 1 << (bits - 1)
            low = call(b, "smax", full, same(full, -half))
            return cut(b, call(b, "smin", low, same(low, half - 1)), bits)

        return run

    return make


def _signext_from_bit(args: tuple[Type, ...]) -> Callable[..., Value]:
    bits = args[0].bits

    def run(b: Builder, x: Value, count: Value) -> Value:
        width = container(bits)
        kept = call(b, "umin", count, same(count, min(bits, (1 << width_of(count)) - 1)))
        kept = resize(b, kept, width)
        x, kept = unify(b, x, kept)
        spare = b.sub(same(kept, width), kept)
        safe = call(b, "umin", spare, same(spare, width - 1))
        moved = b.ashr(b.shl(x, safe), safe)
        return cut(b, b.select(b.icmp_unsigned("==", kept, same(kept, 0)), same(moved, 0), moved), bits)

    return run


def _reverse_bits(args: tuple[Type, ...]) -> Callable[..., Value]:
    bits = args[0].bits

    def run(b: Builder, x: Value) -> Value:
        turned = call(b, "bitreverse", x)
        spare = width_of(x) - bits
        return b.lshr(turned, same(turned, spare)) if spare else turned

    return run


def _i32(b: Builder, x: Value) -> Value:
    return resize(b, x, 32)


def _count_ones(args: tuple[Type, ...]) -> Callable[..., Value]:
    return lambda b, x: _i32(b, call(b, "ctpop", x))


def _flag(b: Builder) -> Value:
    return ir.Constant(I1, 0)


def _find_first_one(args: tuple[Type, ...]) -> Callable[..., Value]:
    def run(b: Builder, x: Value) -> Value:
        found = _i32(b, call(b, "cttz", x, _flag(b)))
        return b.select(b.icmp_unsigned("==", x, same(x, 0)), same(found, -1), found)

    return run


def _leading_zeros(b: Builder, x: Value, bits: int) -> Value:
    found = _i32(b, call(b, "ctlz", x, _flag(b)))
    spare = width_of(x) - bits
    if spare:
        found = b.sub(found, same(found, spare))
    return b.select(b.icmp_unsigned("==", x, same(x, 0)), same(found, -1), found)


def _count_leading_zeros(args: tuple[Type, ...]) -> Callable[..., Value]:
    return lambda b, x: _leading_zeros(b, x, args[0].bits)


def _count_leading_signs(args: tuple[Type, ...]) -> Callable[..., Value]:
    bits = args[0].bits

    def run(b: Builder, x: Value) -> Value:
        full = extend(b, x, bits)
        sign = b.ashr(full, same(full, width_of(full) - 1))
        return _leading_zeros(b, cut(b, b.xor(full, sign), bits), bits)

    return run


def _byte_permute(args: tuple[Type, ...]) -> Callable[..., Value]:
    """Selectors 0..7 a byte, 8..11 the sign of byte 1, 3, 5, 7 repeated, 12 zero, above ones."""

    def run(b: Builder, data: Value, selector: Value) -> Value:
        pick = resize(b, selector, 64)
        data, pick = unify(b, data, pick)
        is_byte = b.icmp_unsigned("<", pick, same(pick, 8))
        odd = b.add(b.shl(b.and_(pick, same(pick, 3)), same(pick, 1)), same(pick, 1))
        index = b.select(is_byte, b.and_(pick, same(pick, 7)), odd)
        byte = b.and_(b.lshr(data, b.shl(index, same(index, 3))), same(data, 0xFF))
        sign = b.select(b.icmp_unsigned(">=", byte, same(byte, 0x80)), same(byte, 0xFF), same(byte, 0))
        fixed = b.select(b.icmp_unsigned("==", pick, same(pick, 12)), same(pick, 0), same(pick, 0xFF))
        out = b.select(b.icmp_unsigned("<", pick, same(pick, 12)), sign, fixed)
        return resize(b, b.select(is_byte, byte, out), 16)

    return run


INTEGER: dict[str, Maker] = {
    "i32_to_i16": _saturate(16, True),
    "u32_to_u16": _saturate(16, False),
    "signext_from_bit": _signext_from_bit,
    "reverse_bits": _reverse_bits,
    "count_ones": _count_ones,
    "find_first_one": _find_first_one,
    "count_leading_zeros": _count_leading_zeros,
    "count_leading_signs": _count_leading_signs,
    "byte_permute": _byte_permute,
}
