"""Matrix products, with and without the matrix instructions, and what is built on them, against numpy.

With two half, bfloat16 or int8 matrices whose sizes are multiples of 16, tinygrad uses ``V_WMMA_*`` on gfx1100; with
``TC=0`` it does not. Inputs are small integers where the result is to be exact: products and sums are then whole
numbers that every format holds, in whatever order they are added up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tinygrad import Context, Device, Tensor, dtypes
from tinygrad.codegen import to_program
from tinygrad.dtype import to_dtype
from tinygrad.engine.realize import run_linear
from tinygrad.uop.ops import Ops

from .numerics import FLOATS, Array, array, close, rounded, run, same, seeded, some, tensor


def whole(dtype: str, shape: tuple[int, ...], *key: object) -> Array:
    values = seeded("whole", dtype, shape, *key).integers(-4, 5, shape)
    return values.astype("float32" if dtype == "bfloat16" else dtype)


def compute(t: Tensor) -> tuple[Array, str]:
    """The value of ``t``, and the LLVM IR of the kernels that computed it."""
    linear = t.schedule_linear()
    calls = [u for u in linear.toposort() if u.op is Ops.CALL and u.src[0].op is Ops.SINK]
    programs = [to_program(u.src[0], Device[Device.DEFAULT].renderer) for u in calls]
    run_linear(linear)
    return array(t), "\n".join(u.arg for p in programs for u in p.src if u.op is Ops.SOURCE)


SHAPES = [(1, 1, 1), (3, 4, 5), (16, 16, 16), (17, 31, 9), (32, 8, 64), (1, 100, 1), (64, 1, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_exact_products(dtype: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = whole(dtype, (m, k), "a"), whole(dtype, (k, n), "b")
    same(run(lambda a, b: a @ b, a, b), a @ b, signed_zeros=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounded_product(dtype: str) -> None:
    a, b = some(dtype, (24, 40), "a"), some(dtype, (40, 20), "b")
    want = a.astype(np.float64) @ b.astype(np.float64)
    bound = {"float16": 6e-2, "bfloat16": 0.3, "float32": 2e-5, "float64": 1e-13}[dtype]
    close(run(lambda a, b: a @ b, a, b, dtype=dtype), rounded(want, dtype), dtype, ulp=2, absolute=bound)


WMMA = [
    ("float16", "float32", "wmma.f32.16x16x16.f16"),
    ("bfloat16", "float32", "wmma.f32.16x16x16.bf16"),
    ("float16", "float16", "wmma.f16.16x16x16.f16"),
    ("int8", "int32", "wmma.i32.16x16x16.iu8"),
]


@pytest.mark.usefixtures("on_amd")
@pytest.mark.parametrize(("source", "accumulator", "intrinsic"), WMMA, ids=[w[2] for w in WMMA])
@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 48, 16), (64, 32, 64)], ids=str)
def test_matrix_instructions(shape: tuple[int, int, int], source: str, accumulator: str, intrinsic: str) -> None:
    m, k, n = shape
    a, b = whole(source, (m, k), "a"), whole(source, (k, n), "b")
    got, code = compute(tensor(a, source).matmul(tensor(b, source), dtype=to_dtype(accumulator)))
    assert intrinsic in code, "the compiler did not use the matrix instruction"
    same(got, (a.astype(np.int64) @ b.astype(np.int64)).astype(accumulator), signed_zeros=False)


@pytest.mark.usefixtures("on_amd")
@pytest.mark.parametrize(("source", "accumulator", "intrinsic"), WMMA[:2], ids=[w[2] for w in WMMA[:2]])
def test_matrix_instructions_with_fractions(source: str, accumulator: str, intrinsic: str) -> None:
    """Sums that need rounding: the order and width of the accumulation inside the instruction are not documented."""
    a, b = some(source, (32, 32), "a"), some(source, (32, 32), "b")
    got, code = compute(tensor(a, source).matmul(tensor(b, source), dtype=to_dtype(accumulator)))
    assert intrinsic in code
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64), rtol=0, atol=3e-5)


@pytest.mark.usefixtures("on_amd")
def test_without_matrix_instructions_the_result_is_the_same() -> None:
    a, b = whole("float16", (32, 32), "a"), whole("float16", (32, 32), "b")

    def product() -> Tensor:
        return tensor(a).matmul(tensor(b), dtype=dtypes.float32)

    with_wmma, code = compute(product())
    assert "wmma" in code
    with Context(TC=0):
        without, code = compute(product())
    assert "wmma" not in code
    same(with_wmma, without, signed_zeros=False)
    same(without, a.astype(np.float32) @ b.astype(np.float32), signed_zeros=False)


@pytest.mark.usefixtures("on_amd")
def test_padding_to_the_matrix_instruction() -> None:
    a, b = whole("float16", (30, 20), "a"), whole("float16", (20, 18), "b")
    with Context(TC_OPT=2):
        got, code = compute(tensor(a).matmul(tensor(b), dtype=dtypes.float32))
    assert "wmma" in code
    same(got, a.astype(np.float32) @ b.astype(np.float32), signed_zeros=False)


OnTensors = Callable[[Tensor, Tensor], Tensor]
OnArrays = Callable[[Array, Array], Array]
Shape = tuple[int, ...]

PRODUCTS: dict[str, tuple[OnTensors, OnArrays, Shape, Shape]] = {
    "batched": (lambda a, b: a @ b, lambda a, b: a @ b, (3, 5, 7), (3, 7, 4)),
    "broadcast batch": (lambda a, b: a @ b, lambda a, b: a @ b, (2, 1, 5, 7), (3, 7, 4)),
    "vector on the left": (lambda a, b: a @ b, lambda a, b: a @ b, (40,), (40, 24)),
    "vector on the right": (lambda a, b: a @ b, lambda a, b: a @ b, (24, 40), (40,)),
    "dot product": (lambda a, b: a.dot(b), np.dot, (99,), (99,)),
    "transposed": (lambda a, b: a.T @ b.T, lambda a, b: a.T @ b.T, (7, 5), (4, 7)),
    "gram": (lambda a, b: a @ a.T + b, lambda a, b: a @ a.T + b, (12, 20), (12, 12)),
    "linear with bias": (lambda a, b: a.linear(b, b[0]), lambda a, b: a @ b + b[0], (6, 10), (10, 16)),
    "outer": (
        lambda a, b: Tensor.einsum("i,j->ij", a, b), lambda a, b: np.einsum("i,j->ij", a, b), (17,), (9,)
    ),
    "einsum, two contractions": (
        lambda a, b: Tensor.einsum("bij,bjk->ik", a, b),
        lambda a, b: np.einsum("bij,bjk->ik", a, b), (3, 4, 5), (3, 5, 6)
    ),
    "einsum, transposed output": (
        lambda a, b: Tensor.einsum("ij,kj->ki", a, b), lambda a, b: np.einsum("ij,kj->ki", a, b), (8, 9), (5, 9)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    fn, ref, left, right = PRODUCTS[name]
    a, b = whole("float32", left, name, "a"), whole("float32", right, name, "b")
    same(run(fn, a, b), np.asarray(ref(a, b)).astype(np.float32), signed_zeros=False)


def test_chain_of_products() -> None:
    a, b, c = (whole("float32", (12, 12), k) for k in "abc")
    same(run(lambda a, b, c: (a @ b).relu() @ c, a, b, c), np.maximum(a @ b, 0) @ c, signed_zeros=False)


def test_matrix_power_in_place() -> None:
    m = Tensor([[1.0, 1.0], [1.0, 0.0]]).contiguous().realize()
    x = m
    for _ in range(10):
        x = (x @ m).realize()
    assert x.tolist() == [[144.0, 89.0], [89.0, 55.0]]
