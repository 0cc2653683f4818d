"""What is emulated and what was executed, as the pytest plugin and the command line show it."""

from __future__ import annotations

import sys

from mockgpu.state import state


def headline() -> str:
    """Device, architecture, engine and compiler in one line. Raises what configuring raises."""
    now = state()
    count = f"{now.values.devices} x AMD {now.plan.arch}"
    return f"{count}, engine {now.values.engine}, compiler {now.verdict or 'not needed'}"


def executed() -> dict[str, int]:
    """What this process executed so far: ``kernels``, ``wave_instructions`` and ``faults``."""
    kfd = sys.modules.get("mockgpu.drivers.kfd")
    if kfd is None:  # no device was opened
        return {"kernels": 0, "wave_instructions": 0, "faults": 0}
    done = kfd.statistics()
    return {"kernels": done.kernels, "wave_instructions": done.instructions, "faults": done.faults}
