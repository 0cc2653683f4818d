"""Scalar ALU instructions: SOP1, SOP2, SOPC, SOPK. One value per wave."""

from __future__ import annotations

from mockgpu.isa.instruction import Instruction, Operand
from mockgpu.machine import control
from mockgpu.machine.branch import branch, changing, evaluate
from mockgpu.machine.context import BitsReader, BitsWriter, Context
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.operands import Reader, as_bits, dword, reader, scalar_reader
from mockgpu.machine.semantics import evaluator_of, opcode_program, writes_mode
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group
from mockgpu.pcode import ir

_SOURCES = {"ssrc0": "S0", "ssrc1": "S1"}


def _reader(read: Reader) -> BitsReader:
    return lambda g, bits: as_bits(read(g), bits)


def scalar_context(instruction: Instruction, wave_size: int) -> Context:
    """Context of a scalar instruction: sources S0 and S1, destination D0 (also the source of compares with SIMM16)."""
    ctx = Context(instruction.arch, instruction, wave_size, vector=False)
    try:
        for operand in instruction.operands:
            if operand.field in _SOURCES:
                ctx.reads[_SOURCES[operand.field]] = _reader(reader(ctx.arch, operand))
            elif operand.field == "sdst":
                _bind_destination(ctx, operand)
    except LookupError as e:
        raise IllegalInstruction(f"{instruction.mnemonic}: {e.args[0]}") from e
    return ctx


def _bind_destination(ctx: Context, operand: Operand) -> None:
    code, null = operand.code, ctx.arch.null_register
    old = _reader(scalar_reader(code, operand.bits, null))
    ctx.reads["D0"] = old
    ctx.reads.setdefault("S0", old)
    ctx.writes["D0"] = _writer(code, null)


def _writer(code: int, null: int | None) -> BitsWriter:
    def write(g: Group, value: Array, bits: int, mask: Array | None) -> None:
        if code == null:
            return
        for k in range(-(-bits // 32)):
            g.write_scalar(code + k, dword(value, k), mask)

    return write


def moves(program: ir.Program) -> bool:
    """Whether a program writes PC."""
    return "PC" in program.writes


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a scalar instruction. Raises NoSemanticsError or IllegalInstruction."""
    special = control.special(instruction)
    if special is not None:
        return special
    program = opcode_program(instruction.opcode)
    ctx, evaluator = scalar_context(instruction, wave_size), evaluator_of(program)
    if moves(program):
        return branch(ctx, evaluator, instruction.size)
    if writes_mode(program):
        return Step(changing(ctx, evaluator), "salu", ends=True)
    return Step(lambda g: evaluate(ctx, evaluator, g), "salu")
