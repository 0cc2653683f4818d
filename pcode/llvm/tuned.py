"""Faster forms of opcodes whose text, taken as it is written, makes slow code.

A form is used for the programs that the errata and the manuals give an opcode, and for no variant of them. Each gives
the same bits as the program; the rare cases that a form leaves out are left to the program, behind a branch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from mockgpu.pcode import ir
from mockgpu.pcode.llvm import integers
from mockgpu.pcode.llvm.context import LlvmContext
from mockgpu.pcode.llvm.float_bits import is_nan
from mockgpu.pcode.llvm.float_env import Env, rarely
from mockgpu.pcode.llvm.tuned_lanes import lane_moves
from mockgpu.pcode.llvm.tuned_scalar import scalar_forms
from mockgpu.pcode.llvm.values import Builder, Value, same, select, unify, width_of
from mockgpu.pcode.lower import NoSemanticsError, lower
from mockgpu.pcode.numeric_format import format_of


class Machine(Env, Protocol):
    """What a form emits with: the statements of a program (:class:`~mockgpu.pcode.llvm.program.Statements`)."""

    ctx: LlvmContext

    def value(self, e: ir.Expr, raw: bool = False) -> Value: ...

    def write(self, name: str, value: Value, bits: int) -> None: ...

    def aside(self, name: str) -> Value: ...

    def flushed_output(self, type: ir.Type, value: Value) -> Value: ...


#: Emits the whole program; False, having emitted nothing, where the form does not apply.
Form: TypeAlias = Callable[[Machine], bool]


def find(opcode: tuple[str, str, str], program: ir.Program) -> Form | None:
    """The form of an opcode (family, table, name), if ``program`` is its program unchanged."""
    family, table, name = opcode
    form = FORMS.get(name.removesuffix("_E32").removesuffix("_E64"))
    if form is None:
        return None
    try:
        plain = lower(family, table, name)
    except NoSemanticsError:
        return None
    return form if plain is program or plain.body == program.body else None


# -- medians ----------------------------------------------------------------------------------------------------------


def _ordered(b: Builder, x: Value) -> Value:
    """Float patterns as integers in the order of the numbers, minus zero below zero; its own inverse."""
    width = width_of(x)
    sign = b.ashr(x, same(x, width - 1))
    return b.xor(x, b.lshr(sign, same(x, 1)))


def _median(type: ir.Type) -> Form:
    """The text's choice among the maxima of pairs. Its comparisons take minus zero and zero for equal."""
    fmt = format_of(type)

    def form(s: Machine) -> bool:
        b = s.b
        given = unify(b, *(s.value(ir.Operand(type, name)) for name in ("S0", "S1", "S2")))
        nans = [is_nan(s, fmt, x) for x in given]
        x, y, z = (_ordered(b, v) for v in given)
        xy, xz, yz = (integers.call(b, "smax", p, q) for p, q in ((x, y), (x, z), (y, z)))
        top = _equal_zeros(b, integers.call(b, "smax", xy, z))
        is_x = b.icmp_unsigned("==", top, _equal_zeros(b, x))
        is_y = b.icmp_unsigned("==", top, _equal_zeros(b, y))
        chosen = _ordered(b, b.select(is_x, yz, b.select(is_y, xz, xy)))
        some = b.or_(b.or_(nans[0], nans[1]), nans[2])
        s.write("D0", rarely(s, some, s.flushed_output(type, chosen), lambda: s.aside("D0")), type.bits)
        return True

    return form


def _equal_zeros(b: Builder, x: Value) -> Value:
    return b.select(b.icmp_unsigned("==", x, same(x, -1)), same(x, 0), x)


# -- bytes ------------------------------------------------------------------------------------------------------------


def _permute_bytes(s: Machine) -> bool:
    """V_PERM_B32 where all selectors name bytes."""
    b = s.b
    high, low, chosen = (s.value(ir.Operand(ir.U32, name)) for name in ("S0", "S1", "S2"))
    out: Value | None = None
    for k in range(4):
        upper = b.icmp_unsigned("!=", b.and_(chosen, same(chosen, 4 << 8 * k)), same(chosen, 0))
        word = select(b, upper, high, low)
        place = b.shl(b.lshr(chosen, same(chosen, 8 * k)), same(chosen, 3))
        word, place = unify(b, word, b.and_(place, same(place, 24)))
        byte = b.and_(b.lshr(word, place), same(word, 0xFF))
        byte = b.shl(byte, same(byte, 8 * k)) if k else byte
        out = byte if out is None else b.or_(*unify(b, out, byte))
    other = b.icmp_unsigned("!=", b.and_(chosen, same(chosen, 0xF8F8F8F8)), same(chosen, 0))
    s.write("D0", rarely(s, other, out, lambda: _aside_like(s, out)), 32)
    return True


def _aside_like(s: Machine, out: Value | None) -> Value:
    """The program's result, with the lanes that ``out`` has."""
    return unify(s.b, s.aside("D0"), same(out, 0))[0]


FORMS: dict[str, Form] = {
    **{name: _median(ir.F32) for name in ("V_MED3_F32", "V_MED3_NUM_F32")},
    **{name: _median(ir.F16) for name in ("V_MED3_F16", "V_MED3_NUM_F16")},
    "V_PERM_B32": _permute_bytes,
    **scalar_forms(),
    **lane_moves(),
}
