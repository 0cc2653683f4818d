"""The modules in which tinygrad looks for mocks, beside a project's own ``test``."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
WHOSE = """
import sys
sys.path.insert(0, "")
import tinygrad.runtime.ops_amd as amd, tinygrad.runtime.support.hcq as hcq
assert amd.FileIOInterface is hcq.FileIOInterface
print(hcq.FileIOInterface.__module__)
"""


def own_package(folder: Path) -> None:
    (folder / "test" / "unit").mkdir(parents=True)
    (folder / "test" / "__init__.py").write_text("mine = 'package'")
    (folder / "test" / "unit" / "__init__.py").write_text("deep = 7")


def own_mock(folder: Path) -> None:
    own_package(folder)
    (folder / "test" / "mockgpu").mkdir()
    (folder / "test" / "mockgpu" / "__init__.py").write_text("other = 'theirs'")
    (folder / "test" / "mockgpu" / "mockgpu.py").write_text("raise SystemExit('the mock of the checkout was loaded')")
    (folder / "test" / "mockgpu" / "amd.py").write_text("gpu = 'their gpu'")


def own_module(folder: Path) -> None:
    (folder / "test.py").write_text("mine = 'module'")


LAYOUTS = {
    "no test at all": (lambda folder: None, ""),
    "a package test": (own_package, "import test, test.unit; assert test.mine == 'package' and test.unit.deep == 7"),
    "a module test.py": (own_module, "import test; assert test.mine == 'module'"),
    "a checkout of tinygrad": (
        own_mock,
        "import test.mockgpu, test.mockgpu.amd as a; assert test.mockgpu.other == 'theirs' and a.gpu == 'their gpu'",
    ),
}


@pytest.mark.parametrize(
    ("layout", "dev"),
    [*((layout, "AMD") for layout in LAYOUTS), ("a checkout of tinygrad", "CPU"), ("a package test", "CPU;AMD")],
)
def test_ours_is_found_and_theirs_stays_importable(run: Run, tmp_path: Path, layout: str, dev: str) -> None:
    make, use = LAYOUTS[layout]
    project = tmp_path / "project"
    project.mkdir()
    make(project)
    for code in (WHOSE + use, "import sys; sys.path.insert(0, '')\n" + use + WHOSE):
        result = run(code, env={"MOCKGPU": "1", "DEV": dev}, cwd=project)
        assert result.stdout == "mockgpu.drivers.files\n", result.stderr


@pytest.mark.parametrize(
    "use",
    [
        "from test.mockgpu.cuda import cuda",
        "from test.mockgpu.usb import MockUSB3; MockUSB3(1, 2, 3)",
        "from test.mockgpu.usb import MockUSB3; MockUSB3.list_devices(0xADD1, 1)",
    ],
)
def test_interfaces_without_emulation_say_so(run: Run, use: str) -> None:
    result = run(use, env={"MOCKGPU": "1"})
    assert "mockgpu.target.NotEmulatedError: DEV=" in result.stderr
    assert "is not emulated; good values are: AMD" in result.stderr


def test_the_mock_modules_bear_inspection(run: Run) -> None:
    code = """
import inspect, sys, warnings
for name in ("test.mockgpu.mockgpu", "test.mockgpu.usb", "test.mockgpu.cuda"):
    module = sys.modules[name]
    assert not hasattr(module, "__file__") and not hasattr(module, "__path__") and not hasattr(module, "anything")
    assert module.__spec__.name == name and module.__doc__
inspect.getmodule(inspect.currentframe())
print(sys.modules["test.mockgpu.usb"])
"""
    result = run(code, env={"MOCKGPU": "1"})
    assert "test.mockgpu.usb" in result.stdout, result.stderr
