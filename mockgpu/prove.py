"""Proves that an LLVM library compiles a kernel. Run as a script, in a process of its own: LLVM may abort it.

``python prove.py LIBRARY ARCH ELF_MACH`` prints the version of LLVM and ends with 0, or says why not and ends with 1.
Only the standard library is used.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

#: Touches what real kernels touch: work-item ids, buffers, LDS, a barrier, bfloat16, transcendental functions.
KERNEL = b"""
@shared = internal unnamed_addr addrspace(3) global [64 x float] undef, align 16
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare void @llvm.amdgcn.s.barrier()
declare float @llvm.exp2.f32(float)
define amdgpu_kernel void @proof(ptr addrspace(1) noalias align 32 %out, ptr addrspace(1) noalias align 32 %in) #0 {
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %group, 64
  %index = add i32 %base, %lane
  %source = getelementptr inbounds bfloat, ptr addrspace(1) %in, i32 %index
  %narrow = load bfloat, ptr addrspace(1) %source
  %wide = fpext bfloat %narrow to float
  %power = call float @llvm.exp2.f32(float %wide)
  %slot = getelementptr inbounds [64 x float], ptr addrspace(3) @shared, i32 0, i32 %lane
  store float %power, ptr addrspace(3) %slot
  fence syncscope("workgroup") release
  tail call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %other = xor i32 %lane, 1
  %neighbour = getelementptr inbounds [64 x float], ptr addrspace(3) @shared, i32 0, i32 %other
  %read = load float, ptr addrspace(3) %neighbour
  %quotient = fdiv float %power, %read
  %target = getelementptr inbounds float, ptr addrspace(1) %out, i32 %index
  store float %quotient, ptr addrspace(1) %target
  ret void
}
attributes #0 = { alwaysinline nounwind "no-builtins" "amdgpu-flat-work-group-size"="1,64" "no-trapping-math"="true" }
"""
TRIPLE = b"amdgcn-amd-amdhsa"
EM_AMDGPU = 224
PTR, INT, BYTES = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p


class Refused(Exception):
    """The library does not compile the kernel."""


def function(llvm: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    try:
        f = getattr(llvm, name)
    except AttributeError:
        raise Refused(f"the library has no {name}") from None
    f.restype, f.argtypes = result, arguments
    return f


def check(failed: int, message: ctypes.c_char_p, what: str) -> None:
    if failed:
        text = (
            message.value.decode(errors="replace").strip()
            if message is not None and message.value
            else "no reason given"
        )
        raise Refused(f"{what}: {text}")


def target_machine(llvm: ctypes.CDLL, arch: bytes) -> int:
    for component in ("Target", "TargetInfo", "TargetMC", "AsmParser", "AsmPrinter"):
        function(llvm, f"LLVMInitializeAMDGPU{component}", None)()
    target, message = PTR(), BYTES()
    find = function(llvm, "LLVMGetTargetFromTriple", INT, BYTES, ctypes.POINTER(PTR), ctypes.POINTER(BYTES))
    check(find(TRIPLE, ctypes.byref(target), ctypes.byref(message)), message, "no AMDGPU target")
    create = function(llvm, "LLVMCreateTargetMachine", PTR, PTR, BYTES, BYTES, BYTES, INT, INT, INT)
    machine = create(target, TRIPLE, arch, b"+cumode", 2, 2, 0)
    if not machine:
        raise Refused("no target machine")
    return int(machine)


def compile_kernel(llvm: ctypes.CDLL, arch: bytes) -> bytes:
    """The ELF object of the kernel, compiled in the way of tinygrad: parse, verify, optimise, emit."""
    machine = target_machine(llvm, arch)
    context = function(llvm, "LLVMContextCreate", PTR)()
    wrap = function(llvm, "LLVMCreateMemoryBufferWithMemoryRangeCopy", PTR, BYTES, ctypes.c_size_t, BYTES)
    module, message = PTR(), BYTES()
    parse = function(llvm, "LLVMParseIRInContext", INT, PTR, PTR, ctypes.POINTER(PTR), ctypes.POINTER(BYTES))
    failed = parse(context, wrap(KERNEL, len(KERNEL), b"proof"), ctypes.byref(module), ctypes.byref(message))
    check(failed, message, "the kernel does not parse")
    options = function(llvm, "LLVMCreatePassBuilderOptions", PTR)()
    optimise = function(llvm, "LLVMRunPasses", PTR, PTR, BYTES, PTR, PTR)
    if optimise(module, b"default<O2>", machine, options):
        raise Refused("the optimisation passes fail")
    emit = function(
        llvm, "LLVMTargetMachineEmitToMemoryBuffer", INT, PTR, PTR, INT, ctypes.POINTER(BYTES), ctypes.POINTER(PTR)
    )
    out = PTR()
    check(emit(machine, module, 1, ctypes.byref(message), ctypes.byref(out)), message, "no object is emitted")
    start = function(llvm, "LLVMGetBufferStart", PTR, PTR)(out)
    return ctypes.string_at(start, function(llvm, "LLVMGetBufferSize", ctypes.c_size_t, PTR)(out))


def check_object(elf: bytes, mach: int) -> None:
    """An LLVM that does not know the processor warns and compiles for another: the ELF header tells."""
    machine, flags = int.from_bytes(elf[18:20], "little"), int.from_bytes(elf[48:52], "little")
    if elf[:4] != b"\x7fELF" or machine != EM_AMDGPU:
        raise Refused("the output is not an AMDGPU object")
    if flags & 0xFF != mach:
        raise Refused(
            f"the processor is not known to this LLVM (the object is for machine {flags & 0xFF:#x}, not {mach:#x})"
        )


def version(llvm: ctypes.CDLL) -> str:
    parts = [ctypes.c_uint() for _ in range(3)]
    try:
        llvm.LLVMGetVersion(*(ctypes.byref(p) for p in parts))
    except AttributeError:  # new in LLVM 16
        return "before 16"
    return ".".join(str(p.value) for p in parts)


def main(library: str, arch: str, mach: str) -> int:
    try:
        llvm = ctypes.CDLL(library)
        check_object(compile_kernel(llvm, arch.encode()), int(mach))
    except (OSError, Refused) as e:
        print(e)
        return 1
    print(version(llvm))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
