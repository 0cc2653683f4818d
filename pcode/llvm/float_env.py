"""What float code needs around it, and the LLVM helpers that it is written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from llvmlite import ir

from mockgpu.pcode.llvm.values import Builder, Value, lanes_of, like
from mockgpu.pcode.numeric_mode import Mode

F32T, F64T, HALF = ir.FloatType(), ir.DoubleType(), ir.HalfType()
_SUFFIX = {"float": "f32", "double": "f64", "half": "f16"}
#: How much likelier the hot way is than the cold one.
_HOT = 1 << 20


class Env(Protocol):
    """Where float code is emitted: a builder, the MODE that it obeys and what the host's processor has.

    ``features`` names LLVM target features that the code may rely on: ``fma`` (fused multiply-add of f32 and f64),
    ``f16c`` (conversion between half and float), ``neon`` (both). Without them the code uses generic operations; it
    never calls a library function.
    """

    @property
    def b(self) -> Builder: ...

    @property
    def mode(self) -> Mode: ...

    @property
    def features(self) -> frozenset[str]: ...


@dataclass(frozen=True)
class FloatEnv:
    """An :class:`Env` and nothing more."""

    b: Builder
    mode: Mode
    features: frozenset[str] = frozenset()

    def with_mode(self, mode: Mode) -> FloatEnv:
        return FloatEnv(self.b, mode, self.features)


def has_fma(env: Env) -> bool:
    return not env.features.isdisjoint({"fma", "neon"})


def has_half(env: Env) -> bool:
    return not env.features.isdisjoint({"f16c", "neon"})


def intrinsic(env: Env, name: str, args: Sequence[Value], result: ir.Type | None = None) -> Value:
    """A call of ``llvm.<name>``, overloaded on the type of the first argument, which is the result's too."""
    kind = args[0].type
    vector = isinstance(kind, ir.VectorType)
    scalar = kind.element if vector else kind
    suffix = f"i{scalar.width}" if isinstance(scalar, ir.IntType) else _SUFFIX[str(scalar)]
    full = f"llvm.{name}.{f'v{kind.count}' if vector else ''}{suffix}"
    module = env.b.module
    function = module.globals.get(full)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result or kind, [a.type for a in args]), full)
    return env.b.call(function, list(args))


class Builds(Protocol):
    """Whatever has a builder."""

    @property
    def b(self) -> Builder: ...


def any_lane(env: Builds, flags: Value) -> Value:
    """Whether a flag is set in any lane: one ``i1``."""
    lanes = lanes_of(flags)
    if lanes == 1:
        return flags
    word = env.b.bitcast(flags, ir.IntType(lanes))
    return env.b.icmp_unsigned("!=", word, ir.Constant(word.type, 0))


def rarely(env: Env, flags: Value, value: Value, make: Callable[[], Value]) -> Value:
    """``value``, or in the rare case that any flag is set what ``make`` emits (in a block off the hot way).

    The builder is left in the block where both ways join.
    """
    defer = getattr(env, "defer", None)
    if defer is not None:  # the caller starts again in another way where a flag is set
        defer.abort(flags)
        return value
    b = env.b
    cond = any_lane(env, flags)
    before = b.block
    cold, join = b.append_basic_block("rare"), b.append_basic_block("join")
    b.cbranch(cond, cold, join).set_weights([1, _HOT])
    b.position_at_end(cold)
    other = make()
    last = b.block
    b.branch(join)
    b.position_at_end(join)
    out = b.phi(value.type)
    out.add_incoming(value, before)
    out.add_incoming(other, last)
    return out


def bits_as(env: Env, x: Value, kind: ir.Type) -> Value:
    """The same bits as another scalar type of the same width, lane by lane."""
    return env.b.bitcast(x, like(x, kind))


def fconst(value: Value, number: float) -> ir.Constant:
    """A float constant of the type of ``value``."""
    kind: Any = value.type
    if isinstance(kind, ir.VectorType):
        return ir.Constant(kind, [ir.Constant(kind.element, number)] * kind.count)
    return ir.Constant(kind, number)
