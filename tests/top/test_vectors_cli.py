"""``mockgpu vectors run`` on files of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mockgpu.cli import app
from mockgpu.isa.arch import get_arch
from mockgpu.isa.asm import assemble
from mockgpu.machine.vectors import Difference
from mockgpu.vector_run import marked


def vector(name: str, text: str, expect: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A row for gfx1100, harness A, one lane."""
    code = assemble(text, get_arch(fields.get("gfx", "gfx1100"))).code
    row = {"id": name, "arch": "rdna3", "lanes": 1, "wave": 32, "harness": "A", "code": code.hex(), "expect": expect}
    return row | fields


MOVE = vector("move-1", "v_mov_b32 v1, 1.0", {"v": {"0": {"1": "0x3f800000"}}})
SCALAR = vector("scalar-1", "s_add_u32 s1, -1, 1", {"s": {"1": "0x00000000"}, "scc": 1})
WRONG = vector(
    "wrong-1", "v_mov_b32 v1, 0x5678", {"v": {"0": {"1": "0x00005679"}}}, note="wrong on purpose", evidence="none"
)
GIVEN = vector(
    "given-1",
    "v_pk_add_f32 v[2:3], v[0:1], v[0:1]",
    {"v": {"0": {"2": "0x40000000"}, "1": {"3": "0xc0000000"}}},
    gfx="gfx942",
    harness="I",
    wave=64,
    lanes=2,
    init={"v": {"0": "3f8000003f800000", "1": "bf800000bf800000"}},
)
ABSENT = MOVE | {"id": "absent-1", "gfx": "gfx803"}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def to_file(*rows: dict[str, Any]) -> str:
        path = tmp_path / "own.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return str(path)

    return to_file


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["vectors", "run", *arguments])


def test_passing_vectors_end_with_0(write: Any) -> None:
    result = invoke(write(MOVE, SCALAR, GIVEN))
    assert (result.exit_code, result.stdout) == (0, "3 passed, 0 failed, 0 skipped\n")


def test_a_failure_is_shown_with_code_and_bits_and_ends_with_1(write: Any) -> None:
    file = write(MOVE, WRONG)
    result = invoke(file)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"FAILED wrong-1 (gfx1100, {file})",
        "  note: wrong on purpose",
        "  evidence: none",
        "    0000  v_mov_b32_e32 v1, 0x5678",
        "  lane 0 v1  expected 0x00005679",
        "             got      0x00005678",
        "                               ^  bits 0",
        "",
        "1 passed, 1 failed, 0 skipped",
    ]


def test_a_fault_is_a_failure(write: Any) -> None:
    row = vector("fault-1", "s_load_b32 s0, s[2:3], 0x0", {"s": {"0": "0x00000000"}})
    result = invoke(write(row))
    assert result.exit_code == 1 and "page fault: read at 0x0" in result.stdout
    assert "0 passed, 1 failed, 0 skipped" in result.stdout


def test_a_vector_of_another_target_is_skipped_with_a_reason(write: Any) -> None:
    result = invoke(write(MOVE, ABSENT))
    assert result.exit_code == 0
    assert "skipped 1: there is no target gfx803; there are gfx1100," in result.stdout
    assert "1 passed, 0 failed, 1 skipped" in result.stdout


def test_masks_ulps_and_classes_are_respected(write: Any) -> None:
    wrong = {"v": {"0": {"1": "0x00005679"}}}
    masked = WRONG | {"mask": {"v": {"0": {"1": "0xfffffffe"}}}}
    near = WRONG | {"ulp": 1}
    number = vector("number-1", "v_mov_b32 v1, 2.0", wrong, mask={"v": {"0": {"1": "0x00000000"}}})
    inside = number | {"approx": [{"where": [[["v", 0, 1], 0, 32]], "fmt": "f32", "value": 2.25, "tol": 0.5}]}
    outside = number | {"approx": [{"where": [[["v", 0, 1], 0, 32]], "fmt": "f32", "class": "nan"}]}
    assert invoke(write(masked, near, inside)).exit_code == 0
    result = invoke(write(outside))
    assert result.exit_code == 1 and "lane 0 v1: 2.0 (f32) is not of class nan" in result.stdout


def test_only_chooses_by_id(write: Any) -> None:
    file = write(MOVE, WRONG, SCALAR)
    assert invoke(file, "--only", "*e-1").stdout == "1 passed, 0 failed, 0 skipped\n"
    none = invoke(file, "--only", "x*")
    assert none.exit_code == 2 and "no vector matches 'x*'" in none.output


def test_json_has_every_difference(write: Any) -> None:
    result = invoke(write(MOVE, WRONG, ABSENT), "--json", "--jobs", "2")
    facts = json.loads(result.stdout)
    assert result.exit_code == 1 and [facts[k] for k in ("passed", "failed", "skipped")] == [1, 1, 1]
    assert [v["status"] for v in facts["vectors"]] == ["passed", "failed", "skipped"]
    assert facts["vectors"][1]["differences"] == [
        {"register": "v/0/1", "seen": "0x00005678", "expected": "0x00005679", "mask": "0xffffffff", "check": ""}
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "own.jsonl:1: not JSON"),
        ('\n{"id": "x"}', "own.jsonl:2: a vector needs arch, lanes, wave, harness, code, expect"),
        ("7", "own.jsonl:1: a vector needs id, arch"),
        ("", "the files hold no vectors"),
    ],
)
def test_a_file_that_holds_no_vectors_ends_with_2(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(content)
    result = invoke(str(path))
    assert result.exit_code == 2 and message in result.output


def test_bad_arguments_end_with_2(write: Any) -> None:
    assert "No such file" in invoke("/nowhere.jsonl").output
    result = invoke(write(MOVE), "--engine", "x")
    assert result.exit_code == 2 and "good values are: auto, oracle" in result.output


def test_unasserted_bits_are_not_marked() -> None:
    difference = Difference(("s", "3"), 0xF0000001, 0x0, 0xFF)
    assert marked(difference) == [
        "s3  expected 0x00000000  (asserted: 0x000000ff)",
        "    got      0xf0000001",
        "                      ^  bits 0",
    ]
