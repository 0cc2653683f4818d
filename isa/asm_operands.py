"""Operands of assembly text: names and numbers to operand encodings, the inverse of disasm_operands."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import cast

from mockgpu.isa.arch import Arch
from mockgpu.isa.asm_error import AsmError, did_you_mean
from mockgpu.isa.asm_syntax import Binary, Call, Items, Joined, Node, Number, Range, Symbol, Text, Unary
from mockgpu.isa.disasm_operands import HALF_FMTS, is_float
from mockgpu.isa.registers import (
    INLINE_FLOAT_BITS,
    INLINE_FLOATS,
    LITERAL,
    SCALAR_KINDS,
    TTMP_BASE,
    TTMP_COUNT,
    VGPR_BASE,
    Kind,
    operand_encodings,
)

_REGISTER = re.compile(r"(v|s|a|acc|ttmp)(\d+)(\.[lh])?")
_FILES = {"v": "v", "s": "s", "a": "a", "acc": "a", "ttmp": "ttmp"}
_DWORD, _QUADWORD = (1 << 32) - 1, (1 << 64) - 1
_ONE_OVER_TWO_PI = 248
_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "<<": int.__lshift__,
    ">>": int.__rshift__,
}
_MAX_SHIFT = 64


@dataclass(frozen=True, slots=True)
class Register:
    """A register operand. ``code`` is its operand encoding; ``count`` is None where the name does not say the width.

    ``half`` is "l" or "h" for halves of vector registers; ``acc`` marks accumulation registers.
    """

    code: int
    count: int | None
    half: str = ""
    acc: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """A number. ``symbolic`` when it comes from the address of a label, which may still move."""

    value: int | float
    symbolic: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """An operand with its source modifiers."""

    value: Register | Constant
    neg: bool
    abs: bool
    sext: bool
    force_literal: bool
    column: int


@dataclass(slots=True)
class Scope:
    """What names mean while a line is assembled.

    ``labels`` are addresses and ``constants`` values set by directives; ``pc`` is the address of the line.
    In the first pass labels further down are not known: they are in ``pending`` and count as 0.
    """

    labels: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)
    pending: Collection[str] = frozenset()
    pc: int = 0
    touched: bool = False  # whether a name was looked up with success: the result depends on more than the text

    def lookup(self, name: str) -> Constant | None:
        """The value of a name, or None."""
        found: Constant | None = None
        if name == ".":
            found = Constant(self.pc, True)
        elif name in self.constants:
            found = Constant(self.constants[name])
        elif name in self.labels:
            found = Constant(self.labels[name], True)
        elif name in self.pending:
            found = Constant(0, True)
        self.touched = self.touched or found is not None
        return found


def evaluate(node: Node, scope: Scope) -> Constant:
    """The value of a constant expression. Raises AsmError."""
    if isinstance(node, Number):
        return Constant(node.value)
    if isinstance(node, Symbol):
        found = scope.lookup(node.name)
        if found is None:
            known = (*scope.labels, *scope.pending, *scope.constants)
            raise AsmError(f"unknown name {node.name!r}{did_you_mean(node.name, known)}", column=node.column)
        return found
    if isinstance(node, Unary) and node.operator in ("-", "~"):
        inner = _integer(evaluate(node.operand, scope), node)
        return Constant(-inner.value if node.operator == "-" else ~int(inner.value), inner.symbolic)
    if isinstance(node, Binary):
        return _binary(node, scope)
    raise AsmError("expected a number", column=node.column)


def _integer(constant: Constant, node: Node) -> Constant:
    if isinstance(constant.value, float):
        raise AsmError("expected an integer", column=node.column)
    return constant


def _binary(node: Binary, scope: Scope) -> Constant:
    left = _integer(evaluate(node.left, scope), node.left)
    right = _integer(evaluate(node.right, scope), node.right)
    a, b = int(left.value), int(right.value)
    symbolic = left.symbolic or right.symbolic
    if node.operator == "/":
        if not b:
            raise AsmError("division by zero", column=node.right.column)
        return Constant(int(a / b) if abs(a) < 1 << 52 else a // b, symbolic)
    if node.operator in ("<<", ">>") and not 0 <= b < _MAX_SHIFT:
        raise AsmError(f"shift by {b}", column=node.right.column)
    return Constant(_OPERATORS[node.operator](a, b), symbolic)


def integer(node: Node, scope: Scope, low: int, high: int, what: str) -> int:
    """An integer between two bounds. Raises AsmError."""
    value = evaluate(node, scope).value
    if isinstance(value, float) or not low <= value <= high:
        raise AsmError(f"{what} must be an integer from {low} to {high}", column=node.column)
    return value


# --- registers --------------------------------------------------------------------------------------------------------


@functools.cache
def named_registers(family: str) -> Mapping[str, Register]:
    """Registers and read-only operands with a name of their own."""
    found: dict[str, Register] = {}
    for code, encoded in enumerate(operand_encodings(family)[:VGPR_BASE]):
        if encoded.kind in (Kind.SGPR, Kind.TTMP, Kind.INT, Kind.FLOAT, Kind.LITERAL, Kind.RESERVED):
            continue
        register = encoded.kind in SCALAR_KINDS and encoded.kind not in (Kind.NULL, Kind.M0)
        found[encoded.name] = Register(code, 1 if register else None)
        if register and not code & 1:
            found[encoded.pair] = Register(code, 2)
        if encoded.name.startswith("src_"):
            found.setdefault(encoded.name.removeprefix("src_"), Register(code, None))
    return found


def _file_size(arch: Arch, name: str) -> int:
    return {"v": arch.vgprs, "s": arch.sgprs, "a": arch.acc_vgprs, "ttmp": TTMP_COUNT}[name]


def _numbered(arch: Arch, name: str, first: int, count: int, half: str, column: int) -> Register:
    size = _file_size(arch, name)
    shown = f"{name}[{first}:{first + count - 1}]" if count > 1 else f"{name}{first}"
    if not size:
        raise AsmError(f"{arch.name} has no accumulation registers", column=column)
    if first + count > size:
        raise AsmError(f"{shown} does not exist on {arch.name}: the last register is {name}{size - 1}", column=column)
    alignment = _alignment(arch, name, count)
    if first % alignment:
        raise AsmError(f"{shown} must start at a multiple of {alignment}", column=column)
    base = {"v": VGPR_BASE, "a": VGPR_BASE, "s": 0, "ttmp": TTMP_BASE}[name]
    return Register(base + first, count, half, name == "a")


def _alignment(arch: Arch, name: str, count: int) -> int:
    """Scalar tuples start at a multiple of their size, at most 4; vector tuples at an even register on CDNA."""
    if name in ("v", "a"):
        return 2 if arch.acc_vgprs and count > 1 else 1
    return 1 if count == 1 else 2 if count == 2 else 4


def register_of(arch: Arch, node: Node, scope: Scope) -> Register | None:
    """The register that a node names, or None when it is something else. Raises AsmError for impossible ones."""
    if isinstance(node, Symbol):
        match = _REGISTER.fullmatch(node.name)
        if match is None or scope.lookup(node.name) is not None:
            return named_registers(arch.family).get(node.name)
        half = (match[3] or "").removeprefix(".")
        return _numbered(arch, _FILES[match[1]], int(match[2]), 1, half, node.column)
    if isinstance(node, Range):
        return _range(arch, node, scope)
    if isinstance(node, Items):
        return _list(arch, node, scope)
    return None


def _range(arch: Arch, node: Range, scope: Scope) -> Register:
    if node.letter not in _FILES:
        raise AsmError(f"unknown register file {node.letter!r}; expected v, s, a or ttmp", column=node.column)
    first = integer(node.first, scope, 0, 511, "a register number")
    last = integer(node.last, scope, 0, 511, "a register number")
    if last < first:
        raise AsmError(f"the last register {last} comes before the first {first}", column=node.column)
    return _numbered(arch, _FILES[node.letter], first, last - first + 1, "", node.column)


def _list(arch: Arch, node: Items, scope: Scope) -> Register:
    """``[s0, s1, s2, s3]``: the same as s[0:3]."""
    registers = [register_of(arch, item, scope) for item in node.items]
    found = [r for r in registers if r is not None]
    steady = all(r.code == found[0].code + n and r.count == 1 for n, r in enumerate(found))
    if len(found) != len(registers) or not found or not steady:
        raise AsmError("a list of registers must name consecutive single registers", column=node.column)
    return Register(found[0].code, len(found), acc=found[0].acc)


# --- sources ----------------------------------------------------------------------------------------------------------

_WRAPPERS = ("neg", "abs", "sext", "lit")


def source_of(arch: Arch, node: Node, scope: Scope) -> Source:
    """An operand with its modifiers. Raises AsmError."""
    flags = dict.fromkeys(_WRAPPERS, False)
    inner = node
    while True:
        name = _wrapper(arch, inner, scope)
        if name is None:
            break
        if flags[name]:
            raise AsmError(f"{name} is given twice", column=inner.column)
        flags[name] = True
        inner = inner.arguments[0] if isinstance(inner, Call) else cast(Unary, inner).operand
    value = register_of(arch, inner, scope) or _constant_of(inner, scope)
    return Source(value, flags["neg"], flags["abs"], flags["sext"], flags["lit"], node.column)


def _wrapper(arch: Arch, node: Node, scope: Scope) -> str | None:
    """The source modifier around a node, if there is one."""
    if isinstance(node, Call) and node.name in _WRAPPERS:
        if len(node.arguments) != 1:
            raise AsmError(f"{node.name}() takes one operand", column=node.column)
        return node.name
    if not isinstance(node, Unary):
        return None
    if node.operator == "|":
        return "abs"
    inner = node.operand
    modifies = isinstance(inner, Call | Unary) or register_of(arch, inner, scope) is not None
    return "neg" if node.operator == "-" and modifies else None


def _constant_of(node: Node, scope: Scope) -> Constant:
    if isinstance(node, Call | Text | Joined | Range | Items):
        raise AsmError("expected a register or a number", column=node.column)
    try:
        return evaluate(node, scope)
    except AsmError as error:
        if isinstance(node, Symbol):
            raise AsmError(
                error.reason.replace("unknown name", "unknown register or name"), column=node.column
            ) from None
        raise


# --- constants --------------------------------------------------------------------------------------------------------

_FLOAT_CODES = {value: code for code, value in INLINE_FLOATS.items()}
_PACKINGS = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}


def float_bits(value: float, bits: int) -> int:
    """The bit pattern of a number, rounded to nearest even. Raises OverflowError for one that is too large."""
    number, pattern = _PACKINGS[bits]
    return int(struct.unpack(pattern, struct.pack(number, value))[0])


def checked_float_bits(value: float, bits: int, column: int) -> int:
    """``float_bits`` that raises AsmError."""
    try:
        return float_bits(value, bits)
    except OverflowError:
        raise AsmError(f"{value} does not fit a {bits}-bit float", column=column) from None


def _brain_float_bits(value: float) -> int:
    single = float_bits(value, 32)
    return single + 0x7FFF + (single >> 16 & 1) >> 16


def _inline_integer(value: int) -> int | None:
    if 0 <= value <= 64:
        return 128 + value
    return 192 - value if -16 <= value < 0 else None


def constant_code(constant: Constant, bits: int, fmt: str) -> tuple[int, int | None]:
    """(operand encoding, literal dword or None) of a number for an operand of that width and format.

    A number with an inline form gets it, as LLVM does. Raises ValueError, whose text says what is wrong.
    """
    if bits == 64 and "PK" in fmt:  # two 32-bit values, of which a constant gives each
        bits = 32
    if isinstance(constant.value, float):
        return _float_code(constant.value, bits, fmt)
    return _integer_code(constant.value, bits, fmt, constant.symbolic)


def _float_code(value: float, bits: int, fmt: str) -> tuple[int, int | None]:
    if value in _FLOAT_CODES:
        return _FLOAT_CODES[value], None
    width = 64 if bits == 64 else 16 if bits == 16 or fmt.endswith("F16") else 32
    try:
        pattern = _brain_float_bits(value) if fmt.endswith("BF16") else float_bits(value, width)
    except OverflowError:
        raise ValueError(f"{value} does not fit a {width}-bit float") from None
    if bits != 64 and float_bits(value, 32) == INLINE_FLOAT_BITS[32][_ONE_OVER_TWO_PI]:
        return _ONE_OVER_TWO_PI, None
    inline = _inline_integer(pattern)
    if inline is not None:
        return inline, None
    if width == 64:
        if pattern & _DWORD:
            raise ValueError(
                f"{value} needs more than the upper 32 bits of a 64-bit float, which is all a literal holds"
            )
        return LITERAL, pattern >> 32
    return LITERAL, pattern


def _integer_code(value: int, bits: int, fmt: str, symbolic: bool) -> tuple[int, int | None]:
    if symbolic:
        return LITERAL, value & _DWORD
    if bits == 64:
        return _wide_integer_code(value, is_float(fmt))
    width = 16 if (fmt in HALF_FMTS and bits <= 16) or (fmt.endswith("BF16") and "PK" not in fmt) else 32
    if not -(1 << width - 1) <= value < 1 << width:
        raise ValueError(f"{value:#x} does not fit {width} bits")
    pattern = value & (1 << width) - 1
    inline = _inline_integer(pattern - (1 << width) if pattern >> width - 1 else pattern)
    if inline is not None:
        return inline, None
    code = _inline_float(pattern, width, fmt)
    return (LITERAL, pattern) if code is None else (code, None)


def _inline_float(pattern: int, width: int, fmt: str) -> int | None:
    """The inline float with these bits. 16-bit integers and packed integers have none."""
    packed = "PK" in fmt
    if (width == 16 or packed) and not is_float(fmt):
        return None
    table = INLINE_FLOAT_BITS[16 if packed else width]
    return next((code for code, bits in table.items() if bits == pattern), None)


def _wide_integer_code(value: int, double: bool) -> tuple[int, int | None]:
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{value:#x} does not fit 64 bits")
    pattern = value & _QUADWORD
    inline = _inline_integer(pattern - (1 << 64) if pattern >> 63 else pattern)
    if inline is not None:
        return inline, None
    for code, bit_pattern in INLINE_FLOAT_BITS[64].items():
        if bit_pattern == pattern or (double and bit_pattern == value << 32):  # a literal is the upper half
            return code, None
    if not -(1 << 31) <= value < 1 << 32:
        raise ValueError(f"{value:#x} does not fit the 32 bits of a literal")
    return LITERAL, value & _DWORD
