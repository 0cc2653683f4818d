"""Reciprocals, roots, exponentials, logarithms and sines against exact or high-precision values."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from support import exact, shaped
from support.exact import F16, F32, F64, PLAIN, Format, Mode
from support.lanes import compute
from support.llvm_mc import require_llvm
from support.verdict import assert_same

require_llvm()

ALL = ("gfx1100", "gfx1201", "gfx942", "gfx950")
NAMES = {"f16": F16, "f32": F32, "f64": F64}


def apart(fmt: Format, seen: np.ndarray, expected: np.ndarray, x: np.ndarray, ulp: int, note: str) -> None:
    """Fail where results are more than ``ulp`` units apart, or not of the same kind."""
    wrong = [
        i
        for i, (p, q) in enumerate(zip(map(int, seen), map(int, expected), strict=True))
        if ((fmt.is_nan(p) or fmt.is_nan(q)) and p != q) or exact.difference(fmt, p, q) > ulp
    ]
    lines = [f"{int(x[i]):#x} -> {int(seen[i]):#x}, {int(expected[i]):#x}" for i in wrong[:8]]
    assert not wrong, f"{note}: {len(wrong)} wrong\n" + "\n".join(lines)


@pytest.mark.parametrize("fmt", NAMES)
@pytest.mark.parametrize("mode", [PLAIN, Mode(denorm32=0, denorm64=0)], ids=["keep", "flush"])
@pytest.mark.parametrize("op", ["rcp", "sqrt", "rsq"])
def test_reciprocals_and_roots(op: str, fmt: str, mode: Mode) -> None:
    number = NAMES[fmt]
    x = np.arange(0, 1 << 16, 7, np.uint32) if number is F16 else shaped.float_ones(number, count=300)

    def reciprocal_root(v: int) -> int:
        v = exact.flushed_in(number, mode, v)
        if not number.is_finite(v) or v & ~number.sign == 0 or number.is_negative(v):
            return exact.div(number, mode, number.one, exact.sqrt(number, mode, v))
        out = exact.encode(number, 1 / exact.root(exact.value(number, v)))
        return exact.flushed_out(number, mode, out)

    steps: dict[str, Callable[[int], int]] = {
        "rcp": lambda v: exact.div(number, mode, number.one, v),
        "sqrt": lambda v: exact.sqrt(number, mode, v),
        "rsq": reciprocal_root,
    }
    expected = exact.each(number, steps[op], x)
    for arch in ALL:
        seen = compute(arch, f"v_{op}_{fmt} {{d}}, {{a}}", x, bits=number.bits, mode=mode.register)
        apart(number, seen, expected, x, 1, f"{arch} {op} {fmt}")


def base(
    step: Callable[[float], float], number: Format, x: np.ndarray, edges: Callable[[int], int | None]
) -> np.ndarray:
    def one(v: int) -> int:
        special = edges(v)
        if special is not None:
            return special
        return exact.encode(number, Fraction(step(float(exact.value(number, v)))))

    return exact.each(number, one, x)


@pytest.mark.parametrize("fmt", ["f16", "f32"])
def test_exponentials(fmt: str) -> None:
    number = NAMES[fmt]
    x = np.concatenate([shaped.float_ones(number), shaped.near(np.random.default_rng(4), number, 500)])

    def edges(v: int) -> int | None:
        if number.is_nan(v):
            return v | number.quiet
        if number.is_inf(v) or abs(exact.value(number, v)) > 400:
            return 0 if number.is_negative(v) else number.inf
        return None

    expected = base(lambda v: 2.0**v, number, x, edges)
    for arch in ALL:
        seen = compute(arch, f"v_exp_{fmt} {{d}}, {{a}}", x, bits=number.bits, mode=PLAIN.register)
        apart(number, seen, expected, x, 1, f"{arch} {fmt}")


@pytest.mark.parametrize("fmt", ["f16", "f32"])
def test_logarithms(fmt: str) -> None:
    number = NAMES[fmt]
    x = np.concatenate([shaped.float_ones(number), shaped.near(np.random.default_rng(4), number, 500)])

    def edges(v: int) -> int | None:
        if number.is_nan(v):
            return v | number.quiet
        if v & ~number.sign == 0:
            return number.inf | number.sign
        if number.is_negative(v):
            return number.nan
        return number.inf if number.is_inf(v) else None

    expected = base(_log2, number, x, edges)
    for arch in ALL:
        seen = compute(arch, f"v_log_{fmt} {{d}}, {{a}}", x, bits=number.bits, mode=PLAIN.register)
        apart(number, seen, expected, x, 1, f"{arch} {fmt}")


def _log2(x: float) -> float:
    with decimal.localcontext() as context:
        context.prec = 40
        return float(decimal.Decimal(x).ln() / decimal.Decimal(2).ln())


@pytest.mark.parametrize("fmt", ["f16", "f32"])
@pytest.mark.parametrize("op", ["sin", "cos"])
def test_sines_of_turns(op: str, fmt: str) -> None:
    """Angles count in turns; multiples of a quarter turn are exact."""
    number = NAMES[fmt]
    x = np.concatenate([shaped.float_ones(number), shaped.near(np.random.default_rng(4), number, 500)])
    quarters = [exact.encode(number, Fraction(n, 4)) for n in range(-40, 41)]
    x = np.concatenate([x, np.array(quarters, number.word)])

    def one(v: int) -> float:
        exactly = exact.value(number, v)
        turn = exactly - math.floor(exactly)
        quarter, rest = divmod(turn * 4, 1)
        angle = float(rest) * math.pi / 2
        place = (int(quarter) + (op == "cos")) % 4
        value = math.sin(angle) if place % 2 == 0 else math.cos(angle)
        if place % 2 == 0 and rest == 0:
            value = 0.0
        if place % 2 == 1 and rest == 0:
            value = 1.0
        return value if place < 2 else -value

    keep = np.array([number.is_finite(int(v)) and abs(exact.value(number, int(v))) < 256 for v in x])
    for arch in ALL:
        seen = compute(arch, f"v_{op}_{fmt} {{d}}, {{a}}", x, bits=number.bits, mode=PLAIN.register)
        for v, out in zip(x[keep], seen[keep], strict=True):
            value = float(exact.value(number, int(out)))
            assert abs(value - one(int(v))) <= 2.0 ** -(number.man - 1), (arch, hex(v), value, one(int(v)))
        infinite = np.array([number.is_inf(int(v)) for v in x])
        assert_same(seen[infinite], np.full(np.count_nonzero(infinite), number.nan, seen.dtype), x[infinite])
