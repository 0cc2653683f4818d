"""The command line's view of fidelity: ``mockgpu isa coverage``, ``mockgpu isa show`` and ``mockgpu vectors run``."""

from __future__ import annotations

import json
import sys
from typing import Annotated, NoReturn

import typer

from mockgpu import settings
from mockgpu.isa.arch import arch_names, get_arch
from mockgpu.isa.errors import MockGPUError

isa = typer.Typer(no_args_is_help=True, help="What is known of the instruction sets.")
vectors = typer.Typer(no_args_is_help=True, help="Instruction vectors: programs with known results.")

_ARCH_HELP = f"The target: {', '.join(arch_names())}."
_HOSTS = (*settings.HOST_LEVELS, "aarch64")
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.add_typer(isa, name="isa")
    app.add_typer(vectors, name="vectors")


def _fail(message: object) -> NoReturn:
    print(f"mockgpu: {message}", file=sys.stderr)
    raise typer.Exit(2)


@isa.command()
def coverage(
    arch: Annotated[list[str] | None, typer.Option(help=f"{_ARCH_HELP} All by default.", metavar="ARCH")] = None,
    as_json: _Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/coverage.md.")] = False,
) -> None:
    """Show for every format how many opcodes are decoded and executed, and by what."""
    from mockgpu import coverage as collect
    from mockgpu import coverage_show

    try:
        results = collect.coverages(arch or ())
    except MockGPUError as error:
        _fail(error)
    if as_json:
        print(json.dumps([result.data() for result in results], indent=1))
    elif markdown:
        print(coverage_show.markdown(results), end="")
    else:
        coverage_show.show(results)


@isa.command()
def show(
    name: Annotated[str, typer.Argument(help="An assembly name such as v_div_fmas_f32.", metavar="NAME")],
    arch: Annotated[str, typer.Option(help=_ARCH_HELP, metavar="ARCH")] = "gfx1100",
    as_json: _Json = False,
    host: Annotated[
        bool, typer.Option("--host", help="Show the host code that the native engine runs for it.")
    ] = False,
    level: Annotated[
        str | None, typer.Option(help=f"With --host, the host: {', '.join(_HOSTS)}.", metavar="LEVEL")
    ] = None,
    wave64: Annotated[bool, typer.Option("--wave64", help="With --host, waves of 64 lanes (RDNA).")] = False,
) -> None:
    """Show all that is known of one instruction: encodings, operands, pseudocode, errata, and an executed example."""
    from mockgpu import instruction_page, instruction_show

    if host:
        _show_host(name, arch, level or _HOSTS[0], wave64, as_json)
        return
    if level is not None or wave64:
        _fail("--level and --wave64 go with --host")
    try:
        page = instruction_page.page(name, get_arch(arch))
    except MockGPUError as error:
        _fail(error)
    if as_json:
        print(json.dumps(page.data(), indent=1))
    else:
        instruction_show.show(page)


def _show_host(name: str, arch: str, level: str, wave64: bool, as_json: bool) -> None:
    from mockgpu import instruction_host

    try:
        target = get_arch(arch)
        lanes = 64 if wave64 or not target.wave32 else 32
        forms = instruction_host.host_forms(name, target, level, lanes)
    except MockGPUError as error:
        _fail(error)
    if as_json:
        print(json.dumps([form.data() for form in forms], indent=1))
    else:
        print("\n".join(instruction_host.text(forms)), end="")


@vectors.command()
def run(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of vectors, one JSON object a line.")],
    engine: Annotated[str, typer.Option(help="What executes them.", metavar="ENGINE")] = "oracle",
    only: Annotated[str | None, typer.Option(help="Run those whose id matches.", metavar="GLOB")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes.", min=1, metavar="N")] = 1,
    as_json: _Json = False,
) -> None:
    """Run vectors; the exit status is 0 only if none failed. The format is described in docs/vectors.md."""
    from mockgpu import vector_run

    try:
        rows = vector_run.choose((row for file in files for row in vector_run.read_rows(file)), only)
        results = list(vector_run.run_rows(rows, engine, jobs))
    except MockGPUError as error:
        _fail(error)
    if not results:
        _fail(f"no vector matches {only!r}" if only else "the files hold no vectors")
    print(json.dumps(vector_run.data(results), indent=1) if as_json else vector_run.report(results))
    if any(result.status == "failed" for result in results):
        raise typer.Exit(1)
