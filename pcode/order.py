"""Make a program independent of when an executor reads and writes registers.

A destination may be the same register as a source, and executors modify sources and results on the way (abs, neg,
clamp). So a lowered program reads each source once, before it writes anything, and writes each destination once, at
its end, if it would otherwise read back or patch what it has written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeAlias

from mockgpu.pcode import ir, walk
from mockgpu.pcode.ir import Assign, Const, Expr, Local, Operand, Stmt, Target, Type
from mockgpu.pcode.scope import Output
from mockgpu.pcode.typing import bitcast

Read: TypeAlias = Callable[[Expr], Expr]
Place: TypeAlias = Callable[[Target], Target]

_DESTINATIONS = ("D0", "D1")
_MAX_BUFFERED_BITS = 64


def settle(body: Iterable[Stmt], output: Output) -> list[Stmt]:
    """``body`` with destinations buffered and sources read first; declarations go to ``output``."""
    block = list(body)
    for name in _DESTINATIONS:
        block = _buffer(block, name, output)
    return _preload(block, output)


# -- sources --------------------------------------------------------------------------------------------------------


def _preload(block: list[Stmt], output: Output) -> list[Stmt]:
    """Operands that are read more than once, in a loop, or after a write, are read into a local at the start."""
    written = walk.writes(block)
    counts: Counter[Operand] = Counter()
    late: set[Operand] = set()
    dirty = False
    for s in walk.statements(block):
        used = [x for e in walk.read_expressions(s) for x in walk.subexpressions(e) if isinstance(x, Operand)]
        counts.update(used)
        if dirty:
            late.update(used)
        if isinstance(s, (ir.For, ir.While)):
            late.update(_read_in(s.body))
        dirty = dirty or (isinstance(s, Assign) and walk.place_name(s.target) is not None)
    chosen = [o for o, n in counts.items() if o.name not in written and (n > 1 or o in late)]
    locals_ = {o: Local(o.type, output.declare(_local_name(o), o.type)) for o in chosen}

    def change(x: Expr) -> Expr:
        return locals_.get(x, x) if isinstance(x, Operand) else x

    loads: list[Stmt] = [Assign(local, operand, f"{local.name} = {operand.name}") for operand, local in locals_.items()]
    return loads + [walk.rewrite_statement(s, change, lambda t: t) for s in block]


def _read_in(block: Iterable[Stmt]) -> set[Operand]:
    parts = (x for s in walk.statements(block) for e in walk.read_expressions(s) for x in walk.subexpressions(e))
    return {x for x in parts if isinstance(x, Operand)}


def _local_name(operand: Operand) -> str:
    return f"{operand.name}_{operand.type}".replace(".", "_")


# -- destinations ------------------------------------------------------------------------------------------------------


def _buffer(block: list[Stmt], name: str, output: Output) -> list[Stmt]:
    """``name`` in a local that is written back at the end, where the text patches it or reads it after writing it."""
    targets = [s.target for s in walk.statements(block) if isinstance(s, Assign) and walk.place_name(s.target) == name]
    if not targets or any(isinstance(walk.root(t), ir.LaneBit) for t in targets):
        return block
    if not _needs_buffer(block, name, targets):
        return block
    bits = max(walk.root(t).type.bits for t in targets)
    type = walk.root(targets[0]).type if bits == walk.root(targets[0]).type.bits else Type("b", bits)
    if bits > _MAX_BUFFERED_BITS:
        return block
    local = Local(type, output.declare(name, type))

    def read(x: Expr) -> Expr:
        return bitcast(local, x.type) if isinstance(x, Operand) and x.name == name else x

    def place(t: Target) -> Target:
        return _local_place(t, local) if walk.place_name(t) == name else t

    before, after = _split(block, name, local)
    rewritten = [_retarget(s, read, place, local) for s in after]
    return [*before, *rewritten, Assign(Operand(type, name), local, f"{name} = result")]


def _needs_buffer(block: list[Stmt], name: str, targets: list[Target]) -> bool:
    partial = sum(isinstance(t, ir.Bits) for t in targets)
    return partial > 1 or _read_after_write(block, name) or _written_in_loop(block, name)


def _written_in_loop(block: list[Stmt], name: str) -> bool:
    loops = (s for s in walk.statements(block) if isinstance(s, (ir.For, ir.While)))
    return any(name in walk.writes(s.body) for s in loops)


def _read_after_write(block: list[Stmt], name: str) -> bool:
    dirty = False
    for s in walk.statements(block):
        if dirty and name in walk.reads([s]):
            return True
        dirty = dirty or (isinstance(s, Assign) and walk.place_name(s.target) == name)
    return False


def _split(block: list[Stmt], name: str, local: Local) -> tuple[list[Stmt], list[Stmt]]:
    """Statements to run before the rest: the old value is loaded unless the text overwrites it for sure."""
    if name not in walk.reads(block) and _written_for_sure(block, name):
        return [], block
    if not _first_is_whole_write(block, name):
        return [Assign(local, Operand(local.type, name), f"{local.name} = {name}")], block
    return [], block


def _written_for_sure(block: list[Stmt], name: str) -> bool:
    return any(isinstance(s, Assign) and walk.place_name(s.target) == name for s in block)


def _first_is_whole_write(block: list[Stmt], name: str) -> bool:
    """The first statement that touches ``name`` overwrites all of it, without reading it."""
    for s in block:
        if name in walk.reads([s]):
            return False
        if name in walk.writes([s]):
            return isinstance(s, Assign) and isinstance(s.target, Operand)
    return False


def _local_place(target: Target, local: Local) -> Target:
    if isinstance(target, ir.Bits):
        return ir.Bits(target.type, _local_place(target.base, local), target.lo)  # type: ignore[arg-type]
    if target.type.bits == local.type.bits:
        return local
    return ir.Bits(target.type, local, Const(ir.U32, 0))


def _retarget(s: Stmt, read: Read, place: Place, local: Local) -> Stmt:
    """Writes of the destination become writes of the local; values are bitcast to its type."""
    return _cast_values(walk.rewrite_statement(s, read, place), local)


def _cast_values(s: Stmt, local: Local) -> Stmt:
    match s:
        case Assign() if s.target == local and s.value.type != local.type:
            return Assign(s.target, bitcast(s.value, local.type), s.source)
        case ir.If():
            arms = tuple((c, tuple(_cast_values(t, local) for t in b)) for c, b in s.arms)
            return ir.If(arms, tuple(_cast_values(t, local) for t in s.orelse), s.source)
        case ir.For():
            return ir.For(s.var, s.start, s.stop, tuple(_cast_values(t, local) for t in s.body), s.source)
    return s
