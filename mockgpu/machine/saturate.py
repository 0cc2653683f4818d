"""Integer clamp: the same computation without wrap-around, limited to the range of its type.

Source: "Clamp" of the RDNA3 manual: an integer result that overflows becomes the largest or smallest value. The
program is rewritten: additions, subtractions and products of integers up to 32 bits are computed in 64 bits, and
the value that is assigned is limited. A sum kept in a local (dot products) is limited once, at the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mockgpu.isa.instruction import Instruction
from mockgpu.machine import modifiers
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.semantics import assignments, place
from mockgpu.pcode import ir

_ARITHMETIC = frozenset({"add", "sub", "mul"})


def saturating(instruction: Instruction, program: ir.Program) -> ir.Program:
    """The program of an instruction with the clamp bit. Float results are clamped where they are written."""
    vdst = next((o for o in instruction.operands if o.field == "vdst"), None)
    if vdst is None or vdst.is_mask or modifiers.float_format(vdst.fmt) is not None:
        return program
    sums = _sums(program)
    body = tuple(_statement(s, sums) for s in program.body)
    if body == program.body:
        raise IllegalInstruction(f"{instruction.mnemonic}: the clamp bit has no meaning here")
    return replace(program, body=body)


def _is_integer(type: ir.Type) -> bool:
    return type.kind in ("u", "i") and 16 <= type.bits <= 32


def _sums(program: ir.Program) -> frozenset[str]:
    """Integer locals that are assigned several times as a whole: running sums."""
    count: dict[str, int] = {}
    for a in assignments(program):
        if isinstance(a.target, ir.Local) and _is_integer(a.target.type):
            count[a.target.name] = count.get(a.target.name, 0) + 1
    return frozenset(name for name, n in count.items() if n > 1)


def _statement(s: Any, sums: frozenset[str]) -> Any:
    if isinstance(s, ir.Declare) and s.name in sums:
        return replace(s, type=ir.I64)
    if isinstance(s, ir.If):
        arms = tuple((c, tuple(_statement(x, sums) for x in body)) for c, body in s.arms)
        return replace(s, arms=arms, orelse=tuple(_statement(x, sums) for x in s.orelse))
    if isinstance(s, ir.For):
        return replace(s, body=tuple(_statement(x, sums) for x in s.body))
    if not isinstance(s, ir.Assign):
        return s
    if isinstance(s.target, ir.Local) and s.target.name in sums:
        return replace(s, target=replace(s.target, type=ir.I64), value=_widened(s.value, sums))
    return _limited(s, sums)


def _limited(s: ir.Assign, sums: frozenset[str]) -> ir.Assign:
    """Limit what is assigned to a result: the destination, or a part of a local that becomes the destination."""
    whole_local = isinstance(s.target, ir.Local)
    if whole_local or isinstance(place(s.target), ir.Element) or not _is_integer(s.target.type):
        return s
    if not _computes(s.value, sums):
        return s
    wide = _widened(s.value, sums)
    return replace(s, value=_limit(wide, s.target.type))


def _computes(e: Any, sums: frozenset[str]) -> bool:
    if isinstance(e, ir.Binary):
        return e.op in _ARITHMETIC and _is_integer(e.type)
    if isinstance(e, ir.Cast | ir.Bitcast):
        return _computes(e.x, sums)
    return isinstance(e, ir.Local) and e.name in sums


def _widened(e: Any, sums: frozenset[str]) -> Any:
    """The value of ``e`` as i64, computed without wrap-around as far as it is integer arithmetic."""
    if isinstance(e, ir.Local) and e.name in sums:
        return replace(e, type=ir.I64)
    if isinstance(e, ir.Binary) and e.op in _ARITHMETIC and _is_integer(e.type):
        return ir.Binary(ir.I64, e.op, _widened(e.a, sums), _widened(e.b, sums))
    if isinstance(e, ir.Cast | ir.Bitcast) and _is_integer(e.type) and _computes(e.x, sums):
        return _widened(e.x, sums)
    return ir.Cast(ir.I64, e)


def _limit(e: Any, type: ir.Type) -> Any:
    low, high = (0, (1 << type.bits) - 1)
    if type.kind == "i":
        low, high = -(1 << (type.bits - 1)), (1 << (type.bits - 1)) - 1
    bottom = ir.Const(ir.I64, low & (1 << 64) - 1)
    top = ir.Const(ir.I64, high)
    floor = ir.Select(ir.I64, ir.Binary(ir.U1, "lt", e, bottom), bottom, e)
    return ir.Cast(type, ir.Select(ir.I64, ir.Binary(ir.U1, "gt", floor, top), top, floor))
