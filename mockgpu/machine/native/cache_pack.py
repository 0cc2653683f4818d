"""A pack: one immutable file with images and an index from key to function.

Layout (little-endian): header {magic, length of the index, SHA-256 of the index}; index {number of images, of entries,
length of the texts; per image {offset in the file, size, SHA-256}; per entry, sorted, {digest of the key, image, offset
of the function in it, its size}; texts}; the images. An entry whose image is REFUSED has a text instead: why the key
has no native form.
"""

from __future__ import annotations

import hashlib
import os
import struct
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mockgpu.isa.errors import MockGPUError

MAGIC = b"mockgpu1"
REFUSED = 0xFFFFFFFF
_HEADER = struct.Struct("<8sQ32s")
_COUNTS = struct.Struct("<III")
_IMAGE = struct.Struct("<QQ32s")
_ENTRY = struct.Struct("<16sIII")
DIGEST_BYTES = 16
_MAX_INDEX = 1 << 28


class PackError(MockGPUError):
    """A file that is no pack, or is damaged."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a key's function lies: ``start`` and ``size`` in bytes in an image, or in the texts if refused."""

    digest: bytes
    image: int
    start: int
    size: int


def digest(key: str) -> bytes:
    """What stands for a key in an index."""
    return hashlib.sha256(key.encode()).digest()[:DIGEST_BYTES]


class Contents:
    """Images and entries that are to become a pack."""

    def __init__(self) -> None:
        self.images: list[bytes] = []
        self.entries: dict[bytes, tuple[int, int, int]] = {}
        self.texts = b""

    def add_image(self, data: bytes, functions: Iterable[tuple[bytes, int, int]]) -> None:
        """Add an image with its functions: digest, offset, size. One that has no new function is left out."""
        new = [(key, start, size) for key, start, size in functions if key not in self.entries]
        if new:
            self.entries.update({key: (len(self.images), start, size) for key, start, size in new})
            self.images.append(data)

    def refuse(self, key: bytes, reason: str) -> None:
        """Note that a key has no native form."""
        text = reason.encode()
        if key not in self.entries:
            self.entries[key] = (REFUSED, len(self.texts), len(text))
            self.texts += text

    def to_bytes(self) -> bytes:
        """The file."""
        index_size = _COUNTS.size + _IMAGE.size * len(self.images) + _ENTRY.size * len(self.entries) + len(self.texts)
        start = _HEADER.size + index_size
        index = [_COUNTS.pack(len(self.images), len(self.entries), len(self.texts))]
        for image in self.images:
            index.append(_IMAGE.pack(start, len(image), hashlib.sha256(image).digest()))
            start += len(image)
        index += [_ENTRY.pack(key, *place) for key, place in sorted(self.entries.items())]
        data = b"".join([*index, self.texts])
        return b"".join([_HEADER.pack(MAGIC, len(data), hashlib.sha256(data).digest()), data, *self.images])


class Pack:
    """A pack on disk. The index is in memory; images are read when asked for. Raises PackError and OSError."""

    def __init__(self, path: str):
        self.path = path
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._closer = weakref.finalize(self, os.close, self._file)
        index = self._checked_index()
        self._images, count, texts = _COUNTS.unpack_from(index)
        self._rows = memoryview(index)[_COUNTS.size : _COUNTS.size + _IMAGE.size * self._images]
        first = _COUNTS.size + len(self._rows)
        self._entries = memoryview(index)[first : first + _ENTRY.size * count]
        self._texts = index[first + len(self._entries) :]
        if len(self._rows) + len(self._entries) + texts + _COUNTS.size != len(index) or len(self._texts) != texts:
            raise PackError(f"{path} is damaged")

    def _checked_index(self) -> bytes:
        header = os.pread(self._file, _HEADER.size, 0)
        if len(header) < _HEADER.size or not header.startswith(MAGIC):
            raise PackError(f"{self.path} is no pack")
        _, size, checksum = _HEADER.unpack(header)
        index = _read(self._file, size, _HEADER.size) if size < _MAX_INDEX else b""
        if hashlib.sha256(index).digest() != checksum or len(index) < _COUNTS.size:
            raise PackError(f"{self.path} is damaged")
        return index

    def __len__(self) -> int:
        return len(self._entries) // _ENTRY.size

    def find(self, key: bytes) -> Entry | None:
        """The entry of a digest."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            at = middle * _ENTRY.size
            found = bytes(self._entries[at : at + DIGEST_BYTES])
            if found == key:
                return Entry(*_ENTRY.unpack_from(self._entries, at))
            low, high = (middle + 1, high) if found < key else (low, middle)
        return None

    def entries(self) -> Iterator[Entry]:
        """All entries."""
        return (Entry(*row) for row in _ENTRY.iter_unpack(self._entries))

    def reason(self, entry: Entry) -> str:
        """Why a refused key has no native form."""
        return self._texts[entry.start : entry.start + entry.size].decode()

    def image(self, number: int) -> bytes:
        """An image. Raises PackError where it is damaged."""
        if number >= self._images:
            raise PackError(f"{self.path} is damaged")
        start, size, checksum = _IMAGE.unpack_from(self._rows, number * _IMAGE.size)
        data = _read(self._file, size, start)
        if hashlib.sha256(data).digest() != checksum:
            raise PackError(f"{self.path} is damaged")
        return data


def merged(packs: Iterable[Pack]) -> Contents:
    """The contents of several packs as one. Raises PackError and OSError."""
    result = Contents()
    for pack in packs:
        functions: dict[int, list[tuple[bytes, int, int]]] = {}
        for entry in pack.entries():
            if entry.image == REFUSED:
                result.refuse(entry.digest, pack.reason(entry))
            else:
                functions.setdefault(entry.image, []).append((entry.digest, entry.start, entry.size))
        for number, found in functions.items():
            if any(key not in result.entries for key, _, _ in found):
                result.add_image(pack.image(number), found)
    return result


def _read(file: int, size: int, start: int) -> bytes:
    """So many bytes of a file, fewer at its end."""
    parts, got = [], 0
    while got < size:
        part = os.pread(file, size - got, start + got)
        if not part:
            break
        parts.append(part)
        got += len(part)
    return b"".join(parts)
