"""Native code follows the bytes in memory: between launches, and inside one after S_ICACHE_INV."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import Block
from support.llvm_mc import assemble

from mockgpu.isa.arch import get_arch
from mockgpu.machine.launch import Launch
from mockgpu.machine.memory import Memory
from mockgpu.machine.native.engine import NativeEngine

STORE = """
  v_mov_b32 v1, 0
  s_mov_b32 s5, {high}
  s_mov_b32 s4, {low}
{body}
  global_store_b32 v1, v2, s[4:5]
  s_endpgm
"""


def launch(entry: int) -> Launch:
    """One wave at ``entry``, with 8 registers."""
    return Launch(entry, (1, 1, 1), (32, 1, 1))


def text(body: str, out: Block) -> bytes:
    return assemble(STORE.format(body=body, high=out.va >> 32, low=out.va & 0xFFFFFFFF), "gfx1100")


@pytest.mark.parametrize("when", ["never", "first"])
def test_a_kernel_that_is_overwritten_is_decoded_again(when: str) -> None:
    engine = NativeEngine(get_arch("gfx1100"), when=when)  # type: ignore[arg-type]
    memory = Memory()
    program, out = Block(memory, 4096), Block(memory, 4096)
    for value in (1, 2, 1, 3):
        code = text(f"  v_mov_b32 v2, {value}", out)
        program.bytes[: len(code)] = np.frombuffer(code, np.uint8)
        engine.run(launch(entry=program.va), memory, timeout=10.0)
        assert out.bytes.view(np.uint32)[0] == value


@pytest.mark.parametrize("when", ["never", "first"])
def test_a_kernel_that_overwrites_itself_runs_the_new_code_after_s_icache_inv(when: str) -> None:
    engine = NativeEngine(get_arch("gfx1100"), when=when)  # type: ignore[arg-type]
    memory = Memory()
    program, out = Block(memory, 4096), Block(memory, 4096)
    new = int.from_bytes(assemble("v_mov_b32 v2, 9", "gfx1100"), "little")
    body = f"""
      s_mov_b64 s[8:9], exec
      s_getpc_b64 s[6:7]
    here:
      s_add_u32 s6, s6, patched-here
      s_addc_u32 s7, s7, 0
      v_mov_b32 v3, {new:#x}
      global_store_b32 v1, v3, s[6:7]
      s_waitcnt_vscnt null, 0x0
      s_icache_inv
    patched:
      v_mov_b32 v2, 7
    """
    code = text(body, out)
    program.bytes[: len(code)] = np.frombuffer(code, np.uint8)
    engine.run(launch(entry=program.va), memory, timeout=10.0)
    assert out.bytes.view(np.uint32)[0] == 9
