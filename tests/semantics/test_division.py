"""Division built from DIV_SCALE, an iteration of FMAs, DIV_FMAS and DIV_FIXUP: the quotient is correctly rounded."""

from __future__ import annotations

import numpy as np
import pytest
from support import exact, shaped
from support.exact import F16, F32, F64, PLAIN, Format
from support.lanes import RESULT, compute, compute_run
from support.llvm_mc import require_llvm
from support.verdict import assert_same

require_llvm()

RDNA, CDNA = ("gfx1100", "gfx1201"), ("gfx942", "gfx950")
ALL = RDNA + CDNA

# As compilers expand a / b: {a} and {b} are the operands, {s} and {t} the scaled denominator and numerator.
_SINGLE = """
v_div_scale_f32 v40, {vcc}, {b}, {b}, {a}
v_div_scale_f32 v41, vcc{lo}, {a}, {b}, {a}
v_rcp_f32 v42, v40
v_fma_f32 v43, -v40, v42, 1.0
v_fma_f32 v42, v43, v42, v42
v_mul_f32 v44, v41, v42
v_fma_f32 v43, -v40, v44, v41
v_fma_f32 v44, v43, v42, v44
v_fma_f32 v43, -v40, v44, v41
v_div_fmas_f32 v43, v43, v42, v44
v_div_fixup_f32 {d}, v43, {b}, {a}
"""
_DOUBLE = """
v_div_scale_f64 v[40:41], {vcc}, {b}, {b}, {a}
v_rcp_f64 v[42:43], v[40:41]
v_fma_f64 v[44:45], -v[40:41], v[42:43], 1.0
v_fma_f64 v[42:43], v[42:43], v[44:45], v[42:43]
v_fma_f64 v[44:45], -v[40:41], v[42:43], 1.0
v_fma_f64 v[42:43], v[42:43], v[44:45], v[42:43]
v_div_scale_f64 v[44:45], vcc{lo}, {a}, {b}, {a}
v_mul_f64 v[46:47], v[44:45], v[42:43]
v_fma_f64 v[48:49], -v[40:41], v[46:47], v[44:45]
v_div_fmas_f64 v[48:49], v[48:49], v[42:43], v[46:47]
v_div_fixup_f64 {d}, v[48:49], {b}, {a}
"""


def _program(fmt: Format, arch: str) -> str:
    text = _SINGLE if fmt is F32 else _DOUBLE
    small = arch in RDNA
    return text.replace("{vcc}", "s20" if small else "s[20:21]").replace("{lo}", "_lo" if small else "")


def _operands(fmt: Format) -> list[np.ndarray]:
    """Pairs of all kinds, and pairs whose quotients are extreme: huge, tiny, denormal, next to a tie."""
    rng = np.random.default_rng(21)
    parts = [shaped.float_pairs(fmt)]
    count, top = 600, (1 << fmt.exp) - 1
    field = rng.integers(0, top, count)
    for shift in (fmt.bias - 1, fmt.bias, -fmt.bias, fmt.bias // 2, -fmt.bias - fmt.man // 2):
        other = np.clip(field + shift + rng.integers(-3, 4, count), 0, top - 1)
        pair = [f.astype(np.uint64) << np.uint64(fmt.man) | shaped.runs(rng, fmt.man, count) for f in (field, other)]
        signs = rng.integers(0, 2, (2, count)).astype(np.uint64) << np.uint64(fmt.bits - 1)
        parts.append([(pair[k] | signs[k]).astype(fmt.word) for k in range(2)])
    return [np.concatenate([p[k] for p in parts]) for k in range(2)]


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("fmt", [F32, F64], ids=["f32", "f64"])
def test_quotients_are_correctly_rounded(arch: str, fmt: Format) -> None:
    a, b = _operands(fmt)
    seen = compute(arch, _program(fmt, arch), a, b, bits=fmt.bits, mode=PLAIN.register)
    expected = exact.each(fmt, lambda x, y: _quotient(fmt, x, y), a, b)
    assert_same(seen, expected, a, b)


def _quotient(fmt: Format, a: int, b: int) -> int:
    """DIV_FIXUP's NAN of an invalid division is the negative one; a NAN denominator goes first."""
    if fmt.is_nan(b) and not fmt.is_nan(a):
        return b | fmt.quiet
    quotient = exact.div(fmt, PLAIN, a, b)
    return quotient | fmt.sign if fmt.is_nan(quotient) and not fmt.is_nan(a) else quotient


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("fmt", [F32, F64], ids=["f32", "f64"])
def test_scaling_keeps_iterations_in_range(arch: str, fmt: Format) -> None:
    """A scaled operand is the operand times a power of two; VCC tells where the quotient is scaled back."""
    a, b = _operands(fmt)
    name, step = ("f32", 64) if fmt is F32 else ("f64", 128)
    wide = "s20" if arch in RDNA else "s[20:21]"
    ran = compute_run(
        arch, f"v_div_scale_{name} {{d}}, {wide}, {{b}}, {{b}}, {{a}}", a, b, bits=fmt.bits, mode=PLAIN.register
    )
    seen = ran.words(RESULT) if fmt is F32 else ran.pairs(RESULT)
    for x, y, scaled in zip(map(int, a), map(int, b), map(int, seen), strict=True):
        if not (fmt.is_finite(x) and fmt.is_finite(y)) or not (x & ~fmt.sign and y & ~fmt.sign):
            continue
        if abs(exact.value(fmt, x) / exact.value(fmt, y)) < exact.value(fmt, 1) / 2:
            continue  # the fixup gives zero, whatever the iteration found
        ratio = exact.value(fmt, scaled) / exact.value(fmt, y)
        assert ratio in (1, 2**step, 1 / exact.Fraction(2**step)), (hex(x), hex(y), hex(scaled))


@pytest.mark.parametrize("arch", ALL)
def test_half_fixup_replaces_special_quotients(arch: str) -> None:
    """The f16 quotient comes from f32 arithmetic; the fixup sets the sign and the special cases."""
    a, b = shaped.float_pairs(F16)

    def near(x: int, y: int) -> int:
        """A quotient as the iteration would give it, of the wrong sign."""
        quotient = exact.div(F16, PLAIN, x, y)
        return quotient if F16.is_nan(quotient) else quotient ^ 0x8000

    q = exact.each(F16, near, a, b)
    seen = compute(arch, "v_div_fixup_f16 {d}, {a}, {b}, {c}", q, b, a, bits=16, mode=PLAIN.register)
    expected = exact.each(F16, lambda x, y: _quotient(F16, x, y), a, b)
    assert_same(seen, expected, q, b, a)
