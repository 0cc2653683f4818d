"""Code objects from assembled files: an ELF shared object that loaders and the runtime accept.

Layout: AMDGPU back-end usage manual, section "ELF Code Object". Descriptors lie in .rodata, code in .text; symbols
are ``name`` (function) and ``name.kd`` (descriptor) for each kernel.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mockgpu.isa.asm import Assembled
from mockgpu.isa.asm_error import AsmError
from mockgpu.isa.asm_kernel import DESCRIPTOR_BYTES

_HEADER, _PROGRAM_HEADER, _SECTION_HEADER = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ"), 64
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ET_DYN, _EM_AMDGPU, _OSABI_HSA = 3, 224, 64
_PT_LOAD, _R, _RX, _RW = 1, 4, 5, 6
_PROGBITS, _SYMTAB, _STRTAB, _DYNSYM = 1, 2, 3, 11
_WRITE, _ALLOC, _EXEC = 1, 2, 4
_GLOBAL_FUNCTION, _GLOBAL_OBJECT, _LOCAL_NOTYPE = 0x12, 0x11, 0x00
_PROTECTED = 3
_PAGE, _CODE_ALIGNMENT = 0x1000, 256
_XNACK_AND_SRAMECC_ANY = 0x100 | 0x400  # feature bits of targets that have these modes


@dataclass(slots=True)
class _Placed:
    """A section with its address, which is its file offset too."""

    name: str
    data: bytes
    kind: int
    flags: int
    address: int = 0
    alignment: int = 1
    link: int = 0
    info: int = 0
    entry: int = 0


def code_object(assembled: Assembled) -> bytes:
    """The ELF file of an assembled file. Raises AsmError when a kernel has no label."""
    loaded = _loaded_sections(assembled)
    by_name = {section.name: section for section in loaded}
    if assembled.kernels:
        by_name[".rodata"].data = _descriptors(assembled, by_name)
    symbols, names = _symbols(assembled, loaded)
    return _file(assembled, loaded, symbols, names)


def _loaded_sections(assembled: Assembled) -> list[_Placed]:
    """Sections that are loaded, with addresses: descriptors and data first, each kind on pages of its own."""
    sections = dict(assembled.sections)
    read_only = sections.pop(".rodata", b"")
    start = -(-len(read_only) // DESCRIPTOR_BYTES) * DESCRIPTOR_BYTES
    if assembled.kernels or read_only:
        read_only = read_only.ljust(start, b"\0") + bytes(DESCRIPTOR_BYTES * len(assembled.kernels))
    placed = [_Placed(".rodata", read_only, _PROGBITS, _ALLOC, alignment=64)] if read_only else []
    placed.append(_Placed(".text", sections.pop(".text"), _PROGBITS, _ALLOC | _EXEC, alignment=_CODE_ALIGNMENT))
    placed += [_Placed(name, data, _PROGBITS, _ALLOC | _WRITE, alignment=16) for name, data in sections.items()]
    address = 0
    for section in placed:
        address = -(-(address or 0x200) // (_PAGE if address else 64)) * (_PAGE if address else 64)
        section.address = address
        address += len(section.data)
    return placed


def _descriptor_address(assembled: Assembled, section: _Placed, index: int) -> int:
    first = section.address + len(section.data) - DESCRIPTOR_BYTES * len(assembled.kernels)
    return first + DESCRIPTOR_BYTES * index


def _descriptors(assembled: Assembled, by_name: dict[str, _Placed]) -> bytes:
    section = by_name[".rodata"]
    data = bytearray(section.data)
    for index, (name, kernel) in enumerate(assembled.kernels.items()):
        if name not in assembled.labels or assembled.labels[name][0] != ".text":
            raise AsmError(f"the kernel {name} has a descriptor but no label in .text")
        address = _descriptor_address(assembled, section, index)
        entry = by_name[".text"].address + assembled.labels[name][1]
        offset = address - section.address
        data[offset : offset + DESCRIPTOR_BYTES] = kernel.descriptor(entry - address)
    return bytes(data)


def _symbols(assembled: Assembled, loaded: list[_Placed]) -> tuple[bytes, bytes]:
    """(symbol table, string table): local labels first, as ELF wants, then kernels and their descriptors."""
    index = {section.name: n for n, section in enumerate(loaded, 1)}
    address = {section.name: section.address for section in loaded}
    rows: list[tuple[str, int, int, str, int, int]] = []
    for name, (section, offset) in assembled.labels.items():
        if name not in assembled.kernels and not name.startswith(".L"):
            rows.append((name, _LOCAL_NOTYPE, 0, section, address[section] + offset, assembled.sizes.get(name, 0)))
    for n, name in enumerate(assembled.kernels):
        entry = address[".text"] + assembled.labels[name][1]
        rows.append((name, _GLOBAL_FUNCTION, _PROTECTED, ".text", entry, _code_size(assembled, name)))
        descriptor = _descriptor_address(assembled, loaded[0], n)
        rows.append((f"{name}.kd", _GLOBAL_OBJECT, _PROTECTED, ".rodata", descriptor, DESCRIPTOR_BYTES))
    strings, table = bytearray(b"\0"), bytearray(_SYMBOL.size)
    for name, info, other, section, value, size in rows:
        table += _SYMBOL.pack(len(strings), info, other, index[section], value, size)
        strings += name.encode() + b"\0"
    return bytes(table), bytes(strings)


def _code_size(assembled: Assembled, name: str) -> int:
    """The size of a kernel: what .size says, else up to the next kernel or the end."""
    if name in assembled.sizes:
        return assembled.sizes[name]
    start = assembled.labels[name][1]
    others = [assembled.labels[other][1] for other in assembled.kernels]
    return min([offset for offset in others if offset > start] + [len(assembled.code)]) - start


def _file(assembled: Assembled, loaded: list[_Placed], symbols: bytes, names: bytes) -> bytes:
    locals_ = sum(not symbols[n + 4] >> 4 for n in range(0, len(symbols), _SYMBOL.size))
    strings = len(loaded) + 2
    tables = [
        _Placed(".symtab", symbols, _SYMTAB, 0, 0, 8, strings, locals_, _SYMBOL.size),
        _Placed(".strtab", names, _STRTAB, 0),
    ]
    titles = bytearray(b"\0")
    rows = []
    body = bytearray()
    sections = [*loaded, *tables, _Placed(".shstrtab", b"", _STRTAB, 0)]
    for section in sections:
        title = len(titles)
        titles += section.name.encode() + b"\0"
        if section.name == ".shstrtab":
            section.data = bytes(titles)
        offset = section.address or -(-len(body) // 8) * 8
        body = body.ljust(offset, b"\0") + section.data
        rows.append(_row(section, title, offset))
    table_offset = -(-len(body) // 8) * 8
    body = body.ljust(table_offset, b"\0") + bytes(_SECTION.size) + b"".join(rows)
    return _with_headers(assembled, body, loaded, table_offset, len(sections) + 1)


def _row(section: _Placed, title: int, offset: int) -> bytes:
    shape = (section.address, offset, len(section.data), section.link, section.info, section.alignment, section.entry)
    return _SECTION.pack(title, section.kind, section.flags, *shape)


def _with_headers(assembled: Assembled, body: bytearray, loaded: list[_Placed], table: int, count: int) -> bytes:
    arch = assembled.arch
    flags = arch.elf_mach | (_XNACK_AND_SRAMECC_ANY if arch.acc_vgprs else 0)
    ident = b"\x7fELF" + bytes((2, 1, 1, _OSABI_HSA, assembled.version - 2)) + bytes(7)
    sizes = (64, _PROGRAM_HEADER.size, len(loaded), _SECTION.size, count, count - 1)
    body[:64] = _HEADER.pack(ident, _ET_DYN, _EM_AMDGPU, 1, 0, 64, table, flags, *sizes)
    position = 64
    for section in loaded:
        rights = _RX if section.flags & _EXEC else _RW if section.flags & _WRITE else _R
        span = (section.address, section.address, section.address, len(section.data), len(section.data))
        body[position : position + _PROGRAM_HEADER.size] = _PROGRAM_HEADER.pack(_PT_LOAD, rights, *span, _PAGE)
        position += _PROGRAM_HEADER.size
    return bytes(body)
