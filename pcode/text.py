"""The pseudocode strings as tinygrad's generated tables hold them, by (table, opcode name)."""

from __future__ import annotations

import functools
import importlib

from mockgpu.isa.errors import ConfigError

#: Families of instruction sets that have a table of pseudocode.
FAMILIES = ("rdna3", "rdna4", "cdna")


@functools.cache
def pcode_texts(family: str) -> dict[tuple[str, str], str]:
    """All pseudocode of ``family``, keyed by (enum class, member), e.g. ``("VOP2Op", "V_ADD_F32_E32")``.

    Imports tinygrad's tables on first use. Raises ConfigError for a family without a table.
    Source: ``tinygrad.runtime.autogen.amd.<family>.str_pcode``.
    """
    if family not in FAMILIES:
        raise ConfigError("family", family, FAMILIES)
    module = importlib.import_module(f"tinygrad.runtime.autogen.amd.{family}.str_pcode")
    return {(type(op).__name__, op.name): text for op, text in module.PCODE.items()}
