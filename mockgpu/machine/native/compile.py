"""LLVM IR to object code: parse, verify, optimise, emit, and refuse what would stop the process later."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mockgpu.isa.errors import MockGPUError
from mockgpu.machine.native.elf import ObjectFile
from mockgpu.machine.native.host import Target, binding

_SHOWN_LINES = 3


class CompileError(MockGPUError):
    """IR that LLVM refuses, or that would make it abort the process."""


class UnresolvedSymbolError(CompileError):
    """Object code that calls functions of a library; ``names`` has them."""

    def __init__(self, names: tuple[str, ...], target: str):
        self.names = names
        super().__init__(
            f"code for {target} calls {', '.join(names)}, which nothing provides: "
            "the IR has an operation without an instruction on this host; lower it to others"
        )


def compile_ir(text: str, target: Target, opt: int = 2) -> bytes:
    """The object file (ELF) of a module of LLVM IR.

    ``opt`` is LLVM's level, 0 to 3. Raises CompileError, and UnresolvedSymbolError where a call of a library is left.
    """
    with _optimised(text, target, opt) as module:
        try:
            data: bytes = _machine(target, opt).emit_object(module)
        except RuntimeError as error:
            raise CompileError(f"no code for {target.name}: {error}") from error
    missing = ObjectFile(data).undefined()
    if missing:
        raise UnresolvedSymbolError(missing, target.name)
    return data


def assembly(text: str, target: Target, opt: int = 2) -> str:
    """The assembly of a module of LLVM IR. Raises CompileError."""
    with _optimised(text, target, opt) as module:
        result: str = _machine(target, opt).emit_assembly(module)
    return result


def optimised_ir(text: str, target: Target, opt: int = 2) -> str:
    """A module after the passes that run before code is made. Raises CompileError."""
    with _optimised(text, target, opt) as module:
        return str(module)


@contextmanager
def _optimised(text: str, target: Target, opt: int) -> Iterator[Any]:
    """The module, alive inside the block alone: it has to go before its context, which garbage collection ignores."""
    _refuse_fatal(text, target)
    context = binding().create_context()
    try:
        module = _parsed(text, target, context)
        try:
            if opt:
                _passes().run(module, _builder(target, opt))
            yield module
        finally:
            module.close()
    finally:
        context.close()


def _parsed(text: str, target: Target, context: Any) -> Any:
    try:
        module = binding().parse_assembly(text, context=context)
    except RuntimeError as error:
        raise CompileError(f"LLVM refuses the module: {_head(str(error))}") from error
    try:
        module.triple = target.triple
        module.data_layout = _layout(target)
        module.verify()
    except RuntimeError as error:
        module.close()
        raise CompileError(f"LLVM refuses the module: {_head(str(error))}") from error
    return module


def _head(text: str) -> str:
    return "\n".join(text.strip().splitlines()[:_SHOWN_LINES])


def _refuse_fatal(text: str, target: Target) -> None:
    """Raises CompileError for IR on which LLVM ends the process instead of reporting."""
    if re.search(r"\basm (sideeffect |alignstack |inteldialect |unwind )*\"", text):
        raise CompileError("inline assembly is not allowed: LLVM ends the process where it does not fit")
    foreign = re.search(r"@llvm\.(aarch64|arm)\." if target.x86 else r"@llvm\.x86\.", text)
    if foreign:
        raise CompileError(f"{foreign[0]}* is used in code for {target.name}")


@functools.cache
def _machine(target: Target, opt: int) -> Any:
    found = binding().Target.from_triple(target.triple)
    return found.create_target_machine(cpu=target.cpu, features=target.flags, opt=opt, reloc="pic", codemodel="small")


@functools.cache
def _layout(target: Target) -> str:
    return str(_machine(target, 0).target_data)


@functools.cache
def _builder(target: Target, opt: int) -> Any:
    llvm = binding()
    return llvm.create_pass_builder(_machine(target, opt), llvm.create_pipeline_tuning_options(opt))


@functools.cache
def _passes() -> Any:
    """The passes of a small handler: no loops to speak of, and little but selects and vectors.

    Of those tried, these gave the shortest code for a sixth of the time that making code of it takes.
    """
    manager = binding().create_new_module_pass_manager()
    manager.add_sroa_pass()
    manager.add_new_gvn_pass()
    manager.add_instruction_combine_pass()
    return manager
