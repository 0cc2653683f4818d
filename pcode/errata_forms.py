"""Errata rows: names of operands, exchange between lanes, and the same thing said faster."""

from __future__ import annotations

from mockgpu.pcode.erratum import ALL, ENCODING, RDNA, Erratum

# -- operand names ----------------------------------------------------------------------------------------------------

NAMING = (
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
        "ds-condxchg",
        ("rdna4", "cdna"),
        r"DS_CONDXCHG32_RTN_B64",
        "naming",
        "calls address and data S0 and S1",
        "ADDR and DATA",
        "RDNA3 manual, same instruction",
        text=(
            "addr = ((ADDR.u32 + OFFSET.u32) & 0xfff8U);\n"
            "low = DATA[31 : 0];\n"
            "high = DATA[63 : 32];\n"
            "RETURN_DATA[31 : 0] = MEM[addr].b32;\n"
            "if low[31] then\n"
            "MEM[addr].b32 = {{ 1'0U, low[30 : 0] }}\n"
            "endif;\n"
            "RETURN_DATA[63 : 32] = MEM[addr + 4U].b32;\n"
            "if high[31] then\n"
            "MEM[addr + 4U].b32 = {{ 1'0U, high[30 : 0] }}\n"
            "endif"
        ),
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

LANES = (
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

EQUIVALENT = (
    Erratum(
        "min-max-ieee",
        ("rdna3",),
        rf"[VS]_(?P<f>MIN|MAX)_(?P<t>F16|F32|F64){ENCODING}",
        "equivalent",
        "spells out NANs and signed zeros",
        "one function",
        "test_errata compares the two",
        text="D0.{t} = {f}_ieee(S0.{t}, S1.{t})",
    ),
    Erratum(
        "min-max-num",
        ("rdna4",),
        rf"[VS]_(DUAL_)?(?P<f>MIN|MAX)_NUM_(?P<t>F16|F32|F64){ENCODING}",
        "equivalent",
        "spells out NANs and signed zeros",
        "one function",
        "test_errata compares the two",
        text="D0.{t} = {f}_num(S0.{t}, S1.{t})",
    ),
    Erratum(
        "ceil-floor",
        ALL,
        rf"[VS]_(?P<f>CEIL|FLOOR)_(?P<t>F16|F32|F64){ENCODING}",
        "equivalent",
        "truncates, then adds one with the same sign",
        "one function",
        "test_errata compares the two",
        text="D0.{t} = {f}(S0.{t})",
    ),
    Erratum(
        "perm",
        ALL,
        rf"V_PERM_B32{ENCODING}",
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
        rf"(V_CLZ_I32_U32|V_FFBH_U32|S_CLZ_I32_U32|S_FLBIT_I32_B32){ENCODING}",
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
        rf"(V_CTZ_I32_B32|V_FFBL_B32|S_CTZ_I32_B32|S_FF1_I32_B32){ENCODING}",
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
        rf"(V_CLS_I32|V_FFBH_I32|S_CLS_I32|S_FLBIT_I32){ENCODING}",
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
        rf"V_BCNT_U32_B32{ENCODING}",
        "equivalent",
        "counts bit by bit",
        "one function",
        "test_errata compares the two",
        text="D0.u32 = S1.u32 + 32'U(count_ones(S0.u32))",
    ),
    Erratum(
        "mbcnt",
        ALL,
        rf"V_MBCNT_(LO|HI)_U32_B32{ENCODING}",
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
        text="product = 64'U(S0.u32) * 64'U(S1.u32);\nsum = product + S2.u64;\nD0.u64 = sum;\nD1.u1 = sum < product",
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
