"""Compiles programs with LLVM and compares them with the oracle, many at once."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir as llvm_ir

from mockgpu.pcode import ir, oracle
from mockgpu.pcode.llvm.program import emit_program
from mockgpu.pcode.llvm.values import NotNative
from mockgpu.pcode.lower import NoSemanticsError, lower
from mockgpu.pcode.numeric import Mode
from mockgpu.pcode.text import pcode_texts
from support.llvm_machine import HELPERS, I64, LlvmMachine, NumpyMachine, is_scalar, layout_of, make_waves

PTR = llvm_ir.PointerType()
Key = tuple[str, str, str]


@functools.cache
def programs(family: str) -> dict[Key, ir.Program]:
    """Every program of a family, the same text once."""
    out: dict[Key, ir.Program] = {}
    seen: set[tuple[bool, ir.Program]] = set()
    for table, name in pcode_texts(family):
        try:
            program = lower(family, table, name)
        except NoSemanticsError:
            continue
        if (is_scalar(table), program) not in seen:
            seen.add((is_scalar(table), program))
            out[family, table, name] = program
    return out


@dataclass
class Case:
    """One program with a wave size and a MODE."""

    key: Key
    program: ir.Program
    lanes: int
    mode: Mode

    @property
    def vector(self) -> bool:
        return not is_scalar(self.key[1])

    def __str__(self) -> str:
        return f"{'.'.join(self.key)} with {self.lanes} lanes and {self.mode}"


class Lab:
    """Native code of cases. ``refused`` has the reasons of those without."""

    def __init__(self, cases: list[Case], opt: int = 1, features: frozenset[str] | None = None, tuned: bool = True):
        self.refused: dict[int, str] = {}
        self.cases, self.tuned = cases, tuned
        self.features = host_features() if features is None else features
        self.llvmlite_module = _module_with_helpers()
        for k, case in enumerate(cases):
            try:
                self._emit(case, f"f{k}")
            except NotNative as e:
                self.refused[k] = e.reason
                del self.llvmlite_module.globals[f"f{k}"]
        self.module = llvm.parse_assembly(_text(self.llvmlite_module))
        self.module.verify()
        self.engine = _compile(self.module, opt)

    def _emit(self, case: Case, name: str) -> None:
        kind = llvm_ir.FunctionType(llvm_ir.VoidType(), [PTR])
        function = llvm_ir.Function(self.llvmlite_module, kind, name)
        layout = layout_of(case.program, case.lanes, case.vector)
        machine = LlvmMachine(layout, function, case.mode, self.features)
        emit_program(case.program, machine, case.key if self.tuned else None)
        machine.commit()

    def check(self, k: int, waves: int = 24, seed: int = 1) -> str | None:
        """Run a case on both sides; the first difference in words, or None."""
        case = self.cases[k]
        layout = layout_of(case.program, case.lanes, case.vector)
        start = make_waves(case.program, layout, waves, seed)
        mine, theirs = start.copy(), start.copy()
        machine = NumpyMachine(layout, mine, case.mode)
        oracle.compile_program(case.program).run(machine)
        machine.commit()
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.engine.get_function_address(f"f{k}"))
        for w in range(waves):
            call(theirs[w].ctypes.data)
        return None if np.array_equal(mine, theirs) else _describe(case, layout, start, mine, theirs)


def _describe(case: Case, layout: Any, start: np.ndarray, mine: np.ndarray, theirs: np.ndarray) -> str:
    lines = [f"{case}:"]
    wave = int(np.nonzero((mine != theirs).any(axis=1))[0][0])
    differing = [n for n in layout.dwords if (layout.view(mine, n)[wave] != layout.view(theirs, n)[wave]).any()]
    lane = 0
    for name in differing:
        a, b = layout.view(mine, name)[wave], layout.view(theirs, name)[wave]
        lane = int(np.nonzero((a != b).any(axis=0))[0][0])
        lines.append(f"{name} lane {lane}: oracle {_hex(a[:, lane])}, native {_hex(b[:, lane])}")
    if not differing:
        at = int(np.nonzero(mine[wave] != theirs[wave])[0][0])
        name = max((p, n) for n, p in layout.places.items() if p <= at)[1]
        lines.append(f"{name} + {at - layout.places[name]}: oracle {mine[wave, at]:#x}, native {theirs[wave, at]:#x}")
    for name in layout.dwords:
        view = layout.view(start, name)[wave]
        lines.append(f"  {name} = {_hex(view[:, lane if view.shape[1] > 1 else 0])}")
    lines.append(f"  fields {layout.fields}\n{case.program.text}")
    return "\n".join(lines)


def _hex(dwords: np.ndarray) -> str:
    return "_".join(f"{int(d):08x}" for d in reversed(dwords))


def host_features() -> frozenset[str]:
    return frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)


_HELPER_NAMES = ("load_lanes", "store_lanes")


def _module_with_helpers() -> Any:
    module = llvm_ir.Module("programs")
    for helper in _HELPER_NAMES:
        kind = llvm_ir.FunctionType(llvm_ir.VoidType(), [PTR, PTR, PTR, I64, I64, I64])
        llvm_ir.Function(module, kind, helper)
    return module


def _text(module: Any) -> str:
    """The module's text, with the helpers' bodies for their declarations."""
    lines = [x for x in str(module).split("\n") if not (x.startswith("declare") and any(h in x for h in _HELPER_NAMES))]
    return "\n".join(lines) + HELPERS


def _compile(module: Any, opt: int) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = machine(opt)
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return engine


def machine(opt: int) -> Any:
    """A target machine for this host."""
    flags = llvm.get_host_cpu_features().flatten() + ",-prefer-256-bit"
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=flags, opt=opt, codemodel="jitdefault", jit=True
    )


def assembly(case: Case) -> str:
    """The host's code of one case."""
    lab = Lab([case], opt=2)
    return machine(2).emit_assembly(lab.module)


def batches(cases: list[Case], size: int) -> Iterator[list[Case]]:
    for k in range(0, len(cases), size):
        yield cases[k : k + size]
