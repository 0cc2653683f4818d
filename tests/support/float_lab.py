"""Compiles float code for tests: every case is a function over arrays of patterns, many to a module."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from mockgpu.machine.native.compile import assembly, compile_ir
from mockgpu.machine.native.host import Target, target
from mockgpu.machine.native.loader import Code, load
from mockgpu.pcode.llvm.float_env import FloatEnv
from mockgpu.pcode.llvm.values import container as container_bits
from mockgpu.pcode.llvm.values import typed, width_of
from mockgpu.pcode.numeric import Mode, quiet_ieee

LANES = 32
I32, I64, PTR = ir.IntType(32), ir.IntType(64), ir.PointerType()


@dataclass(frozen=True)
class Case:
    """One function: ``emit(env, *args)`` against ``oracle(mode, *args)`` on operands of ``bits`` bits each."""

    name: str
    mode: Mode
    bits: tuple[int, ...]
    emit: Callable[..., Any]
    oracle: Callable[..., Any]


def text_of(cases: Sequence[Case], features: frozenset[str], lanes: int = LANES) -> str:
    """A module with a function ``f<i>(out, n, args...)`` per case, which works off ``n`` times ``lanes`` elements."""
    module = ir.Module("lab")
    for i, case in enumerate(cases):
        _function(module, f"f{i}", case, features, lanes)
    return str(module)


def _function(module: ir.Module, name: str, case: Case, features: frozenset[str], lanes: int) -> None:
    kind = ir.FunctionType(ir.VoidType(), [PTR, I64, *[PTR] * len(case.bits)])
    function = ir.Function(module, kind, name)
    out, count, *sources = function.args
    entry, body, done = (function.append_basic_block(n) for n in ("entry", "body", "done"))
    b = ir.IRBuilder(entry)
    b.branch(body)
    b.position_at_end(body)
    at = b.phi(I64)
    at.add_incoming(ir.Constant(I64, 0), entry)
    args = [_load(b, p, at, n, lanes) for p, n in zip(sources, case.bits, strict=True)]
    value = case.emit(FloatEnv(b, case.mode, features), *args)
    if width_of(value) == 1:
        value = b.zext(value, typed(16, lanes))
    place = b.gep(out, [at], source_etype=value.type)
    b.store(value, place, align=2)
    following = b.add(at, ir.Constant(I64, 1))
    at.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, count), body, done)
    b.position_at_end(done)
    b.ret_void()


def _load(b: ir.IRBuilder, base: Any, at: Any, bits: int, lanes: int) -> Any:
    kind = typed(container_bits(bits), lanes)
    return b.load(b.gep(base, [at], source_etype=kind), align=2, typ=kind)


class Lab:
    """Compiled cases."""

    def __init__(self, cases: Sequence[Case], level: str = "native", lanes: int = LANES):
        self.cases, self.lanes = list(cases), lanes
        self.target: Target = target(level)
        self.text = text_of(self.cases, self.target.features, lanes)
        self.code: Code = load(compile_ir(self.text, self.target))

    def assembly(self) -> str:
        return assembly(self.text, self.target)

    def run(self, i: int, *args: Any) -> Any:
        """The results of case ``i`` for arrays whose length is a multiple of the lanes, as the oracle would give."""
        case, lanes = self.cases[i], self.lanes
        with quiet_ieee():
            expected = np.asarray(case.oracle(case.mode, *args))
        word = np.uint16 if expected.dtype == np.bool_ else expected.dtype
        out = np.zeros(len(args[0]), word)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (2 + len(args)))(self.code[f"f{i}"])
        keep = [np.ascontiguousarray(a) for a in args]
        call(out.ctypes.data, len(out) // lanes, *(a.ctypes.data for a in keep))
        return out.astype(expected.dtype), np.broadcast_to(expected, out.shape)

    def check(self, i: int, *args: Any) -> None:
        """Raises AssertionError for the first element in which the two differ."""
        got, expected = self.run(i, *args)
        wrong = np.flatnonzero(got != expected)
        if len(wrong):
            k = int(wrong[0])
            shown = ", ".join(f"{int(a[k]):#x}" for a in args)
            raise AssertionError(
                f"{self.cases[i].name} under {self.cases[i].mode}: {len(wrong)} of {len(got)} differ; "
                f"({shown}) gives {int(got[k]):#x} instead of {int(expected[k]):#x}"
            )
