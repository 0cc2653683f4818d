"""Vector ALU instructions: VOP1, VOP2, VOPC, VOP3, VOP3SD, VOP3P, VINTERP. The twin of :mod:`mockgpu.machine.valu`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mockgpu.isa.instruction import Operand, Sdwa
from mockgpu.isa.registers import VGPR_BASE
from mockgpu.machine import modifiers
from mockgpu.machine.matrix_ops import is_matrix_name
from mockgpu.machine.native import emit_matrix, emit_modifiers, emit_sdwa
from mockgpu.machine.native.context import Reader, Writer
from mockgpu.machine.native.emit_dpp import Shuffled
from mockgpu.machine.native.emit_lanes import LaneContext
from mockgpu.machine.native.emitter import Emitter
from mockgpu.machine.native.operands import reader
from mockgpu.machine.operands import VECTORS
from mockgpu.machine.saturate import saturating
from mockgpu.machine.semantics import halves_apart, opcode_program
from mockgpu.machine.valu import _NOTHING, _OWN, _SOURCES, SCALAR_SOURCES, check_scalar_result
from mockgpu.machine.waves import VCC
from mockgpu.pcode import ir
from mockgpu.pcode.errata_halves import zeroes_high_half
from mockgpu.pcode.llvm.program import emit_program
from mockgpu.pcode.llvm.values import NotNative, Value, container, resize

_WIDEST = 128  # bits of an operand


class VectorContext(LaneContext):
    """The context of a vector ALU instruction. ``bind_*`` connect the pseudocode's operands to the instruction's."""

    def __init__(self, e: Emitter, program: ir.Program):
        super().__init__(e, vector=True)
        self.program = program
        self.shuffled: Shuffled | None = None

    def bind_sources(self, operands: tuple[Operand, ...], names: dict[str, str]) -> None:
        """Sources by field. A lane mask among them is the condition or carry that the text calls VCC."""
        for operand in operands:
            name = names.get(operand.field)
            if name is None or not operand.is_src:
                continue
            if operand.optype.startswith(SCALAR_SOURCES) and operand.kind in VECTORS:
                raise NotNative(f"{operand.field} must be a scalar")
            if operand.is_mask:
                self.mask_reads["VCC"] = self._mask(operand)
            else:
                self.bind_source(name, operand)

    def _mask(self, operand: Operand) -> Callable[[], Value]:
        e = self.e
        if operand.code < 128:
            if operand.code == e.arch.null_register:
                raise NotNative("a lane mask in the null register")
            return lambda: e.mask(e.param(operand.field))
        plain = reader(self, operand)
        if operand.kind in VECTORS:  # every lane looks at its own bit of its own value
            return lambda: resize(self.b, self.b.lshr(plain(64), self.reads["LANE"](64)), 1)
        return lambda: e.spread(resize(self.b, plain(64), self.wave_size))

    def bind_source(self, name: str, operand: Operand) -> None:
        """One source, with modifiers."""
        plain = self._plain(operand)
        wide = max(operand.bits, 16)
        modified = self._modified(operand, plain, wide)
        self.reads[name] = lambda bits: resize(self.b, modified(), container(bits))
        if operand.kind in VECTORS:
            self._bind_register(name, operand)
        elif name == "S0":
            self.scalar_source = reader(self, operand)

    def _plain(self, operand: Operand) -> Callable[[], Value]:
        """The operand in as many bits as it has, moved between lanes where DPP says so."""
        bits = operand.bits
        read = reader(self, operand)
        if operand.sel is not None:
            if "SDWA_SRC0_SEL" in self.program.reads:
                return lambda: read(32)
            return lambda: emit_sdwa.selected(self.b, read(32), operand)
        shuffled = self.shuffled
        if operand.field in ("src0", "srcx0") and shuffled is not None:
            return lambda: shuffled.apply(self.b, read(bits))
        return lambda: read(bits)

    def _modified(self, operand: Operand, plain: Callable[[], Value], bits: int) -> Callable[[], Value]:
        b, reads = self.b, self.program.reads
        if "OPSEL_HI" in reads:
            if reads & {"NEG", "NEG_HI"}:
                return plain
            return lambda: emit_modifiers.mixed(b, resize(b, plain(), 32), operand)
        if self.e.instruction.format == "VOP3P":
            if modifiers.is_packed(operand) and not reads & _OWN:
                return lambda: emit_modifiers.packed(b, plain(), operand)
            neg = operand.neg and modifiers.float_format(operand.fmt) is not None
            return lambda: emit_modifiers.signed(b, plain(), replace(operand, neg=neg), bits)
        absolute = operand.abs and "ABS" not in reads
        negated = operand.neg and "NEG" not in reads
        return lambda: emit_modifiers.signed(b, plain(), replace(operand, neg=negated, abs=absolute), bits)

    def _bind_register(self, name: str, operand: Operand) -> None:
        """A source register as the target of a swap, and dwords of a wide one."""
        offset = self.e.param(operand.field)
        self.writes[name] = self.vector_writer(offset, high=operand.hi)
        for k in range(operand.bits // 32):
            self.reads[f"{name}.{k}"] = self._part_reader(offset, k)

    def _part_reader(self, offset: Value, k: int) -> Reader:
        return lambda bits: resize(self.b, self.e.vector(offset, k), container(bits))

    def _part_writer(self, offset: Value, how: Sdwa) -> Writer:
        def write(value: Value, bits: int) -> None:
            new = emit_sdwa.placed(self.b, how, resize(self.b, value, 32), self.e.vector(offset))
            self.e.set_vector(offset, new, self.exec())

        return write

    def _whole_writer(self, offset: Value) -> Writer:
        """Write a whole register, with zeros above a 16-bit result."""

        def write(value: Value, bits: int) -> None:
            self.e.set_vector(offset, resize(self.b, resize(self.b, value, container(bits)), 32), self.exec())

        return write

    def bind_result(self, operand: Operand) -> None:
        """The destination: vector registers, a lane mask, or scalar registers (lane reads)."""
        e = self.e
        check_scalar_result(operand, self.wave_size)
        if operand.is_mask:
            if operand.code == e.arch.null_register:
                raise NotNative("a lane mask in the null register")
            self.masks["D0"] = e.param(operand.field)
            return
        if operand.code < VGPR_BASE:
            if operand.code == e.arch.null_register:
                raise NotNative("the null register as destination")
            self.writes["D0"] = self.scalar_writer(e.param(operand.field))
            self.reads["D0"] = self.scalar_reader(e.param(operand.field))
            return
        self._bind_vector_result(operand)

    def _bind_vector_result(self, operand: Operand) -> None:
        e, i = self.e, self.e.instruction
        offset, high = e.param(operand.field), operand.hi
        plain = self.vector_writer(offset, high=high)
        opcode = i.opcode
        if i.sdwa is not None and operand.bits <= 32:
            plain = self._part_writer(offset, i.sdwa)
        elif zeroes_high_half(opcode.family, opcode.table, opcode.name):
            plain = self._whole_writer(offset)
        self.writes["D0"] = self._result_writer(plain, operand.fmt)
        single = operand.fmt.replace("_PK2_", "_")
        for name, half in (("D0.lo", False), ("D0.hi", True)):
            self.writes[name] = self._result_writer(self.vector_writer(offset, high=half), single)
            self.reads[name] = self.vector_reader(offset, high=half)
        self.reads["D0"] = self.vector_reader(offset, high=high)
        pair = operand.fmt == "FMT_NUM_PK2_F32"  # every dword is a float of its own
        for k in range(operand.bits // 32):
            self.reads[f"D0.{k}"] = self._part_reader(offset, k)
            plain = self._dword_writer(offset, k)
            self.writes[f"D0.{k}"] = self._result_writer(plain, single) if pair else plain

    def _dword_writer(self, offset: Value, k: int) -> Writer:
        return lambda value, bits: self.e.set_vector(offset, resize(self.b, value, 32), self.exec(), k)

    def _result_writer(self, plain: Writer, fmt: str) -> Writer:
        i = self.e.instruction
        modify = emit_modifiers.result_modifier(fmt, i.omod, i.clamp, bool(self.e.mode_register >> 9 & 1))
        if modify is None:
            return plain
        return lambda value, bits: plain(modify(self, resize(self.b, value, container(bits))), bits)

    def bind_shuffle(self, dpp: object) -> None:
        """DPP: which lanes source 0 comes from, and which lanes are written."""
        self.shuffled = Shuffled(self.e, dpp, self.exec())
        self._exec = self.shuffled.active


def emit(e: Emitter) -> None:
    """A vector ALU instruction."""
    i = e.instruction
    if i.mnemonic in _NOTHING:
        e.next()
        return
    if is_matrix_name(i.opcode.name):
        emit_matrix.emit(e)
        return
    if any(operand.bits > _WIDEST for operand in i.operands):
        raise NotNative("conversions of 32 numbers at once, which take long to compile")
    program = halves_apart(opcode_program(i.opcode, i.arch.name))
    if any(name.startswith(("MODE", "WAVE_MODE")) for name in program.writes):
        raise NotNative("MODE is written")
    if i.clamp:
        program = saturating(i, program)
    ctx = VectorContext(e, program)
    if i.dpp is not None:
        ctx.bind_shuffle(i.dpp)
    bind(ctx, program)
    emit_program(program, ctx, (i.opcode.family, i.opcode.table, i.opcode.name))
    ctx.commit()
    e.next()


def bind(ctx: VectorContext, program: ir.Program) -> None:
    """Connect all operands of the instruction."""
    e = ctx.e
    ctx.bind_sources(e.instruction.operands, _SOURCES)
    ctx.masks["D0"] = e.code(VCC)
    for operand in e.instruction.operands:
        if operand.field == "vdst":
            ctx.bind_result(operand)
        elif operand.field == "sdst":
            _bind_mask_result(ctx, operand)


def _bind_mask_result(ctx: VectorContext, operand: Operand) -> None:
    """Writing 0 or 1 to a lane mask as a whole, or one bit of a second result, means the executing lane's bit."""
    e = ctx.e
    check_scalar_result(operand, ctx.wave_size)
    null = operand.code == e.arch.null_register
    place: Value | int = -1 if null else e.param(operand.field)
    ctx.masks["VCC"] = ctx.masks["D1"] = place
    ctx.mask_operands = frozenset({"VCC", "D1"})
