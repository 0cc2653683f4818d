"""What the activation runs before and after tinygrad's modules are loaded.

Together with ``mockgpu.recovery`` this is all that touches tinygrad's runtime. Every function here that is not private
is named in ``mockgpu.activation``.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache, wraps
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from mockgpu import compiler, target
from mockgpu.state import configure, open_system, state

__all__ = ["configure"]


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

    open_system()
    doorbells.install(sys.modules["tinygrad.runtime.support.hcq"].MMIOInterface)
    return MockFileIOInterface


class NoUSB:
    """``MockUSB3``: tinygrad imports it with every mock interface, and uses it with the USB interface only."""

    def __init__(self, *_: object, **__: object):
        raise target.NotEmulatedError("DEV", os.environ.get("DEV", ""), "the USB interface of AMD")

    list_devices = __init__


def no_usb() -> type[NoUSB]:
    return NoUSB


def no_cuda() -> NoReturn:
    raise target.NotEmulatedError("DEV", os.environ.get("DEV", ""), "the CUDA device")


# -- the AMD runtime --------------------------------------------------------------------------------------------------


def connect() -> None:
    """Before ops_amd: whatever DEV says of other devices, AMD opens virtual files."""
    hcq = import_module("tinygrad.runtime.support.hcq")
    hcq.FileIOInterface = sys.modules["test.mockgpu.mockgpu"].MockFileIOInterface  # type: ignore[attr-defined]


def watch_amd(ops_amd: ModuleType) -> None:
    """After ops_amd: name the code of kernels for reports, and take part in the handling of faults."""
    from mockgpu import finalizers, recovery  # loads the drivers

    if ops_amd.PROFILE > 0 and ops_amd.SQTT > 0:
        raise target.NotEmulatedError("SQTT", int(ops_amd.SQTT.value), "thread tracing by the device", ("0",))
    finalizers.put_off_frees(ops_amd.AMDAllocator)
    recovery.register_code(ops_amd.AMDProgram)
    recovery.report_faults(ops_amd.KFDIface)
    recovery.survive_interrupts(ops_amd)


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
    module.AMDLLVMCompiler.disassemble = _disassemble


def _disassemble(compiler: Any, code_object: bytes) -> None:
    """What DEBUG=7 shows; tinygrad would start an ``llvm-objdump``, which need not be there."""
    from mockgpu.cli_isa import show_code_object
    from mockgpu.isa.codeobject import load_code_object

    show_code_object(load_code_object(code_object))


LLVM_HINT = "DEV=AMD:LLVM uses the compiler that comes with mockgpu, and needs nothing of ROCm."


def hint_at_llvm(module: ModuleType) -> None:
    """After compiler_amd: where comgr or hipcc is missing, name the renderer that needs neither."""

    def hinted(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except (AssertionError, FileNotFoundError) as e:
                e.add_note(LLVM_HINT)
                raise

        return call

    module.HIPCompiler.__init__ = hinted(module.HIPCompiler.__init__)
    module.HIPCCCompiler.compile = hinted(module.HIPCCCompiler.compile)


# -- the CPU device ---------------------------------------------------------------------------------------------------

CLANG_HINT = """tinygrad's CPU device with the CLANG renderer needs clang; install it with
  sudo apt-get install clang   or   pip install "mockgpu[cpu]"
or do not ask for CLANG: CPU then uses LLVM."""


def cpu_without_clang(ops_cpu: ModuleType) -> None:
    """After ops_cpu: where there is no clang and DEV does not insist on it, LLVM stands in."""
    if not has_clang() and import_module("tinygrad.helpers").DEV.target("CPU").renderer != "CLANG":
        import_module("mockgpu.cpu_llvm").use_llvm(ops_cpu)


@cache
def has_clang() -> bool:
    """Whether tinygrad's CPU device finds the compiler that it uses by default."""
    if cc := os.environ.get("CC"):
        return shutil.which(cc) is not None
    return shutil.which("clang") is not None or os.access(_clang_beside(), os.X_OK)


def _clang_beside() -> str:
    return os.path.join(os.path.dirname(sys.executable), "clang")


def find_clang() -> None:
    """Before compiler_cpu: find a clang that was installed beside this Python, though its folder is not in PATH."""
    beside = _clang_beside()
    if not os.environ.get("CC") and shutil.which("clang") is None and os.access(beside, os.X_OK):
        os.environ["CC"] = beside


def hint_at_clang(module: ModuleType) -> None:
    """After compiler_cpu: say what is missing when there is no clang."""
    original = module.ClangCompiler.compile

    @wraps(original)
    def compile(self: Any, src: str) -> bytes:
        try:
            code: bytes = original(self, src)
        except FileNotFoundError as e:
            e.add_note(CLANG_HINT)
            raise
        return code

    module.ClangCompiler.compile = compile
