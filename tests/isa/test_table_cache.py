"""The tables on disk: a warm process needs no generated tables, and no state of the cache changes what is decoded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mockgpu

PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.DEBUG, format="note: %(message)s", stream=sys.stdout)
from mockgpu.isa.arch import get_arch
from mockgpu.isa.decode import decode
from mockgpu.isa.opcode import dual_opcodes, opcodes
for name, code in (("gfx1100", "0207247c"), ("gfx1100", "020706c8f40a0401"), ("gfx1201", "0203027e"),
                   ("gfx942", "0400a2d001050200"), ("gfx950", "0080b7d300090204")):
    arch = get_arch(name)
    found = decode(arch, bytes.fromhex(code))
    known = opcodes(arch.tables).get((found.opcode.table, found.opcode.name))
    duals = dual_opcodes(arch.tables).get(found.opcode.value, ())
    print(name, found.text, found.reads == decode(arch, bytes.fromhex(code)).reads,
          found.opcode is known or found.opcode in duals, found.layout.size)
print("tinygrad" in sys.modules)
"""


def start(cache: Path) -> subprocess.Popen[str]:
    root = Path(mockgpu.__file__).parent.parent
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MOCKGPU")}
    environment |= {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(root)}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, text=True, stdout=subprocess.PIPE)


def finish(process: subprocess.Popen[str]) -> tuple[list[str], list[str], bool]:
    """(what was decoded, what the cache said, whether the generated tables were imported)."""
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    *lines, imported = text.splitlines()
    notes = [line for line in lines if line.startswith("note: ")]
    decoded = [line for line in lines if line.startswith("gfx")]
    return decoded, notes, imported == "True"


def run(cache: Path) -> tuple[list[str], list[str], bool]:
    return finish(start(cache))


def tables(cache: Path) -> list[Path]:
    return sorted((cache / "mockgpu" / "tables").iterdir())


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A filled cache and what the process that filled it decoded."""
    if sys.platform != "linux":
        pytest.skip("XDG_CACHE_HOME names the cache folder on Linux only")
    cache = tmp_path_factory.mktemp("cache")
    decoded, notes, imported = run(cache)
    assert imported and not notes
    return cache, decoded


def copy_of(cache: Path, place: Path) -> list[Path]:
    (place / "mockgpu" / "tables").mkdir(parents=True)
    for file in tables(cache):
        (place / "mockgpu" / "tables" / file.name).write_bytes(file.read_bytes())
    return tables(place)


def test_a_warm_process_decodes_without_the_generated_tables(warm):
    cache, decoded = warm
    assert all(" True True " in line for line in decoded) and len(decoded) == 5
    assert run(cache) == (decoded, [], False)


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: data[:-1] + b"x", lambda data: b""]
)
def test_damaged_files_are_written_again(warm, tmp_path, damage):
    cache, decoded = warm
    for file in copy_of(cache, tmp_path):
        file.write_bytes(damage(file.read_bytes()))
    again, notes, _ = run(tmp_path)
    assert again == decoded
    assert len(notes) == len(tables(cache)) and all("damaged" in note for note in notes)
    assert run(tmp_path) == (decoded, [], False)


def test_a_folder_that_cannot_be_made_costs_time_only(warm, tmp_path):
    _, decoded = warm
    (tmp_path / "file").write_text("not a folder")
    again, notes, imported = run(tmp_path / "file")
    assert again == decoded and imported
    assert notes and len(notes) == len(set(notes))


def test_processes_that_fill_the_cache_at_once_agree(warm, tmp_path):
    _, decoded = warm
    for process in [start(tmp_path) for _ in range(3)]:
        assert finish(process)[:2] == (decoded, [])
    assert all(file.suffix == ".pickle" for file in tables(tmp_path))
    assert run(tmp_path) == (decoded, [], False)
