"""The state in which waves start, from the dispatch registers; how a grid is cut into batches."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import Block, engine
from support.llvm_mc import assemble

from mockgpu.isa.arch import get_arch
from mockgpu.machine.dispatch import Resources, batches
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.launch import Launch
from mockgpu.machine.memory import Memory
from mockgpu.machine.waves import EXEC, TTMP

RDNA3, RDNA4, CDNA = get_arch("gfx1100"), get_arch("gfx1201"), get_arch("gfx942")


def launch(**changes: object) -> Launch:
    values: dict[str, object] = {
        "entry": 0x1000,
        "grid": (2, 1, 1),
        "block": (40, 1, 1),
        "user_data": tuple(range(100, 116)),
    }
    return Launch(**(values | changes))  # type: ignore[arg-type]


def test_mode_comes_from_the_float_bits() -> None:
    rsrc1 = 0xC5 << 12 | 1 << 21 | 1 << 23 | 1 << 26
    assert Resources.of(launch(rsrc1=rsrc1), RDNA3).mode == 0xC5 | 1 << 8 | 1 << 9 | 1 << 23
    assert Resources.of(launch(rsrc1=rsrc1), RDNA4).mode == 0xC5 | 1 << 23


def test_scalars_hold_user_data_then_ids_then_group_information() -> None:
    rsrc2 = 3 << 1 | 1 << 7 | 1 << 9 | 1 << 10
    (batch,) = batches(launch(rsrc2=rsrc2, start=(5, 6, 7)), RDNA3)
    assert batch.waves == 4
    assert batch.sgpr[:3].T.tolist() == [[100, 101, 102]] * 4
    assert batch.sgpr[3].tolist() == [5, 5, 6, 6]
    assert batch.sgpr[4].tolist() == [7] * 4
    assert batch.sgpr[5].tolist() == [1 << 31 | 2, 2] * 2
    assert batch.sgpr[EXEC].tolist() == [0xFFFFFFFF, 0xFF] * 2


def test_later_parts_get_ids_in_trap_registers() -> None:
    (batch,) = batches(launch(start=(5, 6, 7)), RDNA4)
    assert batch.sgpr[TTMP + 9].tolist() == [5, 5, 6, 6]
    assert batch.sgpr[TTMP + 7].tolist() == [7 << 16 | 6] * 4


def test_registers_are_counted_in_granules() -> None:
    assert Resources.of(launch(rsrc1=2), RDNA3).vgprs == 24
    assert Resources.of(launch(rsrc1=2, wave_size=64), RDNA3).vgprs == 12


def test_cdna_divides_its_vector_registers() -> None:
    """24 registers, of which ACCUM_OFFSET leaves the first 8 to ordinary instructions."""
    both = Resources.of(launch(rsrc1=2, rsrc3=1, wave_size=64), CDNA)
    assert (both.vgprs, both.accs) == (8, 16)
    (batch,) = batches(launch(rsrc1=2, rsrc3=1, wave_size=64), CDNA)
    assert (batch.vgprs, batch.accs) == (8, 16)


def test_lds_is_allocated_in_blocks() -> None:
    for arch, lds in (("gfx1100", 1024), ("gfx1201", 1024), ("gfx942", 512), ("gfx950", 1280)):
        (batch,) = batches(launch(lds_bytes=100, wave_size=64), get_arch(arch))
        assert batch.lds_bytes == lds


def test_rdna4_may_change_the_number_of_its_vector_registers() -> None:
    (fixed,) = batches(launch(rsrc1=2), RDNA4)
    assert fixed.dynamic_vgprs is None
    (dynamic,) = batches(launch(rsrc1=2, rsrc2=1 << 6), RDNA4)
    assert dynamic.dynamic_vgprs is not None
    assert dynamic.dynamic_vgprs.tolist() == [24] * dynamic.waves
    assert dynamic.vgprs == 256


def test_a_grid_is_cut_into_whole_workgroups() -> None:
    cut = list(batches(launch(grid=(10, 3, 1), block=(64, 1, 1)), RDNA3, lanes=512))
    assert [batch.waves for batch in cut] == [16, 16, 16, 12]
    ids = [group for batch in cut for group in batch.workgroups]
    assert ids == [(x, y, 0) for y in range(3) for x in range(10)]


def test_a_batch_has_no_more_waves_than_scratch_slots() -> None:
    cut = list(batches(launch(rsrc2=1, scratch_waves=4, scratch_wave_bytes=256, scratch_base=4096), RDNA3))
    assert [batch.waves for batch in cut] == [4]
    assert cut[0].scratch.tolist() == [4096, 4352, 4608, 4864]


def test_a_register_that_the_kernel_does_not_declare_is_a_fault() -> None:
    memory = Memory()
    program = Block(memory, 4096)
    code = assemble("v_mov_b32 v0, 1\n v_add_f32 v1, v40, v0\n s_endpgm", "gfx1100")
    program.bytes[: len(code)] = np.frombuffer(code, np.uint8)
    with pytest.raises(IllegalInstruction, match="declares 8 vector registers") as info:
        engine().run(launch(entry=program.va), memory, timeout=5)
    assert "v_add_f32" in str(info.value)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("v_mov_b32 v7, 1", True),
        ("v_mov_b32 v8, 1", False),
        ("v_mov_b64 v[6:7], 1", True),
        ("v_mov_b64 v[8:9], 1", False),
        ("v_accvgpr_write_b32 a15, 1", True),
        ("v_accvgpr_write_b32 a16, 1", False),
        ("v_accvgpr_read_b32 v0, a16", False),
    ],
)
def test_registers_beyond_either_part_are_faults(text: str, inside: bool) -> None:
    """8 vector and 16 accumulation registers; the code before the fault has run."""
    memory = Memory()
    out = Block(memory, 4096)
    where = f"s_mov_b32 s4, {out.va & 0xFFFFFFFF:#x}\n s_mov_b32 s5, {out.va >> 32:#x}\n"
    before = "v_mov_b32 v1, 0\n v_mov_b32 v2, 7\n global_store_dword v1, v2, s[4:5]\n"
    code = assemble(f"{where}{before}{text}\ns_endpgm\n", "gfx942")
    program = Block(memory, len(code) + 256)
    program.bytes[: len(code)] = np.frombuffer(code, np.uint8)
    started = launch(entry=program.va, rsrc1=2, rsrc3=1, wave_size=64, block=(64, 1, 1))
    if inside:
        engine("gfx942").run(started, memory, timeout=10.0)
    else:
        with pytest.raises(IllegalInstruction, match="8 vector and 16 accumulation registers"):
            engine("gfx942").run(started, memory, timeout=10.0)
    assert out.bytes.view(np.uint32)[0] == 7
