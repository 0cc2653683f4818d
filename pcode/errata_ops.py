"""Errata rows: comparisons, conversions and arithmetic."""

from __future__ import annotations

from mockgpu.pcode.erratum import ALL, ENCODING, RDNA, Erratum

# -- comparisons and conversions --------------------------------------------------------------------------------------

COMPARE_CONVERT = (
    Erratum(
        "cmp-class-denormal",
        ALL,
        rf"V_CMPX?_CLASS_(F16|F32|F64){ENCODING}",
        "correction",
        "tells a denormal from zero by a comparison, which MODE may flush",
        "looks at the bits: a denormal is one in every mode",
        "vectors vopc-r0001, vopc-r0004, vopc-r0005",
        edits=(
            ("64'F(abs(S0.f16)) > 0.0", "isDENORM(S0.f16)"),
            ("64'F(abs(S0.f32)) > 0.0", "isDENORM(S0.f32)"),
            ("abs(S0.f64) > 0.0", "isDENORM(S0.f64)"),
        ),
    ),
    Erratum(
        "cmpx-exec",
        RDNA,
        r"V_CMPX_.*_E64",
        "note",
        "writes EXEC only",
        "the same: the scalar destination field of the VOP3 form is ignored",
        "vectors v_cmpx_*_e64",
    ),
    Erratum(
        "carry-inactive",
        ALL,
        rf"V_(ADD|SUB|SUBREV)C?B?(REV)?_CO_.*{ENCODING}|V_CMP_.*",
        "note",
        "writes the lane's bit of the mask",
        "the bits of inactive lanes become 0, they are not preserved",
        "hardware note in tinygrad; the executor does this for every lane mask",
    ),
    Erratum(
        "min-max-nan",
        ("rdna3", "cdna"),
        rf"V_(MIN|MAX|MIN3|MAX3|MED3)_(F16|F32|F64){ENCODING}",
        "note",
        "with MODE.IEEE a signalling NAN operand is quieted and returned; else the other operand is",
        "the same",
        "vector vop3-0121",
    ),
    Erratum(
        "min-max-zeros",
        ("cdna",),
        rf"V_(MIN|MAX)_(F16|F32|F64){ENCODING}",
        "correction",
        "tells +0 from -0 by a comparison that holds for both: min(-0, +0) would be +0",
        "looks at the sign: -0 is below +0 in either order of the operands",
        "CDNA4 manual: min and max order signed zeros",
        edits=(
            (
                "((64'F(S0.f16) == +0.0) && (64'F(S1.f16) == -0.0))",
                "((64'F(S0.f16) == 0.0) && (64'F(S1.f16) == 0.0) && !sign(S0.f16))",
            ),
            (
                "((64'F(S0.f16) == -0.0) && (64'F(S1.f16) == +0.0))",
                "((64'F(S0.f16) == 0.0) && (64'F(S1.f16) == 0.0) && sign(S0.f16))",
            ),
            (
                "((64'F(S0.f32) == +0.0) && (64'F(S1.f32) == -0.0))",
                "((64'F(S0.f32) == 0.0) && (64'F(S1.f32) == 0.0) && !sign(S0.f32))",
            ),
            (
                "((64'F(S0.f32) == -0.0) && (64'F(S1.f32) == +0.0))",
                "((64'F(S0.f32) == 0.0) && (64'F(S1.f32) == 0.0) && sign(S0.f32))",
            ),
            (
                "((S0.f64 == +0.0) && (S1.f64 == -0.0))",
                "((S0.f64 == 0.0) && (S1.f64 == 0.0) && !sign(S0.f64))",
            ),
            (
                "((S0.f64 == -0.0) && (S1.f64 == +0.0))",
                "((S0.f64 == 0.0) && (S1.f64 == 0.0) && sign(S0.f64))",
            ),
        ),
    ),
    Erratum(
        "permlane-inactive",
        RDNA,
        r"V_PERMLANEX?16(_VAR)?_B32",
        "note",
        "reads source lanes whether they are active or not",
        "OPSEL[0] (fetch inactive) and OPSEL[1] (bound control) say what an inactive source lane gives; the document's"
        " reading is kept until a vector settles it",
        "RDNA3 manual, V_PERMLANE16_B32",
    ),
    Erratum(
        "underflow-overflow",
        ALL,
        rf"V_DIV_FIXUP_(F32|F64){ENCODING}",
        "note",
        "names UNDERFLOW and OVERFLOW without giving them",
        "zero and INF, the results of round to nearest even; other rounding modes are not distinguished",
        "vector vop3-0028 for INF",
    ),
    Erratum(
        "exception-flags",
        ("rdna4",),
        r"[VS]_.*(MIN|MAX|MINIMUM|MAXIMUM).*",
        "note",
        "sets TRAPSTS.INVALID for a signalling NAN",
        "exception flags are not modelled for any instruction, so the assignment is dropped",
        "none needed: no program reads them",
    ),
    Erratum(
        "cvt-off-table",
        ALL,
        rf"V_CVT_OFF_F32_I4{ENCODING}",
        "correction",
        "names a table without giving it",
        "the signed 4-bit value divided by 16: -0.5 to 0.4375",
        "ISA manuals, V_CVT_OFF_F32_I4",
        text="D0.f32 = 32'F(32'I(S0.i4)) * 0.0625F",
    ),
    Erratum(
        "sr-fp8",
        ("rdna4", "cdna"),
        r"V_CVT_SR_(?P<t>FP8|BF8)_F32",
        "correction",
        "adds the random bits to the mantissa, which wraps around without a carry into the exponent, and rounds the sum"
        " to nearest even, which may change a number that needs no rounding",
        "adds the random bits below the last kept one and cuts off; a number that needs no rounding stays",
        "conversion tests on gfx950: exactly representable values do not depend on the seed",
        text="tmp = f32_to_{t}_sr(S0.f32, S1.u32);\ndstbyte = OPSEL[3 : 2].i32 * 8;\n"
        "VGPR[laneId][VDST.u32][dstbyte + 7 : dstbyte].{t} = tmp",
    ),
    Erratum(
        "scalef32-f16-half",
        ("cdna",),
        r"V_CVT_SCALEF32_F16_(FP8|BF8)",
        "correction",
        "writes 32 bits; a comment says that OPSEL[3] chooses the half",
        "writes the half that OPSEL[3] chooses and keeps the other",
        "vectors gfx950_cvt_scalef32_f16_fp8_*",
        edits=(
            (
                "D0 = tmp.b32",
                "half = OPSEL[3].i32 * 16;\nVGPR[laneId][VDST.u32][half + 15 : half].f16 = tmp",
            ),
        ),
    ),
    Erratum(
        "interp-rtz",
        RDNA,
        r"V_INTERP_P2_RTZ_F16_F32",
        "correction",
        "gives the f32 sum",
        "gives it as f16, rounded toward zero",
        "the opcode's name and V_INTERP_P2_F16_F32",
        edits=(("D0.f32 = fma", "D0.f16 = f32_to_f16_rtz(fma"), ("S2.f32)", "S2.f32))")),
    ),
)

# -- arithmetic -------------------------------------------------------------------------------------------------------

# min_num(x, x) is x as MODE lets denormal inputs through.
_MIX = """
declare in : 32'F[3];
declare S : 32'B[3];
for i in 0 : 2 do
  if !OPSEL_HI.u3[i] then
    in[i] = S[i].f32
  elsif OPSEL.u3[i] then
    half = S[i][31 : 16].f16;
    in[i] = f16_to_f32(min_num(half, half))
  else
    half = S[i][15 : 0].f16;
    in[i] = f16_to_f32(min_num(half, half))
  endif;
  if NEG_HI.u3[i] then in[i] = abs(in[i]) endif;
  if NEG.u3[i] then in[i] = -in[i] endif
endfor;
"""

ARITHMETIC = (
    Erratum(
        "mix-f32",
        ALL,
        rf"V_(FMA|MAD)_MIX_F32{ENCODING}",
        "correction",
        "leaves out the modifiers; V_MAD_MIX rounds twice",
        "NEG_HI takes the absolute value and NEG negates what was chosen and converted; one rounding; denormal"
        " halves are flushed as MODE says",
        "CDNA4 manual; gfx942 measurements of V_MAD_MIX; vectors gfx90a_fma_mix_f32_flush, gfx950_fma_mix_f32_flush",
        text=_MIX + "D0[31 : 0].f32 = fma(in[0], in[1], in[2])",
    ),
    Erratum(
        "mix-lo",
        ALL,
        rf"V_(FMA|MAD)_MIXLO_F16{ENCODING}",
        "correction",
        "leaves out the modifiers; V_MAD_MIX rounds twice",
        "as for mix-f32",
        "as for mix-f32",
        text=_MIX + "D0[15 : 0].f16 = f32_to_f16(fma(in[0], in[1], in[2]))",
    ),
    Erratum(
        "mix-hi",
        ALL,
        rf"V_(FMA|MAD)_MIXHI_F16{ENCODING}",
        "correction",
        "leaves out the modifiers; V_MAD_MIX rounds twice",
        "as for mix-f32",
        "as for mix-f32",
        text=_MIX + "D0[31 : 16].f16 = f32_to_f16(fma(in[0], in[1], in[2]))",
    ),
    Erratum(
        "dot2-rounding",
        ALL,
        rf"V_DOT2.*{ENCODING}",
        "note",
        "adds the products one after the other",
        "gfx1151 aligns all addends to one grid and rounds differently in the last bit",
        "rocm-systems issue 12056, llvm-project issue 205101; the document's order is kept",
    ),
    Erratum(
        "trig-preop-bits",
        ALL,
        rf"V_TRIG_PREOP_F64{ENCODING}",
        "correction",
        "keeps the lowest 53 of the 1201 bits after the shift",
        "keeps the highest 53, the whole part of the shifted number",
        "the comment in the text; vectors vop3-0074, vop3-0096",
        edits=(("<< shift.u32) &", "<< shift.u32 >> 1148U) &"),),
    ),
    Erratum(
        "fmac-dx9-zero",
        ("rdna3",),
        rf"V_FMAC_DX9_ZERO_F32{ENCODING}",
        "correction",
        "gives S2, which the instruction does not have",
        "gives the accumulator",
        "V_FMA_DX9_ZERO_F32, whose third source it is",
        edits=(("D0.f32 = S2.f32", "D0.f32 = D0.f32"),),
    ),
    Erratum(
        "s-max-scc",
        RDNA,
        r"S_MAX_(?P<t>I32|U32)",
        "correction",
        "sets SCC if S0 >= S1",
        "sets SCC if S0 > S1 (gfx9 manuals and the CDNA text say >=; kept there)",
        "vectors sop-r0002, sop-r0003",
        text="SCC = S0.{t} > S1.{t};\nD0.{t} = SCC ? S0.{t} : S1.{t}",
    ),
    Erratum(
        "s-bcnt-scc",
        ALL,
        r"S_BCNT[01]_I32_B64",
        "correction",
        "tests a 64-bit result, half of which is not written",
        "SCC tells whether the count is zero",
        "reading of the text",
        edits=(("SCC = D0.u64 != 0ULL", "SCC = D0.i32 != 0"),),
    ),
    Erratum(
        "s-setreg-mask",
        ("rdna3",),
        r"S_SETREG(_IMM32)?_B32",
        "correction",
        "does not shift the mask to the field",
        "the mask lies over the field",
        "the RDNA4 manual's text of the same instruction",
        edits=(("mask = (1 << size) - 1;", "mask = (1 << size) - 1;\nmask = (mask << offset.u32);"),),
    ),
    Erratum(
        "pk-mov",
        ("cdna",),
        rf"V_PK_MOV_B32{ENCODING}",
        "correction",
        "slices beyond the 32 bits of its operands",
        "OPSEL[0] and OPSEL[1] choose a dword of S0 and of S1",
        "reading of the text",
        text="tmp0 = OPSEL[0].u1 ? S0[63 : 32] : S0[31 : 0];\ntmp1 = OPSEL[1].u1 ? S1[63 : 32] : S1[31 : 0];\n"
        "D0.b64 = {{ tmp1, tmp0 }}",
    ),
)
