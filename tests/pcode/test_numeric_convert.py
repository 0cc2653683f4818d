"""Conversions: all 16-bit patterns against exact values, shaped inputs for the wide formats."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from mockgpu.pcode import numeric as num
from mockgpu.pcode.numeric import (
    BF6,
    BF8,
    BF8_FNUZ,
    BF16,
    F16,
    F32,
    F64,
    FP4,
    FP6,
    FP8,
    FP8_FNUZ,
    Denorm,
    FloatFormat,
    Mode,
    Round,
)

ROUNDS = list(Round)


def mode(rounding: Round = Round.NEAREST_EVEN, **more: bool) -> Mode:
    return Mode(rounding, rounding, Denorm.KEEP, Denorm.KEEP, **more)


@pytest.fixture(autouse=True)
def quiet_numpy():
    with np.errstate(all="ignore"):
        yield


def value(fmt: FloatFormat, bits: int) -> Fraction | float:
    """The number, or a float infinity or NaN."""
    sign = -1 if bits & fmt.sign else 1
    above = bits & fmt.magnitude > (fmt.inf if fmt.special == "ieee" else fmt.max)
    if bits == fmt.nan if fmt.special == "fnuz" else above:
        return math.nan
    if fmt.special == "ieee" and bits & fmt.magnitude == fmt.inf:
        return sign * math.inf
    field, fraction = bits >> fmt.man & ((1 << fmt.exp) - 1), bits & ((1 << fmt.man) - 1)
    return sign * Fraction(2) ** (max(field, 1) - fmt.bias - fmt.man) * (fraction + ((1 << fmt.man) if field else 0))


def ladder(fmt: FloatFormat) -> list[Fraction]:
    """All magnitudes of a small format in order; one more than the largest, to round against."""
    numbers = [abs(value(fmt, b)) for b in range(fmt.max + 1)]
    return [*numbers, numbers[-1] + (numbers[-1] - numbers[-2])]


def nearest(fmt: FloatFormat, steps: list[Fraction], x: Fraction, rounding: Round, negative: bool) -> int | None:
    """The magnitude's pattern by search; None when it overflows."""
    size = abs(x)
    if size >= steps[-1]:
        away = rounding is Round.NEAREST_EVEN or rounding is (Round.MINUS_INF if negative else Round.PLUS_INF)
        return None if away else fmt.max
    low = max(i for i, s in enumerate(steps) if s <= size)
    if steps[low] == size:
        return low
    if rounding is Round.NEAREST_EVEN:
        middle = (steps[low] + steps[low + 1]) / 2
        low += size > middle or (size == middle and low % 2)
    else:
        low += rounding is (Round.MINUS_INF if negative else Round.PLUS_INF)
    return None if low > fmt.max else int(low)


def wide_values(fmt: FloatFormat, seed: int) -> list[float]:
    """Doubles around the numbers of a small format and the middles between them."""
    rng = random.Random(seed)
    steps = ladder(fmt)
    chosen = rng.sample(range(len(steps) - 1), min(len(steps) - 1, 60))
    out = [0.0, float(steps[-1]), float(steps[-2]), float(steps[1] / 2), float(steps[1] / 4), 2.0**-140, 2.0**120]
    for i in chosen:
        middle = float((steps[i] + steps[i + 1]) / 2)
        out += [float(steps[i]), middle, math.nextafter(middle, 0), math.nextafter(middle, math.inf)]
    out.append(float((steps[-1] + steps[-2]) / 2))
    return out + [-x for x in out]


SMALL = [FP8, BF8, FP8_FNUZ, BF8_FNUZ, FP6, BF6, FP4]


@pytest.mark.parametrize("rounding", ROUNDS, ids=lambda r: r.name.lower())
@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_doubles_to_small_formats(fmt: FloatFormat, rounding: Round) -> None:
    from mockgpu.pcode.numeric_round import round_double

    steps, xs = ladder(fmt), wide_values(fmt, seed=1)
    got = round_double(fmt, rounding, np.array(xs)).tolist()
    top = {"ieee": fmt.inf, "fn": fmt.nan, "fnuz": fmt.nan, "none": fmt.max}[fmt.special]
    for x, bits in zip(xs, got, strict=True):
        negative = math.copysign(1.0, x) < 0
        magnitude = nearest(fmt, steps, Fraction(x), rounding, negative)
        want = (top if magnitude is None else magnitude) | fmt.sign * negative
        if fmt.special == "fnuz" and magnitude in (0, None):
            want = magnitude or (0 if magnitude == 0 else fmt.nan)
        assert bits == want, (x, bits, want)


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_small_formats_to_f32_and_back(fmt: FloatFormat) -> None:
    every = np.arange(1 << fmt.bits).astype(np.uint16)
    wide = num.values(fmt, every)
    for bits, x in zip(every.tolist(), wide.tolist(), strict=True):
        want = value(fmt, bits)
        assert x == want or (math.isnan(x) and math.isnan(want))
    back = num.from_doubles(mode(), fmt, wide)
    nan = np.isnan(wide)
    assert (back == every)[~nan].all()
    assert num.is_nan(fmt, back)[nan].all()


def test_the_8_bit_formats_have_their_documented_limits() -> None:
    def largest(fmt: FloatFormat) -> float:
        return float(num.values(fmt, np.array([fmt.max], np.uint16))[0])

    assert [largest(f) for f in (FP8, BF8, FP8_FNUZ, BF8_FNUZ)] == [448, 57344, 240, 57344]
    assert [largest(f) for f in (FP6, BF6, FP4)] == [7.5, 28, 6]
    assert num.is_nan(FP8, np.array([0x7F, 0xFF, 0x7E], np.uint16)).tolist() == [True, True, False]
    assert num.is_nan(FP8_FNUZ, np.array([0x80, 0x7F], np.uint16)).tolist() == [True, False]


def test_overflow_of_8_bit_formats_follows_fp16_ovfl() -> None:
    x = np.array([500.0, 1e6, math.inf, math.nan, -1e6]).astype(np.float32).view(np.uint32)
    to_fp8, to_bf8 = num.float_to_float(F32, FP8), num.float_to_float(F32, BF8)
    assert to_fp8(mode(), x).tolist() == [0x7F, 0x7F, 0x7F, 0x7F, 0xFF]
    assert to_fp8(mode(fp16_ovfl=True), x).tolist() == [0x7E, 0x7E, 0x7E, 0x7F, 0xFE]
    assert to_bf8(mode(), x).tolist() == [0x60, 0x7C, 0x7C, 0x7E, 0xFC]
    assert to_bf8(mode(fp16_ovfl=True), x)[[0, 1, 4]].tolist() == [0x60, 0x7B, 0xFB]
    assert to_fp8(mode(fp8_fnuz=True), x).tolist() == [0x80, 0x80, 0x80, 0x80, 0x80]


# -- f16, bf16, f32, f64 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [F16, BF16], ids=str)
def test_widening_all_16_bit_patterns(source: FloatFormat) -> None:
    every = np.arange(1 << 16).astype(np.uint16)
    wide = num.float_to_float(source, F32)(mode(), every)
    if source is BF16:
        want = every.astype(np.uint32) << 16
    else:
        want = every.view(np.float16).astype(np.float32).view(np.uint32)
    nan = num.is_nan(source, every)
    assert (wide == want)[~nan].all()
    payload = (every & (source.quiet - 1)).astype(np.uint32) << (23 - source.man)
    sign = (every >> 15).astype(np.uint32) << 31
    assert (wide == (sign | 0x7FC00000 | payload))[nan].all()
    assert (num.float_to_float(F32, source)(mode(), want)[~nan] == every[~nan]).all()


@pytest.mark.parametrize("rounding", ROUNDS, ids=lambda r: r.name.lower())
@pytest.mark.parametrize("target", [F16, BF16], ids=str)
def test_narrowing_to_16_bits(target: FloatFormat, rounding: Round) -> None:
    """Around numbers and middles of the target, found by widening the two neighbours."""
    rng = np.random.default_rng(2)
    low = rng.integers(0, target.max, 4000).astype(np.uint16)
    low[:6] = [0, 1, target.min_normal - 1, target.min_normal, target.max - 1, target.max - 2]
    down, up = num.values(target, low), num.values(target, low + np.uint16(1))
    middle = (down + up) / 2
    how = Round.NEAREST_EVEN if target is BF16 else rounding
    even = low & np.uint16(1) == 0
    for x, nearest_is_low in (
        (down, None),
        (middle, even),
        (np.nextafter(middle, 0), True),
        (np.nextafter(middle, up), False),
    ):
        for negative in (False, True):
            got = num.from_doubles(mode(rounding), target, -x if negative else x) & np.uint16(0x7FFF)
            if nearest_is_low is None:
                want = low
            elif how is Round.NEAREST_EVEN:
                want = np.where(nearest_is_low, low, low + 1)
            else:
                away = how is (Round.MINUS_INF if negative else Round.PLUS_INF)
                want = low + np.uint16(away)
            assert (got == want).all()


@pytest.mark.parametrize("rounding", ROUNDS, ids=lambda r: r.name.lower())
def test_f32_of_doubles_rounds_in_every_mode(rounding: Round) -> None:
    rng = np.random.default_rng(3)
    x = np.ldexp(rng.standard_normal(3000), rng.integers(-160, 140, 3000))
    got = num.float_to_float(F64, F32)(mode(rounding), x.view(np.uint64)).view(np.float32).astype(np.float64)
    exact = np.abs(got) <= np.finfo(np.float32).max
    below, above = got <= x, got >= x
    if rounding is Round.PLUS_INF:
        assert above.all()
    elif rounding is Round.MINUS_INF:
        assert below.all()
    elif rounding is Round.ZERO:
        assert (np.abs(got) <= np.abs(x)).all()
    with np.errstate(all="ignore"):
        nearest_f32 = x.astype(np.float32).astype(np.float64)
    assert (
        np.abs(got - x)[exact]
        <= 2 * np.maximum(np.abs(nearest_f32 - x), np.spacing(np.abs(got).astype(np.float32)))[exact]
    ).all()


def test_nan_payloads_survive_conversion() -> None:
    x = np.array([0x7F800001, 0xFFC12345, 0x7FA00000], np.uint32)
    assert num.float_to_float(F32, F64)(mode(), x).tolist() == [
        0x7FF8000020000000, 0xFFF82468A0000000, 0x7FFC000000000000,
    ]  # fmt: skip
    assert num.float_to_float(F32, F16)(mode(), x).tolist() == [0x7E00, 0xFE09, 0x7F00]
    assert num.float_to_float(F32, BF16)(mode(), x).tolist() == [0x7FC0, 0xFFC1, 0x7FE0]


# -- integers -----------------------------------------------------------------------------------------------------

INTERESTING = [0.0, -0.0, 0.5, -0.5, 0.999, -0.999, 1.5, -1.5, 255.5, 256.0, -128.9, -129.0, 32767.5, 65535.9, 65536.0]
INTERESTING += [-32768.9, -32769.0, 2.0**31 - 1, 2.0**31, -(2.0**31) - 1, 2.0**32 - 1, 2.0**32, 2.0**53 + 2, 1e300]
INTERESTING += [2.0**63, 2.0**63 - 1024, -(2.0**63), -(2.0**63) - 2048, 2.0**64, 2.0**64 - 2048, math.inf, -math.inf]


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits", [4, 8, 16, 24, 32, 53, 63, 64])
def test_float_to_integer_truncates_and_saturates(bits: int, signed: bool) -> None:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    xs = [*INTERESTING, math.nan]
    got = num.float_to_int(F64, bits, signed)(mode(), np.array(xs).view(np.uint64)).tolist()
    for x, result in zip(xs, got, strict=True):
        want = 0 if math.isnan(x) else high if x == math.inf else low if x == -math.inf else max(min(int(x), high), low)
        assert result == want & ((1 << bits) - 1), x


def test_every_f16_to_16_bit_integers() -> None:
    every = np.arange(1 << 16).astype(np.uint16)
    signed, unsigned = (num.float_to_int(F16, 16, s)(mode(), every) for s in (True, False))
    for bits in range(1 << 16):
        x = value(F16, bits)
        if isinstance(x, float) and math.isnan(x):
            assert signed[bits] == unsigned[bits] == 0
            continue
        whole = int(x) if isinstance(x, Fraction) else (1 << 20) * (1 if x > 0 else -1)
        assert signed[bits] == max(min(whole, 32767), -32768) & 0xFFFF
        assert unsigned[bits] == max(min(whole, 65535), 0)


@pytest.mark.parametrize("rounding", ROUNDS, ids=lambda r: r.name.lower())
@pytest.mark.parametrize("target", [F16, F32, F64], ids=str)
@pytest.mark.parametrize(("bits", "signed"), [(8, True), (16, False), (32, True), (32, False), (64, True), (64, False)])
def test_integer_to_float_rounds_once(bits: int, signed: bool, target: FloatFormat, rounding: Round) -> None:
    rng = random.Random(4)
    patterns = [0, 1, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1, (1 << bits - 1) + 1]
    for _ in range(120):
        shift = rng.randrange(bits)
        patterns.append((rng.getrandbits(bits) >> shift | 1) << rng.randrange(shift + 1) & ((1 << bits) - 1))
        patterns.append(((1 << bits) - 1 >> shift) ^ rng.getrandbits(2))
    x = np.array(patterns, num.container(bits))
    got = num.int_to_float(bits, signed, target)(mode(rounding), x)
    for pattern, result in zip(patterns, got.tolist(), strict=True):
        whole = pattern - (1 << bits) if signed and pattern >> bits - 1 else pattern
        assert result == round_integer(target, whole, rounding), (pattern, hex(result))


def round_integer(fmt: FloatFormat, whole: int, rounding: Round) -> int:
    """By bisection over the patterns of non-negative numbers."""
    negative, size = whole < 0, abs(whole)
    low, high = 0, fmt.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if value(fmt, middle) <= size else (low, middle)
    below = value(fmt, low)
    above = value(fmt, low + 1) if low + 1 < fmt.inf else Fraction(2) ** (fmt.bias + 1)
    if below != size:
        if rounding is Round.NEAREST_EVEN:
            low += size * 2 > below + above or (size * 2 == below + above and low % 2)
        else:
            low += rounding is (Round.MINUS_INF if negative else Round.PLUS_INF)
    return low | fmt.sign * negative


def test_normalized_integers() -> None:
    x = np.array([0.0, 1.0, -1.0, 2.0, -2.0, 0.5, math.nan, math.inf, 1.4 / 32767], np.float32).view(np.uint32)
    signed = num.to_normalized(F32, 16, True)(mode(), x).tolist()
    assert signed == [0, 32767, 0x8001, 32767, 0x8001, 16384, 0, 32767, 1]
    assert num.to_normalized(F32, 16, False)(mode(), x)[:8].tolist() == [0, 65535, 0, 65535, 0, 32768, 0, 65535]


@pytest.mark.parametrize(("bits", "to"), [(1, 32), (8, 16), (16, 64), (24, 32), (32, 65), (64, 128), (65, 64), (32, 8)])
def test_resizing(bits: int, to: int) -> None:
    rng = random.Random(5)
    patterns = [rng.getrandbits(bits) for _ in range(20)] + [0, (1 << bits) - 1, 1 << bits - 1]
    x = np.array(patterns, num.container(bits))
    zero, sign = num.resize(x, bits, to), num.extend(x, bits, to)
    assert zero.dtype == sign.dtype == num.container(to)
    mask = (1 << to) - 1
    assert [int(v) for v in zero] == [p & mask for p in patterns]
    assert [int(v) for v in sign] == [(p - (1 << bits) if p >> bits - 1 else p) & mask for p in patterns]


# -- scales and stochastic rounding ---------------------------------------------------------------------------------


def test_stochastic_rounding_leaves_exact_values_alone() -> None:
    every = np.arange(1 << 16).astype(np.uint16)
    finite = every[(every & 0x7C00) != 0x7C00]
    wide = num.float_to_float(F16, F32)(mode(), finite)
    for seed in (0, 1, 0x80000000, 0xFFFFFFFF):
        assert (num.stochastic(F32, F16)(mode(), wide, np.uint32(seed)) == finite).all()


def test_stochastic_rounding_goes_up_as_often_as_it_should() -> None:
    x = np.array([1.0 + 0.125 * 0.25], np.float32).view(np.uint32)
    seeds = (np.arange(1 << 12).astype(np.uint32) << np.uint32(20)) | np.uint32(0xFFFFF)
    got = num.stochastic(F32, FP8)(mode(), x, seeds)
    assert np.count_nonzero(got == 0x39) == len(seeds) // 4
    assert np.count_nonzero(got == 0x38) == len(seeds) - len(seeds) // 4


def test_block_scales() -> None:
    x = np.array([1.0, 3.0, -0.5], np.float32).view(np.uint32)
    scale = np.array([127, 128, 126], np.uint16)
    assert num.narrow_scaled(F32, FP4)(mode(), x, scale).tolist() == [0b0010, 0b0011, 0b1010]
    back = num.widen_scaled(FP4, F32)(mode(), np.array([2, 3, 10], np.uint16), scale)
    assert back.view(np.float32).tolist() == [1.0, 3.0, -0.5]
    assert np.isnan(num.widen_scaled(FP4, F32)(mode(), np.array([2], np.uint16), np.uint16(255)).view(np.float32)).all()


def test_fp4_rounds_ties_to_even() -> None:
    middles = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], np.float32).view(np.uint32)
    assert num.narrow_scaled(F32, FP4)(mode(), middles, np.uint16(127)).tolist() == [0, 2, 2, 4, 4, 6, 6]
