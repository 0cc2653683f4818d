"""Transcendental functions on the GPU against numpy in a wider format.

Single functions are within a few ulp; functions that tinygrad builds from others (tan, tanh, gelu, ...) inherit the
absolute error of their parts near a cancellation, so they are compared with an absolute bound as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from tinygrad import Tensor

from .numerics import FLOATS, Array, close, rounded, run, some

SPECIALS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan])


class Function(NamedTuple):
    fn: Callable[[Tensor], Tensor]
    want: Callable[[Array], Array]
    low: float
    high: float
    ulp: dict[str, int]
    absolute: float = 0.0  # in units of the precision of the dtype


def each(half: int, bfloat: int, single: int, double: int) -> dict[str, int]:
    return {"float16": half, "bfloat16": bfloat, "float32": single, "float64": double}


ELEMENTARY = {
    "exp2": Function(lambda x: x.exp2(), np.exp2, -14, 15, each(1, 1, 2, 4)),
    "log2": Function(lambda x: x.log2(), np.log2, 0.01, 60, each(2, 1, 2, 4), 1),
    # exp(x) is exp2(x * log2(e)): the rounding of the product is multiplied by x.
    "exp": Function(lambda x: x.exp(), np.exp, -10, 10, each(1, 1, 10, 16)),
    "log": Function(lambda x: x.log(), np.log, 0.01, 60, each(3, 2, 3, 4), 1),
    "log10": Function(lambda x: x.log10(), np.log10, 0.01, 60, each(3, 2, 3, 4), 1),
    "sin": Function(lambda x: x.sin(), np.sin, -20, 20, each(2, 1, 2, 4), 8),
    # The argument is reduced by a rounded multiple of pi; cos(x) is sin(pi / 2 - x), where the difference is rounded.
    "cos": Function(lambda x: x.cos(), np.cos, -20, 20, each(2, 1, 2, 8), 32),
    "rsqrt": Function(lambda x: x.rsqrt(), lambda x: 1 / np.sqrt(x), 0.01, 100, each(2, 2, 2, 2)),
}


def precision(dtype: str) -> float:
    return {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}[dtype]


def check(f: Function, dtype: str, x: Array) -> None:
    with np.errstate(all="ignore"):
        want = rounded(f.want(x.astype(np.longdouble)), dtype)
    close(run(f.fn, x, dtype=dtype), want, dtype, x, ulp=f.ulp[dtype], absolute=f.absolute * precision(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary(name: str, dtype: str) -> None:
    f = ELEMENTARY[name]
    check(f, dtype, some(dtype, 200, name, low=f.low, high=f.high))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ELEMENTARY)
def test_special_values(name: str, dtype: str) -> None:
    f = ELEMENTARY[name]
    x = SPECIALS if name not in ("sin", "cos") else SPECIALS[[0, 2, 3, 4, 5, 6, 7, 8]]
    if name == "rsqrt":
        # 1 / sqrt(-0) is up to nsz, and 1 / 0 of a double up to the Newton steps of division.
        x = SPECIALS[[2, 3, 4, 5, 7, 8] if dtype == "float64" else [0, 2, 3, 4, 5, 6, 7, 8]]
    check(f, dtype, rounded(x, dtype))


COMPOSED = {
    "tan": Function(lambda x: x.tan(), np.tan, -1.4, 1.4, each(4, 2, 16, 32), 8),
    "sigmoid": Function(lambda x: x.sigmoid(), lambda x: 1 / (1 + np.exp(-x)), -10, 10, each(8, 3, 16, 32), 4),
    "tanh": Function(lambda x: x.tanh(), np.tanh, -6, 6, each(4, 4, 8, 8), 16),
    "sinh": Function(lambda x: x.sinh(), np.sinh, -4, 4, each(4, 4, 8, 16), 64),
    "cosh": Function(lambda x: x.cosh(), np.cosh, -4, 4, each(4, 4, 8, 16), 4),
    "silu": Function(lambda x: x.silu(), lambda x: x / (1 + np.exp(-x)), -10, 10, each(8, 4, 16, 32), 8),
    "softplus": Function(lambda x: x.softplus(), lambda x: np.log1p(np.exp(x)), -8, 8, each(4, 3, 4, 8), 16),
    "elu": Function(lambda x: x.elu(), lambda x: np.where(x > 0, x, np.expm1(x)), -5, 5, each(4, 3, 4, 8), 8),
    "asinh": Function(lambda x: x.asinh(), np.arcsinh, 0, 5, each(4, 3, 4, 8), 16),
    "atanh": Function(lambda x: x.atanh(), np.arctanh, -0.9, 0.9, each(4, 3, 4, 8), 16),
    "gelu": Function(
        lambda x: x.gelu(),
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        -4,
        4,
        each(16, 8, 32, 64),
        16,
    ),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", COMPOSED)
def test_composed(name: str, dtype: str) -> None:
    f = COMPOSED[name]
    check(f, dtype, some(dtype, 150, name, low=f.low, high=f.high))


#: tinygrad approximates these by polynomials of a fixed absolute accuracy, whatever the dtype.
APPROXIMATE: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array], float]] = {
    "asin": (lambda x: x.asin(), np.arcsin, 1e-6),
    "acos": (lambda x: x.acos(), np.arccos, 1e-6),
    "atan": (lambda x: x.atan(), np.arctan, 1e-5),
    "erf": (lambda x: x.erf(), np.vectorize(math.erf), 1e-6),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximate(name: str, dtype: str) -> None:
    fn, ref, absolute = APPROXIMATE[name]
    x = some(dtype, 100, name, low=-1, high=1)
    np.testing.assert_allclose(run(fn, x), ref(x.astype(np.float64)), rtol=0, atol=absolute)


@pytest.mark.parametrize(("dtype", "absolute"), [("float32", 2e-7), ("float64", 5e-4)])
def test_sine_of_large_arguments(dtype: str, absolute: float) -> None:
    """Beyond 30 tinygrad reduces the argument by 2/pi in integer arithmetic, 64 bits wide: a stress for those.

    In double it looks at the upper 32 bits of the argument only, hence the bound.
    """
    x = np.concatenate(
        [some(dtype, 40, low=30, high=1000), some(dtype, 40, low=1e3, high=1e6), some(dtype, 20, low=-99, high=-31)]
    )
    want = rounded(np.sin(x.astype(np.float64)), dtype)
    np.testing.assert_allclose(run(lambda x: x.sin(), x), want, rtol=0, atol=absolute)


@pytest.mark.usefixtures("on_amd")
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_results_below_the_normal_range_and_above_the_largest(dtype: str) -> None:
    x = np.arange(-30, 20, 0.5) if dtype == "float16" else np.arange(-155, 135, 2.5)
    x = rounded(x, dtype)
    with np.errstate(all="ignore"):
        want = rounded(np.exp2(x.astype(np.float64)), dtype)
    close(run(lambda x: x.exp2(), x), want, dtype, x, ulp=2)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_logarithm_of_denormals(dtype: str) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    x = (np.array([1, 2, 3, 5, 100, 1000]) * tiny.astype(np.float64)).astype(dtype)
    close(run(lambda x: x.log2(), x), rounded(np.log2(x.astype(np.float64)), dtype), dtype, x, ulp=2)


def test_integers_are_promoted() -> None:
    x = np.arange(1, 20, dtype=np.int32)
    want = np.sqrt(x.astype(np.float32))
    close(run(lambda x: x.float().sqrt(), x), want, "float32", ulp=0)
    close(run(lambda x: x.exp(), x), np.exp(x.astype(np.float64)).astype(np.float32), "float32", x, ulp=20)
