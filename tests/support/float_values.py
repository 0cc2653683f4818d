"""Arrays of float and integer patterns for comparing two implementations."""

from __future__ import annotations

from typing import Any

import numpy as np

from mockgpu.pcode.numeric import F16, F32, F64, FloatFormat
from support import exact, shaped

_FORMATS = {16: F16, 32: F32, 64: F64}


def patterns(bits: int, count: int, seed: int) -> Any:
    """Shaped and random patterns of f16, f32 or f64 by their width: every one of f16 if there is room."""
    rng = np.random.default_rng(seed)
    fmt = _FORMATS[bits]
    special = np.array(shaped.floats(_exact(fmt)), fmt.word)
    parts = [special, _near_one(rng, fmt, count // 3), shaped.runs(rng, bits, count // 3).astype(fmt.word)]
    have = sum(map(len, parts))
    parts.append(rng.integers(0, 1 << bits, count - have, np.uint64).astype(fmt.word))
    out = np.concatenate(parts)
    rng.shuffle(out)
    return out


def _exact(fmt: FloatFormat) -> Any:
    return {"f16": exact.F16, "f32": exact.F32, "f64": exact.F64}[fmt.name]


def _near_one(rng: np.random.Generator, fmt: FloatFormat, count: int) -> Any:
    return shaped.near(rng, _exact(fmt), count).astype(fmt.word)


def few(bits: int) -> Any:
    """A dozen special patterns of a width, for operations with several operands."""
    fmt = _FORMATS[bits]
    return np.array(shaped.few_floats(_exact(fmt)), fmt.word)
