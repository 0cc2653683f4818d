"""The oracle: programs evaluated on numpy arrays, all lanes of all waves of a batch at once.

>>> evaluator = compile_program(program)
>>> evaluator.run(context)

Compilation turns the IR into nested closures once. Where a condition differs between lanes, both arms run under a
predicate. :meth:`Evaluator.steps` stops before every statement instead, for watching.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mockgpu.pcode import ir
from mockgpu.pcode.numeric import Bits, Mask, quiet_ieee
from mockgpu.pcode.oracle_expr import walk
from mockgpu.pcode.oracle_limbs import halve_wide_sums
from mockgpu.pcode.oracle_simplify import simplify
from mockgpu.pcode.oracle_split import split_wide_locals
from mockgpu.pcode.oracle_state import (
    CompileError,
    Context,
    Exec,
    LoopLimitError,
    OracleError,
    State,
)
from mockgpu.pcode.oracle_stmt import Block, StmtCompiler

_ROUND_MODE = "ROUND_MODE"
#: Assigning one of these may change a register that is also a source.
_REGISTERS = (ir.Operand, ir.LaneBit, ir.Vgpr, ir.Sgpr)


@dataclass(frozen=True, slots=True)
class Step:
    """What :meth:`Evaluator.steps` shows: the statement that comes next, and what it will see.

    ``mask`` is the predicate (None for all lanes); ``locals`` the values of the local variables that have one.
    """

    statement: ir.Stmt
    mask: Mask | None
    locals: Mapping[str, Bits]


class Evaluator:
    """A compiled program. It holds no state of a run and may be used by several threads."""

    def __init__(self, program: ir.Program, flush: bool | None) -> None:
        body = simplify(split_wide_locals(halve_wide_sums(program.body)))
        names = list(walk(body))
        self.program = program
        if flush is None:
            flush = not _tests_only(names)
        self._slots = _slots(names)
        written = frozenset(op.name for op in _written(names))
        cached = frozenset(n.name for n in names if isinstance(n, ir.Operand)) - written - {_ROUND_MODE}
        compiler = StmtCompiler(self._slots, _arrays(names), cached, flush, _loop_types(names))
        self._block: Block = compiler.block(body)
        self._exec: Exec = self._block.run
        self._early = _read_early(names, cached)

    def _start(self, ctx: Context, mask: Mask | None) -> State:
        state = State(ctx, len(self._slots), mask)
        for name, bits in self._early:
            state.cache[name, bits] = ctx.read(name, bits)
        return state

    def run(self, ctx: Context, mask: Mask | None = None) -> None:
        """Execute on ``ctx`` in the lanes of ``mask`` (None: all; the context still applies EXEC).

        Raises :class:`OracleError` and whatever the context raises.
        """
        with quiet_ieee():
            self._exec(self._start(ctx, mask))

    def run_inside(self, ctx: Context) -> None:
        """As :meth:`run`, for callers that have entered ``numeric.quiet_ieee`` for many runs together."""
        self._exec(self._start(ctx, None))

    def steps(self, ctx: Context, mask: Mask | None = None) -> Iterator[Step]:
        """Execute statement by statement: each is yielded before it runs.

        The floating-point environment and numpy's warnings are set around each statement alone, so the caller may do
        what it likes in between.
        """
        state = self._start(ctx, mask)
        for statement in self._block.steps(state):
            shown = {n: v for n, i in self._slots.items() if (v := state.locals[i]) is not None}
            yield Step(statement, state.mask, shown)


def _slots(nodes: list[object]) -> dict[str, int]:
    """A place for each scalar local and loop variable."""
    names: dict[str, int] = {}
    for n in nodes:
        if isinstance(n, ir.Local) or (isinstance(n, ir.Declare) and n.length is None):
            names.setdefault(n.name, len(names))
        elif isinstance(n, ir.For):
            names.setdefault(n.var, len(names))
    return names


def _arrays(nodes: list[object]) -> dict[str, int]:
    return {n.name: n.length for n in nodes if isinstance(n, ir.Declare) and n.length is not None}


def _loop_types(nodes: list[object]) -> dict[str, ir.Type]:
    """The types by which the bodies read their loop variables."""
    loops = {n.var for n in nodes if isinstance(n, ir.For)}
    return {n.name: n.type for n in nodes if isinstance(n, ir.Local) and n.name in loops}


def _place(target: ir.Expr) -> ir.Expr:
    """What a target is, or is a part of."""
    while isinstance(target, (ir.Bits, ir.Bitcast)):
        target = target.base if isinstance(target, ir.Bits) else target.x
    return target


def _tests_only(nodes: list[object]) -> bool:
    """Whether lane masks and SCC are all that the program changes."""
    places = [_place(n.target) for n in nodes if isinstance(n, ir.Assign)]
    outside = [p for p in places if not isinstance(p, (ir.Local, ir.Element))]
    return all(isinstance(p, ir.LaneBit) or (isinstance(p, ir.Operand) and p.name == "SCC") for p in outside)


def _written(nodes: list[object]) -> Iterator[ir.Operand | ir.LaneBit]:
    for n in nodes:
        place = _place(n.target) if isinstance(n, ir.Assign) else None
        if isinstance(place, (ir.Operand, ir.LaneBit)):
            yield place


def _read_early(nodes: list[object], cached: frozenset[str]) -> tuple[tuple[str, int], ...]:
    """Sources that are read after something was written: the write might hit the same register, so read them first."""
    early: list[tuple[str, int]] = []
    wrote = False
    loops = any(isinstance(n, (ir.For, ir.While)) for n in nodes)
    for n in nodes:
        if isinstance(n, ir.Operand) and n.name in cached and (wrote or loops):
            early.append((n.name, n.type.bits))
        wrote = wrote or (isinstance(n, ir.Assign) and isinstance(_place(n.target), _REGISTERS))
    return tuple(dict.fromkeys(early))


@functools.cache
def compile_program(program: ir.Program, *, flush: bool | None = None) -> Evaluator:
    """Turn a program into closures; cached.

    ``flush``: operands of float type are seen with their denormals flushed as MODE says (see
    :mod:`~mockgpu.pcode.oracle_expr`). None means: unless the program's only results are truth values. Comparisons
    flush what they compare in any case, and V_CMP_CLASS is there to see denormals.

    Raises :class:`CompileError`, UnknownBuiltinError or NumericError for IR that means nothing.
    """
    return Evaluator(program, flush)


__all__ = [
    "CompileError", "Context", "Evaluator", "LoopLimitError", "OracleError", "Step", "compile_program",
]  # fmt: skip
