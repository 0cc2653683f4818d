"""Source modifiers (neg, abs, op_sel) and result modifiers (omod, clamp) under every MODE that matters to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support import exact, shaped
from support.exact import F16, F32, F64, PLAIN, Format, Mode
from support.lanes import compute
from support.llvm_mc import require_llvm
from support.verdict import assert_same

require_llvm()

RDNA, CDNA = ("gfx1100", "gfx1201"), ("gfx942", "gfx950")
ALL = RDNA + CDNA
NAMES = {"f16": F16, "f32": F32, "f64": F64}
STEPS: dict[str, tuple[int, Callable[..., int]]] = {
    "add": (2, exact.add),
    "mul": (2, exact.mul),
    "fma": (3, exact.fma),
}


def modified(fmt: Format, x: int, sign: str) -> int:
    """neg and abs work on the sign bit, that of a NAN too."""
    if "|" in sign:
        x &= ~fmt.sign
    return x ^ fmt.sign if "-" in sign else x


def spelled(sign: str, operand: str) -> str:
    return {"": operand, "-": f"-{operand}", "|": f"|{operand}|", "-|": f"-|{operand}|"}[sign]


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("fmt", NAMES)
@pytest.mark.parametrize("op", STEPS)
def test_neg_and_abs(arch: str, op: str, fmt: str) -> None:
    number, (count, step) = NAMES[fmt], STEPS[op]
    sources = shaped.float_pairs(number, count=50) if count == 2 else shaped.float_triples(number, count=50)
    for signs in (("-", "", "|"), ("|", "-|", "-"), ("", "-", "-|")):
        names = ", ".join(spelled(signs[k], f"{{{'abc'[k]}}}") for k in range(count))
        seen = compute(arch, f"v_{op}_{fmt} {{d}}, {names}", *sources, bits=number.bits, mode=PLAIN.register)

        def expected(*x: int, signs: tuple[str, ...] = signs) -> int:
            return step(number, PLAIN, *(modified(number, v, sg) for v, sg in zip(x, signs, strict=False)))

        assert_same(seen, exact.each(number, expected, *sources), *sources, note=names)


ONE_OPERAND = ["floor", "ceil", "trunc", "rndne", "sqrt", "rcp"]


@pytest.mark.parametrize("fmt", NAMES)
@pytest.mark.parametrize("op", ONE_OPERAND)
def test_modifiers_of_one_operand_commute_with_the_operation(op: str, fmt: str) -> None:
    number = NAMES[fmt]
    x = shaped.float_ones(number, count=100)
    for sign in ("-", "|", "-|"):
        given = np.array([modified(number, int(v), sign) for v in x], number.word)
        for arch in ALL:
            plain = compute(arch, f"v_{op}_{fmt} {{d}}, {{a}}", given, bits=number.bits, mode=PLAIN.register)
            text = f"v_{op}_{fmt}_e64 {{d}}, {spelled(sign, '{a}')}"
            assert_same(compute(arch, text, x, bits=number.bits, mode=PLAIN.register), plain, x, note=text)


def clamped(fmt: Format, mode: Mode, x: int) -> int:
    """To 0..1; minus zero becomes zero, a NAN zero with DX10_CLAMP and otherwise stays."""
    if fmt.is_nan(x):
        return 0 if mode.dx10_clamp else x
    if fmt.is_negative(x):
        return 0
    return min(x, fmt.one)


def scaled(fmt: Format, mode: Mode, x: int, factor: exact.Fraction) -> int:
    """omod: without IEEE and output denormals only; minus zero becomes zero."""
    if mode.ieee or mode.denorm(fmt) & 2:
        return x
    if fmt.is_finite(x):
        out = exact.encode(fmt, exact.value(fmt, x) * factor, mode.rounding(fmt), minus=fmt.is_negative(x))
        x = exact.flushed_out(fmt, mode, out)
    return 0 if x == fmt.sign else x


FACTORS = {
    "": exact.Fraction(1),
    " mul:2": exact.Fraction(2),
    " mul:4": exact.Fraction(4),
    " div:2": exact.Fraction(1, 2),
}
MODES = [
    PLAIN,
    Mode(dx10_clamp=False),
    Mode(ieee=False),
    Mode(ieee=False, denorm32=0, denorm64=0),
    Mode(ieee=False, denorm32=1, denorm64=1, round32=3, round64=3),
    Mode(ieee=False, dx10_clamp=False, denorm32=0, denorm64=0, round32=1, round64=2),
]


@pytest.mark.parametrize("mode", MODES, ids=lambda m: f"{m.register:x}")
@pytest.mark.parametrize("fmt", NAMES)
@pytest.mark.parametrize("arch", ["gfx1100", "gfx950"])
def test_omod_and_clamp(arch: str, fmt: str, mode: Mode) -> None:
    number = NAMES[fmt]
    a, b = shaped.float_pairs(number, count=60)
    plain = exact.each(number, lambda x, y: exact.add(number, mode, x, y), a, b)
    for omod, factor in FACTORS.items():
        for clamp in ("", " clamp"):

            def expected(x: int, factor: exact.Fraction = factor, omod: str = omod, clamp: str = clamp) -> int:
                x = scaled(number, mode, x, factor) if omod else x
                return clamped(number, mode, x) if clamp else x

            text = f"v_add_{fmt}_e64 {{d}}, {{a}}, {{b}}{clamp}{omod}"
            text = text.replace("_e64", "") if number is F64 else text
            seen = compute(arch, text, a, b, bits=number.bits, mode=mode.register)
            assert_same(seen, exact.each(number, expected, plain), a, b, note=f"{text} {mode}")


CLAMPED = {"mul": 2, "fma": 3, "max": 2, "rcp": 1, "floor": 1, "ldexp": 2, "sqrt": 1}


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("fmt", NAMES)
@pytest.mark.parametrize("op", CLAMPED)
def test_clamp_limits_what_the_instruction_gives(arch: str, fmt: str, op: str) -> None:
    number, count = NAMES[fmt], CLAMPED[op]
    sources = [shaped.float_ones(number, seed=k, count=100) for k in range(count)]
    if op == "ldexp":
        sources[1] = np.random.default_rng(2).integers(0, 6, len(sources[0])).astype(np.uint32)
    name = f"{op}_num" if op == "max" and arch == "gfx1201" else op
    text = f"v_{name}_{fmt} {{d}}, {', '.join(f'{{{x}}}' for x in 'abc'[:count])}"
    for mode in (PLAIN, Mode(dx10_clamp=False)):
        if arch == "gfx1201" and not mode.dx10_clamp:
            continue  # there is no such bit
        plain, seen = (
            compute(arch, text + end, *sources, bits=number.bits, mode=mode.register) for end in ("", " clamp")
        )
        expected = exact.each(number, lambda x, m=mode: clamped(number, m, x), plain)
        assert_same(seen, expected, plain, note=f"{text} {mode}")


@pytest.mark.parametrize("arch", ALL)
def test_packed_halves_are_clamped_each(arch: str) -> None:
    a, b = shaped.float_pairs(F16, count=100)
    order = np.random.default_rng(3).permutation(len(a))
    wide = [x | x[order] << np.uint32(16) for x in (a, b)]
    low = exact.each(F16, lambda x, y: clamped(F16, PLAIN, exact.add(F16, PLAIN, x, y)), a, b)
    seen = compute(arch, "v_pk_add_f16 {d}, {a}, {b} clamp", *wide, mode=PLAIN.register)
    assert_same(seen, low | low[order] << np.uint32(16), *wide)


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("select", [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 1), (1, 1, 1, 1), (0, 0, 1, 1)])
def test_op_sel_chooses_halves_and_keeps_the_other(arch: str, select: tuple[int, ...]) -> None:
    halves = shaped.float_triples(F16, count=60)
    order = np.random.default_rng(3).permutation(len(halves[0]))
    wide = [x | x[order] << np.uint32(16) for x in halves]
    old = np.random.default_rng(4).integers(0, 1 << 32, len(order), np.uint32)
    if arch in RDNA:
        ends = ["h" if bit else "l" for bit in select]
        text = f"v_fma_f16 {{d}}.{ends[3]}, {{a}}.{ends[0]}, {{b}}.{ends[1]}, {{c}}.{ends[2]}"
    else:
        text = f"v_fma_f16 {{d}}, {{a}}, {{b}}, {{c}} op_sel:[{','.join(map(str, select))}]"
    seen = compute(arch, text, *wide, old=old, mode=PLAIN.register)
    chosen = [x[order] if bit else x for x, bit in zip(halves, select[:3], strict=True)]
    half = exact.each(F16, lambda *x: exact.fma(F16, PLAIN, *x), *chosen)
    expected = old & np.uint32(0xFFFF) | half << np.uint32(16) if select[3] else old & np.uint32(0xFFFF0000) | half
    assert_same(seen, expected, *wide, note=text)


@pytest.mark.parametrize("mode", [PLAIN, Mode(round32=1, round64=2), Mode(denorm32=0), Mode(denorm64=0)], ids=str)
@pytest.mark.parametrize("arch", ALL)
def test_mixed_precision_multiply_add_rounds_once(arch: str, mode: Mode) -> None:
    """Sources are f32, or a half of a register; neg_lo negates, neg_hi takes the absolute value."""
    a, c = shaped.float_pairs(F32, count=100)
    h, g = shaped.float_pairs(F16, count=100)
    count = min(len(a), len(h))
    a, c, b = a[:count], c[:count], (h[:count] << np.uint32(16) | g[:count])

    def expected(x: int, y: int, z: int) -> int:
        wide = exact.convert(F16, F32, PLAIN, exact.flushed_in(F16, mode, y >> 16))
        return exact.fma(F32, mode, x ^ 1 << 31, wide, z & 0x7FFFFFFF)

    text = "v_fma_mix_f32 {d}, -{a}, {b}, |{c}| op_sel:[0,1,0] op_sel_hi:[0,1,0]"
    seen = compute(arch, text, a, b, c, mode=mode.register)
    assert_same(seen, exact.each(F32, expected, a, b, c), a, b, c, note=f"{text} {mode}")
