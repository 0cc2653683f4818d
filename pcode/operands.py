"""The operand names that lowered programs use: one name for one thing, whatever a manual calls it.

An executor binds these names. Where a program reads ``OPSEL``, ``NEG``, ``NEG_HI``, ``ABS`` or ``OMOD`` it applies
that modifier itself, and the executor must hand out the sources unmodified.
"""

from __future__ import annotations

from mockgpu.pcode.ir import B32, B64, I16, I64, U1, U32, Type

#: name -> (type when the text gives none, meaning). Widths: programs read and write S0..S2, D0, D1, DATA, DATA2 and
#: RETURN_DATA at the width they need: 16, 32, or a multiple of 32 bits.
OPERANDS: dict[str, tuple[Type, str]] = {
    "S0": (B32, "first source; also written by the swaps"),
    "S1": (B32, "second source"),
    "S2": (B32, "third source"),
    "D0": (B32, "destination; as a lane mask (LaneBit) the scalar destination of a compare, VCC in its VOPC form"),
    "D1": (B32, "second destination; as a lane mask the carry-out of V_MAD_U64_U32 and V_MAD_I64_I32"),
    "SIMM16": (I16, "16-bit immediate"),
    "SIMM32": (B32, "literal constant"),
    "SCC": (U1, "scalar condition code"),
    "VCC": (B64, "vector condition code; as a lane mask the carry or condition operand of VOP2, VOP3SD and VOP3 forms"),
    "VCCZ": (U1, "VCC is zero, as far as the wave size goes"),
    "EXEC": (B64, "execution mask; read or written at 32 bits it is EXEC_LO"),
    "EXECZ": (U1, "EXEC is zero, as far as the wave size goes"),
    "PC": (I64, "read: byte address of this instruction; written: where to go on"),
    "M0": (B32, "M0"),
    "LANE": (U32, "number of the executing lane"),
    "WAVE32": (U1, "the wave has 32 lanes"),
    "WAVE64": (U1, "the wave has 64 lanes"),
    "SRC0": (U32, "number of the VGPR (vector instructions) or SGPR that the src0 field names"),
    "SRC1": (U32, "number of the VGPR that the src1 field names; the raw field in S_SET_GPR_IDX_ON"),
    "SRC2": (U32, "number of the VGPR that the src2 field names"),
    "DST": (U32, "number of the register that the destination field names (relative moves)"),
    "VDST": (U32, "number of the VGPR that the vdst field names"),
    "ADDR_REG": (U32, "number of the VGPR that the addr field names"),
    "DATA_REG": (U32, "number of the VGPR that the data field names"),
    "ADDR": (
        Type("u", 64),
        "byte address. DS: the 32-bit VGPR alone, programs add OFFSET, OFFSET0, OFFSET1. All others: complete, with"
        " the instruction's offset",
    ),
    "OFFSET": (U32, "DS: the 16-bit offset {OFFSET1, OFFSET0}"),
    "OFFSET0": (U32, "DS: the first 8-bit offset"),
    "OFFSET1": (U32, "DS: the second 8-bit offset"),
    "IOFFSET": (Type("i", 24), "SMEM prefetch: the signed offset of the instruction"),
    "DATA": (B32, "what a store or an atomic operation takes: VDATA, SDATA or the first DS data"),
    "DATA2": (B32, "second DS data"),
    "RETURN_DATA": (B32, "what a load or an atomic operation returns; a partial write keeps the rest"),
    "SDATA": (U32, "SMEM prefetch: the sdata field as a number"),
    "OPSEL": (B32, "the op_sel field"),
    "OPSEL_HI": (B32, "the op_sel_hi field, its three bits together"),
    "NEG": (B32, "the neg field (VOP3P: neg_lo)"),
    "NEG_HI": (B32, "the neg_hi field of VOP3P"),
    "ABS": (B32, "the abs field"),
    "OMOD": (B32, "the omod field"),
    "SDWA_SRC0_SEL": (Type("u", 3), "the src0_sel field of SDWA; 6 (the whole register) in other forms"),
    "WAVE_MODE.IEEE": (U1, "the IEEE bit of MODE"),
    "WAVE_MODE.CSP": (Type("u", 3), "the conditional branch stack pointer of MODE"),
    "WAVE_MODE.GPR_IDX_EN": (U1, "the GPR indexing enable of MODE"),
    "WAVE_STATUS.PRIV": (U1, "the wave is in the trap handler"),
    "WAVE_STATUS.COND_DBG_SYS": (U1, "conditional debug flag of the system"),
    "WAVE_STATUS.COND_DBG_USER": (U1, "conditional debug flag of the user"),
    "MODE.SCALAR_PREFETCH_EN": (U1, "scalar prefetch is enabled"),
    "VSKIP": (U1, "skip vector instructions (gfx9)"),
    "VGT_GS_MAX_WAVE_ID": (B32, "mask of ordered wave ids"),
}

#: Other spellings.
ALIASES: dict[str, str] = {
    "laneId": "LANE",
    "laneID": "LANE",
    "wave32": "WAVE32",
    "wave64": "WAVE64",
    "DATA0": "DATA",
    "DATA1": "DATA2",
    "ADDR_BASE": "ADDR",
    "D": "D0",
    "INST.OMOD": "OMOD",
    "INST.ABS": "ABS",
    "INST.NEG": "NEG",
}

#: ``VGPR[lane][ADDR]`` uses a field's name for the number of the register that it names.
REGISTER_NUMBERS: dict[str, str] = {
    "ADDR": "ADDR_REG",
    "DATA0": "DATA_REG",
    "DATA": "DATA_REG",
    "VDATA": "DATA_REG",
    "VDST": "VDST",
    "SRC0": "SRC0",
    "SRC1": "SRC1",
    "SRC2": "SRC2",
}

#: Flags that the texts set but that no program reads: exceptions are not modelled.
IGNORED_TARGETS = frozenset({"TRAPSTS.INVALID"})

#: Values of ``ROUND_MODE``; the part of the name that its conversions carry.
ROUND_MODES = {"ROUND_NEAREST_EVEN": "rne", "ROUND_TOWARD_ZERO": "rtz"}

#: SDWA selectors, as encoded.
SELECTORS = {"BYTE0": 0, "BYTE1": 1, "BYTE2": 2, "BYTE3": 3, "WORD0": 4, "WORD1": 5}

#: Named float constants by width, as bit patterns. Underflow and overflow are those of round to nearest even.
FLOAT_CONSTANTS: dict[str, dict[int, int]] = {
    "INF": {16: 0x7C00, 32: 0x7F800000, 64: 0x7FF0000000000000},
    "NAN": {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8000000000000},
    "PI": {64: 0x400921FB54442D18},
    "MAX_FLOAT_F32": {32: 0x7F7FFFFF},
    "MAX_FLOAT_F64": {64: 0x7FEFFFFFFFFFFFFF},
    "UNDERFLOW_F32": {32: 0},
    "UNDERFLOW_F64": {64: 0},
    "OVERFLOW_F32": {32: 0x7F800000},
    "OVERFLOW_F64": {64: 0x7FF0000000000000},
}

#: Operands that a text slices at variable positions: (pattern of the opcode's name, operand, its width in bits).
OPERAND_WIDTHS: tuple[tuple[str, str, int], ...] = (
    (r"V_CVT_SCALEF32_2XPK16_(FP6|BF6)_F32", "S0", 512),
    (r"V_CVT_SCALEF32_2XPK16_(FP6|BF6)_F32", "S1", 512),
    (r"V_CVT_SCALEF32_SR_PK32_(FP6|BF6)_F32", "S0", 1024),
    (r"V_CVT_SCALEF32_(SR_)?PK32_(FP6|BF6)_(F16|BF16)", "S0", 512),
    (r"V_CVT_SCALEF32_PK32_(F32|F16|BF16)_(FP6|BF6)", "S0", 192),
)
