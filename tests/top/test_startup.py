"""What happens when Python starts with the package installed."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mockgpu

Run = Callable[..., subprocess.CompletedProcess[str]]
LOOK = """
import json, os, sys
print(json.dumps({
    "modules": sorted(m for m in sys.modules if m.split(".")[0] in ("mockgpu", "test", "tinygrad", "numpy")),
    "finders": [type(f).__name__ for f in sys.meta_path if type(f).__module__ == "mockgpu.activation"],
    "dev": os.environ.get("DEV"), "llvm": os.environ.get("LLVM_PATH"),
}))
"""


def look(run: Run, code: str = "", **env: str) -> dict[str, object]:
    result = run(code + LOOK, env=env)
    assert result.returncode == 0, result.stderr
    seen: dict[str, object] = json.loads(result.stdout)
    return seen


@pytest.mark.parametrize("env", [{}, {"MOCKGPU": ""}, {"MOCKGPU": "0"}])
def test_when_off_nothing_is_loaded_and_nothing_changes(run: Run, env: dict[str, str]) -> None:
    assert look(run, **env) == {"modules": [], "finders": [], "dev": None, "llvm": None}
    seen = look(run, "import tinygrad\n", DEV="AMD", **env)
    assert seen["finders"] == [] and seen["dev"] == "AMD" and seen["llvm"] is None
    assert not any(m.startswith(("mockgpu", "test")) for m in seen["modules"])  # type: ignore[attr-defined]


def test_when_on_only_the_activation_is_loaded_before_tinygrad_is(run: Run) -> None:
    seen = look(run, MOCKGPU="1", DEV="AMD")
    mocks = ["test.mockgpu.cuda", "test.mockgpu.mockgpu", "test.mockgpu.usb"]
    assert seen["modules"] == ["mockgpu", "mockgpu.activation", "mockgpu.startup", *mocks]
    assert seen["finders"] == ["Finder"] and seen["dev"] == "AMD"


def test_activating_twice_is_activating_once(run: Run) -> None:
    seen = look(run, "from mockgpu.activation import activate; activate(); activate()\n", MOCKGPU="1")
    assert seen["finders"] == ["Finder"]


def test_activating_after_tinygrad_was_imported_is_an_error(run: Run) -> None:
    result = run("import tinygrad, mockgpu.activation as a; a.activate()")
    assert "RuntimeError: tinygrad was imported before mockgpu: start Python with MOCKGPU=1" in result.stderr


def test_dev_is_rewritten_when_tinygrad_is_imported(run: Run) -> None:
    seen = look(run, "import tinygrad\n", MOCKGPU="1", DEV="AMD")
    assert seen["dev"] == "MOCKKFD+AMD:LLVM" and Path(str(seen["llvm"])).is_file()
    assert look(run, "import tinygrad\n", MOCKGPU="1")["dev"] == "MOCKKFD+AMD:LLVM"
    cpu = look(run, "import tinygrad\n", MOCKGPU="1", DEV="CPU")
    assert cpu["dev"] == "CPU" and cpu["llvm"] is None


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"MOCKGPU": "yes"}, "MOCKGPU='yes' is not understood; good values are: 0, 1"),
        ({"MOCKGPU_ARCH": "gfx1"}, "MOCKGPU_ARCH='gfx1' is not understood; good values are: gfx1100"),
        ({"MOCKGPU_DEVICES": "0"}, "MOCKGPU_DEVICES='0' is not understood; good values are: 1 to 64"),
        ({"MOCKGPU_TYPO": "1"}, "MOCKGPU_TYPO is not a setting of mockgpu"),
        ({"DEV": "NV"}, "DEV='NV': the NV device is not emulated; good values are: AMD"),
        ({"DEV": "AMD::gfx77"}, "gfx77"),
        ({"LLVM_PATH": "/nowhere/libLLVM.so"}, "LLVM_PATH='/nowhere/libLLVM.so' does not compile for gfx1100"),
    ],
)
def test_a_bad_setting_stops_the_import_of_tinygrad_and_no_other_program(
    run: Run, env: dict[str, str], message: str
) -> None:
    env = {"MOCKGPU": "1", **env}
    assert run("import json; print('fine')", env=env).stdout == "fine\n"
    result = run("import tinygrad", env=env)
    assert result.returncode == 1 and message in result.stderr.splitlines()[-1]


def test_targets_set_by_the_program_are_emulated_too(run: Run) -> None:
    code = """
from tinygrad.helpers import DEV, Context
with Context(DEV="AMD"): print(repr(DEV.target("AMD")))
with Context(DEV="PYTHON"): print(repr(DEV.target("AMD")), repr(DEV.target("PYTHON")))
with Context(DEV="KFD+AMD:HIP"): print(repr(DEV.target("AMD", arch="gfx1100")))
"""
    result = run(code, env={"MOCKGPU": "1"})
    assert result.stdout.split() == ["MOCKKFD+AMD:LLVM", "MOCKKFD+AMD:LLVM", "PYTHON", "MOCKKFD+AMD:HIP:gfx1100"], (
        result.stderr
    )


def test_the_start_up_file_sorts_after_the_finder_of_an_editable_install() -> None:
    assert sorted(["mockgpu.pth", "__editable__.mockgpu.pth"])[-1] == "mockgpu.pth"
    line = (Path(mockgpu.__file__).parent / "mockgpu.pth").read_text()
    assert line.startswith("import os;") and line.count("\n") == 1


OF_NO_DEVICE = "from tinygrad import Tensor; print(Tensor.arange(4).tolist())"
NO_CLANG = {"MOCKGPU": "1", "PATH": "/nowhere", "CCACHE": "0", "CC": "no-clang"}


@pytest.mark.parametrize("cc", ["", "no-clang"])
def test_tensors_of_no_device_need_no_clang(run: Run, cc: str) -> None:
    result = run(OF_NO_DEVICE, env={**NO_CLANG, "DEV": "AMD", "CC": cc})
    assert result.stdout.strip() == "[0, 1, 2, 3]", result.stderr


def test_a_missing_clang_is_named_with_the_command_that_installs_it(run: Run) -> None:
    result = run(OF_NO_DEVICE, env={**NO_CLANG, "DEV": "AMD;CPU:CLANG"})
    assert "No such file or directory: 'no-clang'" in result.stderr
    assert 'pip install "mockgpu[cpu]"' in result.stderr.splitlines()[-2]


def test_thread_tracing_is_refused_by_name(run: Run) -> None:
    code = "from tinygrad import Tensor; (Tensor([1, 2]) + 1).tolist()"
    result = run(code, env={"MOCKGPU": "1", "DEV": "AMD", "SQTT": "1", "PROFILE": "1"})
    assert "SQTT=1: thread tracing by the device is not emulated; good values are: 0" in result.stderr


def test_debug_7_shows_the_code_without_an_objdump(run: Run) -> None:
    code = "from tinygrad import Tensor; (Tensor([1, 2]) + 1).tolist()"
    result = run(code, env={"MOCKGPU": "1", "DEV": "AMD", "DEBUG": "7", "PATH": "/nowhere"})
    assert "s_endpgm" in result.stdout and result.returncode == 0, result.stderr


@pytest.mark.parametrize("renderer", ["HIP", "HIPCC"])
def test_where_the_compilers_of_rocm_are_missing_the_llvm_renderer_is_named(run: Run, renderer: str) -> None:
    missing = """
import tinygrad.runtime.support.compiler_amd as compilers
compilers.comgr.dll.nm = "not there"
from tinygrad import Tensor
(Tensor([1]) + 1).realize()
"""
    result = run(missing, env={"MOCKGPU": "1", "DEV": f"AMD:{renderer}", "PATH": "/nowhere"})
    assert result.returncode == 1
    assert result.stderr.endswith(
        "DEV=AMD:LLVM uses the compiler that comes with mockgpu, and needs nothing of ROCm.\n"
    )
