"""How the end-to-end tests make inputs, run tensor expressions on the emulated GPU, and compare with numpy.

A tensor of any dtype is described by a numpy array. bfloat16, which numpy does not have, is represented by a float32
array whose values are bfloat16 values; on the way to the device and back only its upper 16 bits travel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor, dtypes

Array = npt.NDArray[Any]

FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
ALL = ("bool", *INTS, *FLOATS)

#: Significand bits (the hidden one included) and the numpy dtype of the bit patterns.
PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_BITS = {"float16": np.uint16, "bfloat16": np.uint16, "float32": np.uint32, "float64": np.uint64}


def seeded(*key: object) -> np.random.Generator:
    """A generator that depends on ``key`` only, not on the order of tests or on the process."""
    return np.random.default_rng(list("/".join(map(str, key)).encode()))


# ---- bfloat16 ---------------------------------------------------------------------------------------------------


def bf16_bits(a: Array) -> Array:
    """float32 to the 16 bits of the nearest bfloat16, ties to even; a NaN stays a NaN."""
    u = np.asarray(a, np.float32).view(np.uint32)
    rounded = (u + 0x7FFF + ((u >> 16) & 1)) >> 16
    return np.where(np.isnan(a), (u >> 16) | 1, rounded).astype(np.uint16)


def from_bf16_bits(u: Array) -> Array:
    return (u.astype(np.uint32) << 16).view(np.float32)


def rounded(a: Array, dtype: str) -> Array:
    """``a`` (any float array) rounded to nearest even in ``dtype``, in the representation of this module."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if dtype == "bfloat16":
            return from_bf16_bits(bf16_bits(np.asarray(a).astype(np.float32)))
        return np.asarray(a).astype(dtype)


def np_dtype(dtype: str) -> npt.DTypeLike:
    return "float32" if dtype == "bfloat16" else dtype


# ---- inputs -----------------------------------------------------------------------------------------------------


def edge_floats(dtype: str) -> Array:
    """Zeros, ones, halves, denormals, extremes, infinities and a NaN, each with both signs."""
    mantissa = PRECISION[dtype] - 1
    bits = _BITS[dtype]
    exponent = np.dtype(bits).itemsize * 8 - 1 - mantissa
    one = ((1 << (exponent - 1)) - 1) << mantissa
    inf = ((1 << exponent) - 1) << mantissa
    smallest_normal = 1 << mantissa
    denormals = [1, 2, 3, smallest_normal // 3, smallest_normal - 1]
    normals = [smallest_normal, smallest_normal + 1, one - 1, one, one + 1, one + (1 << mantissa), inf - 1]
    halves = [one - (1 << mantissa), one + (1 << (mantissa - 1)), one + (5 << (mantissa - 2))]
    nan = inf | (1 << (mantissa - 1))
    positive = np.array([0, *denormals, *normals, *halves, inf, nan], bits)
    sign = bits(1 << (exponent + mantissa))
    u = np.concatenate([positive, positive | sign])
    return from_bf16_bits(u) if dtype == "bfloat16" else u.view(dtype)


def edge_ints(dtype: str) -> Array:
    """The extremes, their neighbours, and values about zero."""
    info = np.iinfo(dtype)
    values = {info.min, info.min + 1, info.max, info.max - 1, info.max // 2, info.max // 3, 0, 1, 2, 3, 7, 100}
    if info.min < 0:
        values |= {-1, -2, -3, -7, -100, info.min // 2, info.min // 3}
    return np.array(sorted(values), dtype)


def edges(dtype: str) -> Array:
    if dtype == "bool":
        return np.array([False, True])
    return edge_floats(dtype) if dtype in FLOATS else edge_ints(dtype)


def pairs(values: Array) -> tuple[Array, Array]:
    """Every value against every value, as two arrays of the same length."""
    a, b = np.meshgrid(values, values, indexing="ij")
    return a.ravel(), b.ravel()


def some(dtype: str, n: int | tuple[int, ...], *key: object, low: float = -4.0, high: float = 4.0) -> Array:
    """Random values of ``dtype``: floats uniform in [low, high), integers over their whole range."""
    rng = seeded(dtype, n, *key)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype in FLOATS:
        return rounded(rng.uniform(low, high, n), dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, n, dtype, endpoint=True)


# ---- to the device and back -------------------------------------------------------------------------------------


def tensor(a: Array, dtype: str | None = None, device: str | None = None) -> Tensor:
    """A realized tensor on the emulated GPU. ``dtype`` is needed for bfloat16 only."""
    if dtype == "bfloat16":
        return Tensor(bf16_bits(a), device=device).realize().bitcast(dtypes.bfloat16)
    return Tensor(np.ascontiguousarray(a), device=device).realize()


def array(t: Tensor) -> Array:
    """The value of ``t``, computed on its device, in the representation of this module."""
    if t.dtype == dtypes.bfloat16:
        return from_bf16_bits(t.contiguous().bitcast(dtypes.uint16).numpy())
    return np.asarray(t.numpy())


def run(fn: Callable[..., Tensor], *arrays: Array, dtype: str | None = None) -> Array:
    """``fn`` of the arrays as tensors on the emulated GPU."""
    return array(fn(*(tensor(a, dtype) for a in arrays)))


# ---- comparison -------------------------------------------------------------------------------------------------


def _ordered(a: Array, dtype: str) -> Array:
    """Floats as integers (object dtype) in which neighbours differ by one; both zeros are 0."""
    u = (bf16_bits(a) if dtype == "bfloat16" else np.ascontiguousarray(a).view(_BITS[dtype])).astype(object)
    half = 1 << (np.dtype(_BITS[dtype]).itemsize * 8 - 1)
    return np.where(u >= half, half - u, u)


def ulps(got: Array, want: Array, dtype: str) -> Array:
    """The distance in units in the last place (object dtype); 0 where both are NaN, huge where one is."""
    distance = np.abs(_ordered(got, dtype) - _ordered(want, dtype))
    distance = np.where(np.isnan(got) & np.isnan(want), 0, distance)
    return np.where(np.isnan(got) != np.isnan(want), 1 << 64, distance)


def same(got: Array, want: Array, *inputs: Array, signed_zeros: bool = True) -> None:
    """Equal in shape, dtype and every element; NaN equals NaN, and -0 differs from +0 unless told otherwise."""
    assert got.shape == want.shape, f"shape {got.shape} != {want.shape}"
    assert got.dtype == want.dtype, f"dtype {got.dtype} != {want.dtype}"
    equal = got == want
    if got.dtype.kind == "f":
        nan = np.isnan(got) & np.isnan(want)
        equal = (equal & ((np.signbit(got) == np.signbit(want)) | (not signed_zeros))) | nan
    _report(equal, got, want, inputs)


def close(got: Array, want: Array, dtype: str, *inputs: Array, ulp: int, absolute: float = 0.0) -> None:
    """Within ``ulp`` units in the last place of ``dtype``, or within ``absolute``; not-a-numbers must coincide."""
    assert got.shape == want.shape, f"shape {got.shape} != {want.shape}"
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(got.astype(np.float64) - want.astype(np.float64)) <= absolute
    distance = ulps(got, want, dtype)
    _report((distance <= ulp) | near, got, want, inputs, f"more than {ulp} ulp apart (worst: {distance.max()})")


def _report(ok: Array, got: Array, want: Array, inputs: tuple[Array, ...], why: str = "different") -> None:
    if np.all(ok):
        return
    bad = np.argwhere(~ok)
    lines = [f"{len(bad)} of {ok.size} elements are {why}:"]
    for index in map(tuple, bad[:8]):
        given = ", ".join(repr(i[index]) for i in inputs if i.shape == got.shape)
        lines.append(f"  at {index}: got {got[index]!r}, want {want[index]!r}" + (f" for {given}" if given else ""))
    raise AssertionError("\n".join(lines))
