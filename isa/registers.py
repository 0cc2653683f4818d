"""Operand encodings: what each value 0..511 of a source or destination field names.

Sources: "Scalar Operand Values" and "Vector Operand Values" tables of the RDNA3, RDNA4 and CDNA3 ISA manuals.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import StrEnum

VGPR_BASE = 256
DPP8, DPP8_FI, SDWA, DPP16, LITERAL = 233, 234, 249, 250, 255
VCC_LO, VCC_HI, EXEC_LO, EXEC_HI = 106, 107, 126, 127
TTMP_BASE, TTMP_COUNT = 108, 16


class Kind(StrEnum):
    """What an operand names. Registers come first; the rest are values."""

    VGPR = "vgpr"
    AGPR = "agpr"  # accumulation register (CDNA)
    SGPR = "sgpr"
    FLAT_SCRATCH = "flat_scratch"  # index 0 low half, 1 high half (CDNA)
    XNACK_MASK = "xnack_mask"
    VCC = "vcc"
    TTMP = "ttmp"
    M0 = "m0"
    NULL = "null"
    EXEC = "exec"
    INT = "int"  # inline integer, index is its value -16..64
    FLOAT = "float"  # inline float, index is the operand encoding, see INLINE_FLOATS
    SHARED_BASE = "shared_base"
    SHARED_LIMIT = "shared_limit"
    PRIVATE_BASE = "private_base"
    PRIVATE_LIMIT = "private_limit"
    POPS = "pops_exiting_wave_id"
    VCCZ = "vccz"
    EXECZ = "execz"
    SCC = "scc"
    LDS_DIRECT = "lds_direct"
    LITERAL = "literal"  # the dword after the instruction; index is its value
    IMM = "imm"  # an immediate field (simm16, a wait mask, a label); index is its raw value
    RESERVED = "reserved"


SCALAR_KINDS = frozenset(
    {Kind.SGPR, Kind.FLAT_SCRATCH, Kind.XNACK_MASK, Kind.VCC, Kind.TTMP, Kind.M0, Kind.NULL, Kind.EXEC}
)
CONSTANT_KINDS = frozenset({Kind.INT, Kind.FLOAT, Kind.LITERAL, Kind.IMM})

INLINE_FLOATS = dict(zip(range(240, 248), (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0), strict=True))
INLINE_FLOATS[248] = 0.15915494309189532
"""Inline float constants by encoding; 248 is 1/(2*pi)."""

_HALF = (0x3800, 0xB800, 0x3C00, 0xBC00, 0x4000, 0xC000, 0x4400, 0xC400, 0x3118)
_SINGLE = (0x3F000000, 0xBF000000, 0x3F800000, 0xBF800000, 0x40000000, 0xC0000000, 0x40800000, 0xC0800000, 0x3E22F983)
_DOUBLE_HIGH = (0x3FE0, 0xBFE0, 0x3FF0, 0xBFF0, 0x4000, 0xC000, 0x4010, 0xC010)
_DOUBLE = (*(high << 48 for high in _DOUBLE_HIGH), 0x3FC45F306DC9C882)
INLINE_FLOAT_BITS = {
    bits: dict(zip(range(240, 249), row, strict=True)) for bits, row in ((16, _HALF), (32, _SINGLE), (64, _DOUBLE))
}
"""Bit patterns of the inline float constants by operand width and encoding."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """One operand encoding: its kind, its index inside that kind, and its LLVM name for 32 and 64 bits."""

    kind: Kind
    index: int
    name: str
    pair: str  # name of the 64-bit operand that starts here


_RDNA_SPECIAL = {124: (Kind.NULL, "null"), 125: (Kind.M0, "m0")}
_CDNA_SPECIAL = {124: (Kind.M0, "m0")}
_APERTURES = {
    235: (Kind.SHARED_BASE, "src_shared_base"),
    236: (Kind.SHARED_LIMIT, "src_shared_limit"),
    237: (Kind.PRIVATE_BASE, "src_private_base"),
    238: (Kind.PRIVATE_LIMIT, "src_private_limit"),
    239: (Kind.POPS, "src_pops_exiting_wave_id"),
    251: (Kind.VCCZ, "src_vccz"),
    252: (Kind.EXECZ, "src_execz"),
    253: (Kind.SCC, "src_scc"),
    254: (Kind.LDS_DIRECT, "src_lds_direct"),
}
_RESERVED_BY_FAMILY = {"rdna3": {239, 254}, "rdna4": {254}, "cdna": {125}}
_FLOAT_NAMES = {code: str(value) for code, value in INLINE_FLOATS.items()} | {248: "0.15915494"}
_HALVES = ("lo", "hi")


def _scalar(family: str, code: int) -> Encoded:
    sgprs = 102 if family == "cdna" else 106
    if code < sgprs:
        return Encoded(Kind.SGPR, code, f"s{code}", f"s[{code}:{code + 1}]")
    if code < 106:
        kind = Kind.FLAT_SCRATCH if code < 104 else Kind.XNACK_MASK
        return Encoded(kind, code & 1, f"{kind}_{_HALVES[code & 1]}", str(kind))
    if code < TTMP_BASE:
        return Encoded(Kind.VCC, code & 1, f"vcc_{_HALVES[code & 1]}", "vcc")
    if code < 124:
        index = code - TTMP_BASE
        return Encoded(Kind.TTMP, index, f"ttmp{index}", f"ttmp[{index}:{index + 1}]")
    if code >= EXEC_LO:
        return Encoded(Kind.EXEC, code & 1, f"exec_{_HALVES[code & 1]}", "exec")
    special = _CDNA_SPECIAL if family == "cdna" else _RDNA_SPECIAL
    kind, name = special.get(code, (Kind.RESERVED, f"reserved_{code}"))
    return Encoded(kind, 0, name, name)


def _constant(family: str, code: int) -> Encoded:
    if code <= 192:
        return Encoded(Kind.INT, code - 128, str(code - 128), str(code - 128))
    if code <= 208:
        return Encoded(Kind.INT, 192 - code, str(192 - code), str(192 - code))
    if code in INLINE_FLOATS:
        return Encoded(Kind.FLOAT, code, _FLOAT_NAMES[code], _FLOAT_NAMES[code])
    if code == LITERAL:
        return Encoded(Kind.LITERAL, 0, "literal", "literal")
    if code in _APERTURES and code not in _RESERVED_BY_FAMILY[family]:
        kind, name = _APERTURES[code]
        return Encoded(kind, 0, name, name)
    return Encoded(Kind.RESERVED, code, f"reserved_{code}", f"reserved_{code}")


@functools.cache
def operand_encodings(family: str) -> tuple[Encoded, ...]:
    """The 512 operand encodings of a family, indexed by field value."""
    scalars = [_scalar(family, code) for code in range(128)]
    constants = [_constant(family, code) for code in range(128, VGPR_BASE)]
    vectors = [Encoded(Kind.VGPR, n, f"v{n}", f"v[{n}:{n + 1}]") for n in range(256)]
    return (*scalars, *constants, *vectors)
