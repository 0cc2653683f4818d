"""Values that move between lanes: DPP, permutations, swizzles, reads and writes of single lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.lanes import compute, compute_run, run
from support.llvm_mc import require_llvm
from support.verdict import assert_same

require_llvm()

RDNA, CDNA = ("gfx1100", "gfx1201"), ("gfx942", "gfx950")
ALL = RDNA + CDNA
WAVES = 6
Lane = Callable[[int], int | None]


def sizes(arch: str) -> tuple[int, ...]:
    return (32, 64) if arch in RDNA else (64,)


def values(size: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, old destination, active lanes."""
    rng = np.random.default_rng(seed)
    data, old = (rng.integers(0, 1 << 32, WAVES * size, np.uint32) for _ in range(2))
    active = rng.random((WAVES, size)) < 0.75
    active[0] = True
    return data, old, active.ravel()


def row(step: Callable[[int], int]) -> Lane:
    """A source inside of the lane's row of 16, or None past its end."""

    def source(lane: int) -> int | None:
        place = step(lane & 15)
        return (lane & ~15) + place if 0 <= place < 16 else None

    return source


def controls(arch: str) -> dict[str, Lane]:
    table: dict[str, Lane] = {
        "quad_perm:[3,0,2,1]": lambda n: (n & ~3) + (3, 0, 2, 1)[n & 3],
        "quad_perm:[1,1,1,1]": lambda n: (n & ~3) + 1,
        "row_shl:1": row(lambda n: n + 1),
        "row_shl:13": row(lambda n: n + 13),
        "row_shr:1": row(lambda n: n - 1),
        "row_shr:15": row(lambda n: n - 15),
        "row_ror:5": row(lambda n: (n - 5) % 16),
        "row_mirror": row(lambda n: 15 - n),
        "row_half_mirror": row(lambda n: n ^ 7),
    }
    if arch in RDNA:
        table["row_share:9"] = row(lambda n: 9)
        table["row_xmask:6"] = row(lambda n: n ^ 6)
        return table
    table["row_newbcast:4"] = row(lambda n: 4)
    table["wave_shl:1"] = lambda n: n + 1 if n < 63 else None
    table["wave_shr:1"] = lambda n: n - 1 if n else None
    table["wave_rol:1"] = lambda n: (n + 1) % 64
    table["wave_ror:1"] = lambda n: (n - 1) % 64
    table["row_bcast:15"] = lambda n: n // 16 * 16 - 1 if n >= 16 else n
    table["row_bcast:31"] = lambda n: 31 if n >= 32 else n
    return table


def shuffled(source: Lane, size: int, data: np.ndarray, old: np.ndarray, active: np.ndarray, end: str) -> np.ndarray:
    """What V_MOV_B32 with a DPP modifier leaves."""
    out = old.copy()
    for i in np.flatnonzero(active):
        lane = int(i) % size
        first = int(i) - lane
        rows, banks = (15, 15) if "mask" not in end else (0b0101, 0b0111)
        if not rows >> (lane // 16 & 3) & 1 or not banks >> (lane // 4 & 3) & 1:
            continue
        at = source(lane)
        if at is not None and (active[first + at] or "fi:1" in end):
            out[i] = data[first + at]
        elif "bound_ctrl" in end:
            out[i] = 0
    return out


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("end", ["", " bound_ctrl:1", " row_mask:0x5 bank_mask:0x7", " bound_ctrl:1 fi:1"])
def test_dpp_controls(arch: str, end: str) -> None:
    if "fi" in end and arch in CDNA:
        return
    spelled = end.replace("bound_ctrl:1", "bound_ctrl:0") if arch in CDNA else end
    masks = "" if "mask" in end else " row_mask:0xf bank_mask:0xf"
    for size in sizes(arch):
        data, old, active = values(size)
        for control, source in controls(arch).items():
            if control.startswith("row_bcast"):
                continue
            text = f"v_mov_b32_dpp {{d}}, {{a}} {control}{masks}{spelled}"
            seen = compute(arch, text, data, old=old, lanes=active, wave_size=size)
            expected = shuffled(source, size, data, old, active, end)
            assert_same(seen, expected, data, old, active, note=f"{arch} wave{size} {text}")


@pytest.mark.parametrize("arch", CDNA)
def test_dpp_broadcasts_across_rows(arch: str) -> None:
    """row_bcast:15 gives lane 15 of each row to the next row, row_bcast:31 lane 31 to the upper rows."""
    data, old, active = values(64)
    active[:] = True
    for control, rows in (("row_bcast:15", 0xA), ("row_bcast:31", 0xC)):
        text = f"v_mov_b32_dpp {{d}}, {{a}} {control} row_mask:{rows:#x} bank_mask:0xf"
        seen = compute(arch, text, data, old=old, lanes=active)
        source = controls(arch)[control]
        lanes = np.arange(len(data)) % 64
        expected = np.array(
            [data[i - n + source(int(n))] if rows >> n // 16 & 1 else old[i] for i, n in enumerate(lanes)]
        )  # type: ignore[operator]
        assert_same(seen, expected, data, note=text)


@pytest.mark.parametrize("arch", RDNA)
def test_dpp8(arch: str) -> None:
    order = [7, 0, 3, 3, 1, 5, 2, 6]
    for size in sizes(arch):
        data, old, active = values(size)
        for end in ("", " fi:1"):
            text = f"v_mov_b32_dpp {{d}}, {{a}} dpp8:[{','.join(map(str, order))}]{end}"
            seen = compute(arch, text, data, old=old, lanes=active, wave_size=size)
            expected = old.copy()
            for i in np.flatnonzero(active):
                at = (int(i) & ~7) + order[int(i) & 7]
                expected[i] = data[at] if active[at] or end else 0
            assert_same(seen, expected, data, old, active, note=text)


@pytest.mark.parametrize("arch", ALL)
def test_single_lanes_mask_their_number(arch: str) -> None:
    for size in sizes(arch):
        data, old, active = values(size)
        select = np.array([0, 5, size - 1, size, size + 3, 0xFFFFFFFF], np.uint32)
        lane = (select % size).astype(int) + np.arange(WAVES) * size
        text = "v_readlane_b32 s20, {a}, s4\n v_readfirstlane_b32 s21, {a}"
        ran = compute_run(arch, text, data, lanes=active, scalars={4: select}, wave_size=size)
        assert_same(ran.scalar(20), data[lane], select, note=f"{arch} {size}")
        first = active.reshape(WAVES, size).argmax(axis=1) + np.arange(WAVES) * size
        assert_same(ran.scalar(21), data[first], select)
        options = {"old": old, "scalars": {4: select}, "lanes": active, "wave_size": size}
        seen = compute(arch, "v_writelane_b32 {d}, 55, s4", data, **options)
        expected = old.copy()
        expected[lane] = 55
        assert_same(seen, expected, old)


def test_first_lane_without_active_lanes_is_lane_zero() -> None:
    data = np.arange(100, 132, dtype=np.uint32)
    ran = compute_run("gfx1100", "v_readfirstlane_b32 s21, {a}", data, lanes=np.zeros(32, np.bool_))
    assert ran.scalar(21)[0] == 100


@pytest.mark.parametrize("arch", RDNA)
def test_permutations_of_rows_by_scalars(arch: str) -> None:
    """Nibble n of 64 selector bits names the source of lane n of each row; permlanex16 reads the other row."""
    low, high = 0x76543210 ^ 0x5A5A5A5A, 0x0FEDCBA9
    for size in sizes(arch):
        data, _, _ = values(size)
        for name, other in (("permlane16", 0), ("permlanex16", 16)):
            seen = compute(arch, f"v_{name}_b32 {{d}}, {{a}}, s4, s5", data, scalars={4: low, 5: high}, wave_size=size)
            place = np.arange(len(data))
            nibble = np.array([(high << 32 | low) >> 4 * (int(n) & 15) & 15 for n in place])
            assert_same(seen, data[((place & ~15) ^ other) + nibble], data, note=name)


@pytest.mark.parametrize("arch", RDNA)
def test_halves_of_a_wave64_are_exchanged(arch: str) -> None:
    data, old, _ = values(64)
    seen = compute(arch, "v_permlane64_b32 {d}, {a}", data, old=old, wave_size=64)
    assert_same(seen, data[np.arange(len(data)) ^ 32], data)


@pytest.mark.parametrize(("name", "distance"), [("permlane16_swap", 16), ("permlane32_swap", 32)])
def test_swapping_rows_between_registers(name: str, distance: int) -> None:
    """Odd rows (or halves) of the first register change places with the even ones of the second."""
    first, second, _ = values(64)
    ran = run("gfx950", f"v_{name}_b32 v2, v8", vectors={2: first, 8: second})
    lanes = np.arange(len(first))
    odd = (lanes & distance) != 0
    assert_same(ran.words(2), np.where(odd, second[lanes ^ distance], first), first, second)
    assert_same(ran.words(8), np.where(odd, second, first[lanes ^ distance]), first, second)


# -- through the LDS crossbar -----------------------------------------------------------------------------------------


def group(arch: str, size: int) -> int:
    """Lanes that a permutation reaches: gfx11 stays inside of 32."""
    return 32 if arch == "gfx1100" else size


@pytest.mark.parametrize("arch", ALL)
def test_pulling_and_pushing_lanes(arch: str) -> None:
    for size in sizes(arch):
        data, old, active = values(size)
        rng = np.random.default_rng(4)
        address = rng.integers(0, 1 << 10, len(data), np.uint32)
        reach = group(arch, size)
        lanes = np.arange(len(data))
        first = lanes - lanes % reach
        pulled = compute(arch, "ds_bpermute_b32 {d}, {a}, {b}", address, data, old=old, lanes=active, wave_size=size)
        at = first + address // 4 % reach
        expected = np.where(active, np.where(active[at], data[at], 0), old)
        assert_same(pulled, expected, address, data, note=f"{arch} wave{size} bpermute")
        order = np.concatenate([rng.permutation(reach) for _ in range(len(data) // reach)]).astype(np.uint32)
        target = order * np.uint32(4)
        text = "ds_permute_b32 {d}, {a}, {b}"
        pushed = compute(arch, text, target, data, old=old, lanes=active, wave_size=size)
        expected = np.where(active, 0, old).astype(np.uint32)
        for i in np.flatnonzero(active):
            to = int(first[i]) + int(order[i])
            if active[to]:
                expected[to] = data[i]
        assert_same(pushed, expected, order, data, note=f"{arch} wave{size} permute")


@pytest.mark.parametrize("arch", ALL)
def test_swizzles(arch: str) -> None:
    patterns = {
        0x8000 | 0b01_00_11_10: lambda n: (n & ~3) + (0b01_00_11_10 >> 2 * (n & 3) & 3),
        0x1F | 1 << 10: lambda n: n ^ 1,
        0x1C | 3 << 5: lambda n: n & 0x1C | 3,
        0x10 | 2 << 5 | 0x1F << 10: lambda n: ((n & 0x10) | 2) ^ 0x1F,
    }
    for size in sizes(arch):
        data, old, active = values(size)
        for offset, step in patterns.items():
            text = f"ds_swizzle_b32 {{d}}, {{a}} offset:{offset}"
            seen = compute(arch, text, data, old=old, lanes=active, wave_size=size)
            lanes = np.arange(len(data))
            at = np.array([(int(n) & ~31) + step(int(n) & 31) for n in lanes])
            expected = np.where(active, np.where(active[at], data[at], 0), old)
            assert_same(seen, expected, data, active, note=f"{arch} wave{size} {offset:#x}")
