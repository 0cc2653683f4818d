"""Every matrix instruction among the instruction vectors in ``../shared`` gives the expected registers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mockgpu.isa.arch import get_arch
from mockgpu.isa.decode import decode
from mockgpu.machine import matrix
from mockgpu.machine.matrix_ops import is_matrix_name, matrix_op

VECTORS = Path(__file__).parents[3] / "shared" / "vectors" / "matrix_and_conversions.jsonl"
VGPR0 = 256  # encoding of v0 as a source

if not VECTORS.exists():
    pytest.skip(f"instruction vectors are absent ({VECTORS})", allow_module_level=True)


@cache
def rows() -> dict[str, dict[str, Any]]:
    every = (json.loads(line) for line in VECTORS.read_text().splitlines())
    return {row["id"]: row for row in every if is_matrix_name(row["op"])}


def registers(row: dict[str, Any], first: int, count: int) -> np.ndarray:
    """Initial VGPRs as (count, one wave, lanes); those that the row does not give are zero."""
    zero = "0" * 8 * row["wave"]
    texts = (row["init"]["v"].get(str(first + n), zero) for n in range(count))
    words = [[int(text[8 * lane : 8 * lane + 8], 16) for lane in range(row["wave"])] for text in texts]
    return np.array(words, np.uint32).reshape(count, 1, row["wave"])


def run(row: dict[str, Any]) -> tuple[int, np.ndarray]:
    """The first destination register and the destination, (registers, lanes)."""
    instruction = decode(get_arch(row["gfx"]), bytes.fromhex(row["code"]))
    name, fields = instruction.opcode.name, instruction.fields
    op = matrix_op(row["gfx"], name)
    modifiers = matrix.modifiers_of(op, fields)
    counts = matrix.register_counts(row["gfx"], name, row["wave"], modifiers)
    a = registers(row, fields["src0"] - VGPR0, counts.a)
    b = registers(row, fields["src1"] - VGPR0, counts.b)
    c_first = fields["vdst"] if op.accumulates_in_place else fields["src2"] - VGPR0
    index = registers(row, fields["src2"] - VGPR0, 1)[0] if op.sparse else None
    scales = None
    if op.scaled:
        left, right = (registers(row, fields[f"scale_src{n}"] - VGPR0, 1)[0] for n in (0, 1))
        scales = left, right
    out = matrix.execute(
        name, row["gfx"], row["wave"], a, b, registers(row, c_first, counts.cd), index, scales, modifiers
    )
    return fields["vdst"], out[:, 0]


def wrong(row: dict[str, Any], first: int, out: np.ndarray) -> list[str]:
    """Differences from what the row asserts, readable."""
    problems = []
    for lane, values in row["expect"]["v"].items():
        for register, text in values.items():
            mask = int(row.get("mask", {}).get("v", {}).get(lane, {}).get(register, "0xffffffff"), 16)
            got = int(out[int(register) - first, int(lane)])
            if (got ^ int(text, 16)) & mask:
                problems.append(f"v{register} lane {lane}: {got:#010x}, expected {text} under {mask:#010x}")
    return problems


@pytest.mark.parametrize("name", sorted(rows()))
def test_row(name: str) -> None:
    row = rows()[name]
    problems = wrong(row, *run(row))
    assert not problems, f"{row['op']} on {row['gfx']}: {len(problems)} wrong\n" + "\n".join(problems[:8])
