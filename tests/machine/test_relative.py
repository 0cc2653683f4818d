"""Registers chosen at run time: V_MOVREL*, V_SWAPREL, S_MOVREL*, the accumulation registers, and what lies outside."""

from __future__ import annotations

import numpy as np
import pytest
from support.lanes import run
from support.llvm_mc import require_llvm

require_llvm()

RDNA = ("gfx1100", "gfx1201")
NUMBERED = {n: np.full(64, 1000 + n, np.uint32) for n in range(40)}


@pytest.mark.parametrize("arch", RDNA)
@pytest.mark.parametrize(
    ("text", "m0", "target", "value"),
    [
        ("v_movrels_b32 v30, v2", 5, 30, 1007),
        ("v_movreld_b32 v20, v2", 5, 25, 1002),
        ("v_movrelsd_b32 v20, v2", 5, 25, 1007),
        ("v_movrelsd_2_b32 v20, v2", 7 << 16 | 3, 27, 1005),
    ],
)
def test_vector_moves(arch: str, text: str, m0: int, target: int, value: int) -> None:
    ran = run(arch, f"s_mov_b32 m0, {m0:#x}\n {text}", vectors=NUMBERED)
    assert (ran.words(target) == value).all()


@pytest.mark.parametrize("arch", RDNA)
def test_a_relative_swap(arch: str) -> None:
    ran = run(arch, f"s_mov_b32 m0, {4 << 16 | 2:#x}\n v_swaprel_b32 v10, v20", vectors=NUMBERED)
    assert (ran.words(14) == 1022).all()
    assert (ran.words(22) == 1014).all()


@pytest.mark.parametrize("arch", RDNA)
def test_inactive_lanes_keep_their_values(arch: str) -> None:
    lanes = np.arange(64) % 3 == 0
    ran = run(arch, "s_mov_b32 m0, 5\n v_movreld_b32 v20, v2", vectors=NUMBERED, lanes=lanes)
    assert (ran.words(25) == np.where(lanes, 1002, 1025)).all()


@pytest.mark.parametrize("arch", RDNA)
def test_vector_registers_out_of_range(arch: str) -> None:
    """A source reads v0, a destination is not written."""
    read = run(arch, "s_mov_b32 m0, 0x1000\n v_movrels_b32 v30, v2", vectors=NUMBERED)
    assert (read.words(30) == 1000).all()
    written = run(arch, "s_mov_b32 m0, 0x1000\n v_movreld_b32 v20, v2", vectors=NUMBERED)
    assert all((written.words(n) == 1000 + n).all() for n in range(40))


@pytest.mark.parametrize("arch", (*RDNA, "gfx942"))
def test_scalar_moves(arch: str) -> None:
    scalars = {n: 2000 + n for n in range(2, 20)}
    text = """
      s_mov_b32 m0, 4
      s_movrels_b32 s30, s3
      s_movreld_b32 s40, s5
      s_movrels_b64 s[32:33], s[6:7]
      s_movreld_b64 s[50:51], s[8:9]
    """
    ran = run(arch, text, scalars=scalars)
    assert [int(ran.scalar(n)[0]) for n in (30, 44, 32, 33, 54, 55)] == [2007, 2005, 2010, 2011, 2008, 2009]


def test_two_scalar_offsets() -> None:
    text = f"s_mov_b32 m0, {6 << 16 | 2:#x}\n s_movrelsd_2_b32 s20, s3"
    assert run("gfx1100", text, scalars={5: 77}).scalar(26)[0] == 77


@pytest.mark.parametrize(("arch", "value"), [("gfx1201", 0), ("gfx942", 55)])
def test_scalar_registers_out_of_range(arch: str, value: int) -> None:
    """RDNA4 reads 0, CDNA the first register; a destination is ignored."""
    ran = run(arch, "s_movk_i32 m0, 0x3e8\n s_movrels_b32 s30, s3\n s_movreld_b32 s40, s3", scalars={0: 55, 3: 9})
    assert ran.scalar(30)[0] == value


# -- accumulation registers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_accumulation_registers_are_apart(arch: str) -> None:
    text = """
      v_accvgpr_write_b32 a2, v3
      v_accvgpr_mov_b32 a7, a2
      v_mov_b32 v2, 5
      v_accvgpr_read_b32 v10, a7
      v_accvgpr_write_b32 a8, 9
      v_accvgpr_read_b32 v11, a8
    """
    ran = run(arch, text, vectors=NUMBERED)
    assert (ran.words(10) == 1003).all()
    assert (ran.words(11) == 9).all()
    assert (ran.words(256 + 2) == 1003).all()
