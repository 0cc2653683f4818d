"""The rows of the errata table (see :mod:`mockgpu.pcode.errata`)."""

from __future__ import annotations

from mockgpu.pcode.errata import Erratum

ALL = ("rdna3", "rdna4", "cdna")
RDNA = ("rdna3", "rdna4")
_E = r"(_E32|_E64)?"

# -- division ---------------------------------------------------------------------------------------------------------

_DIV_SCALE_F32 = """
tmp = S0.f32;
carry = 1'0U;
quotient = abs(64'F(S2.f32) / 64'F(S1.f32));
tiny = (quotient < 64'F(0x3810000000000000LL)) && (quotient > 64'F(0x3690000000000000LL));
huge = (S1.u32[30 : 0] > 31'2122317824U) && (S1.u32[30 : 0] < 31'2139095040U);
if ((S1.u32[30 : 0] == 31'0U) || (S2.u32[30 : 0] == 31'0U)) then
  tmp = NAN.f32;
  carry = 1'1U
elsif exponent(S2.f32) - exponent(S1.f32) >= 96 then
  carry = 1'1U;
  if S0.u32 == S1.u32 then tmp = ldexp(S0.f32, 64) endif
elsif isDENORM(S1.f32) then
  tmp = ldexp(S0.f32, 64)
elsif huge && tiny then
  carry = 1'1U;
  if S0.u32 == S1.u32 then tmp = ldexp(S0.f32, 64) endif
elsif huge then
  tmp = ldexp(S0.f32, -64)
elsif tiny then
  carry = 1'1U;
  if S0.u32 == S2.u32 then tmp = ldexp(S0.f32, 64) endif
elsif exponent(S2.f32) <= 23 then
  tmp = ldexp(S0.f32, 64)
endif;
D0.f32 = tmp;
VCC.u64[laneId] = carry
"""

# The quotient is taken at 2**512 times its size, so that a denormal one is told from an underflow in every mode.
_DIV_SCALE_F64 = """
tmp = S0.f64;
carry = 1'0U;
quotient = abs(ldexp(S2.f64, 512) / S1.f64);
tiny = (exponent(S2.f64) < 1100) && (quotient < 64'F(0x2010000000000000LL)) && (quotient > 64'F(0x1cc0000000000000LL));
huge = (S1.u64[62 : 0] > 63'9209861237972664320U) && (S1.u64[62 : 0] < 63'9218868437227405312U);
if ((S1.u64[62 : 0] == 63'0U) || (S2.u64[62 : 0] == 63'0U)) then
  tmp = NAN.f64;
  carry = 1'1U
elsif exponent(S2.f64) - exponent(S1.f64) >= 768 then
  carry = 1'1U;
  if S0.u64 == S1.u64 then tmp = ldexp(S0.f64, 128) endif
elsif isDENORM(S1.f64) then
  tmp = ldexp(S0.f64, 128)
elsif huge && tiny then
  carry = 1'1U;
  if S0.u64 == S1.u64 then tmp = ldexp(S0.f64, 128) endif
elsif huge then
  tmp = ldexp(S0.f64, -128)
elsif tiny then
  carry = 1'1U;
  if S0.u64 == S2.u64 then tmp = ldexp(S0.f64, 128) endif
elsif exponent(S2.f64) <= 53 then
  tmp = ldexp(S0.f64, 128)
endif;
D0.f64 = tmp;
VCC.u64[laneId] = carry
"""

_DIVISION = (
    Erratum(
        "div-scale-f32",
        ALL,
        f"V_DIV_SCALE_F32{_E}",
        "correction",
        "x == DENORM stands for 'x is a denormal'; VCC = 0 or 1 stands for the lane's bit; a zero operand leaves VCC"
        " clear; D0 is not written in some cases",
        "D0 is S0 where nothing is scaled; a zero operand gives NAN and sets VCC; 1/S1 counts as denormal when it is"
        " below the smallest normal f32",
        "vectors vop3-0015, vop3-0019, vop3-0020",
        text=_DIV_SCALE_F32,
    ),
    Erratum(
        "div-scale-f64",
        ALL,
        f"V_DIV_SCALE_F64{_E}",
        "correction",
        "as for f32",
        "as for f32, with thresholds 768 and 53 and scale 2**128",
        "vectors vop3-0068, vop3-0169, vop3-0171, vop3-0173",
        text=_DIV_SCALE_F64,
    ),
    Erratum(
        "div-fmas-f32",
        ALL,
        f"V_DIV_FMAS_F32{_E}",
        "correction",
        "multiplies the rounded result by 2**32 where VCC is set",
        "scales by 2**64 if the addend is 2 or more, by 2**-64 otherwise, and rounds once",
        "vectors vop3-0022, vop3-0023, vop3-0024",
        text="if VCC.u64[laneId] then\n"
        "D0.f32 = fma_ldexp(S0.f32, S1.f32, S2.f32, exponent(S2.f32) > 127 ? 64 : -64)\n"
        "else\nD0.f32 = fma(S0.f32, S1.f32, S2.f32)\nendif",
    ),
    Erratum(
        "div-fmas-f64",
        ALL,
        f"V_DIV_FMAS_F64{_E}",
        "correction",
        "multiplies the rounded result by 2**64 where VCC is set",
        "scales by 2**128 if the addend is 2 or more, by 2**-128 otherwise, and rounds once",
        "vectors vop3-0175, vop3-0176",
        text="if VCC.u64[laneId] then\n"
        "D0.f64 = fma_ldexp(S0.f64, S1.f64, S2.f64, exponent(S2.f64) > 1023 ? 128 : -128)\n"
        "else\nD0.f64 = fma(S0.f64, S1.f64, S2.f64)\nendif",
    ),
    Erratum(
        "div-fixup-f32",
        ALL,
        f"V_DIV_FIXUP_F32{_E}",
        "correction",
        "passes a NAN quotient on",
        "a NAN quotient means that the iteration overflowed: the result is INF with the sign of the division",
        "vector vop3-0028",
        edits=(
            (
                "else\nD0.f32 = sign_out ? -abs(S0.f32)",
                "elsif isNAN(64'F(S0.f32)) then\nD0.f32 = sign_out ? -OVERFLOW_F32 : OVERFLOW_F32\n"
                "else\nD0.f32 = sign_out ? -abs(S0.f32)",
            ),
        ),
    ),
    Erratum(
        "div-fixup-f64",
        ALL,
        f"V_DIV_FIXUP_F64{_E}",
        "correction",
        "passes a NAN quotient on",
        "as for f32",
        "by analogy with div-fixup-f32",
        edits=(
            (
                "else\nD0.f64 = sign_out ? -abs(S0.f64)",
                "elsif isNAN(S0.f64) then\nD0.f64 = sign_out ? -OVERFLOW_F64 : OVERFLOW_F64\n"
                "else\nD0.f64 = sign_out ? -abs(S0.f64)",
            ),
        ),
    ),
)

# -- functions with an accuracy of their own --------------------------------------------------------------------------

_PRECISION = (
    Erratum(
        "rcp",
        ALL,
        rf"V_RCP_(?P<t>F16|F32|F64){_E}|V_RCP_IFLAG_(?P<i>F32){_E}",
        "precision",
        "1.0 / S0",
        "an instruction of its own: 1 ulp documented for f16 and f32",
        "ISA manuals, 'Vector ALU'; V_RCP_F16 is correctly rounded on gfx90a",
        text="D0.{t}{i} = rcp(S0.{t}{i})",
    ),
    Erratum(
        "rsq",
        ALL,
        rf"V_RSQ_(?P<t>F16|F32|F64){_E}",
        "precision",
        "1.0 / sqrt(S0)",
        "an instruction of its own: 1 ulp documented for f16 and f32",
        "ISA manuals, 'Vector ALU'",
        text="D0.{t} = rsq(S0.{t})",
    ),
    Erratum(
        "sin-cos",
        ALL,
        rf"V_(?P<f>SIN|COS)_(?P<t>F16|F32){_E}",
        "precision",
        "multiplies by 2 PI, rounds, and takes the function of radians",
        "takes an angle in turns; multiples of a quarter turn give exact results",
        "vectors vop1-0006, vop1-0091, vop1-0093",
        text="D0.{t} = {f}2pi(S0.{t})",
    ),
    Erratum(
        "scalar-transcendentals",
        ("rdna4",),
        r"V_S_(?P<f>RCP|RSQ|SQRT)_F16",
        "precision",
        "writes the low half, then clears the high half",
        "one write of 32 bits",
        "reading of the text",
        text="tmp = {f}(S0.f16);\nD0.b32 = {{ 16'0x0, tmp.b16 }}",
    ),
    Erratum(
        "scalar-exp-log",
        ("rdna4",),
        r"V_S_(EXP(?P<e>_)|LOG(?P<l>_))F16",
        "equivalent",
        "writes the low half, then clears the high half",
        "one write of 32 bits",
        "reading of the text",
        edits=(("D0.f16 = ", "tmp = "), ("D0[31 : 16] = 16'0x0", "D0.b32 = { 16'0x0, tmp.b16 }")),
    ),
    Erratum(
        "scalar-f32-rcp-rsq",
        ("rdna4",),
        r"V_S_(?P<f>RCP|RSQ|SQRT)_F32",
        "precision",
        "1.0 / S0, 1.0 / sqrt(S0)",
        "the vector instruction's function on a scalar",
        "reading of the text",
        text="D0.f32 = {f}(S0.f32)",
    ),
    Erratum(
        "ldexp",
        ALL,
        rf"V_LDEXP_(?P<t>F32|F64){_E}",
        "precision",
        "multiplies by a power of two that may itself overflow: 0 * INF would be NAN",
        "scales in one step with one rounding; zero and INF stay",
        "vectors vop3 v_ldexp_f32, v_ldexp_f64",
        text="D0.{t} = ldexp(S0.{t}, S1.i32)",
    ),
    Erratum(
        "ldexp-f16",
        ALL,
        rf"V_LDEXP_F16{_E}",
        "precision",
        "multiplies by a power of two that may itself overflow",
        "scales in one step with one rounding; zero and INF stay",
        "as for ldexp",
        text="D0.f16 = ldexp(S0.f16, 32'I(S1.i16))",
    ),
    Erratum(
        "rndne",
        ALL,
        rf"[VS]_RNDNE_(?P<t>F16|F32|F64){_E}",
        "precision",
        "floor(S0 + 0.5) with a correction for ties: the sum rounds, wrong just below 0.5 and for large values",
        "rounds to the nearest integer, ties to even",
        "vectors vop1-0013, vop1-0068",
        text="D0.{t} = rndne(S0.{t})",
    ),
    Erratum(
        "fract-f32",
        ALL,
        rf"V_FRACT_F32{_E}",
        "correction",
        "S0 - floor(S0), which rounds to 1.0 for a tiny negative S0",
        "the result stays below 1.0",
        "CDNA4 manual, V_FRACT_F32",
        text="tmp = S0.f32 + -floor(S0.f32);\nD0.f32 = tmp >= 1.0F ? 32'F(0x3f7fffff) : tmp",
    ),
    Erratum(
        "fract-f64",
        ALL,
        rf"V_FRACT_F64{_E}",
        "correction",
        "S0 - floor(S0), which rounds to 1.0 for a tiny negative S0",
        "the result stays below 1.0",
        "CDNA4 manual, V_FRACT_F64",
        text="tmp = S0.f64 + -floor(S0.f64);\nD0.f64 = tmp >= 1.0 ? 64'F(0x3fefffffffffffffLL) : tmp",
    ),
    Erratum(
        "fract-f16",
        ALL,
        rf"V_FRACT_F16{_E}",
        "correction",
        "S0 - floor(S0), which rounds to 1.0 for a tiny negative S0",
        "the result stays below 1.0",
        "by analogy with fract-f32",
        text="tmp = S0.f16 + -floor(S0.f16);\nD0.f16 = tmp >= 16'1.0 ? 16'F(0x3bff) : tmp",
    ),
    Erratum(
        "frexp-exp",
        ALL,
        rf"V_FREXP_EXP_I32_(?P<t>F32|F64){_E}",
        "correction",
        "the exponent field minus the bias: wrong for zero and denormals",
        "0 for zero, INF and NAN; denormals count by their value",
        "vectors vop1 v_frexp_exp_i32_f32, v_frexp_exp_i32_f64",
        text="D0.i32 = frexp_exp(S0.{t})",
    ),
    Erratum(
        "frexp-exp-f16",
        ALL,
        rf"V_FREXP_EXP_I16_F16{_E}",
        "correction",
        "the exponent field minus the bias: wrong for zero and denormals",
        "0 for zero, INF and NAN; denormals count by their value",
        "as for frexp-exp",
        text="D0.i16 = 16'I(frexp_exp(S0.f16))",
    ),
)

# -- comparisons and conversions --------------------------------------------------------------------------------------

_COMPARE_CONVERT = (
    Erratum(
        "cmp-class-denormal",
        ALL,
        rf"V_CMPX?_CLASS_(F16|F32|F64){_E}",
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
        rf"V_(ADD|SUB|SUBREV)C?B?(REV)?_CO_.*{_E}|V_CMP_.*",
        "note",
        "writes the lane's bit of the mask",
        "the bits of inactive lanes become 0, they are not preserved",
        "hardware note in tinygrad; the executor does this for every lane mask",
    ),
    Erratum(
        "min-max-nan",
        ("rdna3", "cdna"),
        rf"V_(MIN|MAX|MIN3|MAX3|MED3)_(F16|F32|F64){_E}",
        "note",
        "with MODE.IEEE a signalling NAN operand is quieted and returned; else the other operand is",
        "the same",
        "vector vop3-0121",
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
        rf"V_DIV_FIXUP_(F32|F64){_E}",
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
        rf"V_CVT_OFF_F32_I4{_E}",
        "correction",
        "names a table without giving it",
        "the signed 4-bit value divided by 16: -0.5 to 0.4375",
        "ISA manuals, V_CVT_OFF_F32_I4",
        text="D0.f32 = 32'F(32'I(S0.i4)) * 0.0625F",
    ),
    Erratum(
        "sr-fp8-mantissa",
        ("rdna4", "cdna"),
        r"V_CVT_SR_(FP8|BF8)_F32",
        "correction",
        "takes the low bits of the normalised mantissa as the mantissa field",
        "the field itself",
        "reading of the text",
        edits=(("23'B(mantissa(S0.f32))", "S0.u32[22 : 0]"),),
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

_MIX = """
declare in : 32'F[3];
declare S : 32'B[3];
for i in 0 : 2 do
  if !OPSEL_HI.u3[i] then
    in[i] = S[i].f32
  elsif OPSEL.u3[i] then
    in[i] = f16_to_f32(S[i][31 : 16].f16)
  else
    in[i] = f16_to_f32(S[i][15 : 0].f16)
  endif;
  if NEG_HI.u3[i] then in[i] = abs(in[i]) endif;
  if NEG.u3[i] then in[i] = -in[i] endif
endfor;
"""

_ARITHMETIC = (
    Erratum(
        "mix-f32",
        ALL,
        rf"V_(FMA|MAD)_MIX_F32{_E}",
        "correction",
        "leaves out the modifiers; V_MAD_MIX rounds twice",
        "NEG_HI takes the absolute value and NEG negates what was chosen and converted; one rounding",
        "CDNA4 manual; gfx942 measurements of V_MAD_MIX",
        text=_MIX + "D0[31 : 0].f32 = fma(in[0], in[1], in[2])",
    ),
    Erratum(
        "mix-lo",
        ALL,
        rf"V_(FMA|MAD)_MIXLO_F16{_E}",
        "correction",
        "leaves out the modifiers; V_MAD_MIX rounds twice",
        "as for mix-f32",
        "as for mix-f32",
        text=_MIX + "D0[15 : 0].f16 = f32_to_f16(fma(in[0], in[1], in[2]))",
    ),
    Erratum(
        "mix-hi",
        ALL,
        rf"V_(FMA|MAD)_MIXHI_F16{_E}",
        "correction",
        "leaves out the modifiers; V_MAD_MIX rounds twice",
        "as for mix-f32",
        "as for mix-f32",
        text=_MIX + "D0[31 : 16].f16 = f32_to_f16(fma(in[0], in[1], in[2]))",
    ),
    Erratum(
        "dot2-rounding",
        ALL,
        rf"V_DOT2.*{_E}",
        "note",
        "adds the products one after the other",
        "gfx1151 aligns all addends to one grid and rounds differently in the last bit; gfx90a flushes f16 denormals",
        "rocm-systems issue 12056, llvm-project issue 205101; the document's order is kept",
    ),
    Erratum(
        "trig-preop-bits",
        ALL,
        rf"V_TRIG_PREOP_F64{_E}",
        "correction",
        "keeps the lowest 53 of the 1201 bits after the shift",
        "keeps the highest 53, the whole part of the shifted number",
        "the comment in the text; vectors vop3-0074, vop3-0096",
        edits=(("<< shift.u32) &", "<< shift.u32 >> 1148U) &"),),
    ),
    Erratum(
        "fmac-dx9-zero",
        ("rdna3",),
        rf"V_FMAC_DX9_ZERO_F32{_E}",
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
        rf"V_PK_MOV_B32{_E}",
        "correction",
        "slices beyond the 32 bits of its operands",
        "OPSEL[0] and OPSEL[1] choose a dword of S0 and of S1",
        "reading of the text",
        text="tmp0 = OPSEL[0].u1 ? S0[63 : 32] : S0[31 : 0];\ntmp1 = OPSEL[1].u1 ? S1[63 : 32] : S1[31 : 0];\n"
        "D0.b64 = {{ tmp1, tmp0 }}",
    ),
)

# -- operand names ----------------------------------------------------------------------------------------------------

_NAMING = (
    Erratum(
        "sopk-immediate-s0",
        ("rdna4", "cdna"),
        r"S_(MOVK|CMOVK|ADDK|ADDK_CO|MULK)_I32",
        "naming",
        "calls the immediate S0",
        "SIMM16",
        "RDNA3 manual",
        table="SOPKOp",
        edits=(("S0.i16", "SIMM16.i16"),),
    ),
    Erratum(
        "sopk-immediate-s1",
        ("cdna",),
        r"S_CMPK_.*",
        "naming",
        "calls the immediate S1",
        "SIMM16",
        "RDNA3 manual",
        table="SOPKOp",
        edits=(("S1.i16", "SIMM16.i16"), ("S1.u16", "SIMM16.u16")),
    ),
    Erratum(
        "ds-addtid-store",
        ALL,
        r"DS_(STORE|WRITE)_ADDTID_B32",
        "naming",
        "spells out the offset field",
        "M0[15:0] + OFFSET + 4 * lane",
        "reading of the text",
        text="MEM[M0[15 : 0].u32 + OFFSET.u32 + laneId.u32 * 4U].b32 = DATA.b32",
    ),
    Erratum(
        "ds-addtid-load",
        ALL,
        r"DS_(LOAD|READ)_ADDTID_B32",
        "naming",
        "spells out the offset field",
        "M0[15:0] + OFFSET + 4 * lane",
        "reading of the text",
        text="RETURN_DATA.b32 = MEM[M0[15 : 0].u32 + OFFSET.u32 + laneId.u32 * 4U].b32",
    ),
    Erratum(
        "global-addtid-store",
        RDNA,
        r"GLOBAL_STORE_ADDTID_B32",
        "naming",
        "spells out the address",
        "the instruction's address plus 4 * lane",
        "reading of the text",
        text="MEM[ADDR + 64'U(laneId.u32 * 4U)].b32 = DATA.b32",
    ),
    Erratum(
        "global-addtid-load",
        RDNA,
        r"GLOBAL_LOAD_ADDTID_B32",
        "naming",
        "spells out the address",
        "the instruction's address plus 4 * lane",
        "reading of the text",
        text="RETURN_DATA.b32 = MEM[ADDR + 64'U(laneId.u32 * 4U)].b32",
    ),
    Erratum(
        "block-address",
        ("rdna4",),
        r"(GLOBAL|SCRATCH)_(LOAD|STORE)_BLOCK",
        "naming",
        "takes the address VGPR alone for the address",
        "the instruction's address",
        "the other opcodes of the format",
        edits=(("VGPR[laneId][ADDR].i32 + i * 4", "ADDR + 64'U(i.u32 * 4U)"),),
    ),
    Erratum(
        "condxchg",
        ("rdna3",),
        r"DS_CONDXCHG32_RTN_B64",
        "naming",
        "takes the operands apart and redeclares them",
        "as for the other DS opcodes",
        "reading of the text",
        text="addr = ((ADDR.u32 + OFFSET.u32) & 0xfff8U);\n"
        "low = DATA[31 : 0];\nhigh = DATA[63 : 32];\n"
        "RETURN_DATA[31 : 0] = MEM[addr].b32;\n"
        "if low[31] then\nMEM[addr].b32 = {{ 1'0U, low[30 : 0] }}\nendif;\n"
        "RETURN_DATA[63 : 32] = MEM[addr + 4U].b32;\n"
        "if high[31] then\nMEM[addr + 4U].b32 = {{ 1'0U, high[30 : 0] }}\nendif",
    ),
)

# -- across lanes -----------------------------------------------------------------------------------------------------

_BPERMUTE = "value = EXEC[src_lane].u1 ? VGPR[src_lane][DATA0] : 0x0;\nVGPR[laneId][VDST] = value"

_LANES = (
    Erratum(
        "ds-bpermute-halves",
        ("rdna3",),
        r"DS_BPERMUTE_B32",
        "correction",
        "takes lanes modulo 32 of the whole wave; divides a signed address",
        "each half of a wave64 picks its lanes in its own half",
        "vectors of DS_BPERMUTE in wave64",
        text="src_lane = (laneId.u32 & 32U) + (((VGPR[laneId][ADDR].u32 + OFFSET.u32) >> 2U) & 31U);\n" + _BPERMUTE,
    ),
    Erratum(
        "ds-bpermute",
        ("rdna4", "cdna"),
        r"DS_BPERMUTE_B32",
        "equivalent",
        "loops over the lanes; RDNA4 divides a signed address",
        "every lane fetches at once",
        "test_errata compares the two",
        text="src_lane = (((VGPR[laneId][ADDR].u32 + OFFSET.u32) >> 2U) & (WAVE64 ? 63U : 31U));\n" + _BPERMUTE,
    ),
    Erratum(
        "ds-bpermute-fi",
        ("rdna4",),
        r"DS_BPERMUTE_FI_B32",
        "equivalent",
        "loops over the lanes; divides a signed address",
        "every lane fetches at once",
        "as for ds-bpermute",
        text="src_lane = (((VGPR[laneId][ADDR].u32 + OFFSET.u32) >> 2U) & (WAVE64 ? 63U : 31U));\n"
        "value = VGPR[src_lane][DATA0];\nVGPR[laneId][VDST] = value",
    ),
    Erratum(
        "ds-permute-halves",
        ("rdna3",),
        r"DS_PERMUTE_B32",
        "correction",
        "takes lanes modulo 32 of the whole wave; divides a signed address",
        "each half of a wave64 sends to its own half",
        "vectors of DS_PERMUTE in wave64",
        edits=(
            (
                "32'I(VGPR[i][ADDR] + OFFSET.b32) / 4 % 32",
                "(i.u32 & 32U) + (((VGPR[i][ADDR].u32 + OFFSET.u32) >> 2U) & 31U)",
            ),
        ),
    ),
    Erratum(
        "ds-permute-unsigned",
        ("rdna4",),
        r"DS_PERMUTE_B32",
        "correction",
        "divides a signed address",
        "the high bits of the address are ignored",
        "the comment in the text",
        edits=(
            (
                "32'I(VGPR[i][ADDR] + OFFSET.b32) / 4 % num_lanes",
                "(VGPR[i][ADDR].u32 + OFFSET.u32) / 4U % num_lanes.u32",
            ),
        ),
    ),
)

# -- the same thing, faster -------------------------------------------------------------------------------------------

_EQUIVALENT = (
    Erratum(
        "min-max-ieee",
        ("rdna3",),
        rf"[VS]_(?P<f>MIN|MAX)_(?P<t>F16|F32|F64){_E}",
        "equivalent",
        "spells out NANs and signed zeros",
        "one function",
        "test_errata compares the two",
        text="D0.{t} = {f}_ieee(S0.{t}, S1.{t})",
    ),
    Erratum(
        "min-max-num",
        ("rdna4",),
        rf"[VS]_(DUAL_)?(?P<f>MIN|MAX)_NUM_(?P<t>F16|F32|F64){_E}",
        "equivalent",
        "spells out NANs and signed zeros",
        "one function",
        "test_errata compares the two",
        text="D0.{t} = {f}_num(S0.{t}, S1.{t})",
    ),
    Erratum(
        "ceil-floor",
        ALL,
        rf"[VS]_(?P<f>CEIL|FLOOR)_(?P<t>F16|F32|F64){_E}",
        "equivalent",
        "truncates, then adds one with the same sign",
        "one function",
        "test_errata compares the two",
        text="D0.{t} = {f}(S0.{t})",
    ),
    Erratum(
        "perm",
        ALL,
        rf"V_PERM_B32{_E}",
        "equivalent",
        "unpacks all bytes and selects",
        "one function per byte",
        "test_errata compares the two",
        text="D0[31 : 24] = byte_permute({{ S0.u32, S1.u32 }}, S2.u32[31 : 24]);\n"
        "D0[23 : 16] = byte_permute({{ S0.u32, S1.u32 }}, S2.u32[23 : 16]);\n"
        "D0[15 : 8] = byte_permute({{ S0.u32, S1.u32 }}, S2.u32[15 : 8]);\n"
        "D0[7 : 0] = byte_permute({{ S0.u32, S1.u32 }}, S2.u32[7 : 0])",
    ),
    Erratum(
        "clz-32",
        ALL,
        rf"(V_CLZ_I32_U32|V_FFBH_U32|S_CLZ_I32_U32|S_FLBIT_I32_B32){_E}",
        "equivalent",
        "searches bit by bit",
        "one function",
        "test_errata compares the two",
        text="D0.i32 = count_leading_zeros(S0.u32)",
    ),
    Erratum(
        "clz-64",
        ALL,
        r"S_CLZ_I32_U64|S_FLBIT_I32_B64",
        "equivalent",
        "searches bit by bit",
        "one function",
        "test_errata compares the two",
        text="D0.i32 = count_leading_zeros(S0.u64)",
    ),
    Erratum(
        "ctz-32",
        ALL,
        rf"(V_CTZ_I32_B32|V_FFBL_B32|S_CTZ_I32_B32|S_FF1_I32_B32){_E}",
        "equivalent",
        "searches bit by bit",
        "one function",
        "test_errata compares the two",
        text="D0.i32 = find_first_one(S0.u32)",
    ),
    Erratum(
        "ctz-64",
        ALL,
        r"S_CTZ_I32_B64|S_FF1_I32_B64",
        "equivalent",
        "searches bit by bit",
        "one function",
        "test_errata compares the two",
        text="D0.i32 = find_first_one(S0.u64)",
    ),
    Erratum(
        "cls-32",
        ALL,
        rf"(V_CLS_I32|V_FFBH_I32|S_CLS_I32|S_FLBIT_I32){_E}",
        "equivalent",
        "searches bit by bit",
        "one function",
        "test_errata compares the two",
        text="D0.i32 = count_leading_signs(S0.u32)",
    ),
    Erratum(
        "cls-64",
        ALL,
        r"S_CLS_I32_I64|S_FLBIT_I32_I64",
        "equivalent",
        "searches bit by bit",
        "one function",
        "test_errata compares the two",
        text="D0.i32 = count_leading_signs(S0.u64)",
    ),
    Erratum(
        "bcnt-32",
        ALL,
        rf"V_BCNT_U32_B32{_E}",
        "equivalent",
        "counts bit by bit",
        "one function",
        "test_errata compares the two",
        text="D0.u32 = S1.u32 + 32'U(count_ones(S0.u32))",
    ),
    Erratum(
        "mbcnt",
        ALL,
        rf"V_MBCNT_(LO|HI)_U32_B32{_E}",
        "equivalent",
        "counts bit by bit",
        "one function",
        "test_errata compares the two",
        edits=(
            (
                "for i in 0 : 31 do\ntmp += MaskedValue[i] == 1'1U ? 1U : 0U\nendfor;",
                "tmp += 32'U(count_ones(MaskedValue.u32));",
            ),
        ),
    ),
    Erratum(
        "s-bcnt1-32",
        ALL,
        r"S_BCNT1_I32_B32",
        "equivalent",
        "counts bit by bit",
        "one function",
        "test_errata compares the two",
        text="D0.i32 = count_ones(S0.u32);\nSCC = D0.i32 != 0",
    ),
    Erratum(
        "s-bcnt1-64",
        ALL,
        r"S_BCNT1_I32_B64",
        "equivalent",
        "counts bit by bit",
        "one function",
        "test_errata compares the two",
        text="D0.i32 = count_ones(S0.u64);\nSCC = D0.i32 != 0",
    ),
    Erratum(
        "mad-u64-u32",
        ALL,
        r"V_MAD_(CO_)?U64_U32",
        "equivalent",
        "adds in 65 bits",
        "adds in 64 bits; the sum is below an addend when it has carried out",
        "test_errata compares the two",
        text="product = 64'U(S0.u32) * 64'U(S1.u32);\n"
        "sum = product + S2.u64;\n"
        "D0.u64 = sum;\n"
        "D1.u1 = sum < product",
    ),
    Erratum(
        "mad-i64-i32",
        ALL,
        r"V_MAD_(CO_)?I64_I32",
        "equivalent",
        "adds in 65 bits",
        "adds in 64 bits; bit 64 is the sign of the exact sum: that of both addends, or of the sum where they differ",
        "test_errata compares the two",
        text="product = 64'I(S0.i32) * 64'I(S1.i32);\n"
        "sum = product + S2.i64;\n"
        "D0.i64 = sum;\n"
        "carry = (product & S2.i64) | ((product | S2.i64) & sum);\n"
        "D1.u1 = carry[63]",
    ),
)

#: All rows, in the order in which they apply.
ERRATA: tuple[Erratum, ...] = (
    *_DIVISION,
    *_PRECISION,
    *_COMPARE_CONVERT,
    *_ARITHMETIC,
    *_NAMING,
    *_LANES,
    *_EQUIVALENT,
)

#: (table, name, reason): opcodes whose text parses but describes what the engine does by itself.
ENGINE_PART: tuple[tuple[str, str, str], ...] = (
    (".*", r"T?BUFFER_.*_FORMAT_.*", "conversion of typed buffer formats, which depends on the descriptor"),
    (".*", r"IMAGE_GET_LOD", "level of detail of an image, which depends on the sampler"),
    ("SOPPOp", r"S_TRAP", "entry into the trap handler"),
    ("SOP1Op|SOPPOp", r"S_(GET_)?BARRIER_.*", "state of the work-group's barriers"),
    ("SOP1Op", r"S_ALLOC_VGPR", "reallocation of vector registers"),
    ("SOPPOp", r"S_SETPRIO", "priority of the wave"),
    ("DSOp", r"DS_BVH_STACK_.*", "ray traversal stack"),
)
