"""One row of the errata table (:mod:`mockgpu.pcode.errata`).

A row names opcodes by patterns and holds the text that counts instead, in the same language. Nothing else in the
project knows of these differences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

#: Families that a row is about.
ALL = ("rdna3", "rdna4", "cdna")
RDNA = ("rdna3", "rdna4")
#: Pattern of the ending that tells the short from the long encoding of a vector opcode.
ENCODING = r"(_E32|_E64)?"

Kind = Literal["correction", "precision", "naming", "equivalent", "missing", "note"]


@dataclass(frozen=True, slots=True)
class Erratum:
    """One difference.

    ``kind``: *correction*, the document is wrong; *precision*, it gives a formula where hardware has an instruction
    of its own accuracy; *naming*, it calls an operand by another name; *equivalent*, it says the same thing in a way
    that is slow to execute; *missing*, it gives no pseudocode; *note*, it is silent or right and the row explains.

    ``table`` and ``name`` are patterns that match the whole enum class and member. Named groups of ``name``, in lower
    case, fill the braces of ``text``. ``edits`` are (old, new) parts of the document's text instead. ``targets`` are
    the only targets of the families that differ; empty means all of them.
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
    targets: tuple[str, ...] = ()

    def match(self, family: str, table: str, name: str, target: str = "") -> re.Match[str] | None:
        """The match of ``name`` if the row is about this opcode of ``target``, a name such as ``gfx90a``."""
        if family not in self.families or re.fullmatch(self.table, table) is None:
            return None
        if self.targets and target not in self.targets:
            return None
        return re.fullmatch(self.name, name)

    def apply(self, family: str, table: str, name: str, document: str | None, target: str = "") -> str | None:
        """The text after this correction; ``document`` is the text before it. Raises LookupError for a stale edit."""
        match = self.match(family, table, name, target)
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
