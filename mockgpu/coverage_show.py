"""The coverage as tables on a terminal, and as the page ``docs/coverage.md``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mockgpu.coverage import KINDS, Coverage, assumption
from mockgpu.machine.provenance import Provenance

_HEADINGS = ("opcodes", "decoded", *KINDS)
_MEANINGS = """\
- **pcode**: executed by AMD's pseudocode as corrected by the errata table.
- **written**: the manuals have prose only, or concern the wave as a whole; executed by the rule of ours that is named.
- **approximate**: executed, but the last bits of hardware's result may differ within the bound that is given.
- **unsupported**: raises an illegal-instruction fault that names the instruction and the reason.
"""


def _rule(p: Provenance) -> str:
    rule = f"{p.rule}: {p.section}" if p.section else p.rule
    return f"{rule}; stops the kernel: {p.reason}" if p.reason else rule


def _groups(result: Coverage) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    yield "Written by us", result.grouped("written", _rule)
    yield "Approximate", result.grouped("approximate", lambda p: p.bound)
    yield "Unsupported", result.grouped("unsupported", lambda p: p.reason)


def _numbers(counts: dict[str, int]) -> list[str]:
    return [str(counts[heading]) for heading in _HEADINGS]


def _rows(result: Coverage) -> Iterator[list[str]]:
    """A row of text for every format, and one for all."""
    for form in result.formats:
        yield [form, *_numbers(result.counts(form))]
    yield ["all", *_numbers(result.counts())]


# -- terminal ---------------------------------------------------------------------------------------------------------


def show(results: Sequence[Coverage]) -> None:
    """Print tables and lists to stdout; plain text when it is no terminal."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    for result in results:
        title = f"{result.arch}: {result.executed:.1%} of {len(result.entries)} opcodes are executed"
        table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
        table.add_column("format")
        for heading in _HEADINGS:
            table.add_column(heading, justify="right")
        for row in _rows(result):
            table.add_row(*row, style="bold" if row[0] == "all" else None)
        console.print(table)
        console.print(f"\n{assumption(result)}", markup=False)
        for name, groups in _groups(result):
            console.print(f"\n[bold]{name}[/]" if groups else "", end="\n" if groups else "")
            for text, mnemonics in groups:
                console.print(f"  {text} ({len(mnemonics)}): {', '.join(mnemonics)}", markup=False)
        console.print()


# -- the page ---------------------------------------------------------------------------------------------------------


def markdown(results: Sequence[Coverage]) -> str:
    """The page for the documentation."""
    parts = [
        "# Instruction coverage",
        "Written by `mockgpu isa coverage --markdown`, which takes one instruction of every opcode, decodes it, asks\n"
        "the engine what executes it, and executes it once. Do not edit.",
        _MEANINGS.rstrip(),
        _table(["target", *_HEADINGS, "executed"], map(_summary, results)),
        *(_target(result, results) for result in results),
    ]
    return "\n\n".join(parts) + "\n"


def _summary(result: Coverage) -> list[str]:
    return [result.arch, *_numbers(result.counts()), f"{result.executed:.1%}"]


def _table(headings: list[str], rows: Iterator[list[str]] | map[list[str]]) -> str:
    rule = ["---", *("---:" for _ in headings[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, rule, *rows))


def _target(result: Coverage, results: Sequence[Coverage]) -> str:
    parts = [f"## {result.arch}", assumption(result)]
    twin = next(r for r in results if r.entries == result.entries)
    if twin is not result:
        return "\n\n".join([*parts, f"All numbers are those of {twin.arch}."])
    parts.append(_table(["format", *_HEADINGS], _rows(result)))
    for name, groups in _groups(result):
        if groups:
            lines = [f"- {text} ({len(names)}): {', '.join(f'`{n}`' for n in names)}" for text, names in groups]
            parts += [f"### {name}", "\n".join(lines)]
    return "\n\n".join(parts)
