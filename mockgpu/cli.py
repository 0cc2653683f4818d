"""The command line: ``mockgpu run``, ``mockgpu info`` and what other modules add."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Annotated, Any, NoReturn

import typer

from mockgpu import __version__, cli_cache, cli_fidelity, cli_isa, settings, target
from mockgpu.isa.errors import MockGPUError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Run GPU programs on an emulated GPU.")
Arch = Annotated[str | None, typer.Option(help=f"The GPU: {', '.join(settings.ARCHS)}.", metavar="ARCH")]
Devices = Annotated[str | None, typer.Option(help="Number of GPUs.", metavar="N")]
Engine = Annotated[
    str | None, typer.Option(help=f"What executes kernels: {', '.join(settings.ENGINES)}.", metavar="ENGINE")
]


def fail(message: object, status: int = 2) -> NoReturn:
    print(f"mockgpu: {message}", file=sys.stderr)
    raise typer.Exit(status)


def environment(arch: str | None, devices: str | None, engine: str | None) -> dict[str, str]:
    """The environment with mockgpu on and the options in force; ends the program when a value is bad."""
    options = {"MOCKGPU": "1", "MOCKGPU_ARCH": arch, "MOCKGPU_DEVICES": devices, "MOCKGPU_ENGINE": engine}
    environ = {**os.environ, **{k: v for k, v in options.items() if v is not None}}
    try:
        settings.read(environ)
    except MockGPUError as e:
        fail(e)
    return environ


def full_command(command: list[str], environ: dict[str, str]) -> list[str]:
    """The command to execute: a ``.py`` file, ``-c CODE`` and ``-m MODULE`` run with this Python.

    Any other command is searched in this Python's folder first.
    """
    if command[0].endswith(".py") or command[0] in ("-c", "-m"):
        return [sys.executable, *command]
    environ["PATH"] = os.pathsep.join(p for p in (os.path.dirname(sys.executable), environ.get("PATH", "")) if p)
    path = shutil.which(command[0], path=environ["PATH"])
    if path is None:
        fail(f"there is no command {command[0]!r}", 127)
    return [path, *command[1:]]


def print_version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Run GPU programs on an emulated GPU."""


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    command: Annotated[
        list[str], typer.Argument(help="script.py, -c CODE, -m MODULE, or any command, and its arguments.")
    ],
    arch: Arch = None,
    devices: Devices = None,
    engine: Engine = None,
) -> None:
    """Run a command with the emulated GPU:  mockgpu run [--arch A] -- script.py ARGS"""
    environ = environment(arch, devices, engine)
    try:
        target.plan(environ.get("DEV", ""), environ.get("MOCKGPU_ARCH") or None)
    except MockGPUError as e:
        fail(e)
    argv = full_command(command, environ)
    sys.stdout.flush()
    os.execve(argv[0], argv, environ)


@app.command()
def info(
    arch: Arch = None,
    devices: Devices = None,
    engine: Engine = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what would be emulated, the compiler that is found, cache folders, versions and settings."""
    from mockgpu import report

    facts = report.collect(environment(arch, devices, engine))
    if as_json:
        print(json.dumps(facts, indent=2))
    else:
        report.show(facts)
    if facts["problems"]:
        raise typer.Exit(1)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


cli_isa.register(app)
cli_fidelity.register(app)
cli_cache.register(app)


def main(*arguments: Any) -> None:
    app(*arguments)
