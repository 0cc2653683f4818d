"""Split and named barriers of RDNA4: phases, early ends, states, what does not exist."""

from __future__ import annotations

import pytest
from support.kernels import run
from support.llvm_mc import require_llvm
from support.rdna4 import ARCH, run_waves

from mockgpu.machine.errors import Deadlock, IllegalInstruction

require_llvm()

# The assembler refuses forms that the manual reserves for later parts, so these are words.
INIT_M0, JOIN_M0, SIGNAL_M0, FIRST_M0 = (f".long {0xBE80007D | op << 8:#x}" for op in (81, 82, 78, 79))
LEAVE = ".long 0xbf950000"
PAIR = f"s_mov_b32 m0, 0x20003\n{INIT_M0}\n"


def state(number: int) -> str:
    """s_get_barrier_state s8, number."""
    return f".long {0xBE800000 | 80 << 8 | 8 << 16 | (128 + number if number >= 0 else 192 - number):#x}"


def test_lds_written_before_a_barrier_is_seen_after_it() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_lshlrev_b32 v1, 2, v0
      v_add_nc_u32 v2, 100, v0
      ds_store_b32 v1, v2
      s_wait_dscnt 0
      s_barrier_signal -1
      s_barrier_wait -1
      v_xor_b32 v3, 0x1fc, v1
      ds_load_b32 v4, v3
      s_wait_dscnt 0
      global_store_b32 v1, v4, s[0:1]
    """
    ran = run(program, arch=ARCH, block=128, lds=512)
    assert list(ran.words[:128]) == [100 + 127 - n for n in range(128)]


def test_a_wave_works_between_signal_and_wait() -> None:
    """Wave 0 signals, then counts for long; the others must not pass the second barrier before it signals again."""
    body = """
      v_mov_b32 v4, 0
      s_mov_b32 s8, 0
      s_barrier_signal -1
      s_cmp_lg_u32 s5, 0
      s_cbranch_scc1 both
      s_movk_i32 s9, 200
    again:
      s_sub_co_u32 s9, s9, 1
      s_cmp_lg_u32 s9, 0
      s_cbranch_scc1 again
      v_mov_b32 v5, 77
      ds_store_b32 v4, v5
    both:
      s_barrier_wait -1
      s_barrier_signal -1
      s_barrier_wait -1
      ds_load_b32 v6, v4
      v_readfirstlane_b32 s8, v6
    """
    assert list(run_waves(body, waves=4, lds=64).words[:4]) == [77] * 4


def test_a_wait_passes_at_once_when_its_phase_is_complete() -> None:
    """Wave 1 waits long after the others went on to signal the next phase: it must not wait for that one."""
    body = """
      s_barrier_signal -1
      s_cmp_eq_u32 s5, 1
      s_cbranch_scc1 late
      s_barrier_wait -1
      s_barrier_signal -1
      s_branch end
    late:
      s_movk_i32 s9, 100
    again:
      s_sub_co_u32 s9, s9, 1
      s_cmp_lg_u32 s9, 0
      s_cbranch_scc1 again
      s_barrier_wait -1
      s_barrier_signal -1
    end:
      s_barrier_wait -1
      s_mov_b32 s8, 5
    """
    assert list(run_waves(body, waves=3).words[:3]) == [5] * 3


def test_a_wave_that_ends_early_leaves_the_barrier() -> None:
    body = """
      s_cmp_lt_u32 s5, 2
      s_cbranch_scc0 stay
      s_endpgm
    stay:
      s_barrier_signal -1
      s_barrier_wait -1
      s_mov_b32 s8, 9
    """
    assert list(run_waves(body, waves=5).words[:5]) == [0, 0, 9, 9, 9]


def test_one_wave_is_the_first_of_each_phase() -> None:
    body = """
      s_barrier_signal_isfirst -1
      s_cselect_b32 s8, 1, 0
      s_barrier_wait -1
      s_barrier_signal_isfirst -1
      s_cselect_b32 s9, 16, 0
      s_add_co_u32 s8, s8, s9
      s_barrier_wait -1
    """
    words = run_waves(body, waves=6, grid=2).words
    for group in range(2):
        mine = list(words[8 * group : 8 * group + 6])
        assert sum(w & 1 for w in mine) == 1
        assert sum(w >> 4 for w in mine) == 1


def test_a_workgroup_of_one_wave_has_no_barrier() -> None:
    body = f"""
      s_barrier_signal -1
      s_barrier_wait -1
      s_cmp_eq_u32 0, 0
      s_barrier_signal_isfirst -1
      s_cselect_b32 s9, 1, 0
      {state(-1)}
      s_or_b32 s8, s8, s9
    """
    assert run_waves(body, waves=1).words[0] == 0


def test_the_state_counts_signals_and_members() -> None:
    body = f"""
      s_mov_b32 s8, 0
      s_cmp_lg_u32 s5, 2
      s_cbranch_scc1 over
      s_barrier_signal -1
      {state(-1)}
      s_branch done
    over:  // a wave that ends is no member any more: stay until anything has changed
      s_get_barrier_state s9, -1
      s_wait_kmcnt 0x0
      s_cmp_eq_u32 s9, 0x31
      s_cbranch_scc1 over
    done:
    """
    assert run_waves(body, waves=3).words[2] == 1 << 16 | 3 << 4 | 1
    assert run_waves(state(0), waves=3).words[0] == 0
    assert run_waves(state(7), waves=3).words[0] == 0


def test_barrier_zero_and_that_of_the_trap_handler_ignore_signals() -> None:
    body = "s_barrier_signal -2\n s_mov_b32 m0, 0\n s_cmp_eq_u32 0, 0\n" + FIRST_M0 + "\n s_cselect_b32 s8, 1, 4"
    assert run_waves(body, waves=2).words[0] == 4


def test_a_named_barrier_holds_the_waves_that_joined_it() -> None:
    """Waves 0 and 1 meet at barrier 3, twice; the others never come."""
    meet = f"{SIGNAL_M0}\n s_barrier_wait 3\n"
    body = f"""
      {PAIR}
      s_barrier_signal -1
      s_barrier_wait -1
      s_mov_b32 s8, 1
      s_cmp_gt_u32 s5, 1
      s_cbranch_scc1 over
      s_mov_b32 m0, 3
      {JOIN_M0}
      {meet}
      {meet}
      {state(3)}
    over:
    """
    assert list(run_waves(body, waves=4).words[:4]) == [2 << 4 | 1] * 2 + [1] * 2


def test_m0_can_change_the_members_of_a_named_barrier_when_it_signals() -> None:
    body = f"""
      {PAIR}
      s_barrier_signal -1
      s_barrier_wait -1
      s_mov_b32 m0, 0x10003
      {JOIN_M0}
      s_cmp_lg_u32 s5, 0
      s_cbranch_scc1 over
      {SIGNAL_M0}
    over:
      {state(3)}
    """
    assert run_waves(body, waves=2).words[0] == 1 << 4 | 1


def test_a_wave_that_leaves_a_named_barrier_completes_it_for_the_other() -> None:
    body = f"""
      {PAIR}
      s_mov_b32 m0, 3
      {JOIN_M0}
      s_barrier_signal -1
      s_barrier_wait -1
      s_cmp_eq_u32 s5, 0
      s_cbranch_scc1 leaves
      {SIGNAL_M0}
      s_barrier_wait 3
      {LEAVE}
      s_cselect_b32 s8, 1, 2
      s_branch over
    leaves:
      {LEAVE}
      s_cselect_b32 s8, 1, 2
    over:
    """
    assert list(run_waves(body, waves=2).words[:2]) == [2, 1]


def test_a_wait_for_a_named_barrier_without_joining_one_does_nothing() -> None:
    assert run_waves("s_barrier_wait 3\n s_mov_b32 s8, 6", waves=2).words[1] == 6


def test_a_barrier_without_initialisation_is_an_error() -> None:
    with pytest.raises(IllegalInstruction, match="barrier 5 was not initialised"):
        run_waves(f"s_mov_b32 m0, 5\n{SIGNAL_M0}", waves=2)


def test_barriers_that_do_not_exist_are_errors() -> None:
    with pytest.raises(IllegalInstruction, match="there is no barrier 20"):
        run_waves(f"s_mov_b32 m0, 20\n{SIGNAL_M0}", waves=2)
    with pytest.raises(IllegalInstruction, match="there is no barrier -3"):
        run_waves(f".long {0xBE800000 | 78 << 8 | 195:#x}", waves=2)
    with pytest.raises(IllegalInstruction, match="must be an inline constant or M0"):
        run_waves(f".long {0xBE800000 | 78 << 8 | 4:#x}", waves=2)
    with pytest.raises(IllegalInstruction, match="only named barriers can be joined"):
        run_waves(f".long {0xBE800000 | 82 << 8 | 193:#x}", waves=2)


def test_a_barrier_that_cannot_complete_is_a_deadlock() -> None:
    with pytest.raises(Deadlock, match="2 waves wait"):
        run_waves("s_barrier_wait -1", waves=2)
