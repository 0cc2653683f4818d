"""Matrix instructions against products computed apart: every opcode, type, shape and wave size, and every modifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mockgpu.machine import matrix, matrix_layout
from mockgpu.machine.matrix import Modifiers
from mockgpu.machine.matrix_elements import scatter
from mockgpu.machine.matrix_ops import WIDTHS, Kind, MatrixError, MatrixOp, matrix_op, operands, table_names

TARGETS = {"gfx1100": "rdna3", "gfx1151": "rdna3", "gfx1201": "rdna4", "gfx942": "cdna", "gfx950": "cdna"}
OLD_NAMES = {
    "gfx908": ("V_MFMA_F32_32X32X4BF16", "V_MFMA_F32_16X16X16F16", "V_MFMA_I32_4X4X4I8", "V_MFMA_F32_16X16X1F32"),
    "gfx90a": ("V_MFMA_F32_32X32X4BF16_1K", "V_MFMA_F64_16X16X4F64", "V_MFMA_F64_4X4X4F64", "V_MFMA_F32_4X4X4F16"),
}
WAVES = 2


def wave_sizes(arch: str) -> tuple[int, ...]:
    return (32, 64) if arch.startswith("gfx1") else (64,)


def every_instruction() -> list[tuple[str, str, int]]:
    """(target, name, wave size) of all matrix instructions that compute."""
    out = []
    names = {arch: table_names(family) for arch, family in TARGETS.items()} | OLD_NAMES
    for arch, those in names.items():
        for name in those:
            try:
                op = matrix_op(arch, name)
            except MatrixError:
                continue
            if op.kind is not Kind.LOAD_SCALE:
                out += [(arch, name, size) for size in wave_sizes(arch)]
    return out


# -- patterns of small formats, by the definition ----------------------------------------------------------------------

SMALL = {"fp8": (4, 3, 7), "bf8": (5, 2, 15), "fp6": (2, 3, 1), "bf6": (3, 2, 3), "fp4": (2, 1, 1)}
SMALL_FNUZ = {"fp8": (4, 3, 8), "bf8": (5, 2, 16)}


def small_value(layout: tuple[int, int, int], code: int) -> float:
    exponent_bits, fraction_bits, bias = layout
    sign = -1.0 if code >> (exponent_bits + fraction_bits) else 1.0
    exponent = code >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = code & ((1 << fraction_bits) - 1)
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fraction_bits)
    return sign * (1 + fraction / (1 << fraction_bits)) * 2.0 ** (exponent - bias)


def pattern(kind: str, fnuz: bool, value: float) -> int:
    """The bits of an exactly representable number."""
    if kind == "f64":
        return int(np.array(value, np.float64).view(np.uint64))
    if kind in ("f32", "xf32"):
        return int(np.array(value, np.float32).view(np.uint32))
    if kind == "bf16":
        return int(np.array(value, np.float32).view(np.uint32)) >> 16
    if kind == "f16":
        return int(np.array(value, np.float16).view(np.uint16))
    if kind in SMALL:
        layout = SMALL_FNUZ[kind] if fnuz and kind in SMALL_FNUZ else SMALL[kind]
        return next(code for code in range(1 << WIDTHS[kind]) if small_value(layout, code) == value)
    return int(value) & ((1 << WIDTHS[kind]) - 1)


def values_of(kind: str) -> tuple[float, ...]:
    """Numbers whose products add exactly in every order."""
    if kind in ("i8", "iu8"):
        return (-128, -77, -1, 0, 1, 2, 99, 127)
    if kind == "iu4":
        return (-8, -3, -1, 0, 1, 5, 7)
    if kind == "fp4":
        return (-6.0, -1.5, -0.5, 0.0, 0.5, 1.0, 3.0, 4.0)
    return (-3.0, -1.5, -0.5, 0.0, 0.5, 1.0, 2.0, 3.5)


# -- one problem -------------------------------------------------------------------------------------------------------


@dataclass
class Problem:
    """A (waves, blocks, rows, stored K), B (waves, blocks, K, columns), C (waves, blocks, rows, columns), kept K."""

    op: MatrixOp
    wave_size: int
    formats: tuple[str, str]
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    pairs: np.ndarray | None  # (waves, rows, groups, 2)


def make(arch: str, name: str, wave_size: int, seed: int = 1, cbsz: int = 0, blgp: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    op = matrix_op(arch, name)
    formats = op.formats(cbsz, blgp)
    kept = op.k // 2 if op.sparse else op.k
    a = rng.choice(values_of(formats[0]), (WAVES, op.blocks, op.m, kept))
    b = rng.choice(values_of(formats[1]), (WAVES, op.blocks, op.k, op.n))
    c = rng.choice(
        (-1000, -7, 0, 3, 500) if op.integer else (-2.0, -0.25, 0.0, 1.5, 8.0), (WAVES, op.blocks, op.m, op.n)
    )
    pairs = rng.integers(0, 4, (WAVES, op.m, op.k // 4, 2)) if op.sparse else None
    return Problem(op, wave_size, formats, a, b, c, pairs)


def pack(kind: str, fnuz: bool, layout: matrix_layout.Layout, wave_size: int, values: np.ndarray) -> np.ndarray:
    """Matrices (waves, blocks, rows, columns of the layout) as registers."""
    codes = {value: pattern(kind, fnuz, value) for value in np.unique(values)}
    bits = np.vectorize(lambda value: codes[value], otypes=[np.uint64])(values)
    lane, bit = layout.places()
    if layout.bits in (16, 32, 64):
        out = np.zeros((layout.registers, len(values), wave_size), np.uint32)
        scatter(out, bits if layout.bits == 64 else bits.astype(np.uint32), lane, bit, layout.bits)
        return out
    return pack_bits(layout, wave_size, bits)


def pack_bits(layout: matrix_layout.Layout, wave_size: int, bits: np.ndarray) -> np.ndarray:
    """Narrow fields one by one, through Python integers as wide as a lane's registers."""
    lane, bit = layout.places()
    out = np.zeros((layout.registers, len(bits), wave_size), np.uint32)
    for wave in range(len(bits)):
        lanes = [0] * wave_size
        for at, offset, code in zip(lane.ravel(), bit.ravel(), bits[wave].ravel(), strict=True):
            lanes[at] |= int(code) << int(offset)
        for register in range(layout.registers):
            out[register, wave] = [word >> 32 * register & 0xFFFFFFFF for word in lanes]
    return out


def replicate(registers: np.ndarray) -> np.ndarray:
    """RDNA3 wants A and B in every group of 16 lanes."""
    return np.tile(registers[:, :, :16], (1, 1, registers.shape[2] // 16))


def inputs(problem: Problem) -> dict[str, Any]:
    op, size = problem.op, problem.wave_size
    fnuz = op.target.fnuz
    places = operands(op, size, *problem.formats)
    a = pack(problem.formats[0], fnuz, places.a, size, problem.a)
    b = pack(problem.formats[1], fnuz, places.b, size, problem.b.transpose(0, 1, 3, 2))
    if op.target.family == "rdna3":
        a, b = replicate(a), replicate(b)
    out: dict[str, Any] = {"a": a, "b": b, "c": pack(op.cd, fnuz, places.cd, size, problem.c)}
    if problem.pairs is not None:
        assert places.index is not None
        fields = (problem.pairs[..., 0] | problem.pairs[..., 1] << 2).astype(np.uint64)
        out["index"] = pack_bits(places.index.fields, size, fields[:, None])[0]
    if op.scaled:
        out["scales"] = (np.full((WAVES, size), 127, np.uint32),) * 2
    return out


def dense_a(problem: Problem) -> np.ndarray:
    """A with its zeros."""
    if problem.pairs is None:
        return problem.a
    op = problem.op
    out = np.zeros((WAVES, 1, op.m, op.k))
    for wave, row, group, n in np.ndindex(*problem.pairs.shape):
        out[wave, 0, row, 4 * group + problem.pairs[wave, row, group, n]] += problem.a[wave, 0, row, 2 * group + n]
    return out


def expected(problem: Problem) -> np.ndarray:
    return dense_a(problem) @ problem.b + problem.c


def unpack(problem: Problem, registers: np.ndarray, half: int = 0) -> np.ndarray:
    """D as numbers, (waves, blocks, rows, columns)."""
    op = problem.op
    lane, bit = operands(op, problem.wave_size, *problem.formats).cd.places()
    word = registers[bit // 32, :, lane].transpose(3, 0, 1, 2)
    if op.cd == "f64":
        high = registers[bit // 32 + 1, :, lane].transpose(3, 0, 1, 2)
        return np.ascontiguousarray(word | high.astype(np.uint64) << np.uint64(32)).view(np.float64)
    if op.cd == "f32":
        return np.ascontiguousarray(word).view(np.float32).astype(np.float64)
    if op.cd == "i32":
        return np.ascontiguousarray(word).view(np.int32).astype(np.float64)
    short = (word >> (bit % 32 + half).astype(np.uint32)).astype(np.uint16)
    if op.cd == "f16":
        return short.view(np.float16).astype(np.float64)
    return (short.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def execute(problem: Problem, given: dict[str, Any], modifiers: Modifiers = matrix.NO_MODIFIERS) -> np.ndarray:
    return matrix.execute(problem.op.name, problem.op.target.name, problem.wave_size, modifiers=modifiers, **given)


def narrowed(problem: Problem, numbers: np.ndarray) -> np.ndarray:
    """What remains in a 16-bit D."""
    if problem.op.cd == "f16":
        return numbers.astype(np.float16).astype(np.float64)
    if problem.op.cd == "bf16":
        bits = numbers.astype(np.float32).view(np.uint32)
        rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
        return (rounded & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    return numbers


SIGNED = Modifiers(neg=3)  # IU types: both inputs signed


def plain_modifiers(op: MatrixOp) -> Modifiers:
    return SIGNED if "iu" in op.a else matrix.NO_MODIFIERS


# -- every instruction -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "count"), [("rdna3", 6), ("rdna4", 22), ("cdna", 71)])
def test_every_name_of_the_tables_is_known(family: str, count: int) -> None:
    names = table_names(family)
    assert len(names) == count
    targets = [arch for arch, of in TARGETS.items() if of == family]
    for name in names:
        known = []
        for arch in targets:
            try:
                known.append(matrix_op(arch, name))
            except MatrixError:
                continue
        assert known, name


@pytest.mark.parametrize(("arch", "name", "wave_size"), every_instruction())
def test_product(arch: str, name: str, wave_size: int) -> None:
    problem = make(arch, name, wave_size)
    got = unpack(problem, execute(problem, inputs(problem), plain_modifiers(problem.op)))
    np.testing.assert_array_equal(got, narrowed(problem, expected(problem)))


FORMATS = range(5)


@pytest.mark.parametrize("name", ["V_MFMA_SCALE_F32_16X16X128_F8F6F4", "V_MFMA_F32_32X32X64_F8F6F4"])
@pytest.mark.parametrize(("cbsz", "blgp"), [(a, b) for a in FORMATS for b in FORMATS])
def test_mixed_formats(name: str, cbsz: int, blgp: int) -> None:
    problem = make("gfx950", name, 64, cbsz=cbsz, blgp=blgp)
    modifiers = Modifiers(cbsz=cbsz, blgp=blgp, abid=1)
    counts = matrix.register_counts("gfx950", name, 64, modifiers)
    assert (counts.a, counts.b) == tuple((8, 8, 6, 6, 4)[code] for code in (cbsz, blgp))
    got = unpack(problem, execute(problem, inputs(problem), modifiers))
    np.testing.assert_array_equal(got, expected(problem))


# -- modifiers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
@pytest.mark.parametrize("wave_size", [32, 64])
@pytest.mark.parametrize("name", ["V_WMMA_F32_16X16X16_F16", "V_WMMA_BF16_16X16X16_BF16"])
@pytest.mark.parametrize(("neg", "neg_hi"), [(1, 0), (0, 1), (2, 2), (4, 0), (0, 4), (4, 4), (7, 7)])
def test_wmma_negation(arch: str, wave_size: int, name: str, neg: int, neg_hi: int) -> None:
    problem = make(arch, name, wave_size)
    got = unpack(problem, execute(problem, inputs(problem), Modifiers(neg=neg, neg_hi=neg_hi)))
    for source in (0, 1):
        for odd, field in enumerate((neg, neg_hi)):
            if field >> source & 1 and source == 0:
                problem.a[..., odd::2] *= -1
            elif field >> source & 1:
                problem.b[:, :, odd::2] *= -1
    if neg_hi & 4:
        problem.c = np.abs(problem.c)
    if neg & 4:
        problem.c = -problem.c
    np.testing.assert_array_equal(got, narrowed(problem, expected(problem)))


@pytest.mark.parametrize("wave_size", [32, 64])
def test_sparse_wmma_negates_kept_values_by_their_half(wave_size: int) -> None:
    problem = make("gfx1201", "V_SWMMAC_F32_16X16X32_F16", wave_size)
    got = unpack(problem, execute(problem, inputs(problem), Modifiers(neg=1 | 4, neg_hi=4)))
    problem.a[..., 0::2] *= -1
    np.testing.assert_array_equal(got, expected(problem))


@pytest.mark.parametrize("wave_size", [32, 64])
@pytest.mark.parametrize("name", ["V_WMMA_F16_16X16X16_F16", "V_WMMA_BF16_16X16X16_BF16"])
def test_rdna3_keeps_the_other_half(name: str, wave_size: int) -> None:
    problem = make("gfx1100", name, wave_size)
    given = inputs(problem)
    marks = np.full(given["c"].shape, 0x1234, np.uint32)
    low = execute(problem, {**given, "previous": marks << np.uint32(16)})
    assert np.all(low >> np.uint32(16) == 0x1234)
    given["c"] = given["c"] << np.uint32(16)
    high = execute(problem, {**given, "previous": marks}, Modifiers(opsel=4))
    assert np.all(high & np.uint32(0xFFFF) == 0x1234)
    np.testing.assert_array_equal(unpack(problem, high, half=16), narrowed(problem, expected(problem)))
    np.testing.assert_array_equal(unpack(problem, low), unpack(problem, high, half=16))


@pytest.mark.parametrize(
    ("arch", "name"), [("gfx1100", "V_WMMA_I32_16X16X16_IU8"), ("gfx1201", "V_WMMA_I32_16X16X32_IU4")]
)
@pytest.mark.parametrize("signs", range(4))
def test_iu_signs(arch: str, name: str, signs: int) -> None:
    problem = make(arch, name, 32)
    got = unpack(problem, execute(problem, inputs(problem), Modifiers(neg=signs)))
    size = 1 << WIDTHS[problem.op.a]
    if not signs & 1:
        problem.a = problem.a % size
    if not signs & 2:
        problem.b = problem.b % size
    np.testing.assert_array_equal(got, expected(problem))


@pytest.mark.parametrize(("arch", "wave_size"), [("gfx1100", 32), ("gfx1201", 64)])
def test_integer_overflow_wraps_or_saturates(arch: str, wave_size: int) -> None:
    problem = make(arch, "V_WMMA_I32_16X16X16_IU8", wave_size)
    problem.a[:], problem.b[:] = 127, 127
    problem.c[:, :, :8], problem.c[:, :, 8:] = 0x7FFFFFFF, -0x80000000
    problem.b[:, :, :, 8:] = -128
    given = inputs(problem)
    total = expected(problem)
    wrapped = (total.astype(np.int64) + (1 << 31)) % (1 << 32) - (1 << 31)
    np.testing.assert_array_equal(unpack(problem, execute(problem, given, SIGNED)), wrapped)
    clamped = unpack(problem, execute(problem, given, replace(SIGNED, clamp=True)))
    np.testing.assert_array_equal(clamped, np.clip(total, -(1 << 31), (1 << 31) - 1))


def test_mfma_integers_wrap() -> None:
    problem = make("gfx942", "V_MFMA_I32_16X16X32_I8", 64)
    problem.a[:], problem.b[:], problem.c[:] = 127, 127, 0x7FFFFFFF
    wrapped = 0x7FFFFFFF + 32 * 127 * 127 - (1 << 32)
    assert np.all(unpack(problem, execute(problem, inputs(problem))) == wrapped)


@pytest.mark.parametrize(("cbsz", "abid"), [(1, 0), (1, 1), (2, 3), (4, 9)])
def test_cbsz_broadcasts_a_group_of_lanes(cbsz: int, abid: int) -> None:
    problem = make("gfx942", "V_MFMA_F32_4X4X1_16B_F32", 64)
    got = unpack(problem, execute(problem, inputs(problem), Modifiers(cbsz=cbsz, abid=abid)))
    size = 16 >> cbsz  # blocks in a group
    problem.a = problem.a[:, [block % size + size * abid for block in range(16)]]
    np.testing.assert_array_equal(got, expected(problem))


@pytest.mark.parametrize("blgp", range(8))
def test_blgp_moves_b(blgp: int) -> None:
    problem = make("gfx950", "V_MFMA_F32_16X16X1_4B_F32", 64)
    got = unpack(problem, execute(problem, inputs(problem), Modifiers(blgp=blgp)))
    sources = [(0, 1, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3), (1, 2, 3, 0), *((n,) * 4 for n in range(4))]
    problem.b = problem.b[:, list(sources[blgp])]
    np.testing.assert_array_equal(got, expected(problem))


@pytest.mark.parametrize("name", ["V_MFMA_F64_16X16X4_F64", "V_MFMA_F64_4X4X4_4B_F64"])
@pytest.mark.parametrize("blgp", range(8))
def test_blgp_negates_f64(name: str, blgp: int) -> None:
    problem = make("gfx942", name, 64)
    got = unpack(problem, execute(problem, inputs(problem), Modifiers(blgp=blgp, cbsz=3, abid=15)))
    signs = [-1.0 if blgp >> source & 1 else 1.0 for source in range(3)]
    problem.a, problem.b, problem.c = problem.a * signs[0], problem.b * signs[1], problem.c * signs[2]
    np.testing.assert_array_equal(got, expected(problem))


@pytest.mark.parametrize(
    ("arch", "name", "wave_size"),
    [
        ("gfx942", "V_SMFMAC_F32_16X16X32_F16", 64),
        ("gfx942", "V_SMFMAC_I32_32X32X32_I8", 64),
        ("gfx950", "V_SMFMAC_F32_32X32X32_BF16", 64),
        ("gfx1201", "V_SWMMAC_F32_16X16X32_F16", 32),
        ("gfx1201", "V_SWMMAC_F32_16X16X32_BF8_FP8", 64),
        ("gfx1201", "V_SWMMAC_I32_16X16X32_IU4", 64),
    ],
)
def test_index_sets(arch: str, name: str, wave_size: int) -> None:
    problem = make(arch, name, wave_size)
    given = inputs(problem)
    where = operands(problem.op, wave_size, *problem.formats).index
    assert where is not None
    for number in range(where.sets):
        select = Modifiers(neg=3 * problem.op.integer, opsel=number, abid=number)
        moved = {**given, "index": given["index"] << np.uint32(number * where.set_bits)}
        np.testing.assert_array_equal(
            unpack(problem, execute(problem, moved, select)), narrowed(problem, expected(problem))
        )


def test_cbsz_forces_the_first_index_set() -> None:
    problem = make("gfx950", "V_SMFMAC_F32_16X16X64_F16", 64)
    got = unpack(problem, execute(problem, inputs(problem), Modifiers(cbsz=1, abid=3)))
    np.testing.assert_array_equal(got, expected(problem))


@pytest.mark.parametrize("name", ["V_MFMA_SCALE_F32_16X16X128_F8F6F4", "V_MFMA_SCALE_F32_32X32X64_F8F6F4"])
@pytest.mark.parametrize(("opsel", "opsel_hi"), [(0, 0), (1, 0), (2, 1), (3, 3)])
def test_scales(name: str, opsel: int, opsel_hi: int) -> None:
    problem = make("gfx950", name, 64)
    given = inputs(problem)
    rng = np.random.default_rng(5)
    codes = rng.integers(125, 130, (2, WAVES, 64, 4)).astype(np.uint8)
    given["scales"] = tuple(np.ascontiguousarray(code).view(np.uint32)[..., 0] for code in codes)
    got = unpack(problem, execute(problem, given, Modifiers(abid=1, opsel=opsel, opsel_hi=opsel_hi)))
    for source, dim in enumerate((problem.op.m, problem.op.n)):
        byte = (opsel >> source & 1) + 2 * (opsel_hi >> source & 1)
        for wave, row, k in np.ndindex(WAVES, dim, problem.op.k):
            lane = row + dim * (k // 32)
            factor = 2.0 ** ((int(given["scales"][source][wave, lane]) >> 8 * byte & 0xFF) - 127)
            element = (wave, 0, row, k) if source == 0 else (wave, 0, k, row)
            (problem.a, problem.b)[source][element] *= factor
    np.testing.assert_array_equal(got, expected(problem))


def test_scale_is_off_without_abid() -> None:
    problem = make("gfx950", "V_MFMA_SCALE_F32_16X16X128_F8F6F4", 64)
    given = {**inputs(problem), "scales": (np.full((WAVES, 64), 140, np.uint32),) * 2}
    np.testing.assert_array_equal(unpack(problem, execute(problem, given)), expected(problem))


def test_scale_255_is_nan_and_0_is_tiny() -> None:
    problem = make("gfx950", "V_MFMA_SCALE_F32_16X16X128_F8F6F4", 64)
    one = np.full((WAVES, 64), 127, np.uint32)
    odd = one.copy()
    odd[:, 5] = 255  # row 5, the first 32 K
    given = inputs(problem)
    got = unpack(problem, execute(problem, {**given, "scales": (odd, one)}, Modifiers(abid=1)))
    assert np.isnan(got[:, :, 5]).all()
    assert np.isfinite(np.delete(got, 5, axis=2)).all()
    nothing = unpack(problem, execute(problem, {**given, "scales": (one * 0, one)}, Modifiers(abid=1)))
    assert np.array_equal(nothing[problem.c != 0], problem.c[problem.c != 0])


def test_scale_of_an_inline_constant_is_its_exponent() -> None:
    assert matrix.scale_of_constant(0x40000000) == 0x80808080


# -- kinds of numbers --------------------------------------------------------------------------------------------------


def single(arch: str, name: str, a: int, b: int, c: int) -> int:
    """D[0, 0] of matrices that are zero apart from A[0, 0], B[0, 0] and C[0, 0], given and returned as bits."""
    op = matrix_op(arch, name)
    places = operands(op, 64, *op.formats())
    words = []
    for layout, bits in ((places.a, a), (places.b, b), (places.cd, c)):
        registers = np.zeros((layout.registers, 1, 64), np.uint32)
        registers[0, 0, 0] = bits
        words.append(registers)
    return int(matrix.execute(name, arch, 64, words[0], words[1], words[2])[0, 0, 0])


def test_fp8_kinds() -> None:
    """0x38 is 1.0 in OCP fp8 and 0.5 in FNUZ; 0x80 is the FNUZ NaN and the OCP minus zero."""
    name = "V_MFMA_F32_16X16X32_FP8_FP8"
    assert single("gfx950", name, 0x38, 0x38, 0) == 0x3F800000
    assert single("gfx942", name, 0x38, 0x38, 0) == 0x3E800000
    assert single("gfx942", name, 0x80, 0x38, 0) == 0x7FC00000
    assert single("gfx950", name, 0x80, 0x38, 0) == 0
    assert single("gfx950", "V_MFMA_F32_16X16X32_BF8_BF8", 0x7C, 0x3C, 0) == 0x7F800000


def test_xf32_drops_low_bits_towards_zero() -> None:
    assert single("gfx942", "V_MFMA_F32_16X16X8_XF32", 0x3F801FFF, 0x3F800000, 0) == 0x3F800000
    assert single("gfx942", "V_MFMA_F32_16X16X8_XF32", 0xBF803FFF, 0x3F800000, 0) == 0xBF802000


def test_infinities_and_nan() -> None:
    name = "V_MFMA_F32_16X16X16_F16"
    for arch in ("gfx942", "gfx950"):
        assert single(arch, name, 0x7C00, 0x3C00, 0) == 0x7F800000
        assert single(arch, name, 0x7C00, 0x3C00, 0xFF800000) == 0x7FC00000
        assert single(arch, name, 0x3C00, 0x3C00, 0xFF800000) == 0xFF800000


def test_mi200_flushes_subnormals_and_others_do_not() -> None:
    assert single("gfx90a", "V_MFMA_F32_16X16X16F16", 0x0001, 0x3C00, 0x3F800000) == 0x3F800000
    assert single("gfx942", "V_MFMA_F32_16X16X16_F16", 0x0001, 0x3C00, 0) == 0x33800000
    assert single("gfx950", "V_MFMA_F32_16X16X16_F16", 0x0001, 0x3C00, 0x00000001) == 0x33800000


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors_name_the_instruction_and_the_field() -> None:
    problem = make("gfx942", "V_MFMA_F32_16X16X4_4B_F16", 64)
    given = inputs(problem)
    with pytest.raises(MatrixError, match="CBSZ = 3 is undefined for 4"):
        execute(problem, given, Modifiers(cbsz=3))
    with pytest.raises(MatrixError, match="ABID = 1 is illegal"):
        matrix.register_counts("gfx942", "V_MFMA_F32_16X16X4_4B_F16", 64, Modifiers(abid=1))
    with pytest.raises(MatrixError, match="ABID = 2 is illegal"):
        execute(problem, given, Modifiers(cbsz=1, abid=2))
    with pytest.raises(MatrixError, match="A has shape"):
        execute(problem, {**given, "a": given["a"][:1]})
    with pytest.raises(MatrixError, match="no matrix instruction"):
        matrix_op("gfx942", "V_MFMA_F32_16X16X128_F8F6F4")
    with pytest.raises(MatrixError, match="no matrix instruction"):
        matrix_op("gfx950", "V_MFMA_F32_16X16X8_XF32")
    with pytest.raises(MatrixError, match="gfx1030"):
        matrix_op("gfx1030", "V_WMMA_F32_16X16X16_F16")
    with pytest.raises(MatrixError, match="BLGP = 6 names no format"):
        matrix.register_counts("gfx950", "V_MFMA_F32_16X16X128_F8F6F4", 64, Modifiers(blgp=6))


def test_missing_operands_are_named() -> None:
    sparse = make("gfx942", "V_SMFMAC_F32_16X16X32_F16", 64)
    with pytest.raises(MatrixError, match="index"):
        execute(sparse, {key: value for key, value in inputs(sparse).items() if key != "index"})
    scaled = make("gfx950", "V_MFMA_SCALE_F32_16X16X128_F8F6F4", 64)
    with pytest.raises(MatrixError, match="scale"):
        execute(scaled, {key: value for key, value in inputs(scaled).items() if key != "scales"})


def test_scale_prefix_alone_writes_nothing() -> None:
    empty = np.zeros((0, WAVES, 64), np.uint32)
    assert matrix.execute("V_MFMA_LD_SCALE_B32", "gfx950", 64, empty, empty, empty).shape == (0, WAVES, 64)


def test_fields_of_both_encodings_mean_the_same() -> None:
    op = matrix_op("gfx942", "V_MFMA_F32_16X16X8_XF32")
    vop3p = {"neg": 5, "neg_hi": 2, "opsel": 3, "opsel_hi": 0, "opsel_hi2": 1}
    assert matrix.modifiers_of(op, vop3p) == Modifiers(cbsz=2, abid=11, blgp=5, opsel=3)
    assert matrix.modifiers_of(op, {**vop3p, "cbsz": 2, "abid": 11, "blgp": 5}) == Modifiers(
        cbsz=2, abid=11, blgp=5, opsel=3
    )


def test_fraction_reference_agrees_with_the_matrix_product() -> None:
    """The float64 product used above is exact for these inputs."""
    problem = make("gfx950", "V_MFMA_F32_16X16X32_F16", 64)
    row, column = problem.a[0, 0, 3], problem.b[0, 0, :, 7]
    exact = sum((Fraction(x) * Fraction(y) for x, y in zip(row, column, strict=True)), Fraction(problem.c[0, 0, 3, 7]))
    assert exact == Fraction(expected(problem)[0, 0, 3, 7])
