"""Global, scalar, LDS, scratch and buffer memory: addresses, widths, atomics, ranges."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import lane_program, run
from support.llvm_mc import require_llvm

from mockgpu.machine.errors import MemoryViolation

require_llvm()

LANES = np.arange(32)


def test_load_widths_and_signs() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_mov_b32 v1, 0
      global_load_u8 v2, v1, s[0:1] offset:1
      global_load_i8 v3, v1, s[0:1] offset:1
      global_load_u16 v4, v1, s[0:1] offset:1
      global_load_i16 v5, v1, s[0:1] offset:2
      global_load_b96 v[6:8], v1, s[0:1] offset:4
      v_mov_b32 v9, 0xffff1234
      global_load_d16_hi_u8 v9, v1, s[0:1]
      s_waitcnt vmcnt(0)
      global_store_b128 v1, v[2:5], s[0:1] offset:64
      global_store_b96 v1, v[6:8], s[0:1] offset:80
      global_store_b32 v1, v9, s[0:1] offset:96
      global_store_b8 v1, v3, s[0:1] offset:101
      global_store_d16_hi_b16 v1, v5, s[0:1] offset:104
    """
    words = run(program, block=1, data=np.array([0x87658421, 11, 12, 13], np.uint32)).words
    assert [hex(w) for w in words[16:20]] == ["0x84", "0xffffff84", "0x6584", "0xffff8765"]
    assert list(words[20:23]) == [11, 12, 13]
    assert [hex(w) for w in words[24:27]] == ["0x211234", "0x8400", "0xffff"]


def test_negative_offsets_and_both_address_forms() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_lshlrev_b32 v1, 2, v0
      v_add_co_u32 v2, vcc_lo, s0, v1
      v_add_co_ci_u32 v3, null, s1, 0, vcc_lo
      global_load_b32 v4, v[2:3], off offset:256
      v_add_nc_u32 v5, 512, v1
      s_waitcnt vmcnt(0)
      global_store_b32 v5, v4, s[0:1] offset:-512
    """
    data = np.arange(128, dtype=np.uint32)
    assert (run(program, data=data).words[:32] == 64 + LANES).all()


def test_scalar_loads_take_immediate_and_register_offsets() -> None:
    program = """
      s_mov_b32 s5, 8
      s_load_b32 s6, s[0:1], s5 offset:0x4
      s_load_b128 s[8:11], s[0:1], 0x10
      s_add_u32 s0, s0, 0x200
      s_addc_u32 s1, s1, 0
      s_waitcnt lgkmcnt(0)
      v_mov_b32 v1, 0
      v_mov_b32 v2, s6
      v_mov_b32 v3, s11
      global_store_b64 v1, v[2:3], s[0:1]
    """
    words = run(program, block=1, data=np.arange(32, dtype=np.uint32)).words
    assert list(words[128:130]) == [3, 7]


def test_a_load_may_overwrite_its_own_address() -> None:
    program = """
      v_mov_b32 v2, s0
      v_mov_b32 v3, s1
      global_load_b64 v[2:3], v[2:3], off
      s_waitcnt vmcnt(0)
      v_mov_b32 v1, 0
      global_store_b64 v1, v[2:3], s[0:1] offset:16
    """
    assert list(run(program, block=1, data=np.array([5, 6], np.uint32)).words[4:6]) == [5, 6]


def test_atomics_on_one_address_add_up_and_return_distinct_values() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_lshlrev_b32 v1, 2, v0
      v_mov_b32 v2, 1
      v_mov_b32 v3, 0
      global_atomic_add_u32 v4, v3, v2, s[0:1] offset:1024 glc
      s_waitcnt vmcnt(0)
      global_store_b32 v1, v4, s[0:1]
    """
    ran = run(program, block=128)
    assert ran.words[256] == 128
    assert sorted(ran.words[:128]) == list(range(128))


def test_atomics_on_a_few_addresses() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_and_b32 v1, 3, v0
      v_lshlrev_b32 v1, 2, v1
      global_atomic_add_u32 v1, v0, s[0:1]
      global_atomic_max_u32 v1, v0, s[0:1] offset:64
    """
    ran = run(program, block=64)
    items = np.arange(64)
    assert list(ran.words[:4]) == [int(items[items % 4 == k].sum()) for k in range(4)]
    assert list(ran.words[16:20]) == [60, 61, 62, 63]


def test_compare_and_swap_succeeds_once() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_lshlrev_b32 v1, 2, v0
      v_mov_b32 v3, 0
      v_add_nc_u32 v4, 1, v0
      v_mov_b32 v5, 0
      global_atomic_cmpswap_b32 v6, v3, v[4:5], s[0:1] offset:1024 glc
      s_waitcnt vmcnt(0)
      global_store_b32 v1, v6, s[0:1]
    """
    ran = run(program)
    assert ran.words[256] == 1
    assert list(ran.words[:32]) == [0] + [1] * 31


def test_lds_atomic_on_the_same_address() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_mov_b32 v1, 0
      v_mov_b32 v2, 1
      ds_add_u32 v1, v2
      s_waitcnt lgkmcnt(0)
      s_barrier
      ds_load_b32 v3, v1
      s_waitcnt lgkmcnt(0)
      s_lshl_b32 s5, s2, 2
      v_mov_b32 v1, s5
      global_store_b32 v1, v3, s[0:1]
    """
    ran = run(program, grid=3, block=96, lds=64)
    assert list(ran.words[:4]) == [96, 96, 96, 0]


def test_lds_two_addresses_count_elements() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_mov_b32 v1, 0
      v_mov_b32 v2, 1
      v_mov_b32 v3, 2
      v_mov_b32 v4, 3
      v_mov_b32 v5, 4
      ds_store_2addr_b64 v1, v[2:3], v[4:5] offset0:1 offset1:3
      ds_store_2addr_stride64_b32 v1, v2, v5 offset0:1 offset1:2
      v_mov_b32 v1, 8
      ds_load_2addr_b32 v[6:7], v1 offset0:0 offset1:5
      v_mov_b32 v1, 0
      ds_load_2addr_stride64_b32 v[8:9], v1 offset0:1 offset1:2
      s_waitcnt lgkmcnt(0)
      global_store_b128 v1, v[6:9], s[0:1]
    """
    assert list(run(program, block=1, lds=1024).words[:4]) == [1, 4, 1, 4]


def test_lds_out_of_range_loads_zero_and_drops_stores() -> None:
    """64 bytes are asked for, and a whole block of 1024 is allocated."""
    program = """
      v_mov_b32 v1, 1020
      v_mov_b32 v2, 7
      v_mov_b32 v3, 8
      ds_store_b32 v1, v2
      ds_store_b32 v1, v3 offset:4
      ds_load_b64 v[4:5], v1
      s_waitcnt lgkmcnt(0)
      v_mov_b32 v1, 0
      global_store_b64 v1, v[4:5], s[0:1]
    """
    assert list(run(program, block=1, lds=64).words[:2]) == [7, 0]


def test_lds_atomic_out_of_range_is_a_violation() -> None:
    with pytest.raises(MemoryViolation, match="LDS atomic at 0x400 outside the 1024 bytes"):
        run("v_mov_b32 v1, 1024\n v_mov_b32 v2, 1\n ds_add_u32 v1, v2", block=1, lds=64)


def test_scratch_is_private_to_each_lane() -> None:
    program = lane_program("""
      scratch_store_b32 off, v0, off offset:4
      v_add_nc_u32 v3, 1, v0
      scratch_store_b32 off, v3, off offset:8
      v_mov_b32 v4, 4
      scratch_load_b64 v[5:6], v4, off
      s_waitcnt vmcnt(0)
      v_mul_lo_u32 v2, v5, v6
    """)
    items = np.arange(64)
    assert (run(program, block=64, scratch=64).words[:64] == items * (items + 1)).all()


def test_scratch_is_interleaved_by_dword() -> None:
    """Dword d of lane l lies at (d * 32 + l) * 4 of the wave's part."""
    program = """
      v_and_b32 v0, 0x3ff, v0
      scratch_store_b32 off, v0, off offset:4
      s_getreg_b32 s6, hwreg(HW_REG_FLAT_SCR_LO)
      s_getreg_b32 s7, hwreg(HW_REG_FLAT_SCR_HI)
      v_lshlrev_b32 v1, 2, v0
      global_load_b32 v2, v1, s[6:7] offset:128
      s_waitcnt vmcnt(0)
      global_store_b32 v1, v2, s[0:1]
    """
    assert (run(program, scratch=64).words[:32] == LANES).all()


def test_scratch_beyond_the_lane_is_a_violation() -> None:
    with pytest.raises(MemoryViolation, match="scratch offset 0x40"):
        run("v_mov_b32 v1, 64\n scratch_store_b32 v1, v1, off", scratch=64)


def test_flat_reaches_lds_and_scratch_through_apertures() -> None:
    program = lane_program("""
      s_mov_b64 s[6:7], src_shared_base
      s_mov_b64 s[8:9], src_private_base
      ds_store_b32 v1, v0
      v_mov_b32 v3, 5
      scratch_store_b32 off, v3, off offset:16
      v_mov_b32 v4, v1
      v_mov_b32 v5, s7
      flat_load_b32 v6, v[4:5]
      v_mov_b32 v4, 16
      v_mov_b32 v5, s9
      flat_load_b32 v7, v[4:5]
      s_waitcnt vmcnt(0) lgkmcnt(0)
      v_add_nc_u32 v2, v6, v7
    """)
    assert (run(program, lds=128, scratch=32).words[:32] == LANES + 5).all()


def test_buffer_loads_are_checked_against_the_descriptor() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_lshlrev_b32 v1, 2, v0
      s_mov_b32 s8, s0
      s_mov_b32 s9, s1
      s_mov_b32 s10, 64
      s_mov_b32 s11, 0x31004000
      buffer_load_b32 v2, v1, s[8:11], 0 offen
      s_waitcnt vmcnt(0)
      v_add_nc_u32 v2, 1, v2
      global_store_b32 v1, v2, s[0:1] offset:1024
      buffer_store_b32 v2, v1, s[8:11], 0 offen offset:32
    """
    words = run(program, data=np.arange(100, 164, dtype=np.uint32)).words
    assert list(words[256:288]) == [101 + n for n in range(16)] + [1] * 16
    assert list(words[8:16]) == [101 + n for n in range(8)]
    assert words[16] == 116


def test_lanes_that_are_off_touch_no_memory() -> None:
    program = """
      v_mov_b32 v2, 0
      v_mov_b32 v3, 0
      s_mov_b32 exec_lo, 0
      global_load_b32 v4, v[2:3], off
      global_store_b32 v[2:3], v4, off
      scratch_store_b32 v2, v4, off offset:-4
    """
    run(program)


@pytest.mark.parametrize("offset", ["0x8055", "0x041f", "0x7c00", "0xc0a0", "0xe000"])
def test_swizzle_patterns(offset: str) -> None:
    """Every pattern is a function of the lane number alone."""
    program = lane_program(f"ds_swizzle_b32 v2, v0 offset:{offset}")
    number = int(offset, 16)
    lane = LANES
    reverse = np.array([int(f"{n:05b}"[::-1], 2) for n in lane])
    expected = {
        0x8055: (lane & ~3) + 1,  # quad_perm 1,1,1,1
        0x041F: lane ^ 1,  # swap neighbours
        0x7C00: np.full(32, 31),  # lane 0 with all bits flipped
        0xC0A0: (lane - 5) % 32,  # rotate left by 5
        0xE000: reverse,  # bit reversal
    }[number]
    words = run(program).words[:32]
    assert sorted(set(words)) == sorted(set(expected))
    if number != 0xC0A0:
        assert (words == expected).all()


def test_permutes_move_data_between_lanes() -> None:
    program = lane_program("""
      v_sub_nc_u32 v3, 31, v0
      v_lshlrev_b32 v3, 2, v3
      ds_bpermute_b32 v2, v3, v0
      ds_permute_b32 v4, v3, v0
      s_waitcnt lgkmcnt(0)
      v_lshl_or_b32 v2, v4, 8, v2
    """)
    assert (run(program).words[:32] == 31 - LANES | (31 - LANES) << 8).all()
