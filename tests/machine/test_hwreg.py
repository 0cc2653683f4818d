"""Hardware registers by number on every family; MODE takes effect on the next instruction."""

from __future__ import annotations

import numpy as np
import pytest
from support.lanes import HSA_MODE, run
from support.llvm_mc import require_llvm

from mockgpu.isa.arch import get_arch
from mockgpu.isa.encoding import table_module
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.hwreg import NAMES, WRITABLE

require_llvm()

TARGETS = ("gfx1100", "gfx1201", "gfx942")
ONE = np.full(32, 0x3F800000, np.uint32)


def tables(target: str) -> str:
    return get_arch(target).tables


def getreg(target: str, number: int, **options: object) -> int:
    return int(run(target, f"s_getreg_b32 s0, hwreg({number})", **options).scalar(0)[0])  # type: ignore[arg-type]


@pytest.mark.parametrize("target", TARGETS)
def test_every_listed_register_can_be_read(target: str) -> None:
    for number in NAMES[tables(target)]:
        getreg(target, number)


@pytest.mark.parametrize("target", TARGETS)
def test_the_list_holds_what_the_tables_list(target: str) -> None:
    assert {m.value for m in table_module(tables(target), "enum").HWREG} <= NAMES[tables(target)].keys()


@pytest.mark.parametrize("target", TARGETS)
def test_a_register_that_does_not_exist_is_named(target: str) -> None:
    with pytest.raises(IllegalInstruction, match="there is no hardware register 50"):
        getreg(target, 50)
    with pytest.raises(IllegalInstruction, match="there is no hardware register 50"):
        run(target, "s_setreg_b32 hwreg(50), s0")


@pytest.mark.parametrize("target", TARGETS)
def test_writes_change_only_what_a_kernel_may_change(target: str) -> None:
    family = tables(target)
    for number, name in NAMES[family].items():
        before = getreg(target, number)
        text = f"s_mov_b32 s1, -1\n s_setreg_b32 hwreg({number}), s1\n s_getreg_b32 s0, hwreg({number})"
        allowed = WRITABLE[name][1][family] if name in WRITABLE else 0
        after = int(run(target, text).scalar(0)[0])
        if "CYCLES" not in name and not name.startswith("PC_"):
            assert after == before | allowed, name


@pytest.mark.parametrize("target", TARGETS)
def test_fields_are_read_and_written_by_offset_and_size(target: str) -> None:
    text = """
      s_mov_b32 s1, 0xff6
      s_setreg_b32 hwreg(HW_REG_MODE, 4, 3), s1
      s_getreg_b32 s2, hwreg(HW_REG_MODE, 4, 4)
      s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 0xd
      s_getreg_b32 s3, hwreg(HW_REG_MODE, 0, 4)
      s_getreg_b32 s4, hwreg(HW_REG_MODE)
    """
    if target == "gfx1201":
        text = text.replace("HW_REG_MODE", "HW_REG_WAVE_MODE")
    ran = run(target, text, mode=0xC0)
    assert [int(ran.scalar(n)[0]) for n in (2, 3, 4)] == [0xE, 1, 0xE1]


@pytest.mark.parametrize("target", TARGETS)
def test_rounding_changes_with_the_next_instruction(target: str) -> None:
    """1 + 2**-24: to nearest 1, upwards the next number, and back."""
    tiny = np.full(32, 0x33800000, np.uint32)
    text = """
      v_add_f32 v10, v2, v3
      s_setreg_imm32_b32 hwreg(1, 0, 4), 1
      v_add_f32 v11, v2, v3
      s_setreg_imm32_b32 hwreg(1, 0, 4), 0
      v_add_f32 v12, v2, v3
    """
    ran = run(target, text, vectors={2: ONE, 3: tiny})
    assert [int(ran.words(n)[0]) for n in (10, 11, 12)] == [0x3F800000, 0x3F800001, 0x3F800000]


@pytest.mark.parametrize("target", TARGETS)
def test_denormals_change_with_the_next_instruction(target: str) -> None:
    tiny = np.full(32, 0x00000400, np.uint32)
    text = """
      v_mul_f32 v10, v2, v3
      s_setreg_imm32_b32 hwreg(1, 4, 2), 3
      v_mul_f32 v11, v2, v3
    """
    ran = run(target, text, vectors={2: ONE, 3: tiny}, mode=HSA_MODE)
    assert [int(ran.words(n)[0]) for n in (10, 11)] == [0, 0x400]


@pytest.mark.parametrize("target", TARGETS)
def test_fp16_overflow_changes_with_the_next_instruction(target: str) -> None:
    big = np.full(32, 0x48000000, np.uint32)  # 2**17
    text = """
      v_cvt_f16_f32 v10, v2
      s_setreg_imm32_b32 hwreg(1, 23, 1), 1
      v_cvt_f16_f32 v11, v2
    """
    ran = run(target, text, vectors={2: big})
    assert [int(ran.words(n)[0]) & 0xFFFF for n in (10, 11)] == [0x7C00, 0x7BFF]


@pytest.mark.parametrize("target", ["gfx1100", "gfx942"])
def test_clamp_of_nan_follows_dx10_clamp(target: str) -> None:
    nan = np.full(32, 0x7FC00000, np.uint32)
    text = """
      v_add_f32_e64 v10, v2, v3 clamp
      s_setreg_imm32_b32 hwreg(1, 8, 1), 0
      v_add_f32_e64 v11, v2, v3 clamp
    """
    ran = run(target, text, vectors={2: nan, 3: ONE})
    assert int(ran.words(10)[0]) == 0
    assert int(ran.words(11)[0]) == 0x7FC00000


@pytest.mark.parametrize("target", ["gfx1100", "gfx942"])
def test_omod_follows_ieee(target: str) -> None:
    text = """
      v_mul_f32_e64 v10, v2, v2 mul:2
      s_setreg_imm32_b32 hwreg(1, 9, 1), 0
      v_mul_f32_e64 v11, v2, v2 mul:2
    """
    ran = run(target, text, vectors={2: ONE})
    assert [int(ran.words(n)[0]) for n in (10, 11)] == [0x3F800000, 0x40000000]


def test_scc_is_in_status_before_rdna4_and_in_state_priv_there() -> None:
    for target in ("gfx1100", "gfx942"):
        assert getreg(target, 2, scc=1) & 1
    assert not getreg("gfx1201", 2, scc=1) & 1
    assert getreg("gfx1201", 4, scc=1) == 1 << 9


def test_allocations() -> None:
    assert getreg("gfx1100", 5) >> 12 & 0xFF == 63
    assert getreg("gfx942", 5) >> 8 & 0x3F == 63
    assert getreg("gfx1100", 6, lds=4096) >> 12 & 0x1FF == 8


def test_waves_of_a_workgroup_have_different_ids() -> None:
    for target, number in (("gfx1100", 23), ("gfx1201", 23), ("gfx942", 4)):
        ids = run(target, f"s_getreg_b32 s0, hwreg({number})", waves=8).scalar(0)
        assert len(set(ids.tolist())) == 8


def test_round_and_denorm_mode() -> None:
    ran = run("gfx1100", "s_round_mode 0xb\n s_denorm_mode 0x6\n s_getreg_b32 s0, hwreg(HW_REG_MODE)", mode=HSA_MODE)
    assert int(ran.scalar(0)[0]) == HSA_MODE & ~0xFF | 0x6B
