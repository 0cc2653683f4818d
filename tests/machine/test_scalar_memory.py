"""Scalar memory on every target: alignment, bounds, stores, atomics, scratch; block moves and lane numbers."""

from __future__ import annotations

import numpy as np
import pytest
from support.memory_bench import Bench, cdna_buffer, raw_buffer

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.machine.errors import MemoryViolation

BASE, DATA, OFFSET = 8, 20, 30


def bench(name: str, waves: int = 1) -> Bench:
    b = Bench(name, waves=waves)
    b.fill()
    b.scalar(BASE, b.va, 2)
    return b


def cdna(b: Bench, name: str, offset: int = 0, **fields: int) -> None:
    b.run(name, sbase=BASE // 2, sdata=DATA, imm=1, offset=offset, **fields)


def test_small_loads_are_aligned_to_their_size() -> None:
    for kind, at, expected in (("u1", 5, 5), ("i1", 7, 7), ("u2", 7, 6), ("i2", 3, 2), ("u4", 7, 4)):
        b = bench("gfx1201")
        b.scalar(BASE, b.va, 2)
        name = {"u1": "U8", "i1": "I8", "u2": "U16", "i2": "I16", "u4": "B32"}[kind]
        b.run(f"S_LOAD_{name}", sbase=BASE // 2, sdata=DATA, ioffset=at, soffset=124)
        value = np.frombuffer(b.data.tobytes(), kind, 1, expected)[0]
        assert int(b.batch.sgpr[DATA, 0]) == int(value) & 0xFFFFFFFF


def test_each_part_of_an_address_is_aligned_by_itself() -> None:
    b = bench("gfx1100")
    b.scalar(BASE, b.va + 3, 2)
    b.scalar(OFFSET, 7)
    b.run("S_LOAD_B32", sbase=BASE // 2, sdata=DATA, offset=2, soffset=OFFSET)
    assert b.batch.sgpr[DATA, 0] == b.words[1]


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201", "gfx942"])
def test_buffers_bound_each_dword(name: str) -> None:
    b = bench(name)
    make = cdna_buffer if name == "gfx942" else raw_buffer
    b.scalar(BASE, make(b.va, 3, stride=8), 4)
    opcode = "S_BUFFER_LOAD_DWORDX4" if name == "gfx942" else "S_BUFFER_LOAD_B128"
    for k in range(4):
        b.scalar(DATA + k, 1)
    offset = "ioffset" if name == "gfx1201" else "offset"
    extra = {"imm": 1} if name == "gfx942" else {"soffset": 124}
    b.run(opcode, sbase=BASE // 2, sdata=DATA, **{offset: 16}, **extra)
    assert list(b.batch.sgpr[DATA : DATA + 4, 0]) == [b.words[4], b.words[5], 0, 0]


def test_small_buffer_loads_of_rdna4() -> None:
    b = bench("gfx1201")
    b.scalar(BASE, raw_buffer(b.va, 8), 4)
    for at, expected in ((5, int(b.data[5])), (9, 0)):
        b.run("S_BUFFER_LOAD_U8", sbase=BASE // 2, sdata=DATA, ioffset=at, soffset=124)
        assert b.batch.sgpr[DATA, 0] == expected
    with pytest.raises(MemoryViolation, match="negative"):
        b.run("S_BUFFER_LOAD_U8", sbase=BASE // 2, sdata=DATA, ioffset=0xFFFFFF, soffset=124)


def test_stores() -> None:
    b = bench("gfx942")
    before = b.words.copy()
    b.scalar(DATA, 0x4444_0000_3333_0000_2222_0000_1111, 4)
    cdna(b, "S_STORE_DWORDX4", 8)
    before[2:6] = b.batch.sgpr[DATA : DATA + 4, 0]
    assert (b.words == before).all()
    b.scalar(BASE, cdna_buffer(b.va, 40), 4)
    cdna(b, "S_BUFFER_STORE_DWORDX4", 32)
    before[8:10] = b.batch.sgpr[DATA : DATA + 2, 0]
    assert (b.words == before).all()


def test_scratch_counts_its_register_offset_in_64_bytes() -> None:
    b = bench("gfx942")
    b.scalar(OFFSET, 3)
    b.run("S_SCRATCH_LOAD_DWORD", sbase=BASE // 2, sdata=DATA, imm=1, offset=8, soffset_en=1, soffset=OFFSET)
    assert b.batch.sgpr[DATA, 0] == b.words[(3 * 64 + 8) // 4]
    b.scalar(DATA, 77)
    b.run("S_SCRATCH_STORE_DWORD", sbase=BASE // 2, sdata=DATA, imm=1, offset=12, soffset_en=1, soffset=OFFSET)
    assert b.words[(3 * 64 + 12) // 4] == 77


@pytest.mark.parametrize("glc", [0, 1])
def test_atomics_take_the_waves_in_turn(glc: int) -> None:
    b = bench("gfx942", waves=3)
    b.words[1] = 10
    b.batch.sgpr[DATA] = [1, 2, 4]
    cdna(b, "S_ATOMIC_ADD", 4, glc=glc)
    assert b.words[1] == 17
    assert list(b.batch.sgpr[DATA]) == ([10, 11, 13] if glc else [1, 2, 4])


def test_wide_and_buffer_atomics() -> None:
    b = bench("gfx950")
    b.words[2:4] = 5, 6
    b.scalar(DATA, 9 | 8 << 32 | 5 << 64 | 6 << 96, 4)
    cdna(b, "S_ATOMIC_CMPSWAP_X2", 8, glc=1)
    assert list(b.words[2:4]) == [9, 8]
    assert list(b.batch.sgpr[DATA : DATA + 2, 0]) == [5, 6]
    b.scalar(BASE, cdna_buffer(b.va, 16), 4)
    b.scalar(DATA, 3)
    cdna(b, "S_BUFFER_ATOMIC_SUB", 8, glc=1)
    assert [int(b.words[2]), int(b.batch.sgpr[DATA, 0])] == [6, 9]
    before = b.words.copy()
    cdna(b, "S_BUFFER_ATOMIC_SUB", 16, glc=1)
    assert (b.words == before).all()
    assert b.batch.sgpr[DATA, 0] == 0


@pytest.mark.parametrize(
    ("name", "opcode"),
    [
        ("gfx942", "S_DCACHE_WB"),
        ("gfx942", "S_DCACHE_DISCARD"),
        ("gfx942", "S_ATC_PROBE"),
        ("gfx1100", "S_ATC_PROBE_BUFFER"),
        ("gfx1201", "S_PREFETCH_DATA"),
        ("gfx1201", "GLOBAL_WBINV"),
        ("gfx1201", "GLOBAL_INV"),
        ("gfx942", "BUFFER_WBL2"),
        ("gfx942", "BUFFER_INV"),
    ],
)
def test_cache_controls_change_nothing(name: str, opcode: str) -> None:
    b = bench(name)
    before, scalars = b.words.copy(), b.batch.sgpr.copy()
    b.run(opcode)
    assert (b.words == before).all()
    assert (b.batch.sgpr == scalars).all()


# -- block moves and lane-numbered accesses ---------------------------------------------------------------------


@pytest.mark.parametrize("scratch", [False, True])
def test_blocks_skip_what_m0_leaves_out(scratch: bool) -> None:
    b = bench("gfx1201")
    b.batch.scratch[:], b.batch.scratch_bytes = b.va, 128 * 32
    mask = 0x8000_0105
    b.scalar(b.arch.m0_register, mask)
    b.vector(2, np.arange(32) * 128 if not scratch else 0)
    kind = "SCRATCH" if scratch else "GLOBAL"
    fields = {"saddr": 124, "sve": 1} if scratch else {"saddr": BASE}
    b.vector(slice(32, 96), 5)  # type: ignore[arg-type]
    b.run(f"{kind}_LOAD_BLOCK", vaddr=2, vdst=40, **fields)
    source = b.words[: 32 * 32].reshape(32, 32) if scratch else b.words[: 32 * 32].reshape(32, 32).T
    for k in range(32):
        expected = source[k] if mask >> k & 1 else 5
        assert (b.batch.vgpr[40 + k, 0] == expected).all()
    b.words[:] = 0
    b.run(f"{kind}_STORE_BLOCK", vaddr=2, vsrc=40, **fields)
    stored = b.words[: 32 * 32].reshape(32, 32) if scratch else b.words[: 32 * 32].reshape(32, 32).T
    for k in range(32):
        assert (stored[k] == (b.batch.vgpr[40 + k, 0] if mask >> k & 1 else 0)).all()


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
def test_accesses_by_lane_number(name: str) -> None:
    b = bench(name)
    offset, data = ("ioffset", "vsrc") if name == "gfx1201" else ("offset", "data")
    encoding = "VGLOBAL" if name == "gfx1201" else "GLOBAL"
    b.run("GLOBAL_LOAD_ADDTID_B32", encoding, saddr=BASE, vdst=4, **{offset: 8})
    assert (b.batch.vgpr[4, 0] == b.words[2:34]).all()
    b.run("GLOBAL_STORE_ADDTID_B32", encoding, saddr=BASE, **{offset: 256, data: 4})
    assert (b.words[64:96] == b.batch.vgpr[4, 0]).all()


def test_ordered_adds_are_refused_by_name() -> None:
    with pytest.raises(NoSemanticsError, match="geometry shaders"):
        bench("gfx1201").run("GLOBAL_ATOMIC_ORDERED_ADD_B64", saddr=124)


@pytest.mark.parametrize("name", ["gfx1100", "gfx942"])
def test_conditional_and_packed_atomics(name: str) -> None:
    b = bench(name)
    b.exec(3)
    at = b.va + np.arange(b.lanes, dtype=np.uint64) * np.uint64(4)
    b.vector(2, at & np.uint64(0xFFFFFFFF))
    b.vector(3, at >> np.uint64(32))
    if name == "gfx1100":
        b.words[:2] = 5, 50
        b.vector(4, 10)
        b.run("GLOBAL_ATOMIC_CSUB_U32", addr=2, data=4, vdst=6, saddr=124, glc=1)
        assert list(b.words[:2]) == [0, 40]
        assert list(b.batch.vgpr[6, 0, :2]) == [5, 50]
    else:
        b.words[:2] = np.array([1.0, 2.0, 3.0, 4.0], np.float16).view(np.uint32)
        b.vector(4, np.array([0.5, -4.0], np.float16).view(np.uint32)[0])
        b.run("GLOBAL_ATOMIC_PK_ADD_F16", addr=2, data=4, vdst=6, saddr=127)
        assert list(b.words[:2].view(np.float16)) == [1.5, -2.0, 3.5, 0.0]
