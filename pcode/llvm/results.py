"""What a program writes to operands, kept back until it ends: values, and the lanes in which they are written."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mockgpu.pcode.llvm.values import Builder, NotNative, Value, constant, select


@dataclass(frozen=True, slots=True)
class Result:
    """The operand ``name`` gets ``bits`` bits of ``value`` where ``where`` holds (None: everywhere).

    ``bits`` is 0 for the executing lanes' bits of a lane mask.
    """

    name: str
    value: Value
    bits: int
    where: Value | None


def merge(b: Builder, cond: Value, x: Result | None, y: Result | None) -> Result:
    """The result ``x`` in the lanes of ``cond`` and ``y`` in the others; None is one that is not written."""
    if x is y and x is not None:
        return x
    if x is not None and y is not None:
        if x.bits != y.bits:
            raise NotNative(f"{x.name} written as {x.bits} and as {y.bits} bits")
        value = x.value if x.value is y.value else select(b, cond, x.value, y.value)
        return replace(x, value=value, where=_where(b, cond, x.where, y.where))
    given = y if x is None else x
    assert given is not None
    yes, no = constant(1, 1), constant(0, 1)
    own = yes if given.where is None else given.where
    if x is None:
        where = b.not_(cond) if given.where is None else select(b, cond, no, own)
    else:
        where = cond if given.where is None else select(b, cond, own, no)
    return replace(given, where=where)


def _where(b: Builder, cond: Value, x: Value | None, y: Value | None) -> Value | None:
    if x is None and y is None:
        return None
    yes = constant(1, 1)
    return select(b, cond, yes if x is None else x, yes if y is None else y)
