"""How much of the manuals' pseudocode is understood, and why the rest is not: ``python -m mockgpu.pcode.report``."""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import dataclass

from mockgpu.pcode.lower import NoSemanticsError, lower
from mockgpu.pcode.parser import PcodeSyntaxError, parse
from mockgpu.pcode.prose import kind_of_prose
from mockgpu.pcode.text import FAMILIES, pcode_texts


@dataclass(frozen=True)
class Report:
    """Counts of opcodes of one family.

    ``unparsed`` are the texts that are no pseudocode, ``unlowered`` those that parse but describe the engine's part:
    both go from a reason to the opcodes it holds for.
    """

    family: str
    total: int
    unparsed: dict[str, list[str]]
    unlowered: dict[str, list[str]]

    @property
    def parsed(self) -> int:
        return self.total - sum(map(len, self.unparsed.values()))

    @property
    def lowered(self) -> int:
        return self.parsed - sum(map(len, self.unlowered.values()))


@functools.cache
def report(family: str) -> Report:
    """Try every text of ``family``. Raises ConfigError for an unknown family."""
    texts = pcode_texts(family)
    unparsed: dict[str, list[str]] = defaultdict(list)
    unlowered: dict[str, list[str]] = defaultdict(list)
    for (table, name), text in texts.items():
        if not _parses(text):
            unparsed[kind_of_prose(text)].append(f"{table}.{name}")
            continue
        try:
            lower(family, table, name)
        except NoSemanticsError as error:
            unlowered[error.reason].append(f"{table}.{name}")
    return Report(family, len(texts), dict(unparsed), dict(unlowered))


@functools.cache
def _parses(text: str) -> bool:
    try:
        parse(text)
    except PcodeSyntaxError:
        return False
    return True


def _lines(what: str, reasons: dict[str, list[str]]) -> list[str]:
    return [f"  {what}: {reason} ({len(names)}): {', '.join(names)}" for reason, names in sorted(reasons.items())]


def main() -> None:
    """Print the report of all families."""
    for family in FAMILIES:
        result = report(family)
        print(f"{family}: {result.parsed} of {result.total} texts parse ({result.parsed / result.total:.2%})")
        print(f"{family}: {result.lowered} of {result.total} texts lower ({result.lowered / result.total:.2%})")
        print("\n".join(_lines("no pseudocode", result.unparsed) + _lines("the engine's part", result.unlowered)))


if __name__ == "__main__":
    main()
