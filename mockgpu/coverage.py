"""How much of each instruction set is executed, and by what: decoder and engine are asked for every opcode."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from mockgpu.isa.arch import Arch, arch_names, get_arch
from mockgpu.isa.canonical import canonical, table_opcodes
from mockgpu.isa.errors import DecodeError
from mockgpu.isa.opcode import Opcode
from mockgpu.machine.provenance import Provenance, explain

#: The targets whose manuals the generated tables were made from.
_DESCRIBED = {"rdna3": ("gfx1100",), "rdna4": ("gfx1200", "gfx1201"), "cdna": ("gfx950",)}
KINDS = ("pcode", "written", "approximate", "unsupported")


@dataclass(frozen=True, slots=True)
class Entry:
    """One opcode of a target. ``decoded`` is false where no legal instruction of it exists."""

    table: str
    name: str
    format: str
    mnemonic: str
    decoded: bool
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Coverage:
    """The opcodes of one target. ``lacking`` counts those of its tables that only other targets have."""

    arch: str
    tables: str
    lacking: int
    entries: tuple[Entry, ...]

    def counts(self, form: str | None = None) -> dict[str, int]:
        """Numbers of opcodes, decoded ones, and of every kind; of one format or of all."""
        chosen = [e for e in self.entries if form is None or e.format == form]
        kinds: Counter[str] = Counter(e.provenance.kind for e in chosen)
        return {
            "opcodes": len(chosen),
            "decoded": sum(e.decoded for e in chosen),
            **{kind: kinds[kind] for kind in KINDS},
        }

    @property
    def formats(self) -> list[str]:
        """The formats in alphabetical order."""
        return sorted({e.format for e in self.entries})

    @property
    def executed(self) -> float:
        """Share of the opcodes that execute, 0 to 1."""
        counts = self.counts()
        return 1 - counts["unsupported"] / counts["opcodes"]

    def grouped(self, kind: str, key: Callable[[Provenance], str]) -> list[tuple[str, list[str]]]:
        """Mnemonics of the opcodes of a kind by what ``key`` says of them, each once, in alphabetical order."""
        groups: dict[str, dict[str, None]] = {}
        for entry in self.entries:
            if entry.provenance.kind == kind:
                groups.setdefault(key(entry.provenance), {})[entry.mnemonic] = None
        return [(text, sorted(groups[text])) for text in sorted(groups)]

    def data(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "arch": self.arch,
            "tables": self.tables,
            "lacking": self.lacking,
            **self.counts(),
            "executed": round(self.executed, 4),
            "formats": {form: self.counts(form) for form in self.formats},
            "instructions": [asdict(e) for e in self.entries],
        }


@functools.cache
def coverage(name: str) -> Coverage:
    """The coverage of a target such as ``gfx1100``. Raises UnknownArchError."""
    arch = get_arch(name)
    every = table_opcodes(arch)
    present = [opcode for opcode in every if arch.has_opcode(opcode.name)]
    entries = tuple(_entry(arch, opcode) for opcode in present)
    return Coverage(name, arch.tables, len(every) - len(present), entries)


def _entry(arch: Arch, opcode: Opcode) -> Entry:
    key = opcode.table, opcode.name, opcode.format, opcode.mnemonic
    try:
        return Entry(*key, True, explain(canonical(arch, opcode)))
    except DecodeError as error:
        return Entry(*key, False, Provenance("unsupported", reason=f"not decoded: {error.reason}"))


def coverages(names: Iterable[str] = ()) -> list[Coverage]:
    """The coverage of the named targets, or of all."""
    return [coverage(name) for name in names or arch_names()]


def assumption(result: Coverage) -> str:
    """What is taken for granted about a target, mostly because it has no tables of its own."""
    described = _DESCRIBED[result.tables]
    parts = [f"The tables of {result.tables}, which describe {' and '.join(described)}, decode {result.arch}."]
    if result.arch not in described:
        parts.append("That its instructions do the same is assumed.")
    if result.lacking:
        parts.append(f"{result.lacking} opcodes in them belong to other targets and are illegal here.")
    if assumed := get_arch(result.arch).assumed:
        parts.append(f"Assumed: {'; '.join(assumed)}.")
    return " ".join(parts)
