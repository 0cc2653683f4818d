"""The shape of an instruction: what its handler is compiled for, and the parameters in its record.

Two instructions that differ in register numbers, constants and immediates alone have one shape and share a handler.
Everything else (opcode, encoding, kinds of operands, modifiers, wave size, MODE where floats are computed) is shape.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from mockgpu.isa.instruction import Instruction, Operand
from mockgpu.isa.opcode import Opcode
from mockgpu.machine.native.flow import Flow, flow_of
from mockgpu.machine.native.layout import SGPR, VGPR
from mockgpu.machine.operands import VECTORS, _is_float, constant_of, register_row

#: Bits of MODE that arithmetic sees: rounding, denormals, DX10_CLAMP, IEEE, FP16_OVFL.
ARITHMETIC_MODE = 0x8003FF
#: Bits of MODE of CDNA that change which registers are used: such code is not native.
INDEXING_MODE = 3 << 27

#: Fields of the encoding that are parameters: a handler reads them from the record.
_PARAMETERS = frozenset({"offset", "ioffset", "offset0", "offset1", "simm16", "simm32"})
#: Mnemonics (or starts of them) whose immediates are part of the shape, because the code depends on them.
_STATIC = ("ds_swizzle", "s_getreg", "s_setreg", "s_sendmsg", "s_wait", "s_delay_alu", "s_setprio", "s_clause")
_READS_PC = ("s_getpc", "s_add_pc")
_NUMBER_FIELDS = frozenset({"vsrc0", "literal"})  # register numbers and values that are operands under another name


#: Parameters of instructions that end a block, filled in by :mod:`program`: the distance in bytes from the record to
#: that of the branch target, the number of the block's counter, the block's instructions, the address of the code.
BRANCH_PARAMS = ("target", "block", "length", "pc.lo", "pc.hi")


@dataclass(frozen=True, slots=True)
class Shape:
    """``key`` names the handler; ``params`` are the record's, by name in ``names``, 32 bits each."""

    key: str
    names: tuple[str, ...]
    params: tuple[int, ...]


def shape_of(instruction: Instruction, wave_size: int, mode: int) -> Shape:
    """The shape of an instruction in a wave of ``wave_size`` lanes with MODE register ``mode``."""
    names: list[str] = []
    params: list[int] = []
    kinds: list[str] = []
    registers: set[str] = set()
    for operand in instruction.operands:
        kinds.append(_kind(operand, names, params, wave_size, instruction.arch.null_register))
        registers.add(operand.field)
    static = instruction.mnemonic.startswith(_STATIC)
    rest = []
    for name, value in instruction.fields.items():
        if name in _PARAMETERS and not static:
            if name not in names:
                names.append(name)
                params.append(_signed(value))
        elif (name not in registers and name not in _NUMBER_FIELDS) or (static and name in _PARAMETERS):
            rest.append(f"{name}={value}")
    if instruction.literal is not None:
        names.append("literal")
        params.append(_signed(instruction.literal))
    if flow_of(instruction) is not Flow.GOES_ON or instruction.mnemonic.startswith(_READS_PC):
        names += BRANCH_PARAMS
        params += [0] * len(BRANCH_PARAMS)
    opcodes = (
        instruction.opcode.name
        if instruction.opcode_y is None
        else f"{instruction.opcode.name}+{instruction.opcode_y.name}"
    )
    parts = [instruction.arch.name, str(wave_size), instruction.encoding, opcodes, ",".join(kinds), ",".join(rest)]
    if computes_floats(instruction.opcode) or (
        instruction.opcode_y is not None and computes_floats(instruction.opcode_y)
    ):
        parts.append(f"mode={mode & ARITHMETIC_MODE:x}")
    if instruction.arch.vector_modes and mode & INDEXING_MODE:
        parts.append(f"indexing={mode & INDEXING_MODE:x}")
    return Shape("|".join(parts), tuple(names), tuple(params))


def pseudo_shape(name: str) -> Shape:
    """The shape of a record that is no instruction, see :mod:`emit_pseudo`."""
    return Shape(f"pseudo|{name}", BRANCH_PARAMS, (0,) * len(BRANCH_PARAMS))


def _kind(operand: Operand, names: list[str], params: list[int], lanes: int, null: int | None) -> str:
    """Add the parameters of an operand; returns its part of the key."""
    name = operand.field
    marks = (operand.hi, operand.neg, operand.abs, operand.neg_hi, operand.opsel, operand.opsel_hi, operand.sext)
    flags = "".join(letter for letter, on in zip("hnaNoOs", marks, strict=True) if on) + "d" * operand.is_dst
    sel = "" if operand.sel is None else f".{operand.sel}"
    tail = f":{flags}{sel}"
    if operand.kind in VECTORS:
        names.append(name)
        params.append(VGPR + 4 * lanes * register_row(operand))
        return f"{name}=v{operand.bits}{tail}"
    if 0 <= operand.code < 128:
        if operand.code == null:
            return f"{name}=null{operand.bits}{tail}"
        names.append(name)
        params.append(SGPR + 4 * operand.code)
        return f"{name}=s{operand.bits}{tail}"
    value = constant_of(operand)
    if value is None:
        return f"{name}={operand.kind}{operand.bits}{tail}"
    names.append(name)
    params.append(_signed(value & 0xFFFFFFFF))
    if operand.bits > 32:
        names.append(f"{name}.hi")
        params.append(_signed(value >> 32 & 0xFFFFFFFF))
    return f"{name}=c{operand.bits}{tail}"


def _signed(value: int) -> int:
    """A dword as the int32 that a record holds."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


#: Names of float types in mnemonics.
_FLOAT_NAME = re.compile(r"f16|f32|f64|fp8|bf8|fp6|bf6|fp4|flt")


@functools.cache
def computes_floats(opcode: Opcode) -> bool:
    """Whether MODE may matter to an opcode: its name, or that of an operand's format, has a float type in it.

    No pseudocode is read for this, so that code whose handlers are known already starts fast.
    """
    if opcode.format.startswith("VOPD"):
        return True
    return bool(_FLOAT_NAME.search(opcode.mnemonic)) or any(_is_float(spec.fmt) for spec in opcode.operands)
