"""The evaluator on hand-made programs: predicates, loops, slices, lane masks, wide operands, stopping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mockgpu.pcode import ir, oracle
from mockgpu.pcode import numeric as num
from mockgpu.pcode.ir import B32, F16, F32, I32, I64, U1, U16, U32, U64, Type
from mockgpu.pcode.numeric import Denorm, Mode

W, L = 2, 4
B64, B128, U8, I8 = Type("b", 64), Type("b", 128), Type("u", 8), Type("i", 8)


class Machine:
    """Operands, lane masks, registers and memory as plain arrays and dictionaries."""

    def __init__(self, mode: Mode | None = None, **operands: Any) -> None:
        self.waves, self.lanes, self.wave_size = W, L, L
        self.mode = mode or Mode(denorm_f32=Denorm.KEEP)
        self.operands: dict[str, np.ndarray] = operands
        self.masks: dict[str, np.ndarray] = {}
        self.vgprs = np.arange(8 * W * L, dtype=np.uint32).reshape(8, W, L)
        self.sgprs = np.arange(16, dtype=np.uint32)
        self.memory: dict[int, int] = {}
        self.log: list[Any] = []

    def read(self, name: str, bits: int) -> np.ndarray:
        self.log.append(("read", name))
        return num.resize(self.operands[name], 128 if self.operands[name].dtype == object else 64, bits)

    def write(self, name: str, value: np.ndarray, bits: int, mask: np.ndarray | None) -> None:
        assert value.dtype == num.container(bits)
        new = np.broadcast_to(value, (W, L))
        old = self.operands.get(name, np.zeros((W, L), new.dtype))
        self.operands[name] = new.copy() if mask is None else np.where(mask, new, old)

    def read_lane_mask(self, name: str) -> np.ndarray:
        return self.masks[name]

    def write_lane_mask(self, name: str, value: np.ndarray, mask: np.ndarray | None) -> None:
        new = np.broadcast_to(value, (W, L))
        self.masks[name] = new if mask is None else np.where(mask, new, self.masks[name])

    def read_vgpr(self, lane: np.ndarray, reg: np.ndarray) -> np.ndarray:
        lanes, regs = np.broadcast_arrays(np.asarray(lane, np.int64), np.asarray(reg, np.int64))
        waves = np.arange(W)[:, None]
        return self.vgprs[regs, waves, lanes]

    def write_vgpr(self, lane: np.ndarray, reg: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        assert mask is None
        self.vgprs[int(reg), :, int(lane)] = np.broadcast_to(value, (W, 1))[:, 0]

    def read_sgpr(self, reg: np.ndarray) -> np.ndarray:
        return self.sgprs[np.broadcast_to(np.asarray(reg, np.int64), (W, 1))]

    def write_sgpr(self, reg: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        self.sgprs[int(reg)] = np.ravel(value)[0]

    def read_hwreg(self, index: np.ndarray) -> np.ndarray:
        return np.asarray(index) + np.uint32(100)

    def write_hwreg(self, index: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        self.log.append(("hwreg", int(index), int(np.ravel(value)[0])))

    def load(self, addr: np.ndarray, bits: int, mask: np.ndarray | None) -> np.ndarray:
        allowed = np.broadcast_to(True if mask is None else mask, (W, L))
        self.log.append(("load", int(np.count_nonzero(allowed))))
        flat = [self.memory.get(int(a), 0) for a in np.broadcast_to(addr, (W, L)).ravel()]
        return np.array(flat, num.container(bits)).reshape(W, L)

    def store(self, addr: np.ndarray, value: np.ndarray, bits: int, mask: np.ndarray | None) -> None:
        allowed = np.broadcast_to(True if mask is None else mask, (W, L))
        for a, v in zip(np.broadcast_to(addr, (W, L))[allowed], np.broadcast_to(value, (W, L))[allowed], strict=True):
            self.memory[int(a)] = int(v)

    def effect(self, fn: str, args: tuple[np.ndarray, ...], mask: np.ndarray | None) -> None:
        self.log.append((fn, [int(np.ravel(a)[0]) for a in args]))


class SlicedMachine(Machine):
    """A context that can read and write single dwords of wide operands."""

    def read_slice(self, name: str, lo: int, bits: int) -> np.ndarray:
        self.log.append(("read_slice", name, lo, bits))
        return ((self.operands[name] >> lo) & ((1 << bits) - 1)).astype(num.container(bits))

    def write_slice(self, name: str, lo: int, value: np.ndarray, bits: int, mask: np.ndarray | None) -> None:
        self.log.append(("write_slice", name, lo, bits))
        assert mask is None
        hole = ((1 << bits) - 1) << lo
        self.operands[name] = (self.operands[name] & ~hole) | (num.boxed(np.broadcast_to(value, (W, L))) << lo)


@pytest.fixture(autouse=True)
def quiet_numpy():
    with np.errstate(all="ignore"):
        yield


def program(*body: ir.Stmt) -> ir.Program:
    return ir.Program(tuple(body), frozenset(), frozenset(), "")


def run(machine: Machine, *body: ir.Stmt, mask: np.ndarray | None = None) -> Machine:
    oracle.compile_program(program(*body)).run(machine, mask)
    return machine


def const(value: int, type: Type = U32) -> ir.Const:
    return ir.Const(type, value)


def op(name: str, type: Type = U32) -> ir.Operand:
    return ir.Operand(type, name)


def local(name: str, type: Type = U32) -> ir.Local:
    return ir.Local(type, name)


def add(a: ir.Expr, b: ir.Expr) -> ir.Binary:
    return ir.Binary(a.type, "add", a, b)


def less(a: ir.Expr, b: ir.Expr) -> ir.Binary:
    return ir.Binary(U1, "lt", a, b)


def lanes(*values: int, dtype: Any = np.uint32) -> np.ndarray:
    return np.array([values, [v + 10 for v in values]], dtype)


D0 = op("D0")


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


# -- operators ------------------------------------------------------------------------------------------------------

INTEGER_OPS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "div": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "mod": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}  # fmt: skip
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "lg": lambda a, b: a != b,
}  # fmt: skip


def samples(bits: int) -> list[int]:
    top = (1 << bits) - 1
    return sorted({v & top for v in (0, 1, 2, 3, 5, top, top - 1, top >> 1, (top >> 1) + 1, 0x5A5A5A5A5A5A5A5A5A, 77)})


def both_ways(type: Type) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
    values = samples(type.bits)
    pairs = [(a, b) for a in values for b in values]
    word = num.container(type.bits)
    return np.array([a for a, _ in pairs], word), np.array([b for _, b in pairs], word), pairs


def signed(x: int, type: Type) -> int:
    return x - (1 << type.bits) if type.kind == "i" and x >> (type.bits - 1) else x


@pytest.mark.parametrize("type", [Type(k, n) for k in "ui" for n in (4, 8, 16, 24, 32, 64, 65, 128)], ids=str)
def test_integer_operators(type: Type) -> None:
    from mockgpu.pcode.oracle_ops import binary

    a, b, pairs = both_ways(type)
    mask = (1 << type.bits) - 1
    for name, step in INTEGER_OPS.items():
        if name in ("div", "mod"):
            if type.bits > 64:
                continue
            keep = b != 0
            got = binary(name, type, type)(Mode(), a[keep], b[keep])
            used = [p for p in pairs if p[1]]
        else:
            got, used = binary(name, type, type)(Mode(), a, b), pairs
        assert got.dtype == num.container(type.bits)
        want = [step(signed(x, type), signed(y, type)) & mask for x, y in used]
        assert [int(v) for v in got.ravel()] == want, name
    if type.bits <= 64:
        for name, holds in COMPARISONS.items():
            got = binary(name, type, type)(Mode(), a, b)
            assert got.tolist() == [holds(signed(x, type), signed(y, type)) for x, y in pairs], name


@pytest.mark.parametrize("type", [Type(k, n) for k in "ui" for n in (8, 16, 24, 32, 64, 100)], ids=str)
@pytest.mark.parametrize("count", [U8, U32, U64], ids=str)
def test_shifts_by_any_count(type: Type, count: Type) -> None:
    from mockgpu.pcode.oracle_ops import binary

    counts = [0, 1, 7, 8, 15, 16, 23, 24, 31, 32, 33, 63, 64, 99, 100, 200, (1 << count.bits) - 1]
    pairs = [(x, n) for x in samples(type.bits) for n in counts]
    a = np.array([x for x, _ in pairs], num.container(type.bits))
    n = np.array([n for _, n in pairs], num.container(count.bits))
    mask = (1 << type.bits) - 1
    left, right = (binary(name, type, count)(Mode(), a, n) for name in ("shl", "shr"))
    assert [int(v) for v in left.ravel()] == [x << min(k, 200) & mask for x, k in pairs]
    assert [int(v) for v in right.ravel()] == [signed(x, type) >> min(k, 200) & mask for x, k in pairs]


def test_division_by_zero_is_an_error() -> None:
    with pytest.raises(oracle.OracleError, match="div of u32 by zero"):
        run(Machine(S0=lanes(1, 2, 3, 4)), ir.Assign(D0, ir.Binary(U32, "div", op("S0"), const(0))))


def test_unary_operators() -> None:
    x = np.array([[0, 1, 0x80000000, 0xFFFFFFFF]] * W, np.uint32)
    m = Machine(S0=x)
    run(
        m,
        ir.Assign(op("D0", I32), ir.Unary(I32, "neg", op("S0", I32))),
        ir.Assign(op("D1"), ir.Unary(U32, "not", op("S0"))),
        ir.Assign(op("D2", F32), ir.Unary(F32, "neg", op("S0", F32))),
        ir.Assign(op("D3", U1), ir.Unary(U1, "lnot", ir.Cast(U1, op("S0")))),
        ir.Assign(op("D4", U8), ir.Unary(U8, "not", ir.Cast(U8, op("S0")))),
    )
    assert (m.operands["D0"] == -x).all() and (m.operands["D1"] == ~x).all()
    assert (m.operands["D2"] == x ^ np.uint32(1 << 31)).all()
    assert m.operands["D3"][0].tolist() == [True, False, True, False]
    assert m.operands["D4"][0].tolist() == [255, 254, 255, 0]


def test_casts_and_bitcasts_of_integers() -> None:
    m = Machine(S0=np.array([[0x80, 0x7F, 0xFF, 1]] * W, np.uint32))
    byte = ir.Bits(I8, op("S0", B32), const(0))
    run(
        m,
        ir.Assign(op("D0", I32), ir.Cast(I32, byte)),
        ir.Assign(op("D1", I32), ir.Bitcast(I32, byte)),
        ir.Assign(op("D2", I64), ir.Cast(I64, byte)),
        ir.Assign(op("D3", F32), ir.Cast(F32, byte)),
    )
    assert m.operands["D0"].view(np.int32)[0].tolist() == [-128, 127, -1, 1]
    assert m.operands["D1"][0].tolist() == [128, 127, 255, 1]
    assert m.operands["D2"].view(np.int64)[0].tolist() == [-128, 127, -1, 1]
    assert m.operands["D3"].view(np.float32)[0].tolist() == [-128, 127, -1, 1]


def test_a_carry_out_of_64_bits() -> None:
    wide = Type("u", 65)
    total = add(ir.Cast(wide, op("S0", U64)), ir.Cast(wide, op("S1", U64)))
    m = Machine(S0=np.full((W, L), (1 << 64) - 1, np.uint64), S1=lanes(0, 1, 2, 3, dtype=np.uint64))
    run(
        m,
        ir.Assign(local("t", wide), total),
        ir.Assign(op("D0", U64), ir.Bits(U64, local("t", wide), const(0))),
        ir.Assign(ir.LaneBit("VCC"), ir.Bits(U1, local("t", wide), const(64))),
    )
    assert m.operands["D0"][0].tolist() == [(1 << 64) - 1, 0, 1, 2]
    assert m.masks["VCC"][0].tolist() == [False, True, True, True]


@pytest.mark.parametrize("kind", ["u", "i"])
def test_a_wide_multiply_add_and_its_carry(kind: str) -> None:
    """V_MAD_U64_U32 and V_MAD_I64_I32 on corner values, against Python's integers."""
    wide, half, small = Type(kind, 65), Type(kind, 64), Type(kind, 32)
    product = ir.Binary(wide, "mul", ir.Cast(wide, op("S0", small)), ir.Cast(wide, op("S1", small)))
    t = local("t", Type("b", 65))
    body = (
        ir.Declare("t", Type("b", 65)),
        ir.Assign(t, ir.Bitcast(Type("b", 65), add(product, ir.Cast(wide, op("S2", half))))),
        ir.Assign(op("D0", U64), ir.Bits(U64, t, const(0))),
        ir.Assign(ir.LaneBit("D1"), ir.Bits(U1, t, const(64))),
    )
    for a in samples(32):
        for b in samples(32):
            c = np.resize(np.array(samples(64), np.uint64), (W, L))
            m = run(Machine(S0=np.array([[a]], np.uint32), S1=np.array([[b]], np.uint32), S2=c), *body)
            exact = [signed(a, small) * signed(b, small) + signed(int(v), half) for v in c.ravel()]
            assert m.operands["D0"].ravel().tolist() == [v & ((1 << 64) - 1) for v in exact]
            assert m.masks["D1"].ravel().tolist() == [bool(v >> 64 & 1) for v in exact]


def test_a_power_of_two_scales() -> None:
    two = ir.Const(F32, 0x40000000)
    power = ir.Binary(F32, "pow", two, op("S1", I32))
    m = Machine(S1=np.array([[0, 3, 0xFFFFFFFF, 200]] * W, np.uint32))
    run(m, ir.Assign(op("D0", F32), power))
    assert m.operands["D0"].view(np.float32)[0].tolist() == [1.0, 8.0, 0.5, np.inf]


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
