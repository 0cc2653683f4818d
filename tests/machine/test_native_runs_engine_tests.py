"""The tests of control flow, memory, barriers, faults and modes pass on the native engine, in both of its tiers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = (
    "test_engine_control.py", "test_engine_memory.py", "test_engine_faults.py", "test_engine_valu.py",
    "test_barrier.py", "test_wave_control.py", "test_wave_start.py", "test_wave64.py", "test_vector_modes.py",
    "test_lds_moves.py", "test_scalar_memory.py", "test_relative.py", "test_hwreg.py", "test_buffers.py",
)  # fmt: skip


@pytest.mark.parametrize("engine", ["threaded", "jit"])
def test_they_pass(engine: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *(str(HERE / f) for f in FILES)]
    environment = {**os.environ, "MOCKGPU_ENGINE": engine}
    for name in [n for n in environment if n.startswith("PYTEST_")]:
        del environment[name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, cwd=HERE.parents[1])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
