"""The examples run as a user runs them: in a process of their own, with MOCKGPU and DEV in the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MOCKGPU": "1", "DEV": "AMD"}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=170, check=False)


def test_hello() -> None:
    done = run_example("hello.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "AMD says: the squares are [0, 1, 4, 9, 16, 25, 36, 49], and they add up to 140\n"


def test_a_raw_kernel() -> None:
    done = run_example("raw_kernel.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{list(range(1, 33))}\n"


def test_training_matches_numpy() -> None:
    done = run_example("train_mlp.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("training on AMD (gfx1100)\nstep  0  loss 1.15")
    assert done.stdout.count("loss") == 16
    assert done.stdout.endswith("OK: the emulated GPU and numpy agree\n")
