"""Shaped inputs: the patterns at which arithmetic goes wrong, and random ones with long runs of zeros and ones."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from support.exact import Format

Words = npt.NDArray[Any]


def floats(fmt: Format) -> list[int]:
    """The special patterns of a format, of both signs."""
    one, inf, low = fmt.one, fmt.inf, fmt.normal
    sizes = [
        0, 1, 2, 3, low - 1, low, low + 1, low + low // 2, 2 * low, one - low, one - low + 1, one - 1, one, one + 1,
        one + low // 2, one + low, one + 2 * low, one + 24 * low if fmt.exp > 5 else one + 11 * low,
        fmt.max - 1, fmt.max, inf, inf | fmt.quiet, inf | fmt.quiet | 5, inf | 1, inf | (fmt.quiet >> 1) | 2,
    ]  # fmt: skip
    if fmt.special != "ieee":
        sizes = [s for s in sizes if s <= fmt.sign - 1]
    return sizes + [s | fmt.sign for s in sizes]


def few_floats(fmt: Format) -> list[int]:
    """A dozen of them, for instructions with three operands."""
    one, inf, low = fmt.one, fmt.inf, fmt.normal
    sizes = [0, 1, low - 1, one, one + 1, fmt.max, inf, inf | fmt.quiet | 3, inf | 1]
    return sizes + [s | fmt.sign for s in (0, low, one, inf)]


def integers(bits: int) -> list[int]:
    """Integers at the edges, as patterns."""
    every = (1 << bits) - 1
    top = 1 << (bits - 1)
    edges = {0, 1, 2, 3, every, every - 1, top, top - 1, top + 1, top - 2, every // 3, every // 3 * 2}
    for n in range(4, bits, 4):
        edges |= {1 << n, (1 << n) - 1, every ^ (1 << n), every ^ ((1 << n) - 1)}
    return sorted(edges)


def runs(rng: np.random.Generator, bits: int, count: int) -> Words:
    """Random patterns in which neighbouring bits are mostly equal."""
    change = rng.random((count, bits)) < rng.choice([0.08, 0.25, 0.5], (count, 1))
    ones = np.cumsum(change, axis=1) % 2
    weights = np.uint64(1) << np.arange(bits, dtype=np.uint64)
    out = (ones.astype(np.uint64) * weights).sum(axis=1, dtype=np.uint64)
    return out if bits > 32 else out.astype(np.uint32)


def near(rng: np.random.Generator, fmt: Format, count: int) -> Words:
    """Random numbers whose exponents lie close to one, so that sums and products meet."""
    sign = rng.integers(0, 2, count).astype(np.uint64) * np.uint64(fmt.sign)
    field = rng.integers(fmt.bias - min(fmt.man + 2, fmt.bias), fmt.bias + min(fmt.man + 2, fmt.bias), count)
    fraction = runs(rng, fmt.man, count).astype(np.uint64)
    out = sign | field.astype(np.uint64) << np.uint64(fmt.man) | fraction
    return out.astype(fmt.word)


def _array(fmt: Format, rows: Any) -> list[Words]:
    return [np.array(column, fmt.word) for column in zip(*rows, strict=True)]


def some_floats(fmt: Format) -> list[int]:
    """Two dozen of them, for instructions with two operands."""
    one, low = fmt.one, fmt.normal
    return [
        *few_floats(fmt),
        low - 2,
        low + 1,
        one - 1,
        one + low,
        one + low // 2,
        fmt.max | fmt.sign,
        fmt.inf | 1 << fmt.bits - 1 | fmt.quiet,
    ]


def float_pairs(fmt: Format, seed: int = 1, count: int = 250) -> list[Words]:
    """Two arrays: every pair of special patterns, then random ones."""
    rng = np.random.default_rng(seed)
    special = _array(fmt, itertools.product(some_floats(fmt), repeat=2))
    return [
        np.concatenate([special[k], runs(rng, fmt.bits, count).astype(fmt.word), near(rng, fmt, count)])
        for k in range(2)
    ]


def float_triples(fmt: Format, seed: int = 2, count: int = 250) -> list[Words]:
    """Three arrays: every triple of a dozen special patterns, then random ones."""
    rng = np.random.default_rng(seed)
    special = _array(fmt, itertools.product(few_floats(fmt), repeat=3))
    return [
        np.concatenate([special[k], runs(rng, fmt.bits, count).astype(fmt.word), near(rng, fmt, count)])
        for k in range(3)
    ]


def float_ones(fmt: Format, seed: int = 3, count: int = 400) -> Words:
    """Special patterns, then random ones; every pattern of a format of 16 bits or less when ``count`` is 0."""
    if count == 0:
        return np.arange(1 << fmt.bits, dtype=np.uint32)
    rng = np.random.default_rng(seed)
    parts = [np.array(floats(fmt), fmt.word), runs(rng, fmt.bits, count).astype(fmt.word), near(rng, fmt, count)]
    return np.concatenate(parts)


def integer_tuples(*bits: int, seed: int = 4, count: int = 600) -> list[Words]:
    """One array per width: edges against edges, then random patterns with runs."""
    rng = np.random.default_rng(seed)
    edges = [integers(b) for b in bits]
    if len(bits) > 2:
        edges = [e[:: max(1, len(e) // 11)] for e in edges]
    rows = list(itertools.product(*edges))
    out = []
    for k, b in enumerate(bits):
        word = np.uint64 if b > 32 else np.uint32
        out.append(np.concatenate([np.array([r[k] for r in rows], word), runs(rng, b, count).astype(word)]))
    return out
