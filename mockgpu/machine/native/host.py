"""Which host code is made for: the machine's own CPU, a level of x86-64 below it, or AArch64.

LLVM is loaded on the first question about a target's features, never for the name under which code is kept.
"""

from __future__ import annotations

import functools
import platform
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from mockgpu.isa.errors import ConfigError, MockGPUError

#: The setting that chooses the level, and its values.
SETTING = "MOCKGPU_HOST_LEVEL"
NATIVE = "native"
AARCH64 = "aarch64"
_BASE = frozenset({"64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2"})
_V2 = _BASE | {"crc32", "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
#: The features of each level, by LLVM's names (x86-64 psABI, section 3.1.1).
X86_LEVELS = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
LEVELS = (NATIVE, *X86_LEVELS)

#: Linux' names of features that are not LLVM's.
_LINUX_NAMES = {"pni": "sse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "lahf_lm": "sahf", "abm": "lzcnt", "bmi1": "bmi"}
_UNLISTED = frozenset({"64bit", "crc32"})  # come with x86-64 and with SSE 4.2; Linux does not list them
_IDENTITY_KEYS = ("vendor_id", "cpu family", "model", "stepping", "flags", "cpu implementer", "cpu part", "features")
_X86_TRIPLE, _ARM_TRIPLE = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_X86_TUNING = {"prefer-256-bit": False}  # 512-bit vectors are used wherever there are any
_ARM_HAS = frozenset({"fma", "f16c"})  # x86's names of what every AArch64 CPU does, too
_ARM_TUNING = {"reserve-x18": True}  # belongs to the system on macOS


class HostError(MockGPUError):
    """No native code can be made for this machine."""


@dataclass(frozen=True)
class Target:
    """A host to make code for.

    ``features`` has LLVM's names, such as ``avx512f``; ``fma`` (fused multiply-add) and ``f16c`` (conversions of half
    floats) stand for the same on AArch64.
    """

    name: str
    triple: str
    cpu: str
    features: frozenset[str]
    flags: str = field(repr=False)

    @property
    def x86(self) -> bool:
        return self.triple == _X86_TRIPLE


@functools.cache
def binding() -> Any:
    """llvmlite's binding, with all targets ready. Raises HostError where llvmlite cannot be loaded."""
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError) as error:
        raise HostError(f"native code needs llvmlite, which cannot be loaded: {error}") from error
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@functools.cache
def target(name: str = NATIVE) -> Target:
    """The target of a name in LEVELS, or ``aarch64`` (any ARMv8-A). Raises ConfigError and HostError.

    A target need not fit this machine: see :func:`check_level`.
    """
    if name == NATIVE:
        return _native()
    if name == AARCH64:
        return Target(name, _ARM_TRIPLE, "generic", frozenset({"neon", "fp-armv8"}) | _ARM_HAS, _flags(_ARM_TUNING))
    if name in X86_LEVELS:
        return Target(name, _X86_TRIPLE, name, X86_LEVELS[name], _flags(_X86_TUNING))
    raise ConfigError(SETTING, name, LEVELS)


def host_target(level: str = NATIVE) -> Target:
    """The target of code that this machine is to run. Raises ConfigError for a level that is above the machine's."""
    check_level(level)
    return target(level)


def check_level(level: str) -> None:
    """Raises ConfigError unless ``level`` is one of LEVELS and this machine has all its features."""
    if level == NATIVE:
        return
    if level not in LEVELS or (_machine() == "x86_64" and not _host_has(X86_LEVELS[level])):
        raise ConfigError(SETTING, level, host_levels())
    if _machine() != "x86_64":
        raise ConfigError(SETTING, level, (NATIVE,))


def host_levels() -> tuple[str, ...]:
    """The levels that this machine can run."""
    if _machine() != "x86_64":
        return (NATIVE,)
    return (NATIVE, *(name for name, features in X86_LEVELS.items() if _host_has(features)))


def check_available() -> None:
    """Raises HostError on a machine for which no native code can be made. Does not load LLVM."""
    if _machine() not in ("x86_64", "aarch64") or sys.platform == "win32":
        raise HostError(f"native code is made for x86-64 and AArch64, not for {_machine()} on {sys.platform}")
    if find_spec("llvmlite") is None:
        raise HostError("native code needs llvmlite, which is not installed")


def identity(level: str = NATIVE) -> str:
    """A text that changes with the instructions that code of a level may use. Does not load LLVM on Linux."""
    if level != NATIVE:
        return level
    described = _cpuinfo()
    parts = [f"{key}: {described[key]}" for key in _IDENTITY_KEYS if key in described]
    if not parts:
        own = target(NATIVE)
        parts = [own.cpu, own.flags]
    return "\n".join([_machine(), sys.platform, *parts])


def _machine() -> str:
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _native() -> Target:
    triple = {"x86_64": _X86_TRIPLE, "aarch64": _ARM_TRIPLE}.get(_machine())
    if triple is None or sys.platform == "win32":
        raise HostError(f"native code is made for x86-64 and AArch64, not for {_machine()} on {sys.platform}")
    llvm = binding()
    found: dict[str, bool] = dict(llvm.get_host_cpu_features())
    features = frozenset(name for name, there in found.items() if there)
    if triple == _ARM_TRIPLE:
        features |= _ARM_HAS
    tuning = _X86_TUNING if triple == _X86_TRIPLE else _ARM_TUNING
    return Target(NATIVE, triple, llvm.get_host_cpu_name(), features, _flags({**found, **tuning}))


def _flags(features: dict[str, bool]) -> str:
    return ",".join(f"{'+' if there else '-'}{name}" for name, there in sorted(features.items()))


def _host_has(features: frozenset[str]) -> bool:
    flags = _cpuinfo().get("flags")
    if flags is None:
        return features <= target(NATIVE).features
    return features <= {_LINUX_NAMES.get(name, name) for name in flags.split()} | _UNLISTED


@functools.cache
def _cpuinfo() -> dict[str, str]:
    """What Linux tells of the first CPU, by lower-case key; empty elsewhere."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(1 << 13).decode(errors="replace")  # one CPU: many would take long to list
    except OSError:
        return {}
    rows = (line.partition(":") for line in text.split("\n\n", 1)[0].splitlines())
    return {key.strip().lower(): value.strip() for key, _, value in rows}
