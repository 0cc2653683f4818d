"""exp2, log2, sine and cosine: their accuracy, and that native code gives the oracle's bits."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from support.float_lab import Case, Lab
from support.float_values import patterns

from mockgpu.pcode import elementary
from mockgpu.pcode import numeric as num
from mockgpu.pcode.builtins import builtin
from mockgpu.pcode.ir import F16, F32
from mockgpu.pcode.llvm.float_builtins import FLOAT_BUILTINS
from mockgpu.pcode.numeric import Denorm, Mode
from mockgpu.pcode.numeric_math import step_of

NAMES = tuple(elementary.FUNCTIONS)
MODES = (Mode(), Mode(denorm_f32=Denorm.KEEP, denorm_f16_f64=Denorm.FLUSH, fp16_ovfl=True))


def _cases() -> list[Case]:
    return [
        Case(f"{name} {type}", mode, (type.bits,), FLOAT_BUILTINS[name]((type,)), builtin(name, (type,)))
        for name in NAMES
        for type in (F16, F32)
        for mode in MODES
    ]


@pytest.mark.parametrize("level", ["native", "x86-64-v2"])
def test_native_code_gives_the_oracles_bits(level: str) -> None:
    lab = Lab(_cases(), level)
    for i, case in enumerate(lab.cases):
        lab.check(i, patterns(case.bits[0], 1 << 14, seed=i))


_PI = Decimal("3.14159265358979323846264338327950288419716939937510")


def _sine(turns: Decimal) -> Decimal:
    """By the power series."""
    x = 2 * _PI * (turns - turns.to_integral_value())
    term, total, n = x, x, 1
    while abs(term) > Decimal("1e-40"):
        term *= -x * x / ((n + 1) * (n + 2))
        total, n = total + term, n + 2
    return total


_TRUE: dict[str, Callable[[Decimal], Decimal]] = {
    "exp2": lambda x: Decimal(2) ** x,
    "log2": lambda x: x.ln() / Decimal(2).ln(),
    "sin2pi": _sine,
    "cos2pi": lambda x: _sine(x + Decimal("0.25")),
}
_SPANS = {"exp2": (-149.0, 128.0), "log2": (0.0, 1000.0), "sin2pi": (-3.0, 3.0), "cos2pi": (-3.0, 3.0)}


def _arguments(name: str, rng: np.random.Generator) -> Any:
    low, high = _SPANS[name]
    near_one = 1.0 + rng.integers(-(1 << 20), 1 << 20, 200) * 2.0**-23
    return np.concatenate([rng.uniform(low, high, 400), near_one]).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("name", NAMES)
def test_relative_error_is_below_a_51st_power_of_two(name: str) -> None:
    xs = _arguments(name, np.random.default_rng(5))
    with localcontext() as context, np.errstate(all="ignore"):
        context.prec = 50
        for x, got in zip(xs.tolist(), step_of(name, num.F32)(xs).tolist(), strict=True):
            true = _TRUE[name](Decimal(x))
            assert abs(Decimal(got) - true) <= abs(true) * Decimal(2) ** -51 + Decimal("1e-35"), x
