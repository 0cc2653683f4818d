"""Keeps tables that are costly to build on disk, so that a warm process need not import the generated ones.

A file holds one pickled table of one family behind a checksum. Its name changes with everything that the table is
made of: this package's sources, the generated tables (by size and time of change) and the Python version. A cache
that cannot be read or written costs time and nothing else: the table is built again, which is logged once.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import logging
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from mockgpu import __version__

log = logging.getLogger("mockgpu.tables")

Table = TypeVar("Table")

_GENERATED = ("enum", "ins", "operands", "str_pcode")  # modules of tinygrad.runtime.autogen.amd.<family>
_OWN_MODULES = "mockgpu.isa."
_CHECKSUM_BYTES = 32
_KEPT_VERSIONS = 6
_BROKEN = (pickle.UnpicklingError, EOFError, LookupError, AttributeError, ImportError, TypeError, ValueError)


class References(Protocol):
    """Objects of other tables: written as keys, found again by key, so that there is only one of each."""

    def key(self, item: object) -> tuple[str, ...] | None:
        """The key of an object that another table owns, None for all others."""

    def find(self, key: tuple[str, ...]) -> object:
        """The object of a key. Raises KeyError."""


def cached(kind: str, family: str, build: Callable[[], Table], references: References | None = None) -> Table:
    """The table that ``build`` makes, from the cache where it is there.

    ``kind`` names the table, ``references`` the objects in it that belong to other tables.
    """
    path = _path(kind, family)
    if path is None:
        return build()
    found: list[Table] | None = _load(path, references)
    if found is not None:
        return found[0]
    table = build()
    _store(path, _dump(table, references))
    _forget_old(path)
    return table


def user_folder() -> str:
    """Where everything of mockgpu that may be lost is kept: the user's cache folder."""
    from platformdirs import user_cache_dir

    return user_cache_dir("mockgpu", appauthor=False)


def cache_folder() -> str:
    """Where tables are kept."""
    return os.path.join(user_folder(), "tables")


# -- the name of a file -----------------------------------------------------------------------------------------------


def _path(kind: str, family: str) -> str | None:
    """The file of a table, or None where the generated tables are no files."""
    try:
        return os.path.join(cache_folder(), f"{kind}-{family}-{_identity(family)}.pickle")
    except (OSError, ModuleNotFoundError) as e:
        _note(f"no cache of instruction tables: {e}")
        return None


@functools.cache
def _identity(family: str) -> str:
    """A short text that changes with everything that tables are made of. Raises OSError."""
    parts = [__version__, sys.version, *generated_stamps(family)]
    parts += folder_stamps(os.path.dirname(os.path.abspath(__file__)))
    return _digest("\0".join(parts).encode()).hex()[:24]


def _generated_folder(family: str) -> str:
    """The folder of a family's generated tables, found without importing tinygrad. Raises ModuleNotFoundError."""
    spec = importlib.util.find_spec("tinygrad")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        return os.path.join(place, "runtime", "autogen", "amd", family)
    raise ModuleNotFoundError("tinygrad is not installed as files")


def generated_stamps(family: str) -> Iterator[str]:
    """A text per generated module of a family that changes with it. Raises OSError and ModuleNotFoundError."""
    return _stamps(_generated_folder(family), [f"{name}.py" for name in _GENERATED])


def folder_stamps(folder: str) -> Iterator[str]:
    """A text per module in a folder that changes with it. Raises OSError."""
    return _stamps(folder, sorted(name for name in os.listdir(folder) if name.endswith(".py")))


def _stamps(folder: str, names: list[str]) -> Iterator[str]:
    for name in names:
        path = os.path.join(folder, name)
        st = os.stat(path)
        yield f"{path} {st.st_size} {st.st_mtime_ns}"


def _digest(data: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(data).digest()


# -- the content of a file --------------------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Writes objects of other tables as keys."""

    def __init__(self, file: io.BytesIO, references: References):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.persistent_id = references.key  # type: ignore[method-assign]


class _Unpickler(pickle.Unpickler):
    """Makes objects of this package's own classes only."""

    def __init__(self, file: io.BytesIO, references: References | None):
        super().__init__(file)
        self.references = references

    def find_class(self, module: str, name: str) -> Any:
        if not module.startswith(_OWN_MODULES):
            raise pickle.UnpicklingError(f"{module}.{name} is not part of a table")
        return super().find_class(module, name)

    def persistent_load(self, key: Any) -> Any:
        if self.references is None:
            raise pickle.UnpicklingError("a reference in a table that has none")
        return self.references.find(key)


def _dump(table: object, references: References | None) -> bytes:
    if references is None:
        return pickle.dumps(table, pickle.HIGHEST_PROTOCOL)
    file = io.BytesIO()
    _Pickler(file, references).dump(table)
    return file.getvalue()


def _load(path: str, references: References | None) -> list[Any] | None:
    """The table in a file, in a list; None where there is none or it is damaged."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as e:
        _note(f"cannot read {path}: {e.strerror}")
        return None
    checksum, content = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
    if _digest(content) != checksum:
        _note(f"{path} is damaged and will be written again")
        return None
    try:
        return [_Unpickler(io.BytesIO(content), references).load()]
    except _BROKEN as e:
        _note(f"{path} does not fit and will be written again: {e}")
        return None


def _store(path: str, content: bytes) -> None:
    """Write a file whole or not at all, whoever else writes it at the same time."""
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                file.write(_digest(content) + content)
            os.replace(temporary, path)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)
    except OSError as e:
        _note(f"cannot write {path}: {e.strerror}")


def _forget_old(path: str) -> None:
    """Remove files of the same table beyond the last few versions."""
    folder, prefix = os.path.dirname(path), os.path.basename(path).rsplit("-", 1)[0] + "-"
    try:
        files = [entry for entry in os.scandir(folder) if entry.name.startswith(prefix)]
        files.sort(key=lambda entry: entry.stat().st_mtime_ns, reverse=True)
        for entry in files[_KEPT_VERSIONS:]:
            os.unlink(entry.path)
    except OSError as e:
        _note(f"cannot tidy {folder}: {e.strerror}")


@functools.cache
def _note(message: str) -> None:
    """Say something once."""
    log.debug("%s", message)
