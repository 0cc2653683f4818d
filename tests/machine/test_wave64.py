"""wave64 on RDNA: masks of 64 bits, both halves of the lanes in every format, what exists in one wave size only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.kernels import Block
from support.lanes import Run
from support.lanes import run as run_lanes
from support.llvm_mc import require_llvm

from mockgpu.isa.arch import get_arch
from mockgpu.isa.canonical import canonical, table_opcodes
from mockgpu.isa.errors import MockGPUError
from mockgpu.isa.opcode import Opcode
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.execute import build_step
from mockgpu.machine.memory import Memory

require_llvm()

RDNA = ("gfx1100", "gfx1201")
IDS = np.arange(64, dtype=np.uint32)
ALL = (1 << 64) - 1


def run(arch: str, text: str, **options: Any) -> Run:
    return run_lanes(arch, text, wave_size=64, **options)


def renamed(arch: str, text: str) -> str:
    """RDNA3 names in RDNA4's assembler."""
    return text.replace("s_waitcnt lgkmcnt(0)", "s_wait_dscnt 0") if arch == "gfx1201" else text


@pytest.mark.parametrize("arch", RDNA)
def test_compares_and_conditions_use_64_bits(arch: str) -> None:
    text = """
      v_cmp_lt_u32 vcc, v2, v3
      v_cndmask_b32 v10, 1, v2, vcc
      v_cmp_gt_u32_e64 s[4:5], v2, v3
      v_cndmask_b32_e64 v11, 1, v2, s[4:5]
    """
    ran = run(arch, text, vectors={2: IDS, 3: np.full(64, 40, np.uint32)})
    assert (ran.words(10) == np.where(IDS < 40, IDS, 1)).all()
    assert (ran.words(11) == np.where(IDS > 40, IDS, 1)).all()
    assert int(ran.pair(106)[0]) == (1 << 40) - 1
    assert int(ran.pair(4)[0]) == ALL & ~((1 << 41) - 1)


@pytest.mark.parametrize("arch", RDNA)
def test_inactive_lanes_of_a_compare_give_zero_in_both_halves(arch: str) -> None:
    ran = run(arch, "s_mov_b64 vcc, -1\n v_cmp_eq_u32 vcc, v2, v2", vectors={2: IDS}, lanes=IDS % 2 == 1)
    assert int(ran.pair(106)[0]) == 0xAAAAAAAA_AAAAAAAA


@pytest.mark.parametrize("arch", RDNA)
def test_cmpx_writes_all_of_exec(arch: str) -> None:
    ran = run(arch, "v_cmpx_le_u32 v3, v2\n v_mov_b32 v10, 7", vectors={2: IDS, 3: IDS * 0 + 33, 10: IDS * 0})
    assert (ran.words(10) == np.where(IDS >= 33, 7, 0)).all()
    assert int(ran.pair(126)[0]) == ALL & ~((1 << 33) - 1)


@pytest.mark.parametrize("arch", RDNA)
def test_carries_are_masks_of_64_bits(arch: str) -> None:
    big = np.where(IDS >= 32, 0xFFFFFFFF, 0).astype(np.uint32)
    text = """
      v_add_co_u32 v10, vcc, v2, v3
      v_add_co_ci_u32 v11, vcc, v4, v4, vcc
      v_mad_u64_u32 v[12:13], s[4:5], v2, v3, v[6:7]
    """
    top = np.full(64, ALL, np.uint64)
    ran = run(arch, text, vectors={2: big, 3: IDS * 0 + 1, 4: IDS * 0, 6: top})
    assert (ran.words(11) == (IDS >= 32)).all()
    assert int(ran.pair(4)[0]) == 0xFFFFFFFF_00000000


@pytest.mark.parametrize("arch", RDNA)
def test_branches_look_at_both_halves(arch: str) -> None:
    text = """
      s_mov_b64 vcc, s[10:11]
      s_cbranch_vccz zero
      s_mov_b32 s4, 1
    zero:
      s_mov_b64 exec, s[12:13]
      s_cbranch_execz none
      s_mov_b32 s5, 1
    none:
    """
    for low, high in ((0, 0), (1, 0), (0, 1)):
        ran = run(arch, text, scalars={4: 0, 5: 0, 10: low, 11: high, 12: low, 13: high}, vectors={2: IDS})
        assert [int(ran.scalar(n)[0]) for n in (4, 5)] == [int(bool(low | high))] * 2


@pytest.mark.parametrize("arch", RDNA)
def test_lane_reads_and_writes_reach_the_upper_half(arch: str) -> None:
    text = """
      s_movk_i32 s6, 0x65
      v_readlane_b32 s4, v2, 45
      v_readlane_b32 s5, v2, s6
      v_writelane_b32 v10, s4, 63
      s_mov_b64 exec, s[8:9]
      v_readfirstlane_b32 s7, v2
    """
    ran = run(arch, text, vectors={2: IDS + 100, 10: IDS * 0}, scalars={8: 0, 9: 1 << 20})
    assert [int(ran.scalar(n)[0]) for n in (4, 5, 7)] == [145, 100 + 0x25, 152]
    assert ran.words(10)[63] == 145


@pytest.mark.parametrize("arch", RDNA)
def test_dpp_stays_in_rows_of_both_halves(arch: str) -> None:
    text = """
      v_mov_b32_dpp v10, v2 row_ror:4 row_mask:0xf bank_mask:0xf
      v_mov_b32_dpp v11, v2 quad_perm:[3,2,1,0] row_mask:0x8 bank_mask:0xf
      v_mov_b32_dpp v12, v2 dpp8:[7,6,5,4,3,2,1,0]
    """
    ran = run(arch, text, vectors={2: IDS, 11: IDS * 0})
    assert (ran.words(10) == (IDS & ~np.uint32(15)) + ((IDS - 4) & 15)).all()
    assert (ran.words(11) == np.where(IDS >= 48, IDS ^ 3, 0)).all()
    assert (ran.words(12) == IDS ^ 7).all()


@pytest.mark.parametrize("arch", RDNA)
def test_permlane64_swaps_the_halves_and_does_nothing_in_wave32(arch: str) -> None:
    assert (run(arch, "v_permlane64_b32 v10, v2", vectors={2: IDS}).words(10) == IDS ^ 32).all()
    narrow = run_lanes(arch, "v_permlane64_b32 v10, v2", vectors={2: IDS, 10: IDS * 0 + 5})
    assert (narrow.words(10) == 5).all()


@pytest.mark.parametrize("arch", RDNA)
def test_permlane16_and_permlanex16_stay_in_32_lanes(arch: str) -> None:
    text = "v_permlane16_b32 v10, v2, s4, s5\n v_permlanex16_b32 v11, v2, s4, s5"
    ran = run(arch, text, vectors={2: IDS}, scalars={4: 0x76543210, 5: 0xFEDCBA98})
    assert (ran.words(10) == IDS).all()
    assert (ran.words(11) == IDS ^ 16).all()


@pytest.mark.parametrize("arch", RDNA)
def test_counting_active_lanes(arch: str) -> None:
    text = "v_mbcnt_lo_u32_b32 v10, -1, 0\n v_mbcnt_hi_u32_b32 v10, -1, v10"
    assert (run(arch, text, vectors={2: IDS}).words(10) == IDS).all()


@pytest.mark.parametrize("arch", RDNA)
def test_three_operands_packed_and_wide(arch: str) -> None:
    wide = IDS.astype(np.uint64) << np.uint64(33) | np.uint64(7)
    text = """
      v_fma_f32 v10, v2, v2, v2
      v_pk_add_u16 v11, v4, v4
      v_lshlrev_b64 v[12:13], 1, v[6:7]
    """
    floats = IDS.astype(np.float32)
    ran = run(arch, text, vectors={2: floats.view(np.uint32), 4: IDS | IDS << 16, 6: wide})
    assert (ran.words(10).view(np.float32) == floats * floats + floats).all()
    assert (ran.words(11) == 2 * (IDS | IDS << 16)).all()
    assert (ran.pairs(12) == wide << np.uint64(1)).all()


@pytest.mark.parametrize("arch", RDNA)
def test_memory_serves_64_lanes(arch: str) -> None:
    memory = Memory()
    block = Block(memory, 4096)
    text = renamed(
        arch,
        """
      v_lshlrev_b32 v5, 2, v2
      ds_store_b32 v5, v2
      s_waitcnt lgkmcnt(0)
      v_xor_b32 v6, 0xfc, v5
      ds_load_b32 v7, v6
      s_waitcnt lgkmcnt(0)
      global_store_b32 v5, v7, s[4:5]
    """,
    )
    scalars = {4: block.va & 0xFFFFFFFF, 5: block.va >> 32}
    run(arch, text, vectors={2: IDS}, scalars=scalars, memory=memory, lds=1024)
    assert (block.bytes[:256].view(np.uint32) == 63 - IDS).all()


@pytest.mark.parametrize("arch", RDNA)
def test_saveexec_handles_64_bits(arch: str) -> None:
    text = "s_and_saveexec_b64 s[4:5], s[6:7]\n v_mov_b32 v10, 1\n s_or_b64 exec, exec, s[4:5]\n v_mov_b32 v11, 2"
    ran = run(arch, text, vectors={2: IDS, 10: IDS * 0}, scalars={6: 0, 7: 0xF})
    assert (ran.words(10) == ((IDS >= 32) & (IDS < 36))).all()
    assert (ran.words(11) == 2).all()


@pytest.mark.parametrize("arch", RDNA)
def test_dual_issue_is_illegal(arch: str) -> None:
    record = get_arch(arch)
    for opcode in table_opcodes(record):
        if opcode.format == "VOPD":
            with pytest.raises(IllegalInstruction, match="dual issue exists in wave32 only"):
                build_step(canonical(record, opcode), 64)


@pytest.mark.parametrize("arch", RDNA)
def test_every_opcode_builds_in_both_sizes_or_in_none(arch: str) -> None:
    record = get_arch(arch)

    def builds(opcode: Opcode, size: int) -> bool:
        try:
            build_step(canonical(record, opcode), size)
        except MockGPUError:
            return False
        return True

    differing = {o.format for o in table_opcodes(record) if builds(o, 32) != builds(o, 64)}
    assert differing == {"VOPD"}
