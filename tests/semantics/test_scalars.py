"""Scalar instructions against Python's integers: results and SCC, one case per wave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from support import shaped
from support.lanes import run
from support.llvm_mc import require_llvm
from support.verdict import assert_same

require_llvm()

RDNA, CDNA = ("gfx1100", "gfx1201"), ("gfx942", "gfx950")
ALL = RDNA + CDNA
M32, M64 = (1 << 32) - 1, (1 << 64) - 1

#: What an operation gives: the result, and SCC or None where it is left alone.
Outcome = tuple[int, bool | None]


def s(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def nonzero(x: int, bits: int) -> Outcome:
    """Logic operations: SCC tells whether the result is not zero."""
    x &= (1 << bits) - 1
    return x, x != 0


def overflow(x: int) -> Outcome:
    return x & M32, not -(1 << 31) <= x < 1 << 31


def field(x: int, control: int, bits: int, signed: bool) -> Outcome:
    offset, width = control & (bits - 1), control >> 16 & 0x7F
    every = (1 << min(width, bits)) - 1
    out = x >> offset & every
    if width + offset > bits and signed:
        out = s(x, bits) >> offset & every
    if signed and width and out >> (min(width, bits) - 1) & 1:
        out |= ((1 << bits) - 1) ^ every
    return nonzero(out if width else 0, bits)


def first(x: int) -> int:
    return (x & -x).bit_length() - 1 if x else M32


def leading(x: int, bits: int) -> int:
    return bits - x.bit_length() if x else M32


def leading_signs(x: int, bits: int) -> int:
    text = format(x, f"0{bits}b")
    return next((n for n, c in enumerate(text) if c != text[0]), M32)


def reverse(x: int, bits: int) -> int:
    return int(format(x, f"0{bits}b")[::-1], 2)


def quads(x: int, bits: int, whole: bool) -> int:
    out = 0
    for n in range(bits // 4):
        if x >> 4 * n & 15:
            out |= 15 << 4 * n if whole else 1 << n
    return out


@dataclass(frozen=True)
class Case:
    name: str
    widths: tuple[int, ...]
    bits: int
    result: Callable[..., Outcome]
    archs: tuple[str, ...] = ALL
    cdna: str = ""
    old: bool = False  # the destination's former content is the last argument


WW, DD, W = (32, 32), (64, 64), (32,)


LOGIC: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "and": ("and", lambda a, b: a & b),
    "or": ("or", lambda a, b: a | b),
    "xor": ("xor", lambda a, b: a ^ b),
    "nand": ("nand", lambda a, b: ~(a & b)),
    "nor": ("nor", lambda a, b: ~(a | b)),
    "xnor": ("xnor", lambda a, b: ~(a ^ b)),
    "and_not1": ("andn2", lambda a, b: a & ~b),
    "or_not1": ("orn2", lambda a, b: a | ~b),
}


def of_width(w: int) -> list[Case]:
    """The operations that exist on 32 and on 64 bits."""
    two, one, shift = ((w, w), (w,), (w, 32))
    low, every = w - 1, (1 << w) - 1
    wide = "_i64" if w == 64 else ""
    return [
        *(
            Case(f"{name}_b{w}", two, w, lambda a, b, f=f: nonzero(f(a, b), w), cdna=f"{cdna}_b{w}")
            for name, (cdna, f) in LOGIC.items()
        ),
        Case(f"not_b{w}", one, w, lambda a: nonzero(~a, w)),
        Case(f"wqm_b{w}", one, w, lambda a: nonzero(quads(a, w, True), w)),
        Case(f"quadmask_b{w}", one, w, lambda a: nonzero(quads(a, w, False), w)),
        Case(f"brev_b{w}", one, w, lambda a: (reverse(a, w), None)),
        Case(f"bcnt0_i32_b{w}", one, 32, lambda a: nonzero(w - a.bit_count(), 32)),
        Case(f"bcnt1_i32_b{w}", one, 32, lambda a: nonzero(a.bit_count(), 32)),
        Case(f"lshl_b{w}", shift, w, lambda a, b: nonzero(a << (b & low), w)),
        Case(f"lshr_b{w}", shift, w, lambda a, b: nonzero(a >> (b & low), w)),
        Case(f"ashr_i{w}", shift, w, lambda a, b: nonzero(s(a, w) >> (b & low), w)),
        Case(f"bfe_u{w}", shift, w, lambda a, b: field(a, b, w, False)),
        Case(f"bfe_i{w}", shift, w, lambda a, b: field(a, b, w, True)),
        Case(f"bfm_b{w}", WW, w, lambda a, b: (((1 << (a & low)) - 1) << (b & low) & every, None)),
        Case(f"cselect_b{w}", two, w, lambda a, b, scc: (a if scc else b, None)),
        Case(f"bitset0_b{w}", W, w, lambda a, old: (old & ~(1 << (a & low)), None), old=True),
        Case(f"bitset1_b{w}", W, w, lambda a, old: (old | 1 << (a & low), None), old=True),
        Case(f"ctz_i32_b{w}", one, 32, lambda a: (first(a), None), cdna=f"ff1_i32_b{w}"),
        Case(f"clz_i32_u{w}", one, 32, lambda a: (leading(a, w), None), cdna=f"flbit_i32_b{w}"),
        Case(f"cls_i32{wide}", one, 32, lambda a: (leading_signs(a, w), None), cdna=f"flbit_i32{wide}"),
    ]


def shift_add(n: int) -> Case:
    return Case(f"lshl{n}_add_u32", WW, 32, lambda a, b: (((a << n) + b) & M32, (a << n) + b > M32))


CASES = [
    *of_width(32),
    *of_width(64),
    Case("add_u32", WW, 32, lambda a, b: ((a + b) & M32, a + b > M32)),
    Case("sub_u32", WW, 32, lambda a, b: ((a - b) & M32, b > a)),
    Case("add_i32", WW, 32, lambda a, b: overflow(s(a) + s(b))),
    Case("sub_i32", WW, 32, lambda a, b: overflow(s(a) - s(b))),
    Case("addc_u32", WW, 32, lambda a, b, scc: ((a + b + scc) & M32, a + b + scc > M32)),
    Case("subb_u32", WW, 32, lambda a, b, scc: ((a - b - scc) & M32, b + scc > a)),
    Case("absdiff_i32", WW, 32, lambda a, b: nonzero(abs(s(s(a) - s(b))), 32)),
    Case("abs_i32", W, 32, lambda a: nonzero(abs(s(a)), 32)),
    Case("mul_i32", WW, 32, lambda a, b: (a * b & M32, None)),
    Case("mul_hi_u32", WW, 32, lambda a, b: (a * b >> 32, None)),
    Case("mul_hi_i32", WW, 32, lambda a, b: (s(a) * s(b) >> 32 & M32, None)),
    *map(shift_add, range(1, 5)),
    Case("min_u32", WW, 32, lambda a, b: (min(a, b), a < b)),
    Case("min_i32", WW, 32, lambda a, b: (min(s(a), s(b)) & M32, s(a) < s(b))),
    Case("max_u32", WW, 32, lambda a, b: (max(a, b), a > b), RDNA),
    Case("max_i32", WW, 32, lambda a, b: (max(s(a), s(b)) & M32, s(a) > s(b)), RDNA),
    Case("max_u32", WW, 32, lambda a, b: (max(a, b), a >= b), CDNA),
    Case("max_i32", WW, 32, lambda a, b: (max(s(a), s(b)) & M32, s(a) >= s(b)), CDNA),
    Case("pack_ll_b32_b16", WW, 32, lambda a, b: (a & 0xFFFF | (b & 0xFFFF) << 16, None)),
    Case("pack_lh_b32_b16", WW, 32, lambda a, b: (a & 0xFFFF | b & 0xFFFF0000, None)),
    Case("pack_hh_b32_b16", WW, 32, lambda a, b: (a >> 16 | b & 0xFFFF0000, None)),
    Case("pack_hl_b32_b16", WW, 32, lambda a, b: (a >> 16 | (b & 0xFFFF) << 16, None), RDNA),
    Case("sext_i32_i8", W, 32, lambda a: (s(a, 8) & M32, None)),
    Case("sext_i32_i16", W, 32, lambda a: (s(a, 16) & M32, None)),
    Case("bitreplicate_b64_b32", W, 64, lambda a: (sum(3 << 2 * n for n in range(32) if a >> n & 1), None)),
    Case("add_nc_u64", DD, 64, lambda a, b: ((a + b) & M64, None), ("gfx1201",), "add_nc_u64"),
    Case("sub_nc_u64", DD, 64, lambda a, b: ((a - b) & M64, None), ("gfx1201",), "sub_nc_u64"),
    Case("mul_u64", DD, 64, lambda a, b: (a * b & M64, None), ("gfx1201",), "mul_u64"),
]
RENAMED = {
    "gfx1201": {"add_u32": "add_co_u32", "sub_u32": "sub_co_u32", "add_i32": "add_co_i32", "sub_i32": "sub_co_i32",
                "addc_u32": "add_co_ci_u32", "subb_u32": "sub_co_ci_u32"},
}  # fmt: skip


def spelled(case: Case, arch: str) -> str:
    if arch in CDNA and case.cdna:
        return case.cdna
    return RENAMED.get(arch, {}).get(case.name, case.name)


def pair(first: int, bits: int) -> str:
    return f"s{first}" if bits == 32 else f"s[{first}:{first + 1}]"


ROWS = [pytest.param(arch, c, id=f"{arch}-{c.name}") for c in CASES for arch in c.archs]


@pytest.mark.parametrize(("arch", "case"), ROWS)
def test_scalar_instructions(arch: str, case: Case) -> None:
    sources = shaped.integer_tuples(*case.widths, count=60)
    rng = np.random.default_rng(3)
    if len(sources[0]) > 200:
        chosen = rng.permutation(len(sources[0]))[:200]
        sources = [x[chosen] for x in sources]
    if case.name.startswith("bfe"):
        places, widths = (rng.integers(0, n, len(sources[0])) for n in (case.bits, case.bits + 1))
        sources[1] = (places | widths << 16).astype(np.uint32)
    count = len(sources[0])
    scc = rng.integers(0, 2, count)
    scalars: dict[int, np.ndarray] = {}
    for k, x in enumerate(sources):
        scalars[4 + 2 * k] = (x & x.dtype.type(M32)).astype(np.uint32)
        scalars[5 + 2 * k] = (x.astype(np.uint64) >> np.uint64(32)).astype(np.uint32)
    old = rng.integers(0, 1 << 63, count).astype(np.uint64)
    scalars[20], scalars[21] = (old & np.uint64(M32)).astype(np.uint32), (old >> np.uint64(32)).astype(np.uint32)
    names = ", ".join(pair(4 + 2 * k, w) for k, w in enumerate(case.widths))
    ran = run(arch, f"s_{spelled(case, arch)} {pair(20, case.bits)}, {names}", scalars=scalars, scc=scc, waves=count)
    seen = ran.scalar(20).astype(np.uint64)
    if case.bits == 64:
        seen |= ran.scalar(21).astype(np.uint64) << np.uint64(32)
    rows = [tuple(map(int, row)) for row in zip(*sources, strict=True)]
    outcomes = [_outcome(case, row, int(c), int(o)) for row, c, o in zip(rows, scc, old, strict=True)]
    assert_same(seen, np.array([x for x, _ in outcomes], np.uint64), *sources, note=case.name)
    flags = [c if flag is None else flag for (_, flag), c in zip(outcomes, scc, strict=True)]
    assert_same(ran.scc, np.array(flags, np.bool_), *sources, note=f"SCC of {case.name}")


def _outcome(case: Case, row: tuple[int, ...], scc: int, old: int) -> Outcome:
    if case.old:
        return case.result(*row, old & ((1 << case.bits) - 1))
    if case.name.startswith(("addc", "subb", "cselect")):
        return case.result(*row, scc)
    return case.result(*row)


COMPARES: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}


@pytest.mark.parametrize("arch", ALL)
def test_scalar_compares(arch: str) -> None:
    a, b = (x[::4] for x in shaped.integer_tuples(32, 32, count=100))
    a, b = np.concatenate([a, a[:20]]), np.concatenate([b, a[:20]])
    for kind in ("i32", "u32"):
        for op, step in COMPARES.items():
            ran = run(arch, f"s_cmp_{op}_{kind} s4, s5", scalars={4: a, 5: b}, waves=len(a))
            view = s if kind == "i32" else int
            expected = [step(view(int(x)), view(int(y))) for x, y in zip(a, b, strict=True)]
            assert_same(ran.scc, np.array(expected), a, b, note=op)
    for n in (0, 1):
        ran = run(arch, f"s_bitcmp{n}_b32 s4, s5", scalars={4: a, 5: b}, waves=len(a))
        assert_same(ran.scc, np.array([int(x) >> (int(y) & 31) & 1 == n for x, y in zip(a, b, strict=True)]), a, b)


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942", "gfx950"])
@pytest.mark.parametrize("constant", [0, 1, 0x7FFF, -0x8000, -1])
def test_scalar_operations_with_16_bits(arch: str, constant: int) -> None:
    (a,) = shaped.integer_tuples(32, count=60)
    for op, step in COMPARES.items():
        for kind in ("i32", "u32"):
            right = constant if kind == "i32" else constant & 0xFFFF
            ran = run(arch, f"s_cmpk_{op}_{kind} s4, {right:#x}", scalars={4: a}, waves=len(a))
            view = s if kind == "i32" else int
            assert_same(ran.scc, np.array([step(view(int(x)), right) for x in a]), a, note=f"{op} {kind} {constant}")
    for op, result in (("addk", lambda x: s(x) + constant), ("mulk", lambda x: s(x) * constant)):
        ran = run(arch, f"s_{op}_i32 s4, {constant:#x}", scalars={4: a}, waves=len(a), scc=1)
        exactly = [result(int(x)) for x in a]
        assert_same(ran.scalar(4), np.array([v & M32 for v in exactly], np.uint32), a, note=op)
        flags = [not -(1 << 31) <= v < 1 << 31 for v in exactly] if op == "addk" else [True] * len(a)
        assert_same(ran.scc, np.array(flags), a, note=op)


SAVING: dict[str, Callable[[int, int], int]] = {
    "and": lambda s0, e: s0 & e,
    "or": lambda s0, e: s0 | e,
    "xor": lambda s0, e: s0 ^ e,
    "nand": lambda s0, e: ~(s0 & e),
    "nor": lambda s0, e: ~(s0 | e),
    "xnor": lambda s0, e: ~(s0 ^ e),
    "and_not0": lambda s0, e: ~s0 & e,
    "and_not1": lambda s0, e: s0 & ~e,
    "or_not0": lambda s0, e: ~s0 | e,
    "or_not1": lambda s0, e: s0 | ~e,
}
CDNA_SAVING = {"and_not0": "andn1", "and_not1": "andn2", "or_not0": "orn1", "or_not1": "orn2"}


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("name", SAVING)
def test_saving_exec(arch: str, name: str) -> None:
    """D = EXEC; EXEC = operation(S0, EXEC); SCC tells whether lanes are left."""
    wide = arch in CDNA
    bits, size = (64, 64) if wide else (32, 32)
    (source,) = shaped.integer_tuples(bits, count=40)
    rng = np.random.default_rng(2)
    active = rng.random(len(source) * size) < 0.5
    op = CDNA_SAVING.get(name, name) if wide else name
    scalars = {4: (source & source.dtype.type(M32)).astype(np.uint32)}
    scalars[5] = (source.astype(np.uint64) >> np.uint64(32)).astype(np.uint32)
    text = f"s_{op}_saveexec_b{bits} {pair(20, bits)}, {pair(4, bits)}"
    vectors = {2: np.zeros(len(active), np.uint32)}
    ran = run(arch, text, scalars=scalars, lanes=active, vectors=vectors)
    before = [sum(int(v) << n for n, v in enumerate(row)) for row in active.reshape(-1, size)]
    after = [SAVING[name](int(x), e) & ((1 << bits) - 1) for x, e in zip(source, before, strict=True)]
    for reg, expected in ((20, before), (126, after)):
        seen = ran.scalar(reg).astype(np.uint64)
        if wide:
            seen |= ran.scalar(reg + 1).astype(np.uint64) << np.uint64(32)
        assert_same(seen, np.array(expected, np.uint64), source, note=f"{text} s{reg}")
    assert_same(ran.scc, np.array([x != 0 for x in after]), source, note=text)
