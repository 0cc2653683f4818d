"""The folder of packs: one sub-folder per namespace, shared by any number of processes without locks.

A pack is written under another name, then renamed; it is never changed. A process that finds a pack gone, because
another has merged or evicted it, looks again. Whatever goes wrong here costs a compilation and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import threading
import time
from collections.abc import Iterator

from mockgpu.isa.table_cache import user_folder
from mockgpu.machine.native.cache_pack import Contents, Pack, PackError, merged

log = logging.getLogger("mockgpu.native")

LIMIT_BYTES = 256 << 20
MAX_PACKS = 8  # in a namespace, before the small ones are merged
MAX_NAMESPACES = 8
MERGED_BYTES = 8 << 20  # packs above this size are left alone
_SUFFIX, _PART = ".pack", ".part"
_STALE_SECONDS = 3600  # a part older than this belongs to a process that was killed
_TOUCH_SECONDS = 3600  # how exactly the time of last use is kept
_TRIES = 4


def cache_folder() -> str:
    """Where handlers are kept."""
    return os.path.join(user_folder(), "native")


class PackFolder:
    """The packs of one namespace under ``root``; ``limit`` bounds all namespaces together, in bytes."""

    def __init__(self, root: str, namespace: str, limit: int = LIMIT_BYTES):
        self.root, self.path, self.limit = root, os.path.join(root, namespace), limit
        self._packs: dict[str, Pack] = {}

    def packs(self) -> list[Pack]:
        """The packs that are there now, newest first."""
        for _ in range(_TRIES):
            names = self._names()
            if self._open(names):
                break
        return [self._packs[name] for name in names if name in self._packs]

    def readable(self) -> list[Pack]:
        """The packs that are there and whole, without removing others."""
        found = []
        for path in _files(self.path, _SUFFIX):
            with contextlib.suppress(PackError, OSError):
                found.append(Pack(path))
        return found

    def _names(self) -> list[str]:
        try:
            with os.scandir(self.path) as found:
                packs = [(_changed(entry.path), entry.name) for entry in found if entry.name.endswith(_SUFFIX)]
        except FileNotFoundError:
            return []
        except OSError as error:
            note(f"cannot read {self.path}: {error.strerror}")
            return []
        return [name for _, name in sorted(packs, reverse=True)]

    def _open(self, names: list[str]) -> bool:
        """Open new packs and forget those that are gone; False when one went while this looked."""
        for name in set(self._packs) - set(names):
            del self._packs[name]
        for name in names:
            if name in self._packs:
                continue
            path = os.path.join(self.path, name)
            try:
                self._packs[name] = Pack(path)
            except FileNotFoundError:
                return False
            except PackError as error:
                self.damaged(path, error)
            except OSError as error:
                note(f"cannot read {path}: {error.strerror}")
        return True

    def damaged(self, path: str, error: PackError) -> None:
        """Remove a pack that cannot be used; what was in it is made again."""
        log.info("%s and is removed", error)
        self._packs.pop(os.path.basename(path), None)
        with contextlib.suppress(OSError):
            os.unlink(path)

    def touch(self) -> None:
        """Note that this namespace is in use."""
        with contextlib.suppress(OSError):
            if time.time() - os.stat(self.path).st_mtime > _TOUCH_SECONDS:
                os.utime(self.path)

    def store(self, contents: Contents) -> None:
        """Add a pack, then keep the folder in bounds."""
        if self._write(contents) is not None:
            self._merge()
            self._bound()

    def _write(self, contents: Contents) -> str | None:
        data = contents.to_bytes()
        name = hashlib.sha256(data).hexdigest()[:24] + _SUFFIX
        part = os.path.join(self.path, f"{name}.{os.getpid()}.{threading.get_ident()}{_PART}")
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            try:
                with open(part, "xb") as file:
                    file.write(data)
                os.replace(part, os.path.join(self.path, name))
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(part)
        except OSError as error:
            note(f"host code is not kept for later runs: cannot write to {self.path}: {error.strerror}")
            return None
        return name

    def _merge(self) -> None:
        """Make one pack of the small ones when there are many."""
        packs = self.packs()
        small = [pack for pack in packs if _size(pack.path) < MERGED_BYTES]
        if len(packs) <= MAX_PACKS or len(small) < 2:
            return
        try:
            name = self._write(merged(small))
        except (PackError, OSError) as error:
            log.info("packs are not merged: %s", error)
            return
        if name is None:
            return
        for pack in small:
            if os.path.basename(pack.path) != name:
                with contextlib.suppress(OSError):
                    os.unlink(pack.path)

    def _bound(self) -> None:
        """Remove what was left behind and used longest ago, until the rest is within the limits."""
        for path in _parts(self.root):
            with contextlib.suppress(OSError):
                if time.time() - os.stat(path).st_mtime > _STALE_SECONDS:
                    os.unlink(path)
        own = os.path.basename(self.path)
        others = [path for path in namespaces(self.root) if os.path.basename(path) != own]  # newest first
        for path in others[MAX_NAMESPACES - 1 :]:
            remove(path)
        total = sum(_size(path) for path in pack_files(self.root))
        for path in [*self._oldest_files(others), *self._oldest_files([self.path])]:
            if total <= self.limit:
                return
            total -= _size(path)
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _oldest_files(self, folders: list[str]) -> Iterator[str]:
        for folder in reversed(folders):
            yield from sorted(_files(folder, _SUFFIX), key=_changed)


# -- everything below a cache folder ----------------------------------------------------------------------------------


def namespaces(root: str) -> list[str]:
    """The folders of all namespaces, last used first."""
    try:
        with os.scandir(root) as found:
            folders = [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(folders, key=_changed, reverse=True)


def pack_files(root: str) -> list[str]:
    """The packs of all namespaces."""
    return [path for folder in namespaces(root) for path in _files(folder, _SUFFIX)]


def remove(folder: str) -> None:
    """Remove a namespace as far as possible."""
    for path in [*_files(folder, _SUFFIX), *_files(folder, _PART)]:
        with contextlib.suppress(OSError):
            os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _parts(root: str) -> list[str]:
    return [path for folder in namespaces(root) for path in _files(folder, _PART)]


def _files(folder: str, suffix: str) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [entry.path for entry in found if entry.name.endswith(suffix)]
    except OSError:
        return []


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


@functools.cache
def note(message: str) -> None:
    """Say something once."""
    log.warning("%s", message)
