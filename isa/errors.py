"""The root of every error that mockgpu raises, and the errors of the instruction-set floor."""

from __future__ import annotations

from collections.abc import Iterable


class MockGPUError(Exception):
    """Base class of every error raised by mockgpu."""


class ConfigError(MockGPUError, ValueError):
    """A setting (environment variable, command-line option) has a value that is not understood."""

    def __init__(self, name: str, value: object, allowed: Iterable[object]):
        self.name, self.value, self.allowed = name, value, tuple(str(a) for a in allowed)
        super().__init__(f"{name}={value!r} is not understood; good values are: {', '.join(self.allowed)}")


class UnknownArchError(ConfigError):
    """The named architecture has no record."""


class DecodeError(MockGPUError):
    """Bytes that are not an instruction.

    ``offset`` is the byte offset (or address) of the instruction, ``word`` the first dword as an int.
    """

    def __init__(self, reason: str, *, offset: int, word: int | None = None, arch: str = ""):
        self.reason, self.offset, self.word, self.arch = reason, offset, word, arch
        at = f" at offset {offset:#x}"
        shown = f" (first dword {word:#010x})" if word is not None else ""
        super().__init__(f"{arch + ': ' if arch else ''}{reason}{at}{shown}")


class NoSemanticsError(MockGPUError):
    """An instruction that decodes but has no semantics here. ``mnemonic`` and ``reason`` say which and why."""

    def __init__(self, mnemonic: str, reason: str, arch: str = ""):
        self.mnemonic, self.reason, self.arch = mnemonic, reason, arch
        super().__init__(f"{mnemonic}{' on ' + arch if arch else ''}: no semantics ({reason})")
