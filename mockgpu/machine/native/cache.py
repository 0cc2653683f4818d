"""Handlers by key: loaded from disk where any process has made them before, compiled and kept otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mockgpu.machine.native import host
from mockgpu.machine.native.cache_folder import LIMIT_BYTES, PackFolder, cache_folder, note
from mockgpu.machine.native.cache_identity import namespace
from mockgpu.machine.native.cache_pack import REFUSED, Contents, Entry, Pack, PackError, digest
from mockgpu.machine.native.link import Image, link
from mockgpu.machine.native.loader import Region


@dataclass(frozen=True, slots=True)
class Batch:
    """What a compilation made: an object file, the symbol of each key in it, and why other keys have none."""

    object: bytes
    symbols: Mapping[str, str]
    refused: Mapping[str, str] = field(default_factory=dict)


#: Compiles handlers of keys; every key must be in ``symbols`` or in ``refused`` of the batch.
Compile: TypeAlias = Callable[[list[str]], Batch]


@dataclass(frozen=True, slots=True)
class Found:
    """``addresses`` of the handlers by key, and by key the reason why there is no native form."""

    addresses: dict[str, int]
    refused: dict[str, str]


class HandlerCache:
    """The handlers of this process, for one level of the host (host.LEVELS). Any thread may use it.

    ``folder`` is where they are kept between runs (None: in the user's cache folder), ``limit`` its size in bytes.
    Code that was loaded stays loaded.
    """

    def __init__(self, level: str = host.NATIVE, folder: str | None = None, limit: int = LIMIT_BYTES):
        host.check_level(level)
        self.level = level
        self._lock = threading.RLock()
        self._addresses: dict[str, int] = {}
        self._refused: dict[str, str] = {}
        self._regions: list[Region] = []
        self._folder = _pack_folder(level, folder, limit)

    @property
    def loaded_bytes(self) -> int:
        """Memory that holds code."""
        return sum(region.size for region in self._regions)

    def get(self, keys: Iterable[str], compile: Compile) -> Found:
        """The handlers of keys. Those that are nowhere are given to ``compile`` in one batch."""
        wanted = list(dict.fromkeys(keys))
        missing = self.find(wanted)
        if missing:
            self._add(missing, compile(missing))
        with self._lock:
            return Found(
                {key: self._addresses[key] for key in wanted if key in self._addresses},
                {key: self._refused[key] for key in wanted if key in self._refused},
            )

    def find(self, keys: Sequence[str]) -> list[str]:
        """Load the handlers of keys that are on disk; the keys that are not."""
        with self._lock:
            missing = [key for key in keys if key not in self._addresses and key not in self._refused]
            if not missing or self._folder is None:
                return missing
            self._folder.touch()
            return self._load(missing, self._folder.packs())

    def _load(self, keys: list[str], packs: list[Pack]) -> list[str]:
        """Load keys from packs; the keys that are in none."""
        images: dict[tuple[int, int], list[tuple[str, Entry]]] = {}
        refused, missing = {}, []
        for key in keys:
            place = _search(packs, digest(key))
            if place is None:
                missing.append(key)
            elif place[1].image == REFUSED:
                refused[key] = packs[place[0]].reason(place[1])
            else:
                images.setdefault((place[0], place[1].image), []).append((key, place[1]))
        good: list[tuple[bytes, list[tuple[str, Entry]]]] = []
        for (number, image), entries in images.items():
            data = self._image(packs[number], image)
            if data is None:  # nothing of this pack counts: what is not made again would be lost with it
                return self._load(keys, [pack for pack in packs if pack is not packs[number]])
            good.append((data, entries))
        self._refused.update(refused)
        self._place(good)
        return missing

    def _image(self, pack: Pack, number: int) -> bytes | None:
        """An image, or None where the pack is damaged or cannot be read."""
        try:
            return pack.image(number)
        except PackError as error:
            if self._folder is not None:
                self._folder.damaged(pack.path, error)
        except OSError as error:
            note(f"cannot read {pack.path}: {error.strerror}")
        return None

    def _place(self, images: list[tuple[bytes, list[tuple[str, Entry]]]]) -> None:
        """Put images in memory. The first address of a key stays."""
        if not images:
            return
        region = Region([data for data, _ in images])
        self._regions.append(region)
        for base, (_, entries) in zip(region.addresses, images, strict=True):
            for key, entry in entries:
                self._addresses.setdefault(key, base + entry.start)

    def _add(self, keys: list[str], batch: Batch) -> None:
        """Load a batch and keep it for later."""
        lost = [key for key in keys if key not in batch.symbols and key not in batch.refused]
        if lost:
            raise KeyError(f"the compilation made neither a handler nor a refusal for {lost}")
        image = link(batch.object) if batch.symbols else Image(b"", {}, {})
        entries = [
            (key, Entry(digest(key), 0, image.symbols[symbol], image.sizes[symbol]))
            for key, symbol in batch.symbols.items()
        ]
        with self._lock:
            self._refused.update(batch.refused)
            if entries:
                self._place([(image.data, entries)])
            if self._folder is not None:
                self._folder.store(_contents(image, entries, batch.refused))


def _search(packs: list[Pack], key: bytes) -> tuple[int, Entry] | None:
    for number, pack in enumerate(packs):
        entry = pack.find(key)
        if entry is not None:
            return number, entry
    return None


def _contents(image: Image, entries: list[tuple[str, Entry]], refused: Mapping[str, str]) -> Contents:
    contents = Contents()
    contents.add_image(image.data, [(e.digest, e.start, e.size) for _, e in entries])
    for key, reason in refused.items():
        contents.refuse(digest(key), reason)
    return contents


def _pack_folder(level: str, folder: str | None, limit: int) -> PackFolder | None:
    try:
        return PackFolder(folder if folder is not None else cache_folder(), namespace(level), limit)
    except (OSError, ModuleNotFoundError) as error:
        note(f"host code is not kept for later runs: {error}")
        return None
