"""Atomic operations on LDS and memory, with addresses of their own and with one address for all lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support import exact, shaped
from support.exact import F32, F64, PLAIN
from support.kernels import Block
from support.lanes import RESULT, default_wave, run
from support.llvm_mc import require_llvm
from support.verdict import assert_same

from mockgpu.machine.memory import Memory

require_llvm()

RDNA, CDNA = ("gfx1100", "gfx1201"), ("gfx942", "gfx950")
ALL = RDNA + CDNA
M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def s(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) else x


#: name on RDNA, on CDNA's LDS, on CDNA's memory: the new value from the old one and the operand.
STEPS: list[tuple[str, str, str, Callable[[int, int, int], int]]] = [
    ("add_u", "add_u", "add", lambda m, x, b: m + x),
    ("sub_u", "sub_u", "sub", lambda m, x, b: m - x),
    ("min_i", "min_i", "smin", lambda m, x, b: min(m, x, key=lambda v: s(v, b))),
    ("max_i", "max_i", "smax", lambda m, x, b: max(m, x, key=lambda v: s(v, b))),
    ("min_u", "min_u", "umin", lambda m, x, b: min(m, x)),
    ("max_u", "max_u", "umax", lambda m, x, b: max(m, x)),
    ("and_b", "and_b", "and", lambda m, x, b: m & x),
    ("or_b", "or_b", "or", lambda m, x, b: m | x),
    ("xor_b", "xor_b", "xor", lambda m, x, b: m ^ x),
    ("inc_u", "inc_u", "inc", lambda m, x, b: 0 if m >= x else m + 1),
    ("dec_u", "dec_u", "dec", lambda m, x, b: x if m == 0 or m > x else m - 1),
]
IDS = [step[0] for step in STEPS]


def _data(bits: int) -> tuple[np.ndarray, np.ndarray]:
    start, operand = shaped.integer_tuples(bits, bits, count=200)
    pick = np.random.default_rng(6).permutation(len(start))[:256]
    return start[pick], operand[pick]


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("rdna", "cdna", "_", "step"), STEPS, ids=IDS)
def test_lds_atomics_with_own_addresses(
    arch: str, rdna: str, cdna: str, _: str, step: Callable[[int, int, int], int], bits: int
) -> None:
    start, operand = _data(bits)
    size = bits // 8
    name = rdna if arch in RDNA else cdna
    address = np.random.default_rng(1).permutation(len(start)).astype(np.uint32) * np.uint32(size)
    x, d, old = ("v[8:9]", f"v[{RESULT}:{RESULT + 1}]", "v[14:15]") if bits == 64 else ("v8", f"v{RESULT}", "v14")
    kind, store, load = f"b{bits}", "store" if arch in RDNA else "write", "load" if arch in RDNA else "read"
    wait = "s_wait_dscnt 0" if arch == "gfx1201" else "s_waitcnt lgkmcnt(0)"
    text = (
        f"ds_{store}_{kind} v2, {old}\n{wait}\nds_{name}{bits} v2, {x}\n{wait}\nds_{load}_{kind} {d}, v2\n"
        f"ds_{store}_{kind} v2, {old}\n{wait}\nds_{name.replace('_', '_rtn_')}{bits} v[38:39], v2, {x}\n{wait}\n"
    )
    if bits == 32:
        text = text.replace("v[38:39]", "v38")
    ran = run(arch, text, vectors={2: address, 8: operand, 14: start}, lds=4096)
    every = (1 << bits) - 1
    expected = np.array([step(int(m), int(x), bits) & every for m, x in zip(start, operand, strict=True)], start.dtype)
    seen, before = (ran.pairs(r) if bits == 64 else ran.words(r) for r in (RESULT, 38))
    assert_same(seen, expected, start, operand, note=f"{arch} {name}{bits}")
    assert_same(before, start, start, operand, note=f"{arch} {name}{bits} old")


def memory_name(arch: str, rdna: str, plain: str, bits: int) -> str:
    return f"global_atomic_{rdna}{bits}" if arch in RDNA else f"global_atomic_{plain}{'_x2' if bits == 64 else ''}"


RETURNING = {"gfx1100": "glc", "gfx1201": "th:TH_ATOMIC_RETURN", "gfx942": "sc0", "gfx950": "sc0"}


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("rdna", "_", "plain", "step"), STEPS, ids=IDS)
def test_memory_atomics_with_own_addresses(
    arch: str, rdna: str, _: str, plain: str, step: Callable[[int, int, int], int], bits: int
) -> None:
    start, operand = _data(bits)
    memory = Memory()
    block = Block(memory, 4096)
    words = block.bytes.view(start.dtype)
    order = np.random.default_rng(1).permutation(len(start))
    words[order] = start
    x, d = ("v[8:9]", f"v[{RESULT}:{RESULT + 1}]") if bits == 64 else ("v8", f"v{RESULT}")
    text = f"{memory_name(arch, rdna, plain, bits)} {d}, v2, {x}, s[4:5] {RETURNING[arch]}"
    address = (order * (bits // 8)).astype(np.uint32)
    scalars = {4: block.va & M32, 5: block.va >> 32}
    ran = run(arch, text, vectors={2: address, 8: operand}, scalars=scalars, memory=memory)
    every = (1 << bits) - 1
    expected = np.array([step(int(m), int(v), bits) & every for m, v in zip(start, operand, strict=True)], start.dtype)
    assert_same(words[order], expected, start, operand, note=text)
    assert_same(ran.pairs(RESULT) if bits == 64 else ran.words(RESULT), start, start, operand, note=text)


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("rdna", "_", "plain", "step"), STEPS[:9], ids=IDS[:9])
def test_one_address_for_all_lanes(
    arch: str, rdna: str, _: str, plain: str, step: Callable[[int, int, int], int], bits: int
) -> None:
    """The operations commute (subtraction too, in its operands), so the order of the lanes does not show."""
    size = default_wave(arch)
    operand = shaped.runs(np.random.default_rng(2), bits, 2 * size)
    active = np.random.default_rng(3).random(2 * size) < 0.8
    memory = Memory()
    block = Block(memory, 4096)
    words = block.bytes.view(operand.dtype)
    words[3] = 0x1234567
    x, d = ("v[8:9]", f"v[{RESULT}:{RESULT + 1}]") if bits == 64 else ("v8", f"v{RESULT}")
    text = f"{memory_name(arch, rdna, plain, bits)} {d}, v2, {x}, s[4:5] {RETURNING[arch]}"
    address = np.full(2 * size, 3 * bits // 8, np.uint32)
    scalars = {4: block.va & M32, 5: block.va >> 32}
    ran = run(arch, text, vectors={2: address, 8: operand}, scalars=scalars, memory=memory, lanes=active)
    value = 0x1234567
    for v in operand[active]:
        value = step(value, int(v), bits) & ((1 << bits) - 1)
    assert int(words[3]) == value, text
    before = (ran.pairs(RESULT) if bits == 64 else ran.words(RESULT))[active]
    assert 0x1234567 in before.tolist(), text


@pytest.mark.parametrize("arch", ALL)
def test_equal_addresses_hand_out_every_number_once(arch: str) -> None:
    size = default_wave(arch)
    one = np.ones(3 * size, np.uint32)
    wait = "s_wait_dscnt 0" if arch == "gfx1201" else "s_waitcnt lgkmcnt(0)"
    text = f"ds_add_rtn_u32 v{RESULT}, v2, v8 offset:8\n{wait}"
    ran = run(arch, text, vectors={2: np.zeros(3 * size, np.uint32), 8: one}, lds=64)
    assert sorted(ran.words(RESULT)) == list(range(3 * size))


@pytest.mark.parametrize("arch", ALL)
def test_exchange_and_compare(arch: str) -> None:
    start, operand = _data(32)
    memory = Memory()
    block = Block(memory, 4096)
    words = block.bytes.view(np.uint32)
    words[: len(start)] = start
    compare = np.where(np.arange(len(start)) % 2 == 0, start, start ^ np.uint32(1))
    swap = "swap_b32" if arch in RDNA else "swap"
    both = "cmpswap_b32" if arch in RDNA else "cmpswap"
    address = np.arange(len(start), dtype=np.uint32) * np.uint32(4)
    scalars = {4: block.va & M32, 5: block.va >> 32}
    text = f"global_atomic_{both} v{RESULT}, v2, v[8:9], s[4:5] {RETURNING[arch]}"
    ran = run(arch, text, vectors={2: address, 8: operand, 9: compare}, scalars=scalars, memory=memory)
    expected = np.where(compare == start, operand, start)
    assert_same(words[: len(start)], expected, start, operand, compare)
    assert_same(ran.words(RESULT), start, start)
    text = f"global_atomic_{swap} v{RESULT}, v2, v8, s[4:5] {RETURNING[arch]}"
    ran = run(arch, text, vectors={2: address, 8: compare}, scalars=scalars, memory=memory)
    assert_same(words[: len(start)], compare, start)
    assert_same(ran.words(RESULT), expected, start)


@pytest.mark.parametrize("arch", ALL)
def test_float_sums_in_lds(arch: str) -> None:
    """Denormals follow MODE, the rounding mode does not count."""
    start, operand = shaped.float_pairs(F32, count=100)
    start, operand = start[:1024], operand[:1024]
    address = np.arange(len(start), dtype=np.uint32) * np.uint32(4)
    store, load = ("store", "load") if arch in RDNA else ("write", "read")
    wait = "s_wait_dscnt 0" if arch == "gfx1201" else "s_waitcnt lgkmcnt(0)"
    text = f"ds_{store}_b32 v2, v14\n{wait}\nds_add_f32 v2, v8\n{wait}\nds_{load}_b32 v{RESULT}, v2\n{wait}"
    for mode in (PLAIN, exact.Mode(denorm32=0), exact.Mode(round32=3, round64=3)):
        nearest = exact.Mode(denorm32=mode.denorm32)
        ran = run(arch, text, vectors={2: address, 8: operand, 14: start}, lds=8192, mode=mode.register)
        expected = exact.each(F32, lambda m, x, n=nearest: exact.add(F32, n, m, x), start, operand)
        seen = ran.words(RESULT)
        for array in (seen, expected):
            nan = (array & np.uint32(0x7FFFFFFF)) > np.uint32(F32.inf)
            array[nan] = F32.nan
        assert_same(seen, expected, start, operand, note=f"{arch} {mode}")


@pytest.mark.parametrize("arch", CDNA)
def test_double_sums_in_memory(arch: str) -> None:
    start, operand = shaped.float_pairs(F64, count=100)
    start, operand = start[:500], operand[:500]
    keep = [F64.is_finite(int(x)) and F64.is_finite(int(y)) for x, y in zip(start, operand, strict=True)]
    start, operand = start[keep], operand[keep]
    memory = Memory()
    block = Block(memory, 8192)
    words = block.bytes.view(np.uint64)
    words[: len(start)] = start
    address = np.arange(len(start), dtype=np.uint32) * np.uint32(8)
    scalars = {4: block.va & M32, 5: block.va >> 32}
    text = "global_atomic_add_f64 v2, v[8:9], s[4:5]"
    run(arch, text, vectors={2: address, 8: operand}, scalars=scalars, memory=memory, mode=PLAIN.register)
    expected = exact.each(F64, lambda m, x: exact.add(F64, PLAIN, m, x), start, operand)
    assert_same(words[: len(start)], expected, start, operand)
