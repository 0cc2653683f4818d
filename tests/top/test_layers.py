"""What the import linter cannot see: which parts of tinygrad the floors import, and when."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mockgpu

HOME = Path(mockgpu.__file__).parent
FLOORS = {
    name: next(p for p in (HOME / name, HOME.parent / name) if p.is_dir())
    for name in ("isa", "pcode", "sqtt", "machine", "drivers")
}
FILES = [f for folder in FLOORS.values() for f in sorted(folder.rglob("*.py"))]


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{a.name}" for a in node.names]
    return []


@pytest.mark.parametrize("file", FILES, ids=lambda f: f"{f.parent.name}/{f.name}")
def test_below_the_top_floor_only_generated_tables_of_tinygrad_are_imported_and_never_at_import(file: Path) -> None:
    tree = ast.parse(file.read_text())
    late = {n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.walk(f)}
    typing_only = {
        n
        for i in ast.walk(tree)
        if isinstance(i, ast.If) and ast.unparse(i.test).endswith("TYPE_CHECKING")
        for n in ast.walk(i)
    }
    for node in ast.walk(tree):
        for name in imported(node):
            if name.split(".")[0] == "tinygrad":
                assert name.startswith("tinygrad.runtime.autogen"), f"{file}:{node.lineno} imports {name}"  # type: ignore[attr-defined]
                assert node in late | typing_only, f"{file}:{node.lineno} imports {name} too early"  # type: ignore[attr-defined]


def test_importing_the_package_loads_neither_numpy_nor_tinygrad() -> None:
    code = (
        "import sys, mockgpu, mockgpu.activation, mockgpu.isa; print('numpy' in sys.modules, 'tinygrad' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=HOME.parent, timeout=60)
    assert out.stdout == "False False\n", out.stderr
