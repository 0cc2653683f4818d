"""Programs that move consecutive dwords between memory and registers, and do nothing else.

Such a program can move all of them at once: dword k of its operand belongs to the address of the first one plus 4 k.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from mockgpu.machine.semantics import nodes
from mockgpu.pcode import ir


@dataclass(frozen=True, slots=True)
class Burst:
    """``dwords`` of ``operand`` are loaded or stored. ``first`` is the program that moves the first one alone."""

    dwords: int
    operand: str
    first: ir.Program


@dataclass(frozen=True, slots=True)
class _Move:
    """One dword: register bit ``lo`` of ``operand``, and the byte ``step`` from the address ``base``."""

    operand: str
    lo: int
    base: ir.Expr
    step: int
    stores: bool
    statement: ir.Assign = field(compare=False)


def burst_of(program: ir.Program) -> Burst | None:
    """What a program moves, or None when it does something else or moves a single dword."""
    names: dict[str, str] = {}  # operands by the locals that are copies of them
    count = sum(1 for _ in itertools.takewhile(lambda x: _is_preparation(x, names), program.body))
    moves = [_move(x, names) for x in program.body[count:]]
    if len(moves) < 2 or moves[0] is None or not all(_follows(moves[0], m, k) for k, m in enumerate(moves)):
        return None
    return Burst(len(moves), moves[0].operand, replace(program, body=(*program.body[:count], moves[0].statement)))


def _is_preparation(statement: ir.Stmt, names: dict[str, str]) -> bool:
    """Whether a statement only declares a local or copies an operand to one."""
    if isinstance(statement, ir.Declare):
        return True
    if not isinstance(statement, ir.Assign) or not isinstance(statement.target, ir.Local):
        return False
    if not isinstance(statement.value, ir.Operand):
        return False
    names[statement.target.name] = statement.value.name
    return True


def _move(statement: ir.Stmt, names: dict[str, str]) -> _Move | None:
    if not isinstance(statement, ir.Assign):
        return None
    stores = isinstance(statement.target, ir.Mem)
    place, part = (statement.target, statement.value) if stores else (statement.value, statement.target)
    if not isinstance(place, ir.Mem) or place.type.bits != 32 or any(isinstance(n, ir.Mem) for n in nodes(place.addr)):
        return None
    if not isinstance(part, ir.Bits) or part.type.bits != 32 or not isinstance(part.lo, ir.Const):
        return None
    if not isinstance(part.base, ir.Operand | ir.Local):
        return None
    name = names.get(part.base.name) if isinstance(part.base, ir.Local) else part.base.name
    return None if name is None else _Move(name, part.lo.value, *_linear(place.addr), stores, statement)


def _follows(first: _Move, move: _Move | None, k: int) -> bool:
    """Whether ``move`` is the one that comes ``k`` dwords behind ``first``."""
    return move == replace(first, lo=32 * k, step=first.step + 4 * k) and first.lo == 0


def _linear(addr: ir.Expr) -> tuple[ir.Expr, int]:
    """An address as a base and the constant that is added to it."""
    if isinstance(addr, ir.Cast | ir.Bitcast):
        return _linear(addr.x)
    if isinstance(addr, ir.Binary) and addr.op == "add" and isinstance(addr.b, ir.Const):
        base, step = _linear(addr.a)
        return base, step + addr.b.value
    return addr, 0
