"""Moves between lanes whose text is a loop over the lanes, done on all lanes at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir as llvm

from mockgpu.pcode import ir
from mockgpu.pcode.llvm.values import Builder, Value, broadcast, lanes_of, same, select


def lane_moves() -> dict[str, Callable[[Any], bool]]:
    """The forms by name of the opcode."""
    return {
        "V_PERMLANE16_B32": _permuted(0),
        "V_PERMLANEX16_B32": _permuted(1),
        "V_PERMLANE16_VAR_B32": _permuted_by_lane(0),
        "V_PERMLANEX16_VAR_B32": _permuted_by_lane(1),
        "V_PERMLANE64_B32": _halves_swapped,
    }


def _vector(numbers: list[int]) -> llvm.Constant:
    return llvm.Constant(llvm.VectorType(llvm.IntType(32), len(numbers)), numbers)


def _move(s: Any, source: Value) -> bool:
    """Each active lane gets source 0 of the lane ``source``, which is below the number of lanes."""
    values = s.ctx.read("S0", 32)
    if lanes_of(values) == 1:
        return False
    s.write("D0", gathered(s, values, source), 32)
    return True


def gathered(env: Any, values: Value, source: Value) -> Value:
    """``values[source]`` lane by lane, of dwords."""
    lanes = lanes_of(values)
    if isinstance(source, llvm.Constant):
        return env.b.shuffle_vector(values, llvm.Constant(values.type, llvm.Undefined), source)
    if "avx512f" in env.features and lanes in (32, 64):
        return _by_permutes(env.b, values, source)
    return _through_memory(env.b, values, source)


def _part(b: Builder, value: Value, first: int, count: int) -> Value:
    return b.shuffle_vector(
        value, llvm.Constant(value.type, llvm.Undefined), _vector(list(range(first, first + count)))
    )


def _joined(b: Builder, parts: list[Value]) -> Value:
    """Vectors of the same length, a power of two of them, as one."""
    while len(parts) > 1:
        count = 2 * lanes_of(parts[0])
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [b.shuffle_vector(x, y, _vector(list(range(count)))) for x, y in pairs]
    return parts[0]


def _by_permutes(b: Builder, values: Value, source: Value) -> Value:
    """AVX-512 picks dwords out of two registers at once."""
    lanes = lanes_of(values)
    name, kind = "llvm.x86.avx512.vpermi2var.d.512", llvm.VectorType(llvm.IntType(32), 16)
    pick = b.module.globals.get(name)
    if pick is None:
        pick = llvm.Function(b.module, llvm.FunctionType(kind, [kind] * 3), name)
    rows = [_part(b, values, k, 16) for k in range(0, lanes, 16)]
    places = [_part(b, source, k, 16) for k in range(0, lanes, 16)]
    low = _joined(b, [b.call(pick, [rows[0], p, rows[1]]) for p in places])
    if lanes == 32:
        return low
    high = _joined(b, [b.call(pick, [rows[2], p, rows[3]]) for p in places])
    upper = b.icmp_unsigned("!=", b.and_(source, same(source, 32)), same(source, 0))
    return b.select(upper, high, low)


def _through_memory(b: Builder, values: Value, source: Value) -> Value:
    dword, lanes = llvm.IntType(32), lanes_of(values)
    with b.goto_entry_block():
        place = b.alloca(values.type)
    b.store(values, place)
    out: Value = llvm.Constant(values.type, llvm.Undefined)
    for k in range(lanes):
        at = b.gep(place, [b.extract_element(source, dword(k))], source_etype=dword)
        out = b.insert_element(out, b.load(at, typ=dword), dword(k))
    return out


def _permuted(other: int) -> Callable[[Any], bool]:
    """Within rows of 16 lanes, by 16 selectors of 4 bits in S1 and S2; ``other``: from the row beside."""

    def form(s: Any) -> bool:
        b: Builder = s.b
        low, high = s.value(ir.Operand(ir.U32, "S1")), s.value(ir.Operand(ir.U32, "S2"))
        if lanes_of(low) > 1 or lanes_of(high) > 1:
            return False
        lanes = range(s.ctx.lanes)
        upper = llvm.Constant(llvm.VectorType(llvm.IntType(1), len(lanes)), [k >> 3 & 1 for k in lanes])
        word = select(b, upper, broadcast(b, high, len(lanes)), broadcast(b, low, len(lanes)))
        chosen = b.lshr(word, _vector([4 * (k & 7) for k in lanes]))
        chosen = b.and_(chosen, same(chosen, 15))
        return _move(s, b.or_(chosen, _vector([(k >> 4 ^ other) << 4 for k in lanes])))

    return form


def _permuted_by_lane(other: int) -> Callable[[Any], bool]:
    """Within rows of 16 lanes, by a selector of every lane; ``other``: from the row beside."""

    def form(s: Any) -> bool:
        own = s.ctx.read("LANE", 32)
        values, chosen = (s.ctx.read_vgpr(own, s.ctx.read(name, 32)) for name in ("SRC0", "SRC1"))
        if lanes_of(values) == 1 or lanes_of(chosen) == 1:
            return False
        rows = _vector([(k >> 4 ^ other) << 4 for k in range(s.ctx.lanes)])
        moved = gathered(s, values, s.b.or_(s.b.and_(chosen, same(chosen, 15)), rows))
        s.ctx.write_vgpr(own, s.ctx.read("VDST", 32), moved, None)
        return True

    return form


def _halves_swapped(s: Any) -> bool:
    if s.ctx.wave_size != 64:
        return False
    return _move(s, _vector([k ^ 32 for k in range(64)]))
