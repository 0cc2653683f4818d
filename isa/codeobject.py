"""Code objects: the ELF files that hold compiled kernels.

Layout: AMDGPU back-end usage manual, sections "ELF Code Object" and "Kernel Descriptor".
"""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import Relocation, RelocationSection
from elftools.elf.sections import Symbol as ELFSymbol
from elftools.elf.sections import SymbolTableSection

from mockgpu.isa.arch import Arch, arch_names, get_arch
from mockgpu.isa.errors import MockGPUError

_EM_AMDGPU = 224
_MACH_MASK = 0xFF
_DESCRIPTOR = struct.Struct("<IIIIq20xIIIHH4x")
_SUFFIX = ".kd"
#: PC-relative relocations by number: size in bytes and right shift. R_AMDGPU_REL32, REL64, REL32_LO, REL32_HI.
_RELATIVE = {4: (4, 0), 5: (8, 0), 10: (4, 0), 11: (4, 32)}


class CodeObjectError(MockGPUError):
    """Bytes that are not an AMDGPU code object, or a part of one that is missing or malformed."""


@dataclass(frozen=True, slots=True)
class KernelDescriptor:
    """The 64-byte descriptor of a kernel. Sizes in bytes; ``entry_offset`` counts from the descriptor's address."""

    group_segment_size: int
    private_segment_size: int
    kernarg_size: int
    entry_offset: int
    rsrc1: int
    rsrc2: int
    rsrc3: int
    code_properties: int
    kernarg_preload: int

    @classmethod
    def parse(cls, data: bytes) -> KernelDescriptor:
        """A descriptor from its 64 bytes. Raises CodeObjectError when there are fewer."""
        if len(data) < _DESCRIPTOR.size:
            raise CodeObjectError(f"kernel descriptor has {len(data)} bytes, need {_DESCRIPTOR.size}")
        group, private, kernarg, _, entry, rsrc3, rsrc1, rsrc2, properties, preload = _DESCRIPTOR.unpack_from(data)
        return cls(group, private, kernarg, entry, rsrc1, rsrc2, rsrc3, properties, preload)

    @property
    def wave32(self) -> bool:
        """ENABLE_WAVEFRONT_SIZE32 of the code properties."""
        return bool(self.code_properties >> 10 & 1)

    @property
    def user_sgprs(self) -> int:
        """Number of user SGPRs that the dispatcher loads (COMPUTE_PGM_RSRC2.USER_SGPR)."""
        return self.rsrc2 >> 1 & 0x1F


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol: virtual address, size in bytes and ELF type (``STT_FUNC``, ``STT_OBJECT``, ...)."""

    name: str
    address: int
    size: int
    kind: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: the virtual addresses of its descriptor and its first instruction, and its code size if known."""

    name: str
    descriptor: KernelDescriptor
    descriptor_address: int
    entry: int
    size: int


@dataclass(frozen=True)
class CodeObject:
    """A loaded view of a code object. ``image`` holds the loadable segments from virtual address 0 on."""

    mach: int
    image: bytes = field(repr=False)
    symbols: Mapping[str, Symbol] = field(repr=False)
    text_address: int
    text_size: int

    @functools.cached_property
    def arch(self) -> Arch:
        """The architecture record of the target. Raises CodeObjectError for a target without one."""
        for name in arch_names():
            if get_arch(name).elf_mach == self.mach:
                return get_arch(name)
        known = ", ".join(arch_names())
        raise CodeObjectError(f"code object for unknown machine {self.mach:#x}; known targets are {known}")

    @functools.cached_property
    def kernels(self) -> Mapping[str, Kernel]:
        """Kernels by name: every symbol ``name.kd`` is the descriptor of kernel ``name``."""
        found = (s for s in self.symbols.values() if s.name.endswith(_SUFFIX))
        return {kernel.name: kernel for kernel in map(self._kernel, found)}

    @property
    def text(self) -> bytes:
        """The machine code."""
        return self.image[self.text_address : self.text_address + self.text_size]

    def code(self, kernel: Kernel) -> bytes:
        """The code of a kernel, up to the end of the text section when its size is not recorded."""
        end = kernel.entry + kernel.size if kernel.size else self.text_address + self.text_size
        return self.image[kernel.entry : end]

    def _kernel(self, symbol: Symbol) -> Kernel:
        name = symbol.name.removesuffix(_SUFFIX)
        descriptor = KernelDescriptor.parse(self.image[symbol.address : symbol.address + _DESCRIPTOR.size])
        entry = symbol.address + descriptor.entry_offset
        if not 0 <= entry < len(self.image):
            raise CodeObjectError(f"kernel {name}: entry address {entry:#x} lies outside the code object")
        function = self.symbols.get(name)
        return Kernel(name, descriptor, symbol.address, entry, function.size if function is not None else 0)


def load_code_object(data: bytes) -> CodeObject:
    """Parse a code object: a linked one (ELF shared object), or what a compiler emits before linking (relocatable).

    The sections of a relocatable one are placed one behind the other. Raises CodeObjectError.
    """
    try:
        return _load(data)
    except (ELFError, struct.error) as error:
        raise CodeObjectError(f"not a well-formed ELF file: {error}") from error


def _load(data: bytes) -> CodeObject:
    elf = ELFFile(io.BytesIO(data))
    if elf["e_machine"] not in ("EM_AMDGPU", _EM_AMDGPU):
        raise CodeObjectError(f"ELF machine is {elf['e_machine']}, not EM_AMDGPU")
    number = elf.get_section_index(".text")
    if number is None:
        raise CodeObjectError("no .text section")
    text = elf.get_section(number)
    mach = elf["e_flags"] & _MACH_MASK
    places = _places(elf)
    image = _placed(elf, places) if places else _image(elf)
    return CodeObject(mach, image, _symbols(elf, places), places.get(number, text["sh_addr"]), text["sh_size"])


def _places(elf: ELFFile) -> Mapping[int, int]:
    """Addresses by section number for the sections of a relocatable file that occupy memory; empty for a linked one."""
    if elf["e_type"] != "ET_REL":
        return {}
    places, at = {}, 0
    for number, section in enumerate(elf.iter_sections()):
        if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section["sh_size"]:
            align = max(1, section["sh_addralign"])
            places[number] = at = -(-at // align) * align
            at += section["sh_size"]
    return places


def _placed(elf: ELFFile, places: Mapping[int, int]) -> bytes:
    sections = {number: elf.get_section(number) for number in places}
    image = bytearray(max(at + sections[number]["sh_size"] for number, at in places.items()))
    for number, at in places.items():
        data = sections[number].data()
        image[at : at + len(data)] = data
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection) and section["sh_info"] in places:
            symbols = elf.get_section(section["sh_link"])
            if not isinstance(symbols, SymbolTableSection):
                raise CodeObjectError(f"{section.name} has no symbol table")
            for entry in section.iter_relocations():
                _relocate(image, entry, symbols.get_symbol(entry["r_info_sym"]), section["sh_info"], places)
    return bytes(image)


def _relocate(image: bytearray, entry: Relocation, symbol: ELFSymbol, section: int, places: Mapping[int, int]) -> None:
    """Apply one relocation. Those against symbols of other files stay zero: what is shown does not depend on them."""
    if symbol["st_shndx"] not in places:
        return
    if entry["r_info_type"] not in _RELATIVE:
        raise CodeObjectError(f"relocation of type {entry['r_info_type']} in a file that is not linked")
    size, shift = _RELATIVE[entry["r_info_type"]]
    place = places[section] + entry["r_offset"]
    distance = places[symbol["st_shndx"]] + symbol["st_value"] + entry["r_addend"] - place
    image[place : place + size] = (distance >> shift & (1 << 8 * size) - 1).to_bytes(size, "little")


def _image(elf: ELFFile) -> bytes:
    segments = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
    if not segments:
        raise CodeObjectError("no loadable segment in a linked file")
    image = bytearray(max(s["p_vaddr"] + s["p_memsz"] for s in segments))
    for segment in segments:
        start = segment["p_vaddr"]
        image[start : start + segment["p_filesz"]] = segment.data()
    return bytes(image)


def _symbols(elf: ELFFile, places: Mapping[int, int]) -> Mapping[str, Symbol]:
    found: dict[str, Symbol] = {}
    for section in elf.iter_sections():
        if not isinstance(section, SymbolTableSection):
            continue
        for entry in section.iter_symbols():
            if entry.name:
                kind = entry["st_info"]["type"]
                address = places.get(entry["st_shndx"], 0) + entry["st_value"]
                found[entry.name] = Symbol(entry.name, address, entry["st_size"], str(kind))
    return found
