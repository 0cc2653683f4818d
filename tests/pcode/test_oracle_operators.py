"""The operators of the IR on integers of all widths, against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.pcode_machine import D0, L, Machine, W, add, const, lanes, local, op, run

from mockgpu.pcode import ir, oracle
from mockgpu.pcode import numeric as num
from mockgpu.pcode.ir import B32, F32, I32, I64, U1, U32, U64, Type
from mockgpu.pcode.numeric import Mode

B64, B128, U8, I8 = Type("b", 64), Type("b", 128), Type("u", 8), Type("i", 8)


@pytest.fixture(autouse=True)
def quiet_numpy():
    with np.errstate(all="ignore"):
        yield


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


@pytest.mark.parametrize("how", ["predicate", "EXEC"])
@pytest.mark.parametrize("kind", ["u", "i"])
def test_division_by_zero_in_lanes_that_do_not_count(how: str, kind: str) -> None:
    type = ir.Type(kind, 32)  # type: ignore[arg-type]
    m = Machine(S0=lanes(7, 8, 9, 10), S1=lanes(0, 2, 0, 5))
    m.operands["S1"][1, ::2] = 0
    counts = m.operands["S1"] != 0
    if how == "EXEC":
        m.masks["EXEC"] = counts
    quotient = ir.Binary(type, "div", op("S0", type), op("S1", type))
    run(m, ir.Assign(op("D0", type), quotient), mask=counts if how == "predicate" else None)
    assert m.operands["D0"][0, 1::2].tolist() == [4, 2]
