"""The command line's view of the instruction sets: ``mockgpu asm`` and ``mockgpu dis``.

Assembler and code objects are imported when a command runs, so that other commands start fast.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from mockgpu.isa.arch import Arch, arch_names, get_arch
from mockgpu.isa.errors import MockGPUError

if TYPE_CHECKING:
    from mockgpu.isa.asm import Assembled
    from mockgpu.isa.asm_listing import ListingLine
    from mockgpu.isa.codeobject import CodeObject, Kernel

_DEFAULT_ARCH = "gfx1100"
_ELF = b"\x7fELF"
_TARGET = re.compile(r'^\s*\.amdgcn_target\s+"amdgcn-amd-amdhsa--(\w+)', re.MULTILINE)
_WORDS_PER_LINE = 8

ArchOption = Annotated[
    str | None, typer.Option("--arch", help=f"The target: {', '.join(arch_names())}.", metavar="ARCH")
]
Wave64 = Annotated[bool, typer.Option("--wave64", help="Lane masks have 64 bits (RDNA).")]


def _fail(message: object, status: int) -> NoReturn:
    print(f"mockgpu: {message}", file=sys.stderr)
    raise typer.Exit(status)


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        _fail(f"{file}: {error.strerror}", 2)


def _arch(name: str) -> Arch:
    try:
        return get_arch(name)
    except MockGPUError as error:
        _fail(error, 2)


def _lanes(arch: Arch, wave64: bool) -> int | None:
    return 64 if wave64 else None


# --- assemble ---------------------------------------------------------------------------------------------------------


def asm(
    file: Annotated[str, typer.Argument(help="Assembly in LLVM syntax; - reads standard input.")],
    arch: ArchOption = None,
    output: Annotated[str | None, typer.Option("-o", help="Write a code object, or raw code, here.")] = None,
    as_hex: Annotated[bool, typer.Option("--hex", help="Print the code as hexadecimal dwords.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Write the code alone even if there are kernels.")] = False,
    wave64: Wave64 = False,
) -> None:
    """Assemble a file. With .amdhsa_kernel blocks the result is a code object, else raw code."""
    from mockgpu.isa.asm import assemble
    from mockgpu.isa.asm_object import code_object

    try:
        text = _read(file).decode()
    except UnicodeDecodeError as error:
        _fail(f"{file} is not a text file: {error}", 2)
    named = _TARGET.search(text)
    target = _arch(arch or (named[1] if named else _DEFAULT_ARCH))
    try:
        assembled = assemble(text, target, wave_size=_lanes(target, wave64))
        data = assembled.code if raw or not assembled.kernels else code_object(assembled)
    except MockGPUError as error:
        _fail(f"{'<stdin>' if file == '-' else file}: {error}", 1)
    if output is not None:
        _write(output, data)
    if as_hex or output is None:
        _print_hex(assembled)


def _write(path: str, data: bytes) -> None:
    try:
        if path == "-":
            sys.stdout.buffer.write(data)
        else:
            Path(path).write_bytes(data)
    except OSError as error:
        _fail(f"{path}: {error.strerror}", 2)


def _print_hex(assembled: Assembled) -> None:
    code = assembled.code
    words = [f"{int.from_bytes(code[n : n + 4], 'little'):08x}" for n in range(0, len(code), 4)]
    for start in range(0, len(words), _WORDS_PER_LINE):
        print(" ".join(words[start : start + _WORDS_PER_LINE]))


# --- disassemble ------------------------------------------------------------------------------------------------------


def dis(
    file: Annotated[str, typer.Argument(help="A code object or raw machine code; - reads standard input.")],
    arch: ArchOption = None,
    kernel: Annotated[str | None, typer.Option("--kernel", help="Show this kernel only.", metavar="NAME")] = None,
    pcode: Annotated[bool, typer.Option("--pcode", help="Show what each instruction does.")] = False,
    wave64: Wave64 = False,
) -> None:
    """Disassemble to text that assembles to the same bytes. Ends with 1 when some bytes are no instruction."""
    from mockgpu.isa.codeobject import load_code_object

    data = _read(file)
    try:
        if data.startswith(_ELF):
            bad = show_code_object(load_code_object(data), arch, kernel, pcode)
        else:
            bad = _raw_code(data, arch, kernel, pcode, wave64)
    except MockGPUError as error:
        _fail(f"{file}: {error}", 1)
    if bad:
        _fail(f"{bad} pieces of the code are no instruction; see the .long lines", 1)


def _header(arch: Arch) -> None:
    print(f'.amdgcn_target "amdgcn-amd-amdhsa--{arch.name}"\n.text')


def _raw_code(data: bytes, arch: str | None, kernel: str | None, pcode: bool, wave64: bool) -> int:
    if kernel is not None:
        _fail("--kernel needs a code object; this is raw code", 2)
    from mockgpu.isa.asm_listing import listing

    target = _arch(arch or _DEFAULT_ARCH)
    _header(target)
    return _show(listing(target, data, wave_size=_lanes(target, wave64)), pcode)


def show_code_object(code: CodeObject, arch: str | None = None, kernel: str | None = None, pcode: bool = False) -> int:
    """Print the kernels of a code object, or one of them; the number of pieces that are no instruction."""
    from mockgpu.isa.asm_listing import listing

    target = _arch(arch) if arch else code.arch
    if kernel is not None and kernel not in code.kernels:
        _fail(f"there is no kernel {kernel!r}; there are: {', '.join(code.kernels) or 'none'}", 2)
    _header(target)
    if not code.kernels:
        return _show(listing(target, code.text, base=code.text_address, names=_names(code)), pcode)
    chosen = [code.kernels[kernel]] if kernel is not None else sorted(code.kernels.values(), key=lambda k: k.entry)
    return sum(_show_kernel(target, code, found, pcode) for found in chosen)


def _names(code: CodeObject) -> dict[int, str]:
    return {s.address: s.name for s in code.symbols.values() if s.kind in ("STT_FUNC", "STT_NOTYPE")}


def _show_kernel(arch: Arch, code: CodeObject, kernel: Kernel, pcode: bool) -> int:
    from mockgpu.isa.asm_listing import listing

    descriptor = kernel.descriptor
    wave_size = 32 if descriptor.wave32 and arch.wave32 else 64
    data = code.code(kernel)
    sizes = f"LDS {descriptor.group_segment_size}, scratch {descriptor.private_segment_size}"
    print(f"\n; {kernel.name}: {len(data)} bytes, wave{wave_size}, {sizes}, arguments {descriptor.kernarg_size} bytes")
    names = _names(code) | {kernel.entry: kernel.name}
    return _show(listing(arch, data, base=kernel.entry, wave_size=wave_size, names=names), pcode)


def _show(lines: Iterable[ListingLine], pcode: bool) -> int:
    """Print lines; the number of those that are no instruction."""
    from mockgpu.isa.asm_listing import line_text

    bad = 0
    for line in lines:
        bad += bool(line.reason)
        if line.label:
            print(f"{line.label}:")
        print(line_text(line))
        if pcode:
            for text in _pcode(line):
                print(f"      // {text}")
    return bad


def _pcode(line: ListingLine) -> Iterator[str]:
    from mockgpu.pcode.text import pcode_texts

    inst = line.instruction
    for opcode in (inst.opcode, inst.opcode_y) if inst is not None else ():
        if opcode is not None:
            text = pcode_texts(opcode.family).get((opcode.table, opcode.name), "")
            yield from (row.rstrip() for row in text.strip().splitlines())


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(asm)
    app.command()(dis)
