"""The command line's view of what is kept between runs: ``mockgpu cache info`` and ``mockgpu cache clear``."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Annotated, Any

import typer

from mockgpu.isa import table_cache

cache = typer.Typer(no_args_is_help=True, help="What is kept on disk between runs.")


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.add_typer(cache, name="cache")


@cache.command()
def info(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show where the cache is, its size, and how many handlers and tables are in it."""
    facts = collect()
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    print(f"{'folder':10} {facts['folder']}")
    print(f"{'size':10} {_readable(facts['bytes'])} in {facts['files']} files")
    versions = "; ".join(f"{count} for {name}" for name, count in facts["handlers_of"].items())
    print(f"{'handlers':10} {facts['handlers']}{f' ({versions})' if versions else ''}")
    print(f"{'tables':10} {facts['tables']}")


@cache.command()
def clear() -> None:
    """Empty the cache. Processes that run keep what they have loaded."""
    before = collect()
    failed: list[str] = []
    folder = table_cache.user_folder()
    for name in _names(folder):
        _remove(os.path.join(folder, name), failed)
    for message in failed:
        print(f"mockgpu: {message}", file=sys.stderr)
    gone = before["bytes"] - collect()["bytes"]
    print(f"removed {_readable(gone)} from {folder}")
    if failed:
        raise typer.Exit(1)


def collect() -> dict[str, Any]:
    """The facts as plain data. ``handlers_of`` counts by version of what the handlers were made with."""
    from mockgpu.machine.native import cache_folder

    folder, size, files = table_cache.user_folder(), 0, 0
    for place, _, names in os.walk(folder):
        files += len(names)
        size += sum(_size(os.path.join(place, name)) for name in names)
    handlers = {
        os.path.basename(path): _handlers(path) for path in cache_folder.namespaces(cache_folder.cache_folder())
    }
    tables = [name for name in _names(table_cache.cache_folder()) if name.endswith(".pickle")]
    return {
        "folder": folder,
        "bytes": size,
        "files": files,
        "handlers": sum(handlers.values()),
        "handlers_of": handlers,
        "tables": len(tables),
    }


def _handlers(namespace: str) -> int:
    """The handlers of a namespace, those that two files have once."""
    from mockgpu.machine.native.cache_folder import PackFolder
    from mockgpu.machine.native.cache_pack import REFUSED

    packs = PackFolder(*os.path.split(namespace)).readable()
    return len({entry.digest for pack in packs for entry in pack.entries() if entry.image != REFUSED})


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _remove(path: str, failed: list[str]) -> None:
    """Remove a file or a folder; what cannot be removed is named in ``failed``."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        return  # somebody else has
    except OSError as error:
        failed.append(f"{error.filename or path}: {error.strerror}")


def _readable(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
