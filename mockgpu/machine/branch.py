"""Steps that may write PC or MODE."""

from __future__ import annotations

from mockgpu.machine.context import Context
from mockgpu.machine.semantics import writes_mode
from mockgpu.machine.step import Run, Step
from mockgpu.machine.waves import Group
from mockgpu.pcode.oracle import Evaluator


def evaluate(ctx: Context, evaluator: Evaluator, g: Group) -> None:
    """Evaluate a program on a group."""
    ctx.begin(g)
    evaluator.run_inside(ctx)


def changing(ctx: Context, evaluator: Evaluator) -> Run:
    """Evaluate a program that may change MODE: the waves may no longer belong together afterwards."""

    def run(g: Group) -> None:
        evaluate(ctx, evaluator, g)
        g.changed = True

    return run


def branch(ctx: Context, evaluator: Evaluator, size: int) -> Step:
    """A step that may write PC: waves that do not write it go on behind the instruction."""
    modes = writes_mode(evaluator.program)

    def run(g: Group) -> None:
        g.batch.pc[g.index] = g.pc + size
        g.moved = True
        evaluate(ctx, evaluator, g)
        g.changed |= modes

    return Step(run, "branch", ends=True)
