"""The command line, as processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mockgpu

HOME = str(Path(mockgpu.__file__).parents[1])


def cli(*args: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if k not in ("MOCKGPU", "DEV", "LLVM_PATH")}
    environ |= {"PYTHONPATH": HOME, **env}
    command = [sys.executable, "-m", "mockgpu", *args]
    return subprocess.run(command, env=environ, cwd=cwd, capture_output=True, text=True, timeout=120)


def test_info_json_tells_what_would_be_emulated() -> None:
    facts = json.loads(cli("info", "--json", "--arch", "gfx1201", "--devices", "2").stdout)
    assert facts["problems"] == [] and facts["version"] == mockgpu.__version__
    assert facts["emulated"] == {"DEV": "MOCKKFD+AMD:LLVM", "arch": "gfx1201", "devices": 2, "engine": "auto"}
    assert "LLVM" in facts["compiler"] and facts["versions"]["tinygrad"].startswith("0.14")
    assert facts["settings"]["MOCKGPU_ARCH"] == "gfx1201" and facts["settings"]["MOCKGPU_VRAM"] == "board"
    assert set(facts["caches"]) == {"compilers that proved themselves", "kernels (tinygrad)"}


def test_info_is_readable() -> None:
    result = cli("info")
    assert result.returncode == 0
    for word in ("gfx1100", "MOCKKFD+AMD:LLVM", "auto (native code", "MOCKGPU_TIMEOUT: 60", "LLVM"):
        assert word in result.stdout


def test_info_cuts_nothing(tmp_path: Path) -> None:
    long = str(tmp_path / ("x" * 120))
    for columns in ("40", "80"):
        lines = cli("info", CACHEDB=long, COLUMNS=columns).stdout.splitlines()
        assert f"kernels (tinygrad): {long}" in [line.strip() for line in lines]
    assert any(long in line for line in cli("info", LLVM_PATH=long).stdout.splitlines())


def test_the_version_is_an_option_too() -> None:
    assert cli("--version").stdout == cli("version").stdout == f"{mockgpu.__version__}\n"


def test_info_lists_problems_and_ends_with_1() -> None:
    result = cli("info", "--json", DEV="NV", LLVM_PATH="/nowhere")
    assert result.returncode == 1
    assert json.loads(result.stdout)["problems"] == [
        "DEV='NV': the NV device is not emulated; good values are: AMD, AMD:LLVM, "
        "AMD:LLVM:gfx1100 (or another architecture), KFD+AMD, MOCKKFD+AMD, CPU, PYTHON"
    ]
    assert "LLVM_PATH='/nowhere'" in cli("info", LLVM_PATH="/nowhere").stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--arch", "gfx9"), "MOCKGPU_ARCH='gfx9' is not understood; good values are: gfx1100"),
        (("--devices", "99"), "MOCKGPU_DEVICES='99' is not understood; good values are: 1 to 64"),
        (("--engine", "x"), "MOCKGPU_ENGINE='x' is not understood; good values are: auto, oracle, threaded, jit"),
    ],
)
def test_bad_options_are_refused_with_the_good_values(args: tuple[str, ...], message: str) -> None:
    for command in (("info", *args), ("run", *args, "--", "true")):
        result = cli(*command)
        assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr


SCRIPT = """
import os, sys
print(os.environ["MOCKGPU"], os.environ["MOCKGPU_ARCH"], os.environ["MOCKGPU_DEVICES"], sys.argv[1:], sys.executable)
sys.exit(7)
"""


def test_run_executes_a_script_with_this_python(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(SCRIPT)
    for command in (("s.py",), ("python3", "s.py")):
        result = cli("run", "--arch", "gfx1201", "--devices", "3", "--", *command, "--arch", "-x", cwd=tmp_path)
        assert result.returncode == 7, result.stderr
        seen = result.stdout.split(maxsplit=3)
        assert seen[:3] == ["1", "gfx1201", "3"] and seen[3].startswith("['--arch', '-x'] ")
        assert os.path.dirname(seen[3].split()[-1]) == os.path.dirname(sys.executable)


def test_run_passes_code_and_modules_to_python() -> None:
    result = cli("run", "--devices", "2", "--", "-c", "import os, sys; print(os.environ['MOCKGPU'], sys.argv)", "-x")
    assert result.stdout == "1 ['-c', '-x']\n", result.stderr
    assert cli("run", "--", "-m", "pytest", "--version").stdout.startswith("pytest ")


@pytest.mark.parametrize("dev", ["AMD:LLVM:gfx1100", "AMD:gfx1100", "NV"])
def test_run_refuses_a_dev_that_cannot_be_without_a_traceback(dev: str) -> None:
    result = cli("run", "--arch", "gfx1201", "--", "-c", "print(1)", DEV=dev)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("mockgpu: DEV") and result.stderr.count("\n") == 1


def test_run_reports_a_command_that_does_not_exist() -> None:
    result = cli("run", "--", "no-such-command")
    assert result.returncode == 127 and "mockgpu: there is no command 'no-such-command'" in result.stderr


def test_run_activates_the_program(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("import mockgpu.activation, os, tinygrad; print(os.environ['DEV'])")
    result = cli("run", "s.py", cwd=tmp_path)
    assert result.stdout == "MOCKKFD+AMD:LLVM\n", result.stderr
