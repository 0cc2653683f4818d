"""The errata table: well-formed, in use, and saying what the hardware was seen to do."""

from __future__ import annotations

import functools
import random
import struct

import pytest
from support.one_wave import Machine, execute, run

from mockgpu.isa.opcode import opcodes
from mockgpu.pcode.errata import ENGINE_PART, ERRATA, corrected_text, errata_for
from mockgpu.pcode.erratum import Erratum
from mockgpu.pcode.lower import lower, lower_text
from mockgpu.pcode.numeric_mode import Denorm, Mode
from mockgpu.pcode.text import FAMILIES, pcode_texts

KEEP = Mode(denorm_f32=Denorm.KEEP)
NAN, INF, ONE, TWO = 0x7FC00000, 0x7F800000, 0x3F800000, 0x40000000


def f32(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


# -- the table --------------------------------------------------------------------------------------------------------


@functools.cache
def opcodes_of(row: Erratum) -> tuple[tuple[str, str, str], ...]:
    """The opcodes of a row for which there is a document."""
    return tuple((f, t, n) for f in FAMILIES for t, n in pcode_texts(f) if row.match(f, t, n, target_of(row)))


def target_of(row: Erratum) -> str:
    """The first target of a row that is about single ones."""
    return row.targets[0] if row.targets else ""


def families_of(row: Erratum) -> set[str]:
    return {f for f in FAMILIES for t, n in opcodes(f) if row.match(f, t, n, target_of(row))}


def test_ids_are_unique() -> None:
    assert len({row.id for row in ERRATA}) == len(ERRATA)


@pytest.mark.parametrize("row", ERRATA, ids=lambda row: row.id)
def test_every_row_is_about_something_and_says_how_it_is_known(row: Erratum) -> None:
    assert families_of(row) == set(row.families)
    assert row.document and row.hardware and row.evidence
    assert (row.kind == "note") == (row.text is None and not row.edits)
    assert (row.kind == "missing") == (not opcodes_of(row))


@pytest.mark.parametrize("target", ["", *{target for row in ERRATA for target in row.targets}])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_edit_is_stale(family: str, target: str) -> None:
    for table, name in pcode_texts(family):
        assert corrected_text(family, table, name, target)


def test_a_row_of_one_target_leaves_the_others_alone() -> None:
    key = "cdna", "VOP3POp", "V_DOT2_F32_F16"
    assert corrected_text(*key, "gfx950") == corrected_text(*key)
    assert "isDENORM" in str(corrected_text(*key, "gfx90a"))
    assert lower(*key, "gfx950") is lower(*key)
    assert lower(*key, "gfx90a") is not lower(*key)


def test_a_long_form_without_text_has_that_of_the_short_form() -> None:
    assert ("VOP3Op", "V_NOT_B32_E64") not in pcode_texts("cdna")
    assert corrected_text("cdna", "VOP3Op", "V_NOT_B32_E64") == pcode_texts("cdna")["VOP1Op", "V_NOT_B32_E32"]
    assert corrected_text("cdna", "VOP3Op", "V_CLREXCP_E64") is None


def test_a_row_gives_the_text_of_an_opcode_that_has_none() -> None:
    for name in ("V_ACCVGPR_READ", "V_ACCVGPR_WRITE"):
        assert corrected_text("cdna", "VOP3POp", name) == "D0.b32 = S0.b32"
    assert corrected_text("cdna", "VOP3Op", "V_ACCVGPR_MOV_B32_E64") == "D0.b32 = S0.b32"


def test_a_stale_edit_is_an_error() -> None:
    row = Erratum("x", ("rdna3",), "V_MOV_B32_E32", "correction", "d", "h", "e", edits=(("absent", "new"),))
    with pytest.raises(LookupError, match=r"erratum x finds nothing to change in rdna3 VOP1Op\.V_MOV_B32_E32"):
        row.apply("rdna3", "VOP1Op", "V_MOV_B32_E32", "D0.b32 = S0.b32")


def test_rows_can_be_looked_up_by_opcode() -> None:
    assert [row.id for row in errata_for("rdna3", "VOP3SDOp", "V_DIV_SCALE_F32")] == ["div-scale-f32"]
    assert errata_for("rdna3", "VOP2Op", "V_ADD_F32_E32") == []


def test_the_engines_part_has_reasons() -> None:
    assert all(reason for _, _, reason in ENGINE_PART)


# -- rows that only say it faster -------------------------------------------------------------------------------------

_EQUIVALENT = [row for row in ERRATA if row.kind == "equivalent" and not row.id.startswith(("ds-", "scalar-"))]
_INTERESTING = (0, 1, 2, 3, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFF, 0xFFFF0000, 0x0C0D0B0A, 0x08090407)
_FLOATS = (0, 0x80000000, ONE, 0xBF800000, INF, 0xFF800000, NAN, 0x7F800001, 0xFFC00123, 0xFF800123, 1, 0x80000001)
_HALVES = (0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0x7E00, 0x7D01, 0xFE12, 0xFC12, 1)


def interesting(rng: random.Random) -> int:
    """64 bits whose low half is often a corner case."""
    chosen = rng.choice(
        (_INTERESTING, _FLOATS, _HALVES, (rng.getrandbits(32), rng.getrandbits(32) & rng.getrandbits(32)))
    )
    low, high = rng.choice(chosen), rng.choice((rng.getrandbits(32), 0x7FF00000, 0xFFF80000, 0x80000000, 0x3FF00000))
    return low | high << 32


@pytest.mark.parametrize(
    "mode", [KEEP, Mode(denorm_f32=Denorm.KEEP, ieee=False), Mode()], ids=["ieee", "plain", "flush"]
)
@pytest.mark.parametrize("row", _EQUIVALENT, ids=lambda row: row.id)
def test_equivalent_texts_compute_the_same(row: Erratum, mode: Mode) -> None:
    rng = random.Random(row.id)
    lanes = 64
    distinct = {pcode_texts(f)[t, n]: (f, t, n) for f, t, n in opcodes_of(row)}
    for family, table, name in distinct.values():
        document = lower_text(family, table, name, pcode_texts(family)[table, name])
        sources = {
            s: [
                rng.choice(_INTERESTING) | rng.getrandbits(32) << 32 if k % 2 else rng.getrandbits(64)
                for k in range(lanes)
            ]
            for s in ("S0", "S1", "S2")
        }
        sources["S0"][:2] = [0, (1 << 64) - 1]
        operands = {**sources, "LANE": list(range(lanes)), "WAVE_MODE.IEEE": int(mode.ieee)}
        old = run(document, lanes=lanes, mode=mode, **operands).operands
        new = run(lower(family, table, name), lanes=lanes, mode=mode, **operands).operands
        assert {k: old[k] for k in ("D0", "SCC") if k in old} == {k: new[k] for k in ("D0", "SCC") if k in new}


def permute(text_family: str, name: str, *, corrected: bool) -> list[int]:
    text = corrected_text(text_family, "DSOp", name) if corrected else pcode_texts(text_family)["DSOp", name]
    assert text is not None
    rng = random.Random(3)
    machine = Machine(32, None, {"OFFSET": 8, "ADDR_REG": 1, "DATA_REG": 2, "VDST": 3, "WAVE64": 0})
    machine.operands["LANE"] = list(range(32))
    machine.masks["EXEC"] = [lane % 5 != 2 for lane in range(32)]
    machine.vgpr = {1: [rng.randrange(0, 0x7FFFFFFF) for _ in range(32)], 2: list(range(100, 132)), 3: [9] * 32}
    execute(lower_text(text_family, "DSOp", name, text), machine)
    active = machine.masks["EXEC"]
    return [v for v, on in zip(machine.vgpr[3], active, strict=True) if on]


@pytest.mark.parametrize("family", ["rdna3", "rdna4", "cdna"])
def test_lane_permutes_of_32_lanes_agree_with_the_document(family: str) -> None:
    if family != "cdna":  # its text is for 64 lanes
        assert permute(family, "DS_BPERMUTE_B32", corrected=True) == permute(family, "DS_BPERMUTE_B32", corrected=False)
    assert permute(family, "DS_PERMUTE_B32", corrected=True)


# -- division ---------------------------------------------------------------------------------------------------------


def div_scale(s0: int, s1: int, s2: int, bits: int = 32) -> tuple[int, bool]:
    machine = run(lower("rdna3", "VOP3SDOp", f"V_DIV_SCALE_F{bits}"), mode=KEEP, S0=s0, S1=s1, S2=s2)
    (result,) = machine.operands["D0"]  # type: ignore[misc]
    return result, machine.masks["VCC"][0]


def test_div_scale_of_ordinary_numbers_changes_nothing() -> None:
    assert div_scale(f32(3.0), f32(3.0), f32(7.0)) == (f32(3.0), False)


def test_div_scale_with_a_zero_operand() -> None:
    assert div_scale(ONE, 0, ONE) == (NAN, True)
    assert div_scale(0, ONE, 0) == (NAN, True)
    assert div_scale(ONE, 0x80000000, ONE) == (NAN, True)


def test_div_scale_with_a_huge_denominator_and_a_denormal_quotient() -> None:
    huge = f32(2.0**127)
    assert div_scale(ONE, huge, ONE) == (ONE, True)
    assert div_scale(huge, huge, ONE) == (f32(2.0**63), True)


def test_div_scale_with_a_huge_denominator_alone() -> None:
    huge = f32(1.5 * 2.0**126)
    assert div_scale(huge, huge, huge) == (f32(1.5 * 2.0**62), False)
    exact = f32(2.0**126)  # its reciprocal is still a normal number
    assert div_scale(exact, exact, exact) == (exact, False)


def test_div_scale_with_a_denormal_denominator() -> None:
    assert div_scale(1, 1, 1) == (f32(2.0**-85), False)


def test_div_scale_near_overflow_scales_the_denominator_only() -> None:
    numerator, denominator = f32(2.0**100), f32(2.0**3)
    assert div_scale(denominator, denominator, numerator) == (f32(2.0**67), True)
    assert div_scale(numerator, denominator, numerator) == (numerator, True)


def test_div_scale_with_a_denormal_quotient_scales_the_numerator_only() -> None:
    numerator, denominator = f32(2.0**-100), f32(2.0**30)
    assert div_scale(numerator, denominator, numerator) == (f32(2.0**-36), True)
    assert div_scale(denominator, denominator, numerator) == (denominator, True)


def test_div_scale_with_a_tiny_numerator() -> None:
    tiny = f32(2.0**-110)
    assert div_scale(tiny, ONE, tiny) == (f32(2.0**-46), False)


def test_div_scale_of_doubles() -> None:
    one = 0x3FF0000000000000
    assert div_scale(one, 0, one, bits=64) == (0x7FF8000000000000, True)
    assert div_scale(one, one, one, bits=64) == (one, False)
    huge = 0x7FE0000000000000  # 2**1023
    assert div_scale(one, huge, one, bits=64) == (one, True)


@pytest.mark.parametrize(
    ("vcc", "addend", "expected"), [(False, ONE, f32(2.0)), (True, ONE, 0x20000000), (True, TWO, 0x60400000)]
)
def test_div_fmas_scales_by_the_addends_exponent(vcc: bool, addend: int, expected: int) -> None:
    machine = Machine(1, KEEP, {"S0": ONE, "S1": ONE, "S2": addend})
    machine.masks["VCC"] = [vcc]
    execute(lower("rdna3", "VOP3Op", "V_DIV_FMAS_F32"), machine)
    assert machine.operands["D0"] == [expected]


def test_div_fmas_rounds_once() -> None:
    """Scaled down into the denormals, the sum must not have been rounded to 24 bits before."""
    addend = f32(2.0**-63 * (1 + 2.0**-23))
    machine = Machine(1, KEEP, {"S0": f32(2.0**-87), "S1": ONE, "S2": addend})
    machine.masks["VCC"] = [True]
    execute(lower("rdna3", "VOP3Op", "V_DIV_FMAS_F32"), machine)
    exact = (2.0**-63 * (1 + 2.0**-23) + 2.0**-87) * 2.0**-64
    assert machine.operands["D0"] == [round(exact * 2.0**149)]


@pytest.mark.parametrize(
    ("quotient", "denominator", "numerator", "expected"),
    [
        (NAN, ONE, ONE, INF),
        (NAN, 0xBF800000, ONE, 0xFF800000),
        (ONE, 0, 0xBF800000, 0xFF800000),
        (ONE, 0, 0, 0xFFC00000),
        (0, INF, ONE, 0),
        (f32(3.0), TWO, f32(6.0), f32(3.0)),
    ],
)
def test_div_fixup_of_special_cases(quotient: int, denominator: int, numerator: int, expected: int) -> None:
    program = lower("rdna3", "VOP3Op", "V_DIV_FIXUP_F32")
    machine = run(program, mode=KEEP, S0=quotient, S1=denominator, S2=numerator)
    assert machine.operands["D0"] == [expected]


# -- single rows ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b", "scc"), [(65, 64, 1), (64, 64, 0), (63, 64, 0)])
def test_s_max_sets_scc_on_strict_inequality(a: int, b: int, scc: int) -> None:
    machine = run(lower("rdna3", "SOP2Op", "S_MAX_U32"), S0=a, S1=b)
    assert (machine.operands["SCC"], machine.operands["D0"]) == ([scc], [max(a, b)])


@pytest.mark.parametrize(
    ("value", "bit"), [(1, 7), (0x80000001, 4), (0, 6), (0x80000000, 5), (ONE, 8), (0xFF800000, 2)]
)
def test_class_tests_see_denormals_in_every_mode(value: int, bit: int) -> None:
    for mode in (Mode(denorm_f32=Denorm.FLUSH), KEEP):
        machine = run(lower("rdna3", "VOPCOp", "V_CMP_CLASS_F32_E32"), mode=mode, S0=value, S1=1 << bit)
        assert machine.masks["D0"] == [True]
        others = run(lower("rdna3", "VOPCOp", "V_CMP_CLASS_F32_E32"), mode=mode, S0=value, S1=0x3FF & ~(1 << bit))
        assert others.masks["D0"] == [False]


def test_fract_stays_below_one() -> None:
    machine = run(lower("rdna3", "VOP1Op", "V_FRACT_F32_E32"), mode=KEEP, S0=f32(-1e-30))
    assert machine.operands["D0"] == [0x3F7FFFFF]


def test_cvt_off_is_a_sixteenth_of_a_signed_nibble() -> None:
    machine = run(lower("rdna3", "VOP1Op", "V_CVT_OFF_F32_I4_E32"), lanes=16, S0=list(range(16)))
    expected = [f32((n - 16 if n > 7 else n) / 16) for n in range(16)]
    assert machine.operands["D0"] == expected


@pytest.mark.parametrize(
    ("x", "expected"), [(0.49999997, 0.0), (2.5, 2.0), (3.5, 4.0), (-0.5, -0.0), (8388609.0, 8388609.0)]
)
def test_rndne_rounds_ties_to_even(x: float, expected: float) -> None:
    machine = run(lower("rdna3", "VOP1Op", "V_RNDNE_F32_E32"), S0=f32(x))
    assert machine.operands["D0"] == [f32(expected)]


def test_ldexp_of_zero_and_far_powers() -> None:
    program = lower("rdna3", "VOP3Op", "V_LDEXP_F32")
    assert run(program, S0=0x80000000, S1=1000).operands["D0"] == [0x80000000]
    assert run(program, mode=KEEP, S0=1, S1=200).operands["D0"] == [f32(2.0**51)]


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (INF, 0), (f32(0.75), 0), (f32(8.0), 4), (1, -148)])
def test_frexp_exp_of_zero_infinity_and_denormals(value: int, expected: int) -> None:
    machine = run(lower("rdna3", "VOP1Op", "V_FREXP_EXP_I32_F32_E32"), mode=KEEP, S0=value)
    assert machine.operands["D0"] == [expected & 0xFFFFFFFF]


def test_fma_mix_applies_its_modifiers_to_what_it_chose() -> None:
    half_minus_two, half_three = 0xC000, 0x4200
    machine = run(
        lower("rdna3", "VOP3POp", "V_FMA_MIX_F32"),
        S0=half_minus_two << 16, S1=half_three, S2=f32(10.0),
        OPSEL=0b001, OPSEL_HI=0b011, NEG=0b100, NEG_HI=0b001,
    )  # fmt: skip
    assert machine.operands["D0"] == [f32(2.0 * 3.0 - 10.0)]


def test_dx9_fmac_of_zero_keeps_the_accumulator() -> None:
    machine = run(lower("rdna3", "VOP2Op", "V_FMAC_DX9_ZERO_F32_E32"), S0=0, S1=INF, D0=f32(5.0))
    assert machine.operands["D0"] == [f32(5.0)]


def test_bit_counts_of_64_bits_set_scc_by_the_count() -> None:
    machine = run(lower("rdna3", "SOP1Op", "S_BCNT0_I32_B64"), S0=(1 << 64) - 1)
    assert (machine.operands["D0"], machine.operands["SCC"]) == ([0], [0])
