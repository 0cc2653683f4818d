"""Random programs of integer and bool operations, drawn from a seed, on the GPU and in numpy.

Each program mixes arithmetic, bit operations, casts, selects, movements and reductions of a few tensors, so that the
compiler meets combinations that nobody would write down. A failure prints the seed and the list of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from tinygrad import Tensor
from tinygrad.dtype import to_dtype

from .numerics import INTS, Array, array, edges, seeded, some, tensor

DTYPES = ("bool", *INTS)
Pair = tuple[Tensor, Array]  # the same value on the GPU and in numpy


@dataclass
class Program:
    """Values made so far, and how. ``rng`` decides everything."""

    rng: np.random.Generator
    shape: tuple[int, ...]
    pool: list[Pair] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def any(self) -> Pair:
        return self.pool[self.below(len(self.pool))]

    def like(self, value: Array) -> Pair:
        """A value of the same dtype as ``value``."""
        fitting = [pair for pair in self.pool if pair[1].dtype == value.dtype]
        return fitting[self.below(len(fitting))]

    def axis(self) -> int:
        return self.below(len(self.shape))


def bitwise(p: Program, t: Tensor, n: Array) -> Pair:
    u, m = p.like(n)
    return [(t ^ u, n ^ m), (t & u, n & m), (t | u, n | m)][p.below(3)]


def arithmetic(p: Program, t: Tensor, n: Array) -> Pair:
    """Unsigned, because signed overflow is undefined in the code that tinygrad makes."""
    if n.dtype.kind != "u":
        return bitwise(p, t, n)
    u, m = p.like(n)
    k = int(p.rng.choice([1, 2, 3, 5, 7, 10, 100]))
    c = n.dtype.type(k)
    return [(t * u, n * m), (t + u, n + m), (t - u, n - m), (t // k, n // c), (t % k, n % c)][p.below(5)]


def shift(p: Program, t: Tensor, n: Array) -> Pair:
    if n.dtype.kind != "u":
        return invert(p, t, n)
    k = p.below(n.dtype.itemsize * 8)
    c = n.dtype.type(k)
    return (t << k, n << c) if p.below(2) else (t >> k, n >> c)


def invert(p: Program, t: Tensor, n: Array) -> Pair:
    return (t.logical_not() if n.dtype == bool else ~t), ~n


def cast(p: Program, t: Tensor, n: Array) -> Pair:
    target = str(p.rng.choice(DTYPES))
    return t.cast(to_dtype(target)), n.astype(target)


def compare(p: Program, t: Tensor, n: Array) -> Pair:
    u, m = p.like(n)
    return (t < u, n < m) if p.below(2) else (t.ne(u), n != m)


def select(p: Program, t: Tensor, n: Array) -> Pair:
    (u, m), (v, o) = p.like(n), p.like(n)
    return t.eq(u).where(v, t), np.where(n == m, o, n)


def largest(p: Program, t: Tensor, n: Array) -> Pair:
    u, m = p.like(n)
    return t.maximum(u), np.maximum(n, m)


def flip(p: Program, t: Tensor, n: Array) -> Pair:
    axis = p.axis()
    return t.flip(axis), np.flip(n, axis)


def broadcast(p: Program, t: Tensor, n: Array) -> Pair:
    """One slice along an axis takes the place of all others."""
    axis = p.axis()
    at = p.below(n.shape[axis])
    cut = tuple(slice(at, at + 1) if k == axis else slice(None) for k in range(n.ndim))
    return t[cut].expand(*n.shape), np.broadcast_to(n[cut], n.shape)


def reduce(p: Program, t: Tensor, n: Array) -> Pair:
    axis = p.axis()
    if n.dtype.kind != "u":
        return t.max(axis, keepdim=True).expand(*n.shape), np.broadcast_to(n.max(axis, keepdims=True), n.shape)
    total = t.sum(axis, keepdim=True).cast(t.dtype).expand(*n.shape)
    return total, np.broadcast_to(n.sum(axis, keepdims=True, dtype=n.dtype), n.shape)


def push(p: Program, t: Tensor, n: Array) -> Pair:
    """Moved on by one along an axis, with a zero in front."""
    axis = p.axis()
    width = [(1, 0) if k == axis else (0, 0) for k in range(n.ndim)]
    cut = tuple(slice(0, n.shape[k]) for k in range(n.ndim))
    return t.pad(tuple(width))[cut], np.pad(n, width)[cut]


STEPS: tuple[Callable[[Program, Tensor, Array], Pair], ...] = (
    arithmetic, arithmetic, bitwise, shift, invert, cast, cast, compare, select, largest, flip, broadcast, reduce, push,
)  # fmt: skip


def draw(seed: int) -> Program:
    """A program of 4 to 14 steps on six tensors of three dtypes, half of them made of edge values."""
    rng = seeded("program", seed)
    p = Program(rng, tuple(int(n) for n in rng.choice([1, 2, 3, 5, 8, 16, 33], rng.integers(1, 4))))
    for dtype in rng.choice(DTYPES, 3, replace=False):
        for value in (some(str(dtype), p.shape, seed), rng.choice(edges(str(dtype)), p.shape)):
            p.pool.append((tensor(value), value))
    for _ in range(rng.integers(4, 15)):
        step = STEPS[p.below(len(STEPS))]
        t, n = p.any()
        made = step(p, t, n)
        p.log.append(f"{step.__name__} of {n.dtype} -> {made[1].dtype}")
        p.pool.append((made[0], np.array(made[1])))
    return p


@pytest.mark.parametrize("first", range(0, 160, 16))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 16):
        with np.errstate(all="ignore"):
            program = draw(seed)
        got, want = array(program.pool[-1][0].contiguous()), program.pool[-1][1]
        assert got.dtype == want.dtype, f"seed {seed}: {got.dtype} != {want.dtype}, {program.log}"
        assert np.array_equal(got, want), f"seed {seed}, shape {program.shape}: {program.log}\n{got}\n{want}"
