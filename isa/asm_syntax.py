"""Syntax of assembly lines: text to the values below, by the grammar in asm_syntax.lark."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import isinf
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from mockgpu.isa.asm_error import AsmError


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or a floating-point number. ``column`` counts from 1 here and below."""

    value: int | float
    column: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name: register, constant, modifier or label."""

    name: str
    column: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """``v[first:last]``; ``v[n]`` has last equal to first."""

    letter: str
    first: Node
    last: Node
    column: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """``name(a, b)``."""

    name: str
    arguments: tuple[Node, ...]
    column: int = 0


@dataclass(frozen=True, slots=True)
class Items:
    """``[a, b]``."""

    items: tuple[Node, ...]
    column: int = 0


@dataclass(frozen=True, slots=True)
class Unary:
    """``-a``, ``~a`` or ``|a|`` (operator ``|``)."""

    operator: str
    operand: Node
    column: int = 0


@dataclass(frozen=True, slots=True)
class Binary:
    """``a + b`` and the like."""

    operator: str
    left: Node
    right: Node
    column: int = 0


@dataclass(frozen=True, slots=True)
class Joined:
    """Parts of one immediate: ``vmcnt(0) & lgkmcnt(0)``."""

    parts: tuple[Node, ...]
    column: int = 0


@dataclass(frozen=True, slots=True)
class Text:
    """A quoted string, without its quotes."""

    text: str
    column: int = 0


Node = Number | Symbol | Range | Call | Items | Unary | Binary | Joined | Text


@dataclass(frozen=True, slots=True)
class Modifier:
    """``name:value``."""

    name: str
    value: Node
    column: int


@dataclass(frozen=True, slots=True)
class Half:
    """A mnemonic with its parts: operands and modifiers in the order written."""

    mnemonic: str
    parts: tuple[Node | Modifier, ...]
    column: int = 1


@dataclass(frozen=True, slots=True)
class Directive:
    """``.name arguments``."""

    name: str
    arguments: tuple[Node, ...]
    column: int = 1


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its labels, and an instruction (two halves when dual) or a directive."""

    labels: tuple[Symbol, ...] = ()
    halves: tuple[Half, ...] = ()
    directive: Directive | None = None


_MOST_DIGITS = 80


def _column(token: Token) -> int:
    return token.column or 1


def _place(node: Node) -> int:
    return node.column


@v_args(inline=True)
class _Builder(Transformer[Token, Line]):
    """Turns the parse tree into values, bottom up."""

    def start(self, *children: Any) -> Line:
        labels = tuple(child for child in children if isinstance(child, Symbol))
        last = children[-1] if children else None
        if isinstance(last, Directive):
            return Line(labels, (), last)
        return Line(labels, last if isinstance(last, tuple) else ())

    def label(self, token: Token) -> Symbol:
        return Symbol(str(token).rstrip(": \t"), _column(token))

    def instruction(self, *halves: Half) -> tuple[Half, ...]:
        return halves

    def half(self, name: Token, *parts: Node | Modifier) -> Half:
        return Half(str(name), parts, _column(name))

    def directive(self, name: Token, *arguments: Node) -> Directive:
        return Directive(str(name), arguments, _column(name))

    def modifier(self, name: Token, value: Node) -> Modifier:
        return Modifier(str(name), value, _column(name))

    def value(self, node: Node) -> Node:
        return node

    def alternation(self, *parts: Node) -> Node:
        return Joined(parts, _place(parts[0]))

    def float(self, token: Token) -> Node:
        value = float(token)
        if isinf(value):
            raise AsmError(f"{token} is too large for a float", column=_column(token))
        return Number(value, _column(token))

    def integer(self, token: Token) -> Node:
        text = str(token)
        if len(text) > _MOST_DIGITS:
            raise AsmError(f"a number of {len(text)} digits is too long", column=_column(token))
        return Number(int(text, 0) if text[:2].lower() in ("0x", "0b") else int(text), _column(token))

    def symbol(self, token: Token) -> Node:
        return Symbol(str(token), _column(token))

    at_word = symbol

    def text(self, token: Token) -> Node:
        return Text(str(token)[1:-1], _column(token))

    def register_range(self, name: Token, first: Node, last: Node | None = None) -> Node:
        return Range(str(name), first, first if last is None else last, _column(name))

    def call(self, name: Token, *arguments: Node | None) -> Node:
        return Call(str(name), tuple(a for a in arguments if a is not None), _column(name))

    def items(self, *items: Node | None) -> Node:
        nodes = tuple(i for i in items if i is not None)
        return Items(nodes, _place(nodes[0]) - 1 if nodes else 0)

    def absolute(self, node: Node) -> Node:
        return Unary("|", node, max(1, _place(node) - 1))

    def negative(self, node: Node) -> Node:
        place = max(1, _place(node) - 1)
        return Number(-node.value, place) if isinstance(node, Number) else Unary("-", node, place)

    def complement(self, node: Node) -> Node:
        return Unary("~", node, max(1, _place(node) - 1))

    def add(self, left: Node, right: Node) -> Node:
        return Binary("+", left, right, _place(left))

    def subtract(self, left: Node, right: Node) -> Node:
        return Binary("-", left, right, _place(left))

    def multiply(self, left: Node, right: Node) -> Node:
        return Binary("*", left, right, _place(left))

    def divide(self, left: Node, right: Node) -> Node:
        return Binary("/", left, right, _place(left))

    def shift_left(self, left: Node, right: Node) -> Node:
        return Binary("<<", left, right, _place(left))

    def shift_right(self, left: Node, right: Node) -> Node:
        return Binary(">>", left, right, _place(left))


@functools.cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("asm_syntax.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", transformer=_Builder(), maybe_placeholders=False)


# What the terminals of the grammar are called in error messages.
_TERMINALS = {
    "NAME": "a name",
    "LABEL": "a label",
    "DIRECTIVE": "a directive",
    "INTEGER": "a number",
    "FLOAT": "a number",
    "IDENTIFIER": "a name",
    "TEXT": "a string",
    "AT_WORD": "a type such as @function",
    "$END": "the end of the line",
}
_SYMBOLS = {"COMMA": ",", "COLON": ":", "VBAR": "|", "LSQB": "[", "RSQB": "]", "LPAR": "(", "RPAR": ")"}
_SYMBOLS |= {"MINUS": "-", "PLUS": "+", "TILDE": "~", "STAR": "*", "SLASH": "/", "AMPERSAND": "&"}
_OPERATORS = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "TILDE", "AMPERSAND", "VBAR"})


def _expected(names: set[str]) -> str:
    """The terminals that would have been right, operators left out when there is anything else."""
    plain = {n for n in names if n not in _OPERATORS and not n.startswith("__")} or names
    shown = {_TERMINALS.get(n) or (f"'{_SYMBOLS[n]}'" if n in _SYMBOLS else "") for n in plain}
    return " or ".join(sorted(s for s in shown if s)) or "an operator"


def _syntax_error(error: UnexpectedInput, text: str) -> AsmError:
    column = error.column if isinstance(error.column, int) and error.column > 0 else len(text.rstrip()) + 1
    if isinstance(error, UnexpectedToken):
        found = "the line ends" if error.token.type == "$END" else f"unexpected {str(error.token)!r}"
        column = len(text.rstrip()) + 1 if error.token.type == "$END" else column
        return AsmError(f"{found}; expected {_expected(set(error.accepts or error.expected))}", column=column)
    if isinstance(error, UnexpectedCharacters):
        shown = text[column - 1 : column]
        return AsmError(
            f"unexpected character {shown!r}; expected {_expected(set(error.allowed or ()))}", column=column
        )
    return AsmError("not understood", column=column)


@functools.lru_cache(maxsize=1 << 14)
def parse_line(text: str) -> Line:
    """The meaning of one line without comments. Raises AsmError with the column."""
    try:
        tree: Any = _parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(error, text) from None
    assert isinstance(tree, Line)
    return tree
