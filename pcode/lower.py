"""Lowering: the pseudocode of an opcode as a typed :class:`~mockgpu.pcode.ir.Program`.

The text comes from the manuals (:mod:`mockgpu.pcode.text`) as corrected by the errata (:mod:`mockgpu.pcode.errata`);
the names of operands are those of :data:`~mockgpu.pcode.operands.OPERANDS`.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator

from mockgpu.isa import errors
from mockgpu.pcode import ast, slices, walk
from mockgpu.pcode.errata import corrected_text, is_special, no_semantics_reason
from mockgpu.pcode.ir import Expr, Local, Program, Stmt
from mockgpu.pcode.lower_stmt import StmtLowering
from mockgpu.pcode.operands import ALIASES, OPERAND_WIDTHS, OPERANDS
from mockgpu.pcode.order import settle
from mockgpu.pcode.parser import PcodeSyntaxError, parse
from mockgpu.pcode.prose import kind_of_prose
from mockgpu.pcode.scope import Output, Scope
from mockgpu.pcode.text import FAMILIES, pcode_texts
from mockgpu.pcode.typing import PcodeTypeError

__all__ = ["OPERANDS", "NoSemanticsError", "lower", "lower_text"]

_NESTED = (
    ast.Name,
    ast.Number,
    ast.Field,
    ast.Index,
    ast.Slice,
    ast.Part,
    ast.Call,
    ast.Cast,
    ast.Unary,
    ast.Binary,
    ast.Ternary,
    ast.Concat,
    ast.Lambda,
    ast.Assign,
    ast.If,
    ast.For,
    ast.While,
    ast.Return,
    ast.Effect,
    tuple,
)


class NoSemanticsError(errors.NoSemanticsError):
    """An opcode has no pseudocode that can be executed; ``reason`` says why. What it does is the engine's part."""

    def __init__(self, family: str, table: str, name: str, reason: str) -> None:
        super().__init__(f"{table}.{name}", reason, family)
        self.family, self.table, self.name = family, table, name


def lower(family: str, table: str, name: str, target: str = "") -> Program:
    """The program of an opcode, e.g. ``lower("rdna3", "VOP2Op", "V_ADD_F32_E32")``.

    ``target`` is the name of one target of the family; it matters where the errata have a row for it.

    Raises :class:`NoSemanticsError` if there is no text, the text is prose, or it describes what an engine has to do
    by itself. Raises ConfigError for an unknown family.
    """
    return _lower(family, table, name, target if is_special(family, table, name, target) else "")


@functools.cache
def _lower(family: str, table: str, name: str, target: str) -> Program:
    text = corrected_text(family, table, name, target)
    if text is None:
        raise NoSemanticsError(family, table, name, "the manual gives no pseudocode")
    try:
        return lower_text(family, table, name, text)
    except PcodeSyntaxError:
        raise NoSemanticsError(family, table, name, kind_of_prose(text)) from None
    except PcodeTypeError as error:
        reason = no_semantics_reason(table, name)
        if reason is None:
            error.add_note(f"in {family} {table}.{name}")
            raise
        raise NoSemanticsError(family, table, name, reason) from None


def lower_text(family: str, table: str, name: str, text: str) -> Program:
    """``text`` as the program of an opcode. Raises PcodeSyntaxError and PcodeTypeError."""
    output = Output()
    statements = parse(text)
    lowering = StmtLowering(table, text, _widths(name, statements), output)
    lowering.inline = functools.partial(_inline, family, output)
    lowering.statements(statements)
    body = (*_settled(output),)
    return Program(body, walk.reads(body), walk.writes(body), text)


def _settled(output: Output) -> Iterator[Stmt]:
    block = settle(output.block, output)
    yield from output.declares
    yield from block


# -- opcodes called from other opcodes -----------------------------------------------------------------------------


def _inline(family: str, output: Output, function: str, args: tuple[Expr, ...]) -> Expr | None:
    """``v_min_f32(a, b)``: the statements of V_MIN_F32 with S0 and S1 bound; its value is what D0 gets."""
    found = _find_opcode(family, function.upper())
    if found is None:
        return None
    table, name, text = found
    statements = parse(text)
    lowering = StmtLowering(table, text, _widths(name, statements), output)
    lowering.inline = functools.partial(_inline, family, output)
    held = {f"S{i}": output.hold(a, f"S{i}") for i, a in enumerate(args)}
    lowering.scope = Scope(output, None, dict(held))
    # The first assignment to D0 decides its type, as for any local.
    lowering.local_destination = True
    lowering.statements(statements)
    result = lowering.scope.meanings.get("D0")
    return result if isinstance(result, Local) else None


@functools.cache
def _find_opcode(family: str, name: str) -> tuple[str, str, str] | None:
    """(table, name, corrected text) of an opcode by its mnemonic; of another family if this one lacks it."""
    for candidate in (family, *FAMILIES):
        for table, member in pcode_texts(candidate):
            if member in (name, f"{name}_E64", f"{name}_E32"):
                text = corrected_text(candidate, table, member)
                if text is not None:
                    return table, member, text
    return None


# -- widths -----------------------------------------------------------------------------------------------------------


def _widths(name: str, statements: tuple[ast.Stmt, ...]) -> dict[str, int]:
    """Bits of each name that the text slices directly, rounded up to whole registers."""
    widths: dict[str, int] = {}
    for x in _slices(statements):
        reach = max(slices.constant(x.hi) or 0, slices.constant(x.lo) or 0) + 1
        if isinstance(x.base, ast.Name):
            for key in _keys(x.base.name):
                widths[key] = max(widths.get(key, 32), -(-reach // 32) * 32)
    for pattern, operand, bits in OPERAND_WIDTHS:
        if re.fullmatch(pattern, name):
            widths[operand] = bits
    return widths


def _keys(name: str) -> tuple[str, ...]:
    if name in ("VDATA", "SDATA"):
        return ("DATA", "RETURN_DATA")
    return (ALIASES.get(name, name),)


def _slices(x: object) -> Iterator[ast.Slice]:
    if isinstance(x, ast.Slice):
        yield x
    parts = x if isinstance(x, tuple) else (getattr(x, f.name) for f in dataclasses.fields(x))  # type: ignore[arg-type]
    for part in parts:
        if isinstance(part, _NESTED):
            yield from _slices(part)
