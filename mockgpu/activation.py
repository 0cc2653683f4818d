"""Makes this process see the emulated GPU. Takes part in imports, and does nothing before tinygrad is imported.

* The three modules in which tinygrad looks for a mock are put into ``sys.modules``. Python takes a module from there
  without importing its parent, so that a project's own ``test`` package is left alone and ours wins over tinygrad's.
* A finder on ``sys.meta_path`` runs code before and after a handful of tinygrad's modules: settings are validated and
  DEV is rewritten when ``tinygrad`` itself is imported, so that a bad value stops that import and no other program.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # typing would triple the time that this module adds to the start of every process
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any
else:
    ModuleType = type(sys)


class Hook:
    """What runs before and after a module is loaded; the functions live in ``mockgpu.hooks``."""

    __slots__ = ("after", "before")

    def __init__(self, before: str = "", after: str = ""):
        self.before, self.after = before, after


HOOKS = {
    "tinygrad": Hook(before="configure"),
    "tinygrad.helpers": Hook(after="emulate_targets"),
    "tinygrad.runtime.ops_amd": Hook(before="connect", after="watch_amd"),
    "tinygrad.runtime.ops_cpu": Hook(after="cpu_without_clang"),
    "tinygrad.runtime.support.compiler_amd": Hook(after="hint_at_llvm"),
    "tinygrad.runtime.support.compiler_cpu": Hook(before="find_clang", after="hint_at_clang"),
    "tinygrad.runtime.support.compiler_llvm": Hook(before="find_compiler", after="key_compiler"),
}
#: Module, the name that tinygrad imports from it, and the function of ``mockgpu.hooks`` that gives its value.
MOCKS = {
    "test.mockgpu.mockgpu": ("MockFileIOInterface", "file_interface"),
    "test.mockgpu.usb": ("MockUSB3", "no_usb"),
    "test.mockgpu.cuda": ("cuda", "no_cuda"),
}


class MockModule(ModuleType):
    """A module whose one name is made when it is asked for."""

    def __getattr__(self, name: str) -> Any:
        wanted, maker = MOCKS[self.__name__]
        if name != wanted:
            raise AttributeError(f"module {self.__name__!r} (provided by mockgpu) has no attribute {name!r}")
        value = getattr(_hooks(), maker)()
        setattr(self, name, value)
        return value


def _hooks() -> ModuleType:
    from mockgpu import hooks

    return hooks


class _Loader:
    """Stands in for a module's loader once: runs what comes before, the real loader, and what comes after."""

    def __init__(self, loader: Any, hook: Hook):
        self.loader, self.hook = loader, hook

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        if self.hook.before:
            getattr(_hooks(), self.hook.before)()
        self.loader.exec_module(module)
        if self.hook.after:
            getattr(_hooks(), self.hook.after)(module)


class Finder:
    """Finds the modules of HOOKS with the finders that follow it, and wraps their loaders."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        hook = HOOKS.get(name)
        if hook is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, hook)  # type: ignore[assignment]
                return spec
        return None


_active: list[Finder] = []


def is_on() -> bool:
    """Whether MOCKGPU asks for activation; its value is validated when tinygrad is imported."""
    return os.environ.get("MOCKGPU", "0") not in ("", "0")


def activate() -> None:
    """Activate mockgpu in this process; a second call does nothing.

    Raises RuntimeError when tinygrad was imported before: it has read DEV by then.
    """
    if _active:
        return
    if "tinygrad" in sys.modules:
        raise RuntimeError("tinygrad was imported before mockgpu: start Python with MOCKGPU=1 in the environment")
    finder = Finder()
    _active.append(finder)
    sys.meta_path.insert(0, finder)
    for name in MOCKS:
        module = MockModule(name, "Provided by mockgpu, because MOCKGPU is set.")
        module.__spec__ = ModuleSpec(name, None, origin="mockgpu")
        sys.modules[name] = module
