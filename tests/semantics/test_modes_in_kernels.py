"""MODE changed inside a kernel, FP16_OVFL, and lanes that hold garbage."""

from __future__ import annotations

import numpy as np
import pytest
from support import exact, shaped
from support.exact import F16, F32, F64, HSA, PLAIN, Format, Mode
from support.lanes import RESULT, compute, run
from support.llvm_mc import require_llvm
from support.verdict import assert_same

require_llvm()

RDNA, CDNA = ("gfx1100", "gfx1201"), ("gfx942", "gfx950")
ALL = RDNA + CDNA
NAMES = {"f16": F16, "f32": F32, "f64": F64}


def change(arch: str, mode: Mode, how: str) -> str:
    """Instructions that set the rounding and denormal fields."""
    low = mode.register & 0xFF
    if how == "imm":
        return f"s_setreg_imm32_b32 hwreg(HW_REG_{register(arch)}, 0, 8), {low:#x}\n"
    if how == "reg":
        return f"s_mov_b32 s4, {low:#x}\ns_setreg_b32 hwreg(HW_REG_{register(arch)}, 0, 8), s4\n"
    return f"s_round_mode {low & 15:#x}\ns_denorm_mode {low >> 4:#x}\n"


def register(arch: str) -> str:
    return "WAVE_MODE" if arch == "gfx1201" else "MODE"


@pytest.mark.parametrize(
    ("arch", "how"), [(a, h) for a in ALL for h in ("imm", "reg", "own") if a in RDNA or h != "own"]
)
@pytest.mark.parametrize("fmt", NAMES)
def test_each_instruction_obeys_the_mode_of_its_time(arch: str, how: str, fmt: str) -> None:
    """The same sum and product in all rounding modes and denormal modes, one after the other in one kernel."""
    number = NAMES[fmt]
    a, b = shaped.float_pairs(number, count=60)
    modes = [Mode(round32=r, round64=3 - r, denorm32=3 - r, denorm64=r) for r in range(4)]
    wide = number is F64
    x, y = ("v[2:3]", "v[8:9]") if wide else ("v2", "v8")
    text = ""
    for n, mode in enumerate(modes):
        sums, products = ((f"v[{r}:{r + 1}]" if wide else f"v{r}") for r in (RESULT + 4 * n, RESULT + 4 * n + 2))
        text += change(arch, mode, how) + f"v_add_{fmt} {sums}, {x}, {y}\nv_mul_{fmt} {products}, {x}, {y}\n"
    ran = run(arch, text, vectors={2: a, 8: b}, mode=HSA.register)
    for n, mode in enumerate(modes):
        for k, step in ((0, exact.add), (2, exact.mul)):
            reg = RESULT + 4 * n + k
            seen = ran.pairs(reg) if wide else ran.words(reg) & np.uint32((1 << number.bits) - 1)
            expected = exact.each(number, lambda p, q, f=step, m=mode: f(number, m, p, q), a, b)
            assert_same(seen, expected, a, b, note=f"{arch} {mode}")


@pytest.mark.parametrize("arch", ALL)
def test_conversions_obey_the_rounding_of_their_destination(arch: str) -> None:
    x = np.concatenate([shaped.float_ones(F32), shaped.near(np.random.default_rng(2), F32, 400)])
    d = x.astype(np.uint64) << np.uint64(32) | np.uint64(0x12345678)
    d = np.array([v if F64.is_finite(int(v)) else F64.one for v in d], np.uint64)
    for rounding in range(4):
        mode = Mode(round32=rounding, round64=(rounding + 1) % 4)
        seen = compute(arch, "v_cvt_f16_f32 {d}, {a}", x, bits=16, mode=mode.register)
        assert_same(seen, exact.each(F16, lambda v, m=mode: exact.convert(F32, F16, m, v), x), x, note=str(mode))
        seen = compute(arch, "v_cvt_f32_f64 {d}, {a}", d, mode=mode.register)
        assert_same(seen, exact.each(F32, lambda v, m=mode: exact.convert(F64, F32, m, v), d), d, note=str(mode))


@pytest.mark.parametrize("arch", ALL)
def test_overflow_of_halves_saturates_on_request(arch: str) -> None:
    """FP16_OVFL: a result that overflows becomes the largest number; infinite operands still give infinities."""
    mode = Mode(fp16_ovfl=True)
    a, b = shaped.float_pairs(F16)
    for op, step in (("add", exact.add), ("mul", exact.mul)):
        seen = compute(arch, f"v_{op}_f16 {{d}}, {{a}}, {{b}}", a, b, bits=16, mode=mode.register)
        assert_same(seen, exact.each(F16, lambda p, q, f=step: f(F16, mode, p, q), a, b), a, b, note=op)
    a, b, c = shaped.float_triples(F16)
    seen = compute(arch, "v_fma_f16 {d}, {a}, {b}, {c}", a, b, c, bits=16, mode=mode.register)
    assert_same(seen, exact.each(F16, lambda *x: exact.fma(F16, mode, *x), a, b, c), a, b, c)
    x = np.concatenate([shaped.float_ones(F32), np.array([0x477FE000, 0x477FF000, 0x47800000, 0xC7800000], np.uint32)])
    seen = compute(arch, "v_cvt_f16_f32 {d}, {a}", x, bits=16, mode=mode.register)
    assert_same(seen, exact.each(F16, lambda v: exact.convert(F32, F16, mode, v, ovfl=True), x), x)


# -- inactive lanes ---------------------------------------------------------------------------------------------------

DIVERGENT = [
    ("v_div_scale_f32 {d}, {m}, {a}, {b}, {a}", F32, 2),
    ("v_div_fixup_f32 {d}, {a}, {b}, {c}", F32, 3),
    ("v_div_fixup_f64 {d}, {a}, {b}, {c}", F64, 3),
    ("v_cvt_i32_f32 {d}, {a}", F32, 1),
    ("v_ldexp_f32 {d}, {a}, {b}", F32, 2),
    ("v_fma_f64 {d}, {a}, {b}, {c}", F64, 3),
    ("v_rsq_f64 {d}, {a}", F64, 1),
    ("v_trig_preop_f64 {d}, {a}, 7", F64, 1),
    ("v_bfe_i32 {d}, {a}, {b}, {c}", F32, 3),
    ("v_perm_b32 {d}, {a}, {b}, {c}", F32, 3),
    ("v_med3_i32 {d}, {a}, {b}, {c}", F32, 3),
    ("v_cubeid_f32 {d}, {a}, {b}, {c}", F32, 3),
    ("v_sad_u8 {d}, {a}, {b}, {c}", F32, 3),
    ("v_lshlrev_b64 {d}, 5, {a}", F64, 1),
    ("v_rcp_f32 {d}, {a}", F32, 1),
]


@pytest.mark.parametrize(("text", "fmt", "count"), DIVERGENT, ids=[d[0].split()[0] for d in DIVERGENT])
def test_results_do_not_depend_on_inactive_lanes(text: str, fmt: Format, count: int) -> None:
    """Active lanes give the same whatever the others hold, and the others keep what they had."""
    sources = shaped.float_pairs(fmt, count=60) if count < 3 else shaped.float_triples(fmt, count=60)
    sources = sources[:count]
    size = len(sources[0])
    rng = np.random.default_rng(5)
    active = rng.random(size) < 0.5
    old = rng.integers(0, 1 << 32, size).astype(fmt.word)
    fillings = [
        np.zeros(size, fmt.word),
        np.full(size, (1 << fmt.bits) - 1, fmt.word),
        np.full(size, fmt.inf | 1, fmt.word),
        sources[0][rng.permutation(size)],
    ]
    for arch in ALL:
        whole = text.replace("{m}", "s20" if arch in RDNA else "s[20:21]")
        everywhere = compute(arch, whole, *sources, bits=fmt.bits, old=old, mode=PLAIN.register)
        for filling in fillings:
            given = [np.where(active, x, filling) for x in sources]
            seen = compute(arch, whole, *given, bits=fmt.bits, old=old, lanes=active, mode=PLAIN.register)
            assert_same(seen, np.where(active, everywhere, old), *given, note=f"{arch} {whole}")


@pytest.mark.parametrize("arch", ALL)
def test_no_active_lane_at_all(arch: str) -> None:
    a, b = shaped.float_pairs(F32, count=10)
    old = np.arange(len(a), dtype=np.uint32)
    for text in ("v_add_f32 {d}, {a}, {b}", "v_rcp_f32 {d}, {a}", "v_mul_lo_u32 {d}, {a}, {b}"):
        seen = compute(arch, text, a, b, old=old, lanes=np.zeros(len(a), np.bool_), mode=PLAIN.register)
        assert_same(seen, old, a, b, note=text)
