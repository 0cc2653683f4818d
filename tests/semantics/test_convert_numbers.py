"""Conversions between integers and floats and between f16, f32 and f64, against exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from support import exact, shaped
from support.exact import F16, F32, F64, HSA, PLAIN, Format, Mode
from support.lanes import compute
from support.llvm_mc import require_llvm
from support.verdict import assert_same

require_llvm()

RDNA, CDNA = ("gfx1100", "gfx1201"), ("gfx942", "gfx950")
ALL = RDNA + CDNA
FORMATS = {"f16": F16, "f32": F32, "f64": F64}


def limited(x: int, bits: int, signed: bool) -> int:
    """An integer saturated to a width, as a pattern."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return min(max(x, low), high) & ((1 << bits) - 1)


def to_integer(fmt: Format, x: int, bits: int, signed: bool, cut: Callable[[Fraction], int] = math.trunc) -> int:
    """A float as an integer: saturated, NAN gives 0."""
    if fmt.is_nan(x):
        return 0
    if fmt.is_inf(x):
        return limited(-(1 << 80) if fmt.is_negative(x) else 1 << 80, bits, signed)
    return limited(cut(exact.value(fmt, x)), bits, signed)


def signed(x: int, bits: int) -> int:
    """The two's complement number of a pattern."""
    return x - (1 << bits) if x >> (bits - 1) & 1 else x


TO_INTEGER = [("i32", "f32"), ("u32", "f32"), ("i32", "f64"), ("u32", "f64"), ("i16", "f16"), ("u16", "f16")]


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize(("to", "of"), TO_INTEGER)
def test_floats_to_integers_truncate_and_saturate(arch: str, to: str, of: str) -> None:
    fmt, bits = FORMATS[of], int(to[1:])
    x = shaped.float_ones(fmt, count=0 if fmt is F16 else 400)
    edges = [
        exact.encode(fmt, Fraction(v)) for v in (2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32, 0.5, -0.5)
    ]
    x = np.concatenate([x, np.array(edges, fmt.word)])
    seen = compute(arch, f"v_cvt_{to}_{of} {{d}}, {{a}}", x, bits=bits, mode=PLAIN.register)
    assert_same(seen, exact.each(F32, lambda v: to_integer(fmt, v, bits, to[0] == "i"), x), x)


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("which", ["floor", "nearest"])
def test_floor_and_nearest_to_integers(arch: str, which: str) -> None:
    x = shaped.float_ones(F32)
    rng = np.random.default_rng(5)
    x = np.concatenate(
        [x, np.array([exact.encode(F32, Fraction(int(v), 2)) for v in rng.integers(-99, 99, 60)], np.uint32)]
    )
    name = {"floor": ("floor", "flr"), "nearest": ("nearest", "rpi")}[which][arch in CDNA]
    half = F32.one - F32.normal

    def expected(v: int) -> int:
        moved = v if which == "floor" else exact.add(F32, PLAIN, v, half)
        return to_integer(F32, moved, 32, True, math.floor)

    seen = compute(arch, f"v_cvt_{name}_i32_f32 {{d}}, {{a}}", x, mode=PLAIN.register)
    assert_same(seen, exact.each(F32, expected, x), x)


FROM_INTEGER = [("f32", "i32"), ("f32", "u32"), ("f64", "i32"), ("f64", "u32"), ("f16", "i16"), ("f16", "u16")]


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize(("to", "of"), FROM_INTEGER)
def test_integers_to_floats_round_as_mode_says(arch: str, to: str, of: str) -> None:
    fmt, bits = FORMATS[to], int(of[1:])
    (x,) = shaped.integer_tuples(bits)
    for rounding in range(4):
        mode = Mode(round32=rounding, round64=rounding)
        seen = compute(arch, f"v_cvt_{to}_{of} {{d}}, {{a}}", x, bits=fmt.bits, mode=mode.register)

        def expected(v: int, how: int = rounding) -> int:
            return exact.encode(fmt, Fraction(signed(v, bits) if of[0] == "i" else v), how)

        assert_same(seen, exact.each(fmt, expected, x), x, note=f"rounding {rounding}")


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("byte", range(4))
def test_bytes_to_floats(arch: str, byte: int) -> None:
    (x,) = shaped.integer_tuples(32, count=300)
    seen = compute(arch, f"v_cvt_f32_ubyte{byte} {{d}}, {{a}}", x)
    assert_same(seen, (x >> np.uint32(8 * byte) & np.uint32(255)).astype(np.float32).view(np.uint32), x)


@pytest.mark.parametrize("arch", ALL)
def test_offsets_of_four_bits(arch: str) -> None:
    x = np.arange(64, dtype=np.uint32)
    seen = compute(arch, "v_cvt_off_f32_i4 {d}, {a}", x).view(np.float32)
    assert (seen == [signed(int(v) & 15, 4) / 16 for v in x]).all()


NARROWING = [Mode(round32=r, round64=(r + 2) % 4) for r in range(4)]
FLUSHING = [Mode(denorm32=d, denorm64=e) for d, e in ((0, 0), (1, 2), (2, 1), (3, 0), (0, 3))]


@pytest.mark.parametrize("mode", NARROWING + FLUSHING, ids=lambda m: f"{m.register:x}")
@pytest.mark.parametrize(("to", "of"), [("f16", "f32"), ("f32", "f16"), ("f32", "f64"), ("f64", "f32")])
def test_floats_to_floats(to: str, of: str, mode: Mode) -> None:
    source, target = FORMATS[of], FORMATS[to]
    x = _between(source, target)

    def expected(v: int) -> int:
        return exact.flushed_out(target, mode, exact.convert(source, target, mode, exact.flushed_in(source, mode, v)))

    for arch in ALL:
        seen = compute(arch, f"v_cvt_{to}_{of} {{d}}, {{a}}", x, bits=target.bits, mode=mode.register)
        assert_same(seen, exact.each(target, expected, x), x, note=f"{arch} {mode}")


def _between(source: Format, target: Format) -> np.ndarray:
    """Inputs around the target's extremes, denormals and ties."""
    x = shaped.float_ones(source)
    if source.bits < target.bits:
        return x
    rng = np.random.default_rng(6)
    field = rng.integers(source.bias - target.bias - target.man - 2, source.bias + target.bias + 3, 400)
    fraction = shaped.runs(rng, target.man + 2, 400).astype(np.uint64) << np.uint64(source.man - target.man - 2)
    made = field.astype(np.uint64) << np.uint64(source.man) | fraction
    return np.concatenate([x, made.astype(source.word), (made | np.uint64(source.sign)).astype(source.word)])


@pytest.mark.parametrize("arch", ALL)
def test_packed_halves_toward_zero_in_every_mode(arch: str) -> None:
    a = _between(F32, F16)
    b = a[np.random.default_rng(2).permutation(len(a))]
    name = "pk_rtz" if arch in RDNA else "pkrtz"
    for mode in (PLAIN, Mode(round32=1, round64=1), Mode(round32=2, round64=2)):
        seen = compute(arch, f"v_cvt_{name}_f16_f32 {{d}}, {{a}}, {{b}}", a, b, mode=mode.register)
        low, high = (exact.each(F16, lambda v: exact.convert(F32, F16, PLAIN, v, exact.ZERO), x) for x in (a, b))
        assert_same(seen, low | high << np.uint32(16), a, b)


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("kind", ["i16", "u16"])
@pytest.mark.parametrize("of", [F16, F32], ids=["f16", "f32"])
def test_normalized_integers(arch: str, kind: str, of: Format) -> None:
    name = "f16" if of is F16 else "f32"
    a = shaped.float_ones(of)
    scale = 32767 if kind == "i16" else 65535

    def normal(v: int) -> int:
        if of.is_nan(v):
            return 0
        low = -1 if kind == "i16" else 0
        size = low if of.is_inf(v) and of.is_negative(v) else 1 if of.is_inf(v) else exact.value(of, v)
        return limited(round(min(max(Fraction(size), Fraction(low)), Fraction(1)) * scale), 16, kind == "i16")

    b = a[::-1].copy()
    one, pack = f"v_cvt_norm_{kind}_f16 {{d}}, {{a}}", "pk_norm" if arch in RDNA else "pknorm"
    low = exact.each(F32, normal, a)
    if of is F16:
        assert_same(compute(arch, one, a, bits=16, mode=PLAIN.register), low, a)
    seen = compute(arch, f"v_cvt_{pack}_{kind}_{name} {{d}}, {{a}}, {{b}}", a, b, mode=PLAIN.register)
    assert_same(seen, low | low[::-1] << np.uint32(16), a, b)


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("kind", ["i16", "u16"])
def test_packing_integers_saturates(arch: str, kind: str) -> None:
    a, b = shaped.integer_tuples(32, 32)
    is_signed = kind == "i16"

    def half(v: int) -> int:
        return limited(signed(v, 32) if is_signed else v, 16, is_signed)

    seen = compute(arch, f"v_cvt_pk_{kind}_{kind[0]}32 {{d}}, {{a}}, {{b}}", a, b)
    assert_same(seen, exact.each(F32, half, a) | exact.each(F32, half, b) << np.uint32(16), a, b)


@pytest.mark.parametrize("arch", RDNA)
@pytest.mark.parametrize("kind", ["i16", "u16"])
def test_packing_floats_as_integers_saturates(arch: str, kind: str) -> None:
    a, b = shaped.float_pairs(F32)
    low, high = (exact.each(F32, lambda v: to_integer(F32, v, 16, kind == "i16"), x) for x in (a, b))
    seen = compute(arch, f"v_cvt_pk_{kind}_f32 {{d}}, {{a}}, {{b}}", a, b, mode=PLAIN.register)
    assert_same(seen, low | high << np.uint32(16), a, b)


@pytest.mark.parametrize("arch", ALL)
def test_packing_a_byte_keeps_the_other_bytes(arch: str) -> None:
    a = shaped.float_ones(F32)
    rng = np.random.default_rng(3)
    place, old = rng.integers(0, 256, len(a), np.uint32), rng.integers(0, 1 << 32, len(a), np.uint32)
    seen = compute(arch, "v_cvt_pk_u8_f32 {d}, {a}, {b}, {c}", a, place, old, mode=PLAIN.register)
    shift = (place & np.uint32(3)) * np.uint32(8)
    byte = exact.each(F32, lambda v: to_integer(F32, v, 8, False), a)
    assert_same(seen, old & ~(np.uint32(255) << shift) | byte << shift, a, place, old)


@pytest.mark.parametrize("arch", RDNA)
@pytest.mark.parametrize(("name", "sign"), [("i32_i16", True), ("u32_u16", False)])
def test_widening_halves(arch: str, name: str, sign: bool) -> None:
    (x,) = shaped.integer_tuples(32)
    expected = exact.each(F32, lambda v: signed(v & 0xFFFF, 16) & 0xFFFFFFFF if sign else v & 0xFFFF, x)
    assert_same(compute(arch, f"v_cvt_{name} {{d}}, {{a}}", x), expected, x)


# -- rounding to integral floats --------------------------------------------------------------------------------------

INTEGRAL = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "rndne": round}


@pytest.mark.parametrize("fmt", ["f16", "f32", "f64"])
@pytest.mark.parametrize("op", INTEGRAL)
def test_integral_floats_keep_the_sign_of_zero(op: str, fmt: str) -> None:
    number = FORMATS[fmt]
    x = np.concatenate([shaped.float_ones(number), shaped.near(np.random.default_rng(1), number, 300)])

    def expected(v: int) -> int:
        if number.is_nan(v):
            return v | number.quiet
        if number.is_inf(v):
            return v
        return exact.encode(number, Fraction(INTEGRAL[op](exact.value(number, v))), minus=number.is_negative(v))

    for arch in ALL:
        seen = compute(arch, f"v_{op}_{fmt} {{d}}, {{a}}", x, bits=number.bits, mode=PLAIN.register)
        assert_same(seen, exact.each(number, expected, x), x, note=arch)


@pytest.mark.parametrize("fmt", ["f16", "f32", "f64"])
def test_fractions_stay_below_one(fmt: str) -> None:
    number = FORMATS[fmt]
    x = shaped.float_ones(number)

    def expected(v: int) -> int:
        if number.is_nan(v):
            return v | number.quiet
        if number.is_inf(v):
            return number.nan
        exactly = exact.value(number, v)
        return min(exact.encode(number, exactly - math.floor(exactly)), number.one - 1)

    for arch in ALL:
        seen = compute(arch, f"v_fract_{fmt} {{d}}, {{a}}", x, bits=number.bits, mode=PLAIN.register)
        assert_same(seen, exact.each(number, expected, x), x, note=arch)


@pytest.mark.parametrize("fmt", ["f16", "f32", "f64"])
@pytest.mark.parametrize("mode", [PLAIN, HSA, Mode(denorm64=0)], ids=["keep", "hsa", "flush64"])
def test_taking_numbers_apart_and_scaling_them(fmt: str, mode: Mode) -> None:
    """frexp gives a mantissa in [0.5, 1) and an exponent; ldexp puts them together."""
    number = FORMATS[fmt]
    x = shaped.float_ones(number)
    whole = "i16" if fmt == "f16" else "i32"
    mask = 0xFFFF if fmt == "f16" else 0xFFFFFFFF

    def exponent(v: int) -> int:
        v = exact.flushed_in(number, mode, v)
        if not number.is_finite(v) or exact.value(number, v) == 0:
            return 0
        size = abs(exact.value(number, v))
        power = size.numerator.bit_length() - size.denominator.bit_length()
        power += size >= Fraction(2) ** power
        assert Fraction(1, 2) <= size / Fraction(2) ** power < 1
        return power & mask

    def mantissa(v: int) -> int:
        v = exact.flushed_in(number, mode, v)
        if not number.is_finite(v) or exact.value(number, v) == 0:
            return v  # the text passes even a signalling NAN on as it is
        power = signed(exponent(v), mask.bit_length())
        return exact.encode(number, exact.value(number, v) / Fraction(2) ** power)

    for arch in ALL:
        seen = compute(
            arch, f"v_frexp_exp_{whole}_{fmt} {{d}}, {{a}}", x, bits=min(32, number.bits), mode=mode.register
        )
        assert_same(seen, exact.each(F32, exponent, x), x, note=arch)
        seen = compute(arch, f"v_frexp_mant_{fmt} {{d}}, {{a}}", x, bits=number.bits, mode=mode.register)
        assert_same(seen, exact.each(number, mantissa, x), x, note=arch)


@pytest.mark.parametrize("fmt", ["f16", "f32", "f64"])
@pytest.mark.parametrize("mode", [PLAIN, HSA, Mode(round32=3, round64=3), Mode(round32=1, round64=1)], ids=str)
def test_scaling_by_powers_of_two_rounds_once(fmt: str, mode: Mode) -> None:
    number = FORMATS[fmt]
    x = np.tile(shaped.float_ones(number), 2)
    bits = 16 if fmt == "f16" else 32
    rng = np.random.default_rng(9)
    n = np.where(
        rng.random(len(x)) < 0.2, rng.integers(0, 1 << 32, len(x)), rng.integers(-300, 300, len(x)) & 0xFFFFFFFF
    )
    n = (n & ((1 << bits) - 1)).astype(np.uint32)

    def expected(v: int, power: int) -> int:
        v = exact.flushed_in(number, mode, v)
        if number.is_nan(v):
            return v | number.quiet
        if number.is_inf(v):
            return v
        power = min(max(signed(power, bits), -5000), 5000)
        scaled = exact.value(number, v) * Fraction(2) ** power
        out = exact.encode(number, scaled, mode.rounding(number), minus=number.is_negative(v))
        return exact.flushed_out(number, mode, out)

    for arch in ALL:
        seen = compute(arch, f"v_ldexp_{fmt} {{d}}, {{a}}, {{b}}", x, n, bits=number.bits, mode=mode.register)
        assert_same(seen, exact.each(number, expected, x, n), x, n, note=arch)
