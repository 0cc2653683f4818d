"""Errata rows: what becomes of the high half of a register when a result has 16 bits.

The texts write ``D0.f16`` and say nothing of the other half. RDNA keeps it everywhere (LLVM: "on gfx10, all 16-bit
instructions preserve the high bits"); CDNA keeps the rules of GFX9, which differ by opcode.
"""

from __future__ import annotations

import functools
import re

from mockgpu.pcode.erratum import ENCODING, Erratum

_LLVM = "LLVM, GCNSubtarget::zeroesHigh16BitsOfDest for GFX9, derived from experiments"
_ZEROED = (
    r"V_(CVT_F16_(F32|U16|I16)|(RCP|RSQ|SQRT|LOG|EXP|SIN|COS|FLOOR|CEIL|TRUNC|RNDNE|FRACT|FREXP_MANT|LDEXP)_F16"
    r"|FREXP_EXP_I16_F16|(LSHLREV|LSHRREV)_B16|ASHRREV_I16|(ADD|SUB|SUBREV|MUL_LO|MAX|MIN)_U16|(MAX|MIN)_I16"
    r"|(ADD|SUB|SUBREV|MUL|MAX|MIN)_F16|(MAD|FMA|DIV_FIXUP)_LEGACY_F16|MAD_LEGACY_[UI]16)"
)
_ZEROED_TOO = r"V_(CVT_(U16|I16|NORM_I16|NORM_U16)_F16|SAT_PK_U8_I16)"
_KEPT = (
    r"V_(((MIN|MAX|MED)3|MAD)_[FIU]16|(FMA|DIV_FIXUP|MAC|FMAC|MADAK|MADMK|FMAAK|FMAMK)_F16|(ADD|SUB)_I16|BITOP3_B16"
    r"|(MAD|FMA)_MIX(LO|HI)_F16|ASHR_PK_[IU]8_I32)"
)

HALVES: tuple[Erratum, ...] = (
    Erratum(
        "high-half-zeroed",
        ("cdna",),
        _ZEROED + ENCODING,
        "note",
        "writes 16 bits of D0",
        "the high half of the register becomes 0",
        _LLVM,
    ),
    Erratum(
        "high-half-zeroed-assumed",
        ("cdna",),
        _ZEROED_TOO + ENCODING,
        "note",
        "writes 16 bits of D0",
        "the high half of the register becomes 0, as for the other instructions that GFX9 has from GFX8",
        "assumed: LLVM's list of experiments has nothing on these",
    ),
    Erratum(
        "high-half-kept",
        ("cdna",),
        _KEPT + ENCODING,
        "note",
        "writes 16 bits of D0",
        "the other half of the register keeps its value: op_sel chooses the half, or the instruction accumulates",
        _LLVM,
    ),
)
_ZEROING = tuple(row for row in HALVES if row.id != "high-half-kept")


@functools.cache
def zeroes_high_half(family: str, table: str, name: str) -> bool:
    """Whether a 16-bit result clears the other half of its register; otherwise it keeps it."""
    return any(row.match(family, table, name) for row in _ZEROING)


@functools.cache
def has_half_rule(family: str, name: str) -> bool:
    """Whether some row says what an opcode does; RDNA needs none."""
    return family != "cdna" or any(re.fullmatch(row.name, name) for row in HALVES)
