"""What the activation runs before and after tinygrad's modules are loaded.

This is the only place that touches tinygrad's runtime. Every function here is named in ``mockgpu.activation``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from mockgpu import compiler, settings, target


@dataclass
class State:
    """What is in force in this process."""

    values: settings.Values
    plan: target.Plan
    verdict: compiler.Verdict | None = None


_state: State | None = None


def configure() -> None:
    """Before tinygrad: validate the settings, rewrite DEV, find the compiler. Raises ConfigError or NoCompilerError."""
    global _state
    values = settings.read(os.environ)
    plan = target.plan(os.environ.get("DEV", ""), values.arch)
    _state = State(values, plan, compiler.choose(plan.arch, os.environ) if plan.needs_llvm else None)
    os.environ["DEV"] = plan.dev


def state() -> State:
    """What ``configure`` found; configures when tinygrad was not imported yet."""
    if _state is None:
        configure()
    assert _state is not None
    return _state


def emulate_targets(helpers: ModuleType) -> None:
    """After tinygrad.helpers: targets that a program sets later, as in ``Context(DEV="AMD")``, are emulated as well."""
    kind = type(helpers.DEV)
    original = kind.target

    @wraps(original)
    def emulated(self: Any, device: str, **defaults: str) -> Any:
        found = original(self, device, **defaults)
        if device != "AMD" or found.interface not in target.KFD_NAMES:
            return found
        return replace(found, interface=target.INTERFACE, renderer=found.renderer or target.RENDERER)

    kind.target = emulated


# -- the modules in which tinygrad looks for mocks --------------------------------------------------------------------


def file_interface() -> Any:
    """``MockFileIOInterface``: the virtual files. Doorbells are trapped from here on."""
    from mockgpu.drivers import doorbells
    from mockgpu.drivers.files import MockFileIOInterface

    doorbells.install(sys.modules["tinygrad.runtime.support.hcq"].MMIOInterface)
    return MockFileIOInterface


def no_usb() -> NoReturn:
    raise target.NotEmulatedError("DEV", os.environ.get("DEV", ""), "the USB interface")


def no_cuda() -> NoReturn:
    raise target.NotEmulatedError("DEV", os.environ.get("DEV", ""), "the CUDA device")


# -- the AMD runtime --------------------------------------------------------------------------------------------------


def connect() -> None:
    """Before ops_amd: whatever DEV says of other devices, AMD opens virtual files."""
    hcq = import_module("tinygrad.runtime.support.hcq")
    hcq.FileIOInterface = sys.modules["test.mockgpu.mockgpu"].MockFileIOInterface  # type: ignore[attr-defined]


def find_compiler() -> None:
    """Before compiler_llvm: name a compiler, should a program open AMD that DEV did not ask for."""
    if state().verdict is None and not os.environ.get("LLVM_PATH"):
        try:
            compiler.choose(state().plan.arch, os.environ)
        except compiler.NoCompilerError:
            return  # other devices may do without; AMDLLVMCompiler raises it


def key_compiler(module: ModuleType) -> None:
    """After compiler_llvm: the library becomes part of the key of cached kernels, so that none hides one that fails."""

    def keyed(original: Callable[..., None]) -> Callable[..., None]:
        @wraps(original)
        def init(self: Any, arch: str) -> None:
            if state().verdict is None:
                state().verdict = compiler.choose(arch, os.environ)
            original(self, arch)
            if self.cachekey is not None:
                self.cachekey += f"_{compiler.identity(module.llvm.dll._name)}"

        return init

    module.AMDLLVMCompiler.__init__ = keyed(module.AMDLLVMCompiler.__init__)
