"""Collects and prints what ``mockgpu info`` tells."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from mockgpu import __version__, compiler, settings, target
from mockgpu.isa.errors import MockGPUError
from mockgpu.machine.engine import describe_engine

PACKAGES = ("tinygrad", "numpy", "lark", "llvmlite", compiler.WHEEL)


def collect(environ: Mapping[str, str]) -> dict[str, Any]:
    """The facts as plain data; whatever stands in the way of a run is listed in ``problems``.

    The settings in ``environ`` must be valid.
    """
    values = settings.read(environ)
    facts: dict[str, Any] = {"version": __version__, "problems": []}
    try:
        plan = target.plan(environ.get("DEV", ""), values.arch)
        facts["emulated"] = {"DEV": plan.dev, "arch": plan.arch, "devices": values.devices, "engine": values.engine}
        facts["engine"] = describe_engine(values.engine)
        facts["compiler"] = str(compiler.choose(plan.arch, dict(environ)))
    except MockGPUError as e:
        facts["problems"].append(str(e))
    facts["caches"] = {
        "compilers that proved themselves": compiler.cache_folder(),
        "kernels (tinygrad)": _kernel_cache(environ),
    }
    facts["versions"] = {"python": platform.python_version(), **{p: _package_version(p) for p in PACKAGES}}
    facts["settings"] = {s.name: environ.get(s.name) or s.default for s in settings.TABLE}
    facts["python"] = sys.executable
    return facts


def _package_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _kernel_cache(environ: Mapping[str, str]) -> str:
    """Where tinygrad keeps compiled kernels (``CACHEDB``, ``XDG_CACHE_HOME`` in tinygrad/helpers.py)."""
    folder = os.path.join(environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "tinygrad")
    return environ.get("CACHEDB", os.path.join(folder, "cache.db"))


def show(facts: dict[str, Any]) -> None:
    """Print the facts, one a line. Nothing is cut: a line may be longer than the terminal is wide."""
    from rich.console import Console
    from rich.markup import escape

    console, width = Console(soft_wrap=True, highlight=False), max(map(len, facts)) + 2
    for name, value in facts.items():
        rows = (
            value.items()
            if isinstance(value, dict)
            else [("", v) for v in (value if isinstance(value, list) else [value])]
        )
        for i, (key, text) in enumerate(rows):
            shown = escape(f"{key}: {text}" if key else str(text))
            title = f"{name if i == 0 else '':{width}}"
            console.print(f"[bold]{title}[/]" + (f"[red]{shown}[/]" if name == "problems" else shown))
