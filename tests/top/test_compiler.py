"""Which compiler is found, that it has to prove itself, and what is said when there is none."""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from mockgpu import compiler
from mockgpu.compiler import Library

ARCH = "gfx1100"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return tmp_path / "cache" / "mockgpu" / "compilers"


@pytest.fixture
def good() -> str:
    """A library that compiles for every architecture that is emulated."""
    return compiler.find(ARCH).path


@pytest.fixture
def bare_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no LLVM is installed."""
    monkeypatch.setattr(compiler, "wheel_library", lambda: None)
    monkeypatch.setattr(compiler, "SYSTEM_FOLDERS", ())


def other_library() -> str:
    """A shared library that is not LLVM: an extension module of Python."""
    folder = Path(sysconfig.get_path("stdlib")) / "lib-dynload"
    return str(next(folder.glob("*.so")))


def no_processes(*_: Any, **__: Any) -> None:
    raise AssertionError("a process was started")


def test_a_good_library_proves_itself_once(good: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiler.prove(Library(good, "system"), ARCH)
    assert first.ok and int(first.version.split(".")[0]) >= 16
    assert [f.suffix for f in own_cache.iterdir()] == [".json"]
    monkeypatch.setattr(subprocess, "run", no_processes)
    assert compiler.prove(Library(good, "system"), ARCH) == first


def test_the_proof_holds_for_one_architecture(good: str, own_cache: Path) -> None:
    compiler.prove(Library(good, "system"), ARCH)
    compiler.prove(Library(good, "system"), "gfx1201")
    assert len(list(own_cache.iterdir())) == 2


def test_a_library_that_changed_proves_itself_again(good: str, own_cache: Path, tmp_path: Path) -> None:
    copy = tmp_path / "libLLVM.so"
    os.symlink(good, copy)
    before = compiler.identity(str(copy))
    copy.unlink()
    shutil.copyfile(other_library(), copy)
    assert compiler.identity(str(copy)) != before
    assert not compiler.prove(Library(str(copy), "system"), ARCH).ok


@pytest.mark.parametrize("content", [b"", b"not a library", b"\x7fELF and then nothing"])
def test_a_broken_file_is_refused_with_a_reason(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "libLLVM.so"
    file.write_bytes(content)
    verdict = compiler.prove(Library(str(file), "system"), ARCH)
    assert not verdict.ok and verdict.reason and "\n" not in verdict.reason


def test_a_library_that_is_not_llvm_is_refused() -> None:
    verdict = compiler.prove(Library(other_library(), "system"), ARCH)
    assert not verdict.ok and "LLVMInitializeAMDGPUTarget" in verdict.reason


def test_a_library_for_another_processor_is_refused(
    good: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM only warns about a processor that it does not know, and compiles for another."""
    from dataclasses import replace

    shutil.rmtree(own_cache)
    unknown = replace(compiler.get_arch(ARCH), elf_mach=0x7F)
    monkeypatch.setattr(compiler, "get_arch", lambda name: unknown)
    verdict = compiler.prove(Library(good, "system"), ARCH)
    assert not verdict.ok and "processor is not known to this LLVM" in verdict.reason


@pytest.mark.parametrize(
    ("script", "reason", "kept"),
    [
        (
            "import os, sys; sys.stderr.write('LLVM ERROR: Cannot select\\n'); sys.stderr.flush(); os.abort()",
            "ended by SIGABRT, LLVM ERROR: Cannot select",
            1,
        ),
        ("import os; os.kill(os.getpid(), 9)", "ended by SIGKILL", 0),
        ("import time; time.sleep(60)", "timed out", 0),
    ],
)
def test_a_compiler_that_ends_its_process_ends_only_the_proof(
    script: str, reason: str, kept: int, good: str, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(own_cache)
    proof = tmp_path / "proof.py"
    proof.write_text(script)
    monkeypatch.setattr(compiler, "PROOF", str(proof))
    monkeypatch.setattr(compiler, "PROOF_SECONDS", 3)
    verdict = compiler.prove(Library(good, "system"), ARCH)
    assert not verdict.ok and reason in verdict.reason
    # What may have been an accident is tried again the next time.
    assert len(list(own_cache.iterdir()) if own_cache.exists() else []) == kept


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"ok": true, "surprise": 1}', "not json"])
def test_a_damaged_cache_is_made_again(content: str, good: str, own_cache: Path) -> None:
    compiler.prove(Library(good, "system"), ARCH)
    (file,) = own_cache.iterdir()
    file.write_text(content)
    assert compiler.prove(Library(good, "system"), ARCH).ok
    assert '"ok": true' in file.read_text()


def test_a_cache_that_cannot_be_written_is_no_error(good: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compiler.prove(Library(good, "system"), ARCH).ok


def test_the_wheel_comes_first(good: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "wheel_library", lambda: good)
    first = next(compiler.candidates())
    assert (first.path, first.origin) == (good, "rocm-llvm-python")


def test_system_libraries_are_tried_newest_first_and_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("libLLVM-15.so.1", "libLLVM.so.20.1", "libLLVM-9.so", "libLLVMAnalysis.so", "libLLVM.txt"):
        (tmp_path / name).write_bytes(b"\x7fELF")
    (tmp_path / "libLLVM-18.so").write_text("INPUT(libLLVM.so.18.1)")  # a linker script
    os.symlink("libLLVM-15.so.1", tmp_path / "libLLVM-15.so")
    monkeypatch.setattr(compiler, "wheel_library", lambda: None)
    monkeypatch.setattr(compiler, "SYSTEM_FOLDERS", (str(tmp_path),))
    names = [os.path.basename(c.path) for c in compiler.candidates()]
    assert names == ["libLLVM.so.20.1", "libLLVM-15.so.1", "libLLVM-9.so"]


def test_the_first_that_proves_itself_is_chosen(good: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libLLVM.so.99").write_bytes(b"\x7fELF")
    monkeypatch.setattr(
        compiler,
        "candidates",
        lambda: iter([Library(str(tmp_path / "libLLVM.so.99"), "system"), Library(good, "system")]),
    )
    environ: dict[str, str] = {}
    assert compiler.choose(ARCH, environ).path == good
    assert environ == {"LLVM_PATH": good}


def test_when_there_is_none_the_message_names_the_command(bare_system: None) -> None:
    with pytest.raises(compiler.NoCompilerError) as e:
        compiler.choose(ARCH, {})
    assert "no compiler for gfx1100 was found" in str(e.value)
    assert compiler.install_command() in str(e.value)
    assert "pip install" in compiler.install_command() or "apt-get install" in compiler.install_command()


def test_llvm_path_is_obeyed_when_it_proves_itself(good: str, bare_system: None) -> None:
    environ = {"LLVM_PATH": good}
    verdict = compiler.choose(ARCH, environ)
    assert (verdict.path, verdict.origin) == (good, "LLVM_PATH")


def test_llvm_path_may_be_a_folder(good: str, tmp_path: Path, bare_system: None) -> None:
    os.symlink(good, tmp_path / "libLLVM.so.22")
    environ = {"LLVM_PATH": str(tmp_path)}
    compiler.choose(ARCH, environ)
    assert os.path.realpath(environ["LLVM_PATH"]) == os.path.realpath(good)


def test_a_bad_llvm_path_is_refused_with_the_good_ones(good: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for bad in ("/nowhere/libLLVM.so", other_library(), str(tmp_path / "empty")):
        with pytest.raises(compiler.CompilerPathError) as e:
            compiler.choose(ARCH, {"LLVM_PATH": bad})
        assert f"LLVM_PATH={bad!r} does not compile for gfx1100" in str(e.value) and good in str(e.value)


def test_the_cached_kernels_of_two_compilers_are_kept_apart(good: str) -> None:
    from tinygrad.runtime.support.compiler_llvm import AMDLLVMCompiler

    key = AMDLLVMCompiler(ARCH).cachekey
    assert key is not None and key.endswith(compiler.identity(os.environ["LLVM_PATH"])) and ARCH in key
