"""Errata rows: opcodes for which the documents give no pseudocode though their prose says what they do."""

from __future__ import annotations

from mockgpu.pcode.erratum import ENCODING, Erratum

MISSING: tuple[Erratum, ...] = (
    Erratum(
        "accvgpr-moves",
        ("cdna",),
        rf"V_ACCVGPR_(READ|WRITE|MOV_B32){ENCODING}",
        "missing",
        "no pseudocode",
        "copies 32 bits between the two files of vector registers, or inside the second one",
        "CDNA3 manual, V_ACCVGPR_READ, V_ACCVGPR_WRITE, V_ACCVGPR_MOV_B32",
        text="D0.b32 = S0.b32",
    ),
    Erratum(
        "exp-legacy",
        ("cdna",),
        rf"V_EXP_LEGACY_F32{ENCODING}",
        "missing",
        "no pseudocode",
        "as V_EXP_F32",
        "Vega manual, V_EXP_LEGACY_F32: 2 to the power of S0",
        text="D0.f32 = exp2(S0.f32)",
    ),
    Erratum(
        "log-legacy",
        ("cdna",),
        rf"V_LOG_LEGACY_F32{ENCODING}",
        "missing",
        "no pseudocode",
        "as V_LOG_F32",
        "Vega manual, V_LOG_LEGACY_F32: the logarithm of S0 to base 2",
        text="D0.f32 = log2(S0.f32)",
    ),
)
