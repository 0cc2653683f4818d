"""Rewritten expressions keep their meaning."""

from __future__ import annotations

import pytest

from mockgpu.pcode import ir
from mockgpu.pcode.oracle_simplify import simplify

ONE, ZERO, TOP = ir.Const(ir.U1, 1), ir.Const(ir.U1, 0), ir.Const(ir.U32, 31)
A, B = ir.Operand(ir.U32, "S0"), ir.Operand(ir.U32, "S1")
LESS = ir.Binary(ir.U1, "lt", A, B)


def sign(x: ir.Expr) -> ir.Expr:
    return ir.Bits(ir.U1, x, TOP)


def test_a_choice_between_one_and_zero_is_its_condition() -> None:
    assert simplify(ir.Select(ir.U1, LESS, ONE, ZERO)) == LESS
    assert simplify(ir.Select(ir.U1, LESS, ZERO, ONE)) == ir.Unary(ir.U1, "lnot", LESS)


def test_a_choice_inside_a_condition() -> None:
    inner = ir.Select(ir.U1, LESS, ONE, ZERO)
    assert simplify(ir.Select(ir.U1, inner, ONE, ZERO)) == LESS


def test_other_choices_stay() -> None:
    for e in (ir.Select(ir.U1, LESS, ONE, ONE), ir.Select(ir.U32, LESS, A, B), ir.Select(ir.U1, A, ONE, ZERO)):
        assert simplify(e) == e


def test_signs_are_compared_by_exclusive_or() -> None:
    differ = sign(ir.Binary(ir.U32, "xor", A, B))
    assert simplify(ir.Binary(ir.U1, "ne", sign(A), sign(B))) == differ
    assert simplify(ir.Binary(ir.U1, "eq", sign(A), sign(B))) == ir.Unary(ir.U1, "lnot", differ)


@pytest.mark.parametrize("lo", [0, 30])
def test_other_bits_are_compared_as_they_are(lo: int) -> None:
    low = ir.Bits(ir.U1, A, ir.Const(ir.U32, lo))
    e = ir.Binary(ir.U1, "ne", low, sign(B))
    assert simplify(e) == e
