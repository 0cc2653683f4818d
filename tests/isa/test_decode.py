"""Decoding: formats, variants, operands, errors."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mockgpu.isa.arch import arch_names, get_arch
from mockgpu.isa.decode import decode, decode_all
from mockgpu.isa.errors import DecodeError
from mockgpu.isa.instruction import Dpp8, Dpp16, Register
from mockgpu.isa.registers import Kind

RDNA3 = get_arch("gfx1100")
RDNA4 = get_arch("gfx1201")
CDNA3 = get_arch("gfx942")
CDNA4 = get_arch("gfx950")


def words(*dwords: int) -> bytes:
    return struct.pack(f"<{len(dwords)}I", *dwords)


# One instruction of every RDNA3 format and variant: (dwords, encoding, mnemonic, text).
RDNA3_FORMATS = [
    ((0xD8D80010, 0x01000002), "DS", "ds_load_b32", "ds_load_b32 v1, v2 offset:16"),
    ((0xF8000801, 0x04030201), "EXP", "exp", "exp mrt0 v1, off, off, off done"),
    ((0xDC500000, 0x017C0002), "FLAT", "flat_load_b32", "flat_load_b32 v1, v[2:3]"),
    ((0xDC526010, 0x01040002), "GLOBAL", "global_load_b32", "global_load_b32 v1, v2, s[4:5] offset:16 glc dlc"),
    ((0xDC6A1FF0, 0x007C0102), "GLOBAL", "global_store_b32", "global_store_b32 v[2:3], v1, off offset:-16"),
    ((0xDC510000, 0x01840002), "SCRATCH", "scratch_load_b32", "scratch_load_b32 v1, v2, s4"),
    ((0xCE1D0090,), "LDSDIR", "lds_direct_load", "lds_direct_load v144 wait_vdst:13"),
    ((0xF0000F04, 0x00000101), "MIMG", "image_load", "image_load v[1:4], v[1:2], s[0:7] dmask:0xf dim:SQ_RSRC_IMG_2D"),
    ((0xE8080000, 0x80000101), "MTBUF", "tbuffer_load_format_x", "tbuffer_load_format_x v1, off, s[0:3], 0"),
    ((0xE0500010, 0x80410102), "MUBUF", "buffer_load_b32", "buffer_load_b32 v1, v2, s[4:7], 0 offen offset:16"),
    ((0xF4040002, 0xF8000010), "SMEM", "s_load_b64", "s_load_b64 s[0:1], s[4:5], 0x10"),
    ((0xBE800001,), "SOP1", "s_mov_b32", "s_mov_b32 s0, s1"),
    ((0xBE8000FF, 0x12345678), "SOP1_LIT", "s_mov_b32", "s_mov_b32 s0, 0x12345678"),
    ((0x80020100,), "SOP2", "s_add_u32", "s_add_u32 s2, s0, s1"),
    ((0x8002FF00, 0x12345678), "SOP2_LIT", "s_add_u32", "s_add_u32 s2, s0, 0x12345678"),
    ((0xBF000100,), "SOPC", "s_cmp_eq_i32", "s_cmp_eq_i32 s0, s1"),
    ((0xBF00FF00, 0x12345678), "SOPC_LIT", "s_cmp_eq_i32", "s_cmp_eq_i32 s0, 0x12345678"),
    ((0xB0058001,), "SOPK", "s_movk_i32", "s_movk_i32 s5, 0x8001"),
    (
        (0xB9801801, 0x12345678),
        "SOPK_LIT",
        "s_setreg_imm32_b32",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0x12345678",
    ),
    ((0xBF8903F7,), "SOPP", "s_waitcnt", "s_waitcnt vmcnt(0)"),
    ((0xBF870091,), "SOPP", "s_delay_alu", "s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)"),
    ((0xCD000001, 0x040E0502), "VINTERP", "v_interp_p10_f32", "v_interp_p10_f32 v1, v2, v2, v3 wait_exp:0"),
    ((0x7E020302,), "VOP1", "v_mov_b32", "v_mov_b32_e32 v1, v2"),
    ((0x7E0202FF, 0xDEADBEEF), "VOP1_LIT", "v_mov_b32", "v_mov_b32_e32 v1, 0xdeadbeef"),
    ((0x7E0202FA, 0xFF08B102), "VOP1_DPP16", "v_mov_b32", ""),
    ((0x7E0202E9, 0x00000002), "VOP1_DPP8", "v_mov_b32", "v_mov_b32_dpp v1, v2 dpp8:[0,0,0,0,0,0,0,0]"),
    ((0x7E000501,), "VOP1_SDST", "v_readfirstlane_b32", "v_readfirstlane_b32 s0, v1"),
    ((0x06020602,), "VOP2", "v_add_f32", "v_add_f32_e32 v1, s2, v3"),
    ((0x060206FF, 0x41200000), "VOP2_LIT", "v_add_f32", "v_add_f32_e32 v1, 0x41200000, v3"),
    ((0x580206FF, 0x41200000), "VOP2_LIT", "v_fmamk_f32", "v_fmamk_f32 v1, 0x41200000, 0x41200000, v3"),
    ((0x58020702, 0x41200000), "VOP2_LIT", "v_fmamk_f32", "v_fmamk_f32 v1, v2, 0x41200000, v3"),
    ((0x5A020702, 0x41200000), "VOP2_LIT", "v_fmaak_f32", "v_fmaak_f32 v1, v2, v3, 0x41200000"),
    ((0xD5030101, 0x20020702), "VOP3", "v_add_f32", "v_add_f32_e64 v1, -|v2|, v3"),
    ((0xD5038001, 0x080206FF, 0x41200000), "VOP3_LIT", "v_add_f32", "v_add_f32_e64 v1, 0x41200000, v3 clamp mul:2"),
    ((0xD4120005, 0x00020702), "VOP3_SDST", "v_cmp_eq_f32", "v_cmp_eq_f32_e64 s5, v2, v3"),
    ((0xD6FC0501, 0x040E0502), "VOP3SD", "v_div_scale_f32", "v_div_scale_f32 v1, s5, v2, v2, v3"),
    ((0xCC0F4001, 0x1C0E0502), "VOP3P", "v_pk_add_f16", "v_pk_add_f16 v1, v2, v2"),
    ((0x7C240702,), "VOPC", "v_cmp_eq_f32", "v_cmp_eq_f32_e32 vcc_lo, v2, v3"),
    ((0xCA080102, 0x01020903), "VOPD", "v_dual_mov_b32 :: v_dual_add_f32", ""),
]


@pytest.mark.parametrize(("dwords", "encoding", "mnemonic", "text"), RDNA3_FORMATS, ids=lambda v: str(v)[:30])
def test_every_rdna3_format(dwords, encoding, mnemonic, text):
    inst = decode(RDNA3, words(*dwords))
    assert inst.encoding == encoding
    assert inst.mnemonic == mnemonic
    assert inst.size == 4 * len(dwords)
    assert not text or inst.text == text


@pytest.mark.parametrize(("dwords", "encoding"), [(row[0], row[1]) for row in RDNA3_FORMATS])
def test_a_cut_off_instruction_names_what_is_missing(dwords, encoding):
    data = words(*dwords)
    for length in range(len(data)):
        with pytest.raises(DecodeError, match=f"{length} bytes left"):
            decode(RDNA3, data[:length])


def test_offset_and_stream():
    data = words(0x7E020302, 0x7E0202FF, 0xDEADBEEF, 0xBFB00000)
    found = list(decode_all(RDNA3, data))
    assert [offset for offset, _ in found] == [0, 4, 12]
    assert decode(RDNA3, data, 4) == found[1][1]
    assert hash(decode(RDNA3, data, 4)) == hash(found[1][1])
    assert found[2][1].text == "s_endpgm"


def test_an_illegal_word_is_reported_with_place_and_word():
    with pytest.raises(DecodeError) as caught:
        decode(RDNA3, words(0xBFB00000, 0xFFFFFFFF), 4)
    assert (caught.value.offset, caught.value.word, caught.value.arch) == (4, 0xFFFFFFFF, "gfx1100")


@pytest.mark.parametrize(
    ("arch", "dwords", "reason"),
    [
        (CDNA3, (0xD1010001, 0x000206FF), "literal is not allowed"),
        (CDNA3, (0xD1010001, 0x000206FA), "DPP is not allowed"),
        (RDNA3, (0x060206F9, 0x00000000), "SDWA is not allowed"),
        (RDNA3, (0x7E0206FA, 0xFF08B102), "DPP is not allowed"),  # v_cvt_i32_f64
        (CDNA3, (0xD3AC0000, 0, 0xD3AE0000, 0), "second half"),
        (CDNA3, (0xD2340001, 0x00020702), "does not exist on this target"),
        (RDNA4, (0x7E010302,), "illegal opcode"),
    ],
)
def test_illegal_forms(arch, dwords, reason):
    with pytest.raises(DecodeError, match=reason):
        decode(arch, words(*dwords))


def test_bits_outside_every_field_are_ignored_but_kept():
    inst = decode(RDNA3, words(0xD8D90010, 0x01000002))
    assert inst.fields == decode(RDNA3, words(0xD8D80010, 0x01000002)).fields
    assert inst.raw == 0x01000002D8D90010


def test_operand_kinds():
    kinds = {
        5: (Kind.SGPR, 5),
        106: (Kind.VCC, 0),
        107: (Kind.VCC, 1),
        108: (Kind.TTMP, 0),
        124: (Kind.NULL, 0),
        125: (Kind.M0, 0),
        126: (Kind.EXEC, 0),
        128: (Kind.INT, 0),
        192: (Kind.INT, 64),
        193: (Kind.INT, -1),
        208: (Kind.INT, -16),
        240: (Kind.FLOAT, 240),
        253: (Kind.SCC, 0),
        256 + 7: (Kind.VGPR, 7),
    }
    for code, (kind, index) in kinds.items():
        source = decode(RDNA3, words(0x7E020200 | code)).operand("src0")
        assert (source.kind, source.index, source.code) == (kind, index, code)
    assert decode(CDNA3, words(0x7E02027C)).operand("src0").kind is Kind.M0


def test_modifiers_of_a_vop3_source():
    inst = decode(RDNA3, words(0xD5030101, 0x20020702))
    assert (inst.operand("src0").neg, inst.operand("src0").abs) == (True, True)
    assert not inst.operand("src1").neg
    assert (inst.omod, inst.clamp) == (0, False)


def test_16_bit_operands_name_register_halves():
    inst = decode(RDNA3, words(0x64020000 | 0x183 | 0x84 << 9 | 0x81 << 17))
    views = {view.field: (view.index, view.hi) for view in inst.operands}
    assert inst.mnemonic == "v_add_f16"
    assert views == {"vdst": (1, True), "src0": (3, True), "vsrc1": (4, True)}


def test_dpp16_and_dpp8():
    inst = decode(RDNA3, words(0x7E0202FA, 0xFF08B102))
    assert inst.dpp == Dpp16(ctrl=0xB1, row_mask=15, bank_mask=15, bound_ctrl=True, fetch_inactive=False)
    assert inst.operand("src0").index == 2
    inst = decode(RDNA3, words(0x7E0202EA, 0xFAC68802))
    assert isinstance(inst.dpp, Dpp8)
    assert inst.dpp == Dpp8((0, 1, 2, 3, 4, 5, 6, 7), True)


def test_dual_issue_pair():
    inst = decode(RDNA3, words(0xCA080102, 0x01020903))
    assert (inst.opcode.mnemonic, inst.opcode_y.mnemonic) == ("v_dual_mov_b32", "v_dual_add_f32")
    assert (inst.operand("vdstx").index, inst.operand("vdsty").index) == (1, 2)
    assert inst.text == "v_dual_mov_b32 v1, v2 :: v_dual_add_f32 v2, v3, v4"


def test_addressing_modes_choose_the_width_of_the_address():
    wide = decode(RDNA3, words(0xDC520000, 0x017C0002))
    narrow = decode(RDNA3, words(0xDC520000, 0x01040002))
    assert wide.operand("addr").regs == 2
    assert wide.operand("saddr").kind is Kind.NULL
    assert narrow.operand("addr").regs == 1
    assert narrow.operand("saddr").regs == 2


def test_atomics_return_only_when_asked():
    quiet = decode(RDNA3, words(0xDCD60000, 0x017C0102))
    returning = decode(RDNA3, words(0xDCD64000, 0x017C0102))
    assert quiet.mnemonic == "global_atomic_add_u32"
    assert not quiet.operand("vdst").is_dst
    assert returning.operand("vdst").is_dst


def v(*numbers: int) -> set[Register]:
    return {Register("v", n) for n in numbers}


def s(*numbers: int) -> set[Register]:
    return {Register("s", n) for n in numbers}


@pytest.mark.parametrize(
    ("dwords", "reads", "writes"),
    [
        ((0x06020602,), s(2, 126) | v(3), v(1)),  # v_add_f32_e32 v1, s2, v3
        ((0x56020602,), s(2, 126) | v(1, 3), v(1)),  # v_fmac_f32_e32 v1, s2, v3
        ((0x02020602,), s(2, 106, 126) | v(3), v(1)),  # v_cndmask_b32_e32 v1, s2, v3, vcc_lo
        ((0x40020602,), s(2, 106, 126) | v(3), v(1) | s(106)),  # v_add_co_ci_u32_e32 v1, vcc_lo, s2, v3, vcc_lo
        ((0x7C240702,), s(126) | v(2, 3), s(106)),  # v_cmp_eq_f32_e32 vcc_lo, v2, v3
        ((0x7D240702,), s(126) | v(2, 3), s(126)),  # v_cmpx_eq_f32_e32 v2, v3
        ((0x80020100,), s(0, 1), s(2) | {Register("scc", 0)}),  # s_add_u32 s2, s0, s1
        ((0x82020100,), s(0, 1) | {Register("scc", 0)}, s(2) | {Register("scc", 0)}),  # s_addc_u32
        ((0xBF000100,), s(0, 1), {Register("scc", 0)}),  # s_cmp_eq_i32 s0, s1
        ((0xB1850001,), s(5), {Register("scc", 0)}),  # s_cmpk_eq_i32 s5, 1
        ((0xB7850001,), s(5), s(5) | {Register("scc", 0)}),  # s_addk_i32 s5, 1
        ((0xF4040002, 0xF8000010), s(4, 5), s(0, 1)),  # s_load_b64 s[0:1], s[4:5], 0x10
        ((0xDC520000, 0x01040002), s(4, 5, 126) | v(2), v(1)),  # global_load_b32 v1, v2, s[4:5]
    ],
)
def test_declared_reads_and_writes(dwords, reads, writes):
    inst = decode(RDNA3, words(*dwords))
    assert inst.reads == reads
    assert inst.writes == writes


def test_lane_masks_follow_the_wave_size():
    inst = decode(RDNA3, words(0xD4120004, 0x00020702))
    assert inst.writes_in(32) == s(4)
    assert inst.writes_in(64) == s(4, 5)
    assert decode(CDNA3, words(0xD0420004, 0x00020702)).writes == s(4, 5)


def test_cdna_accumulation_registers():
    inst = decode(CDNA3, words(0xD3C58000, 0x1C020702))  # v_mfma_f32_4x4x1_16b_f32 with both kinds
    assert inst.operand("vdst").kind is Kind.AGPR
    assert inst.operand("src0").kind is Kind.AGPR
    assert not inst.clamp


def test_scaled_matrix_instruction_is_16_bytes():
    inst = decode(CDNA4, words(0xD3AC0000, 0x00022332, 0xD3AD0060, 0x05828110))
    assert (inst.size, inst.mnemonic) == (16, "v_mfma_scale_f32_16x16x128_f8f6f4")


@given(st.sampled_from(arch_names()), st.binary(min_size=0, max_size=16))
@settings(max_examples=400, deadline=None)
def test_any_bytes_decode_or_raise(name, data):
    try:
        inst = decode(get_arch(name), data)
    except DecodeError:
        return
    assert inst.size <= len(data)
    assert inst.raw.to_bytes(inst.size, "little") == data[: inst.size]
    assert isinstance(inst.text, str)
    assert isinstance(inst.reads | inst.writes, frozenset)
