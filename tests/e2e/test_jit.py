"""TinyJit on the GPU: the graph of commands that it replays must follow its inputs, its variables and its state."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, TinyJit, Variable

from .numerics import array, close, same, some, tensor


def test_replay_follows_the_inputs() -> None:
    @TinyJit
    def f(a: Tensor, b: Tensor) -> Tensor:
        return ((a + b) * (a - b)).sum(1).realize()

    for i in range(6):
        a, b = some("int32", (4, 9), i, "a") >> 20, some("int32", (4, 9), i, "b") >> 20
        same(array(f(tensor(a), tensor(b))), (a * a - b * b).sum(1, dtype=np.int32))


def test_a_graph_of_many_kernels() -> None:
    @TinyJit
    def f(x: Tensor) -> Tensor:
        for i in range(40):
            x = (x * 3 + i).contiguous()
        return x.realize()

    for i in range(4):
        x = some("uint32", 50, i)
        want = x
        for k in range(40):
            want = want * np.uint32(3) + np.uint32(k)
        same(array(f(tensor(x))), want)


def test_state_that_a_graph_updates_in_place() -> None:
    counter = Tensor.zeros(5, dtype="int32").contiguous().realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        counter.assign(counter + x).realize()
        return (counter * 2).realize()

    total = np.zeros(5, np.int32)
    for i in range(6):
        x = np.arange(5, dtype=np.int32) + i
        total += x
        same(array(step(tensor(x))), total * 2)
    same(array(counter), total)


def test_several_outputs() -> None:
    @TinyJit
    def f(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x.max(0).realize(), x.min(0).realize(), (x + 1).realize()

    for i in range(4):
        x = some("float32", (6, 7), i)
        high, low, more = (array(t) for t in f(tensor(x)))
        same(high, x.max(0))
        same(low, x.min(0))
        same(more, x + 1)


def test_the_output_is_the_next_input() -> None:
    @TinyJit
    def double(x: Tensor) -> Tensor:
        return (x + x).realize()

    x = tensor(np.ones(10, np.float32))
    for i in range(8):
        x = double(x).clone().realize()
        same(array(x), np.full(10, 2.0 ** (i + 1), np.float32))


def test_symbolic_length_without_jit() -> None:
    x = tensor(some("float32", (10, 4)))
    for n in (1, 3, 10):
        rows = Variable("rows", 1, 10).bind(n)
        close(
            array(x[:rows].sum(0)),
            x.numpy()[:n].astype(np.float64).sum(0).astype(np.float32),
            "float32",
            ulp=8,
            absolute=1e-6,
        )


def test_symbolic_length_with_jit() -> None:
    """One compiled kernel serves all lengths: the length comes as a kernel argument, and sets the grid."""

    @TinyJit
    def f(x: Tensor) -> Tensor:
        return (x * 2 + 1).sum(1).realize()

    data = some("int32", (3, 64)) >> 16
    source = tensor(data)
    for n in (5, 1, 64, 17, 33):
        length = Variable("length", 1, 64).bind(n)
        same(array(f(source[:, :length])), (data[:, :n] * 2 + 1).sum(1, dtype=np.int32))


def test_symbolic_offset_writes_a_cache() -> None:
    """The key and value cache of a language model: one row is written at a symbolic position, a prefix is read."""
    cache = Tensor.zeros(16, 4).contiguous().realize()

    @TinyJit
    def step(row: Tensor, position: Variable) -> Tensor:
        cache[position : position + 1].assign(row).realize()
        return cache[: position + 1].sum(0).realize()

    want = np.zeros((16, 4), np.float32)
    for i in range(8):
        row = (some("int8", (1, 4), i) >> 4).astype(np.float32)
        want[i] = row
        same(array(step(tensor(row), Variable("position", 0, 15).bind(i))), want[: i + 1].sum(0), signed_zeros=False)
    same(array(cache), want, signed_zeros=False)


def test_symbolic_matrix_product() -> None:
    @TinyJit
    def f(a: Tensor, b: Tensor) -> Tensor:
        return (a @ b).realize()

    a, b = (some("int8", (6, 20), "a") >> 5).astype(np.float32), (some("int8", (20, 8), "b") >> 5).astype(np.float32)
    left, right = tensor(a), tensor(b)
    for n in (2, 20, 7, 13):
        k = Variable("k", 1, 20).bind(n)
        same(array(f(left[:, :k], right[:k])), a[:, :n] @ b[:n], signed_zeros=False)


def test_a_captured_graph_survives_many_replays() -> None:
    """More replays than there are staging buffers, with a copy in and a copy out each time."""

    @TinyJit
    def f(x: Tensor) -> Tensor:
        return (x ^ 0x55AA).contiguous().sum().realize()

    for i in range(70):
        x = np.arange(i, i + 20, dtype=np.int32)
        assert f(tensor(x)).item() == int((x ^ 0x55AA).sum())


@pytest.mark.parametrize("size", [1, 32, 257])
def test_graph_with_copies_between_devices(size: int) -> None:
    from tinygrad import Device

    second = f"{Device.DEFAULT}:1"

    @TinyJit
    def f(x: Tensor) -> Tensor:
        y = (x + 1).realize().to(second).realize()
        z = (y * 2).realize().to(Device.DEFAULT).realize()
        return (z - 3).realize()

    for i in range(5):
        x = np.arange(size, dtype=np.int32) * i
        same(array(f(tensor(x))), (x + 1) * 2 - 3)
