"""The commands ``cache info`` and ``cache clear``."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mockgpu import compiler
from mockgpu.cli import app
from mockgpu.isa import table_cache
from mockgpu.machine.native import cache_folder
from mockgpu.machine.native.cache import Batch, HandlerCache
from mockgpu.machine.native.compile import compile_ir
from mockgpu.machine.native.host import target


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of mockgpu for this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return Path(table_cache.user_folder())


def fill(level: str = "native") -> None:
    """Two handlers, a refusal, in two packs, and a table."""
    text = "define i64 @f() {\n  ret i64 1\n}"
    cache = HandlerCache(level)
    cache.get(["one"], lambda keys: Batch(compile_ir(text, target(level)), {"one": "f"}))
    cache.get(["two", "none"], lambda keys: Batch(compile_ir(text, target(level)), {"two": "f"}, {"none": "no"}))
    table_cache.cached("numbers", "rdna3", lambda: [1, 2, 3])


def run(*args: str):
    return CliRunner().invoke(app, ["cache", *args])


def facts() -> dict:
    result = run("info", "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_an_empty_cache(folder: Path) -> None:
    assert facts() == {"folder": str(folder), "bytes": 0, "files": 0, "handlers": 0, "handlers_of": {}, "tables": 0}
    assert run("clear").exit_code == 0


def test_everything_is_counted(folder: Path) -> None:
    fill()
    found = facts()
    assert (found["handlers"], found["tables"], found["files"]) == (2, 1, 3)
    assert found["bytes"] == sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    assert list(found["handlers_of"].values()) == [2]
    shown = run("info").stdout
    assert str(folder) in shown and "handlers   2 (2 for native-" in shown and "tables     1" in shown


def test_damaged_packs_are_not_counted_and_stay(folder: Path) -> None:
    fill()
    path = min(Path(cache_folder.cache_folder()).glob("*/*.pack"))
    path.write_bytes(b"damaged")
    assert facts()["handlers"] == 1 and path.exists()


def test_clear_removes_everything_of_mockgpu_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    fill()
    other = tmp_path / "somebody else"
    other.write_text("keep")
    proved = Path(compiler.cache_folder())
    proved.mkdir(parents=True, exist_ok=True)
    (proved / "verdict").write_text("x")
    result = run("clear")
    assert result.exit_code == 0 and result.stdout.startswith("removed ")
    assert facts()["files"] == 0 and other.read_text() == "keep" and not (proved / "verdict").exists()


def test_a_cleared_cache_is_filled_again(folder: Path) -> None:
    fill()
    run("clear")
    fill()
    assert facts()["handlers"] == 2


def test_a_link_is_removed_and_not_followed(folder: Path, tmp_path: Path) -> None:
    target_folder = tmp_path / "elsewhere"
    target_folder.mkdir()
    (target_folder / "file").write_text("keep")
    folder.mkdir(parents=True)
    (folder / "native").symlink_to(target_folder)
    assert run("clear").exit_code == 0
    assert (target_folder / "file").exists() and not (folder / "native").is_symlink()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may remove everything")
def test_what_cannot_be_removed_is_named(folder: Path) -> None:
    fill()
    tables = folder / "tables"
    tables.chmod(0o500)
    try:
        result = run("clear")
        assert result.exit_code == 1 and "Permission denied" in result.stderr
    finally:
        tables.chmod(0o700)
