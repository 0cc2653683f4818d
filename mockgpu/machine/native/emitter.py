"""What instruction emitters build with: registers of a wave, parameters, exits, in one LLVM function.

An emitter of a threaded handler reads its parameters from the record; :mod:`jit` has one whose parameters are
constants and which goes on in the same function.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.native.layout import CONTEXT, HEADER, PARAMS, RECORD_BYTES, SGPR, Reason, field
from mockgpu.machine.native.shape import Shape
from mockgpu.machine.waves import EXEC
from mockgpu.pcode.llvm.values import NotNative, Value, broadcast, lanes_of
from mockgpu.pcode.numeric_mode import Mode

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
PTR = ir.PointerType()
#: i64 handler(wave, record, context)
HANDLER = ir.FunctionType(I64, [PTR, PTR, PTR])


class Emitter:
    """Builds the code of one instruction in ``function``; ``b`` stands where the next LLVM instruction goes.

    ``lanes`` is the wave size, ``mode`` the float mode that the code is made for, ``mode_register`` the MODE it is
    from, ``features`` what the host can do. ``w``, ``record`` and ``context`` are the pointers of a handler.
    """

    def __init__(
        self, function: ir.Function, instruction: Instruction | None, shape: Shape, lanes: int, mode_register: int,
        features: frozenset[str],
    ):  # fmt: skip
        self.function, self.module = function, function.module
        self.shape, self.lanes = shape, lanes
        if instruction is not None:  # pseudo instructions need none of these
            self.instruction, self.arch = instruction, instruction.arch
            self.mode = Mode.from_register(mode_register, self.arch.family, fp8_fnuz=self.arch.fp8_fnuz)
        self.mode_register = mode_register
        self.features = features
        self.w, self.record, self.context = function.args[:3]
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.places = {name: k for k, name in enumerate(shape.names)}

    #: What earlier instructions of the same function have found out; None where there are none.
    memo: dict[object, object] | None = None

    # -- parameters -------------------------------------------------------------------------------------------

    def has_param(self, name: str) -> bool:
        return name in self.places

    def param(self, name: str) -> Value:
        """A parameter of the instruction as i32. Raises NotNative if its shape has none of that name."""
        if name not in self.places:
            raise NotNative(f"no parameter {name}")
        if self.places[name] >= 14:
            raise NotNative("more parameters than a record holds")
        at = self.b.gep(self.record, [I32(PARAMS + 4 * self.places[name])], source_etype=I8)
        return self.b.load(at, typ=I32, align=4)

    def param64(self, name: str, *, signed: bool = True) -> Value:
        """A parameter as i64: its ``.hi`` part above it if there is one, else extended."""
        low = self.param(name)
        if self.has_param(f"{name}.hi"):
            high = self.b.zext(self.param(f"{name}.hi"), I64)
            return self.b.or_(self.b.zext(low, I64), self.b.shl(high, I64(32)))
        return self.b.sext(low, I64) if signed else self.b.zext(low, I64)

    # -- memory of the wave -----------------------------------------------------------------------------------

    def at(self, offset: Value | int, extra: int = 0) -> Value:
        """Pointer into the wave's state: a byte offset, a number or an i32, plus a number."""
        base = self.w
        if isinstance(offset, int):
            return self.b.gep(base, [I32(offset + extra)], source_etype=I8)
        wide = offset if offset.type == I64 else self.b.sext(offset, I64)
        at = self.b.gep(base, [wide], source_etype=I8)
        return self.b.gep(at, [I32(extra)], source_etype=I8) if extra else at

    def header(self, name: str, kind: ir.Type) -> Value:
        """A field of the wave's header."""
        return self.b.load(self.at(field(HEADER, name)), typ=kind)

    def set_header(self, name: str, value: Value) -> None:
        self.b.store(value, self.at(field(HEADER, name)))

    def context_at(self, name: str) -> Value:
        """Pointer to a field of the thread's context."""
        return self.b.gep(self.context, [I32(field(CONTEXT, name))], source_etype=I8)

    def get_context(self, name: str, kind: ir.Type = I64) -> Value:
        return self.b.load(self.context_at(name), typ=kind)

    def set_context(self, name: str, value: Value) -> None:
        self.b.store(value, self.context_at(name))

    # -- scalar registers -------------------------------------------------------------------------------------

    def scalar(self, offset: Value | int, bits: int = 32, dword: int = 0) -> Value:
        """``bits`` of scalar registers, i16 to i64 (or more), from a byte offset in the wave."""
        width = 32 if bits <= 32 else bits
        return self.b.load(self.at(offset, 4 * dword), typ=ir.IntType(width), align=4)

    def set_scalar(self, offset: Value | int, value: Value, dword: int = 0) -> None:
        """Store a uniform value of a multiple of 32 bits."""
        self.b.store(value, self.at(offset, 4 * dword), align=4)

    def code(self, code: int) -> int:
        """Byte offset of a scalar register by operand encoding."""
        return SGPR + 4 * code

    def scc(self) -> Value:
        """SCC as i1."""
        return self.b.trunc(self.header("scc", I8), I1)

    def set_scc(self, value: Value) -> None:
        self.set_header("scc", self.b.zext(value, I8))

    # -- lane masks -------------------------------------------------------------------------------------------

    def mask_bits(self, offset: Value | int) -> Value:
        """A lane mask as an integer of one bit per lane."""
        return self.b.load(self.at(offset), typ=ir.IntType(self.lanes), align=4)

    def mask(self, offset: Value | int) -> Value:
        """A lane mask as a vector of i1."""
        return self.spread(self.mask_bits(offset))

    def spread(self, bits: Value) -> Value:
        """A vector of i1 of an integer of one bit per lane."""
        if "neon" not in self.features:  # LLVM knows how; for AArch64 it moves bit by bit
            return self.b.bitcast(bits, ir.VectorType(I1, self.lanes))
        kind = ir.VectorType(I32, self.lanes)
        words = self.b.bitcast(bits, ir.VectorType(I32, self.lanes // 32))
        order = ir.Constant(kind, [lane // 32 for lane in range(self.lanes)])
        word = self.b.shuffle_vector(words, ir.Constant(words.type, ir.Undefined), order)
        bit = ir.Constant(kind, [1 << lane % 32 for lane in range(self.lanes)])
        return self.b.icmp_unsigned("!=", self.b.and_(word, bit), ir.Constant(kind, [0] * self.lanes))

    def packed(self, mask: Value) -> Value:
        """A vector of i1 as an integer of one bit per lane."""
        return self.b.bitcast(broadcast(self.b, mask, self.lanes), ir.IntType(self.lanes))

    def set_mask(self, offset: Value | int, bits: Value) -> None:
        self.b.store(bits, self.at(offset), align=4)

    def exec_bits(self) -> Value:
        """EXEC of the wave, one bit per lane."""
        return self.mask_bits(self.code(EXEC))

    def exec(self) -> Value:
        return self.spread(self.exec_bits())

    # -- vector registers -------------------------------------------------------------------------------------

    def vector_at(self, offset: Value | int, register: int = 0) -> Value:
        """Pointer to a vector register ``register`` behind the one at a byte offset."""
        return self.at(offset, 4 * self.lanes * register)

    def vector(self, offset: Value | int, register: int = 0) -> Value:
        """A vector register, <lanes x i32>."""
        return self.b.load(self.vector_at(offset, register), typ=ir.VectorType(I32, self.lanes), align=64)

    def vector64(self, offset: Value | int, register: int = 0) -> Value:
        """A pair of vector registers, <lanes x i64>."""
        wide = ir.VectorType(I64, self.lanes)
        low = self.b.zext(self.vector(offset, register), wide)
        high = self.b.zext(self.vector(offset, register + 1), wide)
        return self.b.or_(low, self.b.shl(high, ir.Constant(wide, [32] * self.lanes)))

    def set_vector(self, offset: Value | int, value: Value, mask: Value | None, register: int = 0) -> None:
        """Write the lanes of a vector register, <lanes x i32>, that ``mask`` selects (None: all)."""
        at = self.vector_at(offset, register)
        value = broadcast(self.b, value, self.lanes)
        if mask is None:
            self.b.store(value, at, align=64)
            return
        mask = broadcast(self.b, mask, self.lanes)
        if "avx512f" in self.features:
            self.masked_store(value, at, mask, 64)
            return
        old = self.b.load(at, typ=value.type, align=64)
        self.b.store(self.b.select(mask, value, old), at, align=64)

    def masked_store(self, value: Value, at: Value, mask: Value, align: int) -> None:
        """``llvm.masked.store``."""
        name = f"llvm.masked.store.v{lanes_of(value)}i{value.type.element.width}.p0"
        kind = ir.FunctionType(ir.VoidType(), [value.type, PTR, I32, mask.type])
        self.b.call(self.intrinsic(name, kind), [value, at, I32(align), mask])

    def intrinsic(self, name: str, kind: ir.FunctionType) -> ir.Function:
        """The declaration of a function of LLVM."""
        found = self.module.globals.get(name)
        return found if found is not None else ir.Function(self.module, kind, name)

    # -- leaving ----------------------------------------------------------------------------------------------

    @contextmanager
    def unlikely(self, cond: Value) -> Iterator[None]:
        """Code for a case that is rare."""
        with self.b.if_then(cond, likely=False):
            yield

    def pc(self) -> Value:
        """The byte address of the instruction as i64, where its shape has it."""
        low = self.b.zext(self.param("pc.lo"), I64)
        return self.b.or_(low, self.b.shl(self.b.zext(self.param("pc.hi"), I64), I64(32)))

    def count_block(self) -> None:
        """Account for the block that ends here: its counter, and its instructions off the budget."""
        b = self.b
        counters = b.inttoptr(self.get_context("counters"), PTR)
        place = b.gep(counters, [b.zext(self.param("block"), I64)], source_etype=I64)
        b.store(b.add(b.load(place, typ=I64), I64(1)), place)
        left = b.sub(self.get_context("budget"), b.zext(self.param("length"), I64))
        self.set_context("budget", left)

    def branch_to_target(self) -> None:
        """Go to the branch target, or let another wave run if the budget is used up. Ends the code."""
        b = self.b
        target = b.gep(self.record, [self.param("target")], source_etype=I8)
        spent = b.icmp_signed("<", self.get_context("budget"), I64(0))
        with self.unlikely(spent):
            self.set_context("exit_record", b.ptrtoint(target, I64))
            b.ret(I64(int(Reason.TURN)))
        self.go_to(target)

    def exit(self, reason: Reason) -> None:
        """Return to the run loop; the block ends here. ``exit_record`` is this record."""
        self.set_context("exit_record", self.record_value())
        self.b.ret(I64(int(reason)))

    def record_value(self) -> Value:
        """The address of this instruction's record as i64."""
        return self.b.ptrtoint(self.record, I64)

    def next(self) -> None:
        """Go on to the next record."""
        self.go_to(self.b.gep(self.record, [I32(RECORD_BYTES)], source_etype=I8))

    def go_to(self, record: Value) -> None:
        """Go on at another record."""
        handler = self.b.load(record, typ=HANDLER.as_pointer())
        result = self.b.call(handler, [self.w, record, self.context], tail="musttail")
        self.b.ret(result)
