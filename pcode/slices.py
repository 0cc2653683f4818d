"""Widths of slices whose bounds are expressions: ``[i * 8 + 7 : i * 8]`` is 8 bits wide whatever ``i`` is."""

from __future__ import annotations

from collections import Counter

from mockgpu.pcode import ast
from mockgpu.pcode.typing import PcodeTypeError


def width(hi: ast.Expr, lo: ast.Expr) -> int:
    """``hi - lo + 1``, which must not depend on any variable; zero or less if the slice is reversed."""
    difference = _linear(hi)
    difference.subtract(_linear(lo))
    constant = difference.pop(None, 0)
    if any(difference.values()):
        raise PcodeTypeError("the width of a slice varies")
    return constant + 1


def constant(x: ast.Expr) -> int | None:
    """The value of an index that is a constant."""
    terms = _linear(x)
    value = terms.pop(None, 0)
    return None if any(terms.values()) else value


def _linear(x: ast.Expr) -> Counter[ast.Expr | None]:
    """``x`` as a sum: terms that are not constants by how often they occur, the constant under None."""
    if isinstance(x, ast.Number) and isinstance(x.value, int):
        return Counter({None: x.value})
    if isinstance(x, ast.Binary) and x.op in "+-":
        total = _linear(x.a)
        (total.update if x.op == "+" else total.subtract)(_linear(x.b))
        return total
    return Counter({x: 1})
