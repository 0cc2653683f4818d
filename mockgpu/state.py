"""What is in force in this process: settings, DEV, compiler."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass

from mockgpu import compiler, settings, target


@dataclass
class State:
    """``verdict`` is None as long as no compiler was asked for."""

    values: settings.Values
    plan: target.Plan
    verdict: compiler.Verdict | None = None


_state: State | None = None


def configure() -> None:
    """Validate the settings, rewrite DEV, find the compiler. Raises ConfigError or NoCompilerError."""
    global _state
    values = settings.read(os.environ)
    plan = target.plan(os.environ.get("DEV", ""), values.arch)
    verdict = compiler.choose(plan.arch, os.environ) if plan.needs_llvm else None
    _state = State(values, plan, verdict)
    os.environ["DEV"] = plan.dev
    log_to_stderr(values.log)


def state() -> State:
    """What ``configure`` found; configures when tinygrad was not imported yet."""
    if _state is None:
        configure()
    assert _state is not None
    return _state


class StandardError(logging.Handler):
    """Writes to what is standard error at that moment: test runners put other files in its place, and close them."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


def log_to_stderr(level: str) -> None:
    """Show what the loggers below ``mockgpu`` say, from ``level`` (one of settings.LOG_LEVELS) on."""
    log = logging.getLogger("mockgpu")
    log.setLevel(logging.CRITICAL + 1 if level == "off" else level.upper())
    if not log.handlers:
        handler = StandardError()
        handler.setFormatter(logging.Formatter("mockgpu: %(message)s"))
        log.addHandler(handler)


def open_system() -> None:
    """Have the drivers emulate what the settings say, from the first file that is opened on."""
    from mockgpu.drivers import kfd
    from mockgpu.drivers.settings import Settings

    now = state()
    v = now.values
    kfd.open_system(
        Settings(
            now.plan.arch, v.devices, v.vram,
            engine=v.engine, timeout=v.timeout, clock=v.clock, host_level=v.host_level,
        )
    )  # fmt: skip
