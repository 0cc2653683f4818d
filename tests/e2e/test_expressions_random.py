"""Random numbers on the GPU against Threefry in numpy: the same seed gives the same numbers on every machine.

tinygrad's generator is Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
2011): 32-bit adds, rotations and exclusive ors on the GPU, and a bit trick that makes floats in [0, 1) of the result.
"""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

from .numerics import Array, array, run, same, some

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)


def threefry(x0: Array, x1: Array, key0: Array, key1: Array) -> tuple[Array, Array]:
    """20 rounds of Threefry-2x32 on uint32 arrays."""
    ks = (key0, key1, key0 ^ key1 ^ PARITY)
    x0, x1 = x0 + ks[0], x1 + ks[1]
    for i in range(5):
        for r in ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = ((x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r))) ^ x0
        x0, x1 = x0 + ks[(i + 1) % 3], x1 + ks[(i + 2) % 3] + np.uint32(i + 1)
    return x0, x1


@pytest.mark.parametrize("key", [(0, 0), (0x13198A2E, 0x03707344), (0xFFFFFFFF, 0xFFFFFFFF)], ids=str)
def test_threefry(key: tuple[int, int]) -> None:
    counter = some("uint64", 100)
    key64 = np.full(100, key[0] | key[1] << 32, np.uint64)
    got = run(lambda x, k: x.threefry(k), counter, key64)
    low, high = (counter & np.uint64(0xFFFFFFFF)).astype(np.uint32), (counter >> np.uint64(32)).astype(np.uint32)
    with np.errstate(over="ignore"):
        x0, x1 = threefry(low, high, *(np.full(100, k, np.uint32) for k in key))
    same(got, x0.astype(np.uint64) | (x1.astype(np.uint64) << np.uint64(32)))


def test_threefry_known_answer() -> None:
    """The first test vector that the authors of Threefry publish for 2x32 with 20 rounds."""
    got = int(run(lambda x, k: x.threefry(k), np.zeros(1, np.uint64), np.zeros(1, np.uint64))[0])
    assert (got & 0xFFFFFFFF, got >> 32) == (0x6B200159, 0x99BA4EFE)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_rand_is_the_same_on_every_device(dtype: str) -> None:
    """The PYTHON device of tinygrad interprets the same operations without any GPU."""
    Tensor.manual_seed(1337)
    got = array(Tensor.rand(40, dtype=dtype))
    Tensor.manual_seed(1337)
    want = array(Tensor.rand(40, dtype=dtype, device="PYTHON"))
    same(got, want)
    assert (got >= 0).all() and (got < 1).all()
    assert len(np.unique(got)) > 30


def test_sequence_of_draws_depends_on_the_seed_only() -> None:
    draws = []
    for seed in (5, 5, 6):
        Tensor.manual_seed(seed)
        draws.append((Tensor.rand(16).numpy(), Tensor.rand(16).numpy()))
    same(draws[0][0], draws[1][0])
    same(draws[0][1], draws[1][1])
    assert (draws[0][0] != draws[0][1]).any() and (draws[0][0] != draws[2][0]).any()


def test_distributions() -> None:
    Tensor.manual_seed(7)
    normal = Tensor.randn(3000).numpy()
    assert abs(normal.mean()) < 0.08 and abs(normal.std() - 1) < 0.06
    integers = Tensor.randint(500, low=-3, high=4).numpy()
    assert set(integers.tolist()) == set(range(-3, 4))
    uniform = Tensor.uniform(500, low=2, high=5).numpy()
    assert uniform.min() >= 2 and uniform.max() < 5 and abs(uniform.mean() - 3.5) < 0.2


def test_permutation() -> None:
    Tensor.manual_seed(3)
    p = Tensor.randperm(20).numpy()
    assert sorted(p.tolist()) == list(range(20)) and p.tolist() != list(range(20))


def test_dropout_keeps_the_mean() -> None:
    from tinygrad import Context

    Tensor.manual_seed(11)
    with Context(TRAINING=1):
        x = Tensor.ones(2000).dropout(0.25).numpy()
    assert set(np.unique(x).tolist()) == {0.0, float(np.float32(1 / 0.75))}
    assert abs(x.mean() - 1) < 0.06


def test_bits() -> None:
    """The upper 23 bits of every draw become the mantissa, so that each value is a multiple of 2**-23."""
    Tensor.manual_seed(2)
    x = Tensor.rand(64, dtype=dtypes.float32).numpy()
    assert ((x * 2.0**23) % 1 == 0).all()
