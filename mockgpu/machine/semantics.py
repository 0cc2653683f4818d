"""The lowered pseudocode of an opcode in evaluated form, and questions about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass, replace
from typing import Any

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.opcode import Opcode
from mockgpu.pcode import ir, lower
from mockgpu.pcode.oracle import Evaluator, compile_program

#: Programs that builders asked for, while somebody watches.
_asked: ContextVar[list[ir.Program] | None] = ContextVar("asked", default=None)


@contextmanager
def watching_programs() -> Iterator[list[ir.Program]]:
    """The list grows by every program that is asked for inside the block."""
    asked: list[ir.Program] = []
    token = _asked.set(asked)
    try:
        yield asked
    finally:
        _asked.reset(token)


def evaluator_of(program: ir.Program) -> Evaluator:
    """The compiled form of a program."""
    return compile_program(program)


def opcode_program(opcode: Opcode, target: str = "") -> ir.Program:
    """The program of an opcode, with what is special about ``target``. Raises NoSemanticsError."""
    return named_program(opcode.family, opcode.table, opcode.name, target)


def named_program(family: str, table: str, name: str, target: str = "") -> ir.Program:
    """The program of an opcode by table and name. Raises NoSemanticsError."""
    try:
        program = lower.lower(family, table, name, target)
    except lower.NoSemanticsError as e:
        raise NoSemanticsError(name.lower(), e.reason, family) from None
    asked = _asked.get()
    if asked is not None:
        asked.append(program)
    return program


def nodes(root: Any) -> Iterator[Any]:
    """Every node of a program, statement or expression, parents first."""
    if isinstance(root, tuple):
        for item in root:
            yield from nodes(item)
    elif is_dataclass(root) and not isinstance(root, ir.Type):
        yield root
        for f in fields(root):
            yield from nodes(getattr(root, f.name))


def assignments(program: ir.Program) -> list[ir.Assign]:
    """All assignments of a program."""
    return [n for n in nodes(program.body) if isinstance(n, ir.Assign)]


def place(target: ir.Target) -> Any:
    """What an assignment changes: the base of a slice."""
    node: Any = target
    while isinstance(node, ir.Bits):
        node = node.base
    return node


#: Operands that are parts of MODE.
MODE_PARTS = ("WAVE_MODE.", "VSKIP")


def writes_mode(program: ir.Program) -> bool:
    """Whether a program may change MODE or another hardware register."""
    if any(name.startswith(MODE_PARTS) for name in program.writes):
        return True
    return any(isinstance(a.target, ir.HwReg) for a in assignments(program))


def writes_more_than_once(program: ir.Program) -> bool:
    """Whether registers may be written before the last read: then what was read must not be a view of registers."""
    targets = [place(a.target) for a in assignments(program)]
    return sum(not isinstance(t, ir.Local | ir.Element | ir.Mem) for t in targets) > 1


def rewrite(root: Any, change: Callable[[Any], Any]) -> Any:
    """The tree with ``change`` applied to every node from the top; a changed node is not entered."""
    if isinstance(root, tuple):
        return tuple(rewrite(item, change) for item in root)
    if not is_dataclass(root) or isinstance(root, ir.Type):
        return root
    changed = change(root)
    if changed is not root:
        return changed
    return replace(root, **{f.name: rewrite(getattr(root, f.name), change) for f in fields(root)})


def halves_apart(program: ir.Program) -> ir.Program:
    """Writes of one 16-bit half of the destination (``D0[31:16].f16``) as operands ``D0.lo`` and ``D0.hi``."""

    def change(node: Any) -> Any:
        if not isinstance(node, ir.Assign) or not isinstance(node.target, ir.Bits):
            return node
        base, lo = node.target.base, node.target.lo
        if not (isinstance(base, ir.Operand) and base.name == "D0" and base.type.bits == 32):
            return node
        if node.target.type.bits != 16 or not isinstance(lo, ir.Const):
            return node
        name = {0: "D0.lo", 16: "D0.hi"}[lo.value]
        return replace(node, target=ir.Operand(node.target.type, name))

    return replace(program, body=rewrite(program.body, change))
