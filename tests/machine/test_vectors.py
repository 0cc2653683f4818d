"""Every instruction vector in ``../shared`` leaves the state that hardware left."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mockgpu.isa.arch import arch_names, get_arch
from mockgpu.machine.oracle_engine import OracleEngine
from mockgpu.machine.vectors import load_vectors, run_vector, target_of

FOLDER = Path(__file__).parents[3] / "shared" / "vectors"

FILES = ("vectors.jsonl", "matrix_and_conversions.jsonl")

if not FOLDER.exists():
    pytest.skip(f"instruction vectors are absent ({FOLDER})", allow_module_level=True)


@cache
def rows() -> dict[str, dict[str, Any]]:
    every = [row for name in FILES for row in load_vectors(FOLDER / name)]
    return {row["id"]: row for row in every if target_of(row) in arch_names()}


@cache
def engine(name: str) -> OracleEngine:
    return OracleEngine(get_arch(name))


@pytest.mark.parametrize("name", list(rows()))
def test_row(name: str) -> None:
    row = rows()[name]
    outcome = run_vector(row, engine(target_of(row)))
    assert outcome.passed, "\n".join(map(str, outcome.differences))
