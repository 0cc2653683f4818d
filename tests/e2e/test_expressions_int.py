"""Elementwise integer and bool expressions on the GPU against numpy: exact, for every width, signed and unsigned.

8- and 16-bit arithmetic is done in 32-bit registers, 64-bit arithmetic in register pairs, division by a sequence built
on the float reciprocal: each has its own way to be wrong at the edges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

from .numerics import INTS, SIGNED, Array, edges, pairs, run, same, some

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "less": lambda a, b: a < b,
    "less_or_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_or_equal": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "maximum": lambda a, b: a.maximum(b) if isinstance(a, Tensor) else np.maximum(a, b),
    "minimum": lambda a, b: a.minimum(b) if isinstance(a, Tensor) else np.minimum(a, b),
}


def edge_pairs(dtype: str, *key: str) -> tuple[Array, Array]:
    a, b = pairs(edges(dtype))
    return np.concatenate([a, some(dtype, 100, *key, "a")]), np.concatenate([b, some(dtype, 100, *key, "b")])


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: str) -> None:
    a, b = edge_pairs(dtype, name)
    with np.errstate(over="ignore"):
        want = BINARY[name](a, b)
    same(run(BINARY[name], a, b), want, a, b)


def divisible(dtype: str) -> tuple[Array, Array]:
    """Pairs whose quotient exists: no division by zero, and not the one overflow of two's complement."""
    a, b = edge_pairs(dtype, "division")
    ok = b != 0
    if dtype in SIGNED:
        ok &= ~((a == np.iinfo(dtype).min) & (b == -1))
    return a[ok], b[ok]


@pytest.mark.parametrize("dtype", INTS)
def test_floor_division(dtype: str) -> None:
    a, b = divisible(dtype)
    same(run(lambda a, b: a // b, a, b), a // b, a, b)


@pytest.mark.parametrize("dtype", INTS)
def test_remainder(dtype: str) -> None:
    a, b = divisible(dtype)
    same(run(lambda a, b: a % b, a, b), a % b, a, b)


@pytest.mark.parametrize("dtype", INTS)
def test_truncating_division(dtype: str) -> None:
    a, b = divisible(dtype)
    want = a // b + ((a % b != 0) & ((a < 0) != (b < 0))).astype(dtype)
    same(run(lambda a, b: a.div(b, rounding_mode="trunc"), a, b), want, a, b)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 10, 64, 100])
def test_division_by_a_constant(divisor: int, dtype: str) -> None:
    a = np.concatenate([edges(dtype), some(dtype, 100)])
    same(run(lambda a: a // divisor, a), a // np.array(divisor, dtype), a)
    same(run(lambda a: a % divisor, a), a % np.array(divisor, dtype), a)


@pytest.mark.parametrize("dtype", INTS)
def test_shifts(dtype: str) -> None:
    a = np.repeat(edges(dtype), 8)
    bits = np.iinfo(dtype).bits
    amount = np.tile(np.array([0, 1, 2, 3, bits // 2, bits // 2 + 1, bits - 2, bits - 1], dtype), len(edges(dtype)))
    same(run(lambda a, b: a << b, a, amount), a << amount, a, amount)
    same(run(lambda a, b: a >> b, a, amount), a >> amount, a, amount)


@pytest.mark.parametrize("dtype", INTS)
def test_shifts_by_a_constant(dtype: str) -> None:
    a = edges(dtype)
    same(run(lambda a: (a << 3) ^ (a >> 2), a), (a << np.array(3, dtype)) ^ (a >> np.array(2, dtype)), a)


@pytest.mark.parametrize("dtype", INTS)
def test_unary(dtype: str) -> None:
    a = np.concatenate([edges(dtype), some(dtype, 50)])
    with np.errstate(over="ignore"):
        same(run(lambda a: -a, a), (0 - a).astype(dtype), a)
        same(run(lambda a: ~a, a), ~a, a)
        same(run(lambda a: a * a, a), a * a, a)
    if dtype in SIGNED:
        a = a[a != np.iinfo(dtype).min]
        same(run(lambda a: a.abs(), a), np.abs(a), a)
        same(run(lambda a: a.sign(), a), np.sign(a), a)


@pytest.mark.parametrize("dtype", INTS)
def test_select_and_clamp(dtype: str) -> None:
    a, b = edge_pairs(dtype, "select")
    same(run(lambda a, b: (a > b).where(a, b ^ 1), a, b), np.where(a > b, a, b ^ np.array(1, dtype)), a, b)
    same(run(lambda a: a.clamp(1, 99), a), np.clip(a, 1, 99), a)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_power_with_a_small_exponent(dtype: str) -> None:
    a = np.concatenate([edges(dtype), some(dtype, 50)])
    with np.errstate(over="ignore"):
        same(run(lambda a: a**3, a), a * a * a, a)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_bit_tricks(dtype: str) -> None:
    """A population count in plain arithmetic: long chains of shifts, masks and adds in one kernel."""
    a = np.concatenate([edges(dtype), some(dtype, 60)]).astype(dtype.replace("int", "uint").replace("uu", "u"))
    one = a.dtype.type(1)

    def count(x: Any, zero: Any, one: Any) -> Any:
        for i in range(a.dtype.itemsize * 8):
            zero = zero + ((x >> i if isinstance(x, Tensor) else x >> a.dtype.type(i)) & one)
        return zero

    same(run(lambda x: count(x, x * 0, 1), a), count(a, a * 0, one), a)


BOOL: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "not_and": lambda a, b: a.logical_not() & b if isinstance(a, Tensor) else ~a & b,
    "sum_is_or": lambda a, b: (a + b) if isinstance(a, Tensor) else a | b,
    "product_is_and": lambda a, b: (a * b) if isinstance(a, Tensor) else a & b,
    "maximum": lambda a, b: a.maximum(b) if isinstance(a, Tensor) else a | b,
}


@pytest.mark.parametrize("name", BOOL)
def test_bool(name: str) -> None:
    a, b = some("bool", 77, "a"), some("bool", 77, "b")
    same(run(BOOL[name], a, b), BOOL[name](a, b), a, b)


def test_mixed_dtypes_promote_as_documented() -> None:
    """tinygrad's lattice: int8 with uint8 gives int16, int32 with uint32 int64, and so on."""
    i8, u8 = edges("int8")[:8], edges("uint8")[:8]
    same(run(lambda a, b: a + b, i8, u8), i8.astype(np.int16) + u8)
    i32, u32 = edges("int32")[:8], edges("uint32")[:8]
    same(run(lambda a, b: a * b, i32, u32), i32.astype(np.int64) * u32)
    half = some("float16", 8)
    same(run(lambda a, b: a + b, i8, half), i8.astype(np.float16) + half)


def test_wide_multiply() -> None:
    """The upper half of a 32 x 32 bit product, by way of 64 bits."""
    a, b = edge_pairs("uint32", "wide")
    got = run(lambda a, b: ((a.cast(dtypes.uint64) * b.cast(dtypes.uint64)) >> 32).cast(dtypes.uint32), a, b)
    same(got, ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32), a, b)


def test_xorshift_generator_runs_in_step_with_numpy() -> None:
    x = some("uint32", 64) | np.uint32(1)

    def steps(x: Any) -> Any:
        for _ in range(8):
            x = x ^ (x << 13)
            x = x ^ (x >> 17)
            x = x ^ (x << 5)
        return x

    same(run(steps, x), steps(x), x)
