"""From a pseudocode string to its syntax tree (:mod:`mockgpu.pcode.ast`), by the grammar in ``grammar.lark``."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
from importlib import resources
from typing import Any, cast

import lark

from mockgpu.isa.errors import MockGPUError
from mockgpu.isa.table_cache import cache_folder
from mockgpu.pcode import ast


class PcodeSyntaxError(MockGPUError, ValueError):
    """A text that is not pseudocode: prose, an assembler example, or cut off. ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column


def parse(text: str) -> tuple[ast.Stmt, ...]:
    """The statements of ``text``. Raises :class:`PcodeSyntaxError`."""
    try:
        return cast("tuple[ast.Stmt, ...]", _parser().parse(text))
    except lark.exceptions.VisitError as error:
        if isinstance(error.orig_exc, PcodeSyntaxError):
            raise error.orig_exc from None
        raise
    except lark.exceptions.UnexpectedInput as error:
        context = error.get_context(text, 40).strip("\n").split("\n")[0].strip()
        raise PcodeSyntaxError(f"unexpected input at {context!r}", int(error.line), int(error.column)) from None


@functools.cache
def _parser() -> lark.Lark:
    grammar = resources.files("mockgpu.pcode").joinpath("grammar.lark").read_text(encoding="utf-8")
    return lark.Lark(
        grammar, parser="lalr", transformer=_Builder(), maybe_placeholders=True, cache=_kept_tables(grammar) or False
    )


def _kept_tables(grammar: str) -> str | None:
    """The file in which lark keeps the tables that it makes of the grammar, which takes 0.3 s; None for nowhere.

    lark makes them again where the file is damaged or another version's.
    """
    digest = hashlib.sha256(f"{lark.__version__} {sys.version} {grammar}".encode()).hexdigest()[:16]
    try:
        folder = cache_folder()
        os.makedirs(folder, exist_ok=True)
        if not os.access(folder, os.W_OK):
            return None
    except OSError:
        return None
    return os.path.join(folder, f"grammar-{digest}.lark")


def _number(text: str) -> ast.Number:
    """``12``, ``0xffULL``, ``1.0F``: without a suffix an integer is i32, a float is f64."""
    if match := re.fullmatch(r"(0x[0-9a-fA-F]+|\d+)(U?)(L*)", text):
        digits, unsigned, long = match.groups()
        return ast.Number(int(digits, 0), 64 if long else 32, "u" if unsigned else "i", digits.startswith("0x"))
    return ast.Number(float(text.rstrip("F")), 32 if text.endswith("F") else 64, "f")


def _sized(text: str) -> ast.Number:
    """``16'4``, ``6'60U``, ``8'0xff``, ``16'1.0``: hexadecimal ones are raw bits."""
    width, _, rest = text.partition("'")
    if rest.startswith("0x"):
        return ast.Number(int(rest.rstrip("U"), 16), int(width), "b", True)
    if "." in rest:
        return ast.Number(float(rest), int(width), "f")
    return ast.Number(int(rest.rstrip("U")), int(width), "u" if rest.endswith("U") else "i")


def _type(token: str) -> tuple[int, str]:
    width, _, kind = token.partition("'")
    return int(width), kind


@lark.v_args(inline=True)
class _Builder(lark.Transformer[Any, Any]):
    """Turns productions into nodes while parsing. Optional parts that are absent arrive as None."""

    def start(self, block: tuple[ast.Stmt, ...], *_: object) -> tuple[ast.Stmt, ...]:
        return block

    def block(self, *statements: ast.Stmt | None) -> tuple[ast.Stmt, ...]:
        return tuple(s for s in statements if s is not None)

    body = block

    def declare(self, name: str, token: str, length: str | None) -> ast.Declare:
        bits, kind = _type(token)
        return ast.Declare(str(name), bits, kind, None if length is None else int(length))

    def assign(self, target: ast.Expr, op: str, value: ast.Expr | ast.Assign) -> ast.Assign:
        if not isinstance(value, ast.Assign):
            return ast.Assign((target,), op[:-1], value)
        return ast.Assign((target, *value.targets), op[:-1], value.value)

    def lambda_(self, *parts: Any) -> ast.Lambda:
        *params, body = parts
        return ast.Lambda(tuple(str(p) for p in params if p is not None), body)

    def if_(self, *parts: Any) -> ast.If:
        *arms, orelse = parts
        pairs = tuple(zip(arms[::2], arms[1::2], strict=True))
        return ast.If(pairs, orelse or ())

    def for_(self, var: str, start: ast.Expr, stop: ast.Expr, body: tuple[ast.Stmt, ...]) -> ast.For:
        return ast.For(str(var), start, stop, body)

    def while_(self, cond: ast.Expr, body: tuple[ast.Stmt, ...]) -> ast.While:
        return ast.While(cond, body)

    def break_(self) -> ast.Break:
        return ast.Break()

    def return_(self, value: ast.Expr) -> ast.Return:
        return ast.Return(value)

    def effect(self, call: ast.Expr) -> ast.Effect:
        if not isinstance(call, ast.Call):
            raise PcodeSyntaxError("an expression without effect", 1, 1)
        return ast.Effect(call)

    def note(self, text: str) -> ast.Note:
        return ast.Note(text.strip('"'))

    def ternary(self, cond: ast.Expr, a: ast.Expr, b: ast.Expr) -> ast.Ternary:
        return ast.Ternary(cond, a, b)

    def binary(self, a: ast.Expr, op: str, b: ast.Expr) -> ast.Binary:
        return ast.Binary(str(op), a, b)

    def unary(self, op: str, x: ast.Expr) -> ast.Unary:
        return ast.Unary(str(op), x)

    def field(self, base: ast.Expr, name: str) -> ast.Field:
        return ast.Field(base, str(name))

    def index(self, base: ast.Expr, index: ast.Expr) -> ast.Index:
        return ast.Index(base, index)

    def slice(self, base: ast.Expr, hi: ast.Expr, lo: ast.Expr) -> ast.Slice:
        return ast.Slice(base, hi, lo)

    def part(self, base: ast.Expr, lo: ast.Expr, width: ast.Expr) -> ast.Part:
        return ast.Part(base, lo, width)

    def name(self, name: str) -> ast.Name:
        return ast.Name(str(name))

    def number(self, text: str) -> ast.Number:
        return _number(text)

    def sized(self, text: str) -> ast.Number:
        return _sized(text)

    def cast(self, token: str, x: ast.Expr) -> ast.Cast:
        bits, kind = _type(token)
        return ast.Cast(bits, kind, x)

    def call(self, fn: str, *args: ast.Expr | None) -> ast.Call:
        return ast.Call(str(fn), tuple(a for a in args if a is not None))

    def concat(self, *parts: ast.Expr) -> ast.Concat:
        return ast.Concat(parts)
