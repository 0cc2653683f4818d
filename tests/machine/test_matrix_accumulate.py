"""The accumulation rules against exact rational arithmetic, one dot product at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from mockgpu.machine.matrix_accumulate import (
    RULES,
    Rule,
    Step,
    Terms,
    accumulate,
    aligned,
    aligned_halves,
    exact,
    exact_sum,
    fused,
    fused_f64,
    pairwise_flushing,
)

F16_MIN, BF16_MIN, BF8_MIN = -14, -126, -15
CASES = 300


def to_f32(value: Fraction) -> Fraction:
    """To nearest even, subnormals included."""
    return rounded(value, 24, -149)


def rounded(value: Fraction, digits: int, least: int) -> Fraction:
    if value == 0:
        return value
    unit = Fraction(2) ** max(exponent(value) - digits + 1, least)
    return Fraction(round(value / unit)) * unit  # round() goes to even


def exponent(value: Fraction) -> int:
    """floor(log2(|value|))."""
    guess = abs(value.numerator).bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= abs(value) else guess - 1


def factors(kind: str, rng: np.random.Generator, shape: tuple[int, ...], wide: bool) -> np.ndarray:
    """Random f16, bf16 or bf8 numbers; ``wide``: of very different size, zeros and subnormals among them."""
    bits = {"f16": 11, "bf16": 8, "bf8": 3}[kind]
    least = {"f16": -24, "bf16": -40, "bf8": -17}[kind]
    significand = rng.integers(-(1 << bits) + 1, 1 << bits, shape)
    power = rng.integers(least, 5 if wide else least + 3, shape)
    return np.ldexp(significand.astype(np.float64), power)


def addends(rng: np.random.Generator, count: int) -> np.ndarray:
    values = np.ldexp(rng.integers(-(1 << 24) + 1, 1 << 24, count).astype(np.float64), rng.integers(-60, 8, count))
    return values.astype(np.float32).astype(np.float64)


def one(step: Step, a: list[float], b: list[float], c: float, least: int) -> float:
    terms = Terms(np.array(a)[None], np.array(b)[None], least, least)
    return float(step(terms, np.array([c]))[0])


# -- the paper's example -----------------------------------------------------------------------------------------------

EXAMPLE_A = [-(2.0**13), -0.5, -0.25, -0.125]
EXAMPLE_B = [2.0**10, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("rule", "least", "result"),
    [
        (RULES["gfx908", "f16"], F16_MIN, -0.875),
        (RULES["gfx908", "bf16"], BF16_MIN, -0.875),
        (RULES["gfx90a", "bf16"], BF16_MIN, -0.375),
        (RULES["gfx90a", "bf16_1k"], BF16_MIN, 0.0),
        (RULES["gfx90a", "f16"], F16_MIN, 0.0),
        (RULES["gfx942", "f16"], F16_MIN, -0.5),
        (RULES["gfx942", "bf16"], BF16_MIN, -0.5),
        (RULES["gfx942", "bf8"], BF8_MIN, -1.0),
    ],
)
def test_published_example(rule: Rule, least: int, result: float) -> None:
    """One sum that every generation rounds in its own way; exact it is -0.875."""
    pad = [0.0] * (max(rule.group, 4) - 4)
    terms = Terms(np.array(EXAMPLE_A + pad), np.array(EXAMPLE_B + pad), least, least)
    assert float(accumulate(rule, terms, np.array(2.0**23))) == result


def test_sums_of_the_gfx1151_report_that_any_rule_gives() -> None:
    assert one(exact, [3.0, 8.0], [8.0, 4.0], 1.0, F16_MIN) == 57.0


# -- against rational numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 9, 129])
def test_exact_sum_rounds_once(count: int) -> None:
    rng = np.random.default_rng(count)
    significand = rng.integers(-(1 << 30), 1 << 30, (CASES, count)).astype(np.float64)
    x = np.ldexp(significand, rng.integers(-150, 60, (CASES, count)))
    x[: CASES // 2, 0] = -x[: CASES // 2, 1] - np.ldexp(1.0, -90)  # much cancels
    got = exact_sum(x).astype(np.float32).astype(np.float64)
    want = [float(to_f32(sum(map(Fraction, row), Fraction(0)))) for row in x.tolist()]
    np.testing.assert_array_equal(got, want)


def test_exact_sum_of_zeros_and_infinities() -> None:
    rows = np.array([[-0.0, -0.0], [-0.0, 0.0], [1.0, -1.0], [np.inf, 1.0], [-np.inf, 1e300], [np.inf, -np.inf]])
    with np.errstate(invalid="ignore"):
        got = exact_sum(rows)
    assert [math.copysign(1, x) for x in got[:3]] == [-1, 1, 1]
    assert got[3:5].tolist() == [np.inf, -np.inf]
    assert np.isnan(got[5])


@pytest.mark.parametrize("wide", [False, True])
def test_fused_chain(wide: bool) -> None:
    rng = np.random.default_rng(7)
    a, b = factors("f16", rng, (CASES, 8), wide), factors("f16", rng, (CASES, 8), wide)
    c = addends(rng, CASES)
    got = accumulate(Rule(fused, 1, "test"), Terms(a, b, F16_MIN, F16_MIN), c)
    for row in range(CASES):
        total = Fraction(c[row])
        for x, y in zip(a[row], b[row], strict=True):
            total = to_f32(total + Fraction(x) * Fraction(y))
        assert Fraction(got[row]) == total


def test_fused_f64() -> None:
    rng = np.random.default_rng(8)
    a, b, c = rng.standard_normal((3, CASES, 1))
    got = fused_f64(Terms(a, b, -1022, -1022), c[:, 0])
    want = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a[:, 0], b[:, 0], c[:, 0], strict=True)]
    np.testing.assert_array_equal(got, want)


def cut(value: Fraction, place: int, how: Callable[[Fraction], int]) -> Fraction:
    unit = Fraction(2) ** place
    return how(value / unit) * unit


def product_exponent(a: float, b: float, least: int) -> int:
    if a * b == 0:
        return -(10**6)
    return max(exponent(Fraction(a)), least) + max(exponent(Fraction(b)), least)


def truncated(a: list[float], b: list[float], least: int) -> tuple[Fraction, int]:
    exponents = [product_exponent(x, y, least) for x, y in zip(a, b, strict=True)]
    top = max(exponents)
    products = (Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True))
    place = max(top, -3000) - 24
    return sum((cut(product, place, math.trunc) for product in products), Fraction(0)), top


def joined(total: Fraction, top: int, c: float, drop: bool) -> Fraction:
    of_c = max(exponent(Fraction(c)), -126) if c else -126
    larger = max(top, of_c)
    kept = cut(Fraction(c), larger - 24, math.floor)
    if drop and of_c < larger - 25:
        kept = Fraction(0)
    return to_f32(cut(total, larger - 31, math.floor) + kept)


def reference_aligned(a: list[float], b: list[float], c: float, least: int) -> Fraction:
    return joined(*truncated(a, b, least), c, drop=False)


def reference_halves(a: list[float], b: list[float], c: float, least: int) -> Fraction:
    even, top_even = truncated(a[0::2], b[0::2], least)
    odd, top_odd = truncated(a[1::2], b[1::2], least)
    top = max(top_even, top_odd)
    place = max(top, -3000) - 24
    total = cut(even, place, math.floor) + cut(odd, place, math.floor)
    return joined(total, top, c, drop=True)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("step", "reference", "kind", "least", "group"),
    [
        (aligned, reference_aligned, "f16", F16_MIN, 8),
        (aligned, reference_aligned, "bf16", BF16_MIN, 8),
        (aligned_halves, reference_halves, "bf8", BF8_MIN, 16),
    ],
)
def test_aligned(step: Step, reference: Callable[..., Fraction], kind: str, least: int, group: int, wide: bool) -> None:
    rng = np.random.default_rng(9)
    a, b = factors(kind, rng, (CASES, group), wide), factors(kind, rng, (CASES, group), wide)
    a[0] = 0.0
    c = addends(rng, CASES)
    got = step(Terms(a, b, least, least), c)
    want = [float(reference(a[n].tolist(), b[n].tolist(), float(c[n]), least)) for n in range(CASES)]
    np.testing.assert_array_equal(got, want)


def test_aligned_special_numbers() -> None:
    inf = np.inf
    with np.errstate(invalid="ignore"):
        assert one(aligned, [inf, 1.0], [1.0, 1.0], 0.0, F16_MIN) == inf
        assert one(aligned, [1.0, 1.0], [1.0, 1.0], -inf, F16_MIN) == -inf
        assert np.isnan(one(aligned, [inf, -inf], [1.0, 1.0], 0.0, F16_MIN))
        assert one(aligned, [2.0**64, 0.0], [2.0**64, 0.0], -(2.0**127), BF16_MIN) == inf


def test_pairwise_flushes_results() -> None:
    tiny = 2.0**-64
    assert one(pairwise_flushing, [tiny, 0.0], [tiny, 0.0], 0.0, BF16_MIN) == 0.0
    assert one(pairwise_flushing, [1.0, 2.0**-24], [1.0, 1.0], -1.0, BF16_MIN) == 0.0  # 2**-24 is lost beside 1
    assert one(exact, [1.0, 2.0**-24], [1.0, 1.0], -1.0, BF16_MIN) == 2.0**-24


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("group", [2, 8])
def test_exact_rounds_once_with_and_without_partial_sums_that_fit(group: int, wide: bool) -> None:
    rng = np.random.default_rng(17)
    a, b = (factors("bf16", rng, (CASES, group), wide) for _ in range(2))
    a[0, :2], b[0, :2] = (1.0, 2.0**-60), 1.0  # the partial sum is not a double
    for x, y, c in zip(a, b, addends(rng, CASES), strict=True):
        total = sum((Fraction(p) * Fraction(q) for p, q in zip(x, y, strict=True)), Fraction(float(c)))
        assert Fraction(one(exact, list(x), list(y), float(c), BF16_MIN)) == to_f32(total)
