"""Integer clamp: the same computation without wrap-around, limited to the range of the result's type.

Source: "Clamp" of the RDNA3 manual: an integer result that overflows becomes the largest or smallest value. The
program is rewritten: sums, differences and products of integers up to 32 bits are computed in 64 bits, locals that
hold them keep 64 bits, and what is assigned to the destination is limited.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mockgpu.isa.instruction import Instruction
from mockgpu.machine import modifiers
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.semantics import assignments, place, rewrite
from mockgpu.pcode import ir

_ARITHMETIC = frozenset({"add", "sub", "mul"})


def saturating(instruction: Instruction, program: ir.Program) -> ir.Program:
    """The program of an instruction with the clamp bit. Float results are clamped where they are written.

    Raises IllegalInstruction where the bit means nothing.
    """
    vdst = next((o for o in instruction.operands if o.field == "vdst"), None)
    if vdst is None or vdst.is_mask or modifiers.float_format(vdst.fmt) is not None:
        return program
    changed = replace(program, body=_Saturation(program).statements(program.body))
    if changed == program:
        raise IllegalInstruction(f"{instruction.mnemonic}: the clamp bit has no meaning here")
    return changed


def _is_integer(type: ir.Type) -> bool:
    return type.kind in ("u", "i") and 16 <= type.bits <= 64


class _Saturation:
    """Rewrites one program. ``exact`` are the integer locals that keep 64 bits, with the type the text gives them."""

    def __init__(self, program: ir.Program):
        whole = [a for a in assignments(program) if isinstance(a.target, ir.Local) and _is_integer(a.target.type)]
        sliced = {place(a.target).name for a in assignments(program) if isinstance(a.target, ir.Bits) if _local(a)}
        self.exact: dict[str, ir.Type] = {}
        for a in whole:  # in order: a sum may build on an earlier one
            name = a.target.name  # type: ignore[union-attr]
            if name not in sliced and self._computes(a.value):
                self.exact[name] = a.target.type

    def statements(self, body: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(rewrite(s, self._change) for s in body)

    def _change(self, node: Any) -> Any:
        if isinstance(node, ir.Declare) and node.name in self.exact:
            return replace(node, type=ir.I64)
        if isinstance(node, ir.Assign):
            return self._assignment(node)
        if isinstance(node, ir.Local) and node.name in self.exact:
            return ir.Bitcast(node.type, ir.Local(ir.I64, node.name))
        return node

    def _assignment(self, s: ir.Assign) -> Any:
        target = s.target
        if isinstance(target, ir.Local) and target.name in self.exact:
            return replace(s, target=ir.Local(ir.I64, target.name), value=self._widened(s.value))
        result = _is_integer(target.type) and target.type.bits <= 32 and not isinstance(target, ir.Local)
        if not result or isinstance(place(target), ir.Element) or not self._computes(s.value):
            return replace(s, target=rewrite(target, self._change), value=rewrite(s.value, self._change))
        return replace(s, value=_limit(self._widened(s.value), target.type))

    def _computes(self, e: Any) -> bool:
        """Whether a value comes out of integer arithmetic that may wrap."""
        if isinstance(e, ir.Binary):
            return e.op in _ARITHMETIC and _is_integer(e.type) and self._fits(e.a) and self._fits(e.b)
        if isinstance(e, ir.Cast | ir.Bitcast):
            return not e.x.type.is_float and self._computes(e.x)
        return isinstance(e, ir.Local) and e.name in self.exact

    def _fits(self, e: Any) -> bool:
        """Whether an operand of arithmetic is known exactly in 64 bits."""
        return self._computes(e) or e.type.bits <= 32 or (isinstance(e, ir.Cast | ir.Bitcast | ir.Const) and _small(e))

    def _widened(self, e: Any) -> Any:
        """The value of ``e`` as i64, without wrap-around as far as it is integer arithmetic."""
        if isinstance(e, ir.Local) and e.name in self.exact:
            return ir.Local(ir.I64, e.name)
        if self._computes(e):
            if isinstance(e, ir.Binary):
                return ir.Binary(ir.I64, e.op, self._widened(e.a), self._widened(e.b))
            return self._widened(e.x)
        return ir.Cast(ir.I64, rewrite(e, self._change))


def _local(a: ir.Assign) -> bool:
    return isinstance(place(a.target), ir.Local)


def _small(e: Any) -> bool:
    """A widening cast of at most 32 bits, or a constant."""
    return isinstance(e, ir.Const) or e.x.type.bits <= 32


def _limit(e: Any, type: ir.Type) -> Any:
    """An i64 limited to the range of ``type``."""
    low, high = 0, (1 << type.bits) - 1
    if type.kind == "i":
        low, high = -(1 << (type.bits - 1)), (1 << (type.bits - 1)) - 1
    bottom, top = ir.Const(ir.I64, low & (1 << 64) - 1), ir.Const(ir.I64, high)
    floor = ir.Select(ir.I64, ir.Binary(ir.U1, "lt", e, bottom), bottom, e)
    return ir.Bitcast(type, ir.Select(ir.I64, ir.Binary(ir.U1, "gt", floor, top), top, floor))
