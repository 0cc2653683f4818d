"""Finds an LLVM library that compiles for the emulated GPU, and remembers which ones proved that they do.

Looked at in this order: the file or folder that LLVM_PATH names (nothing else, if it is set), the library of the wheel
``rocm-llvm-python``, the shared libraries of the system, newest first. A library serves only after ``prove.py``
compiled a kernel with it in a process of its own. The outcome is kept in the user's cache directory, keyed by the
library's path, size, time of change, and the architecture; a cache that cannot be written is no error.
"""

from __future__ import annotations

import glob
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec

from mockgpu import __version__
from mockgpu.isa.arch import get_arch
from mockgpu.isa.errors import ConfigError, MockGPUError

WHEEL = "rocm-llvm-python"
WHEEL_LIBRARY = os.path.join("rocm", "llvm", "librocmllvm.so")
PROOF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prove.py")
PROOF_SECONDS = 120
SYSTEM_FOLDERS = (
    os.path.join(glob.escape(sys.prefix), "lib"),
    "/usr/lib/*-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/lib/llvm-*/lib",
    "/usr/lib/llvm/*/lib*",
    "/opt/rocm*/lib/llvm/lib",
    "/opt/rocm*/llvm/lib",
)
_LIBRARY_NAME = re.compile(r"libLLVM(-[0-9.]+)?\.so(\.[0-9.]+[a-z-]*)?")


@dataclass(frozen=True, slots=True)
class Library:
    """An LLVM shared library and where it comes from: ``LLVM_PATH``, the wheel's name, or ``system``."""

    path: str
    origin: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a library compiles for an architecture: the version of LLVM, or the reason why not."""

    path: str
    origin: str
    arch: str
    ok: bool
    version: str = ""
    reason: str = ""

    def __str__(self) -> str:
        what = f"LLVM {self.version}" if self.ok else f"fails: {self.reason}"
        return f"{self.origin}, {self.path}, {what}"


class NoCompilerError(MockGPUError):
    """No library compiles for the architecture. ``verdicts`` says what was tried."""

    def __init__(self, arch: str, verdicts: Iterable[Verdict]):
        self.arch, self.verdicts = arch, tuple(verdicts)
        tried = "".join(f"\n  tried {v}" for v in self.verdicts) or "\n  no LLVM library is installed"
        super().__init__(f"no compiler for {arch} was found.{tried}\nInstall one with: {install_command()}")


class CompilerPathError(ConfigError):
    """LLVM_PATH names something that does not compile for the architecture."""

    def __init__(self, value: str, arch: str, why: str, allowed: Iterable[str]):
        super().__init__("LLVM_PATH", value, allowed)
        good = (
            f"good values are: {', '.join(self.allowed)}"
            if self.allowed
            else f"install a compiler with: {install_command()}"
        )
        self.args = (f"LLVM_PATH={value!r} does not compile for {arch} ({why}); unset it, or {good}",)


def install_command() -> str:
    """The command that installs a compiler on this machine."""
    if sys.platform == "linux" and os.uname().machine == "x86_64":
        return f'{sys.executable} -m pip install "{WHEEL}>=7.2,<8"'
    return "sudo apt-get install libllvm19 (or a newer one)"


# -- candidates -------------------------------------------------------------------------------------------------------


def _elf(path: str) -> bool:
    try:
        with open(path, "rb") as f:
            return f.read(4) == b"\x7fELF"
    except OSError:
        return False


def _in_folder(folder: str) -> list[str]:
    """The LLVM libraries of a folder, each file once, newest version first."""
    try:
        names = [n for n in os.listdir(folder) if _LIBRARY_NAME.fullmatch(n)]
    except OSError:
        return []
    by_file = {os.path.realpath(os.path.join(folder, n)): n for n in sorted(names, key=_version)}
    return sorted((p for p in by_file if _elf(p)), key=lambda p: _version(os.path.basename(p)), reverse=True)


def _version(name: str) -> list[int]:
    return [int(n) for n in re.findall(r"[0-9]+", name)]


def wheel_library() -> str | None:
    """The library of the wheel, or None when it is not installed. Nothing is imported."""
    spec = find_spec("rocm")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = os.path.join(os.path.dirname(folder), WHEEL_LIBRARY)
        if os.path.isfile(path):
            return path
    return None


def candidates() -> Iterator[Library]:
    """Every library that may serve when LLVM_PATH is not set, best first."""
    if (wheel := wheel_library()) is not None:
        yield Library(wheel, WHEEL)
    folders = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if f]
    folders += [f for pattern in SYSTEM_FOLDERS for f in glob.glob(pattern)]
    paths = {p: None for f in folders for p in _in_folder(f)}
    for path in sorted(paths, key=lambda p: _version(os.path.basename(p)), reverse=True):
        yield Library(path, "system")


# -- proof ------------------------------------------------------------------------------------------------------------


def cache_folder() -> str:
    """Where verdicts are kept."""
    from platformdirs import user_cache_dir

    return os.path.join(user_cache_dir("mockgpu", appauthor=False), "compilers")


def identity(path: str) -> str:
    """A short text that changes with the file: of its path, size and time of change. Raises OSError."""
    import hashlib

    real = os.path.realpath(path)
    st = os.stat(real)
    return hashlib.sha256(f"{real}\0{st.st_size}\0{st.st_mtime_ns}".encode()).hexdigest()[:16]


def prove(library: Library, arch: str) -> Verdict:
    """The verdict on a library, from the cache or from a proof."""
    try:
        file = os.path.join(cache_folder(), f"{identity(library.path)}-{arch}-{__version__}.json")
    except OSError as e:
        return Verdict(library.path, library.origin, arch, False, reason=e.strerror or str(e))
    if (known := _load(file, library)) is not None:
        return known
    verdict, lasting = _run_proof(library, arch)
    if lasting:
        _store(file, verdict)
    return verdict


def _load(file: str, library: Library) -> Verdict | None:
    try:
        with open(file) as f:
            known = Verdict(**json.load(f))
    except (OSError, ValueError, TypeError):  # not there, or not written by this version: prove again
        return None
    return Verdict(library.path, library.origin, known.arch, known.ok, known.version, known.reason)


def _store(file: str, verdict: Verdict) -> None:
    partial = f"{file}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(partial, "w") as f:
            json.dump(asdict(verdict), f)
        os.replace(partial, file)  # another process sees all of it or nothing
    except OSError:
        return  # a cache that cannot be written costs time, nothing else


def _run_proof(library: Library, arch: str) -> tuple[Verdict, bool]:
    """The verdict, and whether it holds the next time too (a proof that ran out of time or memory may not)."""
    command = [sys.executable, "-I", "-S", PROOF, library.path, arch, str(get_arch(arch).elf_mach)]
    try:
        r = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=PROOF_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return Verdict(library.path, library.origin, arch, False, reason=str(e)), False
    if r.returncode == 0:
        return Verdict(library.path, library.origin, arch, True, version=r.stdout.strip()), True
    if r.returncode > 0:
        return Verdict(library.path, library.origin, arch, False, reason=_first_line(r.stdout or r.stderr)), True
    name = signal.Signals(-r.returncode).name
    fatal = next((line for line in r.stderr.splitlines() if "LLVM ERROR" in line), r.stderr)
    lasting = -r.returncode in (signal.SIGABRT, signal.SIGSEGV, signal.SIGILL)
    return Verdict(library.path, library.origin, arch, False, reason=f"ended by {name}, {_first_line(fatal)}"), lasting


def _first_line(text: str, width: int = 160) -> str:
    lines = text.strip().splitlines()
    return lines[0][:width] if lines else "no reason given"


# -- choice -----------------------------------------------------------------------------------------------------------


def find(arch: str) -> Verdict:
    """The first library that serves when LLVM_PATH is not set. Raises NoCompilerError, which says what was tried."""
    verdicts = []
    for library in candidates():
        verdicts.append(prove(library, arch))
        if verdicts[-1].ok:
            return verdicts[-1]
    raise NoCompilerError(arch, verdicts)


def _user_choice(value: str, arch: str) -> Verdict:
    """The verdict on the file, or on the first good library of the folder, that LLVM_PATH names."""
    paths = _in_folder(value) if os.path.isdir(value) else [value]
    verdicts = [prove(Library(p, "LLVM_PATH"), arch) for p in paths]
    good = next((v for v in verdicts if v.ok), None)
    if good is not None:
        return good
    why = verdicts[0].reason if verdicts else "the folder holds no LLVM library"
    others = [v.path for v in (prove(c, arch) for c in candidates()) if v.ok]
    raise CompilerPathError(value, arch, why, others)


def choose(arch: str, environ: MutableMapping[str, str]) -> Verdict:
    """Find the compiler and name it to tinygrad in LLVM_PATH. Raises NoCompilerError or CompilerPathError."""
    value = environ.get("LLVM_PATH", "")
    verdict = _user_choice(value, arch) if value else find(arch)
    environ["LLVM_PATH"] = verdict.path
    return verdict
