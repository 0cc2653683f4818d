"""Sums and products of 65 to 128 bits as two 64-bit halves, so that no value needs Python integers.

A wide local qualifies when it is assigned once, from additions, small products, constants and conversions of at most 64
bits, and when it is only used in slices at constant positions that lie in one half (the carry of V_MAD_U64_U32).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from mockgpu.pcode import ir
from mockgpu.pcode.oracle_expr import walk
from mockgpu.pcode.oracle_rewrite import rewrite

_HALF = 64


@dataclass(frozen=True, slots=True)
class _Halves:
    low: ir.Expr
    high: ir.Expr


class _NotHalves(Exception):
    """The expression cannot be taken apart."""


def halve_wide_sums(body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
    """The same program without the wide locals that qualify."""
    locals_ = {x.name: x.type.bits for x in walk(body) if isinstance(x, ir.Local) and x.type.bits > _HALF}
    for name, bits in locals_.items():
        if bits <= 2 * _HALF and _is_sliced(body, name):
            body = _halved(body, name)
    return body


def _is_sliced(body: tuple[ir.Stmt, ...], name: str) -> bool:
    """Assigned whole exactly once, at the top, and otherwise only read in slices of one half."""
    uses = Counter(type(x) for x in walk(body) if isinstance(x, ir.Local) and x.name == name)
    assigned = [
        x for x in body if isinstance(x, ir.Assign) and isinstance(x.target, ir.Local) and x.target.name == name
    ]
    slices = [x for x in walk(body) if isinstance(x, ir.Bits) and isinstance(x.base, ir.Local) and x.base.name == name]
    inside = all(isinstance(x.lo, ir.Const) and _in_one_half(x.lo.value, x.type.bits) for x in slices)
    return len(assigned) == 1 and inside and uses[ir.Local] == 1 + len(slices)


def _in_one_half(lo: int, bits: int) -> bool:
    return lo // _HALF == (lo + bits - 1) // _HALF


def _halved(body: tuple[ir.Stmt, ...], name: str) -> tuple[ir.Stmt, ...]:
    out: list[ir.Stmt] = []
    for x in body:
        if isinstance(x, ir.Declare) and x.name == name:
            continue
        if isinstance(x, ir.Assign) and isinstance(x.target, ir.Local) and x.target.name == name:
            builder = _Builder(name, x.source)
            try:
                halves = builder.halves(x.value)
            except _NotHalves:
                return body
            builder.keep("low", halves.low)
            builder.keep("high", halves.high)
            out += builder.statements
            continue
        out.append(x)
    rewritten: tuple[ir.Stmt, ...] = rewrite(tuple(out), lambda e: _slice_of_half(e, name))
    return rewritten


def _slice_of_half(e: ir.Expr, name: str) -> ir.Expr | None:
    if not isinstance(e, ir.Bits) or not isinstance(e.base, ir.Local) or e.base.name != name:
        return None
    assert isinstance(e.lo, ir.Const)
    half = ir.Local(ir.U64, f"{name}.{'high' if e.lo.value >= _HALF else 'low'}")
    if e.type.bits == _HALF:
        return ir.Bitcast(e.type, half)
    return replace(e, base=half, lo=ir.Const(ir.U32, e.lo.value % _HALF))


class _Builder:
    """Statements that compute the halves of one value."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source
        self.statements: list[ir.Stmt] = []

    def keep(self, part: str, value: ir.Expr) -> ir.Expr:
        """Hold a half in a local."""
        place = ir.Local(ir.U64, f"{self.name}.{part}")
        self.statements.append(ir.Assign(place, value, self.source))
        return place

    def halves(self, e: ir.Expr) -> _Halves:
        """Raises _NotHalves for an expression that does not qualify."""
        match e:
            case ir.Const():
                return _Halves(ir.Const(ir.U64, e.value & ((1 << _HALF) - 1)), ir.Const(ir.U64, e.value >> _HALF))
            case ir.Bitcast() if e.x.type.bits == e.type.bits:
                return self.halves(e.x)
            case ir.Cast() if e.x.type.bits <= _HALF and not e.x.type.is_float:
                return self._extended(e.x)
            case ir.Binary(op="mul") if _fits(e.a) and _fits(e.b) and e.type.kind in "ui":
                return self._product(e)
            case ir.Binary(op="add"):
                return self._sum(self.halves(e.a), self.halves(e.b))
        raise _NotHalves

    def _extended(self, x: ir.Expr) -> _Halves:
        if x.type.kind != "i":
            return _Halves(ir.Cast(ir.U64, x), ir.Const(ir.U64, 0))
        whole = ir.Local(ir.U64, f"{self.name}.{len(self.statements)}")
        self.statements.append(ir.Assign(whole, ir.Bitcast(ir.U64, ir.Cast(ir.I64, x)), self.source))
        return _Halves(whole, _sign_of(whole))

    def _product(self, e: ir.Binary) -> _Halves:
        """Of two numbers of at most 32 bits: it fits 64, with the sign if there is one."""
        kind = ir.Type(e.type.kind, _HALF)
        a, b = (ir.Cast(kind, x.x) for x in (e.a, e.b) if isinstance(x, ir.Cast))
        low = self.keep(str(len(self.statements)), ir.Bitcast(ir.U64, ir.Binary(kind, "mul", a, b)))
        return _Halves(low, _sign_of(low) if kind.kind == "i" else ir.Const(ir.U64, 0))

    def _sum(self, a: _Halves, b: _Halves) -> _Halves:
        addend = self.keep(str(len(self.statements)), b.low)
        low = self.keep(str(len(self.statements)), ir.Binary(ir.U64, "add", a.low, addend))
        carry = ir.Cast(ir.U64, ir.Binary(ir.U1, "lt", low, addend))
        return _Halves(low, ir.Binary(ir.U64, "add", ir.Binary(ir.U64, "add", a.high, b.high), carry))


def _fits(e: ir.Expr) -> bool:
    return isinstance(e, ir.Cast) and e.x.type.bits <= 32 and e.x.type.kind == e.type.kind


def _sign_of(x: ir.Expr) -> ir.Expr:
    shifted = ir.Binary(ir.I64, "shr", ir.Bitcast(ir.I64, x), ir.Const(ir.U32, 63))
    return ir.Bitcast(ir.U64, shifted)
