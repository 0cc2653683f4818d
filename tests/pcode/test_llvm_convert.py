"""Conversions in native code give the oracle's bits: every pair of types under every MODE, on shaped inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import shaped
from support.float_lab import Case, Lab
from support.float_values import patterns

from mockgpu.pcode import oracle_ops
from mockgpu.pcode.builtins import builtin
from mockgpu.pcode.ir import F16, F32, F64, Type
from mockgpu.pcode.llvm.convert import cast_floats
from mockgpu.pcode.llvm.convert_small import small_functions
from mockgpu.pcode.llvm.float_builtins import FLOAT_BUILTINS
from mockgpu.pcode.numeric import Denorm, Mode, Round, container

BF16, FP8, BF8 = Type("bf", 16), Type("fp8", 8), Type("bf8", 8)
FLOATS = (F16, F32, F64, BF16, FP8, BF8)
INTEGERS = tuple(Type(kind, bits) for kind in ("u", "i") for bits in (8, 16, 24, 32, 64))
MODES = (
    Mode(),
    Mode(denorm_f32=Denorm.KEEP, denorm_f16_f64=Denorm.FLUSH, fp16_ovfl=True),
    Mode(fp8_fnuz=True),
    Mode(fp8_fnuz=True, fp16_ovfl=True),
)
DIRECTED = tuple(Mode(r, r, fp16_ovfl=r is Round.ZERO) for r in (Round.PLUS_INF, Round.MINUS_INF, Round.ZERO))
HOSTS = [("native", 32), ("x86-64-v2", 32)]
COUNT = 1 << 12


def _cast(source: Type, target: Type, mode: Mode) -> Case:
    return Case(
        f"{source} to {target}",
        mode,
        (source.bits,),
        lambda env, x: cast_floats(env, source, target, x),
        oracle_ops.cast(source, target),
    )


def _values(type: Type, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if type.bits == 8:
        return np.resize(np.arange(256, dtype=np.uint16), COUNT)
    if type.is_float and type.kind == "f":
        return patterns(type.bits, COUNT, seed)
    word = container(type.bits)
    if type.kind == "bf":
        return (patterns(32, COUNT, seed) >> np.uint32(16)).astype(word)
    special = np.array(shaped.integers(type.bits), word)
    return np.concatenate([special, shaped.runs(rng, type.bits, COUNT - len(special)).astype(word)])


def _check(cases: list[Case], sources: list[Type], level: str, lanes: int) -> None:
    lab = Lab(cases, level, lanes)
    for i, source in enumerate(sources):
        lab.check(i, _values(source, i))


@pytest.mark.parametrize(("level", "lanes"), HOSTS)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_float_to_float(source: Type, level: str, lanes: int) -> None:
    cases = [_cast(source, target, mode) for target in FLOATS for mode in (*MODES, *DIRECTED)]
    _check(cases, [source] * len(cases), level, lanes)


@pytest.mark.parametrize(("level", "lanes"), HOSTS)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_float_to_integer(source: Type, level: str, lanes: int) -> None:
    cases = [_cast(source, target, mode) for target in (*INTEGERS, Type("u", 1)) for mode in MODES[::2]]
    _check(cases, [source] * len(cases), level, lanes)


@pytest.mark.parametrize(("level", "lanes"), HOSTS)
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integer_to_float(source: Type, level: str, lanes: int) -> None:
    modes = (*MODES, *DIRECTED)
    cases = [_cast(source, target, m) for target in FLOATS for m in modes if source.bits < 64 or target is not F64]
    cases += [_cast(source, F64, m) for m in MODES if source.bits == 64]
    _check(cases, [source] * len(cases), level, lanes)


@pytest.mark.parametrize(("level", "lanes"), HOSTS)
def test_conversions_by_name(level: str, lanes: int) -> None:
    names = [(f"{type}_to_{kind}", type) for type in (F16, F32) for kind in ("snorm", "unorm")]
    names += [(f"f32_to_{t}_{how}", F32) for t in ("f16", "bf16", "fp8", "bf8") for how in ("rtz", "rne")]
    cases = [
        Case(name, mode, (type.bits,), FLOAT_BUILTINS[name]((type,)), builtin(name, (type,)))
        for name, type in names
        for mode in MODES
    ]
    _check(cases, [type for _, type in names for _ in MODES], level, lanes)


_BITS = {"f32": 32, "f16": 16, "bf16": 16, "fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}


def _scales(count: int, seed: int) -> Any:
    """Mostly near one (127), and every other."""
    rng = np.random.default_rng(seed)
    near = rng.integers(115, 140, count)
    return np.where(rng.random(count) < 0.2, rng.integers(0, 256, count), near).astype(np.uint16)


@pytest.mark.parametrize("level", ["native", "x86-64-v2"])
def test_stochastic_and_scaled_conversions(level: str) -> None:
    names = sorted(small_functions())
    cases = [
        Case(name, mode, _small_bits(name), FLOAT_BUILTINS[name](()), builtin(name, (F32,)))
        for name in names
        for mode in (MODES[1::2] if level == "native" else MODES[:1])
    ]
    lab = Lab(cases, level)
    for i, case in enumerate(cases):
        lab.check(i, *_small_arguments(case, i))


def _small_bits(name: str) -> tuple[int, ...]:
    random = (32,) if "_sr" in name else ()
    scale = (8,) if name.endswith("_scale") else ()
    return (_BITS[name.split("_")[0]], *random, *scale)


def _small_arguments(case: Case, seed: int) -> list[Any]:
    rng, count = np.random.default_rng(seed), 1 << 10
    source, bits = case.name.split("_")[0], case.bits[0]
    if bits <= 8:
        first = rng.integers(0, 1 << bits, count).astype(np.uint16)
    elif source == "bf16":
        first = (patterns(32, count, seed) >> np.uint32(16)).astype(np.uint16)
    else:
        first = patterns(bits, count, seed)
    rest = [rng.integers(0, 1 << 32, count, np.uint64).astype(np.uint32)] if 32 in case.bits[1:] else []
    return [first, *rest, *([_scales(count, seed)] if case.bits[-1] == 8 and len(case.bits) > 1 else [])]
