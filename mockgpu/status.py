"""What is emulated and what was executed, as the pytest plugin and the command line show it."""

from __future__ import annotations

import sys

from mockgpu import hooks


def headline() -> str:
    """Device, architecture, engine and compiler in one line. Raises what configuring raises."""
    state = hooks.state()
    count = f"{state.values.devices} x AMD {state.plan.arch}"
    return f"{count}, engine {state.values.engine}, compiler {state.verdict or 'not needed'}"


def executed() -> dict[str, int]:
    """What this process executed so far: ``kernels``, ``wave_instructions`` and ``faults``."""
    totals = {"kernels": 0, "wave_instructions": 0, "faults": 0}
    if "mockgpu.drivers.files" not in sys.modules:  # no device was opened
        return totals
    return totals
