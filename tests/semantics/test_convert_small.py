"""Conversions to and from bf16, 8-bit and 4-bit floats, in the kinds that each target has."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from support import exact, shaped
from support.exact import BF8, BF8_FNUZ, BF16, F16, F32, FP8, FP8_FNUZ, PLAIN, Format, Mode
from support.lanes import compute
from support.llvm_mc import require_llvm
from support.verdict import assert_same

require_llvm()

#: The 8-bit formats of the targets that have them.
KINDS = {
    ("gfx942", "fp8"): FP8_FNUZ,
    ("gfx942", "bf8"): BF8_FNUZ,
    ("gfx950", "fp8"): FP8,
    ("gfx950", "bf8"): BF8,
    ("gfx1201", "fp8"): FP8,
    ("gfx1201", "bf8"): BF8,
}
CASES = [pytest.param(arch, name, fmt, id=f"{arch}-{name}") for (arch, name), fmt in KINDS.items()]
OVFL = Mode(fp16_ovfl=True)


def widened(fmt: Format, x: int, to: Format = F32) -> int:
    return exact.convert(fmt, to, PLAIN, x)


def narrowed(fmt: Format, x: int, mode: Mode) -> int:
    """f32 to 8 bits. FNUZ has no infinity; what overflows becomes NAN or, with FP16_OVFL, the largest number."""
    return exact.convert(F32, fmt, mode, x, exact.NEAREST, ovfl=mode.fp16_ovfl)


def around(fmt: Format, seed: int = 1) -> np.ndarray:
    """f32 inputs on, between and next to the midpoints of a small format's numbers, and special ones."""
    numbers = sorted({exact.value(fmt, b) for b in range(1 << (fmt.bits - 1)) if fmt.is_finite(b)})
    top = numbers[-1]
    points = [*numbers, *(a + (b - a) / 2 for a, b in itertools.pairwise(numbers)), top * Fraction(17, 16)]
    points += [top * Fraction(33, 32), top * 2, numbers[1] / 4]
    made = [exact.encode(F32, p) for p in points]
    x = np.array([v + d for v in made for d in (-1, 0, 1) if v + d >= 0], np.uint32)
    return np.concatenate([x, x | np.uint32(1 << 31), shaped.float_ones(F32, seed=seed)])


@pytest.mark.parametrize(("arch", "name", "fmt"), CASES)
def test_bytes_widen_exactly(arch: str, name: str, fmt: Format) -> None:
    x = np.arange(256, dtype=np.uint32) * np.uint32(0x01010101) ^ np.uint32(0x00A55A00)
    for byte in range(4):
        bits = x >> np.uint32(8 * byte) & np.uint32(255)
        expected = exact.each(F32, lambda v: widened(fmt, v), bits)
        seen = compute(arch, _select_byte(arch, f"v_cvt_f32_{name}", byte), x, mode=PLAIN.register)
        assert_same(_any_nan(F32, seen), _any_nan(F32, expected), bits, note=f"byte {byte}")


def _any_nan(fmt: Format, x: np.ndarray) -> np.ndarray:
    """Whose payload the formats do not say."""
    return np.array([fmt.nan if fmt.is_nan(int(v)) else int(v) for v in x], fmt.word)


def _select_byte(arch: str, op: str, byte: int) -> str:
    if arch == "gfx1201":
        return f"{op}_e64 {{d}}, {{a}} byte_sel:{byte}" if byte else f"{op}_e64 {{d}}, {{a}}"
    return f"{op}_sdwa {{d}}, {{a}} src0_sel:BYTE_{byte}"


@pytest.mark.parametrize(("arch", "name", "fmt"), CASES)
def test_pairs_widen_from_either_word(arch: str, name: str, fmt: Format) -> None:
    x = np.arange(256, dtype=np.uint32) * np.uint32(0x01010101) ^ np.uint32(0x00A55A00)
    high = f"v_cvt_pk_f32_{name}" + (
        "_e64 {d}, {a} op_sel:[1,0]" if arch == "gfx1201" else "_sdwa {d}, {a} src0_sel:WORD_1"
    )
    for text, shift in ((f"v_cvt_pk_f32_{name} {{d}}, {{a}}", 0), (high, 16)):
        seen = compute(arch, text, x, bits=64, mode=PLAIN.register)
        for k in range(2):
            bits = x >> np.uint32(shift + 8 * k) & np.uint32(255)
            part = (seen >> np.uint64(32 * k)).astype(np.uint32)
            expected = exact.each(F32, lambda v: widened(fmt, v), bits)
            assert_same(_any_nan(F32, part), _any_nan(F32, expected), bits, note=text)


@pytest.mark.parametrize("mode", [PLAIN, OVFL, Mode(round32=1, round64=2)], ids=["plain", "ovfl", "directed"])
@pytest.mark.parametrize(("arch", "name", "fmt"), CASES)
def test_pairs_narrow_to_nearest_even_and_keep_the_other_word(arch: str, name: str, fmt: Format, mode: Mode) -> None:
    a = around(fmt)
    b = a[::-1].copy()
    old = np.random.default_rng(4).integers(0, 1 << 32, len(a), np.uint32)
    low, high = (exact.each(F32, lambda v: narrowed(fmt, v, mode), x) for x in (a, b))
    pair = low | high << np.uint32(8)
    for suffix, expected in (
        ("", old & np.uint32(0xFFFF0000) | pair),
        (" op_sel:[0,0,1]", old & np.uint32(0xFFFF) | pair << np.uint32(16)),
    ):
        seen = compute(arch, f"v_cvt_pk_{name}_f32 {{d}}, {{a}}, {{b}}{suffix}", a, b, old=old, mode=mode.register)
        assert_same(_no_sign(fmt, seen), _no_sign(fmt, expected), a, b, note=suffix)


def _no_sign(fmt: Format, x: np.ndarray) -> np.ndarray:
    """Words with the NAN bytes made equal: their signs and payloads are not documented."""
    table = np.array([fmt.nan if fmt.is_nan(v) else v for v in range(256)], np.uint32)
    return sum(table[x >> np.uint32(8 * k) & np.uint32(255)] << np.uint32(8 * k) for k in range(4))


@pytest.mark.parametrize(("arch", "name", "fmt"), CASES)
def test_stochastic_rounding_adds_random_bits_below_the_last(arch: str, name: str, fmt: Format) -> None:
    a = around(fmt)
    low, high = exact.value(fmt, fmt.normal), exact.value(fmt, fmt.max)
    a = a[[F32.is_finite(int(v)) and low <= abs(exact.value(F32, int(v))) < high for v in a]]
    rng = np.random.default_rng(8)
    seed = shaped.runs(rng, 32, len(a))
    old = rng.integers(0, 1 << 32, len(a), np.uint32)
    cut = 23 - fmt.man

    def expected(v: int, random: int) -> int:
        moved = (v & 0x7FFFFFFF) + (random >> (32 - cut))
        kept = moved >> cut << cut
        return exact.encode(fmt, exact.value(F32, kept) * (-1 if v >> 31 else 1))

    byte = exact.each(F32, expected, a, seed)
    for place in range(4):
        select = f" byte_sel:{place}" if arch == "gfx1201" else f" op_sel:[0,0,{place & 1},{place >> 1}]"
        seen = compute(arch, f"v_cvt_sr_{name}_f32 {{d}}, {{a}}, {{b}}{select}", a, seed, old=old, mode=PLAIN.register)
        want = old & ~np.uint32(255 << 8 * place) | byte << np.uint32(8 * place)
        assert_same(_no_sign(fmt, seen), _no_sign(fmt, want), a, seed, note=select)


# -- bf16 and the scaled conversions of gfx950 ------------------------------------------------------------------------


def test_brain_floats_widen_and_narrow() -> None:
    (x,) = (np.arange(1 << 16, dtype=np.uint32),)
    assert_same(compute("gfx950", "v_cvt_f32_bf16 {d}, {a}", x, mode=PLAIN.register), x << np.uint32(16), x)
    a = shaped.float_ones(F32, count=600)
    b = a[::-1].copy()
    seen = compute("gfx950", "v_cvt_pk_bf16_f32 {d}, {a}, {b}", a, b, mode=Mode(round32=3, round64=3).register)
    low = exact.each(F32, lambda v: exact.convert(F32, BF16, PLAIN, v, exact.NEAREST), a)
    assert_same(seen, low | low[::-1] << np.uint32(16), a, b)


def test_packed_halves_round_to_nearest_even_in_every_mode() -> None:
    a = shaped.float_ones(F32, count=600)
    a = np.concatenate([a, shaped.near(np.random.default_rng(1), F32, 600)])
    b = a[::-1].copy()
    seen = compute("gfx950", "v_cvt_pk_f16_f32 {d}, {a}, {b}", a, b, mode=Mode(round32=3, round64=3).register)
    low = exact.each(F32, lambda v: exact.convert(F32, F16, PLAIN, v, exact.NEAREST), a)
    assert_same(seen, low | low[::-1] << np.uint32(16), a, b)


@pytest.mark.parametrize(("name", "fmt"), [("fp8", FP8), ("bf8", BF8)])
@pytest.mark.parametrize(("wide", "source"), [("f32", F32), ("f16", F16), ("bf16", BF16)])
def test_scaled_bytes(name: str, fmt: Format, wide: str, source: Format) -> None:
    """Narrowing divides by the power of two that is the scale's exponent; widening multiplies."""
    rng = np.random.default_rng(3)
    scale = (rng.integers(120, 135, 1000).astype(np.uint32) << np.uint32(23)) | shaped.runs(rng, 23, 1000)
    power = (scale >> np.uint32(23)).astype(int) - 127
    x = rng.integers(0, 1 << 32, 1000, np.uint32)

    def wider(v: int, n: int) -> int:
        if not fmt.is_finite(v):
            return exact.convert(fmt, source, PLAIN, v)
        return exact.encode(source, exact.value(fmt, v) * Fraction(2) ** n, minus=fmt.is_negative(v))

    bits = 64 if wide == "f32" else 32
    seen = compute(
        "gfx950", f"v_cvt_scalef32_pk_{wide}_{name} {{d}}, {{a}}, {{b}}", x, scale, bits=bits, mode=PLAIN.register
    )
    for k in range(2):
        part = (seen >> seen.dtype.type(source.bits * k)) & seen.dtype.type((1 << source.bits) - 1)
        byte = x >> np.uint32(8 * k) & np.uint32(255)
        expected = exact.each(source, wider, byte, power)
        assert_same(_any_nan(source, part), _any_nan(source, expected), byte, scale, note=f"part {k}")


@pytest.mark.parametrize(("name", "fmt"), [("fp8", FP8), ("bf8", BF8)])
@pytest.mark.parametrize("mode", [PLAIN, OVFL], ids=["plain", "ovfl"])
def test_scaled_narrowing(name: str, fmt: Format, mode: Mode) -> None:
    a = around(fmt)
    b = a[::-1].copy()
    rng = np.random.default_rng(3)
    scale = (rng.integers(122, 132, len(a)).astype(np.uint32) << np.uint32(23)) | shaped.runs(rng, 23, len(a))
    old = rng.integers(0, 1 << 32, len(a), np.uint32)

    def narrower(v: int, s: int) -> int:
        if not F32.is_finite(v):
            return narrowed(fmt, v, mode)
        size = exact.value(F32, v) / Fraction(2) ** ((s >> 23) - 127)
        return exact.encode(fmt, size, minus=F32.is_negative(v), saturate=mode.fp16_ovfl)

    low, high = (exact.each(F32, narrower, x, scale) for x in (a, b))
    seen = compute(
        "gfx950", f"v_cvt_scalef32_pk_{name}_f32 {{d}}, {{a}}, {{b}}, {{c}}", a, b, scale, old=old, mode=mode.register
    )
    expected = old & np.uint32(0xFFFF0000) | low | high << np.uint32(8)
    assert_same(_no_sign(fmt, seen), _no_sign(fmt, expected), a, b, scale)


def test_four_bit_floats_round_to_nearest_even() -> None:
    fmt = Format(2, 1, 1, "none")
    a = around(fmt)
    a = a[[not F32.is_nan(int(v)) for v in a]]
    b = a[::-1].copy()
    one = np.full(len(a), F32.one, np.uint32)
    old = np.random.default_rng(2).integers(0, 1 << 32, len(a), np.uint32)

    def nibble(v: int) -> int:
        sign = 8 if F32.is_negative(v) else 0
        return sign | 7 if F32.is_inf(v) else exact.encode(fmt, exact.value(F32, v), minus=bool(sign))

    low = exact.each(F32, nibble, a)
    for place in range(4):
        select = f" op_sel:[0,0,{place & 1},{place >> 1}]"
        seen = compute("gfx950", f"v_cvt_scalef32_pk_fp4_f32 {{d}}, {{a}}, {{b}}, {{c}}{select}", a, b, one, old=old)
        expected = old & ~np.uint32(255 << 8 * place) | (low | low[::-1] << np.uint32(4)) << np.uint32(8 * place)
        assert_same(seen, expected, a, b, note=select)
