"""What a name stands for while one text is lowered: locals, lambdas, parameters, and the statements emitted so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mockgpu.pcode import ast
from mockgpu.pcode.ir import Assign, Const, Declare, Element, Expr, Local, Operand, Stmt, Type


@dataclass
class Output:
    """The program under construction. ``block`` is where statements go now; declarations all stand at the top."""

    declares: list[Declare] = field(default_factory=list)
    block: list[Stmt] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def unique(self, name: str) -> str:
        """``name``, or ``name_2`` ... if it is taken."""
        candidate, n = name, 2
        while candidate in self.names:
            candidate, n = f"{name}_{n}", n + 1
        self.names.add(candidate)
        return candidate

    def declare(self, name: str, type: Type, length: int | None = None) -> str:
        """A new local; returns its unique name."""
        unique = self.unique(name)
        self.declares.append(Declare(unique, type, length))
        return unique

    def emit(self, statement: Stmt) -> None:
        self.block.append(statement)

    @contextmanager
    def nested(self) -> Iterator[list[Stmt]]:
        """Statements emitted inside go to a list of their own."""
        outer, self.block = self.block, []
        try:
            yield self.block
        finally:
            self.block = outer

    def hold(self, x: Expr, name: str) -> Expr:
        """``x`` as something that is cheap to repeat: itself, or a local that holds it."""
        if isinstance(x, (Const, Local, Operand, Element)):
            return x
        local = Local(x.type, self.declare(name, x.type))
        self.emit(Assign(local, x))
        return local


@dataclass
class Array:
    """A local array."""

    name: str
    type: Type


Meaning = Expr | Array | ast.Lambda


@dataclass
class Scope:
    """Names of one text or one lambda body. ``bound`` operands (``S0`` of an inlined opcode) count as names too."""

    output: Output
    parent: Scope | None = None
    meanings: dict[str, Meaning] = field(default_factory=dict)
    returns: Callable[[Expr], None] | None = None

    def find(self, name: str) -> Meaning | None:
        if name in self.meanings:
            return self.meanings[name]
        return None if self.parent is None else self.parent.find(name)

    def local(self, name: str, type: Type) -> Local:
        """Declare a scalar local for ``name`` as written."""
        local = Local(type, self.output.declare(name, type))
        self.meanings[name] = local
        return local

    def array(self, name: str, type: Type, length: int) -> Array:
        array = Array(self.output.declare(name, type, length), type)
        self.meanings[name] = array
        return array
