"""The page of an instruction on a terminal; plain text where the output is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mockgpu.instruction_example import Value
from mockgpu.instruction_page import Form, Layout, Page
from mockgpu.machine.provenance import Provenance


def show(page: Page) -> None:
    """Print the page to stdout."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    for text, style in lines(page):
        console.print(f"[{style}]{escape(text)}[/]" if style else escape(text))


def lines(page: Page) -> Iterator[tuple[str, str]]:
    """The lines of the page with their styles."""
    yield f"{page.mnemonic} on {page.arch}", "bold"
    for form in page.forms:
        yield "", ""
        yield f"{form.table} {form.opcode}: {form.text}", "bold cyan"
        yield f"  bytes    {form.code}", ""
        yield from ((f"  {line}", "") for line in _form(form))
    yield from _block("Pseudocode", page.pcode or "The manual gives none.")
    if page.document and page.document != page.pcode:
        yield from _block("Pseudocode in the manual", page.document)
    yield from _errata(page)
    if page.example is not None:
        yield from _block("Example", "\n".join(_example(page)))


def _block(title: str, text: str) -> Iterator[tuple[str, str]]:
    yield "", ""
    yield title, "bold"
    yield from ((f"  {line}", "") for line in text.splitlines())


def _form(form: Form) -> Iterator[str]:
    yield from (f"layout   {_layout(layout)}" for layout in form.layouts)
    width = max((len(o.field) for o in form.operands), default=0)
    for o in form.operands:
        yield f"operand  {o.field:{width}}  {o.bits} bits, {o.format}, {o.access}: {o.names}"
    for title, names in (("reads", form.reads), ("writes", form.writes)):
        if names:
            yield f"also {title} {', '.join(names)}"
    yield f"executed {provenance(form.provenance)}"


def _layout(layout: Layout) -> str:
    fields = [_field(*field) for field in layout.fields]
    return f"{layout.name}, {layout.bits} bits: {' '.join(fields)}"


def _field(name: str, hi: int, lo: int, fixed: int | None) -> str:
    place = f"[{hi}:{lo}]" if hi > lo else f"[{hi}]"
    return f"{name}{place}" + (f"={fixed:#x}" if fixed is not None else "")


def provenance(p: Provenance) -> str:
    """One line that says what executes an instruction."""
    by = f"by {p.rule}" + (f" ({p.section})" if p.section else "") if p.rule else "by the pseudocode"
    if p.kind == "unsupported":
        return f"not at all: {p.reason}"
    if p.reason:
        return f"{by}; it stops the kernel: {p.reason}"
    return f"{by}, approximately: {p.bound}" if p.kind == "approximate" else by


def _errata(page: Page) -> Iterator[tuple[str, str]]:
    for row in page.errata:
        text = f"the document: {row.document}\nhardware: {row.hardware}\nevidence: {row.evidence}"
        yield from _block(f"Erratum {row.id} ({row.kind})", text)


def _example(page: Page) -> Iterator[str]:
    if page.example is None:
        return
    yield from (f"{line}" for line in _values(page.example.before))
    yield page.example.text
    yield from (f"{line}" for line in _values(page.example.after))


def _values(values: Iterable[Value]) -> Iterator[str]:
    for value in values:
        yield f"  {value.register} = {', '.join(value.values)}"
