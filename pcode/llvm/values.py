"""LLVM values as bit patterns: containers, broadcasting, constants.

A pattern of 1 bit is an ``i1``, of 2 to 16 bits an ``i16``, to 32 an ``i32``, to 64 an ``i64``, above that an integer
of a multiple of 32 bits. Bits above the pattern's width are zero. A value is uniform (a scalar) or has a lane axis
(a vector); the two mix freely, and the uniform one is broadcast only where an operation needs it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from llvmlite import ir

Value: TypeAlias = Any  #: an llvmlite value: of type IntType, or VectorType of IntType
Builder: TypeAlias = ir.IRBuilder


class NotNative(Exception):
    """Something that has no native form; ``reason`` says what. The oracle executes it instead."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


def container(bits: int) -> int:
    """The width of the integer that holds a pattern of ``bits`` bits."""
    if bits == 1:
        return 1
    for width in (16, 32, 64):
        if bits <= width:
            return width
    return -(-bits // 32) * 32


def lanes_of(value: Value) -> int:
    """The lanes of a value: 1 for a uniform one."""
    return value.type.count if isinstance(value.type, ir.VectorType) else 1


def width_of(value: Value) -> int:
    """Bits of a value's container."""
    kind = value.type.element if isinstance(value.type, ir.VectorType) else value.type
    return int(kind.width)


def typed(width: int, lanes: int) -> ir.Type:
    """The integer type of a width: scalar for 1 lane, else a vector."""
    scalar = ir.IntType(width)
    return scalar if lanes == 1 else ir.VectorType(scalar, lanes)


def like(value: Value, kind: ir.Type) -> ir.Type:
    """``kind`` with the lane axis of ``value``."""
    return ir.VectorType(kind, value.type.count) if isinstance(value.type, ir.VectorType) else kind


class Splat(ir.Constant):  # type: ignore[misc]
    """A vector constant that is the same in all lanes, ``one``: its text is short."""

    def __init__(self, kind: ir.VectorType, one: ir.Constant):
        super().__init__(kind, [one] * kind.count)
        self.one = one

    def _get_reference(self) -> str:
        return f"splat ({self.one})"


def splat(kind: ir.Type, value: int | float) -> ir.Constant:
    """A constant of a scalar or vector type, the same in all lanes."""
    if isinstance(kind, ir.VectorType):
        return Splat(kind, ir.Constant(kind.element, value))
    return ir.Constant(kind, value)


def constant(value: int, width: int, lanes: int = 1) -> ir.Constant:
    """An integer constant of a container's width, wrapped to it."""
    return splat(typed(width, lanes), value & ((1 << width) - 1))


def same(value: Value, number: int) -> ir.Constant:
    """A constant of the type of ``value``."""
    return splat(value.type, number & ((1 << width_of(value)) - 1))


def broadcast(b: Builder, value: Value, lanes: int) -> Value:
    """``value`` with a lane axis of ``lanes``."""
    if lanes == 1 or isinstance(value.type, ir.VectorType):
        return value
    kind = ir.VectorType(value.type, lanes)
    if isinstance(value, ir.Constant):
        return Splat(kind, value)
    first = b.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    order = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return b.shuffle_vector(first, ir.Constant(kind, ir.Undefined), order)


def unify(b: Builder, *values: Value) -> tuple[Value, ...]:
    """The values with one common lane axis, or all uniform."""
    lanes = max(map(lanes_of, values))
    return tuple(broadcast(b, v, lanes) for v in values)


def resize(b: Builder, value: Value, width: int) -> Value:
    """``value`` zero-extended or truncated to another container."""
    have = width_of(value)
    if have == width:
        return value
    kind = like(value, ir.IntType(width))
    return b.zext(value, kind) if have < width else b.trunc(value, kind)


def select(b: Builder, cond: Value, a: Value, c: Value) -> Value:
    """``cond ? a : c`` by lane; a uniform condition selects whole values."""
    if lanes_of(cond) > 1:
        cond, a, c = unify(b, cond, a, c)
    else:
        a, c = unify(b, a, c)
    return b.select(cond, a, c)


def interleaved(b: Builder, low: Value, high: Value) -> Value:
    """``<n x i64>`` of dwords by lane, by shuffles: hosts have those for less than extending and shifting."""
    lanes = lanes_of(low)
    dword = ir.IntType(32)
    order = ir.Constant(ir.VectorType(dword, 2 * lanes), [k + half for k in range(lanes) for half in (0, lanes)])
    return b.bitcast(b.shuffle_vector(low, high, order), ir.VectorType(ir.IntType(64), lanes))


def parted(b: Builder, value: Value, k: int) -> Value:
    """Dword ``k``, 0 or 1, of ``<n x i64>``."""
    lanes = lanes_of(value)
    dword = ir.IntType(32)
    words = b.bitcast(value, ir.VectorType(dword, 2 * lanes))
    order = ir.Constant(ir.VectorType(dword, lanes), [2 * i + k for i in range(lanes)])
    return b.shuffle_vector(words, ir.Constant(words.type, ir.Undefined), order)
