"""The typing rules of the pseudocode: what a suffix means, how two sides of an operator agree, how values convert.

The manuals do not state them; they follow from the texts. An integer operator works at the wider of its two widths,
arithmetic at 32 bits at least; a constant takes the kind of the other side; signed with unsigned is unsigned, as in C.
"""

from __future__ import annotations

import re
import struct

from mockgpu.isa.errors import MockGPUError
from mockgpu.pcode.ir import (
    F16,
    F32,
    F64,
    U1,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expr,
    Mem,
    Type,
    Unary,
)

_SUFFIX = re.compile(r"(bf|fp|f|u|i|b)(\d+)")
_STRUCT = {16: "<e", 32: "<f", 64: "<d"}


class PcodeTypeError(MockGPUError, TypeError):
    """A text uses a value in a way that the typing rules do not cover."""


def suffix_type(suffix: str) -> Type | None:
    """``u32`` -> u32, ``bf16`` -> bf16, ``fp8`` -> fp8; 6- and 4-bit floats are raw bits. None if it is no type."""
    match = _SUFFIX.fullmatch(suffix)
    if match is None:
        return None
    kind, bits = match[1], int(match[2])
    if kind in ("bf", "fp"):
        return _small_float(kind, bits)
    return make_type(kind, bits)


def _small_float(kind: str, bits: int) -> Type:
    if bits == 8:
        return Type("fp8" if kind == "fp" else "bf8", 8)
    return Type("bf", 16) if bits == 16 else Type("b", bits)


def make_type(kind: str, bits: int) -> Type:
    """``kind`` as written before a parenthesis or in a suffix, in either case. A single bit is a truth value."""
    kinds = {"u": "u", "i": "i", "f": "f", "b": "b", "bf": "bf"}
    lower = kinds[kind.lower()]
    if lower == "f" and bits not in _STRUCT:
        raise PcodeTypeError(f"no float type has {bits} bits")
    return U1 if bits == 1 else Type(lower, bits)  # type: ignore[arg-type]


def float_bits(value: float, type: Type) -> int:
    """The bit pattern of ``value`` rounded to nearest even; the float types of 16, 32 and 64 bits."""
    try:
        return int.from_bytes(struct.pack(_STRUCT[type.bits], value), "little")
    except OverflowError:
        return float_bits(float("inf") if value > 0 else float("-inf"), type)


def float_value(const: Const) -> float:
    """The number that the bit pattern of a float constant stands for."""
    raw = const.value.to_bytes(const.type.bits // 8, "little")
    return float(struct.unpack(_STRUCT[const.type.bits], raw)[0])


def int_value(const: Const) -> int:
    """The number that the bit pattern of an integer constant stands for."""
    negative = const.type.kind == "i" and const.value >> (const.type.bits - 1)
    return const.value - (1 << const.type.bits) if negative else const.value


def int_const(value: int, type: Type) -> Const:
    """``value`` wrapped to ``type``."""
    return Const(type, value & ((1 << type.bits) - 1))


def float_const(value: float, type: Type) -> Const:
    return Const(type, float_bits(value, type))


def is_ieee(type: Type) -> bool:
    return type in (F16, F32, F64)


# -- conversions ----------------------------------------------------------------------------------------------


def retype(x: Expr, type: Type) -> Expr:
    """``x.u32``: the same bits, zero-extended or cut; signed to wider signed extends; float to float converts."""
    if x.type == type:
        return x
    if isinstance(x, Mem):
        return Mem(type, x.addr)
    widens_signed = x.type.kind == "i" and type.kind == "i" and type.bits > x.type.bits
    if widens_signed or (x.type.is_float and type.is_float and x.type.bits != type.bits):
        return convert(x, type)
    return bitcast(x, type)


def bitcast(x: Expr, type: Type) -> Expr:
    """The same bits, zero-extended or cut."""
    if x.type == type:
        return x
    if isinstance(x, Const):
        return Const(type, x.value & ((1 << type.bits) - 1))
    if isinstance(x, Bitcast) and x.x.type.bits <= x.type.bits:
        return bitcast(x.x, type)
    return Bitcast(type, x)


def convert(x: Expr, type: Type) -> Expr:
    """The same number in another type; raw bits are zero-extended or cut."""
    if x.type == type:
        return x
    if isinstance(x, Const) and not x.type.is_float and not type.is_float:
        return int_const(int_value(x), type)
    if isinstance(x, Const) and is_ieee(x.type) and is_ieee(type):
        return float_const(float_value(x), type)
    if "b" in (x.type.kind, type.kind):
        return bitcast(x, type)
    if not x.type.is_float and not type.is_float and x.type.bits >= type.bits:
        return bitcast(x, type)
    return Cast(type, x)


def assignable(x: Expr, type: Type) -> Expr:
    """``x`` as a value for a target of ``type``: numbers keep their value as far as it fits, raw bits are moved."""
    both_floats = x.type.is_float and type.is_float
    both_numbers = x.type.kind in "ui" and type.kind in "uib"
    if both_floats or both_numbers:
        return convert(x, type)
    return bitcast(x, type)


def truth(x: Expr) -> Expr:
    """``x`` as a condition."""
    if x.type == U1:
        return x
    if x.type.is_float:
        raise PcodeTypeError("a float used as a condition")
    return Binary(U1, "ne", x, Const(x.type, 0))


# -- agreement of two sides -------------------------------------------------------------------------------------


def agree(a: Expr, b: Expr, *, arithmetic: bool = False) -> tuple[Expr, Expr]:
    """Both sides in their common type. ``arithmetic`` widens integers to 32 bits at least."""
    if a.type.is_float or b.type.is_float:
        return _agree_floats(a, b)
    bits = max(a.type.bits, b.type.bits, 32 if arithmetic else 1)
    kind = _common_kind(a, b)
    type = make_type("u" if arithmetic and kind == "b" else kind, bits)
    return convert(a, type), convert(b, type)


def _common_kind(a: Expr, b: Expr) -> str:
    if isinstance(a, Const) != isinstance(b, Const):
        return (b if isinstance(a, Const) else a).type.kind
    kinds = {a.type.kind, b.type.kind}
    return kinds.pop() if len(kinds) == 1 else "u"


def _agree_floats(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    if not (a.type.is_float and b.type.is_float):
        raise PcodeTypeError(f"{a.type} and {b.type} in one operation")
    wider = a.type if a.type.bits >= b.type.bits else b.type
    return convert(a, wider), convert(b, wider)


# -- folding ------------------------------------------------------------------------------------------------------

_INT_OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
}


def fold_binary(type: Type, op: str, a: Expr, b: Expr) -> Expr:
    """``Binary``, or its value if both sides are constants and the value does not depend on the wave's MODE."""
    if isinstance(a, Const) and isinstance(b, Const):
        if type.is_float:
            return _fold_float(type, op, a, b)
        if op in _INT_OPS:
            return int_const(_INT_OPS[op](int_value(a), int_value(b)), type)
    return Binary(type, op, a, b)


def _fold_float(type: Type, op: str, a: Const, b: Const) -> Expr:
    if op == "pow" and float_value(a) == 2.0 and not b.type.is_float:
        return float_const(2.0 ** int_value(b), type)
    if op == "mul" and type == F64 and float_value(b) == 2.0:
        return float_const(float_value(a) * 2.0, type)
    return Binary(type, op, a, b)


def fold_negation(x: Expr) -> Expr:
    """``-x``: two's complement of an integer of 32 bits at least, or a float with its sign flipped."""
    if x.type.is_float:
        sign = 1 << (x.type.bits - 1)
        return Const(x.type, x.value ^ sign) if isinstance(x, Const) else Unary(x.type, "neg", x)
    wide = convert(x, make_type("u" if x.type.kind == "b" else x.type.kind, max(32, x.type.bits)))
    return int_const(-int_value(wide), wide.type) if isinstance(wide, Const) else Unary(wide.type, "neg", wide)
