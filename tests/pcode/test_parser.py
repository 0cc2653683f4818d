"""The grammar: how much of the manuals it takes, and the shapes that are easy to get wrong."""

from __future__ import annotations

import pytest

from mockgpu.isa.errors import ConfigError
from mockgpu.pcode import ast
from mockgpu.pcode.parser import PcodeSyntaxError, parse
from mockgpu.pcode.text import pcode_texts


def value(text: str) -> ast.Expr:
    """The right side of ``x = text``."""
    (statement,) = parse(f"x = {text}")
    assert isinstance(statement, ast.Assign)
    return statement.value


def test_comments_and_newlines_mean_nothing() -> None:
    assert parse("a = 1; // one\n\nb\n=\n2 // cut off inside a comm") == parse("a = 1; b = 2")


def test_empty_statements_are_allowed() -> None:
    assert parse("; a = 1;") == parse("a = 1")


def test_numbers_carry_their_width_and_kind() -> None:
    assert value("1") == ast.Number(1, 32, "i")
    assert value("1U") == ast.Number(1, 32, "u")
    assert value("0x100000000ULL") == ast.Number(1 << 32, 64, "u", True)
    assert value("16'4") == ast.Number(4, 16, "i")
    assert value("6'60U") == ast.Number(60, 6, "u")
    assert value("8'0xff") == ast.Number(255, 8, "b", True)
    assert value("1201'0x1f") == ast.Number(31, 1201, "b", True)
    assert value("1.0") == ast.Number(1.0, 64, "f")
    assert value("0.5F") == ast.Number(0.5, 32, "f")
    assert value("16'1.0") == ast.Number(1.0, 16, "f")


def test_casts_have_a_width_and_a_kind() -> None:
    assert value("65'U(a)") == ast.Cast(65, "U", ast.Name("a"))
    assert value("16'BF(a)") == ast.Cast(16, "BF", ast.Name("a"))


def test_precedence_follows_c() -> None:
    assert value("a + b > c ? d : e") == ast.Ternary(
        ast.Binary(">", ast.Binary("+", ast.Name("a"), ast.Name("b")), ast.Name("c")), ast.Name("d"), ast.Name("e")
    )
    assert value("a >> 1U << 2U") == ast.Binary(
        "<<", ast.Binary(">>", ast.Name("a"), ast.Number(1, 32, "u")), ast.Number(2, 32, "u")
    )


def test_power_binds_tighter_than_multiplication() -> None:
    product = value("2.0F ** 32 * a")
    assert isinstance(product, ast.Binary) and product.op == "*"


def test_ordered_not_equal_is_one_operator() -> None:
    assert value("a <> b") == ast.Binary("<>", ast.Name("a"), ast.Name("b"))


def test_an_index_may_be_a_conditional() -> None:
    index = value("a[s ? 2 : 9]")
    assert isinstance(index, ast.Index) and isinstance(index.index, ast.Ternary)


def test_a_slice_with_a_width() -> None:
    assert value("a[i * 4 +: 4]") == ast.Part(
        ast.Name("a"), ast.Binary("*", ast.Name("i"), ast.Number(4, 32, "i")), ast.Number(4, 32, "i")
    )


def test_chained_assignment_keeps_its_targets_in_order() -> None:
    (statement,) = parse("EXEC.u64[laneId] = D0.u64[laneId] = a")
    assert isinstance(statement, ast.Assign)
    assert len(statement.targets) == 2 and statement.value == ast.Name("a")


def test_in_is_a_variable_and_a_keyword() -> None:
    declare, loop = parse("declare in : 32'F[3]; for i in 0 : 2 do in[i] = in[0] endfor")
    assert declare == ast.Declare("in", 32, "F", 3)
    assert isinstance(loop, ast.For) and loop.var == "i"


def test_the_end_of_a_loop_may_be_a_conditional() -> None:
    (loop,) = parse("for i in 0 : WAVE64 ? 63 : 31 do a = i endfor")
    assert isinstance(loop, ast.For) and isinstance(loop.stop, ast.Ternary)


def test_lambdas_have_an_expression_or_a_body() -> None:
    short, long = parse(
        "F = lambda(x, y) (\nx > y ? x : y); G = lambda(n) (if n <= 0 then return 1 else return 2 endif)"
    )
    assert isinstance(short, ast.Assign) and isinstance(short.value, ast.Lambda)
    assert short.value.params == ("x", "y")
    assert isinstance(long, ast.Assign) and isinstance(long.value, ast.Lambda)
    assert isinstance(long.value.body, tuple)


def test_quoted_sentences_are_notes() -> None:
    assert parse('"Wait for all"; a = 1')[0] == ast.Note("Wait for all")


def test_prose_is_refused_with_its_place() -> None:
    with pytest.raises(PcodeSyntaxError, match="line 2") as caught:
        parse("a = 1;\nD = A (16x16) * B (16x16)")
    assert caught.value.line == 2


def test_an_expression_alone_is_no_statement() -> None:
    with pytest.raises(PcodeSyntaxError, match="without effect"):
        parse("vscnt")


def test_unknown_families_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="rdna3, rdna4, cdna"):
        pcode_texts("gcn")
