"""Float functions in native code give the oracle's bits: every function, format and MODE, on shaped inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.float_lab import Case, Lab
from support.float_values import few, patterns

from mockgpu.pcode import numeric as num
from mockgpu.pcode.builtins import builtin
from mockgpu.pcode.ir import F16, F32, F64, I32, Type
from mockgpu.pcode.llvm import float_ops
from mockgpu.pcode.llvm.float_builtins import FLOAT_BUILTINS
from mockgpu.pcode.llvm.values import NotNative
from mockgpu.pcode.numeric import Denorm, Mode, Round

BF16 = Type("bf", 16)
IEEE = (F16, F32, F64)
MODES = (
    Mode(),
    Mode(denorm_f32=Denorm.KEEP, denorm_f16_f64=Denorm.FLUSH, ieee=False, dx10_clamp=False),
    Mode(denorm_f32=Denorm.FLUSH_IN, denorm_f16_f64=Denorm.FLUSH_OUT, fp16_ovfl=True),
    Mode(denorm_f32=Denorm.FLUSH_OUT, denorm_f16_f64=Denorm.FLUSH_IN, fp8_fnuz=True),
)
HOSTS = [("native", 32), ("x86-64-v2", 32), ("native", 1)]
COUNT = 1 << 12

UNARY = (
    "abs", "sign", "exponent", "mantissa", "frexp_exp", "isNAN", "isSignalNAN", "isQuietNAN", "isDENORM",
    "cvtToQuietNAN", "isEven", "floor", "ceil", "trunc", "rndne", "fract", "sqrt", "rcp", "rsq",
)  # fmt: skip
BINARY = ("min_ieee", "max_ieee", "min_num", "max_num")


def _builtin_case(name: str, mode: Mode, *types: Type) -> Case:
    emit, oracle = FLOAT_BUILTINS[name](types), builtin(name, types)
    return Case(f"{name}({', '.join(map(str, types))})", mode, tuple(t.bits for t in types), emit, oracle)


def _operator_cases(type: Type, mode: Mode) -> list[Case]:
    fmt, bits = num.format_of(type), (type.bits,) * 2
    arithmetic = [
        Case(f"{op} {type}", mode, bits, float_ops.binary(op, fmt), num.binary(op, fmt))
        for op in ("add", "sub", "mul", "div")
        if type is not BF16 or op != "div"
    ]
    comparisons = [
        Case(f"{op} {type} raw={raw}", mode, bits, float_ops.compare(op, fmt, raw), num.compare(op, fmt, raw))
        for op in ("eq", "ne", "lt", "le", "gt", "ge", "lg")
        for raw in (False, True)
    ]
    return arithmetic + comparisons


def _modifier_cases(type: Type, mode: Mode) -> list[Case]:
    fmt, bits = num.format_of(type), (type.bits,)

    def omod(field: int) -> Case:
        return Case(
            f"omod {field} {type}",
            mode,
            bits,
            lambda env, x: float_ops.omod(env, fmt, x, field),
            lambda mode, x: num.omod(mode, fmt, x, field),
        )

    clamp = Case(
        f"clamp {type}",
        mode,
        bits,
        lambda env, x: float_ops.clamp(env, fmt, x),
        lambda mode, x: num.clamp(mode, fmt, x),
    )
    return [clamp, *map(omod, (0, 1, 2, 3))]


def _check(cases: list[Case], level: str, lanes: int) -> None:
    lab = Lab(cases, level, lanes)
    for i, case in enumerate(cases):
        lab.check(i, *_arguments(case.bits, i))


def _arguments(bits: tuple[int, ...], seed: int, count: int = COUNT) -> list[Any]:
    """Every pair or triple of special values, then shaped ones."""
    special = np.meshgrid(*(few(n) for n in bits), indexing="ij") if len(bits) > 1 else [few(bits[0])]
    size = -(-special[0].size // 32) * 32
    return [
        np.concatenate([np.resize(s.ravel(), size), patterns(n, count, seed * 8 + k)])
        for k, (s, n) in enumerate(zip(special, bits, strict=True))
    ]


@pytest.mark.parametrize(("level", "lanes"), HOSTS)
@pytest.mark.parametrize("type", [*IEEE, BF16], ids=str)
def test_operators(type: Type, level: str, lanes: int) -> None:
    cases = [case for mode in MODES for case in _operator_cases(type, mode)]
    lab = Lab(cases, level, lanes)
    for i, case in enumerate(cases):
        if type is BF16:
            args = [(x >> np.uint32(16)).astype(np.uint16) for x in _arguments((32, 32), i)]
        else:
            args = _arguments(case.bits, i)
        lab.check(i, *args)


@pytest.mark.parametrize(("level", "lanes"), HOSTS)
@pytest.mark.parametrize("type", IEEE, ids=str)
def test_functions_of_one_and_two_numbers(type: Type, level: str, lanes: int) -> None:
    one = [_builtin_case(name, mode, type) for name in UNARY for mode in MODES]
    two = [_builtin_case(name, mode, type, type) for name in BINARY for mode in MODES]
    modifiers = [case for mode in MODES for case in _modifier_cases(type, mode)]
    _check(one + two + modifiers, level, lanes)


@pytest.mark.parametrize(("level", "lanes"), HOSTS)
@pytest.mark.parametrize("type", IEEE, ids=str)
def test_multiply_add(type: Type, level: str, lanes: int) -> None:
    if type is F64 and level == "x86-64-v2":
        with pytest.raises(NotNative, match="fma of f64"):
            Lab([_builtin_case("fma", Mode(), type, type, type)], level)
        return
    _check([_builtin_case("fma", mode, type, type, type) for mode in MODES], level, lanes)


@pytest.mark.parametrize(("level", "lanes"), HOSTS)
@pytest.mark.parametrize("type", IEEE, ids=str)
def test_scaling(type: Type, level: str, lanes: int) -> None:
    cases = [_builtin_case("ldexp", mode, type, I32) for mode in MODES]
    lab = Lab(cases, level, lanes)
    for i in range(len(cases)):
        x = patterns(type.bits, COUNT, i)
        lab.check(i, x, _powers(type.bits, len(x), i))


def _powers(bits: int, count: int, seed: int, wild: float = 0.1) -> Any:
    """Exponents within and around the range of a format, and a share of any integers."""
    rng = np.random.default_rng(seed)
    span = {16: 45, 32: 300, 64: 2200}[bits]
    out = rng.integers(-span, span + 1, count)
    far = rng.integers(-(1 << 31), 1 << 31, count)
    return np.where(rng.random(count) < wild, far, out).astype(np.int32).view(np.uint32)


@pytest.mark.parametrize(("level", "lanes"), HOSTS)
def test_scaled_multiply_add(level: str, lanes: int) -> None:
    type = F32
    cases = [_builtin_case("fma_ldexp", mode, type, type, type, I32) for mode in MODES]
    lab = Lab(cases, level, lanes)
    for i in range(len(cases)):
        a, b, c = (patterns(type.bits, COUNT // 8, i * 3 + k) for k in range(3))
        lab.check(i, a, b, c, _powers(type.bits, len(a), i, wild=0.0))


DIRECTED = tuple(
    Mode(r, r, denorm, Denorm.KEEP, fp16_ovfl=r is Round.ZERO)
    for r, denorm in ((Round.PLUS_INF, Denorm.KEEP), (Round.MINUS_INF, Denorm.KEEP), (Round.ZERO, Denorm.FLUSH))
)
SLOW = 1 << 9


@pytest.mark.parametrize("level", ["native", "x86-64-v2"])
@pytest.mark.parametrize("type", IEEE, ids=str)
def test_other_rounding_modes(type: Type, level: str) -> None:
    fmt, bits = num.format_of(type), (type.bits,)
    names = ("add", "sub") if type is F64 else ("add", "sub", "mul", "div")
    cases = [
        Case(f"{op} {type}", mode, bits * 2, float_ops.binary(op, fmt), num.binary(op, fmt))
        for op in names
        for mode in DIRECTED
    ]
    others = ("rsq", "fract", "rndne") if type is F64 else ("sqrt", "rsq", "rcp", "fract", "rndne", "exp2", "log2")
    cases += [_builtin_case(name, mode, type) for name in others for mode in DIRECTED]
    if type is not F64:
        cases += [_builtin_case("fma", mode, type, type, type) for mode in DIRECTED]
    lab = Lab(cases, level)
    for i, case in enumerate(cases):
        lab.check(i, *_arguments(case.bits, i, SLOW))


@pytest.mark.parametrize("op", ["mul", "div"])
def test_double_precision_products_have_no_native_form_in_other_rounding_modes(op: str) -> None:
    with pytest.raises(NotNative, match="rounding PLUS_INF"):
        Lab([Case(op, DIRECTED[0], (64, 64), float_ops.binary(op, num.F64), num.binary(op, num.F64))])
