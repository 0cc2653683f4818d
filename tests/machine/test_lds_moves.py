"""LDS beyond plain loads and stores: loads from memory, broadcasts, counters, transposing loads, exchanges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.memory_bench import DESCRIPTOR, Bench, cdna_buffer, raw_buffer

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.machine.errors import IllegalInstruction, MemoryViolation

ADDRESS, DATA = 2, 8
_NO_SADDR = {"rdna3": 124, "rdna4": 124, "cdna": 127}


def point(b: Bench, offsets: Any, reg: int = ADDRESS) -> None:
    """64-bit addresses of all lanes."""
    at = b.va + np.asarray(offsets, np.uint64)
    b.vector(reg, at & np.uint64(0xFFFFFFFF))
    b.vector(reg + 1, at >> np.uint64(32))


def m0(b: Bench, value: int) -> None:
    b.scalar(b.arch.m0_register, value)


def lds_words(b: Bench) -> Any:
    return b.batch.lds[: b.batch.lds_bytes].view(np.uint32)


# -- memory to LDS --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "bits", "signed"),
    [("UBYTE", 8, False), ("SBYTE", 8, True), ("USHORT", 16, False), ("SSHORT", 16, True), ("DWORD", 32, False)],
)
def test_global_loads_to_lds(ending: str, bits: int, signed: bool) -> None:
    b = Bench("gfx942")
    b.fill()
    point(b, np.arange(64) * 12)
    m0(b, 0x100)
    b.exec((1 << 64) - 1 ^ 0xF0)
    b.run(f"GLOBAL_LOAD_LDS_{ending}", addr=ADDRESS, saddr=127, offset=8)
    values = np.ascontiguousarray(b.data[(np.arange(64) * 12 + 8)[:, None] + np.arange(bits // 8)])
    kind = f"{'i' if signed else 'u'}{bits // 8}"
    expected = values.view(kind)[:, 0].astype(np.int64) & 0xFFFFFFFF
    expected[4:8] = 0
    assert (lds_words(b)[(0x100 + 8) // 4 :][:64] == expected).all()
    assert (lds_words(b)[: (0x100 + 8) // 4] == 0).all()


@pytest.mark.parametrize(("ending", "dwords"), [("DWORDX3", 3), ("DWORDX4", 4)])
def test_wide_global_loads_to_lds_step_by_16_bytes(ending: str, dwords: int) -> None:
    b = Bench("gfx950")
    b.fill()
    b.batch.lds[:] = 0xEE
    point(b, np.arange(64) * 16)
    m0(b, 0x40)
    b.run(f"GLOBAL_LOAD_LDS_{ending}", addr=ADDRESS, saddr=127)
    rows = lds_words(b)[16 : 16 + 256].reshape(64, 4)
    assert (rows[:, :dwords] == b.words[:256].reshape(64, 4)[:, :dwords]).all()
    assert (rows[:, dwords:] == 0xEEEEEEEE).all()


def test_lanes_outside_the_allocation_do_not_load() -> None:
    b = Bench("gfx942", lds=128)
    b.fill()
    point(b, np.where(np.arange(64) < 24, np.arange(64) * 4, 1 << 40))
    m0(b, 32)
    b.run("GLOBAL_LOAD_LDS_DWORD", addr=ADDRESS, saddr=127)
    assert (lds_words(b)[8:32] == b.words[:24]).all()


def test_scratch_loads_to_lds() -> None:
    b = Bench("gfx942")
    b.fill()
    b.batch.scratch[:], b.batch.scratch_bytes = b.va, 64 * 64
    b.vector(ADDRESS, 8)
    m0(b, 0)
    b.run("SCRATCH_LOAD_LDS_DWORD", addr=ADDRESS, saddr=127, sve=1)
    assert (lds_words(b)[:64] == b.words[128:192]).all()


def test_loads_to_lds_by_lane_number() -> None:
    b = Bench("gfx1100")
    b.fill()
    b.scalar(20, b.va, 2)
    m0(b, 0x80)
    b.run("GLOBAL_LOAD_LDS_ADDTID_B32", "GLOBAL", saddr=20, offset=4)
    assert (lds_words(b)[33:65] == b.words[1:33]).all()


def test_buffer_loads_to_lds() -> None:
    b = Bench("gfx942")
    b.fill()
    b.scalar(DESCRIPTOR, cdna_buffer(b.va, 100), 4)
    b.batch.lds[:] = 0xEE
    b.vector(ADDRESS, np.arange(64) * 4)
    m0(b, 0x10)
    b.buffer("BUFFER_LOAD_DWORD", vaddr=ADDRESS, offen=1, lds=1, offset=4)
    expected = np.where(np.arange(64) * 4 + 4 < 100, b.words[1:65], 0)  # out of range gives 0
    assert (lds_words(b)[5:69] == expected).all()
    b.buffer("BUFFER_LOAD_UBYTE", vaddr=ADDRESS, offen=1, lds=1, offset=4)
    assert (lds_words(b)[5:69] == expected & 0xFF).all()
    b.buffer("BUFFER_LOAD_FORMAT_X", vaddr=ADDRESS, offen=1, lds=1, offset=4)
    assert (lds_words(b)[5:69] == np.where(np.arange(64) * 4 + 8 <= 100, expected, 0)).all()
    with pytest.raises(IllegalInstruction, match="cannot put its data into LDS"):
        b.buffer("BUFFER_LOAD_DWORDX2", vaddr=ADDRESS, offen=1, lds=1)


@pytest.mark.parametrize(("ending", "mask"), [("U8", 0xFF), ("U16", 0xFFFF), ("B32", 0xFFFFFFFF), ("FORMAT_X", 0xFFFF)])
def test_buffer_loads_to_lds_of_rdna3(ending: str, mask: int) -> None:
    b = Bench("gfx1100")
    b.fill()
    b.scalar(DESCRIPTOR, raw_buffer(b.va, 1 << 14, format=27), 4)  # 16_16_UINT
    b.vector(ADDRESS, np.arange(32) * 4)
    m0(b, 0x20)
    b.buffer(f"BUFFER_LOAD_LDS_{ending}", vaddr=ADDRESS, offen=1)
    assert (lds_words(b)[8:40] == b.words[:32] & mask).all()


# -- LDS to all lanes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "opcode"), [("gfx1100", "LDS_DIRECT_LOAD"), ("gfx1201", "DS_DIRECT_LOAD")])
@pytest.mark.parametrize(("kind", "code"), [("u1", 0), ("u2", 1), ("u4", 2), ("i1", 4), ("i2", 5)])
def test_direct_loads(name: str, opcode: str, kind: str, code: int) -> None:
    b = Bench(name)
    b.batch.lds[:] = np.random.default_rng(2).integers(128, 256, b.batch.lds.size, np.uint8)
    m0(b, code << 16 | 0x44)
    b.exec(0x00010800)
    b.vector(DATA, 5)
    b.run(opcode, vdst=DATA)
    value = int(np.frombuffer(b.batch.lds[0x44:0x4C].tobytes(), kind)[0]) & 0xFFFFFFFF
    quads = np.isin(np.arange(32) // 4, (2, 4))
    assert (b.batch.vgpr[DATA, 0] == np.where(quads, value, 5)).all()


def test_reserved_types_and_pixel_parameters_are_refused() -> None:
    b = Bench("gfx1100")
    m0(b, 3 << 16)
    with pytest.raises(IllegalInstruction, match="data type 3"):
        b.run("LDS_DIRECT_LOAD", vdst=DATA)
    with pytest.raises(NoSemanticsError, match="pixel shader"):
        b.run("LDS_PARAM_LOAD", vdst=DATA)


# -- counters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201", "gfx950"])
def test_append_and_consume(name: str) -> None:
    b = Bench(name, waves=3)
    in_m0 = name != "gfx1201"
    m0(b, 0x20)
    place = 0x24 if in_m0 else 4
    lds_words(b)[place // 4] = 100
    b.exec(0xF7)
    for wave, mask in enumerate((0xFF, 0, 0x3)):
        b.batch.sgpr[126, wave] = mask
        b.batch.sgpr[127, wave] = 0
    b.vector(DATA, 9)
    b.run("DS_APPEND", vdst=DATA, offset0=4)
    assert [list(b.batch.vgpr[DATA, w, :9]) for w in range(3)] == [[100] * 8 + [9], [9] * 9, [108, 108] + [9] * 7]
    assert lds_words(b)[place // 4] == 110
    b.run("DS_CONSUME", vdst=DATA, offset0=4)
    assert [int(b.batch.vgpr[DATA, w, 0]) for w in range(3)] == [110, 9, 102]
    assert lds_words(b)[place // 4] == 100


def test_a_counter_outside_the_allocation_is_a_violation() -> None:
    b = Bench("gfx1100", lds=64)
    m0(b, 64)
    with pytest.raises(MemoryViolation, match="LDS counter at 0x40"):
        b.run("DS_APPEND", vdst=DATA)


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201", "gfx942"])
def test_conditional_exchange(name: str) -> None:
    b = Bench(name)
    b.exec(1)
    lds_words(b)[2:4] = 7, 8
    b.vector(ADDRESS, 8)
    b.vector(DATA, 0x80000011)
    b.vector(DATA + 1, 0x22)
    b.run("DS_CONDXCHG32_RTN_B64", addr=ADDRESS, data0=DATA, vdst=DATA + 2)
    assert list(lds_words(b)[2:4]) == [0x11, 8]
    assert [int(b.batch.vgpr[DATA + 2 + k, 0, 0]) for k in range(2)] == [7, 8]


@pytest.mark.parametrize(
    ("name", "opcode", "message"),
    [
        ("gfx1100", "DS_GWS_BARRIER", "global wave sync"),
        ("gfx942", "DS_GWS_SEMA_P", "global wave sync"),
        ("gfx1100", "DS_ORDERED_COUNT", "global data share"),
        ("gfx1100", "DS_ADD_GS_REG_RTN", "graphics only"),
        ("gfx1201", "DS_BVH_STACK_PUSH8_POP1_RTN_B32", "graphics only"),
    ],
)
def test_what_no_compute_kernel_has_is_refused_by_name(name: str, opcode: str, message: str) -> None:
    fields = {"gds": 1} if "GWS" in opcode or "ORDERED" in opcode else {}
    with pytest.raises(NoSemanticsError, match=message):
        Bench(name).run(opcode, **fields)


# -- transposing loads ----------------------------------------------------------------------------------------


def elements(dwords: Any, bits: int) -> Any:
    """(lanes, dwords) as (lanes, elements), by shifting whole integers."""
    out = []
    for row in dwords:
        value = sum(int(word) << 32 * k for k, word in enumerate(row))
        out.append([value >> bits * n & (1 << bits) - 1 for n in range(32 * len(row) // bits)])
    return np.array(out)


@pytest.mark.parametrize(
    ("opcode", "bits", "dwords"),
    [
        ("DS_READ_B64_TR_B16", 16, 2),
        ("DS_READ_B64_TR_B8", 8, 2),
        ("DS_READ_B64_TR_B4", 4, 2),
        ("DS_READ_B96_TR_B6", 6, 3),
    ],
)
def test_lds_loads_transpose_in_groups_of_16_lanes(opcode: str, bits: int, dwords: int) -> None:
    b = Bench("gfx950")
    lds_words(b)[:] = np.random.default_rng(5).integers(0, 1 << 32, lds_words(b).size)
    lanes = np.random.default_rng(6).permutation(64)
    b.vector(ADDRESS, lanes * 4 * dwords)
    b.run(opcode, addr=ADDRESS, vdst=DATA, offset0=16)
    rows = lds_words(b)[4 : 4 + 64 * dwords].reshape(64, dwords)[lanes]
    source = elements(rows, bits)
    got = elements(b.batch.vgpr[DATA : DATA + dwords, 0].T, bits)
    count = 32 * dwords // bits
    for lane in range(64):
        run = source[lane & ~15 : (lane & ~15) + 16].ravel()
        assert list(got[lane]) == [run[16 * n + (lane & 15)] for n in range(count)]


def test_sixteen_bits_as_seen_on_silicon() -> None:
    b = Bench("gfx950")
    lds_words(b)[:] = np.random.default_rng(7).integers(0, 1 << 32, lds_words(b).size)
    b.vector(ADDRESS, np.arange(64) * 8)
    b.run("DS_READ_B64_TR_B16", addr=ADDRESS, vdst=DATA)
    source = elements(lds_words(b)[:128].reshape(64, 2), 16)
    got = elements(b.batch.vgpr[DATA : DATA + 2, 0].T, 16)
    for lane in range(64):
        for n in range(4):
            assert got[lane, n] == source[(lane & ~15 | lane >> 2 & 3) + 4 * n, lane & 3]


@pytest.mark.parametrize(("opcode", "bits", "dwords"), [("GLOBAL_LOAD_TR_B128", 16, 4), ("GLOBAL_LOAD_TR_B64", 8, 2)])
def test_global_loads_transpose_in_groups_of_8_lanes(opcode: str, bits: int, dwords: int) -> None:
    results = {}
    for wave_size in (32, 64):
        b = Bench("gfx1201", wave_size=wave_size)
        b.fill()
        point(b, np.arange(wave_size) * 4 * dwords)
        b.run(opcode, vaddr=ADDRESS, saddr=124, vdst=DATA)
        count = dwords * 32 // wave_size
        results[wave_size] = b.batch.vgpr[DATA : DATA + count, 0].T.copy()
        source = elements(b.words[: 32 * dwords].reshape(32, dwords), bits)
    got = elements(results[32], bits)
    for lane in range(32):
        assert list(got[lane]) == [source[(lane & ~7) + n, lane & 7] for n in range(8)]
    half = dwords // 2
    assert (results[64][:32] == results[32][:, :half]).all()
    assert (results[64][32:] == results[32][:, half:]).all()
