"""What a wrong kernel gets: a typed fault that names the kernel, the place and the instruction."""

from __future__ import annotations

import ctypes
import time

import numpy as np
import pytest
from support.kernels import Block, engine, run
from support.llvm_mc import assemble, require_llvm

from mockgpu.isa.arch import get_arch
from mockgpu.isa.errors import ConfigError
from mockgpu.machine.engine import make_engine
from mockgpu.machine.errors import GuestFault, IllegalInstruction, KernelTimeout, PageFault, Trap
from mockgpu.machine.launch import Launch
from mockgpu.machine.memory import Memory
from mockgpu.machine.oracle_engine import OracleEngine

require_llvm()


def launch_bytes(code: bytes, timeout: float = 5.0) -> None:
    """Run raw bytes that are followed by unmapped memory only after a page of zeros."""
    memory = Memory()
    program = Block(memory, 4096)
    program.bytes[: len(code)] = np.frombuffer(code, np.uint8)
    launch = Launch(entry=program.va, grid=(1, 1, 1), block=(32, 1, 1), rsrc1=0xC0 << 12, kernel="raw")
    engine().run(launch, memory, timeout=timeout)


def test_page_fault_names_address_wave_and_lane() -> None:
    program = """
      v_and_b32 v0, 0x3ff, v0
      v_mov_b32 v2, 0x1000
      v_mov_b32 v3, 0
      v_mov_b32 v4, s0
      v_mov_b32 v5, s1
      v_cmp_eq_u32 vcc_lo, 37, v0
      v_cndmask_b32 v4, v4, v2, vcc_lo
      v_cndmask_b32 v5, v5, v3, vcc_lo
      global_load_b32 v6, v[4:5], off
    """
    with pytest.raises(PageFault) as info:
        run(program, block=64, grid=2)
    fault = info.value
    assert (fault.address, fault.access) == (0x1000, "read")
    assert (fault.where.workgroup, fault.where.wave, fault.where.lane) == ((0, 0, 0), 1, 5)
    assert fault.where.kernel == "test"
    assert "global_load_b32 v6, v[4:5], off" in str(fault)


def test_a_store_to_a_read_only_page_faults() -> None:
    memory = Memory()
    code = assemble("v_mov_b32 v0, s0\n v_mov_b32 v1, s1\n global_store_b32 v[0:1], v2, off\n s_endpgm", "gfx1100")
    program, target = Block(memory, 4096), Block(memory, 4096, write=False)
    program.bytes[: len(code)] = np.frombuffer(code, np.uint8)
    launch = Launch(
        entry=program.va, grid=(1, 1, 1), block=(1, 1, 1), user_data=(target.va & 0xFFFFFFFF, target.va >> 32),
        rsrc1=1, rsrc2=2 << 1,
    )  # fmt: skip
    with pytest.raises(PageFault, match="write") as info:
        engine().run(launch, memory, timeout=5)
    assert info.value.present


def test_scalar_load_from_nowhere() -> None:
    with pytest.raises(PageFault, match="0x10000") as info:
        run("s_mov_b32 s5, 0x10000\n s_mov_b64 s[6:7], 0\n s_load_b32 s8, s[6:7], s5")
    assert info.value.where.lane is None


def test_undecodable_bytes_fault_when_they_are_reached() -> None:
    with pytest.raises(IllegalInstruction, match="0xffffffff"):
        launch_bytes(b"\xff" * 8)


def test_undecodable_bytes_that_are_jumped_over_do_not_matter() -> None:
    code = assemble("s_branch over\n.long 0xffffffff\nover:\n s_endpgm", "gfx1100")
    launch_bytes(code)


def test_an_instruction_without_semantics_names_itself() -> None:
    with pytest.raises(IllegalInstruction, match="ds_gws_sema_v"):
        run("ds_gws_sema_v gds")


def test_running_off_the_end_of_a_mapping() -> None:
    nops = assemble("s_nop 0", "gfx1100") * 1024
    with pytest.raises(PageFault) as info:
        launch_bytes(nops)
    assert info.value.access == "execute"


def test_an_endless_loop_times_out_and_names_the_place() -> None:
    started = time.monotonic()
    with pytest.raises(KernelTimeout, match=r"no wave has ended for 0\.3 s") as info:
        run("again:\n s_add_u32 s5, s5, 1\n s_branch again", timeout=0.3)
    assert time.monotonic() - started < 5
    assert info.value.where.pc is not None
    assert "s_add_u32" in str(info.value)


def test_an_entry_that_is_not_mapped() -> None:
    with pytest.raises(PageFault) as info:
        engine().run(Launch(entry=0x5000, grid=(1, 1, 1), block=(1, 1, 1)), Memory(), timeout=1)
    assert (info.value.address, info.value.access) == (0x5000, "execute")


def test_a_trap_is_a_fault() -> None:
    with pytest.raises(Trap, match="s_trap 2"):
        run("s_trap 2")


def test_the_engine_works_after_a_fault() -> None:
    with pytest.raises(GuestFault):
        run("s_trap 2")
    assert run("s_nop 0").stats.waves == 1


def test_changed_code_is_decoded_again() -> None:
    memory = Memory()
    program, data = Block(memory, 4096), Block(memory, 4096)
    store = "v_mov_b32 v1, 0\n global_store_b32 v1, v2, s[0:1]\n s_endpgm"
    launch = Launch(
        entry=program.va, grid=(1, 1, 1), block=(1, 1, 1), user_data=(data.va & 0xFFFFFFFF, data.va >> 32),
        rsrc1=1, rsrc2=2 << 1,
    )  # fmt: skip
    for number in (5, 6):
        code = assemble(f"v_mov_b32 v2, {number}\n{store}", "gfx1100")
        ctypes.memmove(program.va, code, len(code))
        engine().run(launch, memory, timeout=5)
        assert data.bytes.view(np.uint32)[0] == number


def test_registry_names_the_good_engines() -> None:
    assert isinstance(make_engine(get_arch("gfx1100")), OracleEngine)
    with pytest.raises(ConfigError, match="oracle"):
        make_engine(get_arch("gfx1100"), "quantum")


def test_a_wave_size_that_the_part_lacks() -> None:
    with pytest.raises(ConfigError, match="64"):
        engine("gfx942").run(Launch(entry=4096, grid=(1, 1, 1), block=(1, 1, 1), wave_size=32), Memory(), timeout=1)
