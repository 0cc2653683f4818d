"""How much of the manuals' pseudocode is understood, and why the rest is not: ``python -m mockgpu.pcode.report``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from mockgpu.pcode.parser import PcodeSyntaxError, parse
from mockgpu.pcode.prose import kind_of_prose
from mockgpu.pcode.text import FAMILIES, pcode_texts


@dataclass(frozen=True)
class Report:
    """Counts of opcodes of one family. The mappings go from a reason to the opcodes it holds for."""

    family: str
    total: int
    unparsed: dict[str, list[str]]

    @property
    def parsed(self) -> int:
        return self.total - sum(map(len, self.unparsed.values()))


def report(family: str) -> Report:
    """Try every text of ``family``."""
    texts = pcode_texts(family)
    reasons: dict[str, str | None] = {}
    unparsed: dict[str, list[str]] = defaultdict(list)
    for (table, name), text in texts.items():
        if text not in reasons:
            reasons[text] = _reason(text)
        reason = reasons[text]
        if reason is not None:
            unparsed[reason].append(f"{table}.{name}")
    return Report(family, len(texts), dict(unparsed))


def _reason(text: str) -> str | None:
    try:
        parse(text)
    except PcodeSyntaxError:
        return kind_of_prose(text)
    return None


def main() -> None:
    """Print the report of all families."""
    for family in FAMILIES:
        result = report(family)
        print(f"{family}: {result.parsed} of {result.total} texts parse ({result.parsed / result.total:.2%})")
        for reason, names in sorted(result.unparsed.items()):
            print(f"  {reason} ({len(names)}): {', '.join(names)}")


if __name__ == "__main__":
    main()
