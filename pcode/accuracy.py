"""How accurate the manuals call the functions that hardware computes by tables and iteration.

The oracle's results lie within these bounds (:mod:`mockgpu.pcode.numeric_math`), but the last bits of hardware's may
differ from them. Every other function of the pseudocode is exact.
Source: notes of V_RCP, V_RSQ, V_SQRT, V_LOG and V_EXP in the CDNA3, RDNA3 and RDNA4 manuals, chapter "Instructions".
"""

from __future__ import annotations

from collections.abc import Iterator

from mockgpu.pcode import ir, walk

_ROOTS = ("rcp", "rsq", "sqrt")
_POWERS = ("log2", "exp2")
_ANGLES = ("sin", "cos", "sin2pi", "cos2pi")
_BY_BITS = {16: "0.51 ulp", 32: "1 ulp", 64: "2**29 ulp"}
_UNDOCUMENTED = "no bound is documented"

#: The documented bound of a function by its name and the width of its argument.
BOUNDS: dict[tuple[str, int], str] = {
    **{(name, bits): bound for name in _ROOTS for bits, bound in _BY_BITS.items()},
    **{(name, bits): _BY_BITS[bits] for name in _POWERS for bits in (16, 32)},
    **{(name, bits): _UNDOCUMENTED for name in _ANGLES for bits in (16, 32)},
}


def _calls(program: ir.Program) -> Iterator[ir.Call]:
    for statement in walk.statements(program.body):
        for expression in walk.read_expressions(statement):
            yield from (x for x in walk.subexpressions(expression) if isinstance(x, ir.Call))


def bounds_of(program: ir.Program) -> list[str]:
    """The bounds of the inexact functions that a program calls, such as ``rcp: 1 ulp``; empty where all is exact."""
    found: dict[str, None] = {}
    for call in _calls(program):
        bound = BOUNDS.get((call.fn, call.args[0].type.bits)) if call.args else None
        if bound is not None:
            found[f"{call.fn}: {bound}"] = None
    return list(found)
