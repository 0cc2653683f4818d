"""Buffer instructions: descriptors, range checks, addresses, and the converting forms on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.memory_bench import DESCRIPTOR, Bench, cdna_buffer, raw_buffer

from mockgpu.machine.errors import IllegalInstruction, MemoryViolation

RDNA = ["gfx1100", "gfx1201"]
LOAD = {"gfx1100": "BUFFER_LOAD_B32", "gfx1201": "BUFFER_LOAD_B32", "gfx942": "BUFFER_LOAD_DWORD"}
STORE = {"gfx1100": "BUFFER_STORE_B32", "gfx1201": "BUFFER_STORE_B32", "gfx942": "BUFFER_STORE_DWORD"}
WIDE = {"gfx1100": "B128", "gfx1201": "B128", "gfx942": "DWORDX4"}
OFFSETS, INDEX, DATA = 2, 1, 4  # vector registers: the index lies in front of the offset


def bench(name: str, records: int, **fields: int) -> Bench:
    b = Bench(name, size=1 << 16)
    b.fill()
    make = cdna_buffer if name.startswith("gfx9") else raw_buffer
    b.scalar(DESCRIPTOR, make(b.va, records, **fields), 4)
    return b


def loaded(b: Bench, reg: int = DATA) -> Any:
    return b.batch.vgpr[reg, 0]


# -- range checks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RDNA)
@pytest.mark.parametrize("oob", range(4))
@pytest.mark.parametrize("swizzle", [0, 1])
@pytest.mark.parametrize("scalar", [0, 12])
def test_oob_select(name: str, oob: int, swizzle: int, scalar: int) -> None:
    stride, records = 16, 20
    b = bench(name, records, stride=stride, oob=oob, swizzle=swizzle)
    index, offset = np.arange(32) % 24, np.arange(32) * 3 & ~3
    b.vector(INDEX, index)
    b.vector(OFFSETS, offset)
    b.vector(DATA, 0xABCD)
    b.scalar(30, scalar)
    b.buffer(LOAD[name], vaddr=INDEX, vdata=DATA, idxen=1, offen=1, soffset=30)
    structured = (index < records) & (offset + 4 <= stride)
    raw = structured if swizzle else offset + 4 + scalar <= records
    expected = [structured, index < records, index >= 0, raw][oob]
    assert ((loaded(b) != 0) == expected).all()
    assert (loaded(b)[~expected] == 0).all()


@pytest.mark.parametrize("name", RDNA)
def test_nothing_is_in_range_of_an_empty_or_unbound_buffer(name: str) -> None:
    for fields in ({"records": 0, "oob": 2}, {"records": 4096, "format": 0}):
        b = bench(name, **fields)
        b.vector(DATA, 7)
        b.buffer(LOAD[name], vdata=DATA)
        assert (loaded(b) == 0).all()


@pytest.mark.parametrize("name", [*RDNA, "gfx942"])
def test_dwords_are_checked_one_by_one_but_elements_whole(name: str) -> None:
    b = bench(name, 64, **({} if name == "gfx942" else {"format": 63}) | ({"dfmt": 14} if name == "gfx942" else {}))
    before = b.words.copy()
    b.vector(OFFSETS, 56)
    b.vector(DATA, 1)
    b.buffer(f"BUFFER_LOAD_{WIDE[name]}", vaddr=OFFSETS, vdata=DATA, offen=1)
    assert [int(b.batch.vgpr[DATA + k, 0, 0]) for k in range(4)] == [int(before[14]), int(before[15]), 0, 0]
    b.buffer("BUFFER_LOAD_FORMAT_XYZW", vaddr=OFFSETS, vdata=DATA, offen=1)
    assert [int(b.batch.vgpr[DATA + k, 0, 0]) for k in range(4)] == [0, 0, 0, 0]
    for k in range(4):
        b.vector(DATA + k, 0x1111 * (k + 1))
    b.buffer(f"BUFFER_STORE_{WIDE[name]}", vaddr=OFFSETS, vdata=DATA, offen=1)
    assert list(b.words[13:18]) == [before[13], 0x1111, 0x2222, before[16], before[17]]


@pytest.mark.parametrize(
    ("fields", "idxen", "expected"),
    [
        ({"add_tid": 1, "stride": 4}, 0, "all"),
        ({"stride": 8}, 1, "index"),
        ({}, 1, "offset"),
        ({}, 0, "offset"),
        ({"stride": 8}, 0, "offset"),
    ],
)
def test_range_of_cdna(fields: dict[str, int], idxen: int, expected: str) -> None:
    records = 20
    b = bench("gfx942", records, **({"dfmt": 0} if "add_tid" in fields else {}) | fields)
    index, offset = np.arange(64) % 40, np.arange(64) % 9 * 4
    b.vector(INDEX, index)
    b.vector(OFFSETS, offset)
    b.buffer("BUFFER_LOAD_DWORD", vaddr=INDEX if idxen else OFFSETS, vdata=DATA, idxen=idxen, offen=1)
    inside = {"all": offset >= 0, "index": index < records, "offset": offset < records}[expected]
    assert ((loaded(b) != 0) == inside).all()


def test_a_negative_offset_is_a_violation() -> None:
    b = bench("gfx1201", 4096)
    with pytest.raises(MemoryViolation, match="negative"):
        b.buffer("BUFFER_LOAD_B32", vdata=DATA, offset=0xFFFFFC)
    b.exec(0)
    b.buffer("BUFFER_LOAD_B32", vdata=DATA, offset=0xFFFFFC)


# -- addresses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*RDNA, "gfx942"])
@pytest.mark.parametrize("index_stride", range(4))
@pytest.mark.parametrize("element", [4, 16])
def test_swizzled_addresses(name: str, index_stride: int, element: int) -> None:
    if name == "gfx942" and element == 16:
        element = 4  # the descriptor has no element size
    swizzle = 1 if element == 4 else 3
    if name == "gfx942":
        b = bench(name, 200, stride=32, swizzle=1, index_stride=index_stride)
    else:
        b = bench(name, 200, stride=32, swizzle=swizzle, index_stride=index_stride, oob=0)
    index, offset = np.arange(b.lanes) * 3, np.arange(b.lanes) % 8 * 4
    b.vector(INDEX, index)
    b.vector(OFFSETS, offset)
    b.scalar(30, 256)
    b.buffer(LOAD[name], vaddr=INDEX, vdata=DATA, idxen=1, offen=1, soffset=30)
    group = (8, 16, 32, 64)[index_stride]
    inside = 256 if name == "gfx1201" else 0
    at = offset + inside
    place = 256 - inside + (index // group * 32 + at // element * element) * group
    place = place + index % group * element + at % element
    if name == "gfx1201":  # the check is of the offset without the scalar one
        assert (offset + 4 <= 32).all()
    assert (loaded(b) == b.words[place // 4]).all()


def test_stride_scale_of_rdna4() -> None:
    for scale, factor in enumerate((1, 4, 8, 32)):
        b = bench("gfx1201", 4096, stride=4, scale=scale, oob=1)
        b.vector(INDEX, np.arange(32))
        b.buffer("BUFFER_LOAD_B32", vaddr=INDEX, vdata=DATA, idxen=1)
        assert (loaded(b) == b.words[np.arange(32) * factor]).all()


@pytest.mark.parametrize("name", [*RDNA, "gfx942"])
def test_the_thread_number_joins_the_index(name: str) -> None:
    extra = {"dfmt": 0} if name == "gfx942" else {"oob": 1, "format": 0}
    b = bench(name, 4096, stride=8, add_tid=1, **extra)
    b.buffer(LOAD[name], vdata=DATA, offset=4)
    assert (loaded(b) == b.words[np.arange(b.lanes) * 2 + 1]).all()


def test_cdna_strides_grow_by_the_data_format() -> None:
    b = bench("gfx942", 4096, stride=8, add_tid=1, dfmt=1)
    b.exec(3)
    b.buffer("BUFFER_LOAD_DWORD", vdata=DATA)
    assert (loaded(b)[:2] == b.words[[0, ((1 << 14) + 8) // 4]]).all()
    converting = bench("gfx942", 4096, stride=8, add_tid=1, dfmt=4)
    converting.buffer("BUFFER_LOAD_FORMAT_X", vdata=DATA)
    assert (loaded(converting) == converting.words[np.arange(64) * 2]).all()


def test_cdna_ignores_low_address_bits_of_dwords() -> None:
    b = bench("gfx942", 4096)
    b.vector(OFFSETS, np.arange(64))
    b.buffer("BUFFER_LOAD_DWORD", vaddr=OFFSETS, vdata=DATA, offen=1)
    assert (loaded(b) == b.words[np.arange(64) // 4]).all()
    b.buffer("BUFFER_LOAD_USHORT", vaddr=OFFSETS, vdata=DATA, offen=1)
    assert (loaded(b) == np.frombuffer(b.data.tobytes()[1:3], np.uint16)[0]).any()


# -- conversion -----------------------------------------------------------------------------------------------

SUFFIXES = ("X", "XY", "XYZ", "XYZW")


def form(name: str, kind: str, count: int, d16: bool, high: bool = False) -> str:
    """The table name of a converting instruction."""
    letters = SUFFIXES[count - 1]
    if name == "gfx942":
        part = "_D16_HI" if high else "_D16" if d16 else ""
        return f"{kind}_FORMAT{part}_{letters}"
    part = "_D16_HI" if high else "_D16" if d16 else ""
    return f"{kind}{part}_FORMAT_{letters}"


def typed_fields(name: str) -> dict[str, int]:
    """The format 8_8_8_8_UNORM."""
    return {"dfmt": 10, "nfmt": 0} if name == "gfx942" else {"format": 42}


@pytest.mark.parametrize("name", [*RDNA, "gfx942"])
@pytest.mark.parametrize("count", range(1, 5))
def test_typed_loads(name: str, count: int) -> None:
    b = bench(name, 4096)
    b.vector(OFFSETS, np.arange(b.lanes) * 4)
    common = {"vaddr": OFFSETS, "vdata": DATA, "offen": 1, **typed_fields(name)}
    b.buffer(form(name, "TBUFFER_LOAD", count, False), **common)
    for k in range(count):
        expected = (b.data[k : 4 * b.lanes : 4].astype(np.float64) / 255).astype(np.float32)
        assert (loaded(b, DATA + k).view(np.float32) == expected).all()
    for k in range(2):
        b.vector(DATA + k, 0xDEADBEEF)
    b.buffer(form(name, "TBUFFER_LOAD", count, True), **common)
    halves = b.batch.vgpr[DATA : DATA + 2, 0].T.copy().view(np.uint16)
    for k in range(count):
        expected16 = (b.data[k : 4 * b.lanes : 4].astype(np.float64) / 255).astype(np.float16)
        assert (halves[:, k].copy().view(np.float16) == expected16).all()
    for k in range(count, 4):  # what is not loaded stays
        assert (halves[:, k] == (0xDEAD if k % 2 else 0xBEEF)).all()


@pytest.mark.parametrize("name", [*RDNA, "gfx942"])
@pytest.mark.parametrize("d16", [False, True])
def test_typed_stores_repeat_the_first_component(name: str, d16: bool) -> None:
    for count in range(1, 5):
        b = bench(name, 4096)
        b.vector(OFFSETS, np.arange(b.lanes) * 4)
        values = [0.0, 1.0, 0.5, 2.0]
        if d16:
            bits = np.array(values, np.float16).view(np.uint32)
            b.vector(DATA, bits[0])
            b.vector(DATA + 1, bits[1])
        else:
            for k in range(4):
                b.vector(DATA + k, np.float32(values[k]).view(np.uint32))
        store = form(name, "TBUFFER_STORE", count, d16)
        b.buffer(store, vaddr=OFFSETS, vdata=DATA, offen=1, **typed_fields(name))
        stored = [0, 255, 128, 255]
        expected = [stored[k] if k < count else stored[0] for k in range(4)]
        assert (b.data[: 4 * b.lanes].reshape(-1, 4) == expected).all()


@pytest.mark.parametrize("name", [*RDNA, "gfx942"])
def test_high_halves(name: str) -> None:
    fields = {"dfmt": 2, "nfmt": 4} if name == "gfx942" else {"format": 11}  # 16_UINT
    b = bench(name, 4096, **fields)
    b.vector(OFFSETS, np.arange(b.lanes) * 2)
    b.vector(DATA, 0x1234)
    b.buffer(form(name, "BUFFER_LOAD", 1, True, True), vaddr=OFFSETS, vdata=DATA, offen=1)
    halves = b.data[: 2 * b.lanes].view(np.uint16).astype(np.uint32)
    assert (loaded(b) == halves << 16 | 0x1234).all()
    b.data[:] = 0
    b.buffer(form(name, "BUFFER_STORE", 1, True, True), vaddr=OFFSETS, vdata=DATA, offen=1)
    assert (b.data[: 2 * b.lanes].view(np.uint16) == halves).all()


@pytest.mark.parametrize("name", [*RDNA, "gfx942"])
def test_selectors_count_for_formats_of_the_descriptor(name: str) -> None:
    select = 1 << 9 | 0 << 6 | 4 << 3 | 5  # X from G, Y from R, Z is 0, W is 1
    fields = {"dfmt": 3, "nfmt": 4} if name == "gfx942" else {"format": 18}  # 8_8_UINT
    b = bench(name, 64, dst_sel=select, **fields)
    b.vector(OFFSETS, np.arange(b.lanes) * 2)
    load = form(name, "BUFFER_LOAD", 4, False)
    b.buffer(load, vaddr=OFFSETS, vdata=DATA, offen=1)
    inside = np.arange(b.lanes) * 2 + 2 <= 64
    pairs = b.data[: 2 * b.lanes].reshape(-1, 2)
    assert (loaded(b) == np.where(inside, pairs[:, 1], 0)).all()
    assert (loaded(b, DATA + 1) == np.where(inside, pairs[:, 0], 0)).all()
    assert (loaded(b, DATA + 2) == 0).all()
    assert (loaded(b, DATA + 3) == 1).all()  # out of range as well
    b.data[:] = 0
    b.vector(DATA, 0x11)
    b.vector(DATA + 1, 0x22)
    b.buffer(form(name, "BUFFER_STORE", 2, False), vaddr=OFFSETS, vdata=DATA, offen=1)
    assert (b.data[:64].reshape(-1, 2) == [0x22, 0x11]).all()
    assert (b.data[64:] == 0).all()


@pytest.mark.parametrize("name", RDNA)
def test_missing_components_of_typed_loads_are_zero(name: str) -> None:
    b = bench(name, 4096, dst_sel=0o1111)
    for k in range(4):
        b.vector(DATA + k, 9)
    b.buffer("TBUFFER_LOAD_FORMAT_XYZW", vdata=DATA, format=27)  # 16_16_UINT
    assert [int(loaded(b, DATA + k)[0]) for k in range(2)] == list(b.data[:4].view(np.uint16))
    assert [int(loaded(b, DATA + k)[0]) for k in (2, 3)] == [0, 0]


@pytest.mark.parametrize("name", [*RDNA, "gfx942"])
def test_an_invalid_format_loads_nothing(name: str) -> None:
    b = bench(name, 4096)
    b.vector(DATA, 5)
    fields = {"dfmt": 0, "nfmt": 0} if name == "gfx942" else {"format": 0}
    b.buffer("TBUFFER_LOAD_FORMAT_X", vdata=DATA, **fields)
    assert (loaded(b) == 0).all()
    before = b.data.copy()
    b.buffer("TBUFFER_STORE_FORMAT_X", vdata=DATA, **fields)
    assert (b.data == before).all()


def test_formats_that_do_not_exist_are_named() -> None:
    b = bench("gfx942", 4096)
    with pytest.raises(IllegalInstruction, match="8_FLOAT"):
        b.buffer("TBUFFER_LOAD_FORMAT_X", vdata=DATA, dfmt=1, nfmt=7)


def test_waves_may_have_different_formats() -> None:
    b = Bench("gfx1100", waves=2)
    b.fill()
    b.scalar(DESCRIPTOR, raw_buffer(b.va, 4096, format=5), 4)  # 8_UINT
    b.batch.sgpr[DESCRIPTOR + 3, 1] = raw_buffer(b.va, 4096, format=11) >> 96  # 16_UINT
    b.buffer("BUFFER_LOAD_FORMAT_X", vdata=DATA)
    assert (b.batch.vgpr[DATA, 0] == b.data[0]).all()
    assert (b.batch.vgpr[DATA, 1] == b.data[:2].view(np.uint16)[0]).all()


def test_lanes_that_are_off_keep_their_registers() -> None:
    b = bench("gfx1100", 4096)
    b.exec(0x0F0F)
    b.vector(DATA, 3)
    b.buffer("TBUFFER_LOAD_FORMAT_X", vdata=DATA, format=20)
    assert (loaded(b)[~np.isin(np.arange(32), (0, 1, 2, 3, 8, 9, 10, 11))] == 3).all()
    assert (loaded(b)[:4] == b.words[0]).all()


def test_accumulation_registers_take_data() -> None:
    b = bench("gfx942", 4096)
    b.buffer("TBUFFER_LOAD_FORMAT_X", vdata=DATA, acc=1, dfmt=4, nfmt=4)
    assert (b.batch.vgpr[256 + DATA, 0] == b.words[0]).all()
    assert (b.batch.vgpr[DATA, 0] == 0).all()


@pytest.mark.parametrize("name", [*RDNA, "gfx942"])
def test_atomics_out_of_range_are_dropped_and_return_zero(name: str) -> None:
    add = "BUFFER_ATOMIC_ADD" if name == "gfx942" else "BUFFER_ATOMIC_ADD_U32"
    returns = {"gfx942": "sc0", "gfx1100": "glc", "gfx1201": "th"}[name]
    b = bench(name, 64)
    b.words[:] = 100
    b.vector(OFFSETS, np.arange(b.lanes) * 4)
    b.vector(DATA, 1)
    b.buffer(add, vaddr=OFFSETS, vdata=DATA, offen=1, **{returns: 1})
    assert (loaded(b)[:16] == 100).all()
    assert (loaded(b)[16:] == 0).all()
    assert (b.words[:16] == 101).all()
    assert (b.words[16:] == 100).all()
