"""The assembler: whole files in LLVM's AMDGPU syntax to sections, labels and kernels.

Two passes: the first gives every line its size, so that labels get addresses; the second encodes. Sizes do not depend
on the addresses of labels: an operand made from a label is always a literal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mockgpu.isa.arch import Arch, get_arch
from mockgpu.isa.asm_directives import BLOCK_ENDS, Emitter, apply_directive
from mockgpu.isa.asm_error import AsmError
from mockgpu.isa.asm_instruction import assemble_halves, assemble_instruction
from mockgpu.isa.asm_kernel import KernelBlock
from mockgpu.isa.asm_operands import Scope
from mockgpu.isa.asm_syntax import Line, Number, parse_line

_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|(;|//).*|(/\*)')


@dataclass(frozen=True)
class Assembled:
    """The result of assembling a file. ``labels`` are (section, offset); ``sections`` hold bytes by name."""

    arch: Arch
    sections: Mapping[str, bytes]
    labels: Mapping[str, tuple[str, int]]
    sizes: Mapping[str, int] = field(default_factory=dict)  # of symbols, from .size
    kernels: Mapping[str, KernelBlock] = field(default_factory=dict)
    metadata: str = ""
    version: int = 5  # of the code object format

    @property
    def code(self) -> bytes:
        """The bytes of the .text section."""
        return self.sections.get(".text", b"")


@dataclass(frozen=True, slots=True)
class _Numbered:
    number: int
    source: str
    line: Line


def _without_comments(text: str) -> Iterator[str]:
    """Lines with comments blanked, so that columns stay right. Block comments may span lines."""
    inside = False
    for line in text.splitlines():
        line = line.replace("\t", " ")
        shown = ""
        position = 0
        while position < len(line):
            if inside:
                end = line.find("*/", position)
                stop = len(line) if end < 0 else end + 2
                shown += " " * (stop - position)
                position, inside = stop, end < 0
                continue
            match = next((m for m in _COMMENT.finditer(line, position) if m[1] or m[2]), None)
            shown += line[position : match.start() if match else len(line)]
            if match is None or match[1]:
                break
            position, inside = match.start(), True
        yield shown


def _parse(text: str) -> tuple[list[_Numbered], str]:
    """(lines with content, text of the metadata block)."""
    sources = text.splitlines()
    parsed: list[_Numbered] = []
    metadata: list[str] = []
    end = ""
    for number, shown in enumerate(_without_comments(text), 1):
        if end:
            if shown.strip() == end:
                end = ""
            else:
                metadata.append(sources[number - 1])
            continue
        if shown.strip() in BLOCK_ENDS:
            end = BLOCK_ENDS[shown.strip()]
            continue
        if shown.strip():
            parsed.append(_Numbered(number, sources[number - 1].replace("\t", " "), _line(shown, number, sources)))
    if end:
        raise AsmError(f"the block is not closed; expected {end}", line=len(sources), column=1)
    return parsed, "\n".join(metadata)


def _line(shown: str, number: int, sources: Sequence[str]) -> Line:
    try:
        return parse_line(shown)
    except AsmError as error:
        raise error.placed(number, sources[number - 1].replace("\t", " ")) from None


class _Pass:
    """One walk over the lines. ``known`` are instructions of an earlier pass that no label touches, by line."""

    def __init__(self, arch: Arch, lanes: int, pending: Collection[str], labels: Mapping[str, int]):
        self.arch, self.lanes = arch, lanes
        self.pending = set(pending)
        self.offsets = dict(labels)
        self.places: dict[str, tuple[str, int]] = {}
        self.known: dict[int, bytes] = {}
        self.emitter = Emitter(arch)

    def run(self, lines: Sequence[_Numbered]) -> None:
        """Assemble all lines. Raises AsmError with line and column."""
        for item in lines:
            try:
                self._line(item)
            except AsmError as error:
                raise error.placed(item.number, item.source) from None
        if self.emitter.kernel is not None:
            raise AsmError(".end_amdhsa_kernel is missing", line=lines[-1].number, column=1, source=lines[-1].source)

    def _line(self, item: _Numbered) -> None:
        line = item.line
        for label in line.labels:
            self._define(label.name, label.column)
        if line.directive is not None:
            apply_directive(self.emitter, line.directive, self._scope())
        elif line.halves:
            self.emitter.put(self._instruction(item))

    def _define(self, name: str, column: int) -> None:
        if name in self.places:
            raise AsmError(f"the label {name!r} is defined twice", column=column)
        self.pending.discard(name)
        self.places[name] = (self.emitter.section, self.emitter.offset)
        self.offsets[name] = self.emitter.offset

    def _scope(self) -> Scope:
        return Scope(self.offsets, self.emitter.constants, self.pending, self.emitter.offset)

    def _instruction(self, item: _Numbered) -> bytes:
        if item.number in self.known:
            return self.known[item.number]
        scope = self._scope()
        inst = assemble_halves(self.arch, item.line.halves, scope, self.lanes)
        data = inst.raw.to_bytes(inst.size, "little")
        if not scope.touched:
            self.known[item.number] = data
        return data


def _label_names(lines: Sequence[_Numbered]) -> frozenset[str]:
    return frozenset(label.name for item in lines for label in item.line.labels)


def _wave_size(arch: Arch, lines: Sequence[_Numbered]) -> int:
    """The wave size that the kernel blocks of the file ask for, which decides the width of lane masks."""
    directives = [item.line.directive for item in lines if item.line.directive is not None]
    values = [d.arguments for d in directives if d.name == ".amdhsa_wavefront_size32"]
    whole = [a[0] for a in values if a and isinstance(a[0], Number) and not a[0].value]
    return arch.wave_sizes[-1] if whole else arch.wave_sizes[0]


def assemble(text: str, arch: str | Arch, *, wave_size: int | None = None) -> Assembled:
    """Assemble a file.

    ``wave_size`` is the number of lanes that lane masks have; without it kernel blocks decide, and without those it is
    the narrowest wave of the architecture. Raises AsmError with line and column, UnknownArchError.
    """
    target = get_arch(arch) if isinstance(arch, str) else arch
    lines, metadata = _parse(text)
    lanes = wave_size or _wave_size(target, lines)
    first = _Pass(target, lanes, _label_names(lines), {})
    first.run(lines)
    second = _Pass(target, lanes, (), first.offsets)
    second.known = first.known
    second.run(lines)
    emitter = second.emitter
    if second.places != first.places:
        raise AsmError("labels moved between the passes: sizes depend on the addresses of labels")
    sections = {name: bytes(data) for name, data in emitter.sections.items()}
    return Assembled(target, sections, second.places, emitter.sizes, emitter.kernels, metadata, emitter.version)


__all__ = ["AsmError", "Assembled", "assemble", "assemble_instruction"]
