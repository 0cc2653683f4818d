"""Unary and binary operators, casts and slices of the IR as functions of bit patterns, made once per type."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mockgpu.pcode import numeric as num
from mockgpu.pcode.ir import Type
from mockgpu.pcode.numeric import Bits, Mode
from mockgpu.pcode.oracle_state import CompileError, OracleError

Op1: TypeAlias = Callable[[Mode, Bits], Bits]
Op2: TypeAlias = Callable[[Mode, Bits, Bits], Bits]

_NATURAL = (16, 32, 64)
_SIGNED: dict[int, Any] = {16: np.int16, 32: np.int32, 64: np.int64}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_BITWISE: dict[str, Callable[[Any, Any], Any]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
_RING: dict[str, Callable[[Any, Any], Any]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
#: Numbers of one bit.
_ONE_BIT: dict[str, Callable[[Any, Any], Any]] = {"add": operator.xor, "sub": operator.xor, "mul": operator.and_}


def _mask_of(bits: int) -> Any:
    """The constant that cuts a container to ``bits`` bits, or None where the container fits."""
    if bits in _NATURAL:
        return None
    return num.constant(bits, (1 << bits) - 1)


def _cut(step: Callable[[Any, Any], Any], bits: int) -> Op2:
    """``step`` modulo 2**bits."""
    mask = _mask_of(bits)
    if mask is None:
        return lambda mode, a, b: step(a, b)
    return lambda mode, a, b: step(a, b) & mask


def _signed(x: Bits, bits: int) -> Any:
    if bits in _NATURAL:
        return x.view(_SIGNED[bits])
    return num.as_signed(x, bits)


# -- unary ------------------------------------------------------------------------------------------------------------


def unary(op: str, type: Type) -> Op1:
    """``neg``, ``not`` or ``lnot`` on values of ``type``. Raises CompileError for another name."""
    bits = type.bits
    if op == "lnot":
        return lambda mode, x: ~x if x.dtype == np.bool_ else x == 0
    if op == "not":
        every = _mask_of(bits)
        return (lambda mode, x: ~x) if every is None or bits == 1 else (lambda mode, x: x ^ every)
    if op != "neg":
        raise CompileError(f"no unary operator {op}")
    if type.is_float:
        sign = num.constant(bits, 1 << (bits - 1))
        return lambda mode, x: x ^ sign
    if bits == 1:
        return lambda mode, x: x
    zero = num.constant(bits, 0)
    subtract = _cut(operator.sub, bits)
    return lambda mode, x: subtract(mode, zero, x)


# -- binary -----------------------------------------------------------------------------------------------------------


def binary(op: str, type: Type, count: Type) -> Op2:
    """``op`` on operands of ``type``; ``count`` is the type of the second operand, which matters to shifts alone.

    Raises CompileError for an unknown operator or one that the type does not have.
    """
    if op == "land":
        return lambda mode, a, b: a & b
    if op == "lor":
        return lambda mode, a, b: a | b
    if op in _BITWISE:
        step = _BITWISE[op]
        return lambda mode, a, b: step(a, b)
    if op in COMPARISONS or op == "lg":
        return _comparison(op, type)
    if op in ("shl", "shr"):
        return _shift(op, type, count)
    if op == "pow":
        return _power_of_two(type, count)
    if type.is_float:
        return num.binary(op, num.format_of(type))
    return _integer(op, type)


def _integer(op: str, type: Type) -> Op2:
    if op in _RING:
        step = _ONE_BIT[op] if type.bits == 1 else _RING[op]
        return _cut(step, type.bits) if type.bits > 1 else lambda mode, a, b: step(a, b)
    if op not in ("div", "mod"):
        raise CompileError(f"no operator {op} on {type}")
    if type.bits > 64:
        raise CompileError(f"no {op} on {type}")
    return _division(op, type)


def _division(op: str, type: Type) -> Op2:
    """Truncating toward zero, as the sign of a remainder follows the dividend."""
    bits, signed = type.bits, type.kind == "i"

    def run(mode: Mode, a: Bits, b: Bits) -> Bits:
        if np.count_nonzero(b) != np.size(b):
            raise OracleError(f"{op} of {type} by zero")
        if not signed:
            return a // b if op == "div" else a % b
        x, y = num.as_signed(a, bits), num.as_signed(b, bits)
        rest = np.fmod(x, y)
        return num.from_int64((x - rest) // y if op == "div" else rest, bits)

    return run


def _comparison(op: str, type: Type) -> Op2:
    if type.is_float:
        return num.compare(op, num.format_of(type))
    step = COMPARISONS["ne" if op == "lg" else op]
    bits = type.bits
    if type.kind != "i" or op in ("eq", "ne", "lg"):
        return lambda mode, a, b: step(a, b)
    return lambda mode, a, b: step(_signed(a, bits), _signed(b, bits))


def _shift(op: str, type: Type, count: Type) -> Op2:
    """Counts from the width upwards shift everything out."""
    bits = type.bits
    fit = _count_converter(bits, count)
    if bits == 1:
        return lambda mode, a, b: a & (fit(b) == 0)
    if op == "shl":
        cut = _mask_of(bits)
        if cut is None:
            return lambda mode, a, b: a << fit(b)
        return lambda mode, a, b: (a << fit(b)) & cut
    if type.kind != "i":
        return lambda mode, a, b: a >> fit(b)
    if bits in _NATURAL:
        word, signed = num.container(bits), _SIGNED[bits]
        return lambda mode, a, b: (a.view(signed) >> fit(b).view(signed)).view(word)
    if bits > 64:
        every = (1 << bits) - 1
        return lambda mode, a, b: (num.as_signed(a, bits) >> fit(b)) & every

    def run(mode: Mode, a: Bits, b: Bits) -> Bits:
        moved: Bits = num.as_signed(a, bits) >> fit(b).astype(np.int64)
        return num.from_int64(moved, bits)

    return run


def _count_converter(bits: int, count: Type) -> Callable[[Bits], Bits]:
    """Counts in the container of the shifted value; large ones become the width."""
    word, source = num.container(bits), num.container(count.bits)
    if word is source and word is not np.object_:
        return lambda n: n
    limit = num.constant(count.bits, min(bits, (1 << count.bits) - 1))
    if word is np.object_:
        return lambda n: num.boxed(np.minimum(n, limit))
    if source is np.bool_:
        return lambda n: n.astype(word)
    return lambda n: np.minimum(n, limit).astype(word)


def _power_of_two(type: Type, count: Type) -> Op2:
    """``2 ** n``: the lowering guarantees the base."""
    fmt = num.format_of(type)
    scale = num.ldexp(fmt, count.bits)
    one = fmt.word(fmt.bias << fmt.man)
    return lambda mode, a, n: scale(mode, one, n)


# -- conversions ------------------------------------------------------------------------------------------------------


def cast(source: Type, target: Type) -> Op1:
    """Conversion of the number."""
    if source.is_float and target.is_float:
        return num.float_to_float(num.format_of(source), num.format_of(target))
    if source.is_float:
        return _float_to_int(source, target)
    if target.is_float:
        return num.int_to_float(source.bits, source.kind == "i", num.format_of(target))
    if source.kind != "i":
        return bitcast(source, target)
    return lambda mode, x: num.extend(x, source.bits, target.bits)


def _float_to_int(source: Type, target: Type) -> Op1:
    if target.bits == 1:
        fmt = num.format_of(source)
        return lambda mode, x: ~num.is_zero(fmt, x)
    return num.float_to_int(num.format_of(source), target.bits, target.kind == "i")


def bitcast(source: Type, target: Type) -> Op1:
    """The same bits, zero-extended or truncated."""
    if source.bits == target.bits:
        return lambda mode, x: x
    if target.bits in _NATURAL and source.bits <= 64:  # the container does it all
        word = num.container(target.bits)
        return lambda mode, x: x.astype(word)
    return lambda mode, x: num.resize(x, source.bits, target.bits)


# -- slices -----------------------------------------------------------------------------------------------------------


def extract(x: Bits, width: int, lo: int, bits: int) -> Bits:
    """Bits ``lo`` .. ``lo + bits - 1`` of patterns of ``width`` bits; bits past the end are zero."""
    if bits == 1 and lo == width - 1 and width in _NATURAL:
        return x.view(_SIGNED[width]) < 0  # type: ignore[no-any-return]
    if lo >= width:
        return np.zeros(np.shape(x), num.container(bits))
    if lo == 0:
        return num.resize(x, width, bits)
    if width > 64:
        return num.resize(x >> lo, width - lo if width - lo > 64 else 65, bits)
    left = width - lo
    moved = x >> x.dtype.type(lo)
    if left == bits:
        return moved.astype(num.container(bits))  # type: ignore[no-any-return]
    return num.resize(moved, width, bits)


def extract_at(x: Bits, width: int, lo: Bits, bits: int) -> Bits:
    """The same with a position that varies."""
    if width > 64:
        return num.resize(x >> num.boxed(lo), max(width, 65), bits)
    word = num.container(width)
    moved = x >> np.minimum(lo, lo.dtype.type(width)).astype(word)
    return num.resize(moved, width, bits)


def insert(old: Bits, width: int, lo: Any, value: Bits, bits: int) -> Bits:
    """``old`` with ``bits`` bits from ``lo`` (an int or patterns) replaced by ``value``."""
    word = num.container(width)
    if word is np.bool_:
        return value
    if word is np.object_:
        place = lo if isinstance(lo, int) else num.boxed(lo)
        hole = ((1 << bits) - 1 << place) & ((1 << width) - 1)
        return (old & ~hole) | ((num.boxed(value) << place) & hole)
    place = word(lo) if isinstance(lo, int) else np.minimum(lo, lo.dtype.type(width)).astype(word)
    hole = (word((1 << bits) - 1) << place) & word((1 << width) - 1)
    return (old & ~hole) | ((value.astype(word) << place) & hole)  # type: ignore[no-any-return]
