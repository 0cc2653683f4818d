"""What the oracle needs while it runs: the machine's side (:class:`Context`), the values, the errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from mockgpu.pcode.numeric import Bits, Mask, Mode


class OracleError(RuntimeError):
    """A program cannot be evaluated."""


class CompileError(OracleError):
    """The IR has a node or a combination of types that means nothing."""


class LoopLimitError(OracleError):
    """A loop did not end."""


class Context(Protocol):
    """The machine as one instruction sees it: ``waves`` waves in lockstep, ``lanes`` lanes each.

    Values are bit pattern arrays (:mod:`~mockgpu.pcode.numeric_format`) that broadcast to (waves, lanes): vector
    operands have that shape, scalar ones (waves, 1), constants (1, 1) or no axes. Arrays that a method returns must
    keep their values while the program runs, whatever is written: hand out copies of registers, not views.

    ``mask`` is a boolean array that broadcasts to (waves, lanes), or None for all; the context applies EXEC where the
    instruction is a vector one. ``lanes`` is 1 for scalar instructions.

    A context may also have, for operands wider than 32 bits, ``read_slice(name, lo, bits) -> Bits`` and
    ``write_slice(name, lo, value, bits, mask)`` where ``lo`` is a multiple of 32 and ``bits`` is 32 or 64. They are
    used instead of reading and writing the whole operand.
    """

    waves: int
    lanes: int
    wave_size: int
    mode: Mode

    def read(self, name: str, bits: int) -> Bits: ...

    def write(self, name: str, value: Bits, bits: int, mask: Mask | None) -> None: ...

    def read_lane_mask(self, name: str) -> Mask: ...

    def write_lane_mask(self, name: str, value: Mask, mask: Mask | None) -> None: ...

    def read_vgpr(self, lane: Bits, reg: Bits) -> Bits: ...

    def write_vgpr(self, lane: Bits, reg: Bits, value: Bits, mask: Mask | None) -> None: ...

    def read_sgpr(self, reg: Bits) -> Bits: ...

    def write_sgpr(self, reg: Bits, value: Bits, mask: Mask | None) -> None: ...

    def read_hwreg(self, index: Bits) -> Bits: ...

    def write_hwreg(self, index: Bits, value: Bits, mask: Mask | None) -> None: ...

    def load(self, addr: Bits, bits: int, mask: Mask | None) -> Bits: ...

    def store(self, addr: Bits, value: Bits, bits: int, mask: Mask | None) -> None: ...

    def effect(self, fn: str, args: tuple[Bits, ...], mask: Mask | None) -> None: ...


class State:
    """One run of a program: the context, the predicate, the values of the locals by slot."""

    __slots__ = ("arrays", "cache", "ctx", "locals", "mask", "mode")

    def __init__(self, ctx: Context, slots: int, mask: Mask | None) -> None:
        self.ctx = ctx
        self.mode = ctx.mode
        self.mask = mask
        self.locals: list[Bits | None] = [None] * slots
        self.arrays: dict[str, list[Bits]] = {}
        self.cache: dict[tuple[str, int], Bits] = {}


Eval: TypeAlias = Callable[[State], Bits]
Exec: TypeAlias = Callable[[State], None]
