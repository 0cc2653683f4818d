"""Errata rows: division, and functions whose accuracy is their own."""

from __future__ import annotations

from mockgpu.pcode.erratum import ALL, ENCODING, Erratum

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
  if S0.u32 == S1.u32 then tmp = ldexp(S0.f32, -64) endif
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
  if S0.u64 == S1.u64 then tmp = ldexp(S0.f64, -128) endif
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

DIVISION = (
    Erratum(
        "div-scale-f32",
        ALL,
        f"V_DIV_SCALE_F32{ENCODING}",
        "correction",
        "x == DENORM stands for 'x is a denormal'; VCC = 0 or 1 stands for the lane's bit; a zero operand leaves VCC"
        " clear; D0 is not written in some cases",
        "D0 is S0 where nothing is scaled; a zero operand gives NAN and sets VCC; 1/S1 counts as denormal when it is"
        " below the smallest normal f32; a denominator whose reciprocal is denormal is made smaller even where the"
        " quotient is denormal too, for the document's 2**64 would overflow it",
        "vectors vop3-0015, vop3-0019, vop3-0020",
        text=_DIV_SCALE_F32,
    ),
    Erratum(
        "div-scale-f64",
        ALL,
        f"V_DIV_SCALE_F64{ENCODING}",
        "correction",
        "as for f32",
        "as for f32, with thresholds 768 and 53 and scale 2**128",
        "vectors vop3-0068, vop3-0169, vop3-0171, vop3-0173",
        text=_DIV_SCALE_F64,
    ),
    Erratum(
        "div-fmas-f32",
        ALL,
        f"V_DIV_FMAS_F32{ENCODING}",
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
        f"V_DIV_FMAS_F64{ENCODING}",
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
        f"V_DIV_FIXUP_F32{ENCODING}",
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
        f"V_DIV_FIXUP_F64{ENCODING}",
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

PRECISION = (
    Erratum(
        "rcp",
        ALL,
        rf"V_RCP_(?P<t>F16|F32|F64){ENCODING}|V_RCP_IFLAG_(?P<i>F32){ENCODING}",
        "precision",
        "1.0 / S0",
        "an instruction of its own: 1 ulp documented for f16 and f32",
        "ISA manuals, 'Vector ALU'; V_RCP_F16 is correctly rounded on gfx90a",
        text="D0.{t}{i} = rcp(S0.{t}{i})",
    ),
    Erratum(
        "rsq",
        ALL,
        rf"V_RSQ_(?P<t>F16|F32|F64){ENCODING}",
        "precision",
        "1.0 / sqrt(S0)",
        "an instruction of its own: 1 ulp documented for f16 and f32",
        "ISA manuals, 'Vector ALU'",
        text="D0.{t} = rsq(S0.{t})",
    ),
    Erratum(
        "sin-cos",
        ALL,
        rf"V_(?P<f>SIN|COS)_(?P<t>F16|F32){ENCODING}",
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
        rf"V_LDEXP_(?P<t>F32|F64){ENCODING}",
        "precision",
        "multiplies by a power of two that may itself overflow: 0 * INF would be NAN",
        "scales in one step with one rounding; zero and INF stay",
        "vectors vop3 v_ldexp_f32, v_ldexp_f64",
        text="D0.{t} = ldexp(S0.{t}, S1.i32)",
    ),
    Erratum(
        "ldexp-f16",
        ALL,
        rf"V_LDEXP_F16{ENCODING}",
        "precision",
        "multiplies by a power of two that may itself overflow",
        "scales in one step with one rounding; zero and INF stay",
        "as for ldexp",
        text="D0.f16 = ldexp(S0.f16, 32'I(S1.i16))",
    ),
    Erratum(
        "rndne",
        ALL,
        rf"[VS]_RNDNE_(?P<t>F16|F32|F64){ENCODING}",
        "precision",
        "floor(S0 + 0.5) with a correction for ties: the sum rounds, wrong just below 0.5 and for large values",
        "rounds to the nearest integer, ties to even",
        "vectors vop1-0013, vop1-0068",
        text="D0.{t} = rndne(S0.{t})",
    ),
    Erratum(
        "fract-f32",
        ALL,
        rf"V_FRACT_F32{ENCODING}",
        "correction",
        "S0 - floor(S0), which rounds to 1.0 for a tiny negative S0",
        "the result stays below 1.0",
        "CDNA4 manual, V_FRACT_F32",
        text="tmp = S0.f32 + -floor(S0.f32);\nD0.f32 = tmp >= 1.0F ? 32'F(0x3f7fffff) : tmp",
    ),
    Erratum(
        "fract-f64",
        ALL,
        rf"V_FRACT_F64{ENCODING}",
        "correction",
        "S0 - floor(S0), which rounds to 1.0 for a tiny negative S0",
        "the result stays below 1.0",
        "CDNA4 manual, V_FRACT_F64",
        text="tmp = S0.f64 + -floor(S0.f64);\nD0.f64 = tmp >= 1.0 ? 64'F(0x3fefffffffffffffLL) : tmp",
    ),
    Erratum(
        "fract-f16",
        ALL,
        rf"V_FRACT_F16{ENCODING}",
        "correction",
        "S0 - floor(S0), which rounds to 1.0 for a tiny negative S0",
        "the result stays below 1.0",
        "by analogy with fract-f32",
        text="tmp = S0.f16 + -floor(S0.f16);\nD0.f16 = tmp >= 16'1.0 ? 16'F(0x3bff) : tmp",
    ),
    Erratum(
        "frexp-exp",
        ALL,
        rf"V_FREXP_EXP_I32_(?P<t>F32|F64){ENCODING}",
        "correction",
        "the exponent field minus the bias: wrong for zero and denormals",
        "0 for zero, INF and NAN; denormals count by their value",
        "vectors vop1 v_frexp_exp_i32_f32, v_frexp_exp_i32_f64",
        text="D0.i32 = frexp_exp(S0.{t})",
    ),
    Erratum(
        "frexp-exp-f16",
        ALL,
        rf"V_FREXP_EXP_I16_F16{ENCODING}",
        "correction",
        "the exponent field minus the bias: wrong for zero and denormals",
        "0 for zero, INF and NAN; denormals count by their value",
        "as for frexp-exp",
        text="D0.i16 = 16'I(frexp_exp(S0.f16))",
    ),
)
