"""Moves between lanes whose text is a loop over the lanes, done on all lanes at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir as llvm

from mockgpu.pcode import ir
from mockgpu.pcode.llvm.values import Builder, Value, broadcast, lanes_of, same, select


def lane_moves() -> dict[str, Callable[[Any], bool]]:
    """The forms by name of the opcode."""
    return {"V_PERMLANE16_B32": _permuted(0), "V_PERMLANEX16_B32": _permuted(1), "V_PERMLANE64_B32": _halves_swapped}


def _vector(numbers: list[int]) -> llvm.Constant:
    return llvm.Constant(llvm.VectorType(llvm.IntType(32), len(numbers)), numbers)


def _move(s: Any, source: Value) -> bool:
    """Each active lane gets the register of the lane ``source``."""
    lanes = _vector(list(range(s.ctx.lanes)))
    got = s.ctx.read_vgpr(source, s.value(ir.Operand(ir.U32, "SRC0")))
    s.ctx.write_vgpr(lanes, s.value(ir.Operand(ir.U32, "VDST")), got, None)
    return True


def _permuted(other: int) -> Callable[[Any], bool]:
    """Within rows of 16 lanes, by 16 selectors of 4 bits in S1 and S2; ``other``: from the row beside."""

    def form(s: Any) -> bool:
        b: Builder = s.b
        low, high = s.value(ir.Operand(ir.U32, "S1")), s.value(ir.Operand(ir.U32, "S2"))
        if lanes_of(low) > 1 or lanes_of(high) > 1:
            return False
        lanes = range(s.ctx.lanes)
        upper = llvm.Constant(llvm.VectorType(llvm.IntType(1), len(lanes)), [k >> 3 & 1 for k in lanes])
        word = select(b, upper, broadcast(b, high, len(lanes)), broadcast(b, low, len(lanes)))
        chosen = b.lshr(word, _vector([4 * (k & 7) for k in lanes]))
        chosen = b.and_(chosen, same(chosen, 15))
        return _move(s, b.or_(chosen, _vector([(k >> 4 ^ other) << 4 for k in lanes])))

    return form


def _halves_swapped(s: Any) -> bool:
    if s.ctx.wave_size != 64:
        return False
    return _move(s, _vector([k ^ 32 for k in range(64)]))
