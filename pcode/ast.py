"""The syntax tree of the pseudocode, as written: no types inferred, no names resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A literal. ``bits`` and ``kind`` come from its prefix or suffix; ``kind`` is "u", "i", "f" or "b".

    ``value`` is the number itself (an int, or a float for kind "f"), not a bit pattern. ``hexadecimal`` literals
    stand for bits where a float is wanted.
    """

    value: int | float
    bits: int
    kind: str
    hexadecimal: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """``base.field``: a type suffix (``.u32``) or a part of a register (``WAVE_MODE.IEEE``)."""

    base: Expr
    field: str


@dataclass(frozen=True, slots=True)
class Index:
    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Slice:
    """``base[hi : lo]``; with ``hi`` below ``lo`` the bits come out reversed."""

    base: Expr
    hi: Expr
    lo: Expr


@dataclass(frozen=True, slots=True)
class Part:
    """``base[lo +: width]``."""

    base: Expr
    lo: Expr
    width: Expr


@dataclass(frozen=True, slots=True)
class Call:
    fn: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """``32'U(x)``: ``kind`` is "U", "I", "F", "B" or "BF"."""

    bits: int
    kind: str
    x: Expr


@dataclass(frozen=True, slots=True)
class Unary:
    op: str
    x: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True, slots=True)
class Ternary:
    cond: Expr
    a: Expr
    b: Expr


@dataclass(frozen=True, slots=True)
class Concat:
    """``{ a, b }``: the first part is the most significant."""

    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Lambda:
    """``lambda(a, b) (expression)`` or a body of statements that returns."""

    params: tuple[str, ...]
    body: Expr | tuple[Stmt, ...]


Expr: TypeAlias = (
    Name | Number | Field | Index | Slice | Part | Call | Cast | Unary | Binary | Ternary | Concat | Lambda
)


@dataclass(frozen=True, slots=True)
class Declare:
    """``declare name : bits'kind[length]``."""

    name: str
    bits: int
    kind: str
    length: int | None


@dataclass(frozen=True, slots=True)
class Assign:
    """``op`` is "", "+" or "-"; a chained assignment has several ``targets``."""

    targets: tuple[Expr, ...]
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class If:
    arms: tuple[tuple[Expr, tuple[Stmt, ...]], ...]
    orelse: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class For:
    var: str
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class While:
    cond: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Break:
    pass


@dataclass(frozen=True, slots=True)
class Return:
    value: Expr


@dataclass(frozen=True, slots=True)
class Effect:
    """A call as a statement."""

    call: Call


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence in quotes."""

    text: str


Stmt: TypeAlias = Declare | Assign | If | For | While | Break | Return | Effect | Note
