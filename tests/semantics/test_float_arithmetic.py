"""Sums, products and multiply-adds in f16, f32 and f64 against exact fractions, in every MODE."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support import exact, shaped
from support.exact import F16, F32, F64, HSA, PLAIN, Format, Mode
from support.lanes import compute
from support.llvm_mc import require_llvm
from support.verdict import assert_same

require_llvm()

RDNA, CDNA = ("gfx1100", "gfx1201"), ("gfx942", "gfx950")
ALL = RDNA + CDNA
NAMES = {F16: "f16", F32: "f32", F64: "f64"}
REVERSED = lambda step: lambda fmt, mode, a, b: step(fmt, mode, b, a)  # noqa: E731
TWO: dict[str, Callable[..., int]] = {
    "add": exact.add,
    "sub": exact.sub,
    "subrev": REVERSED(exact.sub),
    "mul": exact.mul,
}


def check_two(arch: str, op: str, fmt: Format, mode: Mode, suffix: str = "", count: int = 250) -> None:
    a, b = shaped.float_pairs(fmt, count=count)
    text = f"v_{op}_{NAMES[fmt]}{suffix} {{d}}, {{a}}, {{b}}"
    seen = compute(arch, text, a, b, bits=fmt.bits, mode=mode.register)
    expected = exact.each(fmt, lambda x, y: TWO[op](fmt, mode, x, y), a, b)
    assert_same(seen, expected, a, b, note=f"{arch} {text} {mode}")


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("fmt", [F16, F32], ids=NAMES.get)
@pytest.mark.parametrize("op", TWO)
def test_sums_and_products(arch: str, op: str, fmt: Format) -> None:
    check_two(arch, op, fmt, PLAIN if arch in RDNA else HSA)


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("op", ["add", "mul"])
def test_double_sums_and_products(arch: str, op: str) -> None:
    check_two(arch, op, F64, PLAIN)


ROUNDINGS = [Mode(round32=r, round64=(r + 1) % 4) for r in range(4)]
DENORMALS = [Mode(denorm32=d, denorm64=3 - d, round32=d) for d in range(4)]


@pytest.mark.parametrize("mode", ROUNDINGS + DENORMALS, ids=lambda m: f"{m.register:x}")
@pytest.mark.parametrize("fmt", [F16, F32, F64], ids=NAMES.get)
def test_modes_of_rounding_and_denormals(fmt: Format, mode: Mode) -> None:
    for op in ("add", "mul"):
        check_two("gfx1100", op, fmt, mode, count=150)
    check_fma("gfx1100", "v_fma_{} {{d}}, {{a}}, {{b}}, {{c}}", fmt, mode, count=150)


def check_fma(arch: str, template: str, fmt: Format, mode: Mode, count: int = 250) -> None:
    a, b, c = shaped.float_triples(fmt, count=count)
    text = template.format(NAMES[fmt])
    old = c if "{c}" not in text else None
    operands = (a, b) if old is not None else (a, b, c)
    seen = compute(arch, text, *operands, bits=fmt.bits, old=old, mode=mode.register)
    expected = exact.each(fmt, lambda x, y, z: exact.fma(fmt, mode, x, y, z), a, b, c)
    assert_same(seen, expected, a, b, c, note=f"{arch} {text} {mode}")


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("fmt", [F16, F32, F64], ids=NAMES.get)
def test_fused_multiply_add(arch: str, fmt: Format) -> None:
    check_fma(arch, "v_fma_{} {{d}}, {{a}}, {{b}}, {{c}}", fmt, PLAIN)


@pytest.mark.parametrize(
    ("arch", "fmt"),
    [(arch, fmt) for arch in RDNA for fmt in (F16, F32)] + [(arch, fmt) for arch in CDNA for fmt in (F32, F64)],
    ids=str,
)
def test_multiply_accumulate(arch: str, fmt: Format) -> None:
    check_fma(arch, "v_fmac_{} {{d}}, {{a}}, {{b}}", fmt, PLAIN)


@pytest.mark.parametrize("arch", ALL)
def test_multiply_add_with_constants(arch: str) -> None:
    """The constant is the addend (ak) or a factor (mk)."""
    a, b = shaped.float_pairs(F32)
    constant = 0x40490FDB
    seen = compute(arch, f"v_fmaak_f32 {{d}}, {{a}}, {{b}}, {constant:#x}", a, b, mode=PLAIN.register)
    assert_same(seen, exact.each(F32, lambda x, y: exact.fma(F32, PLAIN, x, y, constant), a, b), a, b)
    seen = compute(arch, f"v_fmamk_f32 {{d}}, {{a}}, {constant:#x}, {{b}}", a, b, mode=PLAIN.register)
    assert_same(seen, exact.each(F32, lambda x, y: exact.fma(F32, PLAIN, x, constant, y), a, b), a, b)


# -- packed -----------------------------------------------------------------------------------------------------------


def _packed_halves(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return words & 0xFFFF, words >> 16


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("op", ["add", "mul"])
def test_packed_halves(arch: str, op: str) -> None:
    low_a, low_b = shaped.float_pairs(F16)
    rng = np.random.default_rng(7)
    order = rng.permutation(len(low_a))
    a, b = low_a | low_a[order] << 16, low_b | low_b[order] << 16
    seen = compute(arch, f"v_pk_{op}_f16 {{d}}, {{a}}, {{b}}", a, b, mode=PLAIN.register)
    low = exact.each(F16, lambda x, y: TWO[op](F16, PLAIN, x, y), low_a, low_b)
    assert_same(seen, low | low[order] << np.uint32(16), a, b)


@pytest.mark.parametrize("arch", ALL)
def test_packed_fused_multiply_add_with_op_sel_and_neg(arch: str) -> None:
    a, b, c = shaped.float_triples(F16)
    order = np.random.default_rng(8).permutation(len(a))
    wide = [x | x[order] << np.uint32(16) for x in (a, b, c)]
    text = "v_pk_fma_f16 {d}, {a}, {b}, {c} op_sel:[1,0,0] op_sel_hi:[0,1,1] neg_lo:[0,1,0] neg_hi:[0,0,1]"
    seen = compute(arch, text, *wide, mode=PLAIN.register)
    low = exact.each(F16, lambda x, y, z: exact.fma(F16, PLAIN, x, y ^ 0x8000, z), a[order], b, c)
    high = exact.each(F16, lambda x, y, z: exact.fma(F16, PLAIN, x, y, z ^ 0x8000), a, b[order], c[order])
    assert_same(seen, low | high << np.uint32(16), *wide)


@pytest.mark.parametrize("arch", CDNA)
@pytest.mark.parametrize("op", ["add", "mul", "fma"])
def test_packed_singles(arch: str, op: str) -> None:
    count = 3 if op == "fma" else 2
    parts = shaped.float_triples(F32) if op == "fma" else shaped.float_pairs(F32)
    order = np.random.default_rng(9).permutation(len(parts[0]))
    wide = [p.astype(np.uint64) | p[order].astype(np.uint64) << np.uint64(32) for p in parts]
    names = ", ".join(f"{{{letter}}}" for letter in "abc"[:count])
    seen = compute(arch, f"v_pk_{op}_f32 {{d}}, {names}", *wide, bits=64, mode=PLAIN.register)
    step = exact.fma if op == "fma" else TWO[op]
    low = exact.each(F32, lambda *x: step(F32, PLAIN, *x), *parts).astype(np.uint64)
    assert_same(seen, low | low[order] << np.uint64(32), *wide)


# -- legacy products --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arch", "name"), [("gfx1100", "dx9_zero"), ("gfx1201", "dx9_zero"), ("gfx942", "legacy")])
def test_legacy_product_of_zero_is_zero(arch: str, name: str) -> None:
    a, b = shaped.float_pairs(F32)

    def expected(x: int, y: int) -> int:
        flushed = [exact.flushed_in(F32, HSA, v) for v in (x, y)]
        return 0 if any(v & 0x7FFFFFFF == 0 for v in flushed) else exact.mul(F32, HSA, x, y)

    seen = compute(arch, f"v_mul_{name}_f32 {{d}}, {{a}}, {{b}}", a, b, mode=HSA.register)
    assert_same(seen, exact.each(F32, expected, a, b), a, b)


@pytest.mark.parametrize("arch", RDNA)
def test_legacy_multiply_add(arch: str) -> None:
    """Where a factor is zero the result is the third operand as it is."""
    a, b, c = shaped.float_triples(F32)

    def expected(x: int, y: int, z: int) -> int:
        zero = x & 0x7FFFFFFF == 0 or y & 0x7FFFFFFF == 0
        return z if zero else exact.fma(F32, PLAIN, x, y, z)

    seen = compute(arch, "v_fma_dx9_zero_f32 {d}, {a}, {b}, {c}", a, b, c, mode=PLAIN.register)
    assert_same(seen, exact.each(F32, expected, a, b, c), a, b, c)


@pytest.mark.parametrize("fmt", [F16, F32, F64], ids=NAMES.get)
def test_result_does_not_depend_on_the_encoding(fmt: Format) -> None:
    a, b = shaped.float_pairs(fmt, count=100)
    if fmt is F64:
        texts = ["v_add_f64 {d}, {a}, {b}", "v_fma_f64 {d}, {a}, 1.0, {b}"]
    else:
        texts = [f"v_add_{NAMES[fmt]}_e32 {{d}}, {{a}}, {{b}}", f"v_add_{NAMES[fmt]}_e64 {{d}}, {{a}}, {{b}}"]
    first, second = (compute("gfx1100", t, a, b, bits=fmt.bits, mode=PLAIN.register) for t in texts)
    assert_same(first, second, a, b)
