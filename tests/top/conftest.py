"""Runs Python programs in processes of their own, as a user would."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mockgpu

#: The folder that holds the package ``mockgpu``: the checkout, or site-packages.
HOME = Path(mockgpu.__file__).parents[1]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """``run(code, *args, env={...}, cwd=...)``: a process in which site-packages hold ``mockgpu.pth`` and the package.

    The environment has no MOCKGPU, DEV or LLVM_PATH unless ``env`` sets them. Works for a raw checkout too, because a
    folder of its own takes the part of site-packages.
    """
    site = tmp_path / "site"
    site.mkdir()
    (site / "mockgpu.pth").write_text((HOME / "mockgpu" / "mockgpu.pth").read_text())
    (site / "a_path.pth").write_text(f"{HOME}\n")
    prelude = f"import site; site.addsitedir({str(site)!r})\n"

    def start(
        code: str, *args: str, env: dict[str, str] | None = None, cwd: Path = tmp_path
    ) -> subprocess.CompletedProcess[str]:
        environ = {k: v for k, v in os.environ.items() if k not in ("MOCKGPU", "DEV", "LLVM_PATH")} | (env or {})
        return subprocess.run(
            [sys.executable, "-c", prelude + code, *args],
            env=environ,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return start
