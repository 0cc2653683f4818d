"""The parts of an ELF object file (64-bit, little-endian, relocatable) that linking needs.

Source: System V ABI, chapter 4 (object files); names of constants as there.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass

from mockgpu.isa.errors import MockGPUError

SHT_SYMTAB, SHT_RELA, SHT_NOBITS = 2, 4, 8
SHF_ALLOC = 2
SHN_UNDEF, SHN_ABS = 0, 0xFFF1
STT_OBJECT, STT_FUNC = 1, 2
EM_X86_64, EM_AARCH64 = 62, 183

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")


class ObjectError(MockGPUError):
    """Bytes that are no object file, or one that cannot be linked."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section; ``align`` in bytes, ``info`` and ``link`` as its type defines."""

    name: str
    type: int
    flags: int
    data: memoryview
    link: int
    info: int
    align: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """``value`` is an offset in ``section``, an index."""

    name: str
    type: int
    section: int
    value: int
    size: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place in a section (byte offset) that depends on the address of a symbol (an index)."""

    offset: int
    type: int
    symbol: int
    addend: int


class ObjectFile:
    """Sections, symbols and relocations of an object file. Raises ObjectError."""

    def __init__(self, data: bytes):
        self._data = memoryview(data)
        try:
            header = _HEADER.unpack_from(data)
        except struct.error:
            raise ObjectError("too short for an object file") from None
        if header[0][:6] != b"\x7fELF\x02\x01":
            raise ObjectError("not a 64-bit little-endian ELF file")
        self.machine: int = header[2]
        self.sections = self._sections(header[6], header[12], header[13])

    def _sections(self, start: int, count: int, names: int) -> list[Section]:
        rows = [_SECTION.unpack_from(self._data, start + n * _SECTION.size) for n in range(count)]
        strings = self._data[rows[names][4] : rows[names][4] + rows[names][5]]
        return [self._section(row, strings) for row in rows]

    def _section(self, row: tuple[int, ...], strings: memoryview) -> Section:
        name, kind, flags, _, offset, size, link, info, align, _ = row
        data = memoryview(bytes(size)) if kind == SHT_NOBITS else self._data[offset : offset + size]
        return Section(_text(strings, name), kind, flags, data, link, info, max(align, 1))

    @functools.cached_property
    def symbols(self) -> list[Symbol]:
        """The symbol table, in its order."""
        for table in self.sections:
            if table.type == SHT_SYMTAB:
                strings = self.sections[table.link].data
                rows = _SYMBOL.iter_unpack(table.data)
                return [
                    Symbol(_text(strings, name), info & 15, section, value, size)
                    for name, info, _, section, value, size in rows
                ]
        return []

    def relocations(self, section: int) -> list[Relocation]:
        """The relocations of the section with this index."""
        tables = (s for s in self.sections if s.type == SHT_RELA and s.info == section)
        return [
            Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend)
            for table in tables
            for offset, info, addend in _RELA.iter_unpack(table.data)
        ]

    def undefined(self) -> tuple[str, ...]:
        """The names that the object uses and does not define."""
        return tuple(sorted(s.name for s in self.symbols if s.section == SHN_UNDEF and s.name))


def _text(strings: memoryview, start: int) -> str:
    tail = bytes(strings[start : start + 256])
    if b"\0" not in tail:
        tail = bytes(strings[start:])
    return tail.split(b"\0", 1)[0].decode()
