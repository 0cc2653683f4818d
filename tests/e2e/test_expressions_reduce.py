"""Reductions and scans on the GPU against numpy: by one axis, several axes, all of them, in every dtype.

A float sum may be taken in any order. So inputs of the exact tests are small integers, whose sums are exact in every
order; other sums are compared with the sum in double under the usual error bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor, dtypes
from tinygrad.dtype import to_dtype

from .numerics import ALL, FLOATS, INTS, Array, array, close, rounded, run, same, seeded, some, tensor


def small(dtype: str, shape: tuple[int, ...]) -> Array:
    """Small whole numbers: exact sums in any order, even in bfloat16 for short rows."""
    low = 0 if dtype == "bool" or dtype.startswith("uint") else -3
    high = 2 if dtype == "bool" else 4
    return seeded("small", dtype, shape).integers(low, high, shape).astype("float32" if dtype == "bfloat16" else dtype)


def sum_dtype(dtype: str) -> str:
    """tinygrad adds up small integers in 32 bits, and returns floats in their own dtype."""
    if dtype in FLOATS:
        return "float32" if dtype == "bfloat16" else dtype
    if dtype in ("uint8", "uint16", "uint32"):
        return "uint32"
    return dtype if dtype in ("int64", "uint64") else "int32"


AXES = [None, 0, 1, -1, (0, 2)]


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_sum(axis: Any, dtype: str) -> None:
    a = small(dtype, (3, 5, 7))
    want = np.asarray(a.astype(np.float64).sum(axis=axis) if dtype in FLOATS else a.sum(axis=axis))
    same(run(lambda x: x.sum(axis), a, dtype=dtype), want.astype(sum_dtype(dtype)), signed_zeros=False)


@pytest.mark.parametrize("dtype", ALL)
def test_max_and_min(dtype: str) -> None:
    a = some(dtype, (6, 33))
    same(run(lambda x: x.max(1), a, dtype=dtype), a.max(1))
    same(run(lambda x: x.min(0), a, dtype=dtype), a.min(0))
    same(run(lambda x: x.max(), a, dtype=dtype), np.asarray(a.max()))


@pytest.mark.parametrize("dtype", ALL)
def test_argmax_and_argmin(dtype: str) -> None:
    a = small(dtype, (5, 23))  # with many ties: the first one wins
    same(run(lambda x: x.argmax(1), a, dtype=dtype), a.argmax(1).astype(np.int32))
    same(run(lambda x: x.argmin(1), a, dtype=dtype), a.argmin(1).astype(np.int32))


@pytest.mark.parametrize("dtype", [*INTS, "float32", "float64"])
def test_product(dtype: str) -> None:
    a = small(dtype, (4, 9))
    want = a.prod(1).astype(dtype)
    same(run(lambda x: x.prod(1).cast(to_dtype(dtype)), a), want, signed_zeros=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_mean_and_variance(dtype: str) -> None:
    a = some(dtype, (4, 64))
    wide = a.astype(np.float64)
    near = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-14}[dtype]
    close(run(lambda x: x.mean(1), a, dtype=dtype), rounded(wide.mean(1), dtype), dtype, ulp=4, absolute=near)
    close(run(lambda x: x.var(1), a, dtype=dtype), rounded(wide.var(1, ddof=1), dtype), dtype, ulp=4, absolute=8 * near)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"])
def test_cumulative_sum(dtype: str) -> None:
    a = small(dtype, (3, 40))
    want = np.cumsum(a.astype(np.int64), axis=1).astype(sum_dtype(dtype))
    same(run(lambda x: x.cumsum(1).cast(to_dtype(sum_dtype(dtype))), a), want, signed_zeros=False)


def test_other_scans() -> None:
    a = some("float32", (2, 17))
    same(run(lambda x: x.cummax(1)[0], a), np.maximum.accumulate(a, axis=1))
    b = small("int32", (2, 9))
    same(run(lambda x: x.cumprod(1), b), np.cumprod(b, axis=1).astype(np.int32))


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 255, 256, 257, 1000, 4096, 20000])
def test_sum_of_a_vector_of_any_length(n: int) -> None:
    """Short vectors run in one lane; longer ones through local memory; the longest split into two kernels."""
    a = some("int32", n) >> 12
    same(run(lambda x: x.sum(), a), np.asarray(a.sum(dtype=np.int32)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sum_of_many_floats(dtype: str) -> None:
    a = some(dtype, 3000)
    epsilon = {"float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}[dtype]
    got = run(lambda x: x.sum(), a).astype(np.float64)
    exact = a.astype(np.longdouble).sum()
    # Half sums are kept in float, so only the last rounding is in half. Partial sums are short: 64 roundings suffice.
    inner = 2.0**-24 if dtype == "float16" else epsilon
    error = epsilon * abs(exact) + 64 * inner * float(np.abs(a).astype(np.float64).sum())
    assert abs(got - exact) <= error


def test_sum_keeps_infinities_and_nan() -> None:
    inf, nan = np.inf, np.nan
    a = np.array([[1, inf, 2], [1, -inf, 2], [inf, -inf, 0], [nan, 1, 2], [1, 2, 3]], np.float32)
    same(run(lambda x: x.sum(1), a), np.array([inf, -inf, nan, nan, 6], np.float32))


LOGICAL: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    "any": (lambda x: x.any(1), lambda x: x.any(1)),
    "all": (lambda x: x.all(1), lambda x: x.all(1)),
    "count": (lambda x: x.sum(1), lambda x: x.sum(1).astype(np.int32)),
}


@pytest.mark.parametrize("name", LOGICAL)
def test_logical(name: str) -> None:
    fn, ref = LOGICAL[name]
    a = seeded("logical").random((8, 20)) < np.linspace(0, 1, 8)[:, None]
    same(run(fn, a), ref(a))


def test_reduction_of_an_expression_and_of_a_broadcast() -> None:
    a, b = some("float32", (8, 1, 16)), some("float32", (1, 5, 16))
    got = run(lambda a, b: ((a - b) * (a - b)).sum(2).max(1), a, b)
    want = ((a.astype(np.float64) - b) ** 2).sum(2).max(1).astype(np.float32)
    close(got, want, "float32", ulp=16)


def test_several_reductions_in_one_schedule() -> None:
    a = some("float32", (12, 30))
    x = tensor(a)
    total, largest, smallest = x.sum(1), x.max(1), x.min(1)
    Tensor.realize(total, largest, smallest)
    close(array(total), a.astype(np.float64).sum(1).astype(np.float32), "float32", ulp=64, absolute=1e-5)
    same(array(largest), a.max(1))
    same(array(smallest), a.min(1))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_sixty_four_bit_sums_carry(dtype: str) -> None:
    a = some(dtype, (3, 50))
    same(run(lambda x: x.sum(1), a), a.sum(1, dtype=dtype))


def test_sum_with_another_accumulator() -> None:
    a = some("uint8", 300)
    same(run(lambda x: x.sum(dtype=dtypes.uint8), a), np.asarray(a.sum(dtype=np.uint8)))
