"""Scalar opcodes whose text is a loop over bits, done on whole words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mockgpu.pcode import ir
from mockgpu.pcode.llvm import integers
from mockgpu.pcode.llvm.values import Builder, Value, resize, same


def scalar_forms() -> dict[str, Callable[[Any], bool]]:
    """The forms by name of the opcode."""
    return {
        **{f"S_WQM_B{n}": _of_word(n, n, _whole_quads, True) for n in (32, 64)},
        **{f"S_QUADMASK_B{n}": _of_word(n, n, _quad_mask, True) for n in (32, 64)},
        **{f"S_BCNT0_I32_B{n}": _of_word(n, 32, _zeros, True) for n in (32, 64)},
        **{f"S_FF0_I32_B{n}": _of_word(n, 32, _first_zero, False) for n in (32, 64)},
        "S_BITREPLICATE_B64_B32": _of_word(32, 64, _doubled, False),
    }


def _of_word(bits: int, result: int, step: Callable[[Builder, Value, int], Value], scc: bool) -> Callable[[Any], bool]:
    """D0 from S0; SCC says whether it is not zero."""

    def form(s: Any) -> bool:
        b = s.b
        out = step(b, s.value(ir.Operand(ir.Type("u", bits), "S0")), bits)
        s.write("D0", out, result)
        if scc:
            s.write("SCC", b.icmp_unsigned("!=", out, same(out, 0)), 1)
        return True

    return form


def _repeated(pattern: int, width: int, bits: int) -> int:
    """A number of ``bits`` bits of copies of a pattern of ``width`` bits."""
    return sum(pattern << k for k in range(0, bits, width))


def _quads(b: Builder, x: Value, bits: int) -> Value:
    """Bit 0 of each group of four: whether any bit of the group is set."""
    x = b.or_(x, b.lshr(x, same(x, 1)))
    x = b.or_(x, b.lshr(x, same(x, 2)))
    return b.and_(x, same(x, _repeated(1, 4, bits)))


def _whole_quads(b: Builder, x: Value, bits: int) -> Value:
    quads = _quads(b, x, bits)
    return b.mul(quads, same(quads, 15))


def _quad_mask(b: Builder, x: Value, bits: int) -> Value:
    """One bit for each group, moved together by doubling steps."""
    x = _quads(b, x, bits)
    count = 1
    while 4 * count < bits:
        x = b.or_(x, b.lshr(x, same(x, 3 * count)))
        count *= 2
        x = b.and_(x, same(x, _repeated((1 << count) - 1, 4 * count, bits)))
    return x


def _zeros(b: Builder, x: Value, bits: int) -> Value:
    ones = resize(b, integers.call(b, "ctpop", x), 32)
    return b.sub(same(ones, bits), ones)


def _first_zero(b: Builder, x: Value, bits: int) -> Value:
    return integers.INTEGER["find_first_one"]((ir.Type("u", bits),))(b, b.not_(x))


def _doubled(b: Builder, x: Value, bits: int) -> Value:
    """Every bit twice."""
    x = resize(b, x, 64)
    for distance in (16, 8, 4, 2, 1):
        x = b.or_(x, b.shl(x, same(x, distance)))
        x = b.and_(x, same(x, _repeated((1 << distance) - 1, 2 * distance, 64)))
    return b.or_(x, b.shl(x, same(x, 1)))
