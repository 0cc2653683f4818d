"""Where the manuals' pseudocode and the hardware differ, as data."""

from __future__ import annotations

from mockgpu.pcode.text import pcode_texts


def corrected_text(family: str, table: str, name: str) -> str | None:
    """The pseudocode that counts for an opcode; None if there is none."""
    return pcode_texts(family).get((table, name))


def no_semantics_reason(table: str, name: str) -> str | None:
    """Why an opcode whose text parses has no program; None if it should have one."""
    return None
