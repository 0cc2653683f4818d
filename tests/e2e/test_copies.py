"""Data in and out of the GPU in every size, and between two GPUs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tinygrad import Device, Tensor, dtypes

from .numerics import array, same, seeded, some, tensor

KIB, MIB = 1 << 10, 1 << 20
SIZES = [0, 1, 2, 3, 4, 5, 63, 4 * KIB - 1, 4 * KIB, 4 * KIB + 1, MIB, 2 * MIB + 1, 16 * MIB]


def first() -> str:
    return Device.DEFAULT


def second() -> str:
    return f"{Device.DEFAULT}:1"


def payload(size: int) -> np.ndarray:
    return seeded(size).integers(0, 256, size, np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_there_and_back(size: int) -> None:
    data = payload(size)
    same(Tensor(data, dtype=dtypes.uint8).to(first()).realize().numpy(), data)


@pytest.mark.parametrize("size", SIZES)
def test_from_one_device_to_the_other(size: int) -> None:
    data = payload(size)
    there = Tensor(data, dtype=dtypes.uint8).to(first()).realize().to(second()).realize()
    assert there.device == second()
    same(there.numpy(), data)
    same(there.to(first()).realize().numpy(), data)


def test_copies_do_not_disturb_their_neighbours() -> None:
    """Odd slices copied in place: what lies on either side stays."""
    data = payload(301)
    for start, stop in [(0, 1), (1, 2), (3, 300), (299, 301), (17, 18)]:
        x = tensor(data)
        x[start:stop] = 0
        want = data.copy()
        want[start:stop] = 0
        same(array(x), want)


def test_views_at_odd_offsets() -> None:
    data = payload(1000)
    x = tensor(data)
    for start, stop in [(1, 4), (7, 999), (501, 502)]:
        same(x[start:stop].contiguous().realize().to(second()).numpy(), data[start:stop])


def test_many_small_copies() -> None:
    parts = [payload(n) for n in range(1, 80)]
    tensors = [tensor(p) for p in parts]
    for t, p in zip(tensors, parts, strict=True):
        same(t.numpy(), p)


def test_compute_on_both_devices() -> None:
    a, b = some("int32", 100, "a"), some("int32", 100, "b")
    x, y = tensor(a), tensor(b, device=second())
    left, right = (x * 3 + 1).realize(), (y ^ 0xFF).realize()
    assert (left.device, right.device) == (first(), second())
    same((left + right.to(first())).numpy(), a * 3 + 1 + (b ^ 0xFF))
    same((left.to(second()) + right).numpy(), a * 3 + 1 + (b ^ 0xFF))


def test_ping_pong() -> None:
    x = tensor(np.arange(64, dtype=np.int32))
    for i in range(10):
        x = (x + 1).realize().to(second() if i % 2 == 0 else first()).realize()
    same(array(x), np.arange(64, dtype=np.int32) + 10)


SHARDED: dict[str, Callable[[Tensor], Tensor]] = {
    "elementwise": lambda x: x * 2 + 1,
    "sum over the sharded axis (all-reduce)": lambda x: x.sum(0),
    "sum over the other axis": lambda x: x.sum(1),
    "sum of all": lambda x: x.sum(),
    "max over the sharded axis": lambda x: x.max(0),
}


@pytest.mark.parametrize("name", SHARDED)
def test_sharded_over_two_devices(name: str) -> None:
    data = some("int32", (8, 6)) >> 12
    x = Tensor(data).shard((first(), second()), 0).realize()
    fn = SHARDED[name]
    same(array(fn(x).to(first())), array(fn(tensor(data))))


def test_sharded_matrix_product() -> None:
    a, b = (some("int8", (8, 12), "a") >> 4).astype(np.float32), (some("int8", (12, 8), "b") >> 4).astype(np.float32)
    pair = (first(), second())
    rows = Tensor(a).shard(pair, 0) @ Tensor(b).shard(pair)
    same(array(rows.to(first())), a @ b, signed_zeros=False)
    inner = Tensor(a).shard(pair, 1) @ Tensor(b).shard(pair, 0)
    same(array(inner.to(first())), a @ b, signed_zeros=False)


def test_gradient_over_two_devices() -> None:
    pair = (first(), second())
    x = Tensor(some("float32", (8, 4))).shard(pair, 0).realize()
    w = Tensor(np.ones((4, 3), np.float32)).shard(pair).realize()
    (x @ w).square().sum().backward()
    assert w.grad is not None
    a = x.numpy()
    np.testing.assert_allclose(w.grad.numpy(), 2 * a.T @ (a @ np.ones((4, 3), np.float32)), rtol=1e-5, atol=1e-5)


def test_buffers_are_reused_without_remembering() -> None:
    """Freed memory goes to the next tensor of its size; what it held must not show."""
    for i in range(20):
        x = tensor(np.full(1000, i, np.int32))
        same(array(x + 0), np.full(1000, i, np.int32))
        del x
    same(array(Tensor.zeros(1000, dtype="int32").contiguous()), np.zeros(1000, np.int32))


def test_memory_is_given_back() -> None:
    from tinygrad.helpers import GlobalCounters

    before = GlobalCounters.mem_used_per_device[first()]
    x = tensor(payload(MIB))
    assert GlobalCounters.mem_used_per_device[first()] >= before + MIB
    del x
    assert GlobalCounters.mem_used_per_device[first()] <= before
