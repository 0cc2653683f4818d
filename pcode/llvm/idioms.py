"""Patterns of expressions that hosts have an instruction for."""

from __future__ import annotations

from mockgpu.pcode import ir


def funnel_shift(e: ir.Bitcast) -> tuple[ir.Expr, ir.Expr, ir.Expr] | None:
    """``({high, low} >> count)[31 : 0]`` of dwords, with a count below 32: high, low and count."""
    x = e.x
    if e.type.bits != 32:
        return None
    if (
        isinstance(x, ir.Binary)
        and x.op == "and"
        and isinstance(x.b, ir.Const)
        and x.b.value & 0xFFFFFFFF == 0xFFFFFFFF
    ):
        x = x.a
    if not isinstance(x, ir.Binary) or x.op != "shr" or x.a.type.bits != 64 or largest(x.b) > 31:
        return None
    both = x.a
    while isinstance(both, ir.Bitcast) and both.x.type.bits == 64:
        both = both.x
    if not isinstance(both, ir.Concat) or [p.type.bits for p in both.parts] != [32, 32]:
        return None
    return both.parts[0], both.parts[1], x.b


def largest(e: ir.Expr) -> int:
    """A number that no value of an unsigned expression exceeds."""
    every = (1 << e.type.bits) - 1
    if isinstance(e, ir.Const):
        return e.value
    if isinstance(e, ir.Bitcast) or (isinstance(e, ir.Cast) and e.x.type.kind != "i" and not e.x.type.is_float):
        return min(every, largest(e.x))
    if isinstance(e, ir.Binary) and e.op == "mul":
        return min(every, largest(e.a) * largest(e.b))
    return every


__all__ = ["funnel_shift", "largest"]
