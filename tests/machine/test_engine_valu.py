"""Operands of vector instructions: constants, halves, modifiers, lane masks, DPP, dual issue, lane access."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import lane_program, run
from support.llvm_mc import require_llvm

require_llvm()

LANES = np.arange(32)


def words(body: str, **options: object) -> np.ndarray:
    """v2 of the 32 lanes after ``body``; v0 is the lane number."""
    return run(lane_program(body), **options).words[:32]  # type: ignore[arg-type]


def one(body: str) -> str:
    """v2 of lane 0, as hex."""
    return hex(words(body)[0])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("v_mov_b32 v2, 0.15915494", "0x3e22f983"),
        ("v_add_f16 v2, 1.0, v3", "0x3c00"),
        ("v_add_nc_u32 v2, -16, v3", "0xfffffff0"),
        ("v_mov_b32 v3, 0x10\n v_lshlrev_b64 v[2:3], 4, 1.0", "0x0"),
        ("v_add_f64 v[4:5], 0.15915494309189532, v[6:7]\n v_mov_b32 v2, v4", "0x6dc9c882"),
        ("v_add_f64 v[4:5], 0x40080000, v[6:7]\n v_mov_b32 v2, v5", "0x40080000"),
        ("v_pk_add_f16 v2, 1.0, v3 op_sel_hi:[0,1]", "0x3c003c00"),
        ("v_pk_add_f16 v2, 1.0, v3", "0x3c00"),
        ("v_add_nc_u16 v2, 1.0, v3", "0x0"),
    ],
)
def test_constants_take_the_width_of_the_operand(body: str, expected: str) -> None:
    assert one("v_mov_b32 v2, 0\n v_mov_b32 v3, 0\n v_mov_b32 v6, 0\n v_mov_b32 v7, 0\n" + body) == expected


def test_halves_of_registers_in_short_and_long_encodings() -> None:
    body = """
      v_mov_b32 v3, 0x40003c00
      v_mov_b32 v2, 0xdead0000
      v_add_f16 v2.l, v3.l, v3.h
      v_add_f16_e64 v2.h, v3.h, v3.h
    """
    assert one(body) == "0x44004200"


def test_source_and_result_modifiers() -> None:
    body = """
      v_mov_b32 v3, 3.0
      v_mov_b32 v4, 0xc0800000
      v_mul_f32 v2, -|v4|, v3 mul:2
    """
    ieee_off = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 9, 1), 0\n"
    denormals = "s_denorm_mode 0xf\n"
    assert one(ieee_off + body) == hex(int(np.float32(-24).view(np.uint32)))
    assert one(body) == one(ieee_off + denormals + body) == hex(int(np.float32(-12).view(np.uint32)))
    assert one(ieee_off + "v_mul_f32 v2, 0, -1.0 mul:4") == "0x0"


def test_clamp_of_floats_gives_positive_zero_for_nan_and_minus_zero() -> None:
    assert one("v_mov_b32 v3, 0x7fc00000\n v_add_f32 v2, v3, v3 clamp") == "0x0"
    assert one("v_mov_b32 v3, 0x80000000\n v_add_f32 v2, v3, v3 clamp") == "0x0"
    assert one("v_mov_b32 v3, 2.0\n v_add_f32 v2, v3, v3 clamp") == "0x3f800000"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("v_add_nc_u32 v2, v3, v3 clamp", 0xFFFFFFFF),
        ("v_sub_nc_u32 v2, 1, v3 clamp", 0),
        ("v_add_nc_i32 v2, v4, v4 clamp", 0x7FFFFFFF),
        ("v_sub_nc_i32 v2, v3, v4 clamp", 0x80000000),
        ("v_mad_u32_u24 v2, v5, v5, v3 clamp", 0xFFFFFFFF),
        ("v_pk_add_u16 v2, v6, v6 clamp", 0xFFFF0002),
        ("v_pk_sub_i16 v2, v7, v6 clamp", 0x80007FFE),
        ("v_dot4_i32_iu8 v2, v8, v8, v4 neg_lo:[0,0,0] clamp", 0x7FFFFFFF),
        ("v_add_co_u32 v2, vcc_lo, v3, v3 clamp", 0xFFFFFFFF),
    ],
)
def test_clamp_of_integers_saturates(body: str, expected: int) -> None:
    setup = """
      v_mov_b32 v3, 0x80000001
      v_mov_b32 v4, 0x7ffffff0
      v_mov_b32 v5, 0xffffff
      v_mov_b32 v6, 0x80000001
      v_mov_b32 v7, 0x80007fff
      v_mov_b32 v8, 0xffffffff
    """
    if "pk_sub" in body:
        setup = setup.replace("v_mov_b32 v6, 0x80000001", "v_mov_b32 v6, 0x7fff0001")
    assert words(setup + body)[0] == expected


def test_compares_clear_the_bits_of_inactive_lanes() -> None:
    body = """
      s_mov_b32 s5, -1
      s_mov_b32 exec_lo, 0xffff
      v_cmp_lt_u32 s5, 3, v0
      s_mov_b32 exec_lo, -1
      v_mov_b32 v2, s5
    """
    assert one(body) == "0xfff0"


def test_cmpx_writes_exec_alone() -> None:
    body = """
      s_mov_b32 vcc_lo, 5
      v_mov_b32 v2, 0
      v_cmpx_lt_u32 15, v0
      v_mov_b32 v2, vcc_lo
      s_mov_b32 exec_lo, -1
    """
    assert (words(body) == np.where(LANES > 15, 5, 0)).all()


def test_carry_chain_and_named_carry() -> None:
    body = """
      v_mov_b32 v3, -1
      v_add_co_u32 v4, s5, v3, v0
      v_add_co_ci_u32 v2, s6, 0, v0, s5
    """
    assert (words(body) == LANES + (LANES > 0)).all()


def test_condition_mask_from_any_scalar() -> None:
    assert (words("s_mov_b32 s9, 0xf0\n v_cndmask_b32 v2, 1, 2, s9") == np.where((0xF0 >> LANES) & 1, 2, 1)).all()


def test_dual_issue_reads_both_before_it_writes() -> None:
    body = """
      v_mov_b32 v4, 1.0
      v_mov_b32 v5, 2.0
      v_dual_mov_b32 v4, v5 :: v_dual_mov_b32 v5, v4
      v_mul_f32 v5, 4.0, v5
      v_add_f32 v2, v4, v5
    """
    assert one(body) == hex(int(np.float32(6).view(np.uint32)))


def test_swap() -> None:
    body = "v_mov_b32 v3, 7\n v_mov_b32 v4, 9\n v_swap_b32 v3, v4\n v_lshl_or_b32 v2, v3, 8, v4"
    assert one(body) == "0x907"


def test_lane_access_ignores_exec_and_wraps_the_lane() -> None:
    body = """
      v_mov_b32 v2, 0
      s_mov_b32 exec_lo, 2
      v_readlane_b32 s5, v0, 37
      v_readfirstlane_b32 s6, v0
      v_writelane_b32 v2, s5, 9
      s_mov_b32 exec_lo, 0
      v_readfirstlane_b32 s7, v0
      s_mov_b32 exec_lo, -1
      v_writelane_b32 v2, s6, 10
      v_writelane_b32 v2, s7, 11
    """
    expected = np.zeros(32, int)
    expected[9:11] = 5, 1
    assert (words(body) == expected).all()


def test_relative_moves_use_m0() -> None:
    body = """
      v_mov_b32 v7, 41
      s_mov_b32 m0, 3
      v_movrels_b32 v2, v4
      s_mov_b32 m0, 1
      v_movreld_b32 v8, v2
      v_mov_b32 v2, v9
    """
    assert one(body) == "0x29"


@pytest.mark.parametrize(
    ("control", "source"),
    [
        ("quad_perm:[3,2,1,0]", LANES ^ 3),
        ("row_ror:3", (LANES & ~15) + (LANES - 3) % 16),
        ("row_mirror", (LANES & ~15) + 15 - LANES % 16),
        ("row_half_mirror", (LANES & ~7) + 7 - LANES % 8),
        ("row_share:5", (LANES & ~15) + 5),
        ("row_xmask:6", LANES ^ 6),
    ],
)
def test_dpp_moves_inside_rows(control: str, source: np.ndarray) -> None:
    body = f"v_mov_b32 v2, 0\n v_mov_b32_dpp v2, v0 {control} row_mask:0xf bank_mask:0xf"
    assert (words(body) == source).all()


def test_dpp8() -> None:
    assert (words("v_mov_b32 v2, 0\n v_mov_b32_dpp v2, v0 dpp8:[7,6,5,4,3,2,1,0]") == (LANES ^ 7)).all()


def test_dpp_bound_control_and_masks() -> None:
    """Lanes without a source keep their value, or read zero; masks turn off rows and banks."""
    keep = "v_mov_b32 v2, 99\n v_mov_b32_dpp v2, v0 row_shr:1 row_mask:0xf bank_mask:0xf"
    at = LANES % 16
    assert (words(keep) == np.where(at == 0, 99, LANES - 1)).all()
    assert (words(keep + " bound_ctrl:1") == np.where(at == 0, 0, LANES - 1)).all()
    masked = "v_mov_b32 v2, 99\n v_mov_b32_dpp v2, v0 quad_perm:[0,1,2,3] row_mask:0x2 bank_mask:0x1"
    assert (words(masked) == np.where((LANES >= 16) & (at < 4), LANES, 99)).all()


def test_dpp_inactive_source_lanes() -> None:
    """A source lane that EXEC turns off is invalid unless FI is set."""
    body = """
      v_mov_b32 v2, 99
      s_mov_b32 exec_lo, 0x0000fffe
      v_mov_b32_dpp v2, v0 row_share:0 row_mask:0xf bank_mask:0xf {}
      s_mov_b32 exec_lo, -1
    """
    active = (0xFFFE >> LANES & 1).astype(bool)
    assert (words(body.format("")) == 99).all()
    assert (words(body.format("bound_ctrl:1")) == np.where(active, 0, 99)).all()
    assert (words(body.format("fi:1")) == np.where(active, 0, 99)).all()


def test_mode_governs_denormals_and_rounding() -> None:
    body = """
      v_mov_b32 v3, 0x00400000
      v_add_f32 v2, v3, v3
      s_denorm_mode 0xf
      v_add_f32 v4, v3, v3
      v_add_nc_u32 v2, v2, v4
    """
    assert one(body) == "0x800000"
    toward_zero = "v_mov_b32 v3, 0x3f800000\n v_mov_b32 v4, 0x33c00000\n s_round_mode 0x3\n v_add_f32 v2, v3, v4"
    assert one(toward_zero) == "0x3f800000"
    assert one(toward_zero.replace("s_round_mode 0x3", "s_round_mode 0x1")) == "0x3f800001"


def test_waves_with_different_modes_part() -> None:
    """Wave 1 rounds up, wave 0 to nearest even; both execute the same addition."""
    program = lane_program("""
      v_readfirstlane_b32 s5, v0
      s_cmp_eq_u32 s5, 0
      s_cbranch_scc1 go
      s_round_mode 0x1
    go:
      v_mov_b32 v3, 0x3f800000
      v_mov_b32 v4, 0x33000000
      v_add_f32 v2, v3, v4
    """)
    ran = run(program, block=64)
    assert (ran.words[:32] == 0x3F800000).all()
    assert (ran.words[32:64] == 0x3F800001).all()


def test_permlane_across_rows() -> None:
    body = "s_mov_b32 s5, 0x76543210\n s_mov_b32 s6, 0xfedcba98\n v_mov_b32 v2, 0\n v_permlanex16_b32 v2, v0, s5, s6"
    assert (words(body) == (LANES ^ 16)).all()


def test_mixed_precision_takes_halves_and_negates() -> None:
    body = """
      v_mov_b32 v3, 0x40004200
      v_mov_b32 v4, 2.0
      v_mov_b32 v5, 1.0
      v_fma_mix_f32 v2, v3, -v4, v5 op_sel:[1,0,0] op_sel_hi:[1,0,0]
    """
    assert one(body) == hex(int(np.float32(-3).view(np.uint32)))


def test_clamp_of_one_half_keeps_the_other() -> None:
    body = "v_mov_b32 v2, 0xdeadbeef\n v_mov_b32 v3, 4.0\n v_fma_mix{}_f16 v2, v3, v3, v3 clamp"
    assert one(body.format("lo")) == "0xdead3c00"
    assert one(body.format("hi")) == "0x3c00beef"


def test_matrix_product() -> None:
    """D = A B + C with A = lane row number in every column, B all ones, C = 1: row i gives 16 i + 1."""
    body = "\n".join(
        ["v_and_b32 v3, 15, v0", "v_cvt_f32_u32 v3, v3", "v_cvt_f16_f32 v3, v3", "v_pack_b32_f16 v3, v3, v3"]
        + [f"v_mov_b32 v{n}, v3" for n in range(8, 16)]
        + [f"v_mov_b32 v{n}, 0x3c003c00" for n in range(16, 24)]
        + [f"v_mov_b32 v{n}, 1.0" for n in range(24, 32)]
        + ["v_wmma_f32_16x16x16_f16 v[24:31], v[8:15], v[16:23], v[24:31]", "v_mov_b32 v2, v27"]
    )
    rows = 6 + (LANES >= 16)
    assert (run(lane_program(body)).floats()[:32] == 16 * rows + 1).all()


def test_registers_out_of_range_read_as_the_first_one() -> None:
    """s_movrel and v_movrel beyond the file: sources give VGPR 0, destinations are dropped."""
    body = "s_movk_i32 m0, 0x200\n v_movrels_b32 v2, v3\n v_movreld_b32 v4, v2"
    assert (words(body) == LANES).all()


def test_wave64_dpp_and_permlane64() -> None:
    program = lane_program("v_mov_b32 v2, 0\n v_permlane64_b32 v2, v0")
    ran = run(program, block=64, wave_size=64)
    assert (ran.words[:64] == np.arange(64) ^ 32).all()
