"""Walks over lowered programs: all parts of an expression, rewriting, and what a program reads and writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from mockgpu.pcode import ir
from mockgpu.pcode.ir import Const, Expr, Operand, Stmt, Target

_NODES = (
    ir.Const,
    ir.Operand,
    ir.Local,
    ir.Element,
    ir.Bits,
    ir.LaneBit,
    ir.Vgpr,
    ir.Sgpr,
    ir.HwReg,
    ir.Mem,
    ir.Unary,
    ir.Binary,
    ir.Select,
    ir.Cast,
    ir.Bitcast,
    ir.Concat,
    ir.Call,
)
#: Names under which the register files and memory appear among reads and writes.
_FILES: dict[type, str] = {ir.Vgpr: "VGPR", ir.Sgpr: "SGPR", ir.HwReg: "HWREG", ir.Mem: "MEM"}


def children(x: Expr) -> Iterator[Expr]:
    """The direct parts of ``x``."""
    for field in dataclasses.fields(x):
        value = getattr(x, field.name)
        if isinstance(value, _NODES):
            yield value
        elif isinstance(value, tuple):
            yield from (v for v in value if isinstance(v, _NODES))


def subexpressions(x: Expr) -> Iterator[Expr]:
    """``x`` and everything in it."""
    yield x
    for child in children(x):
        yield from subexpressions(child)


def rewrite(x: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """``x`` with ``change`` applied to every part, innermost first."""
    new: dict[str, object] = {}
    for field in dataclasses.fields(x):
        value = getattr(x, field.name)
        if isinstance(value, _NODES):
            new[field.name] = rewrite(value, change)
        elif isinstance(value, tuple):
            new[field.name] = tuple(rewrite(v, change) if isinstance(v, _NODES) else v for v in value)
    return change(dataclasses.replace(x, **new) if new else x)  # type: ignore[arg-type]


def rewrite_target(target: Target, change: Callable[[Expr], Expr]) -> Target:
    """``target`` with ``change`` applied to the addresses and indices in it, not to the place itself."""
    match target:
        case ir.Element():
            return dataclasses.replace(target, index=rewrite(target.index, change))
        case ir.Bits():
            base = rewrite_target(target.base, change)  # type: ignore[arg-type]
            return dataclasses.replace(target, base=base, lo=rewrite(target.lo, change))
        case ir.Vgpr():
            return dataclasses.replace(target, lane=rewrite(target.lane, change), reg=rewrite(target.reg, change))
        case ir.Sgpr():
            return dataclasses.replace(target, reg=rewrite(target.reg, change))
        case ir.HwReg():
            return dataclasses.replace(target, index=rewrite(target.index, change))
        case ir.Mem():
            return dataclasses.replace(target, addr=rewrite(target.addr, change))
        case ir.LaneBit() if target.lane is not None:
            return dataclasses.replace(target, lane=rewrite(target.lane, change))
    return target


def rewrite_statement(s: Stmt, change: Callable[[Expr], Expr], place: Callable[[Target], Target]) -> Stmt:
    """``s`` with ``change`` applied to all that it reads and ``place`` to all that it writes."""

    def block(statements: Iterable[Stmt]) -> tuple[Stmt, ...]:
        return tuple(rewrite_statement(t, change, place) for t in statements)

    match s:
        case ir.Assign():
            return ir.Assign(place(rewrite_target(s.target, change)), rewrite(s.value, change), s.source)
        case ir.If():
            arms = tuple((rewrite(c, change), block(b)) for c, b in s.arms)
            return ir.If(arms, block(s.orelse), s.source)
        case ir.For():
            return ir.For(s.var, rewrite(s.start, change), rewrite(s.stop, change), block(s.body), s.source)
        case ir.While():
            return ir.While(rewrite(s.cond, change), block(s.body), s.source)
        case ir.Effect():
            call = rewrite(s.call, change)
            assert isinstance(call, ir.Call)
            return ir.Effect(call, s.source)
    return s


def statements(block: Iterable[Stmt]) -> Iterator[Stmt]:
    """All statements, nested ones too, in the order of the text."""
    for s in block:
        yield s
        match s:
            case ir.If():
                for _, body in s.arms:
                    yield from statements(body)
                yield from statements(s.orelse)
            case ir.For() | ir.While():
                yield from statements(s.body)


def read_expressions(s: Stmt) -> Iterator[Expr]:
    """The expressions that ``s`` itself evaluates (not those of nested statements), with those in its target."""
    match s:
        case ir.Assign():
            yield s.value
            yield from _target_expressions(s.target)
        case ir.If():
            yield from (c for c, _ in s.arms)
        case ir.For():
            yield from (s.start, s.stop)
        case ir.While():
            yield s.cond
        case ir.Effect():
            yield s.call


def _target_expressions(target: Target) -> Iterator[Expr]:
    if isinstance(target, ir.Bits):
        yield target.lo
        yield from _target_expressions(target.base)  # type: ignore[arg-type]
    else:
        yield from children(target)


def root(target: Target) -> Target:
    """The place that a slice is part of."""
    while isinstance(target, ir.Bits):
        target = target.base  # type: ignore[assignment]
    return target


def place_name(target: Target) -> str | None:
    """The name under which a place counts as written; None for a local."""
    place = root(target)
    if isinstance(place, (ir.Operand, ir.LaneBit)):
        return place.name
    return _FILES.get(type(place))


def reads(block: Iterable[Stmt]) -> frozenset[str]:
    """Names of operands (and MEM, VGPR, SGPR, HWREG) whose old value matters: they are read, or kept in part."""
    names: set[str] = set()
    for s in statements(block):
        for x in read_expressions(s):
            names.update(_names(x))
    return frozenset(names | _kept(block))


def _names(x: Expr) -> Iterator[str]:
    for part in subexpressions(x):
        if isinstance(part, (Operand, ir.LaneBit)):
            yield part.name
        elif type(part) in _FILES:
            yield _FILES[type(part)]


def writes(block: Iterable[Stmt]) -> frozenset[str]:
    """Names of operands (and MEM, VGPR, SGPR, HWREG) that may be written."""
    targets = (s.target for s in statements(block) if isinstance(s, ir.Assign))
    return frozenset(name for t in targets if (name := place_name(t)) is not None)


def _kept(block: Iterable[Stmt]) -> set[str]:
    """Places of which a part keeps its old bits: written by slices that do not cover them for sure."""
    partial: set[str] = set()
    covered: dict[str, int] = {}
    whole: dict[str, int] = {}
    for s in statements(block):
        if isinstance(s, ir.Assign) and isinstance(s.target, ir.Bits) and (name := place_name(s.target)):
            partial.add(name)
            whole[name] = (1 << root(s.target).type.bits) - 1
    for s in block:
        if isinstance(s, ir.Assign) and isinstance(s.target, ir.Bits) and isinstance(s.target.lo, Const):
            name = place_name(s.target)
            if name is not None and isinstance(s.target.base, Operand):
                covered[name] = covered.get(name, 0) | ((1 << s.target.type.bits) - 1) << s.target.lo.value
    return {name for name in partial if covered.get(name, 0) != whole[name]}
