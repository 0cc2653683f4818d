"""Integer instructions against Python's integers: arithmetic, bit fields, shifts, sums of differences, selections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from support import shaped
from support.lanes import RESULT, compute, compute_run, run
from support.llvm_mc import require_llvm
from support.verdict import assert_same

require_llvm()

RDNA, CDNA = ("gfx1100", "gfx1201"), ("gfx942", "gfx950")
ALL = RDNA + CDNA
M16, M32, M64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1


def s(x: int, bits: int = 32) -> int:
    """The two's complement number of the low bits of a pattern."""
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def mid(*x: int) -> int:
    return sorted(x)[1]


def byte(x: int, n: int) -> int:
    return x >> 8 * n & 255


def bits_of(x: int, width: int) -> str:
    return format(x, f"0{width}b")


def sad8(a: int, b: int) -> int:
    return sum(abs(byte(a, n) - byte(b, n)) for n in range(4))


def msad8(a: int, b: int) -> int:
    """Bytes of the reference (b) that are zero do not count."""
    return sum(abs(byte(a, n) - byte(b, n)) for n in range(4) if byte(b, n))


def first_one(x: int) -> int:
    return (x & -x).bit_length() - 1


def leading_signs(x: int) -> int:
    text = bits_of(x, 32)
    return next((n for n, c in enumerate(text) if c != text[0]), -1)


def permuted(a: int, b: int, select: int) -> int:
    data, out = a << 32 | b, 0
    for n in range(4):
        pick = byte(select, n)
        if pick < 8:
            value = byte(data, pick)
        elif pick < 12:
            value = 255 * (data >> (16 * (pick - 8) + 15) & 1)
        else:
            value = 0 if pick == 12 else 255
        out |= value << 8 * n
    return out


def field(x: int, offset: int, width: int, signed: bool) -> int:
    offset, width = offset & 31, width & 31
    if width == 0:
        return 0
    if signed:
        return s(s(x) >> offset, width)
    return x >> offset & ((1 << width) - 1)


def quad_sad(a: int, b: int, c: int, step: Callable[[int, int], int], saturate: bool) -> int:
    """Four sums over windows of a 64-bit operand, one byte apart, added to 16-bit accumulators."""
    out = 0
    for n in range(4):
        total = (c >> 16 * n & M16) + step(a >> 8 * n & M32, b)
        out |= (min(total, M16) if saturate else total & M16) << 16 * n
    return out


@dataclass(frozen=True)
class Case:
    """An opcode: its name on RDNA and on CDNA ("" where it is missing), widths of sources, the result."""

    rdna: str
    cdna: str
    widths: tuple[int, ...]
    result: Callable[..., int]
    bits: int = 32
    text: str = ""

    def name(self, arch: str) -> str:
        return self.rdna if arch in RDNA else self.cdna


W, WW, WWW = (32,), (32, 32), (32, 32, 32)
H, HH, HHH = (16,), (16, 16), (16, 16, 16)


def same(name: str, *rest: object, **more: object) -> Case:
    return Case(name, name, *rest, **more)  # type: ignore[arg-type]


CASES = [
    # arithmetic
    Case("add_nc_u32", "add_u32", WW, lambda a, b: a + b),
    Case("sub_nc_u32", "sub_u32", WW, lambda a, b: a - b),
    Case("subrev_nc_u32", "subrev_u32", WW, lambda a, b: b - a),
    Case("add_nc_i32", "add_i32", WW, lambda a, b: a + b),
    Case("sub_nc_i32", "sub_i32", WW, lambda a, b: a - b),
    Case("add_nc_u16", "add_u16", HH, lambda a, b: a + b, 16),
    Case("sub_nc_u16", "sub_u16", HH, lambda a, b: a - b, 16),
    Case("", "subrev_u16", HH, lambda a, b: b - a, 16),
    Case("add_nc_i16", "add_i16", HH, lambda a, b: a + b, 16),
    Case("sub_nc_i16", "sub_i16", HH, lambda a, b: a - b, 16),
    same("add3_u32", WWW, lambda a, b, c: a + b + c),
    same("add_lshl_u32", WWW, lambda a, b, c: (a + b & M32) << (c & 31)),
    same("lshl_add_u32", WWW, lambda a, b, c: (a << (b & 31)) + c),
    same("xad_u32", WWW, lambda a, b, c: (a ^ b) + c),
    same("mul_lo_u32", WW, lambda a, b: a * b),
    same("mul_hi_u32", WW, lambda a, b: a * b >> 32),
    same("mul_hi_i32", WW, lambda a, b: s(a) * s(b) >> 32),
    same("mul_u32_u24", WW, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    same("mul_hi_u32_u24", WW, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32),
    same("mul_i32_i24", WW, lambda a, b: s(a, 24) * s(b, 24)),
    same("mul_hi_i32_i24", WW, lambda a, b: s(a, 24) * s(b, 24) >> 32),
    same("mul_lo_u16", HH, lambda a, b: a * b, 16),
    same("mad_u32_u24", WWW, lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    same("mad_i32_i24", WWW, lambda a, b, c: s(a, 24) * s(b, 24) + c),
    same("mad_u16", HHH, lambda a, b, c: a * b + c, 16),
    same("mad_i16", HHH, lambda a, b, c: a * b + c, 16),
    same("mad_u32_u16", (16, 16, 32), lambda a, b, c: a * b + c),
    same("mad_i32_i16", (16, 16, 32), lambda a, b, c: s(a, 16) * s(b, 16) + c),
    # bits
    same("and_b32", WW, lambda a, b: a & b),
    same("or_b32", WW, lambda a, b: a | b),
    same("xor_b32", WW, lambda a, b: a ^ b),
    same("xnor_b32", WW, lambda a, b: ~(a ^ b)),
    same("not_b32", W, lambda a: ~a),
    Case("xor3_b32", "", WWW, lambda a, b, c: a ^ b ^ c),
    same("or3_b32", WWW, lambda a, b, c: a | b | c),
    same("and_or_b32", WWW, lambda a, b, c: a & b | c),
    same("lshl_or_b32", WWW, lambda a, b, c: a << (b & 31) | c),
    Case("and_b16", "", HH, lambda a, b: a & b, 16),
    Case("or_b16", "", HH, lambda a, b: a | b, 16),
    Case("xor_b16", "", HH, lambda a, b: a ^ b, 16),
    Case("not_b16", "", H, lambda a: ~a, 16),
    same("bfe_u32", WWW, lambda a, b, c: field(a, b, c, False)),
    same("bfe_i32", WWW, lambda a, b, c: field(a, b, c, True)),
    same("bfi_b32", WWW, lambda a, b, c: a & b | ~a & c),
    same("bfm_b32", WW, lambda a, b: ((1 << (a & 31)) - 1) << (b & 31)),
    same("bfrev_b32", W, lambda a: int(bits_of(a, 32)[::-1], 2)),
    same("bcnt_u32_b32", WW, lambda a, b: a.bit_count() + b),
    Case("clz_i32_u32", "ffbh_u32", W, lambda a: 32 - a.bit_length() if a else -1),
    Case("ctz_i32_b32", "ffbl_b32", W, lambda a: first_one(a) if a else -1),
    Case("cls_i32", "ffbh_i32", W, leading_signs),
    same("perm_b32", WWW, permuted),
    same("alignbit_b32", WWW, lambda a, b, c: (a << 32 | b) >> (c & 31)),
    same("alignbyte_b32", WWW, lambda a, b, c: (a << 32 | b) >> 8 * (c & 3)),
    # shifts
    same("lshlrev_b32", WW, lambda a, b: b << (a & 31)),
    same("lshrrev_b32", WW, lambda a, b: b >> (a & 31)),
    same("ashrrev_i32", WW, lambda a, b: s(b) >> (a & 31)),
    same("lshlrev_b16", HH, lambda a, b: b << (a & 15), 16),
    same("lshrrev_b16", HH, lambda a, b: b >> (a & 15), 16),
    same("ashrrev_i16", HH, lambda a, b: s(b, 16) >> (a & 15), 16),
    same("lshlrev_b64", (32, 64), lambda a, b: b << (a & 63), 64),
    same("lshrrev_b64", (32, 64), lambda a, b: b >> (a & 63), 64),
    same("ashrrev_i64", (32, 64), lambda a, b: s(b, 64) >> (a & 63), 64),
    # minimum, maximum, median
    *(same(f"{n}_u32", WW, f) for n, f in (("min", min), ("max", max))),
    *(same(f"{n}_i32", WW, lambda a, b, f=f: f(s(a), s(b))) for n, f in (("min", min), ("max", max))),
    *(same(f"{n}_u16", HH, f, 16) for n, f in (("min", min), ("max", max))),
    *(same(f"{n}_i16", HH, lambda a, b, f=f: f(s(a, 16), s(b, 16)), 16) for n, f in (("min", min), ("max", max))),
    *(same(f"{n}3_u32", WWW, f) for n, f in (("min", min), ("max", max), ("med", mid))),
    *(
        same(f"{n}3_i32", WWW, lambda a, b, c, f=f: f(s(a), s(b), s(c)))
        for n, f in (("min", min), ("max", max), ("med", mid))
    ),
    *(same(f"{n}3_u16", HHH, f, 16) for n, f in (("min", min), ("max", max), ("med", mid))),
    *(
        same(f"{n}3_i16", HHH, lambda a, b, c, f=f: f(s(a, 16), s(b, 16), s(c, 16)), 16)
        for n, f in (("min", min), ("max", max), ("med", mid))
    ),
    Case("maxmin_u32", "", WWW, lambda a, b, c: min(max(a, b), c)),
    Case("minmax_u32", "", WWW, lambda a, b, c: max(min(a, b), c)),
    Case("maxmin_i32", "", WWW, lambda a, b, c: min(max(s(a), s(b)), s(c))),
    Case("minmax_i32", "", WWW, lambda a, b, c: max(min(s(a), s(b)), s(c))),
    # sums of absolute differences, bytes
    same("sad_u8", WWW, lambda a, b, c: sad8(a, b) + c),
    same("sad_hi_u8", WWW, lambda a, b, c: (sad8(a, b) << 16) + c),
    same("sad_u16", WWW, lambda a, b, c: abs((a & M16) - (b & M16)) + abs((a >> 16) - (b >> 16)) + c),
    same("sad_u32", WWW, lambda a, b, c: abs(a - b) + c),
    same("msad_u8", WWW, lambda a, b, c: msad8(a, b) + c),
    same("qsad_pk_u16_u8", (64, 32, 64), lambda a, b, c: quad_sad(a, b, c, sad8, False), 64),
    same("mqsad_pk_u16_u8", (64, 32, 64), lambda a, b, c: quad_sad(a, b, c, msad8, False), 64),
    same(
        "lerp_u8",
        WWW,
        lambda a, b, c: sum(((byte(a, n) + byte(b, n) + (byte(c, n) & 1)) >> 1) << 8 * n for n in range(4)),
    ),
    same("sat_pk_u8_i16", W, lambda a: min(max(s(a, 16), 0), 255) | min(max(s(a >> 16, 16), 0), 255) << 8, 16),
    Case("", "lshl_add_u64", (64, 32, 64), lambda a, b, c: (a << (b & 7) if b & 7 <= 4 else 0) + c, 64, text="small"),
    same("pack_b32_f16", HH, lambda a, b: a | b << 16, text="no denormal flush"),
]


def arch_cases() -> list[object]:
    return [pytest.param(arch, c, id=f"{arch}-{c.name(arch)}") for c in CASES for arch in ALL if c.name(arch)]


@pytest.mark.parametrize(("arch", "case"), arch_cases())
def test_integer_instructions(arch: str, case: Case) -> None:
    sources = shaped.integer_tuples(*case.widths, count=400)
    if case.name(arch) == "perm_b32":
        rng = np.random.default_rng(1)
        sources[2] = (
            rng.integers(0, 16, (4, len(sources[2])), np.uint32) << (8 * np.arange(4, dtype=np.uint32))[:, None]
        ).sum(0, dtype=np.uint32)
    if case.text == "small":
        sources[1] = sources[1] % np.uint32(5)
    names = ", ".join(f"{{{x}}}" for x in "abc"[: len(sources)])
    garbage = np.uint32(0xA5A50000)
    given = [x | garbage if w == 16 else x for x, w in zip(sources, case.widths, strict=True)]
    mode = 0x3F0 if case.text else 0x3C0
    text = f"v_{case.name(arch)} {{d}}, {names}"
    if case.text == "no denormal flush":
        keep = [[(int(v) & 0x7FFF) <= 0x7C00 for v in x] for x in sources]
        given = [x[np.logical_and(*keep)] for x in given]
        sources = [x[np.logical_and(*keep)] for x in sources]
    seen = compute(arch, text, *given, bits=case.bits, mode=mode)
    every = (1 << case.bits) - 1
    expected = np.array([case.result(*map(int, row)) & every for row in zip(*sources, strict=True)], seen.dtype)
    assert_same(seen, expected, *sources, note=text)


# -- 64 bits of a product, carries ------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("signed", [False, True], ids=["u64", "i64"])
def test_multiply_add_to_64_bits_with_carry(arch: str, signed: bool) -> None:
    a, b, c = shaped.integer_tuples(32, 32, 64)
    kind = ("i64", "i32") if signed else ("u64", "u32")
    co = "co_" if arch == "gfx1201" else ""
    mask = "s20" if arch in RDNA else "s[20:21]"

    ran = compute_run(arch, f"v_mad_{co}{kind[0]}_{kind[1]} {{d}}, {mask}, {{a}}, {{b}}, {{c}}", a, b, c, bits=64)
    exactly = [
        (s(int(x)) * s(int(y)) + s(int(z), 64)) if signed else int(x) * int(y) + int(z)
        for x, y, z in zip(a, b, c, strict=True)
    ]
    assert_same(ran.pairs(RESULT), np.array([v & M64 for v in exactly], np.uint64), a, b, c)
    if not signed:
        assert_same(ran.mask(20), np.array([v > M64 for v in exactly]), a, b, c)


#: name on RDNA, on CDNA, the sum, whether a carry comes in.
CARRY = [
    ("add_co_u32", "add_co_u32", lambda a, b, c: a + b, False),
    ("sub_co_u32", "sub_co_u32", lambda a, b, c: a - b, False),
    ("subrev_co_u32", "subrev_co_u32", lambda a, b, c: b - a, False),
    ("add_co_ci_u32", "addc_co_u32", lambda a, b, c: a + b + c, True),
    ("sub_co_ci_u32", "subb_co_u32", lambda a, b, c: a - b - c, True),
    ("subrev_co_ci_u32", "subbrev_co_u32", lambda a, b, c: b - a - c, True),
]


@pytest.mark.parametrize("wave", [32, 64])
@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize(("rdna", "cdna", "step", "takes"), CARRY, ids=[c[0] for c in CARRY])
def test_carries_of_active_lanes_only(
    arch: str, rdna: str, cdna: str, step: Callable[[int, int, int], int], takes: bool, wave: int
) -> None:

    if wave == 32 and arch in CDNA:
        return
    a, b = shaped.integer_tuples(32, 32, count=200)
    rng = np.random.default_rng(3)
    carry, active = rng.random(len(a)) < 0.5, rng.random(len(a)) < 0.7
    vcc = "vcc_lo" if wave == 32 else "vcc"
    name = rdna if arch in RDNA else cdna
    old = np.full(len(a), 0x5A5A5A5A, np.uint32)
    text = f"v_{name} {{d}}, {vcc}, {{a}}, {{b}}" + (f", {vcc}" if takes else "")
    ran = compute_run(arch, text, a, b, old=old, masks={106: carry}, lanes=active, wave_size=wave)
    exactly = [step(int(x), int(y), int(c)) for x, y, c in zip(a, b, carry, strict=True)]
    result = np.array([v & M32 for v in exactly], np.uint32)
    assert_same(ran.words(RESULT), np.where(active, result, old), a, b, carry, note=text)
    assert_same(ran.vcc, np.array([not 0 <= v <= M32 for v in exactly]) & active, a, b, carry, note=text)


# -- packed and saturating --------------------------------------------------------------------------------------------


def clamped(x: int, bits: int, signed: bool) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return min(max(x, low), high)


PACKED: dict[str, tuple[int, Callable[..., int], bool | None]] = {
    "add_u16": (2, lambda a, b: a + b, False),
    "add_i16": (2, lambda a, b: s(a, 16) + s(b, 16), True),
    "sub_u16": (2, lambda a, b: a - b, False),
    "sub_i16": (2, lambda a, b: s(a, 16) - s(b, 16), True),
    "mul_lo_u16": (2, lambda a, b: a * b, None),
    "mad_u16": (3, lambda a, b, c: a * b + c, False),
    "mad_i16": (3, lambda a, b, c: s(a, 16) * s(b, 16) + s(c, 16), True),
    "min_u16": (2, min, None),
    "max_u16": (2, max, None),
    "min_i16": (2, lambda a, b: min(s(a, 16), s(b, 16)), None),
    "max_i16": (2, lambda a, b: max(s(a, 16), s(b, 16)), None),
    "lshlrev_b16": (2, lambda a, b: b << (a & 15), None),
    "lshrrev_b16": (2, lambda a, b: b >> (a & 15), None),
    "ashrrev_i16": (2, lambda a, b: s(b, 16) >> (a & 15), None),
}


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("name", PACKED)
def test_packed_halves_wrap_or_saturate(arch: str, name: str) -> None:
    count, step, signed = PACKED[name]
    halves = shaped.integer_tuples(*(16,) * count)
    order = np.random.default_rng(2).permutation(len(halves[0]))
    words = [x | x[order] << np.uint32(16) for x in halves]
    names = ", ".join(f"{{{x}}}" for x in "abc"[:count])
    exactly = [step(*map(int, row)) for row in zip(*halves, strict=True)]
    for suffix in ("", " clamp") if signed is not None else ("",):
        low = np.array([(clamped(v, 16, bool(signed)) if suffix else v) & M16 for v in exactly], np.uint32)
        seen = compute(arch, f"v_pk_{name} {{d}}, {names}{suffix}", *words)
        assert_same(seen, low | low[order] << np.uint32(16), *words, note=suffix)
    swap = f" op_sel:[{','.join('1' * count)}] op_sel_hi:[{','.join('0' * count)}]"
    low = np.array([v & M16 for v in exactly], np.uint32)
    seen = compute(arch, f"v_pk_{name} {{d}}, {names}{swap}", *words)
    assert_same(seen, low[order] | low << np.uint32(16), *words, note=swap)


SATURATING = [
    ("add_nc_u32", "add_u32", 2, lambda a, b: a + b, 32, False),
    ("sub_nc_u32", "sub_u32", 2, lambda a, b: a - b, 32, False),
    ("add_nc_i32", "add_i32", 2, lambda a, b: s(a) + s(b), 32, True),
    ("sub_nc_i32", "sub_i32", 2, lambda a, b: s(a) - s(b), 32, True),
    ("add_nc_u16", "add_u16", 2, lambda a, b: a + b, 16, False),
    ("sub_nc_u16", "sub_u16", 2, lambda a, b: a - b, 16, False),
    ("add_nc_i16", "add_i16", 2, lambda a, b: s(a, 16) + s(b, 16), 16, True),
    ("sub_nc_i16", "sub_i16", 2, lambda a, b: s(a, 16) - s(b, 16), 16, True),
    ("mad_u16", "mad_u16", 3, lambda a, b, c: a * b + c, 16, False),
    ("mad_i16", "mad_i16", 3, lambda a, b, c: s(a, 16) * s(b, 16) + s(c, 16), 16, True),
    ("mad_u32_u24", "mad_u32_u24", 3, lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c, 32, False),
    ("mad_i32_i24", "mad_i32_i24", 3, lambda a, b, c: s(a, 24) * s(b, 24) + s(c), 32, True),
    ("sad_u32", "sad_u32", 3, lambda a, b, c: abs(a - b) + c, 32, False),
    ("sad_u8", "sad_u8", 3, lambda a, b, c: sad8(a, b) + c, 32, False),
    ("msad_u8", "msad_u8", 3, lambda a, b, c: msad8(a, b) + c, 32, False),
    ("sad_u16", "sad_u16", 3, lambda a, b, c: abs((a & M16) - (b & M16)) + abs((a >> 16) - (b >> 16)) + c, 32, False),
]


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize(
    ("rdna", "cdna", "count", "step", "bits", "signed"), SATURATING, ids=[c[0] for c in SATURATING]
)
def test_clamp_saturates(
    arch: str, rdna: str, cdna: str, count: int, step: Callable[..., int], bits: int, signed: bool
) -> None:
    sources = shaped.integer_tuples(*(bits,) * count)
    names = ", ".join(f"{{{x}}}" for x in "abc"[:count])
    text = f"v_{rdna if arch in RDNA else cdna} {{d}}, {names} clamp"
    seen = compute(arch, text, *sources, bits=bits)
    every = (1 << bits) - 1
    exactly = [clamped(step(*map(int, row)), bits, signed) & every for row in zip(*sources, strict=True)]
    assert_same(seen, np.array(exactly, seen.dtype), *sources, note=text)


@pytest.mark.parametrize("wave", [32, 64])
def test_counting_lanes_below(wave: int) -> None:
    """mbcnt counts the bits of a mask below the lane; the halves of a wave64 are counted by two instructions."""

    rng = np.random.default_rng(9)
    low, high = (rng.integers(0, 1 << 32, 8, np.uint32) for _ in range(2))
    archs = ALL if wave == 64 else RDNA
    for arch in archs:
        text = f"v_mbcnt_lo_u32_b32 v3, s4, v2\n v_mbcnt_hi_u32_b32 v{RESULT}, s5, v3"
        start = np.arange(8 * wave, dtype=np.uint32) % 7
        ran = run(arch, text, vectors={2: start}, scalars={4: low, 5: high}, wave_size=wave)
        for w in range(8):
            mask = int(low[w]) | int(high[w]) << 32
            for lane in range(wave):
                below = (mask & ((1 << lane) - 1)).bit_count()
                i = w * wave + lane
                assert ran.words(RESULT)[i] == below + start[i]
