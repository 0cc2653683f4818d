"""Where the manuals' pseudocode and the hardware differ, as data; the rows are in :mod:`mockgpu.pcode.errata_rows`.

A row names opcodes by patterns and holds the text that counts instead, in the same language. Nothing else in the
project knows of these differences.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal

from mockgpu.pcode.text import pcode_texts

Kind = Literal["correction", "precision", "naming", "equivalent", "note"]


@dataclass(frozen=True, slots=True)
class Erratum:
    """One difference.

    ``kind``: *correction*, the document is wrong; *precision*, it gives a formula where hardware has an instruction
    of its own accuracy; *naming*, it calls an operand by another name; *equivalent*, it says the same thing in a way
    that is slow to execute; *note*, it is silent or right and the row explains.

    ``table`` and ``name`` are patterns that match the whole enum class and member. Named groups of ``name``, in lower
    case, fill the braces of ``text``. ``edits`` are (old, new) parts of the document's text instead.
    """

    id: str
    families: tuple[str, ...]
    name: str
    kind: Kind
    document: str
    hardware: str
    evidence: str
    table: str = ".*"
    text: str | None = None
    edits: tuple[tuple[str, str], ...] = ()

    def match(self, family: str, table: str, name: str) -> re.Match[str] | None:
        """The match of ``name`` if the row is about this opcode."""
        if family not in self.families or re.fullmatch(self.table, table) is None:
            return None
        return re.fullmatch(self.name, name)

    def apply(self, family: str, table: str, name: str, document: str | None) -> str | None:
        """The text after this correction; ``document`` is the text before it. Raises LookupError for a stale edit."""
        match = self.match(family, table, name)
        if match is None or (self.text is None and not self.edits):
            return document
        if self.text is not None:
            return self.text.format_map({k: (v or "").lower() for k, v in match.groupdict().items()})
        return self._edited(f"{family} {table}.{name}", document)

    def _edited(self, where: str, document: str | None) -> str | None:
        if document is None:
            return None
        changed = document
        for old, new in self.edits:
            changed = changed.replace(old, new)
        if changed == document and self.kind != "naming":
            raise LookupError(f"erratum {self.id} finds nothing to change in {where}")
        return changed


def errata_for(family: str, table: str, name: str) -> list[Erratum]:
    """The rows about an opcode, in the order in which they apply."""
    from mockgpu.pcode.errata_rows import ERRATA

    return [row for row in ERRATA if row.match(family, table, name)]


@functools.cache
def corrected_text(family: str, table: str, name: str) -> str | None:
    """The pseudocode that counts for an opcode; None if there is none. Raises ConfigError for an unknown family."""
    text = pcode_texts(family).get((table, name))
    for row in errata_for(family, table, name):
        text = row.apply(family, table, name, text)
    return text


def no_semantics_reason(table: str, name: str) -> str | None:
    """Why an opcode whose text parses has no program; None if it should have one."""
    from mockgpu.pcode.errata_rows import ENGINE_PART

    for table_pattern, name_pattern, reason in ENGINE_PART:
        if re.fullmatch(table_pattern, table) and re.fullmatch(name_pattern, name):
            return reason
    return None
