"""What MODE does to CDNA's vector instructions, and branches that fork: indexing, skipping, fork and join."""

from __future__ import annotations

import numpy as np
import pytest
from support.lanes import HSA_MODE, run
from support.llvm_mc import require_llvm

require_llvm()

ARCH = "gfx942"
GPR_IDX_EN, VSKIP = 1 << 27, 1 << 28
REGISTERS = {n: np.full(128, 1000 + n, np.uint32) for n in range(20)}


def after(text: str, **options: object):  # type: ignore[no-untyped-def]
    return run(ARCH, text, vectors=REGISTERS, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("enables", "source", "target"),
    [("SRC0", 1007, 10), ("DST", 1002, 15), ("SRC0,DST", 1007, 15), ("", 1002, 10)],
)
def test_the_index_moves_the_chosen_operands(enables: str, source: int, target: int) -> None:
    ran = after(f"s_mov_b32 s0, 5\n s_set_gpr_idx_on s0, gpr_idx({enables})\n v_mov_b32 v10, v2\n s_set_gpr_idx_off")
    assert (ran.words(target) == source).all()
    assert (ran.batch.mode == HSA_MODE).all()


def test_every_source_has_its_own_enable() -> None:
    text = "s_set_gpr_idx_on s0, gpr_idx({})\n v_add3_u32 v30, v1, v2, v3\n s_set_gpr_idx_off"
    for enables, total in (("SRC0", 3010), ("SRC1", 3010), ("SRC2", 3010), ("SRC0,SRC1,SRC2", 3018)):
        ran = after(text.format(enables), scalars={0: 4})
        assert (ran.words(30) == total).all()


def test_waves_may_have_different_indices() -> None:
    text = "s_set_gpr_idx_on s0, gpr_idx(SRC0)\n v_mov_b32 v30, v2\n v_cmp_lt_u32 vcc, v2, v0\n s_set_gpr_idx_off"
    ran = after(text, scalars={0: np.array([3, 9], np.uint32)})
    assert list(ran.words(30)) == [1005] * 64 + [1011] * 64


def test_a_compare_that_writes_exec_is_seen_at_once() -> None:
    text = """
      s_set_gpr_idx_on s0, gpr_idx(SRC1)
      v_cmpx_eq_u32 exec, v5, v3
      s_set_gpr_idx_off
      v_mov_b32 v30, 7
    """
    ran = after(text, scalars={0: np.array([2, 3], np.uint32)})
    assert list(ran.words(30) == 7) == [True] * 64 + [False] * 64


def test_the_index_and_the_enables_can_change_inside() -> None:
    text = """
      s_set_gpr_idx_on s0, gpr_idx(SRC0)
      s_set_gpr_idx_idx s1
      v_mov_b32 v30, v2
      s_set_gpr_idx_mode gpr_idx(DST)
      v_mov_b32 v31, v2
      s_set_gpr_idx_off
    """
    ran = after(text, scalars={0: 4, 1: 6})
    assert (ran.words(30) == 1008).all()
    assert (ran.words(37) == 1002).all()


def test_indices_out_of_range() -> None:
    text = "s_set_gpr_idx_on s0, gpr_idx({})\n v_mov_b32 v30, v200\n v_mov_b32 v18, 5\n s_set_gpr_idx_off"
    read = after(text.format("SRC0"), scalars={0: 100})
    assert (read.words(30) == 1000).all()
    written = after("s_set_gpr_idx_on s0, gpr_idx(DST)\n v_mov_b32 v200, 5\n s_set_gpr_idx_off", scalars={0: 100})
    assert not (written.batch.vgpr[:256] == 5).any()


def test_sdwa_and_dpp_are_indexed_too() -> None:
    text = """
      s_set_gpr_idx_on s0, gpr_idx(SRC0)
      v_mov_b32_sdwa v30, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0
      v_mov_b32_dpp v31, v2 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf
      s_set_gpr_idx_off
    """
    ran = after(text, scalars={0: 3})
    assert (ran.words(30) == (1005 & 0xFF)).all()
    assert (ran.words(31) == 1005).all()


def test_scalars_and_constants_are_not_indexed() -> None:
    text = "s_set_gpr_idx_on s0, gpr_idx(SRC0)\n v_mov_b32 v30, s0\n v_mov_b32 v31, 9\n s_set_gpr_idx_off"
    ran = after(text, scalars={0: 3})
    assert (ran.words(30) == 3).all()
    assert (ran.words(31) == 9).all()


def test_vskip_skips_vector_instructions_only() -> None:
    text = """
      s_setvskip s0, 4
      v_mov_b32 v2, 5
      s_mov_b32 s3, 8
      s_setvskip s0, 0
      v_mov_b32 v3, 6
    """
    ran = after(text, scalars={0: 1 << 4})
    assert (ran.words(2) == 1002).all()
    assert (ran.words(3) == 6).all()
    assert (ran.scalar(3) == 8).all()


# The assembler does not know these: S_CBRANCH_I_FORK s[40:41], +N dwords, and S_CBRANCH_JOIN s60.
def i_fork(dwords: int) -> str:
    return f".long {0xB0000000 | 16 << 23 | 40 << 16 | dwords:#x}"


JOIN = f".long {0xBE800000 | 46 << 8 | 60:#x}"
FORKED = f"""
  s_mov_b64 s[62:63], exec
  {i_fork(2)}
  v_mov_b32 v30, 1
  s_branch 1
  v_mov_b32 v30, 2
  {JOIN}
  s_mov_b64 s[64:65], exec
  s_mov_b64 exec, s[62:63]
  v_mov_b32 v31, 3
"""


@pytest.mark.parametrize("passing", [0, 0xFF, (1 << 60) - 1, (1 << 64) - 1])
def test_both_sides_of_a_fork_run_and_meet(passing: int) -> None:
    scalars = {40: passing & 0xFFFFFFFF, 41: passing >> 32, 60: 0}
    ran = run(
        ARCH, FORKED, waves=1, vectors={30: np.zeros(64, np.uint32), 31: np.zeros(64, np.uint32)}, scalars=scalars
    )
    assert list(ran.words(30)) == [2 if passing >> n & 1 else 1 for n in range(64)]
    assert (ran.words(31) == 3).all()
    assert (ran.batch.mode == HSA_MODE).all()
    last = passing if passing.bit_count() > 32 else ~passing  # the side with more lanes runs last, or alone
    assert int(ran.pair(64)[0]) == last & (1 << 64) - 1
