"""Opcodes of a family's tables that single targets lack, as name patterns (``*`` matches any text).

Source: the CDNA3 manual against the CDNA4 manual; agreement with LLVM's feature lists is tested. The scalar float
instructions, which assemblers offer from gfx11.5 on, are accepted on gfx11.0 too: published gfx11 hardware tests
run S_FMAMK_F32.
"""

from __future__ import annotations

CDNA4_ONLY = (
    *("BUFFER_ATOMIC_PK_ADD_BF16", "DS_READ_B*_TR_B*", "GLOBAL_LOAD_LDS_DWORDX3", "GLOBAL_LOAD_LDS_DWORDX4"),
    *("V_ASHR_PK_?8_I32", "V_BITOP3_B*", "V_CVT_F32_BF16_E*", "V_CVT_PK_BF16_F32", "V_CVT_PK_F16_F32"),
    *("V_CVT_SCALEF32_*", "V_CVT_SR_BF16_F32", "V_CVT_SR_F16_F32", "V_DOT2C_F32_BF16_E*", "V_DOT2_F32_BF16"),
    *("V_MAXIMUM3_F32", "V_MINIMUM3_F32", "V_PK_MAXIMUM3_F16", "V_PK_MINIMUM3_F16", "V_PRNG_B32_E*"),
    *("V_PERMLANE16_SWAP_B32_E*", "V_PERMLANE32_SWAP_B32_E*"),
    *("V_MFMA_*_F8F6F4", "V_MFMA_SCALE_*", "V_MFMA_LD_SCALE_B32"),
    *("V_MFMA_F32_16X16X32_BF16", "V_MFMA_F32_16X16X32_F16"),
    *("V_MFMA_F32_32X32X16_BF16", "V_MFMA_F32_32X32X16_F16", "V_MFMA_I32_16X16X64_I8", "V_MFMA_I32_32X32X32_I8"),
    *("V_SMFMAC_F32_16X16X128_*", "V_SMFMAC_F32_16X16X64_*16", "V_SMFMAC_F32_32X32X32_*16"),
    *("V_SMFMAC_F32_32X32X64_*", "V_SMFMAC_I32_16X16X128_I8", "V_SMFMAC_I32_32X32X64_I8"),
)
"""Instructions that came with gfx950."""

CDNA3_AND_LATER = (
    *("DS_PK_ADD_*F16", "DS_PK_ADD_RTN_*", "FLAT_ATOMIC_ADD_F32", "FLAT_ATOMIC_PK_ADD_*", "GLOBAL_ATOMIC_PK_ADD_BF16"),
    *("GLOBAL_LOAD_LDS_*", "SCRATCH_LOAD_LDS_*", "S_SET_VALU_COEXEC_MODE"),
    *("V_MOV_B64_E*", "V_LSHL_ADD_U64", "V_FMAMK_F32_E*", "V_FMAAK_F32_E*", "V_CVT_SR_?F8_F32"),
    *("V_CVT_F32_?F8_E*", "V_CVT_F32_FP8_E*", "V_CVT_PK_F32_?F8_E*", "V_CVT_PK_F32_FP8_E*", "V_CVT_PK_?F8_F32"),
    *("V_CVT_PK_FP8_F32", "V_CVT_SR_FP8_F32"),
    *("V_MFMA_I32_32X32X16_I8", "V_MFMA_I32_16X16X32_I8", "V_MFMA_F32_*_BF16", "V_MFMA_*_?F8_*", "V_MFMA_*_FP8_*"),
    "V_SMFMAC_*",
)
"""Instructions of gfx942 and gfx950 that gfx90a lacks, or has under another number (matrix products of bf16)."""

CDNA3_ONLY = ("V_MFMA_F32_16X16X8_XF32", "V_MFMA_F32_32X32X4_XF32")
"""Instructions of gfx942 that gfx950 dropped."""
