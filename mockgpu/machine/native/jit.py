"""Runs of instructions compiled together: the second tier, for code that runs often.

A *segment* is a run of instructions inside a block that needs no Python. Its function takes the place of the handler
of the segment's first record, and goes on at the record behind it, so that both tiers mix freely. It is made for EXEC
being all ones; with any other EXEC it hands over to the handlers.

Registers are values; memory sees them at the end of a *region*. A region begins at every instruction that stores to
memory. Whatever is rare (a NaN, a fault, an access that only Python can do) gives up the region: since its registers
have not been stored, the handlers simply execute it again from its first record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from llvmlite import ir

from mockgpu.isa.errors import MockGPUError
from mockgpu.isa.registers import EXEC_LO
from mockgpu.machine.native import emit
from mockgpu.machine.native.emitter import HANDLER, I1, I8, I32, I64, Emitter
from mockgpu.machine.native.flow import Flow
from mockgpu.machine.native.layout import CONTEXT, HEADER, RECORD_BYTES, SGPR, Reason, field
from mockgpu.machine.native.program import Item, Translation
from mockgpu.machine.native.space import Kind
from mockgpu.machine.operands import VECTORS
from mockgpu.machine.semantics import nodes, opcode_program
from mockgpu.machine.waves import EXEC
from mockgpu.pcode import ir as pcode
from mockgpu.pcode.llvm.values import NotNative, Value, broadcast, unify

LONGEST, SHORTEST = 400, 3  # instructions of a segment
_LEAVES = frozenset({Reason.END, Reason.BARRIER, Reason.JUMP, Reason.TURN})


class NeedsMemory(NotNative):
    """An instruction touches registers in a way that values cannot follow."""


class Deferred:
    """Conditions that give up a region, tested at its end: flags, and results that may be NaN.

    A NaN operand makes the result a NaN, so that a result stands for its operands.
    """

    def __init__(self) -> None:
        self.flags: list[Value] = []
        self.results: dict[int, tuple[Value, Value]] = {}

    def abort(self, flags: Value) -> None:
        """Give up where a flag is set in any lane."""
        self.flags.append(flags)

    def result(self, bits: Value, nan: Value, operands: tuple[Value, ...]) -> None:
        """``bits`` was computed from ``operands``; ``nan`` are its NaN lanes."""
        for operand in operands:
            self.results.pop(id(operand), None)
        self.results[id(bits)] = (bits, nan)

    def take(self) -> list[Value]:
        """All conditions so far."""
        out = self.flags + [nan for _, nan in self.results.values()]
        self.flags, self.results = [], {}
        return out


class JitEmitter(Emitter):
    """Emits the instructions of a segment one after the other. ``distance`` leads from records to plain handlers."""

    def __init__(
        self, function: ir.Function, lanes: int, mode_register: int, features: frozenset[str], distance: int
    ):  # fmt: skip
        self.function, self.module = function, function.module
        self.lanes, self.mode_register, self.features = lanes, mode_register, features
        self.w, self.first, self.context = function.args[:3]
        self.record: Value = self.first
        self.distance = distance
        self.entry = function.append_basic_block("entry")
        self.start = function.append_basic_block("segment")
        self.b = ir.IRBuilder(self.start)
        self.defer = Deferred()
        self.memo = {}
        self.vectors: dict[int, Value] = {}
        self.scalars: dict[int, Value] = {}
        self.condition: Value | None = None  # SCC
        self.dirty: dict[tuple[str, int], None] = {}
        self.ones = ir.Constant(ir.VectorType(I1, lanes), [1] * lanes)
        self.all_bits = ir.Constant(ir.IntType(lanes), (1 << lanes) - 1)
        self.is_last = False
        self.number = 0  # of the record from the segment's first
        self.region = 0
        self._abort: ir.Block | None = None
        self._home: ir.Block = self.start
        self._values: dict[str, int] = {}

    # -- the segment ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Hand over to the handlers unless EXEC is all ones."""
        b = ir.IRBuilder(self.entry)
        place = b.gep(self.w, [I32(SGPR + 4 * EXEC)], source_etype=I8)
        bits = b.load(place, typ=ir.IntType(self.lanes), align=4)
        full = b.icmp_unsigned("==", bits, self.all_bits)
        b.cbranch(full, self.start, self._abort_block())

    def instruction_at(self, number: int, item: Item, mode: int) -> None:
        """Turn to the next instruction."""
        self.number = number
        self.shape = item.shape
        self._values = dict(zip(item.shape.names, item.shape.params, strict=True))
        self.places = {name: k for k, name in enumerate(item.shape.names)}
        if item.instruction is not None:
            self.instruction, self.arch = item.instruction, item.instruction.arch
            self.mode = emit.float_mode(mode, self.arch)
        self._home = self.b.block
        self.record = self._record(number)

    def _record(self, number: int) -> Value:
        if number == 0:
            return self.first
        return self.b.gep(self.first, [I64(RECORD_BYTES * number)], source_etype=I8)

    def _abort_block(self) -> ir.Block:
        """Where a region goes that is given up: to the plain handler of its first record."""
        if self._abort is None:
            self._abort = self.function.append_basic_block("abort")
            b = ir.IRBuilder(self._abort)
            count = b.gep(self.context, [I32(field(CONTEXT, "aborts"))], source_etype=I8)
            b.store(b.add(b.load(count, typ=I64), I64(1)), count)
            record = b.gep(self.first, [I64(RECORD_BYTES * self.region)], source_etype=I8)
            plain = b.gep(record, [I64(self.distance)], source_etype=I8)
            handler = b.load(plain, typ=HANDLER.as_pointer())
            b.ret(b.call(handler, [self.w, record, self.context], tail="musttail"))
        return self._abort

    def commit(self) -> None:
        """End the region: give it up if it has to be, else store its registers."""
        conditions = self.defer.take()
        if conditions:
            self._test(conditions)
        self._store()
        self.dirty.clear()
        self.region, self._abort = self.number, None

    def _store(self) -> None:
        """Store the registers that memory does not have yet."""
        for kind, offset in self.dirty:
            if kind == "vector":
                self.b.store(self.vectors[offset], self._raw(offset), align=64)
            elif kind == "scalar":
                self.b.store(self.scalars[offset], self._raw(offset), align=4)
            else:
                assert self.condition is not None
                self.b.store(self.b.zext(self.condition, I8), self._raw(field(HEADER, "scc")))

    def _test(self, conditions: list[Value]) -> None:
        b = self.b
        vectors = [c for c in conditions if isinstance(c.type, ir.VectorType)]
        total: Value | None = None
        for c in vectors:
            total = c if total is None else b.or_(*unify(b, total, c))
        gives_up: Value = I1(0)
        if total is not None:
            bits = b.bitcast(total, ir.IntType(total.type.count))
            gives_up = b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))
        for c in conditions:
            if not isinstance(c.type, ir.VectorType):
                gives_up = b.or_(gives_up, c)
        onward = b.append_basic_block("kept")
        b.cbranch(gives_up, self._abort_block(), onward).set_weights([1, 1 << 20])
        b.position_at_end(onward)

    def leave(self, number: int) -> None:
        """End the segment in front of a record."""
        self.number = number
        self.commit()
        self.go_to(self._record(number))

    # -- parameters -------------------------------------------------------------------------------------------

    def param(self, name: str) -> Value:
        """A parameter, which is a constant here."""
        if name not in self._values:
            raise NotNative(f"no parameter {name}")
        return I32(self._values[name])

    # -- registers as values ----------------------------------------------------------------------------------

    def _raw(self, offset: int, b: ir.IRBuilder | None = None) -> Value:
        return (b or self.b).gep(self.w, [I32(offset)], source_etype=I8)

    def at(self, offset: Value | int, extra: int = 0) -> Value:
        """Registers are no memory here."""
        raise NeedsMemory("registers used as memory")

    def _loader(self) -> ir.IRBuilder:
        """Where a register is loaded: here, or in front of everything where this place may not be passed."""
        if self.b.block is self._home:
            return self.b
        b = ir.IRBuilder(self.start)
        b.position_at_start(self.start)
        return b

    def header(self, name: str, kind: ir.Type) -> Value:
        b = self._loader()
        return b.load(self._raw(field(HEADER, name), b), typ=kind)

    def set_header(self, name: str, value: Value) -> None:
        self.b.store(value, self._raw(field(HEADER, name)))

    def scalar(self, offset: Value | int, bits: int = 32, dword: int = 0) -> Value:
        at = _number(offset) + 4 * dword
        if bits <= 32:
            return self._scalar(at)
        kind = ir.IntType(bits)
        value: Value = self.b.zext(self._scalar(at), kind)
        for k in range(1, bits // 32):
            part = self.b.zext(self._scalar(at + 4 * k), kind)
            value = self.b.or_(value, self.b.shl(part, kind(32 * k)))
        return value

    def _scalar(self, at: int) -> Value:
        if at in (SGPR + 4 * EXEC, SGPR + 4 * (EXEC + 1)) and (self.lanes == 64 or at == SGPR + 4 * EXEC):
            return I32(0xFFFFFFFF)
        if at not in self.scalars:
            b = self._loader()
            self.scalars[at] = b.load(self._raw(at, b), typ=I32, align=4)
        return self.scalars[at]

    def set_scalar(self, offset: Value | int, value: Value, dword: int = 0) -> None:
        at = _number(offset) + 4 * dword
        width = value.type.width
        for k in range(width // 32):
            part = self.b.lshr(value, value.type(32 * k)) if k else value
            self._set_scalar(at + 4 * k, self.b.trunc(part, I32) if width > 32 else part)

    def _set_scalar(self, at: int, value: Value) -> None:
        self.scalars[at] = value
        self.dirty["scalar", at] = None

    def scc(self) -> Value:
        if self.condition is None:
            b = self._loader()
            self.condition = b.trunc(b.load(self._raw(field(HEADER, "scc"), b), typ=I8), I1)
        return self.condition

    def set_scc(self, value: Value) -> None:
        self.condition = value
        self.dirty["scc", 0] = None

    def mask_bits(self, offset: Value | int) -> Value:
        return self.scalar(offset, self.lanes)

    def set_mask(self, offset: Value | int, bits: Value) -> None:
        self.set_scalar(offset, bits)

    def exec_bits(self) -> Value:
        return self.all_bits

    def exec(self) -> Value:
        return self.ones

    def vector(self, offset: Value | int, register: int = 0) -> Value:
        at = _number(offset) + 4 * self.lanes * register
        if at not in self.vectors:
            b = self._loader()
            kind = ir.VectorType(I32, self.lanes)
            self.vectors[at] = b.load(self._raw(at, b), typ=kind, align=64)
        return self.vectors[at]

    def set_vector(self, offset: Value | int, value: Value, mask: Value | None, register: int = 0) -> None:
        at = _number(offset) + 4 * self.lanes * register
        value = broadcast(self.b, value, self.lanes)
        if mask is not None and mask is not self.ones:
            mask = broadcast(self.b, mask, self.lanes)
            value = self.b.select(mask, value, self.vector(at))
        self.vectors[at] = value
        self.dirty["vector", at] = None

    # -- leaving ----------------------------------------------------------------------------------------------

    def exit(self, reason: Reason) -> None:
        """Leave for good at the end of a block; otherwise give up the region."""
        if reason in _LEAVES:
            self._store()  # what the last instruction wrote
            super().exit(reason)
        else:
            self.b.branch(self._abort_block())

    def next(self) -> None:
        """Go on in this function, or behind it."""
        if self.is_last:
            self._store()
            self.go_to(self._record(self.number + 1))


def _number(offset: Value | int) -> int:
    """A byte offset as a number."""
    if isinstance(offset, int):
        return offset
    if isinstance(offset, ir.Constant) and isinstance(offset.constant, int):
        return int(offset.constant)
    raise NeedsMemory("a register by computed number")


# -- segments ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Segment:
    """Records ``first`` to ``last`` of a translation. ``key`` names its code, wherever it lies."""

    first: int
    last: int
    key: str

    @property
    def symbol(self) -> str:
        """The name of its function in objects."""
        return emit.symbol(self.key)


def segments(translation: Translation, blocks: list[int], kind: Kind) -> Iterator[Segment]:
    """The runs of instructions of some blocks that may become segments."""
    for block in blocks:
        first, last = translation.runs[block]
        start = first
        for n in range(first, last + 1):
            if not _may_join(translation, n, kind):
                yield from _segment(translation, start, n - 1, kind)
                start = n + 1
            elif n - start + 1 >= LONGEST:
                yield from _segment(translation, start, n, kind)
                start = n + 1
        yield from _segment(translation, start, last, kind)


def _segment(translation: Translation, first: int, last: int, kind: Kind) -> Iterator[Segment]:
    if last - first + 1 < SHORTEST:
        return
    parts = [f"jit|{kind.lanes}|{kind.mode:x}|{translation.count}"]
    for n in range(first, last + 1):
        params = ",".join(str(int(p)) for p in translation.records[n]["params"])
        parts.append(f"{translation.items[n].shape.key}({params})")
    yield Segment(first, last, "jit|" + hashlib.sha256("\n".join(parts).encode()).hexdigest())


def _may_join(translation: Translation, n: int, kind: Kind) -> bool:
    item = translation.items[n]
    if item.callout or translation.is_callout(n):
        return False
    if item.instruction is None:
        return True
    written = item.instruction.writes_in(64)
    return not any(r.file == "s" and r.number >= EXEC_LO for r in written)


def stores(item: Item) -> bool:
    """Whether an instruction changes memory."""
    if item.instruction is None or not emit.touches_memory(item.instruction):
        return False
    try:
        program = opcode_program(item.instruction.opcode, item.instruction.arch.name)
    except MockGPUError:
        return True
    return any(isinstance(x, pcode.Assign) and isinstance(x.target, pcode.Mem) for x in nodes(program.body))


def emit_segment(
    module: ir.Module, translation: Translation, segment: Segment, kind: Kind, features: frozenset[str]
) -> None:
    """Emit a segment's function. Raises NotNative for one that cannot be compiled together."""
    function = ir.Function(module, HANDLER, segment.symbol)
    e = JitEmitter(function, kind.lanes, kind.mode, features, translation.count * RECORD_BYTES)
    try:
        e.begin()
        _body(e, translation, segment, kind)
    except NotNative:
        del module.globals[segment.symbol]
        raise


def _body(e: JitEmitter, translation: Translation, segment: Segment, kind: Kind) -> None:
    for n in range(segment.first, segment.last + 1):
        item, number = translation.items[n], n - segment.first
        values = translation.records[n]["params"]
        e.instruction_at(number, item, kind.mode)
        e._values = {name: int(value) for name, value in zip(item.shape.names, values, strict=False)}
        ends = item.instruction is None or item.flow is not Flow.GOES_ON
        if ends or stores(item):
            e.commit()
            e._home = e.b.block
        e.is_last = n == segment.last and ends
        _load_sources(e, item)
        emit.emit_instruction(e)
    if not e.b.block.is_terminated:
        e.leave(segment.last - segment.first + 1)


def _load_sources(e: JitEmitter, item: Item) -> None:
    """Load the vector registers that an instruction names here, where all of its code is dominated."""
    if item.instruction is None:
        return
    for operand in item.instruction.operands:
        if operand.is_src and operand.kind in VECTORS:
            for k in range(operand.regs):
                e.vector(e.param(operand.field), k)
