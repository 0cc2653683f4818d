"""The error of the assembler."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from mockgpu.isa.errors import MockGPUError


class AsmError(MockGPUError, ValueError):
    """Assembly text that is not understood or cannot be encoded.

    ``line`` and ``column`` count from 1; ``source`` is the line's text. Zero means that the place is not known yet.
    """

    def __init__(self, reason: str, *, line: int = 0, column: int = 0, source: str = ""):
        self.reason, self.line, self.column, self.source = reason, line, column, source
        super().__init__(reason)

    def __str__(self) -> str:
        if not self.line:
            return self.reason
        text = f"line {self.line}, column {self.column}: {self.reason}"
        return f"{text}\n    {self.source}\n    {' ' * (self.column - 1)}^" if self.source else text

    def placed(self, line: int, source: str) -> AsmError:
        """The same error at a line of a file."""
        return AsmError(self.reason, line=line, column=self.column or 1, source=source)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean a, b?`` for the closest known words, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=3, cutoff=0.7)
    return f"; did you mean {', '.join(close)}?" if close else ""
