"""The pytest plugin: one line at the start, what is emulated; one at the end, what was executed.

Without MOCKGPU in the environment it does nothing. Under xdist the workers' numbers travel in ``workeroutput`` and are
added up; processes that tests start on their own are not counted.
"""

from __future__ import annotations

from typing import Any

import pytest

from mockgpu import activation

KEY = "mockgpu"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


class Totals:
    """What was executed, in this process or in the workers that reported."""

    def __init__(self) -> None:
        self.kernels = self.wave_instructions = self.faults = self.lost_workers = 0

    def add(self, numbers: dict[str, int]) -> None:
        self.kernels += numbers["kernels"]
        self.wave_instructions += numbers["wave_instructions"]
        self.faults += numbers["faults"]

    def __str__(self) -> str:
        lost = f" ({_counted(self.lost_workers, 'worker')} ended without a report)" if self.lost_workers else ""
        numbers = ((self.kernels, "kernel"), (self.wave_instructions, "wave-instruction"), (self.faults, "fault"))
        return ", ".join(_counted(n, thing) for n, thing in numbers) + lost


class Plugin:
    """Registered in the controller and in the workers alike."""

    def __init__(self) -> None:
        self.totals = Totals()

    def pytest_report_header(self) -> str:
        from mockgpu import status

        return f"mockgpu: {status.headline()}"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        from mockgpu import status

        numbers = status.executed()
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[KEY] = numbers
        self.totals.add(numbers)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(f"mockgpu: {self.totals}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        numbers = getattr(node, "workeroutput", {}).get(KEY)
        if numbers is None:
            self.totals.lost_workers += 1
        else:
            self.totals.add(numbers)


def pytest_configure(config: pytest.Config) -> None:
    if not activation.is_on():
        return
    from mockgpu.isa.errors import MockGPUError
    from mockgpu.state import state

    try:
        activation.activate()
        state()
    except (MockGPUError, RuntimeError) as e:
        raise pytest.UsageError(f"mockgpu: {e}") from None
    config.pluginmanager.register(Plugin(), "mockgpu-report")
