"""The name under which handlers are kept: it changes with everything that their code is made of."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator

from mockgpu import __version__
from mockgpu.isa.table_cache import folder_stamps, generated_stamps
from mockgpu.machine.native.host import identity

_FAMILIES = ("rdna3", "rdna4", "cdna")
_SOURCES = ("mockgpu.isa", "mockgpu.pcode", "mockgpu.pcode.llvm", "mockgpu.machine", "mockgpu.machine.native")
_LLVM_FILES = ("_version.py", os.path.join("binding", "libllvmlite.so"), os.path.join("binding", "libllvmlite.dylib"))


def namespace(level: str) -> str:
    """A folder's name for handlers of a level of the host (see host.LEVELS).

    Of the sources, the generated tables and llvmlite only size and time of change are looked at, and LLVM is not
    loaded. Raises OSError and ModuleNotFoundError where they are no files.
    """
    return f"{level}-{hashlib.sha256(chr(0).join(_parts(level)).encode()).hexdigest()[:24]}"


def _parts(level: str) -> Iterator[str]:
    yield __version__
    yield identity(level)
    for name in _SOURCES:
        yield from folder_stamps(_folder(name))
    for family in _FAMILIES:
        yield from generated_stamps(family)
    llvmlite = _folder("llvmlite")
    for name in _LLVM_FILES:
        path = os.path.join(llvmlite, name)
        if os.path.exists(path):
            st = os.stat(path)
            yield f"{path} {st.st_size} {st.st_mtime_ns}"


def _folder(name: str) -> str:
    """The folder of a package, which is not imported. Raises ModuleNotFoundError."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{name} is not installed as files")
    return os.path.dirname(spec.origin)
