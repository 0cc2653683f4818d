"""Elementwise float expressions on the GPU against numpy, for half, bfloat16, float and double.

Tolerances are in units in the last place (ulp). What the hardware and the compiler promise:

* add, subtract, multiply, compare, select, truncation: exact, denormals kept (the compiler's default MODE);
  the sign of a zero is free, because tinygrad compiles float arithmetic with ``nsz``;
* square root: the compiler expands it to a correctly rounded sequence; half goes through float;
* division: tinygrad allows approximations (``arcp afn``), so ``a / b`` is ``a * rcp(b)``. ``v_rcp_f32`` and
  ``v_rcp_f16`` are documented to 1 ulp, so 2 ulp for the quotient. For double, Newton steps follow ``v_rcp_f64``,
  and those turn an infinite dividend and a divisor of zero or infinity into NaN, on hardware as well;
* ``v_exp_f32``, ``v_log_f32``: 1 ulp. tinygrad's own sine, and its exp2 and log2 for double, are polynomials that claim
  1 ulp; a few more are granted where cancellation takes place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from tinygrad import Tensor

from .numerics import FLOATS, Array, close, edges, np_dtype, pairs, rounded, run, same, some


class Binary(NamedTuple):
    """``fn`` works on tensors and on arrays alike, unless ``want`` says what numpy has to compute."""

    fn: Callable[[Any, Any], Any]
    want: Callable[[Array, Array], Array] | None = None


EXACT_BINARY = {
    "add": Binary(lambda a, b: a + b),
    "subtract": Binary(lambda a, b: a - b),
    "multiply": Binary(lambda a, b: a * b),
    "less": Binary(lambda a, b: a < b),
    "greater": Binary(lambda a, b: a > b),
    "equal": Binary(lambda a, b: a == b),
    "not_equal": Binary(lambda a, b: a != b),
    # tinygrad writes a <= b as not (b < a), which is true for NaN.
    "less_or_equal": Binary(lambda a, b: a <= b, lambda a, b: ~(b < a)),
    "greater_or_equal": Binary(lambda a, b: a >= b, lambda a, b: ~(a < b)),
    # and maximum as a select, which keeps the first operand when one is NaN.
    "maximum": Binary(lambda a, b: a.maximum(b), lambda a, b: np.where(a < b, b, a)),
    "minimum": Binary(lambda a, b: a.minimum(b), lambda a, b: np.where(-a < -b, b, a)),
    "select": Binary(lambda a, b: (a > 0).where(a, b), lambda a, b: np.where(a > 0, a, b)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", EXACT_BINARY)
def test_exact_binary_on_all_pairs_of_edges(name: str, dtype: str) -> None:
    op = EXACT_BINARY[name]
    a, b = pairs(edges(dtype))
    with np.errstate(all="ignore"):
        want = (op.want or op.fn)(a, b)
    if want.dtype != bool:
        want = rounded(want, dtype)
    same(run(op.fn, a, b, dtype=dtype), want, a, b, signed_zeros=False)


EXACT_UNARY: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    "negate": (lambda x: -x, np.negative),
    "truncate": (lambda x: x.trunc(), np.trunc),
    "floor": (lambda x: x.floor(), np.floor),
    "ceil": (lambda x: x.ceil(), np.ceil),
    "round": (lambda x: x.round(), np.rint),
    "sign": (lambda x: x.sign(), lambda x: np.where(np.isnan(x), 1, np.sign(x)).astype(x.dtype)),
    "relu": (lambda x: x.relu(), lambda x: np.where(x > 0, x, 0).astype(x.dtype)),
    "isnan": (lambda x: x.isnan(), np.isnan),
    "isinf": (lambda x: x.isinf(), np.isinf),
    "square": (lambda x: x.square(), lambda x: x * x),
    "clamp": (lambda x: x.clamp(-1, 1.5), lambda x: np.where(x > 1.5, 1.5, np.where(x < -1, -1, x)).astype(x.dtype)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", EXACT_UNARY)
def test_exact_unary_on_edges(name: str, dtype: str) -> None:
    fn, ref = EXACT_UNARY[name]
    x = np.concatenate([edges(dtype), some(dtype, 64, low=-9, high=9)])
    if name == "round":  # above the precision, adding one half is not exact
        x = x[~(np.abs(x) > 100)]
    with np.errstate(all="ignore"):
        want = ref(x)
    if want.dtype != bool:
        want = rounded(want, dtype)
    same(run(fn, x, dtype=dtype), want, x, signed_zeros=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_square_root_is_correctly_rounded(dtype: str) -> None:
    x = np.concatenate([edges(dtype), some(dtype, 200, low=0, high=1000)])
    with np.errstate(invalid="ignore"):
        want = rounded(np.sqrt(x), dtype)
    close(run(lambda t: t.sqrt(), x, dtype=dtype), want, dtype, x, ulp=0)


SPECIALS = [0.0, -0.0, 1.0, -1.0, 2.5, 0.125, 3.0, float("inf"), float("-inf"), float("nan")]
DIVISION_ULP = {"float16": 2, "bfloat16": 1, "float32": 2, "float64": 2}


def ordinary(divisor: Array) -> Array:
    return ~((divisor == 0) | np.isinf(divisor))


@pytest.mark.parametrize("dtype", FLOATS)
def test_division(dtype: str) -> None:
    a, b = pairs(rounded(np.array(SPECIALS), dtype))
    if dtype == "float64":
        a, b = a[ordinary(b) & ~np.isinf(a)], b[ordinary(b) & ~np.isinf(a)]
    a = np.concatenate([a, some(dtype, 200, "a", low=-50, high=50)])
    b = np.concatenate([b, some(dtype, 200, "b", low=0.01, high=50)])
    with np.errstate(all="ignore"):
        want = rounded(a / b, dtype)
    close(run(lambda a, b: a / b, a, b, dtype=dtype), want, dtype, a, b, ulp=DIVISION_ULP[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
def test_reciprocal(dtype: str) -> None:
    x = rounded(np.array(SPECIALS), dtype)
    x = np.concatenate([x[ordinary(x)] if dtype == "float64" else x, some(dtype, 200, low=-50, high=50)])
    with np.errstate(all="ignore"):
        want = rounded(1 / x, dtype)
    close(run(lambda x: x.reciprocal(), x, dtype=dtype), want, dtype, x, ulp=1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floor_division_and_remainder_by_powers_of_two(dtype: str) -> None:
    """Powers of two, because a quotient next to an integer may fall on either side when division is approximate."""
    a = some(dtype, 100, low=-60, high=60)
    b = rounded(seeded_powers_of_two(len(a)), dtype)
    same(run(lambda a, b: a // b, a, b, dtype=dtype), rounded(np.floor(a / b), dtype), a, b, signed_zeros=False)
    same(run(lambda a, b: a % b, a, b, dtype=dtype), rounded(a - np.floor(a / b) * b, dtype), a, b, signed_zeros=False)


def seeded_powers_of_two(n: int) -> Array:
    return np.tile(np.array([0.25, 0.5, 1, 2, 4, -0.5, -2, -8]), -(-n // 8))[:n]


@pytest.mark.parametrize("dtype", FLOATS)
def test_fused_or_not_multiply_add(dtype: str) -> None:
    """``contract`` lets the compiler fuse ``a * b + c``: both roundings are right, anything else is not."""
    a, b, c = (some(dtype, 256, key) for key in "abc")
    got = run(lambda a, b, c: a * b + c, a, b, c, dtype=dtype)
    wide = np.longdouble if dtype == "float64" else np.float64
    fused = rounded(a.astype(wide) * b.astype(wide) + c.astype(wide), dtype)
    separate = rounded(rounded(a * b, dtype) + c, dtype)
    either = (got == fused) | (got == separate)
    assert either.all(), (a[~either], b[~either], c[~either], got[~either], fused[~either], separate[~either])


@pytest.mark.parametrize("dtype", FLOATS)
def test_power(dtype: str) -> None:
    base = some(dtype, 120, "base", low=0.2, high=4)
    exponent = some(dtype, 120, "exponent", low=-3, high=3)
    want = rounded(base.astype(np.float64) ** exponent.astype(np.float64), dtype)
    close(run(lambda a, b: a**b, base, exponent, dtype=dtype), want, dtype, base, exponent, ulp=12)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5])
def test_power_with_a_constant_exponent(exponent: float, dtype: str) -> None:
    x = some(dtype, 64, low=0.25, high=4)
    want = rounded(x.astype(np.float64) ** exponent, dtype)
    close(run(lambda x: x**exponent, x, dtype=dtype), want, dtype, x, ulp=4)


def test_negative_bases_follow_the_exponent() -> None:
    base, exponent = pairs(np.array([-2.0, -0.5, 0.0, 1.0, 3.0, float("inf")], np.float32))
    exponent = np.round(exponent * 2) / 2
    exponent[np.isinf(exponent)] = 2
    keep = ~((base == 0) & (exponent < 0))
    base, exponent = base[keep], exponent[keep]
    with np.errstate(invalid="ignore"):
        want = base**exponent
    close(run(lambda a, b: a**b, base, exponent), want, "float32", base, exponent, ulp=4)


def test_literals_and_scalars_keep_the_dtype() -> None:
    for dtype in FLOATS:
        x = some(dtype, 8)
        got = run(lambda x: 1 + x * 0.5 - 2, x, dtype=dtype)
        assert got.dtype == np_dtype(dtype)
        close(got, rounded(1 + x.astype(np.float64) * 0.5 - 2, dtype), dtype, x, ulp=2, absolute=0.01)
