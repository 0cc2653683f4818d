"""Joins the sections of an object file to one image that runs wherever it is placed, on a page boundary.

Code is compiled position-independent, so every relocation is the distance of two places in the image. Images are
what the disk cache keeps: loading one is copying it, without LLVM.
Source of the relocations: x86-64 psABI, section 4.4; AArch64 ELF ABI (aaelf64), section 5.7.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mockgpu.machine.native.elf import (
    EM_AARCH64,
    EM_X86_64,
    SHF_ALLOC,
    SHN_ABS,
    SHN_UNDEF,
    STT_FUNC,
    STT_OBJECT,
    ObjectError,
    ObjectFile,
    Relocation,
    Symbol,
)

PAGE = 4096

R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_GOTPCREL, R_X86_64_PC64 = 2, 4, 9, 24
R_X86_64_GOTPCRELX, R_X86_64_REX_GOTPCRELX = 41, 42
_X86_RELAXED = (R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX, R_X86_64_REX_GOTPCRELX)
_MOV, _LEA = 0x8B, 0x8D

R_AARCH64_PREL64, R_AARCH64_PREL32 = 260, 261
R_AARCH64_ADR_PREL_PG_HI21, R_AARCH64_ADD_ABS_LO12_NC = 275, 277
R_AARCH64_ADR_GOT_PAGE, R_AARCH64_LD64_GOT_LO12_NC = 311, 312
_ARM_ADRP = (R_AARCH64_ADR_PREL_PG_HI21, R_AARCH64_ADR_GOT_PAGE)
_ARM_BRANCHES = {279: (14, 5), 280: (19, 5), 282: (26, 0), 283: (26, 0)}  # TSTBR14 CONDBR19 JUMP26 CALL26: bits, shift
_ARM_LDST = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}  # LDST8 16 32 64 128_ABS_LO12_NC: log2 of the size
_ADD_X = 0x91000000  # add Xd, Xn, #imm12


@dataclass(frozen=True, slots=True)
class Image:
    """Code and constants for a page boundary; offset and size in bytes of every function and constant by name."""

    data: bytes
    symbols: dict[str, int]
    sizes: dict[str, int]


def link(data: bytes) -> Image:
    """The image of an object file. Raises ObjectError for what depends on where the image lies, or is undefined."""
    file = ObjectFile(data)
    places, size = _places(file)
    image = bytearray(size)
    for index, start in places.items():
        section = file.sections[index].data
        image[start : start + len(section)] = section
    for index, start in places.items():
        for relocation in file.relocations(index):
            _relocate(file, image, places, start, relocation)
    named = [s for s in file.symbols if s.name and s.section in places and s.type in (STT_OBJECT, STT_FUNC)]
    addresses = {s.name: places[s.section] + s.value for s in named}
    return Image(bytes(image), addresses, {s.name: s.size for s in named})


def _places(file: ObjectFile) -> tuple[dict[int, int], int]:
    """Where each section lies in the image, and its size. Nothing is unwound through handlers."""
    places, end = {}, 0
    for index, section in enumerate(file.sections):
        if section.flags & SHF_ALLOC and section.name != ".eh_frame":
            end = -(-end // section.align) * section.align
            places[index] = end
            end += len(section.data)
    return places, end


def _relocate(file: ObjectFile, image: bytearray, places: dict[int, int], start: int, r: Relocation) -> None:
    symbol = file.symbols[r.symbol]
    place, value = start + r.offset, _address(symbol, places, file) + r.addend
    if file.machine == EM_X86_64:
        _relocate_x86(image, r, place, value)
    elif file.machine == EM_AARCH64:
        _relocate_arm(image, r, place, value)
    else:
        raise ObjectError(f"no rules to link for machine {file.machine}")


def _address(symbol: Symbol, places: dict[int, int], file: ObjectFile) -> int:
    if symbol.section == SHN_UNDEF:
        raise ObjectError(f"{symbol.name} is not defined")
    if symbol.section == SHN_ABS or symbol.section not in places:
        raise ObjectError(f"{symbol.name} is in no section that is loaded")
    return places[symbol.section] + symbol.value


def _relocate_x86(image: bytearray, r: Relocation, place: int, value: int) -> None:
    if r.type in _X86_RELAXED:
        if image[place - 2] != _MOV:
            raise ObjectError(f"relocation {r.type} is not on a mov: it needs a table of addresses")
        image[place - 2] = _LEA  # the address itself instead of a load of it
    elif r.type == R_X86_64_PC64:
        struct.pack_into("<q", image, place, value - place)
        return
    elif r.type not in (R_X86_64_PC32, R_X86_64_PLT32):
        raise ObjectError(f"x86-64 relocation {r.type} depends on where the code is loaded")
    struct.pack_into("<i", image, place, value - place)


def _relocate_arm(image: bytearray, r: Relocation, place: int, value: int) -> None:
    if r.type in (R_AARCH64_PREL32, R_AARCH64_PREL64):
        struct.pack_into("<i" if r.type == R_AARCH64_PREL32 else "<q", image, place, value - place)
        return
    (word,) = struct.unpack_from("<I", image, place)
    struct.pack_into("<I", image, place, _arm_word(word, r, place, value))


def _arm_word(word: int, r: Relocation, place: int, value: int) -> int:
    """An instruction with its immediate filled in."""
    low = value % PAGE
    if r.type in _ARM_ADRP:
        pages = value // PAGE - place // PAGE
        return word | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    if r.type == R_AARCH64_ADD_ABS_LO12_NC:
        return word | low << 10
    if r.type == R_AARCH64_LD64_GOT_LO12_NC:
        return _ADD_X | low << 10 | word & 0x3FF  # the address itself instead of a load of it
    if r.type in _ARM_LDST:
        return word | low >> _ARM_LDST[r.type] << 10
    if r.type in _ARM_BRANCHES:
        bits, shift = _ARM_BRANCHES[r.type]
        return word | ((value - place) >> 2 & (1 << bits) - 1) << shift
    raise ObjectError(f"AArch64 relocation {r.type} depends on where the code is loaded")
