"""The lowering: one test for each way in which the texts mean something else than they seem to."""

from __future__ import annotations

import struct

import pytest
from support.one_wave import Machine, execute, run

from mockgpu.pcode import ir, walk
from mockgpu.pcode.lower import NoSemanticsError, lower, lower_text
from mockgpu.pcode.numeric_mode import Denorm, Mode
from mockgpu.pcode.text import pcode_texts
from mockgpu.pcode.typing import PcodeTypeError
from mockgpu.pcode.verify import verify

KEEP = Mode(denorm_f32=Denorm.KEEP)


def f32(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def program(text: str, table: str = "VOP3Op") -> ir.Program:
    """``text`` as the pseudocode of a made-up opcode."""
    lowered = lower_text("rdna3", table, "TEST", text)
    verify(lowered)
    return lowered


def evaluate(text: str, **operands: int) -> int:
    """What D0 gets."""
    result = run(program(text), mode=KEEP, **operands).operands["D0"]
    assert isinstance(result, list)
    return result[0]


@pytest.mark.parametrize("family", ["rdna3", "rdna4", "cdna"])
def test_every_program_obeys_the_rules_of_the_ir(family: str) -> None:
    for table, name in pcode_texts(family):
        try:
            verify(lower(family, table, name))
        except NoSemanticsError as error:
            assert error.reason != "not pseudocode"


# -- types ------------------------------------------------------------------------------------------------------------


def test_arithmetic_on_narrow_integers_is_done_in_32_bits() -> None:
    assert evaluate("D0.u32 = S0.u16 + S1.u16", S0=0xFFFF, S1=1) == 0x10000
    assert evaluate("D0.i32 = S0.i16 * 16'4", S0=0x7FFF) == 0x1FFFC


def test_a_branch_offset_is_multiplied_in_32_bits() -> None:
    far = run(lower("rdna3", "SOPPOp", "S_BRANCH"), PC=0x100000, SIMM16=0x8000)
    assert far.operands["PC"] == [0x100000 - 0x8000 * 4 + 4]


def test_a_narrow_destination_cuts_the_wide_result() -> None:
    assert evaluate("D0.u16 = S0.u16 * S1.u16 + S2.u16", S0=0xFFFF, S1=0xFFFF, S2=5) == 6


def test_signed_with_unsigned_is_unsigned_but_a_constant_adapts() -> None:
    assert evaluate("D0.u32 = S0.i32 < S1.u32 ? 1U : 0U", S0=0xFFFFFFFF, S1=1) == 0
    assert evaluate("D0.u32 = S0.i32 < 0 ? 1U : 0U", S0=0xFFFFFFFF) == 1


def test_an_untyped_local_takes_its_first_type() -> None:
    lowered = program("tmp = 64'U(S0.u32) + 64'U(S1.u32); tmp = 0U; D0.u64 = tmp")
    assert ir.Declare("tmp", ir.U64) in lowered.body


def test_a_typed_first_assignment_declares_a_local() -> None:
    assert ir.Declare("tmp", ir.I32) in program("tmp.i32 = S0.i32; D0.i32 = tmp.i32").body


def test_an_untyped_local_that_is_written_in_parts_is_as_wide_as_its_parts_reach() -> None:
    lowered = program("tmp[15 : 0].f16 = S0.f16; tmp[31 : 16].f16 = S1.f16; D0.b32 = tmp.b32")
    assert ir.Declare("tmp", ir.B32) in lowered.body


def test_a_signed_suffix_extends_the_sign() -> None:
    assert evaluate("D0.i32 = S0[15 : 0].i16.i32", S0=0x8000) == 0xFFFF8000
    assert evaluate("D0.i32 = 32'I(S0.i24)", S0=0x800000) == 0xFF800000
    assert evaluate("D0.u32 = 32'U(S0.u24)", S0=0xFF800000) == 0x800000


def test_signext_gives_64_bits() -> None:
    assert evaluate("D0.i64 = signext(S0.i16)", S0=0xFFFE) == (1 << 64) - 2
    assert evaluate("D0.i32 = 32'I(signext(S0.i32) >> S1[4 : 0].u32)", S0=0x80000000, S1=31) == 0xFFFFFFFF


def test_carries_of_65_bits() -> None:
    all_ones = (1 << 64) - 1
    machine = run(lower("rdna3", "VOP3SDOp", "V_MAD_U64_U32"), S0=0xFFFFFFFF, S1=0xFFFFFFFF, S2=all_ones)
    assert machine.operands["D0"] == [(0xFFFFFFFF**2 + all_ones) & all_ones]
    assert machine.masks["D1"] == [True]


def test_shift_counts_of_the_whole_width_give_zero() -> None:
    assert evaluate("D0.u32 = (1U << S0.u32) - 1U", S0=32) == 0xFFFFFFFF


# -- floats -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b", "expected"), [(1.0, 2.0, 1), (1.0, 1.0, 0), (1.0, float("nan"), 0)])
def test_lg_is_ordered_and_ne_is_not(a: float, b: float, expected: int) -> None:
    machine = run(lower("rdna3", "VOPCOp", "V_CMP_LG_F32_E32"), S0=f32(a), S1=f32(b))
    assert machine.masks["D0"] == [bool(expected)]
    unequal = run(lower("rdna3", "VOPCOp", "V_CMP_NEQ_F32_E32"), S0=f32(a), S1=f32(b))
    assert unequal.masks["D0"] == [a != b]


def test_integers_have_no_ordered_not_equal() -> None:
    assert "lg" not in repr(lower("rdna3", "SOPCOp", "S_CMP_LG_I32").body)


def test_a_signalling_nan_is_seen_through_the_widening_cast() -> None:
    signalling, quiet = 0x7F800001, 0x7FC00000
    assert evaluate("D0.u32 = isSignalNAN(64'F(S0.f32)) ? 1U : 0U", S0=signalling) == 1
    assert evaluate("D0.u32 = isSignalNAN(64'F(S0.f32)) ? 1U : 0U", S0=quiet) == 0
    assert evaluate("D0.f32 = 32'F(cvtToQuietNAN(64'F(S0.f32)))", S0=signalling) == 0x7FC00001


def test_a_hexadecimal_literal_cast_to_float_is_a_pattern() -> None:
    assert evaluate("D0.f32 = 32'F(0xffc00000)") == 0xFFC00000
    assert evaluate("D0.f32 = 32'F(3)") == f32(3.0)


def test_concatenated_bits_cast_to_float_are_a_pattern() -> None:
    assert evaluate("D0.f32 = 32'F({ S0.b16, 16'0U })", S0=0x3F80) == f32(1.0)


def test_negation_flips_the_sign_of_a_float() -> None:
    assert evaluate("D0.f32 = -S0.f32", S0=0) == 0x80000000
    assert evaluate("D0.f32 = S0.f32 == 1.0F ? -0.0F : 0.0F", S0=f32(1.0)) == 0x80000000


def test_named_constants_have_exact_bits() -> None:
    assert evaluate("D0.f32 = +INF.f32") == 0x7F800000
    assert evaluate("D0.f32 = -INF.f32") == 0xFF800000
    assert evaluate("D0.f64 = NAN.f64") == 0x7FF8000000000000
    assert evaluate("D0.f32 = -MAX_FLOAT_F32") == 0xFF7FFFFF


def test_a_power_of_two_is_a_constant() -> None:
    assert evaluate("D0.f32 = 2.0F ** 32 * S0.f32", S0=f32(3.0)) == f32(3.0 * 2**32)


@pytest.mark.parametrize(
    ("x", "segment", "expected"),
    [(0x3FF0000000000000, 0, 0x3FE45F306DC9C882), (0x3FF0000000000000, 1, 0x3C94A7F09D5F47D4),
     (0x3FF0000000000000, 2, 0x394A6EE06DB14ACC), (0x43B0000000000000, 0, 0x3F87CC1B727220A9)],
)  # fmt: skip
def test_two_over_pi_has_1201_bits(x: int, segment: int, expected: int) -> None:
    machine = run(lower("rdna3", "VOP3Op", "V_TRIG_PREOP_F64"), S0=x, S1=segment)
    assert machine.operands["D0"] == [expected]


def test_the_rounding_mode_of_a_text_is_fixed() -> None:
    machine = run(lower("rdna3", "VOP2Op", "V_CVT_PK_RTZ_F16_F32_E32"), S0=f32(1.9999999), S1=f32(-1.9999999))
    assert machine.operands["D0"] == [0xBFFF3FFF]


# -- slices, bits, lanes ----------------------------------------------------------------------------------------------


def test_a_reversed_slice_reverses_bits() -> None:
    assert evaluate("D0.u32[31 : 0] = S0.u32[0 : 31]", S0=1) == 0x80000000


def test_slices_at_variable_positions_have_a_constant_width() -> None:
    text = "for i in 0 : 3 do tmp = S0[i * 8 + 7 : i * 8]; D0.u32[i * 4] = tmp[0] endfor"
    assert evaluate(f"D0.u32 = 0U; {text}", S0=0x01000001) == 0x1001


def test_a_slice_whose_width_varies_is_refused() -> None:
    with pytest.raises(PcodeTypeError, match="width of a slice varies"):
        program("D0.u32 = S0[S1.u32 : 0].u32")


def test_a_slice_past_the_end_is_refused() -> None:
    with pytest.raises(PcodeTypeError, match="bits 32 and up"):
        program("D0.u32 = S0.u32[32]")


def test_both_spellings_of_lane_and_wave_names() -> None:
    spelled = program("D0.u32 = laneId.u32 + laneID.u32 + (WAVE32 ? 1U : 0U) + (wave32.u1 ? 1U : 0U)")
    assert spelled.reads == {"LANE", "WAVE32"}


def test_the_executing_lanes_bit_of_a_mask() -> None:
    assert program("D0.u64[laneId] = S0.f32 < S1.f32").body == (
        ir.Assign(
            ir.LaneBit("D0"),
            ir.Binary(ir.U1, "lt", ir.Operand(ir.F32, "S0"), ir.Operand(ir.F32, "S1")),
            "D0.u64[laneId] = S0.f32 < S1.f32",
        ),
    )


def test_a_bit_of_a_scalar_register_is_no_lane_bit() -> None:
    machine = run(lower("rdna3", "SOP1Op", "S_BITSET1_B64"), S0=40, D0=1)
    assert machine.operands["D0"] == [1 << 40 | 1]


def test_vcc_and_exec_are_masks_at_any_index() -> None:
    lowered = program("D0.u32 = EXEC[S0.u32].u1 ? 1U : 0U")
    assert "EXEC" in lowered.reads and ir.LaneBit("EXEC", ir.Operand(ir.U32, "S0")) in _parts(lowered)


def _parts(lowered: ir.Program) -> list[ir.Expr]:
    return [p for s in walk.statements(lowered.body) for e in walk.read_expressions(s) for p in walk.subexpressions(e)]


# -- control and calls ------------------------------------------------------------------------------------------------


def test_a_chained_assignment_writes_exec_last() -> None:
    lowered = program("EXEC.u64[laneId] = D0.u64[laneId] = S0.f32 < S1.f32")
    targets = [s.target for s in lowered.body if isinstance(s, ir.Assign)]
    assert targets[-2:] == [ir.LaneBit("D0"), ir.LaneBit("EXEC")]


@pytest.mark.parametrize(("source", "first"), [(0b1000, 3), (0, -1), (1, 0), (1 << 31, 31)])
def test_break_leaves_the_loop(source: int, first: int) -> None:
    text = "tmp = -1; for i in 0 : 31 do if S0.u32[i] == 1'1U then tmp = i; break endif; tmp = -1 endfor; D0.i32 = tmp"
    assert evaluate(text, S0=source) == first & 0xFFFFFFFF


def test_lambdas_are_inlined() -> None:
    text = "ABSDIFF = lambda(x, y) (x > y ? x - y : y - x); D0.u32 = ABSDIFF(S0.u32, S1.u32)"
    assert evaluate(text, S0=3, S1=10) == 7


def test_lambdas_with_a_body_return_from_every_branch() -> None:
    limits = "if n <= -128 then return 8'0x80 elsif n >= 127 then return 8'0x7f else return n[7 : 0].b8 endif"
    text = f"SAT8 = lambda(n) ({limits});"
    for value, expected in ((-300, 0x80), (300, 0x7F), (-2, 0xFE)):
        assert evaluate(f"{text} D0.u32 = 32'U(SAT8(S0.i32))", S0=value) == expected


def test_opcodes_called_by_name_are_inlined() -> None:
    machine = run(lower("rdna3", "VOP3Op", "V_MED3_I32"), S0=5, S1=0xFFFFFFFF, S2=2)
    assert machine.operands["D0"] == [2]


def test_an_opcode_that_the_family_lacks_comes_from_another_one() -> None:
    operands = {"S0": f32(1.0), "S1": f32(-2.0), "S2": 0x7FC00001}
    machine = run(lower("cdna", "VOP3Op", "V_MINIMUM3_F32"), mode=KEEP, **operands)
    assert machine.operands["D0"] == [0x7FC00001]


def test_s_is_the_array_of_sources() -> None:
    text = "declare S : 32'B[3]; D0.u32 = 0U; for i in 0 : 2 do D0.u32 += S[i].u32 endfor"
    assert evaluate(text, S0=1, S1=20, S2=300) == 321


def test_in_is_an_ordinary_variable() -> None:
    assert evaluate("in = S0.u32; D0.u32 = ((in << 1U) ^ (in[31] ? 197U : 0U))", S0=0x80000001) == 2 ^ 197


def test_unknown_functions_and_names_are_refused() -> None:
    with pytest.raises(PcodeTypeError, match="unknown function frobnicate"):
        program("D0.u32 = frobnicate(S0.u32)")
    with pytest.raises(PcodeTypeError, match="unknown name nothing"):
        program("D0.u32 = nothing.u32")


def test_a_text_without_semantics_says_why() -> None:
    with pytest.raises(NoSemanticsError) as matrix:
        lower("rdna3", "VOP3POp", "V_WMMA_F32_16X16X16_F16")
    assert matrix.value.reason == "matrix product stated as a formula"
    with pytest.raises(NoSemanticsError, match="no pseudocode"):
        lower("rdna3", "SOPPOp", "S_ENDPGM")


# -- registers --------------------------------------------------------------------------------------------------------


def test_sources_are_read_before_anything_is_written() -> None:
    """The destination of a load may be its address register, that of an addition one of its sources."""
    lowered = lower("rdna3", "GLOBALOp", "GLOBAL_LOAD_B64")
    reads = [s for s in lowered.body if isinstance(s, ir.Assign) and isinstance(s.value, ir.Operand)]
    assert [s.value for s in reads] == [ir.Operand(ir.U64, "ADDR")]


def test_a_destination_that_is_read_back_is_written_once_at_the_end() -> None:
    for table, name in (("VOP1Op", "V_CEIL_F32_E32"), ("VOP3Op", "V_PERM_B32"), ("SOP2Op", "S_ABSDIFF_I32")):
        lowered = lower("rdna3", table, name)
        targets = [walk.place_name(s.target) for s in walk.statements(lowered.body) if isinstance(s, ir.Assign)]
        assert targets.count("D0") == 1 and "D0" not in lowered.reads


def test_an_accumulator_counts_as_read() -> None:
    assert "D0" in lower("rdna3", "VOP2Op", "V_FMAC_F32_E32").reads
    assert "D0" not in lower("rdna3", "VOP3Op", "V_FMA_F32").reads


def test_pc_scc_and_exec() -> None:
    assert lower("rdna3", "SOP1Op", "S_AND_SAVEEXEC_B32").writes == {"EXEC", "D0", "SCC"}
    assert lower("rdna3", "SOP1Op", "S_SWAPPC_B64").writes == {"PC", "D0"}
    machine = run(lower("rdna3", "SOP1Op", "S_AND_SAVEEXEC_B32"), S0=0b0110, EXEC=0b0011)
    assert (machine.operands["D0"], machine.operands["EXEC"], machine.operands["SCC"]) == ([0b0011], [0b0010], [1])


def test_wide_scalar_registers_by_number() -> None:
    assert lower("rdna3", "SOP1Op", "S_MOVRELS_B64").reads == {"SRC0", "M0", "SGPR"}
    assert lower("rdna3", "SOP1Op", "S_MOVRELD_B64").writes == {"SGPR"}


# -- memory -----------------------------------------------------------------------------------------------------------


def test_loads_return_data_and_stores_take_data() -> None:
    for name in ("GLOBAL_LOAD_B32", "GLOBAL_LOAD_B128"):
        assert lower("rdna3", "GLOBALOp", name).writes == {"RETURN_DATA"}
    assert lower("rdna3", "SMEMOp", "S_LOAD_B64").writes == {"RETURN_DATA"}
    assert lower("rdna3", "GLOBALOp", "GLOBAL_STORE_B32").reads == {"ADDR", "DATA"}
    assert lower("cdna", "SMEMOp", "S_STORE_DWORD").reads == {"ADDR", "DATA"}


@pytest.mark.parametrize("name", ["GLOBAL_LOAD_D16_U8", "GLOBAL_LOAD_D16_HI_B16"])
def test_half_loads_keep_the_other_half(name: str) -> None:
    assert "RETURN_DATA" in lower("rdna3", "GLOBALOp", name).reads


def test_loads_that_fill_their_registers_keep_nothing() -> None:
    for name in ("GLOBAL_LOAD_B96", "GLOBAL_LOAD_U8"):
        assert "RETURN_DATA" not in lower("rdna3", "GLOBALOp", name).reads


@pytest.mark.parametrize("family", ["rdna3", "rdna4"])
def test_ds_programs_add_the_offset_once(family: str) -> None:
    """Some texts add OFFSET, some leave it to the address, RDNA4 calls CalcDsAddr: a program always adds it."""
    for name in ("DS_LOAD_U8", "DS_LOAD_B32", "DS_ADD_RTN_U32"):
        machine = Machine(1, None, {"ADDR": 0x100, "OFFSET": 0x20, "DATA": 1, "RETURN_DATA": 0})
        machine.memory = {0x120: 7}
        execute(lower(family, "DSOp", name), machine)
        assert machine.operands["RETURN_DATA"] == [7]


def test_two_address_offsets_count_in_elements() -> None:
    machine = Machine(1, None, {"ADDR": 0, "OFFSET0": 1, "OFFSET1": 2, "RETURN_DATA": 0})
    machine.memory = {8: 1, 16: 2}
    execute(lower("rdna3", "DSOp", "DS_LOAD_2ADDR_B64"), machine)
    assert machine.operands["RETURN_DATA"] == [2 << 64 | 1]


def test_global_addresses_are_complete() -> None:
    machine = Machine(1, None, {"ADDR": 1 << 40, "DATA": 5})
    machine.memory = {(1 << 40): 3}
    execute(lower("rdna4", "VGLOBALOp", "GLOBAL_ATOMIC_ADD_U32"), machine)
    assert (machine.operands["RETURN_DATA"], machine.memory[1 << 40]) == ([3], 8)


def test_registers_of_other_lanes() -> None:
    machine = Machine(32, None, {"SRC0": 3, "S1": 5})
    machine.operands.update(WAVE32=1, WAVE64=0)
    machine.vgpr = {3: [100 + lane for lane in range(32)]}
    execute(lower("rdna3", "VOP3Op", "V_READLANE_B32"), machine)
    assert machine.operands["D0"] == [105] * 32
