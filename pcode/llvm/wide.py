"""Values of more than 64 bits as tuples of dwords, which hosts handle better than wide integers.

Slices and concatenations at constant positions work on the dwords; everything else goes through one wide integer.
"""

from __future__ import annotations

from dataclasses import dataclass

from mockgpu.pcode.llvm import integers
from mockgpu.pcode.llvm.values import Builder, Value, constant, container, resize, same, select, width_of

NARROW = 64


@dataclass(frozen=True, slots=True)
class Wide:
    """``dwords``, the least significant first, each an i32 or one per lane."""

    dwords: tuple[Value, ...]


def is_wide(bits: int) -> bool:
    """Whether patterns of ``bits`` bits are held as dwords."""
    return bits > NARROW


def wide_constant(number: int, bits: int) -> Wide:
    return Wide(tuple(constant(number >> k & 0xFFFFFFFF, 32) for k in range(0, bits, 32)))


def split(b: Builder, value: Value, bits: int) -> Wide:
    """An integer as dwords; those above its width are zero."""
    width, out = width_of(value), []
    for k in range(0, bits, 32):
        if k >= width:
            out.append(constant(0, 32))
            continue
        out.append(resize(b, b.lshr(value, same(value, k)) if k else value, 32))
    return Wide(tuple(out))


def whole(b: Builder, value: Value | Wide) -> Value:
    """As one integer."""
    if not isinstance(value, Wide):
        return value
    parts = [(x, 32) for x in reversed(value.dwords)]
    return integers.concat(b, parts, 32 * len(parts))


def _around(b: Builder, x: Wide, at: int, bits: int) -> Value:
    """The dwords that hold ``bits`` bits from bit ``at``, as one integer."""
    first, last = at // 32, min((at + bits - 1) // 32, len(x.dwords) - 1)
    parts = [(d, 32) for d in reversed(x.dwords[first : last + 1])]
    return integers.concat(b, parts, 32 * len(parts))


def extract(b: Builder, x: Wide, at: int, bits: int) -> Value | Wide:
    """``bits`` bits from a constant position; bits past the end are zero."""
    if is_wide(bits):
        count = -(-bits // 32)
        parts = [extract(b, x, at + 32 * k, min(32, bits - 32 * k)) for k in range(count)]
        return Wide(tuple(resize(b, p, 32) for p in parts))
    if at >= 32 * len(x.dwords):
        return constant(0, container(bits))
    return integers.extract(b, _around(b, x, at, bits), constant(at % 32, 32), bits)


def insert(b: Builder, old: Wide, at: int, value: Value | Wide, bits: int) -> Wide:
    """``old`` with ``bits`` bits from a constant position replaced."""
    dwords = list(old.dwords)
    for k in range(at // 32, min(-(-(at + bits) // 32), len(dwords))):
        low = max(at, 32 * k)  # this dword's first new bit
        count = min(at + bits, 32 * k + 32) - low
        if isinstance(value, Wide):
            part = extract(b, value, low - at, count)
        else:
            part = integers.extract(b, value, constant(low - at, 32), count)
        dwords[k] = (
            resize(b, part, 32)
            if count == 32
            else integers.insert(b, dwords[k], 32, constant(low % 32, 32), part, count)
        )
    return Wide(tuple(dwords))


def choose(b: Builder, cond: Value, x: Value | Wide, y: Value | Wide) -> Value | Wide:
    """``cond ? x : y``."""
    if not isinstance(x, Wide) or not isinstance(y, Wide):
        return select(b, cond, x, y)
    pairs = zip(x.dwords, y.dwords, strict=True)
    return Wide(tuple(p if p is q else select(b, cond, p, q) for p, q in pairs))


__all__ = ["Wide", "choose", "extract", "insert", "is_wide", "split", "whole", "wide_constant"]
