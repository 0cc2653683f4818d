"""Vector ALU instructions: VOP1, VOP2, VOPC, VOP3, VOP3P, VINTERP.

What they compute is their pseudocode; here are the operands around it: modifiers, lane masks, DPP, result modifiers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mockgpu.isa.instruction import Instruction, Operand, Sdwa
from mockgpu.isa.registers import VGPR_BASE
from mockgpu.machine import matrix_step, modifiers, sdwa
from mockgpu.machine.context import BitsReader, BitsWriter, Context
from mockgpu.machine.dpp import Shuffle, shuffle_of
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.matrix_ops import is_matrix_name
from mockgpu.machine.operands import (
    VECTORS,
    Reader,
    as_bits,
    mask_reader,
    reader,
    register_row,
    scalar_writer,
    vector_reader,
    vector_writer,
)
from mockgpu.machine.saturate import saturating
from mockgpu.machine.semantics import evaluator_of, halves_apart, opcode_program, writes_more_than_once
from mockgpu.machine.step import Step
from mockgpu.machine.waves import SCALARS, VCC, Array, Group
from mockgpu.pcode import ir
from mockgpu.pcode.errata_halves import zeroes_high_half
from mockgpu.pcode.oracle import Evaluator

#: Instructions that change nothing.
_NOTHING = frozenset({"v_nop", "v_pipeflush", "v_clrexcp"})
_SOURCES = {"src0": "S0", "src1": "S1", "vsrc1": "S1", "src2": "S2"}
#: Types (or starts of them) of sources that may not be vector registers.
SCALAR_SOURCES = ("OPR_SSRC", "OPR_SREG_LITERAL")
#: Modifiers that a program may apply itself.
_OWN = frozenset({"OPSEL", "OPSEL_HI", "NEG", "NEG_HI", "ABS"})


class VectorContext(Context):
    """The context of a vector ALU instruction. ``shuffle`` is its DPP modifier.

    ``bind_*`` connect the pseudocode's operands to the instruction's, with the modifiers of its encoding.
    """

    def __init__(self, instruction: Instruction, wave_size: int, program: ir.Program):
        super().__init__(instruction.arch, instruction, wave_size, vector=True)
        self.program = program
        self.copies = writes_more_than_once(program)
        self.shuffle: Shuffle | None = None
        self.invalid: Array | None = None
        self.scalar_source: Reader | None = None

    def bind_sources(self, operands: tuple[Operand, ...], names: dict[str, str]) -> None:
        """Sources by field. A lane mask among them is the condition or carry that the text calls VCC."""
        for operand in operands:
            name = names.get(operand.field)
            if name is None or not operand.is_src:
                continue
            if operand.optype.startswith(SCALAR_SOURCES) and operand.kind in VECTORS:
                raise LookupError(f"{operand.field} must be a scalar")
            if operand.is_mask:
                self.mask_readers["VCC"] = self._mask(operand)
            else:
                self.bind_source(name, operand)

    def _mask(self, operand: Operand) -> Reader:
        if operand.code < 128:
            return mask_reader(operand.code)
        plain, lanes = reader(self.arch, operand, bits=64), self.batch_lanes()
        return lambda g: (plain(g) >> lanes & np.uint64(1)).astype(np.bool_)

    def batch_lanes(self) -> Array:
        """Lane numbers as uint64, (1, L)."""
        return np.arange(self.wave_size, dtype=np.uint64)[None, :]

    def bind_source(self, name: str, operand: Operand) -> None:
        """One source, with modifiers."""
        modified = self._modified(operand, self._plain(operand, operand.bits))
        self.reads[name] = lambda g, bits: as_bits(modified(g), bits)
        if operand.kind in VECTORS:
            self._bind_register(name, operand)
        elif name == "S0":
            self.scalar_source = reader(self.arch, operand, bits=32)

    def _plain(self, operand: Operand, bits: int) -> Reader:
        if operand.sel is not None:
            whole = reader(self.arch, operand, bits=32)
            return whole if "SDWA_SRC0_SEL" in self.program.reads else sdwa.selected(whole, operand)
        plain = reader(self.arch, operand, bits=bits)
        if operand.field in ("src0", "srcx0") and self.shuffle is not None:
            fetch, shuffle = plain, self.shuffle
            return lambda g: shuffle.apply(fetch(g), self.invalid)
        if self.copies and operand.code != -1:
            view = plain
            return lambda g: view(g).copy()
        return plain

    def _modified(self, operand: Operand, plain: Reader) -> Reader:
        reads = self.program.reads
        if "OPSEL_HI" in reads:
            return plain if reads & {"NEG", "NEG_HI"} else modifiers.mixed(plain, operand)
        if self.instruction.format == "VOP3P":
            if modifiers.is_packed(operand) and not reads & _OWN:
                return modifiers.packed(plain, operand)
            neg = operand.neg and modifiers.float_format(operand.fmt) is not None
            return modifiers.signed(plain, replace(operand, neg=neg))
        absolute = operand.abs and "ABS" not in reads
        negated = operand.neg and "NEG" not in reads
        return modifiers.signed(plain, replace(operand, neg=negated, abs=absolute))

    def _bind_register(self, name: str, operand: Operand) -> None:
        """A source register as the target of a swap, and dwords of a wide one."""
        reg = register_row(operand)
        self.writes[name] = self._register_writer(reg, int(operand.hi))
        for k in range(operand.bits // 32):
            part = vector_reader(reg + k, 32)
            self.reads[f"{name}.{k}"] = _resized(part)

    def _part_writer(self, reg: int, how: Sdwa) -> BitsWriter:
        def write(g: Group, value: Array, bits: int, mask: Array | None) -> None:
            g.write_vector(reg, sdwa.placed(how, as_bits(value, bits), g.vector(reg)), g.lanes_of(mask))

        return write

    def _register_writer(self, reg: int, high: int) -> BitsWriter:
        def write(g: Group, value: Array, bits: int, mask: Array | None) -> None:
            vector_writer(reg, bits, high)(g, as_bits(value, bits), mask)

        return write

    def _zeroes_high_half(self) -> bool:
        opcode = self.instruction.opcode
        return zeroes_high_half(opcode.family, opcode.table, opcode.name)

    def _whole_writer(self, reg: int) -> BitsWriter:
        """Write a whole register, with zeros above a 16-bit result."""
        return lambda g, value, bits, mask: g.write_vector(reg, as_bits(as_bits(value, bits), 32), g.lanes_of(mask))

    def bind_result(self, operand: Operand) -> None:
        """The destination: vector registers, a lane mask, or scalar registers (lane reads)."""
        check_scalar_result(operand, self.wave_size)
        if operand.is_mask:
            self.masks["D0"] = operand.code
            return
        if operand.code < VGPR_BASE:
            null = self.arch.null_register
            self.writes["D0"] = lambda g, v, bits, m: scalar_writer(operand.code, bits, null)(g, v, m)
            return
        reg, high = register_row(operand), int(operand.hi)
        modify = modifiers.result_modifier(operand.fmt, self.instruction.omod, self.instruction.clamp)
        part = self.instruction.sdwa
        plain = self._register_writer(reg, high)
        if part is not None and operand.bits <= 32:  # selectors are about one register
            plain = self._part_writer(reg, part)
        elif self._zeroes_high_half():
            plain = self._whole_writer(reg)
        self.writes["D0"] = self._result_writer(plain, modify)
        single = operand.fmt.replace("_PK2_", "_")
        half_modifier = modifiers.result_modifier(single, self.instruction.omod, self.instruction.clamp)
        for name, half in (("D0.lo", 0), ("D0.hi", 1)):
            self.writes[name] = self._result_writer(self._register_writer(reg, half), half_modifier)
        self._bind_old_result(reg, high)
        for k in range(operand.bits // 32):
            self.reads[f"D0.{k}"] = _resized(vector_reader(reg + k, 32))
            plain = self._register_writer(reg + k, 0)
            self.writes[f"D0.{k}"] = self._result_writer(plain, half_modifier if _is_pair(operand) else None)

    def _result_writer(self, plain: BitsWriter, modify: modifiers.Result | None) -> BitsWriter:
        if modify is None:
            return plain
        change = modify

        def write(g: Group, value: Array, bits: int, mask: Array | None) -> None:
            plain(g, change(self.mode, bool(g.mode >> 9 & 1), as_bits(value, bits)), bits, mask)

        return write

    def _bind_old_result(self, reg: int, high: int) -> None:
        def read(g: Group, bits: int) -> Array:
            value = vector_reader(reg, bits, high)(g)
            return as_bits(value.copy() if self.copies else value, bits)

        self.reads["D0"] = read

    def read_vgpr(self, lane: Array, reg: Array) -> Array:
        """As Context's; a lane read whose source is a scalar reads that."""
        if self.scalar_source is not None:
            return self.scalar_source(self.g)
        return super().read_vgpr(lane, reg)

    def run(self, evaluator: Evaluator, g: Group) -> None:
        """Execute on a group; lanes that DPP turns off are inactive meanwhile."""
        self.begin(g)
        if self.shuffle is None:
            evaluator.run_inside(self)
            return
        self.invalid, lanes = self.shuffle.lanes(g)
        before = g.exec
        g.exec = g.lanes_of(lanes)
        if g.exec is not None:
            g.exec = np.broadcast_to(g.exec, (g.n, g.lanes))
        narrowed = g.exec
        try:
            evaluator.run_inside(self)
        finally:
            if g.exec is narrowed:  # not if EXEC was written
                g.exec = before


def _is_pair(operand: Operand) -> bool:
    """Whether every dword of the result is a float of its own."""
    return operand.fmt == "FMT_NUM_PK2_F32"


def check_scalar_result(operand: Operand, wave_size: int) -> None:
    """Raises LookupError for a destination that is neither a vector register nor a scalar one that exists."""
    words = wave_size // 32 if operand.is_mask else operand.regs
    if operand.code < VGPR_BASE and operand.code + words > SCALARS:
        raise LookupError(f"operand {operand.code} cannot be written")


def _resized(read: Reader) -> BitsReader:
    return lambda g, bits: as_bits(read(g), bits)


def _lane_mask_bit(ctx: VectorContext, name: str) -> BitsWriter:
    """Writing 0 or 1 to a lane mask as a whole, or one bit of a second result, means the executing lane's bit."""
    return lambda g, value, bits, mask: ctx.write_lane_mask(name, as_bits(value, 1), mask)


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a vector ALU instruction. Raises NoSemanticsError or IllegalInstruction."""
    if instruction.mnemonic in _NOTHING:
        return Step(lambda g: None, "valu")
    if is_matrix_name(instruction.opcode.name):
        return matrix_step.build(instruction, wave_size)
    ctx, evaluator = prepare(instruction, wave_size)
    return Step(lambda g: ctx.run(evaluator, g), "valu")


def prepare(instruction: Instruction, wave_size: int) -> tuple[VectorContext, Evaluator]:
    """The context and evaluator of a vector ALU instruction."""
    program = halves_apart(opcode_program(instruction.opcode, instruction.arch.name))
    if instruction.clamp:
        program = saturating(instruction, program)
    ctx = VectorContext(instruction, wave_size, program)
    try:
        if instruction.dpp is not None:
            ctx.shuffle = shuffle_of(instruction.arch, instruction.dpp, wave_size)
        _bind(ctx, instruction, program)
    except LookupError as e:
        raise IllegalInstruction(f"{instruction.mnemonic}: {e.args[0]}") from e
    return ctx, evaluator_of(program)


def _bind(ctx: VectorContext, instruction: Instruction, program: ir.Program) -> None:
    ctx.bind_sources(instruction.operands, _SOURCES)
    ctx.masks["D0"] = VCC
    for operand in instruction.operands:
        if operand.field == "vdst":
            ctx.bind_result(operand)
        elif operand.field == "sdst":
            check_scalar_result(operand, ctx.wave_size)
            ctx.masks["VCC"] = ctx.masks["D1"] = operand.code
            ctx.writes["VCC"] = _lane_mask_bit(ctx, "VCC")
            ctx.writes["D1"] = _lane_mask_bit(ctx, "D1")
