"""Float arithmetic in every rounding mode against a model of exact fractions."""

from __future__ import annotations

import ctypes
import itertools
import math
import platform
import random
from fractions import Fraction

import numpy as np
import pytest

from mockgpu.pcode import numeric as num
from mockgpu.pcode.numeric import BF16, F16, F32, F64, Denorm, FloatFormat, Mode, Round

KEEP = Denorm.KEEP
ROUNDS = list(Round)
IEEE = [F16, F32, F64]


def mode(rounding: Round = Round.NEAREST_EVEN, denorm: Denorm = KEEP, **more: bool) -> Mode:
    return Mode(rounding, rounding, denorm, denorm, **more)


@pytest.fixture(autouse=True)
def quiet_numpy():
    with np.errstate(all="ignore"):
        yield


# -- the model ----------------------------------------------------------------------------------------------------


def number(fmt: FloatFormat, bits: int) -> Fraction:
    """The value of a finite pattern."""
    sign = -1 if bits >> (fmt.bits - 1) else 1
    field, fraction = bits >> fmt.man & ((1 << fmt.exp) - 1), bits & ((1 << fmt.man) - 1)
    scale = Fraction(2) ** (max(field, 1) - fmt.bias - fmt.man)
    return sign * scale * (fraction + ((1 << fmt.man) if field else 0))


def encode(fmt: FloatFormat, x: Fraction, rounding: Round, zero_sign: int = 0) -> int:
    """The pattern nearest to ``x`` in the direction of ``rounding``."""
    top = 1 << (fmt.bits - 1)
    if x == 0:
        return top * zero_sign
    negative, size = x < 0, abs(x)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    power -= size < Fraction(2) ** power
    ulp = Fraction(2) ** (max(power, 1 - fmt.bias) - fmt.man)
    below = math.floor(size / ulp)
    low = below * ulp
    lower_pattern = max(power - (1 - fmt.bias), 0) * (1 << fmt.man) + below
    if rounding is Round.NEAREST_EVEN:
        up = size - low > ulp / 2 or (size - low == ulp / 2 and lower_pattern % 2)
    else:
        up = size != low and rounding is (Round.MINUS_INF if negative else Round.PLUS_INF)
    pattern = lower_pattern + bool(up)
    if pattern >= fmt.inf:
        away = rounding is Round.NEAREST_EVEN or rounding is (Round.MINUS_INF if negative else Round.PLUS_INF)
        pattern = fmt.inf if away else fmt.inf - 1
    return pattern | top * negative


def nan(fmt: FloatFormat, bits: int) -> bool:
    return bits & fmt.magnitude > fmt.inf


def inf(fmt: FloatFormat, bits: int) -> bool:
    return bits & fmt.magnitude == fmt.inf


def flushed(fmt: FloatFormat, bits: int) -> int:
    return bits & fmt.sign if 0 < bits & fmt.magnitude < fmt.min_normal else bits


def stand_in(fmt: FloatFormat, bits: int) -> float:
    """A float with the same sign and class, enough to find out what infinities and zeros give."""
    sign = -1.0 if bits & fmt.sign else 1.0
    return sign * (math.inf if inf(fmt, bits) else 1.0 if bits & fmt.magnitude else 0.0)


def divide(x: float, y: float) -> float:
    if y == 0:
        return math.nan if x == 0 else math.copysign(math.inf, math.copysign(1, x) * math.copysign(1, y))
    return x / y


PLAIN = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": divide}


def special(fmt: FloatFormat, op: str, args: tuple[int, ...]) -> int | None:
    """The result when infinities or a division by zero decide it."""
    zero_divisor = op == "div" and not args[1] & fmt.magnitude
    if not any(inf(fmt, x) for x in args) and not zero_divisor:
        return None
    parts = [stand_in(fmt, x) for x in args]
    value = parts[0] * parts[1] + parts[2] if op == "fma" else PLAIN[op](*parts)
    if math.isnan(value):
        return fmt.nan
    negative = math.copysign(1.0, value) < 0
    assert math.isinf(value) or value == 0
    return (fmt.inf if math.isinf(value) else 0) | fmt.sign * negative


def expected(fmt: FloatFormat, op: str, args: tuple[int, ...], rounding: Round) -> int:
    for x in args:
        if nan(fmt, x):
            return x | fmt.quiet
    found = special(fmt, op, args)
    if found is not None:
        return found
    values = [number(fmt, x) for x in args]
    signs = [x >> (fmt.bits - 1) for x in args]
    down = int(rounding is Round.MINUS_INF)
    if op in ("mul", "div"):
        exact = values[0] * values[1] if op == "mul" else values[0] / values[1]
        return encode(fmt, exact, rounding, signs[0] ^ signs[1])
    if op == "fma":
        exact, first, second = values[0] * values[1] + values[2], signs[0] ^ signs[1], signs[2]
    else:
        flip = op == "sub"
        exact = values[0] - values[1] if flip else values[0] + values[1]
        first, second = signs[0], signs[1] ^ flip
    return encode(fmt, exact, rounding, first if first == second else down)


# -- inputs -------------------------------------------------------------------------------------------------------


def specials(fmt: FloatFormat) -> list[int]:
    one = fmt.bias << fmt.man
    positive = [
        0, 1, 2, 3, fmt.min_normal - 1, fmt.min_normal, fmt.min_normal + 1,
        one - 1, one, one + 1, one + (1 << (fmt.man - 1)), one + (2 << fmt.man), one + 1 + (fmt.man << fmt.man),
        fmt.inf - 2, fmt.inf - 1, fmt.inf, fmt.inf + 1, fmt.nan, fmt.nan + 5,
    ]  # fmt: skip
    return positive + [x | fmt.sign for x in positive]


def shaped(fmt: FloatFormat, rng: random.Random, near: int | None = None) -> int:
    """A pattern with runs of zeros and ones; its exponent is close to ``near``'s if given."""
    mantissa = rng.getrandbits(fmt.man)
    if rng.random() < 0.6:
        run = rng.randrange(1, fmt.man + 1)
        mantissa = (mantissa >> run << run) if rng.random() < 0.5 else mantissa | ((1 << run) - 1)
    if near is None:
        field = rng.choice([0, 1, fmt.bias, (2 << fmt.exp - 1) - 2, rng.getrandbits(fmt.exp) % ((1 << fmt.exp) - 1)])
    else:
        field = (near >> fmt.man & ((1 << fmt.exp) - 1)) + rng.randrange(-fmt.man - 3, fmt.man + 4)
    field = min(max(field, 0), (1 << fmt.exp) - 2)
    return rng.getrandbits(1) << (fmt.bits - 1) | field << fmt.man | mantissa


def pairs(fmt: FloatFormat, count: int, seed: int) -> list[tuple[int, ...]]:
    rng = random.Random(seed)
    some = list(itertools.product(specials(fmt), repeat=2))
    rng.shuffle(some)
    close = [(a, shaped(fmt, rng, a)) for a in (shaped(fmt, rng) for _ in range(count))]
    return some[:count] + close + [(shaped(fmt, rng), shaped(fmt, rng)) for _ in range(count)]


def triples(fmt: FloatFormat, count: int, seed: int) -> list[tuple[int, ...]]:
    """Also addends that almost cancel the product, and products that lie next to the middle of two numbers."""
    rng = random.Random(seed)
    out = [tuple(rng.choice(specials(fmt)) for _ in range(3)) for _ in range(count)]
    for _ in range(count):
        a, b = shaped(fmt, rng), shaped(fmt, rng)
        product = encode(fmt, number(fmt, a) * number(fmt, b), Round.ZERO)
        out.append((a, b, (product ^ fmt.sign) + rng.choice((0, 0, 1)) if product & fmt.magnitude < fmt.inf else 1))
        out.append((a, b, shaped(fmt, rng, product)))
        out.append((shaped(fmt, rng), fmt.bias << fmt.man, shaped(fmt, rng)))
    return [tuple(x & ((1 << fmt.bits) - 1) for x in t) for t in out]


def columns(fmt: FloatFormat, cases: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [np.array(c, fmt.word) for c in zip(*cases, strict=True)]


def check(fmt: FloatFormat, cases: list[tuple[int, ...]], got: np.ndarray, want: list[int]) -> None:
    assert got.dtype == fmt.word
    wrong = [
        f"{[hex(x) for x in case]}: got {int(g):#x}, want {w:#x}"
        for case, g, w in zip(cases, got, want, strict=True)
        if int(g) != w
    ]
    assert not wrong, f"{len(wrong)} wrong, e.g. {wrong[:5]}"


# -- arithmetic ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounding", ROUNDS, ids=lambda r: r.name.lower())
@pytest.mark.parametrize("fmt", IEEE, ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_two_operands_round_once(op: str, fmt: FloatFormat, rounding: Round) -> None:
    cases = pairs(fmt, 250, seed=1)
    got = num.binary(op, fmt)(mode(rounding), *columns(fmt, cases))
    check(fmt, cases, got, [expected(fmt, op, c, rounding) for c in cases])


@pytest.mark.parametrize("rounding", ROUNDS, ids=lambda r: r.name.lower())
@pytest.mark.parametrize("fmt", IEEE, ids=str)
def test_fma_rounds_once(fmt: FloatFormat, rounding: Round) -> None:
    cases = triples(fmt, 300, seed=2)
    got = num.fma(fmt)(mode(rounding), *columns(fmt, cases))
    check(fmt, cases, got, [expected(fmt, "fma", c, rounding) for c in cases])


def test_fma_of_f32_survives_the_middle_of_two_doubles() -> None:
    """1 + 2**-24 is a tie in f32; the addend 2**-80 vanishes in a double but decides the rounding."""
    a = np.array([(1 << 23) + 1, 0x3F800000 + 1], np.uint32)
    one, tiny, half = np.uint32(0x3F800000), np.uint32((127 - 80) << 23), np.uint32((127 - 24) << 23)
    product = num.fma(F32)(mode(), one, one, half)
    assert product == 0x3F800000
    big = np.uint32((127 + 12) << 23)
    tie = np.uint32((127 - 12) << 23 | 1 << 11)
    cases = [(int(big), int(tie), int(tiny)), (int(a[1]), int(a[1]), int(tiny)), (0x3F800001, 0x3F7FFFFF, 0x80000001)]
    got = num.fma(F32)(mode(), *columns(F32, cases))
    check(F32, cases, got, [expected(F32, "fma", c, Round.NEAREST_EVEN) for c in cases])


@pytest.mark.parametrize("rounding", ROUNDS, ids=lambda r: r.name.lower())
@pytest.mark.parametrize("fmt", IEEE, ids=str)
def test_sqrt(fmt: FloatFormat, rounding: Round) -> None:
    rng = random.Random(3)
    cases = [(x,) for x in specials(fmt) + [shaped(fmt, rng) & fmt.magnitude for _ in range(300)]]

    def want(x: int) -> int:
        if nan(fmt, x):
            return x | fmt.quiet
        if x & fmt.sign:
            return x if x == fmt.sign else fmt.nan
        return x if x in (0, fmt.inf) else root(x)

    def root(x: int) -> int:
        scale = 4 ** (fmt.bias + 2 * fmt.man + 80)
        value = number(fmt, x) * scale
        whole = math.isqrt(int(value))
        inexact = whole * whole != value
        return encode(fmt, (whole + Fraction(int(inexact), 2)) / Fraction(math.isqrt(scale)), rounding)

    got = num.sqrt(fmt)(mode(rounding), *columns(fmt, cases))
    check(fmt, cases, got, [want(*c) for c in cases])


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_bf16(op: str) -> None:
    cases = pairs(BF16, 300, seed=4)
    got = num.binary(op, BF16)(mode(Round.ZERO), *columns(BF16, cases))
    check(BF16, cases, got, [expected(BF16, op, c, Round.NEAREST_EVEN) for c in cases])


@pytest.mark.parametrize("denorm", list(Denorm), ids=lambda d: d.name.lower())
@pytest.mark.parametrize("fmt", IEEE, ids=str)
def test_denormals_are_flushed_as_mode_says(fmt: FloatFormat, denorm: Denorm) -> None:
    cases = pairs(fmt, 200, seed=5)
    how = mode(denorm=denorm)
    for op in ("add", "mul"):
        want = []
        for case in cases:
            args = case if denorm & 1 else tuple(flushed(fmt, x) for x in case)
            result = expected(fmt, op, args, Round.NEAREST_EVEN)
            want.append(result if denorm & 2 else flushed(fmt, result))
        check(fmt, cases, num.binary(op, fmt)(how, *columns(fmt, cases)), want)


def test_mode_governs_f32_apart_from_f16_and_f64() -> None:
    default = Mode()
    assert num.binary("add", F32)(default, np.uint32(1), np.uint32(1)) == 0
    assert num.binary("add", F16)(default, np.uint16(1), np.uint16(1)) == 2
    assert num.binary("add", F64)(default, np.uint64(1), np.uint64(1)) == 2


def test_the_mode_register_is_read_field_by_field() -> None:
    got = Mode.from_register(0b11_01_10_01 << 0 | 1 << 9, "rdna3")
    assert (got.round_f32, got.round_f16_f64) == (Round.PLUS_INF, Round.MINUS_INF)
    assert (got.denorm_f32, got.denorm_f16_f64) == (Denorm.FLUSH_OUT, Denorm.KEEP)
    assert got.ieee and not got.dx10_clamp and not got.fp16_ovfl
    assert Mode.from_register(1 << 23, "cdna").fp16_ovfl
    assert Mode.from_register(0xF0, "rdna4").ieee and Mode.from_register(0xF0, "rdna4").dx10_clamp
    assert Mode.from_register(0xC0 | 0x300, "rdna3") == Mode()


def test_fp16_ovfl_clamps_overflow_but_not_infinity() -> None:
    big, infinity, one, zero = (np.array([x], np.uint16) for x in (0x7BFF, 0x7C00, 0x3C00, 0))
    how = mode(fp16_ovfl=True)
    assert num.binary("add", F16)(how, big, big) == 0x7BFF
    assert num.binary("mul", F16)(how, big, big ^ np.uint16(0x8000)) == 0xFBFF
    assert num.binary("add", F16)(how, infinity, one) == 0x7C00
    assert num.binary("div", F16)(how, one, zero) == 0x7C00
    assert num.fma(F16)(how, big, big, one) == 0x7BFF


def test_the_first_nan_operand_wins() -> None:
    a, b, c = (np.array([x], np.uint32) for x in (0x7F800001, 0xFFC12345, 0x7FD00000))
    assert num.binary("add", F32)(mode(), a, b) == 0x7FC00001
    assert num.binary("mul", F32)(mode(), b, a) == 0xFFC12345
    assert num.fma(F32)(mode(), np.uint32(0x7F800000), np.uint32(0), c) == 0x7FD00000
    assert num.binary("mul", F32)(mode(), np.uint32(0x7F800000), np.uint32(0)) == 0x7FC00000


# -- comparison ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", [*IEEE, BF16], ids=str)
def test_comparisons(fmt: FloatFormat) -> None:
    cases = pairs(fmt, 300, seed=6)
    a, b = columns(fmt, cases)

    def order(x: int, y: int) -> int | None:
        if nan(fmt, x) or nan(fmt, y):
            return None
        far = Fraction(4) ** 2048
        keys = [number(fmt, v) if not inf(fmt, v) else far * (-1 if v & fmt.sign else 1) for v in (x, y)]
        return (keys[0] > keys[1]) - (keys[0] < keys[1])

    holds = {
        "eq": lambda o: o == 0, "ne": lambda o: o != 0, "lt": lambda o: o == -1, "gt": lambda o: o == 1,
        "le": lambda o: o in (-1, 0), "ge": lambda o: o in (0, 1), "lg": lambda o: o in (-1, 1),
    }  # fmt: skip
    orders = [order(*c) for c in cases]
    for op, wanted in holds.items():
        assert num.compare(op, fmt)(mode(), a, b).tolist() == [wanted(o) for o in orders], op


def test_comparisons_see_flushed_denormals() -> None:
    one, zero = np.uint32(1), np.uint32(0x80000000)
    assert num.compare("eq", F32)(Mode(), one, zero)
    assert not num.compare("eq", F32)(mode(), one, zero)


# -- modifiers, min and max ----------------------------------------------------------------------------------------


def test_clamp() -> None:
    x = np.array([0x80000000, 0x7FC00000, 0xFFC00001, 0x3F000000, 0x40000000, 0x7F800000, 0xBF800000, 1], np.uint32)
    clamped = [0, 0, 0, 0x3F000000, 0x3F800000, 0x3F800000, 0, 1]
    assert num.clamp(mode(), F32, x).tolist() == clamped
    kept = num.clamp(mode(dx10_clamp=False), F32, x).tolist()
    assert kept == [0, 0x7FC00000, 0xFFC00001, *clamped[3:]]


def test_output_modifier() -> None:
    x = np.array([0x3F800000, 0x7F000000], np.uint32)
    assert [num.omod(mode(), F32, x, k).tolist() for k in range(4)] == [
        [0x3F800000, 0x7F000000], [0x40000000, 0x7F800000], [0x40800000, 0x7F800000], [0x3F000000, 0x7E800000],
    ]  # fmt: skip


def test_minimum_number() -> None:
    a = np.array([0, 0x80000000, 0x7FC00000, 0x3F800000, 0x7F800001, 0xC0000000], np.uint32)
    b = np.array([0x80000000, 0, 0x3F800000, 0x7FC00000, 0x7FC00002, 0x40000000], np.uint32)
    low = [0x80000000, 0x80000000, 0x3F800000, 0x3F800000, 0x7FC00001, 0xC0000000]
    high = [0, 0, 0x3F800000, 0x3F800000, 0x7FC00001, 0x40000000]
    assert num.minimum_number(mode(), F32, a, b).tolist() == low
    assert num.maximum_number(mode(), F32, a, b).tolist() == high


# -- the host -----------------------------------------------------------------------------------------------------


def test_the_hosts_flush_to_zero_is_noticed_and_put_aside() -> None:
    lib = ctypes.CDLL(None)
    if not hasattr(lib, "fegetenv") or platform.machine() != "x86_64":
        pytest.skip("the layout of the floating-point environment is known for x86-64 glibc only")
    saved, changed = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
    lib.fegetenv(saved)
    changed.raw = saved.raw[:28] + (int.from_bytes(saved.raw[28:32], "little") | 0x8040).to_bytes(4, "little")
    lib.fesetenv(changed)
    try:
        assert not num.host_is_ieee()
        with num.ieee_host():
            assert num.host_is_ieee()
        assert not num.host_is_ieee()
    finally:
        lib.fesetenv(saved)
    assert num.host_is_ieee()
