"""Casts between all dtypes on the GPU, with the edge values of the source.

What C leaves undefined is asserted only where one RDNA3 instruction decides it: ``V_CVT_I32_F32`` and its kin clamp to
the range of the destination and turn NaN into 0 (RDNA3 ISA manual, section 16.8, VOP1 conversions). For other widths,
values outside the range of the destination are left out.
"""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, dtypes
from tinygrad.dtype import to_dtype

from .numerics import ALL, FLOATS, INTS, Array, array, edges, np_dtype, rounded, same, some, tensor


def cast(a: Array, source: str, target: str) -> Array:
    return array(tensor(a, source).cast(to_dtype(target)))


def representable(a: Array, target: str) -> Array:
    """Of the floats ``a``, those whose integer part ``target`` can hold."""
    info = np.iinfo(target)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(a.astype(np.float64))
        # float(info.max) may round up to the first value out of range, so compare below max + 1.
        return a[np.isfinite(a) & (whole >= float(info.min)) & (whole < float(info.max + 1))]


def expected(a: Array, target: str) -> Array:
    if target == "bool":
        return a != 0
    if target in FLOATS:
        return rounded(a, target)
    return a.astype(target)


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("source", ALL)
def test_cast(source: str, target: str) -> None:
    a = np.concatenate([edges(source), some(source, 50, low=-200, high=200)])
    if source in FLOATS and target in INTS:
        a = representable(a, target)
    with np.errstate(over="ignore", invalid="ignore"):
        want = expected(a, target)
    same(cast(a, source, target), want, a)


SATURATING = [("float32", "int32"), ("float32", "uint32"), ("float64", "int32"), ("float64", "uint32")]


@pytest.mark.usefixtures("on_amd")
@pytest.mark.parametrize(("source", "target"), SATURATING)
def test_float_to_int_saturates_and_turns_nan_into_zero(source: str, target: str) -> None:
    info = np.iinfo(target)
    a = np.array([np.nan, -np.nan, np.inf, -np.inf, 1e30, -1e30, -1, 2.0**31, -(2.0**31), 2.0**32, 3e9, -3e9], source)
    whole = np.where(np.isnan(a), 0, np.clip(np.trunc(a.astype(np.float64)), info.min, info.max))
    same(cast(a, source, target), whole.astype(np.int64).astype(target), a)


@pytest.mark.parametrize("target", FLOATS)
def test_large_integers_round_to_nearest_even(target: str) -> None:
    """Ties and near-ties just above the precision of the target, in 64 bits."""
    bits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[target]
    low = np.arange(-4, 5, dtype=np.int64)
    bases = [1 << bits, 3 << (bits - 1), (1 << (bits + 1)) + 2, -(1 << bits), -(5 << (bits - 2))]
    if target != "float16":
        bases += [1 << 61, -(1 << 61), (1 << 62) + (1 << (62 - bits))]
    a = np.concatenate([base + low for base in bases])
    same(cast(a, "int64", target), rounded(a, target), a)
    same(cast(np.abs(a).astype(np.uint64), "uint64", target), rounded(np.abs(a), target), np.abs(a))


@pytest.mark.usefixtures("on_amd")
@pytest.mark.parametrize("target", ["float16", "float32"])
def test_double_rounds_once(target: str) -> None:
    """Values a hair beside a tie: rounding to an intermediate width first would lose the hair."""
    step = 2.0 ** -(10 if target == "float16" else 23)
    tie = 1 + step * (np.arange(8) + 0.5)
    a = np.concatenate([tie, tie * (1 + 2.0**-50), tie * (1 - 2.0**-51)])
    a = np.concatenate([a, a * 2.0**-20, -a]) if target == "float16" else np.concatenate([a, a * 2.0**-140, -a])
    same(cast(a, "float64", target), rounded(a, target), a)


@pytest.mark.parametrize("dtype", FLOATS)
def test_there_and_back_is_the_identity(dtype: str) -> None:
    a = edges(dtype)
    wider = dtypes.float64 if dtype == "float64" else dtypes.float32
    back = array(tensor(a, dtype).cast(wider).contiguous().cast(to_dtype(dtype)))
    same(back, a)


@pytest.mark.parametrize(("dtype", "bits"), [("float16", "uint16"), ("float32", "uint32"), ("float64", "uint64")])
def test_bit_patterns_survive_copies_and_bitcasts(dtype: str, bits: str) -> None:
    """Moving data never touches it: signalling NaNs, payloads and denormals come out as they went in."""
    width = np.iinfo(bits).bits
    u = np.concatenate([edges(dtype).view(bits), some(bits, 64)])
    exponent = {16: 0x7C00, 32: 0x7F800000, 64: 0x7FF0000000000000}[width]
    u = np.concatenate([u, np.array([exponent | 1, exponent | 5, exponent | 1 | (1 << (width - 1))], bits)])
    x = Tensor(u).realize().bitcast(to_dtype(dtype))
    moved = x.flip(0).contiguous().realize().bitcast(to_dtype(bits)).numpy()
    same(moved, u[::-1])
    through = (x.bitcast(to_dtype(bits)) ^ 1).bitcast(to_dtype(dtype)).contiguous().realize()
    same(through.bitcast(to_dtype(bits)).numpy(), u ^ np.array(1, bits))


def test_bitcast_between_widths() -> None:
    a = some("uint32", 32)
    same(Tensor(a).bitcast(dtypes.uint8).numpy(), a.view(np.uint8))
    same(Tensor(a).bitcast(dtypes.uint16).numpy(), a.view(np.uint16))
    same((Tensor(a.view(np.uint8)).realize().bitcast(dtypes.uint32) + 0).numpy(), a)


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype_comes_back_as_it_went_in(dtype: str) -> None:
    a = np.concatenate([edges(dtype), some(dtype, 33)])
    got = array(tensor(a, dtype).contiguous())
    assert got.dtype == np_dtype(dtype)
    same(got, a)


def test_chain_of_casts() -> None:
    a = some("float32", 64, low=-120, high=120)
    got = (Tensor(a).cast(dtypes.int8).cast(dtypes.int64) * 3).cast(dtypes.half).cast(dtypes.float32).numpy()
    same(got, (a.astype(np.int8).astype(np.int64) * 3).astype(np.float16).astype(np.float32), a)
