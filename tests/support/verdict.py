"""Comparing arrays of bit patterns and showing the smallest part of a difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[Any]


def assert_same(seen: Words, expected: Words, *operands: Words, allowed: int = 0, note: str = "") -> None:
    """Fail with the first differing elements, in hex, and the operands they came from."""
    assert len(seen) == len(expected)
    wrong = np.flatnonzero(np.asarray(seen) != np.asarray(expected))
    if len(wrong) <= allowed:
        return
    lines = [f"{note} {len(wrong)} of {len(seen)} differ; operands -> seen, expected:"]
    for i in wrong[:8]:
        inputs = ", ".join(f"{int(o[i]):#x}" for o in operands)
        lines.append(f"  [{i}] {inputs} -> {int(seen[i]):#x}, {int(expected[i]):#x}")
    raise AssertionError("\n".join(lines))
