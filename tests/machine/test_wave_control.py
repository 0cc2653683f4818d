"""Instructions that end or stop waves, messages, dynamic vector registers, subvector loops."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import Block, engine
from support.lanes import Run, run
from support.llvm_mc import assemble, require_llvm

from mockgpu.machine.errors import GuestFault, IllegalInstruction, Trap
from mockgpu.machine.launch import Launch, LaunchStats
from mockgpu.machine.memory import Memory

require_llvm()


def launch(text: str, arch: str = "gfx1201", **changes: int) -> LaunchStats:
    memory = Memory()
    code = assemble(text + "\ns_endpgm\n", arch)
    program = Block(memory, len(code) + 256)
    program.bytes[: len(code)] = np.frombuffer(code, np.uint8)
    values = {"rsrc1": 3, "rsrc2": 0, "wave_size": 32} | changes
    return engine(arch).run(Launch(program.va, (1, 1, 1), (64, 1, 1), **values), memory, timeout=10.0)  # type: ignore[arg-type]


# -- ending and stopping ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s_trap 2", "s_trap 2"),
        ("s_sethalt 1", "halts for a debugger"),
        ("s_rfe_b64 s[0:1]", "privileged"),
        ("s_code_end", "past the end"),
        ("s_sendmsghalt sendmsg(MSG_INTERRUPT)", "halts"),
    ],
)
def test_a_wave_that_stops_itself_is_a_fault(text: str, message: str) -> None:
    with pytest.raises(Trap, match=message):
        run("gfx1100", text)


def test_halt_and_kill_of_zero_do_nothing() -> None:
    ran = run("gfx1100", "s_sethalt 0\n s_setkill 0\n s_mov_b32 s0, 7")
    assert ran.scalar(0)[0] == 7


def test_kill_of_one_ends_the_wave() -> None:
    ran = run("gfx1100", "s_mov_b32 s0, 1\n s_setkill 1\n s_mov_b32 s0, 7")
    assert ran.scalar(0)[0] == 1


# -- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201", "gfx942"])
def test_interrupts_carry_m0(arch: str) -> None:
    size = 64 if arch == "gfx942" else 32
    stats = launch("s_mov_b32 m0, 0x1234\n s_sendmsg sendmsg(MSG_INTERRUPT)", arch, wave_size=size)
    assert stats.interrupts == [0x1234] * (64 // size)


def test_messages_of_other_shaders_are_errors() -> None:
    with pytest.raises(IllegalInstruction, match="is for primitive shaders"):
        run("gfx1100", "s_sendmsg sendmsg(MSG_GS_ALLOC_REQ)")
    with pytest.raises(IllegalInstruction, match="does not exist"):
        run("gfx942", "s_sendmsg 3")
    with pytest.raises(IllegalInstruction, match="is not one that a kernel may send"):
        run("gfx1100", "s_sendmsg_rtn_b32 s0, sendmsg(MSG_RTN_SAVE_WAVE)")


def test_answers_fill_one_or_two_registers() -> None:
    text = """
      s_mov_b32 s0, -1
      s_mov_b32 s1, -1
      s_mov_b32 s3, -1
      s_sendmsg_rtn_b64 s[0:1], sendmsg(MSG_RTN_GET_TMA)
      s_nop 0
      s_branch 0
      s_sendmsg_rtn_b32 s2, sendmsg(MSG_RTN_GET_REALTIME)
    """
    ran = run("gfx1100", text)
    assert [int(ran.scalar(n)[0]) for n in (0, 1)] == [0, 0]
    assert ran.scalar(2)[0] > 0
    assert ran.scalar(3)[0] == 0xFFFFFFFF


# -- S_ALLOC_VGPR -----------------------------------------------------------------------------------------------------


def dynamic(text: str) -> Run:
    return run("gfx1201", text, dynamic=True)


def test_registers_are_allocated_in_blocks() -> None:
    ran = dynamic("s_movk_i32 s1, 50\n s_alloc_vgpr s1\n s_cselect_b32 s0, 1, 0\n s_getreg_b32 s2, hwreg(5)")
    assert ran.scalar(0)[0] == 1
    assert ran.batch.dynamic_vgprs is not None and (ran.batch.dynamic_vgprs == 64).all()
    assert ran.scalar(2)[0] >> 12 & 0xFF == 64 // 4 - 1


def test_too_many_registers_are_refused() -> None:
    ran = dynamic("s_movk_i32 s1, 300\n s_alloc_vgpr s1\n s_cselect_b32 s0, 1, 0")
    assert ran.scalar(0)[0] == 0
    assert ran.batch.dynamic_vgprs is not None and (ran.batch.dynamic_vgprs == 256).all()


def test_without_dynamic_registers_it_is_illegal() -> None:
    with pytest.raises(IllegalInstruction, match="no dynamic vector registers"):
        launch("s_alloc_vgpr 32")
    launch("s_alloc_vgpr 32", rsrc2=1 << 6)


# -- subvector loops --------------------------------------------------------------------------------------------------

LOOP = """
  s_subvector_loop_begin s10, over
again:
  v_add_nc_u32 v2, v2, 1
  v_mov_b32 v3, s5
  s_add_u32 s5, s5, 1
  s_subvector_loop_end s10, again
over:
  s_mov_b32 s6, 4
"""


@pytest.mark.parametrize(
    ("mask", "passes"), [((1 << 64) - 1, 2), (0xFF, 1), (0xFF << 32, 1), (0x80000000_00000001, 2), (0, 0)]
)
def test_a_subvector_loop_runs_each_half_of_a_wave64(mask: int, passes: int) -> None:
    lanes = np.array([mask >> n & 1 for n in range(64)], np.bool_)
    zero = np.zeros(64, np.uint32)
    ran = run("gfx1100", LOOP, vectors={2: zero, 3: zero}, scalars={5: 0}, lanes=lanes, wave_size=64)
    assert (ran.words(2) == lanes).all()
    assert ran.scalar(5)[0] == passes
    assert ran.scalar(6)[0] == 4
    assert int(ran.pair(126)[0]) == mask
    if passes == 2:
        assert (ran.words(3)[32:] == lanes[32:]).all()


def test_a_subvector_loop_of_a_wave32_is_one_pass() -> None:
    ran = run("gfx1100", LOOP, vectors={2: np.zeros(32, np.uint32)}, scalars={5: 0})
    assert (ran.words(2) == 1).all()
    assert ran.scalar(5)[0] == 1


def test_the_engine_goes_on_after_a_trap() -> None:
    with pytest.raises(GuestFault):
        launch("s_trap 1", "gfx1100")
    assert launch("s_nop 0", "gfx1100").waves == 2
