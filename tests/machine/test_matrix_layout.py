"""The layout rules agree with the published register maps of 276 instructions and with the manuals' tables."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mockgpu.machine import matrix_layout
from mockgpu.machine.matrix_layout import Layout
from mockgpu.machine.matrix_ops import MatrixError, Operands, matrix_op, operands

MAPS = Path(__file__).parents[3] / "shared" / "matrix_layouts.json"
TARGET_OF = {"gfx11": "gfx1100", "gfx12": "gfx1201"}
needs_maps = pytest.mark.skipif(not MAPS.exists(), reason=f"register maps are absent ({MAPS})")


@cache
def maps() -> dict[str, Any]:
    return json.loads(MAPS.read_text())


def entries() -> list[Any]:
    if not MAPS.exists():
        return []
    names = (f"{n}-{e['gfx']}-{e['op']}-{e['wave']}" for n, e in enumerate(maps()["ops"]))
    return [pytest.param(e, id=name) for e, name in zip(maps()["ops"], names, strict=True)]


def ours(entry: dict[str, Any]) -> Operands:
    op = matrix_op(TARGET_OF.get(entry["gfx"], entry["gfx"]), entry["op"])
    assert (op.m, op.n, op.k, op.blocks, op.sparse) == tuple(entry[key] for key in ("M", "N", "K", "blocks", "sparse"))
    formats = op.formats(entry["cbsz"], entry["blgp"]) if op.f8f6f4 else op.formats()
    return operands(op, entry["wave"], *formats)


def places(basis: list[list[int]]) -> list[tuple[int, int]]:
    """Places of 0, 1, 2, ... of one coordinate."""
    out = [(0, 0)]
    for lane, bit in basis:
        out += [(at + lane, offset + bit) for at, offset in out]
    return out


def steps_of(layout: Layout) -> dict[str, list[list[int]]]:
    return {
        "row": [list(step) for step in layout.row],
        "col": [list(step) for step in layout.col],
        "block": [list(step) for step in layout.block],
    }


def same_outside_k(entry: dict[str, Any], what: str, layout: Layout, row: str, col: str | None) -> None:
    theirs = entry[what]
    mine = steps_of(layout)
    assert theirs["base"] == [0, 0]
    assert theirs["basis"][row] == mine["row"]
    assert theirs["basis"].get("block", []) == mine["block"]
    if col is not None:
        assert theirs["basis"][col] == mine["col"]


def order_of(mine: list[list[int]], theirs: list[list[int]]) -> list[int]:
    """For each of their coordinate values, ours at the same place."""
    at = {place: n for n, place in enumerate(places(mine))}
    return [at[place] for place in places(theirs)]


@needs_maps
@pytest.mark.parametrize("entry", entries())
def test_register_map(entry: dict[str, Any]) -> None:
    found = ours(entry)
    same_outside_k(entry, "D", found.cd, "i", "j")
    assert entry["D"]["bits"] == found.cd.bits
    same_outside_k(entry, "A", found.a, "i", None)
    same_outside_k(entry, "B", found.b, "j", None)
    b_order = order_of(steps_of(found.b)["col"], entry["B"]["basis"]["k"])
    if not entry["sparse"]:
        a_order = order_of(steps_of(found.a)["col"], entry["A"]["basis"]["k"])
        assert a_order == b_order
        return
    # groups of four K: the same order in A, B and the index
    a_order = order_of(steps_of(found.a)["col"][1:], entry["A"]["basis"]["kg"])
    assert found.index is not None
    index_order = order_of(steps_of(found.index.fields)["col"], entry["IDX"]["basis"]["kg"])
    assert a_order == index_order
    assert b_order == [4 * group + n for group in a_order for n in range(4)]
    assert entry["IDX"]["basis"]["i"] == steps_of(found.index.fields)["row"]


@needs_maps
@pytest.mark.parametrize("entry", entries())
def test_k_is_numbered_as_the_calculator_numbers_it(entry: dict[str, Any]) -> None:
    if entry["source_kind"] != "calculator":
        assert "evidence" in entry  # packings of tests: compared up to the order of K above
        return
    found = ours(entry)
    k_of_a = entry["A"]["basis"]["kg" if entry["sparse"] else "k"]
    assert steps_of(found.a)["col"][1 if entry["sparse"] else 0 :] == k_of_a
    assert steps_of(found.b)["col"] == entry["B"]["basis"]["k"]


@needs_maps
@pytest.mark.parametrize("entry", entries())
def test_index_sets(entry: dict[str, Any]) -> None:
    found = ours(entry)
    bases = {int(key[-1]): value["base"] for key, value in entry.items() if key.startswith("IDX@")}
    if not bases:
        return
    assert found.index is not None
    assert sorted(bases) == list(range(1, found.index.sets))
    assert all(base == [0, number * found.index.set_bits] for number, base in bases.items())


@needs_maps
def test_halves_of_16_bit_results() -> None:
    others = [entry["D@opsel4"] for entry in maps()["ops"] if "D@opsel4" in entry]
    assert len(others) == 4
    assert all(other["base"] == [0, 16] for other in others)


@needs_maps
def test_lane_selection_of_b() -> None:
    for blgp, lanes in maps()["blgp_lane_source"].items():
        assert matrix_layout.blgp_lanes(int(blgp)).tolist() == lanes


@needs_maps
def test_scale_lanes() -> None:
    scaled = [entry for entry in maps()["ops"] if "SCALE_A" in entry]
    assert {entry["SCALE_A"]["lane"] for entry in scaled} == {"16*kb + i", "32*kb + i"}
    for dim, blocks in ((16, 4), (32, 2)):
        lanes = matrix_layout.scale_lanes(dim, blocks)
        assert lanes.tolist() == [[dim * kb + i for kb in range(blocks)] for i in range(dim)]


def test_lane_selection_of_a_follows_the_manual() -> None:
    """CDNA4 manual, "CBSZ and ABID": with CBSZ = 2, ABID = 1 lanes 16 to 31 are broadcast."""
    assert matrix_layout.cbsz_lanes(2, 1).tolist() == [16 + lane % 16 for lane in range(64)]
    assert matrix_layout.cbsz_lanes(1, 1).tolist() == [32 + lane % 32 for lane in range(64)]
    assert matrix_layout.cbsz_lanes(3, 0).tolist() == [lane % 8 for lane in range(64)]


@pytest.mark.parametrize("wave_size", [32, 64])
@pytest.mark.parametrize("name", ["V_WMMA_F32_16X16X16_F16", "V_SWMMAC_I32_16X16X64_IU4", "V_SWMMAC_F16_16X16X32_F16"])
def test_every_element_has_a_place_of_its_own(name: str, wave_size: int) -> None:
    found = operands(matrix_op("gfx1201", name), wave_size, *matrix_op("gfx1201", name).formats())
    for layout in (found.a, found.b, found.cd):
        lane, bit = layout.places()
        assert len(set(zip(lane.ravel().tolist(), bit.ravel().tolist(), strict=True))) == lane.size
        assert lane.max() < wave_size
        assert np.all(bit + layout.bits <= 32 * layout.registers)


def test_manual_table_of_int8_16x16x64() -> None:
    """CDNA4 manual, A layout of IU8 16x16x64: lane 16 holds K 16 to 19 in its first register."""
    found = operands(matrix_op("gfx950", "V_MFMA_I32_16X16X64_I8"), 64, "i8", "i8")
    lane, bit = found.a.places()
    assert (lane[0, 3, 16], bit[0, 3, 16]) == (19, 0)
    assert (lane[0, 3, 63], bit[0, 3, 63]) == (51, 32 * 3 + 24)


def test_wave_sizes_that_do_not_exist() -> None:
    op = matrix_op("gfx942", "V_MFMA_F32_32X32X8_F16")
    with pytest.raises(MatrixError, match="32 lanes"):
        operands(op, 32, "f16", "f16")
