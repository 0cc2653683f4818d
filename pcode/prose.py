"""Why a text of the manuals is not pseudocode: the kinds of prose that stand where pseudocode is expected."""

from __future__ import annotations

import re

#: (reason, pattern searched in the text); the first that matches applies.
KINDS_OF_PROSE: tuple[tuple[str, str], ...] = (
    ("matrix product stated as a formula", r"^D = A \("),
    ("wait counters stated as prose", r"cnt <= |vmcount"),
    ("assembler example", r"^(s_sleep|v_mov_b32|\.\.\.)"),
    ("wave priority stated as prose", r"SysUserPrio"),
    ("lane swizzle in another notation", r"^(offset = offset1:offset0|Offset\[4:0\])"),
    ("append and consume counters in another notation", r"LDS\(addr\)"),
    ("global data share registers in another notation", r"GS_REGS"),
    ("ray traversal stack in another notation", r"DECODE_ADDR"),
    ("description of the encoding's fields", r"^OFFSET0  ="),
)


def kind_of_prose(text: str) -> str:
    """The reason why ``text`` does not parse, as far as it is known."""
    for reason, pattern in KINDS_OF_PROSE:
        if re.search(pattern, text, re.MULTILINE):
            return reason
    return "not pseudocode"
