"""The pytest plugin in projects of its own."""

import re

import pytest

from mockgpu.pytest_plugin import Totals

pytest_plugins = ["pytester"]

USES_THE_GPU = """
import pytest
from tinygrad import Device, Tensor

@pytest.mark.parametrize("n", range(4))
def test_sum(n):
    assert Tensor([1] * (n + 1)).sum().item() == n + 1
    assert Device.DEFAULT == "AMD"
"""
NO_GPU = "def test_nothing(): pass"
HEADER = r"mockgpu: 6 x AMD gfx1100, engine auto, compiler .*LLVM \d+.*"
CLOSING = re.compile(r"^mockgpu: ([\d,]+) kernels?, ([\d,]+) wave-instructions?, ([\d,]+) faults?(.*)$", re.M)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    for name in ("PYTEST_ADDOPTS", "LLVM_PATH", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_AUTO_NUM_WORKERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MOCKGPU", "1")
    monkeypatch.setenv("DEV", "AMD")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester


def start(project: pytest.Pytester, *args: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "xdist", "-p", "mockgpu.pytest_plugin", *args, timeout=120)


def numbers(result: pytest.RunResult) -> tuple[int, int, int]:
    (found,) = CLOSING.findall(result.stdout.str())
    kernels, instructions, faults = (int(n.replace(",", "")) for n in found[:3])
    return kernels, instructions, faults


@pytest.mark.parametrize("args", [(), ("-n", "2")])
def test_one_line_at_the_start_and_one_at_the_end(project: pytest.Pytester, args: tuple[str, ...]) -> None:
    project.makepyfile(USES_THE_GPU)
    result = start(project, *args)
    result.assert_outcomes(passed=4)
    assert len(re.findall(HEADER, result.stdout.str())) == 1
    kernels, instructions, faults = numbers(result)
    assert kernels >= 4 and instructions > kernels and faults == 0


def test_one_of_a_thing_is_singular() -> None:
    totals = Totals()
    totals.add({"kernels": 1, "wave_instructions": 1204, "faults": 1})
    assert str(totals) == "1 kernel, 1,204 wave-instructions, 1 fault"


def test_workers_add_up_to_what_one_process_counts(project: pytest.Pytester) -> None:
    project.makepyfile(USES_THE_GPU)
    assert numbers(start(project)) == numbers(start(project, "-n", "1"))


def test_processes_that_tests_start_are_not_counted(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import subprocess, sys
        def test_child():
            code = "from mockgpu.activation import activate; activate(); from tinygrad import Tensor; "
            code += "print(Tensor([1.0, 1.0, 1.0]).sum().item())"
            assert subprocess.check_output([sys.executable, "-c", code], text=True) == "3.0\\n"
        """
    )
    result = start(project)
    result.assert_outcomes(passed=1)
    assert numbers(result) == (0, 0, 0)


def test_a_worker_that_dies_is_mentioned(project: pytest.Pytester) -> None:
    project.makepyfile("import os\ndef test_dies(): os._exit(3)\ndef test_lives(): pass")
    result = start(project, "-n", "1")
    ((*_, rest),) = CLOSING.findall(result.stdout.str())
    assert rest == " (1 worker ended without a report)"


def test_without_mockgpu_there_is_no_trace(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOCKGPU")
    project.makepyfile(NO_GPU)
    result = start(project)
    result.assert_outcomes(passed=1)
    assert "mockgpu:" not in result.stdout.str()


def test_a_bad_setting_is_a_usage_error(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCKGPU_DEVICES", "none")
    project.makepyfile(NO_GPU)
    result = start(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: mockgpu: MOCKGPU_DEVICES='none' is not understood; good values are: 1 to 64"])
