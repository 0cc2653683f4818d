"""Small RDNA4 kernels: where the workgroup's id arrives, and how a lane stores its result."""

from __future__ import annotations

from typing import Any

from support.kernels import Ran, run

ARCH = "gfx1201"


def wave_program(body: str, *, result: str = "s8") -> str:
    """A program in which s5 is the wave's number and whose waves store a scalar each, at its number in the grid.

    Workgroups have eight places.
    """
    return f"""
      v_and_b32 v0, 0x3ff, v0
      v_readfirstlane_b32 s5, v0
      s_lshr_b32 s5, s5, 5
      {body}
      s_lshl_b32 s6, ttmp9, 3
      s_add_co_u32 s6, s6, s5
      s_lshl_b32 s6, s6, 2
      v_mov_b32 v1, s6
      v_mov_b32 v2, {result}
      global_store_b32 v1, v2, s[0:1]
    """


def run_waves(body: str, *, waves: int, result: str = "s8", **options: Any) -> Ran:
    """Run ``body`` in workgroups of some waves of 32 lanes."""
    return run(wave_program(body, result=result), arch=ARCH, block=32 * waves, **options)
