"""Locals wider than 64 bits taken apart into dwords, so that no value needs Python integers.

A wide local qualifies when every use and every assignment of a part sits at constant positions, and every assignment of
the whole copies an operand or a constant. Everything else stays as it is. The statements keep their source text.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from mockgpu.pcode import ir
from mockgpu.pcode.oracle_expr import walk

_DWORD = ir.B32


def split_wide_locals(body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
    """The same program without the wide locals that qualify."""
    wide = {x.name: x.type.bits for x in walk(body) if isinstance(x, ir.Local) and x.type.bits > 64}
    keep = {name for name in wide if wide[name] % 32}
    _find_uses(body, keep)
    split = {name: bits // 32 for name, bits in wide.items() if name not in keep}
    return _Splitter(split).block(body) if split else body


def _plain_source(e: ir.Expr) -> bool:
    """A whole value that can be read dword by dword."""
    while isinstance(e, ir.Bitcast) and e.x.type.bits == e.type.bits:
        e = e.x
    return isinstance(e, (ir.Operand, ir.Const))


def _find_uses(node: Any, keep: set[str]) -> None:
    """Add to ``keep`` the locals that are used in a way that cannot be split."""
    if isinstance(node, tuple):
        for part in node:
            _find_uses(part, keep)
        return
    if type(node).__module__ != ir.__name__ or isinstance(node, ir.Type):
        return
    if isinstance(node, ir.Local) and node.type.bits > 64:
        keep.add(node.name)
    if isinstance(node, ir.Bits) and _is_wide(node.base) and isinstance(node.lo, ir.Const) and node.type.bits <= 64:
        return
    if isinstance(node, ir.Assign):
        _find_uses_in_assignment(node, keep)
        return
    for field in fields(node):
        _find_uses(getattr(node, field.name), keep)


def _is_wide(e: ir.Expr) -> bool:
    return isinstance(e, ir.Local) and e.type.bits > 64


def _find_uses_in_assignment(node: ir.Assign, keep: set[str]) -> None:
    target = node.target
    part = isinstance(target, ir.Bits) and _is_wide(target.base)
    whole_dwords = part and isinstance(target.lo, ir.Const) and target.lo.value % 32 == 0 and target.type.bits == 32  # type: ignore[union-attr]
    whole = _is_wide(target) and _plain_source(node.value)
    if not whole_dwords and not whole:
        if part:
            keep.add(target.base.name)  # type: ignore[union-attr]
        _find_uses(target, keep)
    _find_uses(node.value, keep)


class _Splitter:
    """Rewrites statements. ``split`` are the locals by their number of dwords."""

    def __init__(self, split: dict[str, int]) -> None:
        self.split = split

    def block(self, body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        return tuple(new for x in body for new in self._statement(x))

    def _statement(self, x: ir.Stmt) -> tuple[ir.Stmt, ...]:
        if isinstance(x, ir.Declare) and x.name in self.split:
            return tuple(ir.Declare(_part_name(x.name, k), _DWORD) for k in range(self.split[x.name]))
        if isinstance(x, ir.Assign) and isinstance(x.target, ir.Local) and x.target.name in self.split:
            source = x.value
            while isinstance(source, ir.Bitcast):
                source = source.x
            return tuple(self._copy(x.target.name, k, source, x.source) for k in range(self.split[x.target.name]))
        if isinstance(x, ir.If):
            arms = tuple((self._expr(cond), self.block(body)) for cond, body in x.arms)
            return (replace(x, arms=arms, orelse=self.block(x.orelse)),)
        if isinstance(x, (ir.For, ir.While)):
            return (replace(self._rebuild(x), body=self.block(x.body)),)
        return (self._rebuild(x),)

    def _copy(self, name: str, k: int, source: ir.Expr, text: str) -> ir.Stmt:
        if isinstance(source, ir.Const):
            value: ir.Expr = ir.Const(_DWORD, source.value >> 32 * k & 0xFFFFFFFF)
        else:
            value = ir.Bits(_DWORD, source, ir.Const(ir.U32, 32 * k))
        return ir.Assign(ir.Local(_DWORD, _part_name(name, k)), value, text)

    def _expr(self, e: Any) -> Any:
        if isinstance(e, ir.Bits) and isinstance(e.base, ir.Local) and e.base.name in self.split:
            return self._part(e.type, e.base.name, e.lo.value)  # type: ignore[union-attr]
        return self._rebuild(e)

    def _rebuild(self, node: Any) -> Any:
        """The node with its expressions rewritten; blocks inside are left to the caller."""
        changes = {}
        for field in fields(node):
            old = getattr(node, field.name)
            if field.name in ("body", "arms", "orelse") or isinstance(old, (str, int, ir.Type)) or old is None:
                continue
            changes[field.name] = tuple(self._expr(x) for x in old) if isinstance(old, tuple) else self._expr(old)
        return replace(node, **changes) if changes else node

    def _part(self, type: ir.Type, name: str, lo: int) -> ir.Expr:
        """``type.bits`` bits from ``lo`` out of the dwords of ``name``."""
        first, last = lo // 32, (lo + type.bits - 1) // 32
        dwords = tuple(ir.Local(_DWORD, _part_name(name, k)) for k in range(last, first - 1, -1))
        whole: ir.Expr = dwords[0] if len(dwords) == 1 else ir.Concat(ir.Type("b", 32 * len(dwords)), dwords)
        if whole.type.bits == type.bits:
            return whole if type == whole.type else ir.Bitcast(type, whole)
        return ir.Bits(type, whole, ir.Const(ir.U32, lo % 32))


def _part_name(name: str, k: int) -> str:
    return f"{name}[{32 * k + 31}:{32 * k}]"
