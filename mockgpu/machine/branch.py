"""Steps that may write PC."""

from __future__ import annotations

from mockgpu.machine.context import Context
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Group
from mockgpu.pcode.oracle import Evaluator


def evaluate(ctx: Context, evaluator: Evaluator, g: Group) -> None:
    """Evaluate a program on a group."""
    ctx.begin(g)
    evaluator.run_inside(ctx)


def branch(ctx: Context, evaluator: Evaluator, size: int) -> Step:
    """A step that may write PC: waves that do not write it go on behind the instruction."""

    def run(g: Group) -> None:
        g.batch.pc[g.index] = g.pc + size
        g.moved = True
        evaluate(ctx, evaluator, g)

    return Step(run, "branch", ends=True)
