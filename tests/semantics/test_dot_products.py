"""Dot products of small integers and floats: signs, clamp, order of the additions."""

from __future__ import annotations

import numpy as np
import pytest
from support import exact, shaped
from support.exact import BF8, BF16, F16, F32, FP8, PLAIN, Format
from support.lanes import compute
from support.llvm_mc import require_llvm
from support.verdict import assert_same

require_llvm()

RDNA, CDNA = ("gfx1100", "gfx1201"), ("gfx942", "gfx950")


def parts(x: int, bits: int, signed: bool) -> list[int]:
    """The fields of a word."""
    every = (1 << bits) - 1
    values = [x >> n & every for n in range(0, 32, bits)]
    return [v - (1 << bits) if signed and v >> (bits - 1) else v for v in values]


def dot(a: int, b: int, c: int, bits: int, signs: tuple[bool, bool], result: bool, clamp: bool) -> int:
    """Integers: the exact sum, wrapped or saturated. ``result`` says that the accumulator is signed."""
    start = c - (1 << 32) if result and c >> 31 else c
    total = start + sum(x * y for x, y in zip(parts(a, bits, signs[0]), parts(b, bits, signs[1]), strict=True))
    low, high = (-(1 << 31), (1 << 31) - 1) if result else (0, (1 << 32) - 1)
    return (min(max(total, low), high) if clamp else total) & 0xFFFFFFFF


def check(arch: str, text: str, bits: int, signs: tuple[bool, bool], result: bool) -> None:
    a, b, c = shaped.integer_tuples(32, 32, 32)
    for clamp in (False, True):
        whole = text + (" clamp" if clamp else "")
        seen = compute(arch, whole, a, b, c)
        expected = exact.each(F32, lambda x, y, z, k=clamp: dot(x, y, z, bits, signs, result, k), a, b, c)
        assert_same(seen, expected, a, b, c, note=f"{arch} {whole}")


@pytest.mark.parametrize("arch", RDNA)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("signs", [(False, False), (True, False), (False, True), (True, True)])
def test_sign_bits_choose_signed_operands(arch: str, bits: int, signs: tuple[bool, bool]) -> None:
    neg = f"neg_lo:[{int(signs[0])},{int(signs[1])},0]"
    check(arch, f"v_dot{32 // bits}_i32_iu{bits} {{d}}, {{a}}, {{b}}, {{c}} {neg}", bits, signs, True)


@pytest.mark.parametrize("arch", RDNA + CDNA)
@pytest.mark.parametrize("bits", [8, 4])
def test_unsigned_dot_products(arch: str, bits: int) -> None:
    check(arch, f"v_dot{32 // bits}_u32_u{bits} {{d}}, {{a}}, {{b}}, {{c}}", bits, (False, False), False)


@pytest.mark.parametrize("arch", CDNA)
@pytest.mark.parametrize("bits", [16, 8, 4])
def test_signed_dot_products(arch: str, bits: int) -> None:
    check(arch, f"v_dot{32 // bits}_i32_i{bits} {{d}}, {{a}}, {{b}}, {{c}}", bits, (True, True), True)


@pytest.mark.parametrize("arch", CDNA)
def test_unsigned_products_of_halves(arch: str) -> None:
    check(arch, "v_dot2_u32_u16 {d}, {a}, {b}, {c}", 16, (False, False), False)


@pytest.mark.parametrize("arch", CDNA)
@pytest.mark.parametrize(("name", "bits"), [("dot2c_i32_i16", 16), ("dot4c_i32_i8", 8), ("dot8c_i32_i4", 4)])
def test_accumulating_dot_products(arch: str, name: str, bits: int) -> None:
    a, b, c = shaped.integer_tuples(32, 32, 32)
    seen = compute(arch, f"v_{name} {{d}}, {{a}}, {{b}}", a, b, old=c)
    expected = exact.each(F32, lambda x, y, z: dot(x, y, z, bits, (True, True), True, False), a, b, c)
    assert_same(seen, expected, a, b, c)


# -- floats -----------------------------------------------------------------------------------------------------------


def small(fmt: Format, rng: np.random.Generator, count: int, spread: int = 3) -> np.ndarray:
    """Numbers with few significant bits, so that sums of their products are exact in f32."""
    sign = rng.integers(0, 2, count).astype(np.uint32) << np.uint32(fmt.bits - 1)
    keep = min(fmt.man, 3)
    field = rng.integers(fmt.bias - spread, fmt.bias + spread, count).astype(np.uint32) << np.uint32(fmt.man)
    fraction = rng.integers(0, 1 << keep, count).astype(np.uint32) << np.uint32(fmt.man - keep)
    zero = rng.random(count) < 0.1
    return np.where(zero, np.uint32(0), sign | field | fraction).astype(np.uint32)


def exact_dot(fmt: Format, count: int, *x: int) -> int:
    """The sum of ``count`` products and an f32, which is exact."""
    a, b, c = x
    every = (1 << fmt.bits) - 1
    total = exact.value(F32, c)
    for n in range(count):
        shift = fmt.bits * n
        total += exact.value(fmt, a >> shift & every) * exact.value(fmt, b >> shift & every)
    return exact.encode(F32, total)


@pytest.mark.parametrize("fmt", [F16, BF16], ids=["f16", "bf16"])
def test_two_products_that_are_exact(fmt: Format) -> None:
    rng = np.random.default_rng(5)
    lows, highs = [[small(fmt, rng, 2000) for _ in range(2)] for _ in range(2)]
    a, b = (low | high << np.uint32(16) for low, high in zip(lows, highs, strict=True))
    c = small(F32, rng, 2000)
    expected = exact.each(F32, lambda *x: exact_dot(fmt, 2, *x), a, b, c)
    name = "f16" if fmt is F16 else "bf16"
    archs = ("gfx1100", "gfx1201", "gfx942", "gfx950") if fmt is F16 else ("gfx1100", "gfx1201", "gfx950")
    for arch in archs:
        seen = compute(arch, f"v_dot2_f32_{name} {{d}}, {{a}}, {{b}}, {{c}}", a, b, c, mode=PLAIN.register)
        assert_same(seen & np.uint32(0x7FFFFFFF), expected & np.uint32(0x7FFFFFFF), a, b, c, note=f"{arch} {name}")
        assert_same(seen, np.where(seen == 1 << 31, seen, expected), a, b, c, note=f"{arch} {name}")


@pytest.mark.parametrize("a_fmt", [FP8, BF8], ids=["fp8", "bf8"])
@pytest.mark.parametrize("b_fmt", [FP8, BF8], ids=["fp8", "bf8"])
def test_four_products_of_bytes_that_are_exact(a_fmt: Format, b_fmt: Format) -> None:
    rng = np.random.default_rng(6)
    a, b = (
        sum(small(fmt, rng, 1500, 2) << np.uint32(8 * n) for n in range(4)).astype(np.uint32) for fmt in (a_fmt, b_fmt)
    )
    c = small(F32, rng, 1500)

    def expected(x: int, y: int, z: int) -> int:
        pairs = ((x >> 8 * n & 255, y >> 8 * n & 255) for n in range(4))
        products = (exact.value(a_fmt, p) * exact.value(b_fmt, q) for p, q in pairs)
        return exact.encode(F32, exact.value(F32, z) + sum(products))

    names = {FP8: "fp8", BF8: "bf8"}
    text = f"v_dot4_f32_{names[a_fmt]}_{names[b_fmt]} {{d}}, {{a}}, {{b}}, {{c}}"
    seen = compute("gfx1201", text, a, b, c, mode=PLAIN.register)
    assert_same(seen & np.uint32(0x7FFFFFFF), exact.each(F32, expected, a, b, c) & np.uint32(0x7FFFFFFF), a, b, c)


@pytest.mark.parametrize("arch", ["gfx950"])
def test_denormal_halves_are_never_flushed(arch: str) -> None:
    a = np.array([0x0001, 0x03FF, 0x80010002], np.uint32)
    b = np.array([0x3C00, 0x4000, 0x3C003C00], np.uint32)
    c = np.zeros(3, np.uint32)
    expected = exact.each(F32, lambda *x: exact_dot(F16, 2, *x), a, b, c)
    for mode in (PLAIN, exact.Mode(denorm32=0, denorm64=0)):
        seen = compute(arch, "v_dot2_f32_f16 {d}, {a}, {b}, {c}", a, b, c, mode=mode.register)
        assert_same(seen, expected, a, b, c, note=str(mode))


@pytest.mark.parametrize("arch", RDNA)
@pytest.mark.parametrize("fmt", [F16, BF16], ids=["f16", "bf16"])
def test_narrow_results_of_exact_sums(arch: str, fmt: Format) -> None:
    rng = np.random.default_rng(7)
    narrow = 1 if fmt is BF16 else 2
    lows, highs = [[small(fmt, rng, 1500, narrow) & ~np.uint32(3 << fmt.man - 3) for _ in range(2)] for _ in range(2)]
    a, b = (low | high << np.uint32(16) for low, high in zip(lows, highs, strict=True))
    c = small(fmt, rng, 1500, narrow) & ~np.uint32(3 << fmt.man - 3)

    def expected(x: int, y: int, z: int) -> int:
        total = exact.value(fmt, z)
        for n in (0, 16):
            total += exact.value(fmt, x >> n & 0xFFFF) * exact.value(fmt, y >> n & 0xFFFF)
        return exact.encode(fmt, total)

    name = "f16" if fmt is F16 else "bf16"
    seen = compute(arch, f"v_dot2_{name}_{name} {{d}}, {{a}}, {{b}}, {{c}}", a, b, c, bits=16, mode=PLAIN.register)
    assert_same(seen & np.uint32(0x7FFF), exact.each(fmt, expected, a, b, c) & np.uint32(0x7FFF), a, b, c)
