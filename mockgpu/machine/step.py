"""A decoded instruction as something that executes on a group of waves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.waves import Group

Run: TypeAlias = Callable[[Group], None]


@dataclass(slots=True)
class Step:
    """``run`` executes the instruction on a group, inside ``numeric.quiet_ieee``. ``kind`` is its class in statistics.

    ``ends``: the step ends a block, because it may write PC, MODE or the waves' state.
    """

    run: Run
    kind: str
    ends: bool = False
    instruction: Instruction | None = None


Builder: TypeAlias = Callable[[Instruction, int], Step]
