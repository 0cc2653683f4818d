"""Sub-dword addressing on CDNA: parts of sources, sign extension, where a result goes and what happens to the rest."""

from __future__ import annotations

import pytest
from support.kernels import run
from support.llvm_mc import require_llvm

require_llvm()

PARTS = "v_mov_b32 v3, 0x84838281\n v_mov_b32 v4, 1\n v_mov_b32 v2, 0xdeadbeef\n v_mov_b32 v1, 0\n"


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("v_mov_b32_sdwa v2, v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2", 0x83),
        ("v_mov_b32_sdwa v2, sext(v3) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2", 0xFFFFFF83),
        ("v_mov_b32_sdwa v2, v3 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_3", 0xDEAD84EF),
        ("v_mov_b32_sdwa v2, v3 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_0", 0x82810000),
        ("v_mov_b32_sdwa v2, v3 dst_sel:BYTE_0 dst_unused:UNUSED_SEXT src0_sel:BYTE_0", 0xFFFFFF81),
        ("v_add_u32_sdwa v2, v3, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:BYTE_0", 0x8484),
    ],
)
def test_parts_of_registers(instruction: str, expected: int) -> None:
    program = f"{PARTS} {instruction}\n global_store_dword v1, v2, s[0:1]"
    assert run(program, arch="gfx942", block=1, wave_size=64).words[0] == expected
