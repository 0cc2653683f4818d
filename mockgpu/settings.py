"""Every environment variable that mockgpu reads, in one table, and the one function that reads them.

A bad value, or a name that starts with ``MOCKGPU_`` and is not in the table, raises ConfigError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mockgpu.isa.errors import ConfigError

#: The architectures that have a board in the drivers, which are not imported here because they are slow to import.
ARCHS = ("gfx1100", "gfx1201")
ENGINES = ("auto", "oracle", "threaded", "jit")
CLOCKS = ("work", "wall")
#: As in mockgpu.machine.native.host, which is imported only where another than the first is asked for.
HOST_LEVELS = ("native", "x86-64-v2", "x86-64-v3", "x86-64-v4")
LOG_LEVELS = ("off", "error", "warning", "info", "debug")
DEFAULT_ARCH = "gfx1100"
MIB, GIB = 1 << 20, 1 << 30
MIN_VRAM, MAX_VRAM = 256 * MIB, 1024 * GIB


class UnknownSettingError(ConfigError):
    """An environment variable that starts with ``MOCKGPU_`` and means nothing."""

    def __init__(self, name: str, value: object, allowed: Iterable[object]):
        super().__init__(name, value, allowed)
        near = did_you_mean(name, self.allowed)
        self.args = (f"{name} is not a setting of mockgpu{near} The settings are: {', '.join(self.allowed)}",)


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: ``parse`` turns the text into the value and raises ValueError; ``good`` lists the good values."""

    name: str
    meaning: str
    default: str
    good: tuple[str, ...]
    parse: Callable[[str], Any]

    def read(self, environ: Mapping[str, str]) -> Any:
        """The value in force; an empty variable counts as unset. Raises ConfigError."""
        text = environ.get(self.name, "") or self.default
        try:
            return self.parse(text)
        except ConfigError:
            raise
        except ValueError:
            raise ConfigError(self.name, text, self.good) from None


def _choice(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(text)
        return text

    return parse


def _digits(text: str) -> int:
    if not re.fullmatch(r"[0-9]+", text, re.ASCII):
        raise ValueError(text)
    return int(text)


def _between(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = _digits(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return parse


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 86400:  # also refuses nan
        raise ValueError(text)
    return value


def _host_level(text: str) -> str:
    """A level that this machine has. Raises ConfigError with those that it has."""
    if text in HOST_LEVELS[1:]:
        from mockgpu.machine.native.host import check_level

        check_level(text)
    return _choice(*HOST_LEVELS)(text)


def _size(text: str) -> int | None:
    if text == "board":
        return None
    number, unit = text[:-1], {"M": MIB, "G": GIB}.get(text[-1:].upper())
    if unit is None:
        raise ValueError(text)
    size = _digits(number) * unit
    if not MIN_VRAM <= size <= MAX_VRAM:
        raise ValueError(text)
    return size


TABLE = tuple(
    Setting(*row)
    for row in (
        ("MOCKGPU", "turns mockgpu on (1) or off (0, empty, unset)", "0", ("0", "1"), _choice("0", "1")),
        ("MOCKGPU_ARCH", "the emulated GPU, unless DEV names one", DEFAULT_ARCH, ARCHS, _choice(*ARCHS)),
        ("MOCKGPU_DEVICES", "number of emulated GPUs", "6", ("1 to 64",), _between(1, 64)),
        ("MOCKGPU_ENGINE", "what executes the kernels", "auto", ENGINES, _choice(*ENGINES)),
        (
            "MOCKGPU_HOST_LEVEL",
            "the CPU that native code is made for: this one, or a level of x86-64 that it has",
            HOST_LEVELS[0],
            HOST_LEVELS,
            _host_level,
        ),
        (
            "MOCKGPU_TIMEOUT",
            "seconds in which some wave of a batch of workgroups has to end",
            "60",
            ("a number above 0, up to 86400",),
            _seconds,
        ),
        (
            "MOCKGPU_VRAM",
            "memory of each GPU",
            "board",
            ("board (what the real card has)", "a size from 256M to 1024G, such as 512M or 24G"),
            _size,
        ),
        ("MOCKGPU_CLOCK", "what the clock of the GPU counts: its work, or time", "work", CLOCKS, _choice(*CLOCKS)),
        ("MOCKGPU_LOG", "how much is logged to stderr", "warning", LOG_LEVELS, _choice(*LOG_LEVELS)),
    )
)
NAMES = tuple(s.name for s in TABLE)


@dataclass(frozen=True, slots=True)
class Values:
    """The settings in force. ``timeout`` is in seconds, ``vram`` in bytes or None for the board's.

    ``arch`` is None when the user set none.
    """

    on: bool
    arch: str | None
    devices: int
    engine: str
    host_level: str
    timeout: float
    vram: int | None
    clock: str
    log: str


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """``; did you mean X?`` for the nearest of ``words``, or a full stop when none is near."""
    import difflib  # only on the way to an error

    near = difflib.get_close_matches(word, list(words), n=1)
    return f"; did you mean {near[0]}?" if near else "."


def read(environ: Mapping[str, str]) -> Values:
    """All settings of ``environ``. Raises ConfigError for a bad value and UnknownSettingError for an unknown name."""
    for name, value in environ.items():
        if name.startswith("MOCKGPU_") and name not in NAMES:
            raise UnknownSettingError(name, value, NAMES)
    v = {s.name: s.read(environ) for s in TABLE}
    return Values(
        on=v["MOCKGPU"] == "1",
        arch=v["MOCKGPU_ARCH"] if environ.get("MOCKGPU_ARCH") else None,
        devices=v["MOCKGPU_DEVICES"],
        engine=v["MOCKGPU_ENGINE"],
        host_level=v["MOCKGPU_HOST_LEVEL"],
        timeout=v["MOCKGPU_TIMEOUT"],
        vram=v["MOCKGPU_VRAM"],
        clock=v["MOCKGPU_CLOCK"],
        log=v["MOCKGPU_LOG"],
    )


def table_markdown() -> str:
    """The table as the README shows it."""
    rows = ["| Variable | Meaning | Default | Good values |", "| --- | --- | --- | --- |"]
    rows += [f"| `{s.name}` | {s.meaning} | `{s.default}` | {', '.join(s.good)} |" for s in TABLE]
    return "\n".join(rows)
