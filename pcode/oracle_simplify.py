"""Expressions that mean the same and cost less to evaluate."""

from __future__ import annotations

from typing import Any

from mockgpu.pcode import ir
from mockgpu.pcode.oracle_rewrite import rewrite


def simplify(node: Any) -> Any:
    """Statements or an expression, with every rule below applied."""
    return rewrite(node, _simpler)


def _simpler(node: Any) -> ir.Expr | None:
    if isinstance(node, ir.Select):
        return _condition_as_bit(node)
    return _signs_compared(node) if isinstance(node, ir.Binary) else None


def _condition_as_bit(e: ir.Select) -> ir.Expr | None:
    """``c ? 1 : 0`` of one bit is ``c``, and ``c ? 0 : 1`` is ``!c``."""
    if e.type.bits != 1 or e.cond.type.bits != 1:
        return None
    arms = tuple(x.value if isinstance(x, ir.Const) else None for x in (e.a, e.b))
    if arms == (1, 0):
        return simplify(e.cond)  # type: ignore[no-any-return]
    return ir.Unary(e.type, "lnot", simplify(e.cond)) if arms == (0, 1) else None


def _signs_compared(e: ir.Binary) -> ir.Expr | None:
    """``a[31] != b[31]`` is ``(a ^ b)[31]``, and ``a[31] == b[31]`` is ``!(a ^ b)[31]``."""
    if e.op not in ("eq", "ne") or not isinstance(e.a, ir.Bits) or not isinstance(e.b, ir.Bits):
        return None
    width = e.a.base.type.bits
    places = [x.lo.value if isinstance(x.lo, ir.Const) and x.type.bits == 1 else None for x in (e.a, e.b)]
    if places != [width - 1] * 2 or e.b.base.type.bits != width or e.a.base.type.is_float or e.b.base.type.is_float:
        return None
    both = ir.Binary(ir.Type("u", width), "xor", simplify(e.a.base), simplify(e.b.base))
    differ = ir.Bits(ir.U1, both, e.a.lo)
    return differ if e.op == "ne" else ir.Unary(ir.U1, "lnot", differ)
