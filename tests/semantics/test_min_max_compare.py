"""Minimum, maximum, median, comparisons and classes of floats: NANs, signs of zero, IEEE mode, denormals."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest
from support import exact, shaped
from support.exact import F16, F32, F64, PLAIN, Format, Mode
from support.lanes import compute, run
from support.llvm_mc import require_llvm
from support.verdict import assert_same

require_llvm()

RDNA, CDNA = ("gfx1100", "gfx1201"), ("gfx942", "gfx950")
ALL = RDNA + CDNA
NAMES = {"f16": F16, "f32": F32, "f64": F64}
MODES = [PLAIN, Mode(ieee=False), Mode(denorm32=0, denorm64=0)]


def ordered(fmt: Format, x: int) -> tuple[object, int]:
    """A key that sorts numbers, minus zero below plus zero."""
    size = (1 << 2000) if fmt.is_inf(x) else abs(exact.value(fmt, x))
    return (-size if fmt.is_negative(x) else size, 0 if fmt.is_negative(x) else 1)


def smaller(fmt: Format, a: int, b: int) -> int:
    return min(a, b, key=lambda x: ordered(fmt, x))


def larger(fmt: Format, a: int, b: int) -> int:
    return max(a, b, key=lambda x: ordered(fmt, x))


PICK = {"min": smaller, "max": larger}


def by_ieee_bit(pick: Callable[..., int], fmt: Format, mode: Mode, a: int, b: int) -> int:
    """V_MIN and V_MAX before gfx12: a number goes before a NAN; in IEEE mode signalling NANs win, quieted."""
    if mode.ieee:
        for x in (a, b):
            if fmt.is_signalling(x):
                return x | fmt.quiet
    if fmt.is_nan(b):
        return a
    return b if fmt.is_nan(a) else pick(fmt, a, b)


def by_ieee_bit_second(pick: Callable[..., int], fmt: Format, mode: Mode, a: int, b: int) -> int:
    """As the CDNA text has it: of two quiet NANs the second."""
    if fmt.is_nan(a) and not (mode.ieee and (fmt.is_signalling(a) or fmt.is_signalling(b))):
        return b
    return by_ieee_bit(pick, fmt, mode, a, b)


def rule_of(arch: str) -> Callable[..., int]:
    if arch == "gfx1201":
        return number
    return by_ieee_bit if arch in RDNA else by_ieee_bit_second


def number(pick: Callable[..., int], fmt: Format, mode: Mode, a: int, b: int) -> int:
    """IEEE 754-2019 minimumNumber."""
    if fmt.is_nan(a) and fmt.is_nan(b):
        return a | fmt.quiet
    if fmt.is_nan(b):
        return a
    return b if fmt.is_nan(a) else pick(fmt, a, b)


def propagating(pick: Callable[..., int], fmt: Format, mode: Mode, *x: int) -> int:
    """IEEE 754-2019 minimum: a NAN makes a NAN; a signalling one goes first."""
    for test in (fmt.is_signalling, fmt.is_nan):
        for v in x:
            if test(v):
                return v | fmt.quiet
    out = x[0]
    for v in x[1:]:
        out = pick(fmt, out, v)
    return out


def flushed(fmt: Format, mode: Mode, step: Callable[..., int]) -> Callable[..., int]:
    def apply(*x: int) -> int:
        return exact.flushed_out(fmt, mode, step(fmt, mode, *(exact.flushed_in(fmt, mode, v) for v in x)))

    return apply


@pytest.mark.parametrize("mode", MODES, ids=["plain", "no-ieee", "flush"])
@pytest.mark.parametrize("fmt", NAMES)
@pytest.mark.parametrize("op", PICK)
def test_minimum_and_maximum(op: str, fmt: str, mode: Mode) -> None:
    number_format = NAMES[fmt]
    a, b = shaped.float_pairs(number_format, count=100)
    for arch in ALL:
        rule = rule_of(arch)
        text = f"v_{op}_{'num_' if arch == 'gfx1201' else ''}{fmt} {{d}}, {{a}}, {{b}}"
        seen = compute(arch, text, a, b, bits=number_format.bits, mode=mode.register)
        step = flushed(number_format, mode, lambda f, m, x, y, rule=rule: rule(PICK[op], f, m, x, y))
        assert_same(seen, exact.each(number_format, step, a, b), a, b, note=f"{arch} {text} {mode}")


@pytest.mark.parametrize("fmt", NAMES)
@pytest.mark.parametrize("op", PICK)
def test_minimum_and_maximum_that_propagate(op: str, fmt: str) -> None:
    number_format = NAMES[fmt]
    a, b = shaped.float_pairs(number_format, count=100)
    seen = compute(
        "gfx1201", f"v_{op}imum_{fmt} {{d}}, {{a}}, {{b}}", a, b, bits=number_format.bits, mode=PLAIN.register
    )
    step = flushed(number_format, PLAIN, lambda f, m, x, y: propagating(PICK[op], f, m, x, y))
    assert_same(seen, exact.each(number_format, step, a, b), a, b)


@pytest.mark.parametrize("mode", MODES, ids=["plain", "no-ieee", "flush"])
@pytest.mark.parametrize("fmt", ["f16", "f32"])
@pytest.mark.parametrize("op", ["min3", "max3", "med3"])
def test_three_operands(op: str, fmt: str, mode: Mode) -> None:
    number_format = NAMES[fmt]
    a, b, c = shaped.float_triples(number_format, count=100)
    for arch in ALL:
        rule = rule_of(arch)

        def least(f: Format, m: Mode, x: int, y: int, rule=rule) -> int:  # type: ignore[no-untyped-def]
            return rule(smaller, f, m, x, y)

        def most(f: Format, m: Mode, x: int, y: int, rule=rule) -> int:  # type: ignore[no-untyped-def]
            return rule(larger, f, m, x, y)

        def three(f: Format, m: Mode, x: int, y: int, z: int, least=least, most=most) -> int:  # type: ignore[no-untyped-def]
            if op == "min3":
                return least(f, m, least(f, m, x, y), z)
            if op == "max3":
                return most(f, m, most(f, m, x, y), z)
            if any(f.is_nan(v) for v in (x, y, z)):
                return least(f, m, least(f, m, x, y), z)
            return sorted((x, y, z), key=lambda v: ordered(f, v))[1]

        text = f"v_{op}_{'num_' if arch == 'gfx1201' else ''}{fmt} {{d}}, {{a}}, {{b}}, {{c}}"
        seen = compute(arch, text, a, b, c, bits=number_format.bits, mode=mode.register)
        expected = exact.each(number_format, flushed(number_format, mode, three), a, b, c)
        if op == "med3":  # equal numbers of different sign of zero have no order that the text defines
            zero = exact.each(number_format, lambda x, y, z: _zeros(number_format, x, y, z), a, b, c) != 0
            seen, expected = (np.where(zero, v & ~v.dtype.type(number_format.sign), v) for v in (seen, expected))
        assert_same(seen, expected, a, b, c, note=f"{arch} {text} {mode}")


def _zeros(fmt: Format, *x: int) -> int:
    return int(sum(v & ~fmt.sign < fmt.normal for v in x) > 1)


# -- comparisons ------------------------------------------------------------------------------------------------------

PREDICATES: dict[str, Callable[[object, object], bool]] = {
    "lt": operator.lt,
    "eq": operator.eq,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
FLOATS = ["lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt"]


def float_predicate(op: str, fmt: Format, a: int, b: int) -> bool:
    unordered = fmt.is_nan(a) or fmt.is_nan(b)
    if op in ("o", "u"):
        return unordered == (op == "u")
    if op.startswith("n"):
        return not float_predicate(op[1:], fmt, a, b)
    if unordered:
        return False
    x, y = ordered(fmt, a)[0], ordered(fmt, b)[0]
    return x != y if op == "lg" else PREDICATES[op](x, y)


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("fmt", NAMES)
def test_float_comparisons(arch: str, fmt: str) -> None:
    number_format = NAMES[fmt]
    a, b = shaped.float_pairs(number_format, count=50)
    active = np.random.default_rng(1).random(len(a)) < 0.8
    mask = "s[20:21]" if arch in CDNA else "s20"
    for mode in (PLAIN, Mode(denorm32=0, denorm64=0)):
        x, y = ([exact.flushed_in(number_format, mode, int(v)) for v in o] for o in (a, b))
        for op in FLOATS:
            text = f"v_cmp_{op}_{fmt} {mask}, {{a}}, {{b}}"
            names = _names(number_format)
            ran = run(arch, text.format(**names), vectors={2: a, 8: b}, mode=mode.register, lanes=active)
            expected = np.array([float_predicate(op, number_format, p, q) for p, q in zip(x, y, strict=True)])
            assert_same(ran.mask(20), expected & active, a, b, note=text)


def _names(fmt: Format) -> dict[str, str]:
    return {"a": "v[2:3]", "b": "v[8:9]"} if fmt.bits == 64 else {"a": "v2", "b": "v8"}


INTEGERS = ["lt", "eq", "le", "gt", "ne", "ge"]


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("kind", ["i16", "u16", "i32", "u32", "i64", "u64"])
def test_integer_comparisons(arch: str, kind: str) -> None:
    bits, signed = int(kind[1:]), kind[0] == "i"
    a, b = shaped.integer_tuples(bits, bits, count=100)
    a, b = np.concatenate([a, a[:50]]), np.concatenate([b, a[:50]])
    half = 1 << (bits - 1) if signed else 0
    every = (1 << bits) - 1
    x, y = ([((int(v) + half) & every) - half for v in o] for o in (a, b))
    names = {"a": "v[2:3]", "b": "v[8:9]"} if bits == 64 else {"a": "v2", "b": "v8"}
    for op in INTEGERS:
        vcc = "vcc" if arch in CDNA else "vcc_lo"
        text = f"v_cmp_{op}_{kind} {vcc}, {{a}}, {{b}}"
        ran = run(arch, text.format(**names), vectors={2: a, 8: b})
        step = operator.ne if op == "ne" else PREDICATES[op]
        assert_same(ran.vcc, np.array([step(p, q) for p, q in zip(x, y, strict=True)]), a, b, note=text)


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("fmt", NAMES)
def test_classes(arch: str, fmt: str) -> None:
    number_format = NAMES[fmt]
    a = np.repeat(np.array(shaped.floats(number_format), number_format.word), 12)
    masks = np.array([1 << n for n in range(10)] + [0, 0x3FF], np.uint32)
    b = np.tile(masks, len(a) // 12)

    def kind(x: int) -> int:
        if number_format.is_nan(x):
            return 0 if number_format.is_signalling(x) else 1
        size = x & ~number_format.sign
        plus = 9 if number_format.is_inf(x) else 6 if size == 0 else 7 if size < number_format.normal else 8
        return 11 - plus if number_format.is_negative(x) else plus

    expected = np.array([bool(int(m) >> kind(int(x)) & 1) for x, m in zip(a, b, strict=True)])
    for mode in (PLAIN, Mode(denorm32=0, denorm64=0)):
        names = _names(number_format) | {"b": "v8"}
        vcc = "vcc" if arch in CDNA else "vcc_lo"
        ran = run(
            arch, f"v_cmp_class_{fmt} {vcc}, {{a}}, {{b}}".format(**names), vectors={2: a, 8: b}, mode=mode.register
        )
        assert_same(ran.vcc, expected, a, b)


@pytest.mark.parametrize("arch", ALL)
def test_selecting_by_a_mask_with_sign_modifiers(arch: str) -> None:
    a, b = shaped.float_pairs(F32, count=50)
    choose = np.random.default_rng(1).random(len(a)) < 0.5
    mask = "s[20:21]" if arch in CDNA else "s20"
    seen = compute(arch, f"v_cndmask_b32 {{d}}, -{{a}}, |{{b}}|, {mask}", a, b, masks={20: choose})
    assert_same(seen, np.where(choose, b & np.uint32(0x7FFFFFFF), a ^ np.uint32(1 << 31)), a, b)
