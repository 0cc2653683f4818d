"""LLVM's AMDGPU assembler and disassembler, through the LLVM-C interface of the compiler library.

The library comes with the ``rocm-llvm-python`` package; ``LLVM_PATH`` may name another shared library that exports
the LLVM-C functions. Tests that need it call ``require_llvm()``, which skips them where there is none.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import io
import os
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

TRIPLE = b"amdgcn-amd-amdhsa"
_END_MARK = "end_of_assembled_text"
_EMIT_OBJECT = 1
_PADDING = 32  # LLVM looks past the end of short instructions
_OPT_NONE, _RELOC_PIC, _CODE_MODEL_DEFAULT = 0, 2, 0
_DISASM_PRINT_IMM_HEX = 2

_DIAGNOSTIC = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class AssembleError(Exception):
    """LLVM rejected the assembly text; the message is its diagnostic."""


def find_library() -> Path | None:
    """Path of a shared library with LLVM-C and the AMDGPU target, or None."""
    named = os.environ.get("LLVM_PATH")
    if named and Path(named).is_file():
        return Path(named)
    spec = importlib.util.find_spec("rocm")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        candidate = Path(place) / "llvm" / "librocmllvm.so"
        if candidate.is_file():
            return candidate
    return None


def require_llvm() -> None:
    """Skip the calling test when no LLVM library is installed."""
    if find_library() is None:
        pytest.skip("no LLVM library with the AMDGPU target: install rocm-llvm-python or set LLVM_PATH")


@functools.cache
def _llvm() -> ctypes.CDLL:
    path = find_library()
    if path is None:
        raise RuntimeError("no LLVM library; call require_llvm() first")
    lib = ctypes.CDLL(str(path))
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    signatures: dict[str, tuple[object, list[object]]] = {
        "LLVMCreateDisasmCPUFeatures": (pointer, [text, text, text, pointer, ctypes.c_int, pointer, pointer]),
        "LLVMDisasmInstruction": (size, [pointer, pointer, ctypes.c_uint64, ctypes.c_uint64, text, size]),
        "LLVMSetDisasmOptions": (ctypes.c_int, [pointer, ctypes.c_uint64]),
        "LLVMContextCreate": (pointer, []),
        "LLVMContextDispose": (None, [pointer]),
        "LLVMContextSetDiagnosticHandler": (None, [pointer, _DIAGNOSTIC, pointer]),
        "LLVMGetDiagInfoDescription": (pointer, [pointer]),
        "LLVMDisposeMessage": (None, [pointer]),
        "LLVMModuleCreateWithNameInContext": (pointer, [text, pointer]),
        "LLVMDisposeModule": (None, [pointer]),
        "LLVMSetTarget": (None, [pointer, text]),
        "LLVMSetModuleInlineAsm2": (None, [pointer, text, size]),
        "LLVMGetTargetFromTriple": (ctypes.c_int, [text, pointer, pointer]),
        "LLVMCreateTargetMachine": (pointer, [pointer, text, text, text, ctypes.c_int, ctypes.c_int, ctypes.c_int]),
        "LLVMTargetMachineEmitToMemoryBuffer": (ctypes.c_int, [pointer, pointer, ctypes.c_int, pointer, pointer]),
        "LLVMGetBufferStart": (pointer, [pointer]),
        "LLVMGetBufferSize": (size, [pointer]),
        "LLVMDisposeMemoryBuffer": (None, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    for part in ("TargetInfo", "Target", "TargetMC", "AsmParser", "AsmPrinter", "Disassembler"):
        getattr(lib, f"LLVMInitializeAMDGPU{part}")()
    return lib


@functools.cache
def _target_machine(arch: str, features: str) -> int:
    target, message = ctypes.c_void_p(), ctypes.c_void_p()
    if _llvm().LLVMGetTargetFromTriple(TRIPLE, ctypes.byref(target), ctypes.byref(message)):
        raise RuntimeError("LLVM has no AMDGPU target")
    options = (_OPT_NONE, _RELOC_PIC, _CODE_MODEL_DEFAULT)
    machine: int = _llvm().LLVMCreateTargetMachine(target, TRIPLE, arch.encode(), features.encode(), *options)
    return machine


def assemble(text: str, arch: str, features: str = "") -> bytes:
    """The machine code of assembly text in LLVM syntax. Raises AssembleError with LLVM's diagnostic."""
    source = f'.amdgcn_target "{TRIPLE.decode()}--{arch}"\n.text\n{text}\n{_END_MARK}:\n'
    return _text_section(_emit(source.encode(), arch, features))


def assemble_object(text: str, arch: str, features: str = "") -> bytes:
    """The relocatable ELF object of assembly text, which may hold any directives."""
    return _emit(text.encode(), arch, features)


def _emit(source: bytes, arch: str, features: str) -> bytes:
    lib = _llvm()
    problems: list[str] = []

    @_DIAGNOSTIC
    def note(info: int, _: int) -> None:
        description = lib.LLVMGetDiagInfoDescription(info)
        problems.append(ctypes.string_at(description).decode())
        lib.LLVMDisposeMessage(description)

    context = lib.LLVMContextCreate()
    lib.LLVMContextSetDiagnosticHandler(context, note, None)
    module = lib.LLVMModuleCreateWithNameInContext(b"assemble", context)
    try:
        lib.LLVMSetTarget(module, TRIPLE)
        lib.LLVMSetModuleInlineAsm2(module, source, len(source))
        return _object_of(module, _target_machine(arch, features), problems)
    finally:
        lib.LLVMDisposeModule(module)
        lib.LLVMContextDispose(context)


def _object_of(module: int, machine: int, problems: list[str]) -> bytes:
    lib = _llvm()
    buffer, message = ctypes.c_void_p(), ctypes.c_void_p()
    outputs = ctypes.byref(message), ctypes.byref(buffer)
    failed = lib.LLVMTargetMachineEmitToMemoryBuffer(machine, module, _EMIT_OBJECT, *outputs)
    if failed:
        problems.append(ctypes.string_at(message.value or 0).decode() if message.value else "emission failed")
        raise AssembleError("\n".join(problems))
    try:
        if problems:
            raise AssembleError("\n".join(problems))
        return ctypes.string_at(lib.LLVMGetBufferStart(buffer), lib.LLVMGetBufferSize(buffer))
    finally:
        lib.LLVMDisposeMemoryBuffer(buffer)


def _text_section(elf: bytes) -> bytes:
    """The code up to the end mark; LLVM pads the section after it for the instruction prefetcher."""
    file = ELFFile(io.BytesIO(elf))
    (end,) = file.get_section_by_name(".symtab").get_symbol_by_name(_END_MARK)
    return bytes(file.get_section_by_name(".text").data()[: end["st_value"]])


@functools.cache
def _disassembler(arch: str, features: str) -> int:
    lib = _llvm()
    handle: int = lib.LLVMCreateDisasmCPUFeatures(TRIPLE, arch.encode(), features.encode(), None, 0, None, None)
    if not handle:
        raise RuntimeError(f"LLVM has no disassembler for {arch}")
    lib.LLVMSetDisasmOptions(handle, _DISASM_PRINT_IMM_HEX)
    return handle


def disassemble_one(data: bytes, arch: str, features: str = "", pc: int = 0) -> tuple[str, int]:
    """(text, size in bytes) of the first instruction; ("", 0) when LLVM finds none."""
    out = ctypes.create_string_buffer(512)
    raw = ctypes.create_string_buffer(data, len(data) + _PADDING)
    size = _llvm().LLVMDisasmInstruction(_disassembler(arch, features), raw, len(data), pc, out, len(out))
    return out.value.decode().strip() if size else "", size
