"""Operand text in LLVM syntax: registers, inline constants, literals and source modifiers."""

from __future__ import annotations

from mockgpu.isa.arch import Arch
from mockgpu.isa.operands import Operand
from mockgpu.isa.registers import INLINE_FLOAT_BITS, SCALAR_KINDS, Kind, operand_encodings

_FLOAT_NAMES = {240: "0.5", 241: "-0.5", 242: "1.0", 243: "-1.0", 244: "2.0", 245: "-2.0", 246: "4.0", 247: "-4.0"}
_INV_2PI = {16: "0.15915494", 32: "0.15915494", 64: "0.15915494309189532"}
_SYMBOLIC = {n: {bits: code for code, bits in table.items()} for n, table in INLINE_FLOAT_BITS.items()}
HALF_FMTS = frozenset({"FMT_NUM_F16", "FMT_NUM_I16", "FMT_NUM_U16", "FMT_NUM_B16"})
_FLOAT_FMTS = ("F16", "F32", "F64", "BF16")


def register_range(letter: str, first: int, count: int) -> str:
    """``v3`` or ``v[3:4]``."""
    return f"{letter}{first}" if count == 1 else f"{letter}[{first}:{first + count - 1}]"


def scalar_text(arch: Arch, code: int, count: int) -> str:
    """A scalar register operand of ``count`` registers."""
    encoded = operand_encodings(arch.family)[code]
    if encoded.kind is Kind.SGPR:
        return register_range("s", code, count)
    if encoded.kind is Kind.TTMP:
        return register_range("ttmp", encoded.index, count)
    return encoded.pair if count == 2 else encoded.name


def register_text(arch: Arch, view: Operand, wave_size: int, true16: bool) -> str:
    """A register operand."""
    count = wave_size // 32 if view.is_mask else view.regs
    if view.kind is Kind.VGPR:
        half = (".h" if view.hi else ".l") if true16 else ""
        return register_range("v", view.index, count) + half
    if view.kind is Kind.AGPR:
        return register_range("a", view.index, count)
    return scalar_text(arch, view.code, count)


def float_constant(code: int, bits: int) -> str:
    """An inline float constant by its operand encoding."""
    return _FLOAT_NAMES.get(code) or _INV_2PI[64 if bits == 64 else 32]


def is_float(fmt: str) -> bool:
    """Whether a format name such as ``FMT_NUM_F16`` or ``FMT_NUM_PK2_F16`` is a float one."""
    return fmt.endswith(_FLOAT_FMTS)


def literal_text(value: int, bits: int, fmt: str) -> str:
    """A literal. LLVM shows one that has an inline form as that form."""
    if bits == 64:
        inline = value == 0 or (not is_float(fmt) and value <= 64)
        return str(value) if inline else f"{value:#x}"
    bits = 16 if fmt in HALF_FMTS and bits <= 16 else 32
    width = bits
    whole, value = value, value & (1 << width) - 1
    if width == 16 and not is_float(fmt) and whole >> 16:  # only a zero-extended value has a short form
        return f"{value:#x}"
    signed = value - (1 << width) if value >> width - 1 else value
    if -16 <= signed <= 64:
        return str(signed)
    symbolic = _SYMBOLIC[16] if bits == 16 or "PK" in fmt else _SYMBOLIC[32]
    floats = is_float(fmt) or (width == 32 and "PK" not in fmt)
    if floats and value in symbolic:
        return float_constant(symbolic[value], width)
    return f"{value:#x}"


def operand_text(arch: Arch, view: Operand, wave_size: int, true16: bool = False) -> str:
    """An operand without source modifiers."""
    if view.kind in (Kind.VGPR, Kind.AGPR) or view.kind in SCALAR_KINDS:
        return register_text(arch, view, wave_size, true16)
    if view.kind in (Kind.INT, Kind.IMM):
        return str(view.index)
    if view.kind is Kind.FLOAT:
        if view.bits == 16 and view.fmt.endswith(("U16", "I16", "B16")):
            # A 16-bit integer operand receives the bits of the half-precision constant.
            return f"{INLINE_FLOAT_BITS[16][view.code]:#x}"
        return float_constant(view.code, 32 if "PK" in view.fmt else view.bits)
    if view.kind is Kind.LITERAL:
        return literal_text(view.index, view.bits, view.fmt)
    return operand_encodings(arch.family)[view.code].name


def modified(text: str, view: Operand, neg: bool, absolute: bool) -> str:
    """An operand with float modifiers: ``-v1``, ``|v1|``, ``neg(1.0)``."""
    if absolute:
        text = f"|{text}|"
    if not neg:
        return text
    if view.is_constant and not absolute:
        return f"neg({text})"
    return f"-{text}"
