"""Branches, divergence of waves and lanes, loops, barriers, early ends: what runs, in which order, how often."""

from __future__ import annotations

import numpy as np
from support.kernels import lane_program, run
from support.llvm_mc import require_llvm

from mockgpu.machine.control import SPECIAL
from mockgpu.machine.control_names import SPECIAL_NAMES

require_llvm()


def test_every_lane_of_every_workgroup_runs_once() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      s_lshl_b32 s5, s2, 6
      v_add_nc_u32 v0, s5, v0
      v_lshlrev_b32 v1, 2, v0
      v_mov_b32 v2, 1
      global_atomic_add_u32 v1, v2, s[0:1]
    """
    ran = run(program, grid=40, block=64)
    assert (ran.words[: 40 * 64] == 1).all()
    assert ran.stats.waves == 80


def test_work_item_ids_of_three_dimensions_are_packed() -> None:
    program = """
      v_and_b32 v2, 0x3ff, v0
      v_bfe_u32 v3, v0, 10, 10
      v_bfe_u32 v4, v0, 20, 10
      v_lshlrev_b32 v5, 3, v3
      v_lshlrev_b32 v6, 5, v4
      v_add3_u32 v5, v2, v5, v6
      v_lshlrev_b32 v5, 2, v5
      global_store_b32 v5, v0, s[0:1]
    """
    ran = run(program, block=(8, 4, 2))
    x, y, z = np.meshgrid(np.arange(8), np.arange(4), np.arange(2), indexing="ij")
    assert (ran.words[(x + 8 * y + 32 * z).ravel()] == (x | y << 10 | z << 20).ravel()).all()


def test_workgroup_ids_arrive_in_scalars_after_the_user_data() -> None:
    program = """
      s_lshl_b32 s5, s3, 2
      s_lshl_b32 s6, s4, 4
      s_add_u32 s5, s5, s6
      s_add_u32 s5, s5, s2
      s_lshl_b32 s6, s5, 2
      v_mov_b32 v1, s6
      v_mov_b32 v2, s5
      global_store_b32 v1, v2, s[0:1]
    """
    ran = run(program, grid=(4, 4, 3), block=1)
    assert (ran.words[:48] == np.arange(48)).all()


def test_loop_counts_differ_by_wave() -> None:
    """Wave w turns w + 1 times; each wave leaves the loop on its own."""
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_lshlrev_b32 v1, 2, v0
      v_readfirstlane_b32 s5, v0
      s_lshr_b32 s5, s5, 5
      s_mov_b32 s6, 0
    again:
      s_add_u32 s6, s6, 1
      s_sub_u32 s5, s5, 1
      s_cbranch_scc0 again
      v_mov_b32 v2, s6
      global_store_b32 v1, v2, s[0:1]
    """
    ran = run(program, block=256)
    assert (ran.words[:256] == np.arange(256) // 32 + 1).all()


def test_lanes_diverge_by_exec() -> None:
    program = lane_program("""
      v_mov_b32 v2, 7
      v_cmp_gt_u32 vcc_lo, 10, v0
      s_and_saveexec_b32 s5, vcc_lo
      v_mov_b32 v2, 5
      s_or_b32 exec_lo, exec_lo, s5
    """)
    assert (run(program).words[:32] == [5] * 10 + [7] * 22).all()


def test_branch_skips_when_no_lane_is_active() -> None:
    program = lane_program("""
      v_mov_b32 v2, 1
      v_cmp_gt_u32 vcc_lo, 0, v0
      s_and_saveexec_b32 s5, vcc_lo
      s_cbranch_execz over
      s_mov_b32 s6, 9
    over:
      s_mov_b32 exec_lo, s5
      v_add_nc_u32 v2, v2, s6
    """)
    assert (run("s_mov_b32 s6, 2\n" + program).words[:32] == 3).all()


def test_barrier_orders_lds_between_waves() -> None:
    """Every lane reads what a lane of another wave wrote before the barrier."""
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_lshlrev_b32 v1, 2, v0
      v_add_nc_u32 v2, 100, v0
      ds_store_b32 v1, v2
      s_waitcnt lgkmcnt(0)
      s_barrier
      v_xor_b32 v3, 0x1fc, v1
      ds_load_b32 v4, v3
      s_waitcnt lgkmcnt(0)
      global_store_b32 v1, v4, s[0:1]
    """
    ran = run(program, block=128, lds=512)
    assert (ran.words[:128] == 100 + (np.arange(128) ^ 127)).all()


def test_waves_that_ended_count_as_arrived() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_readfirstlane_b32 s5, v0
      s_cmp_lt_u32 s5, 64
      s_cbranch_scc1 stay
      s_endpgm
    stay:
      s_barrier
      v_lshlrev_b32 v1, 2, v0
      v_mov_b32 v2, 1
      global_store_b32 v1, v2, s[0:1]
    """
    ran = run(program, block=256)
    assert (ran.words[:64] == 1).all()
    assert not ran.words[64:256].any()


def test_a_wave_that_spins_lets_the_others_run() -> None:
    """Wave 0 waits, at a lower address, for a word that wave 1 stores."""
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_readfirstlane_b32 s5, v0
      v_mov_b32 v1, 0
      s_cmp_lg_u32 s5, 0
      s_cbranch_scc1 other
    spin:
      global_load_b32 v2, v1, s[0:1] glc
      s_waitcnt vmcnt(0)
      v_readfirstlane_b32 s6, v2
      s_cmp_eq_u32 s6, 0
      s_cbranch_scc1 spin
      v_mov_b32 v3, 2
      global_store_b32 v1, v3, s[0:1] offset:4
      s_endpgm
    other:
      v_mov_b32 v3, 1
      global_store_b32 v1, v3, s[0:1]
    """
    assert (run(program, block=64).words[:2] == [1, 2]).all()


def test_last_wave_is_partly_active() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_lshlrev_b32 v1, 2, v0
      s_mov_b32 s5, exec_lo
      s_mov_b32 exec_lo, -1
      v_mov_b32 v2, 0
      s_mov_b32 exec_lo, s5
      v_mov_b32 v2, s5
      global_store_b32 v1, v2, s[0:1]
    """
    ran = run(program, block=40)
    assert (ran.words[:32] == 0xFFFFFFFF).all()
    assert (ran.words[32:40] == 0xFF).all()
    assert not ran.words[40:64].any()


def test_wave64_masks_cover_two_registers() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_lshlrev_b32 v1, 2, v0
      v_mov_b32 v2, 1
      v_cmp_lt_u32 vcc, 40, v0
      s_and_saveexec_b64 s[6:7], vcc
      v_mov_b32 v2, 2
      s_mov_b64 exec, s[6:7]
      global_store_b32 v1, v2, s[0:1]
    """
    ran = run(program, block=64, wave_size=64)
    assert (ran.words[:64] == np.where(np.arange(64) > 40, 2, 1)).all()
    assert ran.stats.waves == 1


def test_call_and_return() -> None:
    program = lane_program("""
      v_mov_b32 v2, 1
      s_getpc_b64 s[6:7]
    here:
      s_add_u32 s6, s6, function-here
      s_addc_u32 s7, s7, 0
      s_swappc_b64 s[8:9], s[6:7]
      s_branch done
      s_nop 0
    function:
      v_add_nc_u32 v2, 41, v2
      s_setpc_b64 s[8:9]
    done:
    """)
    assert (run(program).words[:32] == 42).all()


def test_statistics_count_wave_instructions_by_class() -> None:
    ran = run("s_nop 0\nv_mov_b32 v1, 0\ns_mov_b32 s5, 1", block=64)
    assert ran.stats.by_class == {"control": 4, "valu": 2, "salu": 2}
    assert ran.stats.instructions == 8


def test_the_names_of_special_instructions_are_those_that_have_steps() -> None:
    assert set(SPECIAL) == SPECIAL_NAMES
