"""How the addresses of lanes hang together, found out once for several accesses of a segment.

Consecutive instructions often access places at fixed distances from the same address registers. What the registers
hold, whether a row, groups of equal addresses or the same eight again and again, is then one computation for all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from llvmlite import ir

from mockgpu.machine.native.emitter import I32, I64, PTR, Emitter
from mockgpu.machine.native.lanes_moved import joined, order, padded
from mockgpu.pcode.llvm.values import Value, broadcast, resize

ROW, UNIFORM, PERIODIC, OTHER = range(4)
GROUP = 8  # lanes of a group of equal addresses, and lanes after which addresses begin again


@dataclass
class Pattern:
    """The addresses of all lanes as ``base`` (<lanes x i32> or <lanes x i64>, unsigned) plus something uniform.

    ``low`` and ``high`` are the lowest and highest of ``base`` as i64, ``leaders`` the first lanes as i64.
    """

    base: Value
    low: Value
    high: Value
    uniform: Value
    periodic: Value
    leaders: dict[int, Value]
    rows: dict[int, Value] = field(default_factory=dict)


def pattern_of(e: Emitter, base: Value) -> Pattern:
    """Emit what finds out the pattern of ``base``; all lanes are active."""
    b, n = e.b, e.lanes
    uniform = _all(e, b.icmp_unsigned("==", base, b.shuffle_vector(base, base, order(k & ~7 for k in range(n)))))
    periodic = _all(e, b.icmp_unsigned("==", base, b.shuffle_vector(base, base, order(k & 7 for k in range(n)))))
    low, high = (resize(b, _reduced(e, name, base), 64) for name in ("umin", "umax"))
    lanes = sorted({*range(GROUP), *range(0, n, GROUP)})
    leaders = {lane: resize(b, b.extract_element(base, I32(lane)), 64) for lane in lanes}
    return Pattern(base, low, high, uniform, periodic, leaders)


def row_of(e: Emitter, pattern: Pattern, step: int) -> Value:
    """Whether lane after lane lies ``step`` bytes further on."""
    if step not in pattern.rows:
        b, base = e.b, pattern.base
        places = ir.Constant(base.type, [k * step for k in range(e.lanes)])
        first = broadcast(b, b.extract_element(base, I32(0)), e.lanes)
        spread = b.icmp_unsigned("==", b.sub(pattern.high, pattern.low), I64(step * (e.lanes - 1)))
        pattern.rows[step] = b.and_(spread, _all(e, b.icmp_unsigned("==", base, b.add(first, places))))
    return pattern.rows[step]


def _all(e: Emitter, flags: Value) -> Value:
    bits = e.packed(flags)
    return e.b.icmp_unsigned("==", bits, ir.Constant(bits.type, (1 << e.lanes) - 1))


def _reduced(e: Emitter, name: str, base: Value) -> Value:
    kind = base.type.element
    full = f"llvm.vector.reduce.{name}.v{e.lanes}i{kind.width}"
    return e.b.call(e.intrinsic(full, ir.FunctionType(kind, [base.type])), [base])


def load_group(e: Emitter, pattern: Pattern, lanes: range, offset: Value, dwords: int) -> Value:
    """The dwords at the addresses of some leaders, one leader after the other."""
    b = e.b
    kind = I32 if dwords == 1 else ir.VectorType(I32, dwords)
    parts = []
    for lane in lanes:
        pointer = b.inttoptr(b.add(pattern.leaders[lane], offset), PTR)
        parts.append(b.load(pointer, typ=kind, align=1))
    return joined(b, padded(b, parts))


def spread_group(e: Emitter, words: Value, dwords: int, lane_of: list[int]) -> list[Value]:
    """The dwords of every lane out of those of the leaders: lane k has those of leader ``lane_of[k]``."""
    each = 4 if dwords == 3 else dwords
    return [e.b.shuffle_vector(words, words, order(lane * each + k for lane in lane_of)) for k in range(dwords)]
