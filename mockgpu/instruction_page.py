"""One page about an instruction: encodings, operands, pseudocode, errata, what executes it, and an example."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from mockgpu.instruction_example import Example, example
from mockgpu.isa.arch import Arch, arch_names, get_arch
from mockgpu.isa.canonical import canonical, table_opcodes
from mockgpu.isa.decode import Leaf, opcode_claims
from mockgpu.isa.encoding import Encoding, encodings
from mockgpu.isa.errors import ConfigError, NoSemanticsError
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.opcode import Opcode
from mockgpu.machine.provenance import Provenance, explain
from mockgpu.machine.vopd import single_opcode
from mockgpu.pcode.errata import corrected_text, document_text, errata_for
from mockgpu.pcode.erratum import Erratum
from mockgpu.settings import did_you_mean

_ENDINGS = ("_e32", "_e64")
_OPENS = re.compile(r"\b(then|do|else)$")
_CLOSES = re.compile(r"(end(if|for|while)?|else|elsif)\b")
_COMMENT = re.compile(r"\s*//.*")
_INDENT = "    "
_REGISTERS = {"scc": "SCC", "vcc": "VCC", "exec": "EXEC", "m0": "M0"}


class UnknownInstructionError(ConfigError):
    """No target has an instruction of that name, or the chosen one has not."""

    def __init__(self, name: str, arch: Arch):
        names = sorted({o.mnemonic for o in present(arch)})
        super().__init__("instruction", name, names)
        elsewhere = [other for other in arch_names() if any(o.mnemonic == name for o in present(get_arch(other)))]
        if elsewhere:
            self.args = (f"{arch.name} has no instruction {name}, but {', '.join(elsewhere)} have.",)
        else:
            self.args = (f"there is no instruction {name} on {arch.name}{did_you_mean(name, names)}",)


@dataclass(frozen=True, slots=True)
class Layout:
    """A bit layout: ``fields`` are (name, highest bit, lowest bit, fixed value or None)."""

    name: str
    bits: int
    fields: tuple[tuple[str, int, int, int | None], ...]


@dataclass(frozen=True, slots=True)
class OperandRow:
    """One operand; ``access`` is ``read``, ``written`` or both."""

    field: str
    names: str
    bits: int
    format: str
    access: str


@dataclass(frozen=True, slots=True)
class Form:
    """One opcode of the instruction: its layouts, operands and what executes it."""

    table: str
    opcode: int
    layouts: tuple[Layout, ...]
    operands: tuple[OperandRow, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    provenance: Provenance
    text: str
    code: str


@dataclass(frozen=True, slots=True)
class Page:
    """All that is known of one instruction of one target.

    ``document`` is the manual's pseudocode and ``pcode`` the one that counts, both indented; empty where there is none.
    """

    mnemonic: str
    arch: str
    forms: tuple[Form, ...]
    document: str
    pcode: str
    errata: tuple[Erratum, ...]
    example: Example | None

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


@functools.cache
def present(arch: Arch) -> list[Opcode]:
    """The opcodes of a target."""
    return [opcode for opcode in table_opcodes(arch) if arch.has_opcode(opcode.name)]


def find(name: str, arch: Arch) -> list[Opcode]:
    """The opcodes of an assembly name, with or without ``_e32`` or ``_e64``. Raises UnknownInstructionError."""
    wanted = name.lower()
    for ending in _ENDINGS:
        wanted = wanted.removesuffix(ending)
    found = [opcode for opcode in present(arch) if opcode.mnemonic == wanted]
    if not found:
        raise UnknownInstructionError(wanted, arch)
    return found


def page(name: str, arch: Arch) -> Page:
    """The page of an instruction by its assembly name, with or without ``_e32`` or ``_e64``.

    Raises UnknownInstructionError, which suggests a name.
    """
    found = find(name, arch)
    keys = list(map(_key, found))
    texts = [(document_text(arch.family, *key), corrected_text(arch.family, *key, arch.name)) for key in keys]
    document, pcode = next((pair for pair in texts if pair[1]), (None, None))
    errata = {row.id: row for key in keys for row in errata_for(arch.family, *key, arch.name)}
    instructions = [canonical(arch, opcode) for opcode in found]
    return Page(
        found[0].mnemonic,
        arch.name,
        tuple(_form(arch, opcode, i) for opcode, i in zip(found, instructions, strict=True)),
        indented(document or ""),
        indented(pcode or ""),
        tuple(errata.values()),
        example(instructions[0]),
    )


def _key(opcode: Opcode) -> tuple[str, str]:
    """Table and name under which the pseudocode stands; half of a pair has that of the single instruction."""
    if opcode.format == "VOPD":
        with contextlib.suppress(NoSemanticsError):
            opcode = single_opcode(opcode)
    return opcode.table, opcode.name


# -- one form ---------------------------------------------------------------------------------------------------------


def _form(arch: Arch, opcode: Opcode, instruction: Instruction) -> Form:
    raw = instruction.raw.to_bytes(instruction.size, "little")
    return Form(
        opcode.table,
        opcode.value,
        tuple(_layout(e, opcode) for e in layouts(arch, opcode, instruction)),
        tuple(_operands(instruction)),
        tuple(_implicit(opcode, "reads")),
        tuple(_implicit(opcode, "writes")),
        explain(instruction),
        instruction.text,
        raw.hex(" ", 1),
    )


def layouts(arch: Arch, opcode: Opcode, instruction: Instruction) -> list[Encoding]:
    """The layouts that an opcode may have: plain, with a literal, with DPP or SDWA."""
    leaf = _leaves(arch.tables).get(opcode)
    if leaf is None:
        found = [instruction.layout, encodings(arch.tables).get(f"{instruction.layout.name}_LIT")]
        return [e for e in found if e is not None]
    return _layouts_of(leaf)


@functools.cache
def _leaves(tables: str) -> dict[Opcode, Leaf]:
    return {claim.leaf.opcode: claim.leaf for claim in opcode_claims(tables) if claim.leaf.opcode is not None}


def _layouts_of(leaf: Leaf) -> list[Encoding]:
    if leaf.needs_literal and leaf.literal is not None:
        return [leaf.literal]
    literal = [leaf.literal] if leaf.literal is not None and leaf.literal_fields else []
    return [leaf.base, *literal, *dict.fromkeys(leaf.by_marker.values())]


def _layout(encoding: Encoding, opcode: Opcode) -> Layout:
    fields = sorted(encoding.fields, key=lambda f: -f.hi)
    values = [(f.name, f.hi, f.lo, opcode.value if f.name == "op" else f.fixed) for f in fields]
    return Layout(encoding.name, 8 * encoding.size, tuple(values))


def _operands(instruction: Instruction) -> Iterator[OperandRow]:
    for operand in instruction.operands:
        access = " and ".join(w for w, on in (("read", operand.is_src), ("written", operand.is_dst)) if on)
        kinds = operand.optype.removeprefix("OPR_").lower().replace("_", " ")
        yield OperandRow(operand.field, kinds, operand.bits, operand.fmt.removeprefix("FMT_NUM_").lower(), access)


def _implicit(opcode: Opcode, direction: str) -> Iterator[str]:
    for name, shown in _REGISTERS.items():
        if getattr(opcode.implicit, f"{direction}_{name}"):
            yield shown


# -- pseudocode -------------------------------------------------------------------------------------------------------


def indented(text: str) -> str:
    """Pseudocode nested by its keywords."""
    depth, lines = 0, []
    for line in map(str.strip, text.strip().splitlines()):
        if _CLOSES.match(line):
            depth -= 1
        lines.append(f"{_INDENT * max(depth, 0)}{line}")
        if _OPENS.search(_COMMENT.sub("", line)):
            depth += 1
    return "\n".join(lines)
