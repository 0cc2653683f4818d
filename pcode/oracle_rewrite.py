"""Replacing expressions everywhere in a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from mockgpu.pcode import ir

#: The replacement of an expression, or None to keep it (its parts are then looked at).
Replacement = Callable[[Any], ir.Expr | None]


def rewrite(node: Any, replacement: Replacement) -> Any:
    """``node`` (statements, expressions, tuples of them) with the expressions replaced that have a replacement."""
    if isinstance(node, tuple):
        return tuple(rewrite(x, replacement) for x in node)
    if type(node).__module__ != ir.__name__ or isinstance(node, ir.Type):
        return node
    new = replacement(node)
    if new is not None:
        return new
    parts = {f.name: getattr(node, f.name) for f in fields(node)}
    changed = {name: rewrite(old, replacement) for name, old in parts.items()}
    return node if changed == parts else replace(node, **changed)
