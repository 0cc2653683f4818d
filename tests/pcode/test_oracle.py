"""The evaluator on hand-made programs: predicates, loops, slices, lane masks, wide operands, stopping."""

from __future__ import annotations

import numpy as np
import pytest
from support.pcode_machine import D0, L, Machine, SlicedMachine, W, add, const, lanes, less, local, op, program, run

from mockgpu.pcode import ir, oracle
from mockgpu.pcode.ir import B32, F16, F32, I32, U1, U16, U32, U64, Type
from mockgpu.pcode.numeric import Denorm, Mode

B64, B128, U8, I8 = Type("b", 64), Type("b", 128), Type("u", 8), Type("i", 8)


# -- plain statements -----------------------------------------------------------------------------------------------


def test_an_addition_of_floats() -> None:
    a = np.array([[1.5, 2, -3, 0.25]] * W, np.float32)
    m = Machine(S0=a.view(np.uint32), S1=np.float32(1.0).view(np.uint32))
    run(m, ir.Assign(op("D0", F32), add(op("S0", F32), op("S1", F32))))
    assert (m.operands["D0"].view(np.float32) == a + 1).all()


def test_denormals_of_what_is_only_selected_follow_mode() -> None:
    select = ir.Assign(op("D0", F32), ir.Select(F32, less(op("S0", F32), op("S1", F32)), op("S0", F32), op("S1", F32)))
    for mode, want in ((Mode(), 0x80000000), (Mode(denorm_f32=Denorm.KEEP), 0x80000001)):
        m = run(Machine(mode, S0=lanes(0x80000001 - 10)[1:], S1=np.array([[0x3F800000]], np.uint32)), select)
        assert (m.operands["D0"] == want).all()


def test_copying_raw_bits_keeps_denormals() -> None:
    m = run(Machine(Mode(), S0=np.array([[1]], np.uint32)), ir.Assign(op("D0", B32), op("S0", B32)))
    assert (m.operands["D0"] == 1).all()


def test_a_test_that_only_sets_a_mask_sees_denormals() -> None:
    is_denormal = ir.Binary(U1, "gt", ir.Cast(ir.F64, ir.Call(F32, "abs", (op("S0", F32),))), ir.Const(ir.F64, 0))
    m = run(Machine(Mode(), S0=lanes(0, 1, 2, 3)[:1]), ir.Assign(ir.LaneBit("D0"), is_denormal))
    assert m.masks["D0"][0].tolist() == [False, True, True, True]


def test_sources_are_read_before_the_first_write() -> None:
    class Aliased(Machine):
        def write(self, name: str, value: np.ndarray, bits: int, mask: np.ndarray | None) -> None:
            super().write(name, value, bits, mask)
            self.operands["S0"] = self.operands[name]

    m = Aliased(S0=lanes(1, 2, 3, 4), S1=lanes(5, 6, 7, 8))
    run(m, ir.Assign(D0, add(op("S0"), op("S1"))), ir.Assign(op("D1"), op("S0")))
    assert (m.operands["D1"] == lanes(1, 2, 3, 4)).all()


def test_an_operand_is_read_once() -> None:
    m = run(Machine(S0=lanes(1, 2, 3, 4)), ir.Assign(D0, add(op("S0"), op("S0"))))
    assert m.log == [("read", "S0")]


def test_rounding_mode_changes_for_the_rest_of_the_program() -> None:
    x = np.array([0x3F801001], np.uint32)
    narrow = ir.Cast(F16, op("S0", F32))
    m = run(
        Machine(S0=x),
        ir.Assign(local("prev"), op("ROUND_MODE")),
        ir.Assign(op("ROUND_MODE"), const(1)),
        ir.Assign(op("D0", F16), narrow),
        ir.Assign(op("ROUND_MODE"), local("prev")),
        ir.Assign(op("D1", F16), narrow),
    )
    assert (int(m.operands["D0"][0, 0]), int(m.operands["D1"][0, 0])) == (0x3C01, 0x3C01)
    m = run(Machine(S0=x), ir.Assign(op("ROUND_MODE"), const(3)), ir.Assign(op("D0", F16), narrow))
    assert int(m.operands["D0"][0, 0]) == 0x3C00
    assert m.mode == Mode(denorm_f32=Denorm.KEEP)


# -- predicates -----------------------------------------------------------------------------------------------------


def put(value: int) -> ir.Assign:
    return ir.Assign(D0, const(value))


def test_arms_are_tried_in_order() -> None:
    body = ir.If(
        ((less(op("S0"), const(2)), (put(1),)), (less(op("S0"), const(12)), (put(2),))),
        (put(3),),
    )
    m = run(Machine(S0=lanes(0, 1, 2, 3), D0=lanes(9, 9, 9, 9)), body)
    assert m.operands["D0"].tolist() == [[1, 1, 2, 2], [2, 2, 3, 3]]


def test_nested_conditions_narrow_the_predicate() -> None:
    inner = ir.If(((less(op("S1"), const(5)), (put(1),)),), (put(2),))
    outer = ir.If(((less(op("S0"), const(3)), (inner,)),), (inner, put(7)))
    m = Machine(S0=lanes(0, 1, 2, 3), S1=lanes(9, 0, 9, 0), D0=lanes(0, 0, 0, 0))
    run(m, outer, ir.Assign(op("D1"), const(4)))
    assert m.operands["D0"].tolist() == [[2, 1, 2, 7], [7, 7, 7, 7]]
    assert (m.operands["D1"] == 4).all()


def test_a_condition_may_change_what_the_next_one_reads() -> None:
    t = local("t")
    body = (
        ir.Assign(t, op("S0")),
        ir.If(((less(t, const(2)), (ir.Assign(t, const(50)),)), (less(t, const(100)), (ir.Assign(t, const(60)),)))),
        ir.Assign(D0, t),
    )
    m = run(Machine(S0=lanes(0, 1, 2, 3)), *body)
    assert m.operands["D0"].tolist() == [[50, 50, 60, 60], [60, 60, 60, 60]]


def test_uniform_conditions_skip_the_other_arm() -> None:
    fault = ir.Assign(D0, ir.Mem(U32, const(0, U64)))
    m = run(Machine(S0=lanes(5, 6, 7, 8)), ir.If(((less(op("S0"), const(3)), (fault,)),), (put(1),)))
    assert m.log == [("read", "S0")]
    m = run(Machine(S0=lanes(5, 6, 7, 8)), ir.If(((less(op("S0"), const(99)), (put(1),)),), (fault,)))
    assert m.log == [("read", "S0")]


def test_memory_in_an_arm_or_a_selection_is_touched_under_the_predicate() -> None:
    value = ir.Mem(U32, ir.Cast(U64, op("S0")))
    half = less(op("S0"), const(2))
    m = run(Machine(S0=lanes(0, 1, 2, 3)), ir.If(((half, (ir.Assign(D0, value),)),)))
    assert ("load", 2) in m.log
    m = run(Machine(S0=lanes(0, 1, 2, 3)), ir.Assign(D0, ir.Select(U32, half, value, const(1))))
    assert ("load", 2) in m.log


def test_the_initial_predicate_holds_for_everything() -> None:
    mask = np.array([[True, False, True, False]] * W)
    m = Machine(S0=lanes(0, 1, 2, 3), D0=lanes(9, 9, 9, 9))
    run(m, ir.If(((less(op("S0"), const(2)), (put(1),)),), (put(2),)), mask=mask)
    assert m.operands["D0"].tolist() == [[1, 9, 2, 9], [2, 19, 2, 19]]


def test_the_predicate_is_restored_after_an_error() -> None:
    broken = ir.Assign(D0, ir.Binary(U32, "div", const(1), const(0)))
    m = Machine(S0=lanes(0, 1, 2, 3))
    with pytest.raises(oracle.OracleError):
        run(m, ir.If(((less(op("S0"), const(2)), (broken,)),)))
    run(m, put(3))
    assert (m.operands["D0"] == 3).all()


# -- loops ----------------------------------------------------------------------------------------------------------


def test_a_loop_runs_to_its_bound_inclusive() -> None:
    i, t = local("i", I32), local("t", I32)
    loop = ir.For("i", const(1, I32), const(4, I32), (ir.Assign(t, add(t, i)),))
    m = run(Machine(), ir.Declare("t", I32), loop, ir.Assign(op("D0", I32), t))
    assert (m.operands["D0"] == 10).all()


def test_a_loop_variable_indexes_slices_and_arrays() -> None:
    i = local("i")
    eight = ir.Binary(U32, "mul", i, const(8))
    byte = ir.Bits(U8, op("S0", B32), eight)
    fill = ir.For("i", const(0), const(3), (ir.Assign(ir.Element(U8, "a", i), byte),))
    turned = ir.Bits(U8, D0, ir.Binary(U32, "sub", const(24), eight))
    spill = ir.For("i", const(0), const(3), (ir.Assign(turned, ir.Element(U8, "a", i)),))
    m = Machine(S0=np.full((W, L), 0x11223344, np.uint32), D0=lanes(0, 0, 0, 0))
    run(m, ir.Declare("a", U8, 4), fill, spill)
    assert (m.operands["D0"] == 0x44332211).all()


def test_while_ends_for_each_lane_by_itself() -> None:
    t, n = local("t"), local("n")
    loop = ir.While(less(n, op("S0")), (ir.Assign(n, add(n, const(1))), ir.Assign(t, add(t, n))))
    m = run(Machine(S0=lanes(0, 1, 2, 3)), ir.Declare("t", U32), ir.Declare("n", U32), loop, ir.Assign(D0, t))
    assert m.operands["D0"].tolist() == [[0, 1, 3, 6], [55, 66, 78, 91]]


def test_an_endless_loop_is_an_error() -> None:
    with pytest.raises(oracle.LoopLimitError, match="while forever"):
        run(Machine(), ir.While(ir.Const(U1, 1), (ir.Assign(local("x"), const(1)),), "while forever"))


def test_loop_bounds_that_differ_by_lane_are_an_error() -> None:
    with pytest.raises(oracle.OracleError, match="loop over i"):
        run(Machine(S0=lanes(0, 1, 2, 3)), ir.For("i", const(0), op("S0"), ()))


# -- slices and wide values -------------------------------------------------------------------------------------------


def test_writing_a_part_keeps_the_rest() -> None:
    m = Machine(S0=lanes(1, 2, 3, 4), D0=np.full((W, L), 0xAABBCCDD, np.uint32))
    run(m, ir.Assign(ir.Bits(U16, D0, const(16)), ir.Cast(U16, op("S0"))))
    assert [hex(v) for v in m.operands["D0"][0]] == ["0x1ccdd", "0x2ccdd", "0x3ccdd", "0x4ccdd"]


def test_writing_all_of_an_operand_does_not_read_it() -> None:
    m = run(Machine(), ir.Assign(ir.Bits(B32, op("D0", B32), const(0)), const(5, B32)))
    assert m.log == [] and (m.operands["D0"] == 5).all()


def test_slices_at_positions_that_vary_by_lane() -> None:
    m = Machine(S0=np.full((W, L), 0x76543210, np.uint32), S1=np.array([[0, 4, 28, 31]] * W, np.uint32))
    nibble = ir.Bits(Type("u", 4), op("S0"), op("S1"))
    m.operands["D0"] = np.zeros((W, L), np.uint32)
    run(m, ir.Assign(ir.Bits(Type("u", 4), D0, op("S1")), nibble))
    assert m.operands["D0"][0].tolist() == [0, 0x10, 0x70000000, 0]


def test_concatenation_puts_the_first_part_on_top() -> None:
    pair = ir.Concat(B64, (op("S0", B32), op("S1", B32)))
    m = run(Machine(S0=lanes(1, 2, 3, 4), S1=lanes(5, 6, 7, 8)), ir.Assign(op("D0", B64), pair))
    assert int(m.operands["D0"][0, 1]) == 2 << 32 | 6
    wide = ir.Concat(B128, (op("S0", B32), pair, op("S1", B32)))
    m = run(Machine(S0=lanes(1, 2, 3, 4), S1=lanes(5, 6, 7, 8)), ir.Assign(op("D0", B128), wide))
    assert m.operands["D0"][0, 1] == 2 << 96 | 2 << 64 | 6 << 32 | 6


@pytest.mark.parametrize("machine", [Machine, SlicedMachine])
def test_wide_operands(machine: type[Machine]) -> None:
    wide = np.array([[(k + 1) << 96 | 7 << 64 | k << 32 | 9 for k in range(L)]] * W, object)
    m = machine(S0=wide, D0=wide.copy())
    source = op("S0", B128)
    run(
        m,
        ir.Assign(local("x"), ir.Bits(U32, source, const(96))),
        ir.Assign(local("y", U16), ir.Bits(U16, source, const(32))),
        ir.Assign(ir.Bits(U32, op("D0", B128), const(64)), add(local("x"), ir.Cast(U32, local("y", U16)))),
    )
    want = [(k + 1) << 96 | (2 * k + 1) << 64 | k << 32 | 9 for k in range(L)]
    assert m.operands["D0"][0].tolist() == want
    if machine is SlicedMachine:
        assert m.log == [("read_slice", "S0", 96, 32), ("read_slice", "S0", 32, 32), ("write_slice", "D0", 64, 32)]


@pytest.mark.parametrize("machine", [Machine, SlicedMachine])
def test_wide_locals_are_taken_apart(machine: type[Machine]) -> None:
    wide = np.array([[(k + 1) << 96 | 7 << 64 | k << 32 | 9 for k in range(L)]] * W, object)
    m, t = machine(S0=wide), local("t", B128)
    evaluator = oracle.compile_program(
        program(
            ir.Declare("t", B128),
            ir.Assign(t, ir.Bitcast(B128, op("S0", Type("u", 128)))),
            ir.Assign(ir.Bits(F32, t, const(64)), ir.Const(F32, 0x3F800000)),
            ir.Assign(D0, ir.Bits(U32, t, const(96))),
            ir.Assign(op("D1", U64), ir.Bits(U64, t, const(32))),
            ir.Assign(op("D2", U16), ir.Bits(U16, t, const(24))),
        )
    )
    evaluator.run(m)
    assert m.operands["D0"][0].tolist() == [1, 2, 3, 4]
    assert m.operands["D1"][0].tolist() == [0x3F800000 << 32 | k for k in range(L)]
    assert m.operands["D2"][0].tolist() == [k << 8 & 0xFFFF for k in range(L)]
    shown = [list(step.locals) for step in evaluator.steps(m)][-1]
    assert shown == ["t[31:0]", "t[63:32]", "t[95:64]", "t[127:96]"]


def test_a_constant_of_1201_bits() -> None:
    big = Type("b", 1201)
    shifted = ir.Binary(big, "shl", ir.Const(big, 0b1011 << 1190), op("S0"))
    m = Machine(S0=np.array([[0, 7, 8, 10]] * W, np.uint32))
    run(m, ir.Assign(op("D0"), ir.Bits(U32, shifted, const(1169))))
    assert [hex(v) for v in m.operands["D0"][0]] == ["0x1600000", "0xb0000000", "0x60000000", "0x80000000"]


# -- machine state --------------------------------------------------------------------------------------------------


def test_lane_masks() -> None:
    m = Machine(S0=lanes(0, 1, 2, 3), EXEC=np.array([[0b0101], [0b0010]], np.uint64))
    m.masks["VCC"] = np.array([[True, False, True, False]] * W)
    run(
        m,
        ir.Assign(D0, ir.Select(U32, ir.LaneBit("VCC"), op("S0"), const(50))),
        ir.Assign(op("D1", U1), ir.LaneBit("EXEC", const(2))),
        ir.Assign(ir.LaneBit("EXEC", const(3)), ir.Const(U1, 1)),
    )
    assert m.operands["D0"][0].tolist() == [0, 50, 2, 50]
    assert m.operands["D1"][:, 0].tolist() == [True, False]
    assert m.operands["EXEC"][:, 0].tolist() == [0b1101, 0b1010]


def test_registers_of_other_lanes_and_scalar_registers() -> None:
    m = Machine(S0=lanes(3, 2, 1, 0)[:1])
    before = m.vgprs.copy()
    run(
        m,
        ir.Assign(D0, ir.Vgpr(U32, op("S0"), const(2))),
        ir.Assign(ir.Vgpr(U32, const(1), const(5)), const(77)),
        ir.Assign(op("D1", U64), ir.Sgpr(U64, const(4))),
        ir.Assign(ir.Sgpr(U64, const(8)), const(6 << 32 | 5, U64)),
        ir.Assign(op("D2"), ir.HwReg(U32, const(3))),
        ir.Assign(ir.HwReg(U32, const(4)), const(9)),
        ir.Effect(ir.Call(U32, "wait_idle", (const(1),))),
    )
    assert (m.operands["D0"] == before[2, :, ::-1]).all()
    assert (m.vgprs[5, :, 1] == 77).all()
    assert int(m.operands["D1"][0, 0]) == 5 << 32 | 4
    assert m.sgprs[8:10].tolist() == [5, 6]
    assert (m.operands["D2"] == 103).all()
    assert m.log[-2:] == [("hwreg", 4, 9), ("wait_idle", [1])]


def test_memory() -> None:
    m = Machine(ADDR=lanes(0, 4, 8, 12, dtype=np.uint64), DATA=lanes(1, 2, 3, 4))
    m.memory = {4: 99}
    place = ir.Mem(U32, op("ADDR", U64))
    run(m, ir.Assign(op("RETURN_DATA"), place), ir.Assign(place, add(place, op("DATA"))))
    assert m.operands["RETURN_DATA"][0].tolist() == [0, 99, 0, 0]
    assert [m.memory[a] for a in (0, 4, 8, 12)] == [1, 101, 3, 4]


# -- mistakes in the IR -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        ir.Assign(D0, op("S0", U64)),
        ir.Assign(op("D0", F32), ir.Binary(F32, "pow", op("S0", F32), op("S1"))),
        ir.Assign(D0, ir.Unary(U32, "cube", op("S0"))),
        ir.Assign(ir.Element(U32, "nowhere", const(0)), const(1)),
        ir.Assign(const(1), const(1)),  # type: ignore[arg-type]
    ],
)
def test_ir_that_means_nothing_does_not_compile(statement: ir.Stmt) -> None:
    with pytest.raises(oracle.CompileError):
        oracle.compile_program(program(statement))


def test_an_element_past_the_end_is_an_error() -> None:
    with pytest.raises(oracle.OracleError, match="element 4 of array a, which has 4"):
        run(Machine(), ir.Declare("a", U32, 4), ir.Assign(D0, ir.Element(U32, "a", const(4))))


# -- stopping between statements ------------------------------------------------------------------------------------


def test_steps_show_each_statement_before_it_runs() -> None:
    t = local("t")
    first = ir.Assign(t, op("S0"))
    second = ir.Assign(t, add(t, const(100)))
    branch = ir.If(((less(t, const(2)), (second,)),))
    last = ir.Assign(D0, t)
    m = Machine(S0=lanes(0, 1, 2, 3))
    seen = []
    for step in oracle.compile_program(program(first, branch, last)).steps(m):
        seen.append(step.statement)
        if step.statement is second:
            assert step.mask is not None and step.mask[0].tolist() == [True, True, False, False]
            assert step.locals["t"][0].tolist() == [0, 1, 2, 3]
        else:
            assert step.mask is None
    assert seen == [first, branch, second, last]
    assert m.operands["D0"].tolist() == [[100, 101, 2, 3], [10, 11, 12, 13]]


def test_steps_and_run_agree_on_loops() -> None:
    i, t = local("i", I32), local("t", I32)
    add_up = ir.Assign(t, add(t, i))
    body = (ir.Declare("t", I32), ir.For("i", const(0, I32), const(2, I32), (add_up,)), ir.Assign(op("D0", I32), t))
    watched, straight = Machine(), run(Machine(), *body)
    kinds = [type(s.statement).__name__ for s in oracle.compile_program(program(*body)).steps(watched)]
    assert kinds == ["Declare", "For", "Assign", "Assign", "Assign", "Assign"]
    assert (watched.operands["D0"] == straight.operands["D0"]).all()
