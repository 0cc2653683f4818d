"""Immediates of scalar instructions: wait counts, messages, hardware registers, delays; inverse of disasm_scalar."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from mockgpu.isa.arch import Arch
from mockgpu.isa.asm_error import AsmError, did_you_mean
from mockgpu.isa.asm_operands import Scope, evaluate, integer
from mockgpu.isa.asm_syntax import Call, Joined, Node, Symbol
from mockgpu.isa.disasm_scalar import (
    DELAY_IDS,
    DELAY_SKIPS,
    DEPCTR,
    DEPCTR_UNUSED,
    LLVM_HWREGS,
    MESSAGES,
    RETURN_MESSAGES,
    WAITCNT,
    wait_counts,
)
from mockgpu.isa.encoding import table_module

_SATURATING = "_sat"
_LOWEST, _HIGHEST = -0x8000, 0xFFFF


def immediate(arch: Arch, optype: str, nodes: Sequence[Node], scope: Scope) -> int:
    """The 16-bit value of an immediate from its text, which may be several parts. Raises AsmError."""
    parts = [part for node in nodes for part in (node.parts if isinstance(node, Joined) else (node,))]
    first = parts[0]
    if optype == "OPR_LABEL":
        return _branch(_single(parts), scope)
    if not isinstance(first, Call):
        return integer(_single(parts), scope, _LOWEST, _HIGHEST, "an immediate") & _HIGHEST
    if optype == "OPR_WAITCNT":
        return _wait_counts(arch.family, parts, scope)
    if optype in ("OPR_WAITCNT_DEPCTR", "OPR_WAIT_ALU"):
        return _depctr(parts, scope)
    if optype == "OPR_DELAY":
        return _delay(parts)
    if optype in ("OPR_SENDMSG", "OPR_SENDMSG_RTN") and first.name == "sendmsg":
        return _message(arch.family, first, scope)
    if optype == "OPR_HWREG" and first.name == "hwreg":
        return _hardware_register(arch.family, first, scope)
    raise AsmError(f"{first.name}() is not an immediate of this instruction", column=first.column)


def _single(parts: Sequence[Node]) -> Node:
    if len(parts) > 1:
        raise AsmError("one immediate expected", column=parts[1].column)
    return parts[0]


def _branch(node: Node, scope: Scope) -> int:
    """A label gives the distance from the next instruction in dwords; a plain number is the raw field."""
    target = evaluate(node, scope)
    if not target.symbolic:
        return integer(node, scope, _LOWEST, _HIGHEST, "a branch offset") & _HIGHEST
    distance = int(target.value) - scope.pc - 4
    if scope.pending:
        return 0
    if distance % 4:
        raise AsmError("the branch target is not at a multiple of 4 bytes", column=node.column)
    if not -0x8000 <= distance // 4 < 0x8000:
        raise AsmError(f"the branch target is {distance // 4} dwords away; 16 bits reach 32767", column=node.column)
    return distance // 4 & _HIGHEST


def _calls(parts: Sequence[Node]) -> list[Call]:
    for part in parts:
        if not isinstance(part, Call) or len(part.arguments) != 1:
            raise AsmError("expected name(value)", column=part.column)
    return [part for part in parts if isinstance(part, Call)]


def _wait_counts(family: str, parts: Sequence[Node], scope: Scope) -> int:
    limits = wait_counts(family, _HIGHEST)
    counts = dict(limits)
    for call in _calls(parts):
        name = call.name.removesuffix(_SATURATING)
        if name not in limits:
            raise AsmError(f"unknown counter {name!r}; good names are {', '.join(limits)}", column=call.column)
        high = _HIGHEST if call.name.endswith(_SATURATING) else limits[name]
        counts[name] = min(limits[name], integer(call.arguments[0], scope, 0, high, name))
    value = 0
    for name, pieces in WAITCNT[family]:
        shift = 0
        for low, width in pieces:
            value |= (counts[name] >> shift & (1 << width) - 1) << low
            shift += width
    return value


def _depctr(parts: Sequence[Node], scope: Scope) -> int:
    fields = {f"depctr_{name}": (shift, (1 << width) - 1) for name, shift, width in DEPCTR}
    value = _HIGHEST & ~DEPCTR_UNUSED
    for call in _calls(parts):
        if call.name not in fields:
            raise AsmError(f"unknown counter {call.name!r}; good names are {', '.join(fields)}", column=call.column)
        shift, limit = fields[call.name]
        value &= ~(limit << shift)
        value |= integer(call.arguments[0], scope, 0, limit, call.name) << shift
    return value


_DELAY_FIELDS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "instid0": (0, ("NO_DEP", *DELAY_IDS)),
    "instskip": (4, ("SAME", *DELAY_SKIPS)),
    "instid1": (7, ("NO_DEP", *DELAY_IDS)),
}


def _delay(parts: Sequence[Node]) -> int:
    value = 0
    for call in _calls(parts):
        if call.name not in _DELAY_FIELDS:
            raise AsmError(
                f"unknown field {call.name!r}; good names are {', '.join(_DELAY_FIELDS)}", column=call.column
            )
        shift, names = _DELAY_FIELDS[call.name]
        value |= names.index(_name(call.arguments[0], names)) << shift
    return value


def _name(node: Node, names: Sequence[str]) -> str:
    if not isinstance(node, Symbol) or node.name not in names:
        shown = node.name if isinstance(node, Symbol) else "a number"
        raise AsmError(f"unexpected {shown}; good names are {', '.join(names)}", column=node.column)
    return node.name


def _number_or_name(node: Node, names: Mapping[str, int], limit: int, what: str, scope: Scope) -> int:
    if isinstance(node, Symbol) and scope.lookup(node.name) is None:
        if node.name not in names:
            raise AsmError(f"unknown {what} {node.name!r}{did_you_mean(node.name, names)}", column=node.column)
        return names[node.name]
    return integer(node, scope, 0, limit, what)


def _message(family: str, call: Call, scope: Scope) -> int:
    names = {name: number for number, name in MESSAGES[family].items()}
    if family != "cdna":
        names |= {name: 128 + n for n, name in enumerate(RETURN_MESSAGES)}
    if not 1 <= len(call.arguments) <= 3:
        raise AsmError("sendmsg takes a message, an operation and a stream", column=call.column)
    limit = 0xF if family == "cdna" else 0xFF
    value = _number_or_name(call.arguments[0], names, limit, "message", scope)
    for node, shift, high, what in zip(call.arguments[1:], (4, 8), (7, 3), ("operation", "stream"), strict=False):
        value |= integer(node, scope, 0, high, what) << shift
    return value


@functools.cache
def _hardware_registers(family: str) -> Mapping[str, int]:
    table = table_module(family, "enum").HWREG
    names = {member.name: int(member.value) for member in table}
    return names | {llvm: names[own] for own, llvm in LLVM_HWREGS.items() if own in names}


def _hardware_register(family: str, call: Call, scope: Scope) -> int:
    if len(call.arguments) not in (1, 3):
        raise AsmError("hwreg takes a register, or a register, an offset and a size", column=call.column)
    number = _number_or_name(call.arguments[0], _hardware_registers(family), 63, "hardware register", scope)
    offset, size = 0, 32
    if len(call.arguments) == 3:
        offset = integer(call.arguments[1], scope, 0, 31, "the bit offset")
        size = integer(call.arguments[2], scope, 1, 32, "the size")
    return number | offset << 6 | size - 1 << 11
