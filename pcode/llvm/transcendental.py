"""exp2, log2 and the sine and cosine of turns as LLVM IR: :mod:`mockgpu.pcode.elementary` in LLVM's doubles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir

from mockgpu.pcode import elementary
from mockgpu.pcode.llvm.float_env import F64T, Env, bits_as, fconst, intrinsic
from mockgpu.pcode.llvm.values import Value, same

Operand: TypeAlias = "Lanes | float"

_I64 = ir.IntType(64)


class Lanes:
    """An LLVM value of doubles or int64 with Python's operators; the other operand may be a Python number."""

    __slots__ = ("env", "value")

    def __init__(self, env: Env, value: Value):
        self.env, self.value = env, value

    @property
    def real(self) -> bool:
        kind = self.value.type
        return bool((kind.element if isinstance(kind, ir.VectorType) else kind) == F64T)

    def like(self, x: Operand) -> Value:
        """``x`` as an LLVM value of this one's type."""
        if isinstance(x, Lanes):
            return x.value
        return fconst(self.value, float(x)) if self.real else same(self.value, int(x))

    def _emit(self, real: str, whole: str, x: Operand) -> Lanes:
        step = getattr(self.env.b, real if self.real else whole)
        return Lanes(self.env, step(self.value, self.like(x)))

    def _compare(self, operator: str, x: Operand) -> Lanes:
        step = self.env.b.fcmp_ordered if self.real else self.env.b.icmp_signed
        return Lanes(self.env, step(operator, self.value, self.like(x)))

    def __add__(self, x: Operand) -> Lanes:
        return self._emit("fadd", "add", x)

    def __sub__(self, x: Operand) -> Lanes:
        return self._emit("fsub", "sub", x)

    def __mul__(self, x: Operand) -> Lanes:
        return self._emit("fmul", "mul", x)

    def __truediv__(self, x: Operand) -> Lanes:
        return self._emit("fdiv", "sdiv", x)

    def __neg__(self) -> Lanes:
        return Lanes(self.env, self.env.b.fneg(self.value))

    def __and__(self, x: Operand) -> Lanes:
        return Lanes(self.env, self.env.b.and_(self.value, self.like(x)))

    def __lshift__(self, x: Operand) -> Lanes:
        return Lanes(self.env, self.env.b.shl(self.value, self.like(x)))

    def __rshift__(self, x: Operand) -> Lanes:
        return Lanes(self.env, self.env.b.ashr(self.value, self.like(x)))

    def __lt__(self, x: Operand) -> Lanes:
        return self._compare("<", x)

    def __gt__(self, x: Operand) -> Lanes:
        return self._compare(">", x)

    def __eq__(self, x: object) -> Any:
        return self._compare("==", x)  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]


class _Llvm:
    """:class:`~mockgpu.pcode.elementary.Arithmetic` on :class:`Lanes`."""

    @staticmethod
    def trunc(x: Lanes) -> Lanes:
        return Lanes(x.env, intrinsic(x.env, "trunc", [x.value]))

    @staticmethod
    def bits(x: Lanes) -> Lanes:
        return Lanes(x.env, bits_as(x.env, x.value, _I64))

    @staticmethod
    def number(x: Lanes) -> Lanes:
        return Lanes(x.env, bits_as(x.env, x.value, F64T))

    @staticmethod
    def where(condition: Lanes, a: Operand, b: Operand) -> Lanes:
        known = a if isinstance(a, Lanes) else b
        assert isinstance(known, Lanes)
        return Lanes(known.env, known.env.b.select(condition.value, known.like(a), known.like(b)))


@functools.cache
def step(name: str) -> Callable[[Env, Value], Value]:
    """The function of a name in :data:`mockgpu.pcode.elementary.FUNCTIONS`, on LLVM doubles: ``f(env, x)``."""
    function = elementary.FUNCTIONS[name]

    def run(env: Env, x: Value) -> Value:
        value: Value = function(_Llvm(), Lanes(env, x)).value
        return value

    return run
