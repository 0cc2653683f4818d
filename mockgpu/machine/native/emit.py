"""From a decoded instruction to host code: which module emits which format, and one LLVM module for many handlers."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mockgpu.isa.arch import Arch
from mockgpu.isa.errors import MockGPUError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.native.emit_pseudo import PSEUDO
from mockgpu.machine.native.emitter import HANDLER, Emitter
from mockgpu.machine.native.shape import INDEXING_MODE, Shape
from mockgpu.pcode.llvm.values import NotNative
from mockgpu.pcode.numeric_mode import Mode

#: Emits the code of an instruction, up to and including how it goes on. Raises NotNative before or while it emits.
Emit: TypeAlias = Callable[[Emitter], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A handler to be made: the shape, one instruction that has it, wave size and MODE."""

    shape: Shape
    instruction: Instruction | None
    lanes: int
    mode: int


@functools.cache
def emitters() -> dict[str, Emit]:
    """The emitter of every instruction format that has one."""
    from mockgpu.machine.native import emit_control, emit_memory, emit_salu, emit_smem, emit_valu, emit_vopd

    return {
        "SOP1": emit_salu.emit, "SOP2": emit_salu.emit, "SOPC": emit_salu.emit, "SOPK": emit_salu.emit,
        "SOPP": emit_control.emit,
        "VOP1": emit_valu.emit, "VOP2": emit_valu.emit, "VOPC": emit_valu.emit, "VOP3": emit_valu.emit,
        "VOP3SD": emit_valu.emit, "VOP3P": emit_valu.emit, "VINTERP": emit_valu.emit,
        "VOPD": emit_vopd.emit, "SMEM": emit_smem.emit, "DS": emit_memory.emit_ds, "VDS": emit_memory.emit_ds,
        "FLAT": emit_memory.emit_flat, "GLOBAL": emit_memory.emit_flat, "SCRATCH": emit_memory.emit_flat,
        "VFLAT": emit_memory.emit_flat, "VGLOBAL": emit_memory.emit_flat, "VSCRATCH": emit_memory.emit_flat,
    }  # fmt: skip


def emit_instruction(e: Emitter) -> None:
    """Emit one instruction or pseudo instruction. Raises NotNative."""
    if e.shape.key in PSEUDO:
        PSEUDO[e.shape.key](e)
        return
    emit = emitters().get(e.instruction.format)
    if emit is None:
        raise NotNative(f"format {e.instruction.format}")
    if e.mode_register & INDEXING_MODE and e.arch.vector_modes:
        raise NotNative("register indexing and skipping by MODE")
    try:
        emit(e)
    except (LookupError, MockGPUError) as error:  # what the oracle refuses, it refuses with its own message
        raise NotNative(str(error)) from error


def float_mode(register: int, arch: Arch) -> Mode:
    """What a MODE register says about arithmetic on a target."""
    return Mode.from_register(register, arch.family, fp8_fnuz=arch.fp8_fnuz)


def touches_memory(instruction: Instruction) -> bool:
    """Whether an instruction's format is one that accesses memory."""
    return instruction.format in _MEMORY_FORMATS


_MEMORY_FORMATS = frozenset(
    {"SMEM", "DS", "VDS", "FLAT", "GLOBAL", "SCRATCH", "VFLAT", "VGLOBAL", "VSCRATCH", "MUBUF", "MTBUF", "VBUFFER"}
    | {"MIMG", "VIMAGE", "VSAMPLE", "LDSDIR", "VDSDIR"}
)


def symbol(key: str) -> str:
    """The name of a shape's handler in objects."""
    return "h" + hashlib.sha256(key.encode()).hexdigest()[:32]


def handlers_module(wanted: Iterable[Wanted], features: frozenset[str]) -> tuple[str, dict[str, str]]:
    """LLVM text with the handlers that can be made, and why the others have no native form, by shape key."""
    module = ir.Module("handlers")
    refused: dict[str, str] = {}
    for one in wanted:
        name = symbol(one.shape.key)
        function = ir.Function(module, HANDLER, name)
        try:
            emit_instruction(Emitter(function, one.instruction, one.shape, one.lanes, one.mode, features))
        except NotNative as e:
            del module.globals[name]  # half a function
            refused[one.shape.key] = e.reason
    return str(module), refused
