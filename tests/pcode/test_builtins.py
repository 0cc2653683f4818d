"""The builtins of the pseudocode: every one that the contract lists, against plain Python."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import pytest

from mockgpu.pcode import numeric as num
from mockgpu.pcode.builtins import UnknownBuiltinError, builtin
from mockgpu.pcode.ir import BF16, F16, F32, F64, Type
from mockgpu.pcode.numeric import Denorm, Mode, Round
from mockgpu.pcode.signatures import BUILTINS

KEEP = Mode(denorm_f32=Denorm.KEEP)
U32, U8, I32 = Type("u", 32), Type("u", 8), Type("i", 32)
NATIVE = {16: np.float16, 32: np.float32, 64: np.float64}


@pytest.fixture(autouse=True)
def quiet_numpy():
    with np.errstate(all="ignore"):
        yield


def floats(type: Type, *xs: float) -> np.ndarray:
    return np.array(xs, NATIVE[type.bits]).view(num.container(type.bits))


def call(name: str, type: Type, x: np.ndarray, *more: tuple[Type, np.ndarray], mode: Mode = KEEP) -> np.ndarray:
    return builtin(name, (type, *(t for t, _ in more)))(mode, x, *(v for _, v in more))


def numbers(name: str, type: Type, *xs: float, mode: Mode = KEEP) -> list[float]:
    return call(name, type, floats(type, *xs), mode=mode).view(NATIVE[type.bits]).tolist()


# -- the contract -------------------------------------------------------------------------------------------------

ARGUMENT_TYPES = {"f32": F32, "f16": F16, "bf16": BF16, "f64": F64}


def argument_types(name: str) -> tuple[Type, ...]:
    """Types that the function accepts, by its name."""
    source = name.split("_to_")[0]
    first = ARGUMENT_TYPES.get(source) or {"fp8": Type("fp8", 8), "bf8": Type("bf8", 8)}.get(source)
    if first is None:
        first = Type("b", 6) if source in ("fp6", "bf6") else Type("b", 4) if source == "fp4" else F32
    integers = ["i32_to_i16", "u32_to_u16", "signext_from_bit", "reverse_bits", "count_ones", "find_first_one"]
    if name in integers or name.startswith("count_"):
        first = U32
    if name == "byte_permute":
        first = Type("b", 64)
    rest = {"fma": (F32, F32), "ldexp": (I32,), "byte_permute": (U8,)}.get(name)
    if rest is None:
        rest = (
            (*([U32] * (BUILTINS[name].args - 2)), U8)
            if name.endswith("_scale")
            else (U32,) * (BUILTINS[name].args - 1)
        )
    return (first, *rest)


@pytest.mark.parametrize("name", [n for n, s in BUILTINS.items() if not s.effect])
def test_every_listed_builtin_returns_its_type(name: str) -> None:
    types = argument_types(name)
    rng = np.random.default_rng(1)
    args = [num.resize(rng.integers(0, 1 << 64, (2, 8), dtype=np.uint64), 64, t.bits) for t in types]
    result = builtin(name, types)(KEEP, *args)
    bits = BUILTINS[name].result_type(types[0]).bits
    assert result.shape == (2, 8)
    assert result.dtype == num.container(bits)
    assert all(0 <= int(v) < 1 << bits for v in result.ravel())


def test_an_unknown_builtin_is_named() -> None:
    with pytest.raises(UnknownBuiltinError, match="no builtin frobnicate\\(f32\\)"):
        builtin("frobnicate", (F32,))


# -- floats -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", [F16, F32, F64], ids=str)
def test_rounding_to_integers(type: Type) -> None:
    xs = [0.5, 1.5, 2.5, -0.5, -1.5, -0.25, 0.75, 100.5, -2.0, 0.0, -0.0, math.inf]
    same = {"floor": math.floor, "trunc": math.trunc, "rndne": round}
    for name, step in same.items():
        got = numbers(name, type, *xs)
        assert got[:-1] == [float(step(x)) for x in xs[:-1]], name
        assert got[-1] == math.inf
    assert math.copysign(1.0, numbers("rndne", type, -0.25)[0]) == -1.0
    assert call("isEven", type, floats(type, 0, 2, 3, -4, -5, math.inf, math.nan)).tolist() == [
        True, True, False, True, False, False, False,
    ]  # fmt: skip


def test_fract_stays_below_one() -> None:
    assert numbers("fract", F32, 1.25, -1.25, 3.0) == [0.25, 0.75, 0.0]
    assert call("fract", F32, floats(F32, -1e-10)).tolist() == [0x3F7FFFFF]
    assert call("fract", F64, floats(F64, -1e-20)).tolist() == [0x3FEFFFFFFFFFFFFF]
    assert call("fract", F32, floats(F32, math.inf)).tolist() == [0x7FC00000]


@pytest.mark.parametrize("type", [F16, F32, F64], ids=str)
def test_frexp_and_ldexp_are_inverse(type: Type) -> None:
    fmt = num.format_of(type)
    rng = np.random.default_rng(2)
    x = num.resize(rng.integers(0, 1 << 64, 500, dtype=np.uint64), 64, type.bits)
    x[:8] = [0, 1, fmt.min_normal - 1, fmt.min_normal, fmt.max, fmt.sign, fmt.sign | 1, fmt.sign | fmt.max]
    x = x[~num.is_nan(fmt, x) & ~num.is_inf(fmt, x)]
    part, power = call("mantissa", type, x), call("frexp_exp", type, x)
    for bits, m, e in zip(x, part, power, strict=True):
        want = math.frexp(float(bits.view(NATIVE[type.bits])))
        assert (float(m.view(NATIVE[type.bits])), int(e.view(np.int32))) == want
    assert (call("ldexp", type, part, (I32, power)) == x).all()


def test_frexp_of_what_has_no_exponent() -> None:
    x = np.array([0x7F800000, 0xFF800000, 0x7F800001], np.uint32)
    assert call("frexp_exp", F32, x).tolist() == [0, 0, 0]
    assert call("mantissa", F32, x).tolist() == [0x7F800000, 0xFF800000, 0x7FC00001]
    assert call("frexp_exp", F32, np.array([1], np.uint32), mode=Mode()).tolist() == [0]


def test_ldexp_rounds_once_in_every_mode() -> None:
    x = np.array([0x3F800003], np.uint32)
    power = np.array([-148], np.int32).view(np.uint32)
    results = [call("ldexp", F32, x, (I32, power), mode=Mode(r, r, Denorm.KEEP)).tolist() for r in Round]
    assert results == [[2], [3], [2], [2]]
    x64 = np.array([0x3FF0000000000003], np.uint64)
    power = np.array([-1073], np.int32).view(np.uint32)
    results = [call("ldexp", F64, x64, (I32, power), mode=Mode(r, r)).tolist() for r in Round]
    assert results == [[2], [3], [2], [2]]
    huge = np.array([1 << 30], np.uint32)
    assert call("ldexp", F32, x, (I32, huge)).tolist() == [0x7F800000]


def test_looking_at_bits() -> None:
    x = np.array([0, 1, 0x80000001, 0x3F800000, 0x7F800000, 0x7F800001, 0xFFC00000], np.uint32)
    assert call("exponent", F32, x).tolist() == [0, 0, 0, 127, 255, 255, 255]
    assert call("sign", F32, x).tolist() == [False, False, True, False, False, False, True]
    assert call("isNAN", F32, x).tolist() == [False] * 5 + [True, True]
    assert call("isSignalNAN", F32, x).tolist() == [False] * 5 + [True, False]
    assert call("isQuietNAN", F32, x).tolist() == [False] * 6 + [True]
    assert call("isDENORM", F32, x).tolist() == [False, True, True, False, False, False, False]
    assert call("cvtToQuietNAN", F32, x[5:6]).tolist() == [0x7FC00001]
    assert call("abs", F32, x[-1:]).tolist() == [0x7FC00000]


def test_classes_are_numbered_as_the_class_mask() -> None:
    x = np.array(
        [0x7F800001, 0x7FC00000, 0xFF800000, 0xBF800000, 0x80000001, 0x80000000, 0, 1, 0x3F800000, 0x7F800000],
        np.uint32,
    )
    assert num.classify(num.F32, x).tolist() == list(range(10))


def exact(name: str, x: float) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        d = Decimal(x)
        if name == "exp2":
            return Decimal(2) ** d
        if name == "log2":
            return d.ln() / Decimal(2).ln()
        return 1 / d if name == "rcp" else 1 / d.sqrt() if name == "rsq" else d.sqrt()


@pytest.mark.parametrize("type", [F16, F32], ids=str)
@pytest.mark.parametrize("name", ["exp2", "log2", "rcp", "rsq", "sqrt"])
def test_functions_are_correctly_rounded(name: str, type: Type) -> None:
    rng = random.Random(3)
    span = 14 if type is F16 else 100
    xs = [rng.uniform(-span, span) if name == "exp2" else 2 ** rng.uniform(-span, span) for _ in range(150)]
    xs = floats(type, *xs).view(NATIVE[type.bits]).tolist()
    for x, got in zip(xs, numbers(name, type, *xs), strict=True):
        want = exact(name, x)
        ulp = Decimal(float(np.spacing(np.array(abs(got), NATIVE[type.bits]))))
        assert abs(Decimal(got) - want) <= ulp * Decimal("0.50001"), x


@pytest.mark.parametrize("name", ["exp2", "log2", "rcp", "rsq", "sqrt"])
def test_double_precision_functions_are_within_an_ulp(name: str) -> None:
    rng = random.Random(4)
    xs = [rng.uniform(-1000, 1000) if name == "exp2" else 2 ** rng.uniform(-1020, 1020) for _ in range(150)]
    worst = Decimal("1.0") if name in ("exp2", "log2") else Decimal("0.5000001")
    for x, got in zip(xs, numbers(name, F64, *xs), strict=True):
        assert abs(Decimal(got) - exact(name, x)) <= Decimal(float(np.spacing(abs(got)))) * worst, x


def test_special_cases_of_functions() -> None:
    inf, nan = math.inf, 0x7FC00000
    assert numbers("exp2", F32, 0.0, 10.0, -1.0, inf, -inf, 200.0) == [1.0, 1024.0, 0.5, inf, 0.0, inf]
    assert numbers("log2", F32, 1.0, 8.0, 0.0, -0.0, inf) == [0.0, 3.0, -inf, -inf, inf]
    assert call("log2", F32, floats(F32, -1.0)).tolist() == [nan]
    assert numbers("rcp", F32, 0.0, -0.0, inf, -inf) == [inf, -inf, 0.0, -0.0]
    assert numbers("rsq", F32, 0.0, -0.0, inf, 4.0) == [inf, -inf, 0.0, 0.5]
    assert call("rsq", F32, floats(F32, -1.0)).tolist() == [nan]
    assert call("sqrt", F32, floats(F32, -0.0, -1.0)).tolist() == [0x80000000, nan]
    assert call("sin", F32, floats(F32, inf)).tolist() == [nan]
    assert numbers("sin", F32, math.pi / 6)[0] == pytest.approx(0.5, rel=1e-6)
    assert numbers("log2", F32, *(2.0**k for k in range(-126, 128))) == [float(k) for k in range(-126, 128)]


@pytest.mark.parametrize("type", [F16, F32, F64], ids=str)
def test_turns_are_exact_at_quarters(type: Type) -> None:
    quarters = [0.0, 0.25, 0.5, 0.75, 1.0, -0.25, -0.5, 17.25, 100.0]
    assert numbers("sin2pi", type, *quarters) == [0, 1, 0, -1, 0, -1, 0, 1, 0]
    assert numbers("cos2pi", type, *quarters) == [1, 0, -1, 0, 1, 0, -1, 0, 1]
    for x in (0.1, 0.3, 0.45, 0.6, 0.9, -0.2, 5.125):
        tolerance = {16: 2e-3, 32: 1e-6, 64: 1e-14}[type.bits]
        given = float(floats(type, x).view(NATIVE[type.bits])[0])
        assert numbers("sin2pi", type, x)[0] == pytest.approx(math.sin(2 * math.pi * given), abs=tolerance)
        assert numbers("cos2pi", type, x)[0] == pytest.approx(math.cos(2 * math.pi * given), abs=tolerance)
    nan = num.format_of(type).nan
    assert call("sin2pi", type, floats(type, math.inf)).tolist() == [nan]
    assert call("cos2pi", type, floats(type, -math.inf)).tolist() == [nan]


# -- integers -----------------------------------------------------------------------------------------------------


def patterns(bits: int) -> list[int]:
    rng = random.Random(bits)
    some = [rng.getrandbits(bits) >> rng.randrange(bits) for _ in range(60)]
    return [*some, 0, 1, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1, ((1 << bits) - 1) ^ 0xFF]


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> bits - 1 else x


def leading(x: int, bits: int, digit: str) -> int:
    text = format(x, f"0{bits}b")
    return len(text) - len(text.lstrip(digit))


COUNTERS: dict[str, Callable[[int, int], int]] = {
    "count_ones": lambda x, bits: x.bit_count(),
    "find_first_one": lambda x, bits: (x & -x).bit_length() - 1,
    "count_leading_zeros": lambda x, bits: leading(x, bits, "0") if x else -1,
    "count_leading_signs": lambda x, bits: (
        -1 if x in (0, (1 << bits) - 1) else leading(x, bits, format(x, f"0{bits}b")[0])
    ),
}


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("name", COUNTERS)
def test_counting_bits(name: str, bits: int) -> None:
    xs = patterns(bits)
    got = call(name, Type("u", bits), np.array(xs, num.container(bits))).view(np.int32).tolist()
    assert got == [COUNTERS[name](x, bits) for x in xs]


@pytest.mark.parametrize("bits", [5, 8, 32, 64, 100])
def test_reversing_bits(bits: int) -> None:
    xs = patterns(bits) if bits >= 8 else list(range(32))
    got = call("reverse_bits", Type("u", bits), np.array(xs, num.container(bits)))
    assert [int(v) for v in got] == [int(format(x, f"0{bits}b")[::-1], 2) for x in xs]


@pytest.mark.parametrize("bits", [32, 64])
def test_sign_extension_from_a_bit(bits: int) -> None:
    xs = patterns(bits)
    for count in (0, 1, 5, 31, 32, 63, 64, 100):
        got = call("signext_from_bit", Type("i", bits), np.array(xs, num.container(bits)), (U32, np.uint32(count)))
        width = min(count, bits)
        want = [signed(x & ((1 << width) - 1), width) & ((1 << bits) - 1) if width else 0 for x in xs]
        assert got.tolist() == want


def test_saturation() -> None:
    xs = np.array([0, 5, 32767, 32768, 65536, 0xFFFFFFFF, 0xFFFF8000, 0xFFFF7FFF, 0x80000000], np.uint32)
    assert call("i32_to_i16", I32, xs).tolist() == [0, 5, 32767, 32767, 32767, 0xFFFF, 0x8000, 0x8000, 0x8000]
    assert call("u32_to_u16", U32, xs).tolist() == [0, 5, 32767, 32768, *[65535] * 5]


def test_byte_permute() -> None:
    data = 0x80_11_7F_33_F4_55_66_77
    want = [0x77, 0x66, 0x55, 0xF4, 0x33, 0x7F, 0x11, 0x80, 0, 0xFF, 0, 0xFF, 0, 0xFF, 0xFF]
    selectors = np.array([*range(14), 200], np.uint16)
    assert call("byte_permute", Type("b", 64), np.uint64(data), (U8, selectors)).tolist() == want
