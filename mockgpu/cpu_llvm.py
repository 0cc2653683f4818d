"""tinygrad's CPU device without an executable clang: the LLVM library that compiles for AMD compiles for it too.

tinygrad computes tensors of no device (``Tensor.arange(8)`` without another operand) on CPU. Its renderer for LLVM
renders their kernels, but not the calls through function pointers of the device's own worker program; those are added
here. Imports tinygrad's runtime: load it from ``mockgpu.hooks`` only.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tinygrad.renderer.llvmir import CPULLVMRenderer, base_rewrite, ldt
from tinygrad.uop import Ops
from tinygrad.uop.ops import PatternMatcher, UPat

_POINTERS = (Ops.INDEX, Ops.SHRINK, Ops.BUFFER)


def render_call(ctx: Any, x: Any) -> str:
    """A call of the function whose address is the first source. A place in a buffer is passed as its address."""
    function, *arguments = x.src
    address = f"%function_{len(ctx)}"
    passed = ", ".join(f"{ldt(a.dtype, ptr=a.op in _POINTERS)} {ctx.get(a, a.arg)}" for a in arguments)
    result = "" if ldt(x.dtype) == "void" else f"{ctx[x]} = "
    return f"  {address} = inttoptr i64 {ctx[function]} to ptr\n  {result}call {ldt(x.dtype)} {address}({passed})"


class CallingRenderer(CPULLVMRenderer):
    """tinygrad's LLVM renderer for the host, with calls through pointers."""

    string_rewrite = PatternMatcher([(UPat(Ops.CALL, src=(UPat(),), allow_any_len=True, name="x"), render_call)]) + (
        base_rewrite
    )


def use_llvm(ops_cpu: ModuleType) -> None:
    """Let LLVM compile what the CPU device compiles with clang: its worker's programs, and kernels by default."""
    ops_cpu.ClangRenderer = CallingRenderer  # type: ignore[attr-defined]
