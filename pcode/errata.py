"""Where the manuals' pseudocode and the hardware differ, as data.

The rows are in the ``errata_*`` modules, one subject each; nothing else in the project knows of these differences.
"""

from __future__ import annotations

import functools
import re

from mockgpu.pcode.errata_control import CONTROL
from mockgpu.pcode.errata_float import DIVISION, PRECISION
from mockgpu.pcode.errata_forms import EQUIVALENT, LANES, NAMING
from mockgpu.pcode.errata_halves import HALVES
from mockgpu.pcode.errata_missing import MISSING
from mockgpu.pcode.errata_ops import ARITHMETIC, COMPARE_CONVERT
from mockgpu.pcode.errata_targets import TARGETS
from mockgpu.pcode.erratum import Erratum
from mockgpu.pcode.text import pcode_texts

#: All rows, in the order in which they apply.
ERRATA: tuple[Erratum, ...] = (
    *DIVISION,
    *PRECISION,
    *COMPARE_CONVERT,
    *ARITHMETIC,
    *NAMING,
    *LANES,
    *EQUIVALENT,
    *MISSING,
    *HALVES,
    *CONTROL,
    *TARGETS,
)

_SHORT_FORMS = ("VOP1Op", "VOP2Op", "VOPCOp")

#: (table, name, reason): opcodes whose text parses but describes what the engine does by itself.
ENGINE_PART: tuple[tuple[str, str, str], ...] = (
    (".*", r"T?BUFFER_.*_FORMAT_.*", "conversion of typed buffer formats, which depends on the descriptor"),
    (".*", r"IMAGE_GET_LOD", "level of detail of an image, which depends on the sampler"),
    ("SOPPOp", r"S_TRAP", "entry into the trap handler"),
    ("SOP1Op|SOPPOp", r"S_(GET_)?BARRIER_.*", "state of the work-group's barriers"),
    ("SOP1Op", r"S_ALLOC_VGPR", "reallocation of vector registers"),
    ("SOPPOp", r"S_SETPRIO", "priority of the wave"),
    ("DSOp", r"DS_BVH_STACK_.*", "ray traversal stack"),
)


def errata_for(family: str, table: str, name: str, target: str = "") -> list[Erratum]:
    """The rows about an opcode, in the order in which they apply; those of single targets for ``target`` alone."""
    return [row for row in ERRATA if row.match(family, table, name, target)]


@functools.cache
def is_special(family: str, table: str, name: str, target: str) -> bool:
    """Whether some row is about the opcode of this target and not about the family's others."""
    return any(row.targets for row in errata_for(family, table, name, target))


def document_text(family: str, table: str, name: str) -> str | None:
    """The manual's pseudocode of an opcode; None if there is none.

    The long form of a short instruction does what that does (manuals, "VOP3"), so where the CDNA tables leave its text
    out, it has the text of the short form.
    """
    texts = pcode_texts(family)
    if (table, name) in texts or table != "VOP3Op":
        return texts.get((table, name))
    short = f"{name.removesuffix('_E64')}_E32"
    return next((texts[form, short] for form in _SHORT_FORMS if (form, short) in texts), None)


@functools.cache
def corrected_text(family: str, table: str, name: str, target: str = "") -> str | None:
    """The pseudocode that counts for an opcode; None if there is none. Raises ConfigError for an unknown family."""
    text = document_text(family, table, name)
    for row in errata_for(family, table, name, target):
        text = row.apply(family, table, name, text, target)
    return text


def no_semantics_reason(table: str, name: str) -> str | None:
    """Why an opcode whose text parses has no program; None if it should have one."""
    for table_pattern, name_pattern, reason in ENGINE_PART:
        if re.fullmatch(table_pattern, table) and re.fullmatch(name_pattern, name):
            return reason
    return None
