"""Moving data about on the GPU: views, padding, indexing, gather and scatter, sorting. Exact, in several dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor

from .numerics import Array, array, run, same, seeded, some, tensor

MOVES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    "permute": (lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    "transpose": (lambda x: x.transpose(1, 2), lambda x: x.swapaxes(1, 2)),
    "flip": (lambda x: x.flip((0, 2)), lambda x: x[::-1, :, ::-1]),
    "pad": (lambda x: x.pad(((1, 2), (0, 1), (3, 0))), lambda x: np.pad(x, ((1, 2), (0, 1), (3, 0)))),
    "shrink": (lambda x: x.shrink(((1, 3), (0, 5), (2, 6))), lambda x: x[1:3, 0:5, 2:6]),
    "reshape": (lambda x: x.permute(1, 0, 2).reshape(10, 14), lambda x: x.transpose(1, 0, 2).reshape(10, 14)),
    "expand": (lambda x: x[:, :1].expand(4, 3, 7), lambda x: np.broadcast_to(x[:, :1], (4, 3, 7))),
    "stride": (lambda x: x[::2, ::-1, ::3], lambda x: x[::2, ::-1, ::3]),
    "roll": (lambda x: x.roll((1, -2), (0, 2)), lambda x: np.roll(x, (1, -2), (0, 2))),
    "repeat": (lambda x: x.repeat((1, 2, 3)), lambda x: np.tile(x, (1, 2, 3))),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), lambda x: np.repeat(x, 2, 1)),
    "concatenate": (lambda x: x.cat(x.flip(1), dim=1), lambda x: np.concatenate([x, x[:, ::-1]], 1)),
    "stack": (lambda x: Tensor.stack(x, x + x, dim=1), lambda x: np.stack([x, x + x], 1)),
    "split": (lambda x: x.split([2, 3], 1)[1], lambda x: x[:, 2:]),
    "triangle": (lambda x: x.triu(1) + x.tril(-1), lambda x: np.triu(x, 1) + np.tril(x, -1)),
    "diagonal": (lambda x: x[0].diagonal(), lambda x: np.diagonal(x[0])),
    "pad then shrink back": (lambda x: x.pad((2, 2, 2, 2, 2, 2)).contiguous()[2:-2, 2:-2, 2:-2], lambda x: x),
    "unfold": (lambda x: x.unfold(2, 3, 2), lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, 2)[:, :, ::2]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64"])
@pytest.mark.parametrize("name", MOVES)
def test_move(name: str, dtype: str) -> None:
    fn, ref = MOVES[name]
    x = seeded(name, dtype).integers(0, 100, (4, 5, 7)).astype(dtype)
    same(run(lambda x: fn(x).contiguous(), x), np.ascontiguousarray(ref(x)))


INDEXES: dict[str, Callable[[Any, Any], Any]] = {
    "a row": lambda x, i: x[3],
    "a negative row": lambda x, i: x[-2],
    "an element": lambda x, i: x[2, 5],
    "ellipsis and new axis": lambda x, i: x[..., None, 1:4],
    "rows by an index tensor": lambda x, i: x[i],
    "columns by an index tensor": lambda x, i: x[:, i],
    "pairs of index tensors": lambda x, i: x[i, i[::-1] if isinstance(i, np.ndarray) else i.flip(0)],
    "index tensor and slice": lambda x, i: x[1:6, i],
}


@pytest.mark.parametrize("name", INDEXES)
def test_index(name: str) -> None:
    x = some("int32", (8, 9))
    i = np.array([0, 7, 3, 3, 1], np.int32)
    same(run(lambda x, i: INDEXES[name](x, i).contiguous(), x, i), np.array(INDEXES[name](x, i)))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float32"])
def test_gather(dtype: str) -> None:
    x, i = some(dtype, (6, 10)), seeded("gather").integers(0, 10, (6, 7)).astype(np.int32)
    same(run(lambda x, i: x.gather(1, i), x, i), np.take_along_axis(x, i, 1))


def test_scatter() -> None:
    x, v = some("float32", (5, 8)), some("float32", (5, 3))
    i = np.stack([seeded("scatter", r).permutation(8)[:3] for r in range(5)]).astype(np.int32)
    want = x.copy()
    np.put_along_axis(want, i, v, 1)
    same(run(lambda x, i, v: x.scatter(1, i, v), x, i, v), want)


def test_scatter_add() -> None:
    x, i, v = np.zeros(10, np.int32), seeded("add").integers(0, 10, 40).astype(np.int32), some("int32", 40)
    want = x.copy()
    np.add.at(want, i, v)
    same(run(lambda x, i, v: x.scatter_reduce(0, i, v, "sum"), x, i, v), want)


def test_assign_to_a_slice_and_to_a_whole() -> None:
    x = tensor(some("float32", (6, 6)))
    want = x.numpy().copy()
    x[1:3, 2:5] = 7.5
    want[1:3, 2:5] = 7.5
    x[4] = x[0]
    want[4] = want[0]
    same(array(x), want)
    x.assign(x + x).realize()
    same(array(x), want + want)


def test_one_hot_and_embedding() -> None:
    i, table = np.array([3, 0, 5, 5], np.int32), some("float32", (6, 8))
    same(run(lambda i: i.one_hot(6), i), np.eye(6, dtype=np.int32)[i])
    same(run(lambda i, t: i.one_hot(6).float() @ t, i, table), table[i])


def test_arange_linspace_eye_full() -> None:
    same(array(Tensor.arange(3, 50, 4).contiguous()), np.arange(3, 50, 4, dtype=np.int32))
    same(array(Tensor.arange(10.0, 0, -2.5).contiguous()), np.arange(10, 0, -2.5, dtype=np.float32))
    same(array(Tensor.linspace(0, 1, 9).contiguous()), np.linspace(0, 1, 9, dtype=np.float32))
    same(array(Tensor.eye(5, 7).contiguous()), np.eye(5, 7, dtype=np.float32))
    same(array(Tensor.full((3, 4), 9, dtype="int8").contiguous()), np.full((3, 4), 9, np.int8))
    grid = Tensor.arange(4).meshgrid(Tensor.arange(3))
    same(array(grid[0].contiguous()), np.mgrid[0:4, 0:3][0].astype(np.int32))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float16", "float32"])
@pytest.mark.parametrize("n", [1, 2, 7, 32])
def test_sort(n: int, dtype: str) -> None:
    x = some(dtype, (2, n))
    x[0, : n // 2] = x[0, n - n // 2 :]  # ties: the sort is stable
    values, indices = tensor(x).sort(1)
    same(array(values), np.sort(x, 1))
    same(array(indices), np.argsort(x, 1, kind="stable").astype(np.int32))


def test_sort_descending_and_argsort() -> None:
    x = seeded("descending").permutation(20).astype(np.int32)
    same(run(lambda x: x.sort(0, descending=True)[0], x), np.sort(x)[::-1])
    same(run(lambda x: x.argsort(), x), np.argsort(x).astype(np.int32))


@pytest.mark.parametrize("largest", [True, False])
def test_topk(largest: bool) -> None:
    x = seeded("topk").permutation(24).reshape(2, 12).astype(np.float32)
    values, indices = tensor(x).topk(4, 1, largest=largest)
    order = np.argsort(-x if largest else x, 1)[:, :4]
    same(array(values), np.take_along_axis(x, order, 1))
    same(array(indices), order.astype(np.int32))


def test_masked_select_and_nonzero() -> None:
    x = some("int32", (5, 6))
    same(run(lambda x: x.masked_select(x > 0), x), x[x > 0])
    same(run(lambda x: (x > 0).nonzero(), x), np.argwhere(x > 0).astype(np.int32))


def test_masked_fill_and_where_with_broadcast() -> None:
    x, row = some("float32", (6, 7)), some("float32", (1, 7))
    same(run(lambda x, r: (x > r).where(x, r), x, row), np.where(x > row, x, row))
    same(run(lambda x: x.masked_fill(x < 0, 9), x), np.where(x < 0, np.float32(9), x))
