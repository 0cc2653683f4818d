"""Dense matrix instructions whose sums are exact or fused: WMMA and some MFMA. The twin of :mod:`.machine.matrix`.

A and B are unpacked to doubles (integers: to dwords) in the context, K by K. Then tiles of eight columns are computed:
products are exact in double precision, and so is the sum of a group of them, nearly always; it is rounded to f32 once.
Where a sum is not exact, or a double lies half-way between two floats, Python executes the instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from mockgpu.isa.instruction import Operand
from mockgpu.machine import matrix
from mockgpu.machine.matrix_accumulate import Rule, exact, fused
from mockgpu.machine.matrix_elements import float_format
from mockgpu.machine.matrix_ops import Kind, MatrixError, matrix_op
from mockgpu.machine.native.access import Access
from mockgpu.machine.native.emitter import I1, I8, I32, I64, Emitter
from mockgpu.machine.native.lanes_moved import order
from mockgpu.machine.operands import VECTORS, constant_of
from mockgpu.pcode.llvm import integers
from mockgpu.pcode.llvm.convert import number
from mockgpu.pcode.llvm.float_bits import as_bits, flush, is_denormal
from mockgpu.pcode.llvm.float_env import F32T, F64T, FloatEnv, any_lane, bits_as, intrinsic
from mockgpu.pcode.llvm.float_odd import two_sum
from mockgpu.pcode.llvm.values import NotNative, Value, broadcast, resize, same, splat
from mockgpu.pcode.numeric_format import FloatFormat

TILE = 8  # columns computed together
_MATRIX_BYTES = 32768  # of the context's room
_DROPPED = (1 << 29) - 1  # fraction bits of a double that a float has not
_TIE = 1 << 28


@dataclass(frozen=True)
class _Tile:
    """Eight lanes of a register of C and D: what they hold, and where."""

    block: int
    row: int
    column: int
    register: int
    shift: int
    lane: int


class _Matrix:
    """One instruction being emitted."""

    def __init__(self, e: Emitter):
        self.e, self.access = e, Access(e)
        i = e.instruction
        self.op = matrix_op(e.arch.name, i.opcode.name)
        op = self.op
        if op.kind not in (Kind.WMMA, Kind.MFMA) or op.scaled or op.f8f6f4:
            raise NotNative("sparse and scaled matrix instructions")
        self.job = matrix._Job(op, e.lanes, matrix.modifiers_of(op, i.fields), e.mode)
        matrix._check_broadcast(op, self.job.modifiers)
        self.rule: Rule | None = None if op.integer else matrix.rule_of(op)
        if self.rule is not None and (self.rule.step not in (exact, fused) or op.cd == "f64"):
            raise NotNative("sums that are cut, or of f64")
        if e.mode.fp16_ovfl and op.cd == "f16":
            raise NotNative("saturated f16 results")
        self.env = FloatEnv(e.b, e.mode, e.features)
        self.element = I32 if op.integer else F64T
        self.size = 4 if op.integer else 8
        inner = op.k * op.blocks
        self.a_at, self.b_at = 0, self.size * inner * op.m
        self.d_at = self.b_at + self.size * inner * op.n
        self.tiles = self._tiles()
        if self.d_at + 32 * len(self.tiles) > _MATRIX_BYTES:
            raise NotNative("a matrix larger than its room")

    @property
    def b(self) -> ir.IRBuilder:
        return self.e.b

    # -- where things are -------------------------------------------------------------------------------------

    def _tiles(self) -> list[_Tile]:
        lane, bit = self.job.cd_places()
        found: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        for block, row, column in np.ndindex(lane.shape):
            at = int(bit[block, row, column])
            found[at // 32, at % 32, int(lane[block, row, column])] = block, row, column
        tiles = []
        for register, shift in sorted({(r, s) for r, s, _ in found}):
            for first in range(0, self.e.lanes, TILE):
                block, row, column = found.get((register, shift, first), (-1, -1, -1))
                for k in range(TILE):
                    if found.get((register, shift, first + k)) != (block, row, column + k) or block < 0:
                        raise NotNative("a layout in which eight lanes are no row")
                tiles.append(_Tile(block, row, column, register, shift, first))
        return tiles

    def room(self, offset: Value | int) -> Value:
        """Pointer into the room for matrices."""
        wide = I64(offset) if isinstance(offset, int) else offset
        return self.b.gep(self.e.context_at("matrix"), [wide], source_etype=I8)

    # -- unpacking --------------------------------------------------------------------------------------------

    def unpack(self, source: int) -> None:
        """A (0) or B (1) as a matrix of numbers: for every block and K its rows (columns) side by side."""
        op = self.op
        operand = self.e.instruction.operand(f"src{source}")
        if operand.kind not in VECTORS:
            raise NotNative("a matrix that is a constant")
        kind = (self.job.a_type, self.job.b_type)[source]
        lane, bit = self.job.a_places() if source == 0 else self.job.b_places()
        width = (self.job.places.a, self.job.places.b)[source].bits
        start, count = (self.a_at, op.m) if source == 0 else (self.b_at, op.n)
        converted: dict[tuple[int, int], Value] = {}
        for block in range(op.blocks):
            for k in range(op.k):
                places = {int(x) for x in bit[block, :, k]}
                if len(places) != 1:
                    raise NotNative("a layout in which a K lies at several places")
                at = places.pop()
                key = at, self._flip(source, kind, k)
                if key not in converted:
                    converted[key] = self._converted(operand, kind, at, width, key[1], source)
                rows = self._picked(converted[key], [int(x) for x in lane[block, :, k]])
                if not op.integer:
                    rows = self.b.fpext(rows, ir.VectorType(F64T, count))
                self.b.store(rows, self.room(start + self.size * count * (block * op.k + k)), align=4)

    def _flip(self, source: int, kind: str, k: int) -> int:
        if self.op.integer:
            return 0
        flips = np.asarray(self.job._sign_flips(source, kind, float_format(kind, self.op.target.fnuz)))
        return int(flips) if flips.ndim == 0 else int(flips[k])

    def _picked(self, value: Value, lanes: list[int]) -> Value:
        return self.b.shuffle_vector(value, value, order(lanes))

    def _converted(self, operand: Operand, kind: str, at: int, width: int, flip: int, source: int) -> Value:
        """All lanes' elements at one place, as floats or dwords."""
        b = self.b
        if 32 % width:
            raise NotNative("elements across registers")
        word = self.e.vector(self.e.param(operand.field), at // 32)
        if width < 32:
            word = b.and_(b.lshr(word, same(word, at % 32)), same(word, (1 << width) - 1))
        if self.op.integer:
            signs = self.job.modifiers.neg
            signed = kind == "i8" or bool(signs >> source & 1)
            return _signed(b, word, width) if signed else word
        fmt = float_format(kind, self.op.target.fnuz)
        bits = resize(b, word, 16 if width <= 16 else 32)
        bits = self._flushed(fmt, bits)
        if flip:
            bits = b.xor(bits, same(bits, flip))
        if kind == "xf32":
            raise NotNative("xf32")
        return number(self.env, fmt, bits)

    def _flushed(self, fmt: FloatFormat, bits: Value) -> Value:
        assert self.rule is not None
        if self.rule.flush_inputs:
            return self.b.select(is_denormal(self.env, fmt, bits), same(bits, 0), bits)
        if self.rule.mode_inputs and self.e.mode.f32.flush_in:
            return flush(self.env, fmt, bits)
        return bits

    # -- tiles ------------------------------------------------------------------------------------------------

    def table(self) -> ir.GlobalVariable:
        """For every tile: the places of A, B, and of its lanes from the first register of C, and the shift."""
        op = self.op
        rows = []
        for t in self.tiles:
            a = self.a_at + self.size * (t.block * op.k * op.m + t.row)
            b = self.b_at + self.size * (t.block * op.k * op.n + t.column)
            rows.append([a, b, 4 * (t.register * self.e.lanes + t.lane), t.shift])
        kind = ir.ArrayType(ir.ArrayType(I32, 4), len(rows))
        table = ir.GlobalVariable(self.e.module, kind, f"{self.e.function.name}.tiles")
        table.linkage, table.global_constant = "internal", True
        table.initializer = ir.Constant(kind, [ir.Constant(ir.ArrayType(I32, 4), row) for row in rows])
        return table

    def loop(self, body: Any) -> None:
        """Emit ``body(number of the tile as i64, its row of the table)`` for every tile."""
        b = self.b
        table = self.e.module.globals.get(f"{self.e.function.name}.tiles") or self.table()
        before = b.block
        head, out = b.append_basic_block("tile"), b.append_basic_block("tiles_done")
        b.branch(head)
        b.position_at_end(head)
        n = b.phi(I64)
        n.add_incoming(I64(0), before)
        row = b.gep(table, [I64(0), n, I32(0)])

        def entry(k: int) -> Value:
            return b.zext(b.load(b.gep(row, [I32(k)], source_etype=I32), typ=I32), I64)

        body(n, [entry(k) for k in range(4)])
        after = b.add(n, I64(1))
        n.add_incoming(after, b.block)
        b.cbranch(b.icmp_unsigned("<", after, I64(len(self.tiles))), head, out)
        b.position_at_end(out)

    def old(self, place: Value, shift: Value) -> Value:
        """C of a tile: <8 x double>, or <8 x i64> for integers."""
        b, op = self.b, self.op
        operand = self.e.instruction.operand("src2")
        word = self._old_words(operand, place)
        if op.integer:
            return b.sext(word, ir.VectorType(I64, TILE))
        fmt = float_format(op.cd, op.target.fnuz)
        if fmt.bits == 16:
            amount = broadcast(b, b.trunc(shift, I32), TILE)
            word = resize(b, b.lshr(word, amount), 16)
        value = number(self.env, fmt, word)
        if op.kind is Kind.WMMA and self.job.modifiers.neg_hi & 4:
            value = intrinsic(self.env, "fabs", [value])
        if op.kind is Kind.WMMA and self.job.modifiers.neg & 4:
            value = b.fneg(value)
        return b.fpext(value, ir.VectorType(F64T, TILE))

    def _old_words(self, operand: Operand, place: Value) -> Value:
        b, kind = self.b, ir.VectorType(I32, TILE)
        if constant_of(operand) is not None:
            return broadcast(b, self.e.param(operand.field), TILE)
        if operand.kind not in VECTORS:
            raise NotNative("an accumulator in scalar registers")
        return b.load(self._register(operand.field, place), typ=kind, align=4)

    def _register(self, name: str, place: Value) -> Value:
        first = self.e.at(self.e.param(name))
        return self.b.gep(first, [place], source_etype=I8)

    def factor(self, offset: Value, k: int, count: int) -> Value:
        """The place of K ``k`` of a matrix with ``count`` rows."""
        return self.room(self.b.add(offset, I64(self.size * count * k)))

    def floats(self) -> None:
        """All tiles of a float instruction; leaves where one cannot be right."""
        b, op, rule = self.b, self.op, self.rule
        assert rule is not None
        kind = ir.VectorType(F64T, TILE)
        doubt = self.room(_MATRIX_BYTES - 64)
        b.store(ir.Constant(ir.VectorType(I8, TILE), [0] * TILE), doubt)

        def tile(n: Value, row: list[Value]) -> None:
            total = self.old(row[2], row[3])
            wrong: Value = splat(ir.VectorType(I1, TILE), 0)
            for first in range(0, op.k, rule.group):
                part: Value | None = None
                for k in range(first, min(first + rule.group, op.k)):
                    x = broadcast(b, b.load(self.factor(row[0], k, op.m), typ=F64T), TILE)
                    y = b.load(self.factor(row[1], k, op.n), typ=kind, align=8)
                    if part is None:
                        part = b.fmul(x, y)
                    else:
                        part, inexact = self._plus(part, x, y)
                        wrong = b.or_(wrong, inexact)
                assert part is not None
                total, doubtful = self._rounded(part, total)
                wrong = b.or_(wrong, doubtful)
            narrow = b.fptrunc(total, ir.VectorType(F32T, TILE))
            wrong = b.or_(wrong, b.fcmp_unordered("uno", total, total))
            fmt = float_format(op.cd, op.target.fnuz)
            bits = resize(b, as_bits(self.env, fmt, narrow), 32)
            b.store(bits, self.room(b.add(I64(self.d_at), b.mul(n, I64(32)))), align=4)
            old = b.load(doubt, typ=ir.VectorType(I8, TILE))
            b.store(b.or_(old, b.zext(wrong, old.type)), doubt)

        self.loop(tile)
        found = b.load(doubt, typ=ir.VectorType(I8, TILE))
        self.access.bail(any_lane(self.env, b.icmp_unsigned("!=", found, same(found, 0))))

    def _plus(self, part: Value, x: Value, y: Value) -> tuple[Value, Value]:
        """``part + x * y`` and whether that is not exact (also where anything is infinite or a NaN)."""
        total, rest = two_sum(self.env, part, self.b.fmul(x, y))
        return total, self.b.fcmp_unordered("!=", rest, splat(rest.type, 0.0))

    def _rounded(self, part: Value, old: Value) -> tuple[Value, Value]:
        """The sum rounded to f32, and whether rounding its double again may be wrong: inexact ties and denormals."""
        b = self.b
        value, rest = two_sum(self.env, part, old)
        bits = bits_as(self.env, value, I64)
        tie = b.icmp_unsigned("==", b.and_(bits, same(bits, _DROPPED)), same(bits, _TIE))
        size = bits_as(self.env, b.and_(bits, same(bits, (1 << 63) - 1)), F64T)
        hard = b.or_(tie, b.fcmp_ordered("<", size, splat(size.type, 2.0**-125)))
        inexact = b.fcmp_unordered("!=", rest, splat(rest.type, 0.0))
        narrow = b.fptrunc(value, ir.VectorType(F32T, TILE))
        return b.fpext(narrow, value.type), b.and_(hard, inexact)

    def whole_numbers(self) -> None:
        """All tiles of an integer instruction."""
        b, op = self.b, self.op
        kind = ir.VectorType(I32, TILE)
        wide = ir.VectorType(I64, TILE)

        def tile(n: Value, row: list[Value]) -> None:
            total = self.old(row[2], row[3])
            products: Value = splat(kind, 0)
            for k in range(op.k):  # of 8 bits at most: their sum fits 32
                x = broadcast(b, b.load(self.factor(row[0], k, op.m), typ=I32), TILE)
                y = b.load(self.factor(row[1], k, op.n), typ=kind, align=4)
                products = b.add(products, b.mul(x, y))
            total = b.add(total, b.sext(products, wide))
            if self.job.modifiers.clamp:
                low = integers.call(b, "smax", total, same(total, -(1 << 31)))
                total = integers.call(b, "smin", low, same(total, (1 << 31) - 1))
            b.store(b.trunc(total, kind), self.room(b.add(I64(self.d_at), b.mul(n, I64(32)))), align=4)

        self.loop(tile)

    def write(self) -> None:
        """Put the results in the destination, all lanes whatever EXEC says."""
        b, kind = self.b, ir.VectorType(I32, TILE)
        half = self.job.places.cd.bits == 16

        def tile(n: Value, row: list[Value]) -> None:
            place = self._register("vdst", row[2])
            new = b.load(self.room(b.add(I64(self.d_at), b.mul(n, I64(32)))), typ=kind, align=4)
            if half:
                shift = broadcast(b, b.trunc(row[3], I32), TILE)
                kept = b.and_(b.load(place, typ=kind, align=4), b.not_(b.shl(same(new, 0xFFFF), shift)))
                new = b.or_(kept, b.shl(new, shift))
            b.store(new, place, align=4)

        self.loop(tile)


def _signed(b: ir.IRBuilder, word: Value, width: int) -> Value:
    spare = same(word, 32 - width)
    return b.ashr(b.shl(word, spare), spare)


def emit(e: Emitter) -> None:
    """A matrix instruction."""
    try:
        m = _Matrix(e)
    except (MatrixError, KeyError) as error:
        raise NotNative(str(error)) from error
    m.unpack(0)
    m.unpack(1)
    if m.op.integer:
        m.whole_numbers()
    else:
        m.floats()
    m.write()
    e.next()
