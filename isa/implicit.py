"""Registers that an opcode reads or writes without naming them in a field.

They are found in the opcode's pseudocode text (``tinygrad.runtime.autogen.amd.*.str_pcode``): a register on the
left of an assignment is written, anywhere else it is read. Dual-issue opcodes have no text of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from mockgpu.isa.encoding import Member, member_of, table_module

_TARGET = re.compile(r"^\s*(SCC|VCC|EXEC|M0|D0|PC)\b[^=!<>]*?(?<![=!<>])([-+*/&|^]?)=(?!=)")
_GROUP = re.compile(r"^\s*\{[^}]*\}\s*=(?!=)")  # `{ D1.u1, D0.u64 } = ...` writes the whole of each
_WORD = re.compile(r"\b(SCC|VCC|VCCZ|EXEC|EXECZ|EXEC_LO|M0|D0)\b")
_COMMENT = re.compile(r"//[^\n]*")
_CARRY_OPERANDS = ("VOP3Op", "VOP3SDOp")


@dataclass(frozen=True, slots=True)
class Implicit:
    """What an opcode touches beyond its fields. ``reads_destination``: the old destination value counts."""

    reads_scc: bool = False
    writes_scc: bool = False
    reads_vcc: bool = False
    writes_vcc: bool = False
    reads_exec: bool = False
    writes_exec: bool = False
    reads_m0: bool = False
    writes_m0: bool = False
    reads_destination: bool = False


# These write only a part of the destination, or only sometimes, or add to it though the text does not say so.
_KEEPS_DESTINATION = ("S_CMOV", "S_BITSET", "V_WRITELANE", "V_FMAC_", "V_SMFMAC_", "V_SWMMAC_")
_USES_M0 = ("LDS_DIRECT_LOAD", "LDS_PARAM_LOAD", "DS_DIRECT_LOAD", "DS_PARAM_LOAD", "S_SENDMSG")
_DUAL_VCC = ("V_DUAL_CNDMASK_B32",)
_DUAL_ACCUMULATE = ("V_DUAL_FMAC_F32", "V_DUAL_DOT2ACC_F32_F16", "V_DUAL_DOT2ACC_F32_BF16")


def _scan(text: str) -> tuple[set[str], set[str]]:
    """(names read, names written) of a pseudocode text. A name that the text has written before is not an input."""
    reads: set[str] = set()
    writes: set[str] = set()
    for line in _COMMENT.sub("", text).splitlines():
        for statement in re.split(r";|\bthen\b|\belse\b", line):
            statement = _GROUP.sub("", statement)
            target = _TARGET.match(statement)
            rest = statement
            if target is not None:
                rest = statement[target.end() :]
                if target.group(2):
                    rest += f" {target.group(1)}"
            reads |= set(_WORD.findall(rest)) - writes
            if target is not None:
                writes.add(target.group(1))
    return reads, writes


@cache
def _pcode(family: str) -> dict[Member, str]:
    return {member_of(entry): text for entry, text in table_module(family, "str_pcode").PCODE.items()}


def implicit_of(family: str, member: Member) -> Implicit:
    """The implicit registers of an entry of an opcode table."""
    table, name = member.table, member.name
    vector = name.startswith("V_") or not name.startswith("S_")
    if table == "VOPDOp":
        return Implicit(reads_exec=True, reads_vcc=name in _DUAL_VCC, reads_destination=name in _DUAL_ACCUMULATE)
    reads, writes = _scan(_pcode(family).get(member, ""))
    named_carry = table in _CARRY_OPERANDS and "DIV_FMAS" not in name
    compares_exec = "CMPX" in name
    return Implicit(
        reads_scc="SCC" in reads,
        writes_scc="SCC" in writes,
        reads_vcc=(bool({"VCC", "VCCZ"} & reads) and not named_carry) or name == "V_CNDMASK_B32_E32",
        writes_vcc=("VCC" in writes and not named_carry) or (table == "VOPCOp" and not compares_exec),
        reads_exec=vector or bool({"EXEC", "EXECZ", "EXEC_LO"} & reads),
        writes_exec="EXEC" in writes or compares_exec,
        reads_m0="M0" in reads or name in _USES_M0 or "_LOAD_LDS_" in name,
        writes_m0="M0" in writes,
        reads_destination="D0" in reads or name.startswith(_KEEPS_DESTINATION),
    )
