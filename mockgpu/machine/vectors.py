"""Runs instruction vectors: short straight programs with the state that hardware left behind.

The format is that of ``vectors/README.md`` beside the vectors: harness A (cleared registers, a zero-filled buffer),
B (nothing cleared, one register observed) and I (registers given).
"""

from __future__ import annotations

import ctypes
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mockgpu.isa.arch import get_arch
from mockgpu.isa.decode import decode_all
from mockgpu.isa.errors import DecodeError
from mockgpu.machine.memory import PAGE, Memory
from mockgpu.machine.operands import container
from mockgpu.machine.oracle_engine import OracleEngine
from mockgpu.machine.waves import EXEC, VCC, Batch
from mockgpu.pcode import numeric

_ARCHS = {"rdna3": ("gfx1100", "gfx1151"), "rdna4": ("gfx1201",), "cdna": ("gfx950",)}
HSA_MODE = 0xC0 | 1 << 8 | 1 << 9  # f32 denormals flushed, f16 and f64 kept, DX10_CLAMP, IEEE
_SCRATCH_PER_LANE = 65536
_OBSERVED = 16  # registers of each kind that harness A observes
_FORMATS = {"f16": numeric.F16, "bf16": numeric.BF16, "f32": numeric.F32, "f64": numeric.F64}


@dataclass(frozen=True, slots=True)
class Difference:
    """One check that failed. ``register`` is the path of the value in the row: v/lane/register, s/register, vcc, ...

    ``mask`` tells the bits that are asserted. ``check`` describes a check of tolerance or class and is empty for a
    comparison of bits; ``expected`` is then 0.
    """

    register: tuple[str, ...]
    seen: int
    expected: int
    mask: int = 0xFFFFFFFF
    check: str = ""

    def __str__(self) -> str:
        name = "/".join(self.register)
        if self.check:
            return f"{name}: {self.check}"
        return f"{name}: {self.seen:#010x}, expected {self.expected:#010x} under {self.mask:#010x}"


@dataclass
class Outcome:
    """The result of one vector; no differences means that it passed."""

    id: str
    differences: list[Difference] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.differences


class HostMemory:
    """Page-aligned zeroed host memory that is mapped in an address space."""

    def __init__(self, memory: Memory, size: int):
        size = -(-size // PAGE) * PAGE
        self.raw = ctypes.create_string_buffer(size + PAGE)
        self.va = -(-ctypes.addressof(self.raw) // PAGE) * PAGE
        memory.map(self.va, size)


class CodeRunner(Protocol):
    """An engine that runs prepared waves on code without a terminator."""

    def run_code(self, batch: Batch, memory: Memory, end: int, *, timeout: float = 60.0) -> Counter[str]: ...


def load_vectors(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a vector file."""
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)


def target_of(row: dict[str, Any]) -> str:
    """The architecture name a row is meant for: the first of its family that has all its instructions."""
    if "gfx" in row:
        return str(row["gfx"])
    first, *others = _ARCHS[row["arch"]]
    return next((name for name in (first, *others) if _decodes(name, row)), first)


def _decodes(name: str, row: dict[str, Any]) -> bool:
    try:
        return bool(list(decode_all(get_arch(name), bytes.fromhex(row["code"]))))
    except DecodeError:
        return False


def run_vector(row: dict[str, Any], engine: CodeRunner | None = None) -> Outcome:
    """Run one row and compare. Raises GuestFault where the program faults."""
    arch = get_arch(target_of(row))
    engine = engine or OracleEngine(arch)
    code = bytes.fromhex(row["code"])
    memory = Memory()
    lanes, wave = row["lanes"], row["wave"]
    waves = -(-lanes // wave)
    text = HostMemory(memory, len(code))
    ctypes.memmove(text.va, code, len(code))
    data = HostMemory(memory, max(64 * lanes, 2048) + 76)
    arguments = HostMemory(memory, 8)
    memory.write_u64(arguments.va, data.va)
    uses_scratch = any("SCRATCH" in i.format for _, i in decode_all(arch, code))
    scratch = HostMemory(memory, _SCRATCH_PER_LANE * wave * waves if uses_scratch else 1)
    batch = Batch(arch, waves, wave, arch.vgprs, [(0, 0, 0)], 65536, row["id"])
    batch.ordinal[:] = np.arange(waves)
    batch.pc[:] = text.va
    batch.mode[:] = HSA_MODE
    batch.scratch_bytes = _SCRATCH_PER_LANE * wave
    batch.scratch[:] = scratch.va + np.arange(waves) * batch.scratch_bytes
    _initialise(batch, row, arguments.va)
    engine.run_code(batch, memory, text.va + len(code))
    return _compare(row, batch)


def _initialise(batch: Batch, row: dict[str, Any], arguments: int) -> None:
    number = batch.ordinal[:, None] * batch.lanes + np.arange(batch.lanes)
    active = number < row["lanes"]
    for half in range(batch.lanes // 32):
        bits = active[:, half * 32 : half * 32 + 32] << np.arange(32)
        batch.sgpr[EXEC + half] = bits.sum(axis=1)
    if row["harness"] == "I":
        _given(batch, row["init"])
        return
    batch.vgpr[255] = number
    for first in (80,) if row["harness"] == "A" else (0, 80):
        batch.sgpr[first] = arguments & 0xFFFFFFFF
        batch.sgpr[first + 1] = arguments >> 32
    if row["harness"] == "B":
        batch.vgpr[0] = number


def _given(batch: Batch, init: dict[str, Any]) -> None:
    for reg, text in init.get("v", {}).items():
        words = np.array([int(text[i : i + 8], 16) for i in range(0, len(text), 8)], np.uint32)
        padded = np.zeros(batch.waves * batch.lanes, np.uint32)
        padded[: len(words)] = words
        batch.vgpr[int(reg)] = padded.reshape(batch.waves, batch.lanes)
    for reg, value in init.get("s", {}).items():
        batch.sgpr[int(reg)] = int(value, 16) if isinstance(value, str) else value


# -- comparing ------------------------------------------------------------------------------------------------


def _value(batch: Batch, key: tuple[str, ...]) -> int:
    """The value of an observed register: v/lane/reg, s/reg, vcc, exec, scc."""
    if key[0] == "v":
        wave, lane = divmod(int(key[1]), batch.lanes)
        return int(batch.vgpr[int(key[2]), wave, lane])
    if key[0] == "s":
        return int(batch.sgpr[int(key[1]), 0])
    if key[0] == "scc":
        return int(batch.scc[0])
    return int(batch.sgpr[VCC if key[0] == "vcc" else EXEC, 0])


def _leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(tree, dict):
        for name, sub in tree.items():
            yield from _leaves(sub, (*path, name))
    else:
        yield path, int(tree, 16) if isinstance(tree, str) else int(tree)


def _compare(row: dict[str, Any], batch: Batch) -> Outcome:
    outcome = Outcome(row["id"])
    masks = dict(_leaves(row.get("mask", {})))
    loose = {_key(text) for text in row.get("loose", ())}
    ulp = row.get("ulp", 0)
    for key, expected in _leaves(row["expect"]):
        mask = masks.get(key, 0xFFFFFFFF)
        if key in loose:
            continue
        seen = _value(batch, key)
        if (seen ^ expected) & mask and not (ulp and abs(seen - expected) <= ulp):
            outcome.differences.append(Difference(key, seen, expected, mask))
    for check in row.get("approx", ()):
        problem = _approximate(check, batch)
        if problem is not None:
            outcome.differences.append(problem)
    return outcome


def _key(text: Any) -> tuple[str, ...]:
    """A register key as written in a row: ``v/0/2`` or ``v.0.2`` or a list."""
    if isinstance(text, list):
        return tuple(str(part) for part in text)
    return tuple(str(text).replace(".", "/").replace("[", "/").replace("]", "").split("/"))


def _approximate(check: dict[str, Any], batch: Batch) -> Difference | None:
    """A tolerance or class check; the pattern is gathered from ``where``, low part first."""
    fmt = check["fmt"]
    if fmt == "derived":
        return None
    pattern = width = 0
    for key, first, count in check["where"]:
        pattern |= (_value(batch, _key(key)) >> first & (1 << count) - 1) << width
        width += count
    problem = _problem(check, _number(fmt, pattern))
    return None if problem is None else Difference(_key(check["where"][0][0]), pattern, 0, (1 << width) - 1, problem)


def _problem(check: dict[str, Any], value: float) -> str | None:
    if "class" in check:
        tests = {"nan": math.isnan(value), "notnan": not math.isnan(value), "notinf": not math.isinf(value)}
        return None if tests[check["class"]] else f"{value!r} ({check['fmt']}) is not of class {check['class']}"
    if abs(value - check["value"]) <= check["tol"]:
        return None
    return f"{value!r} ({check['fmt']}), expected {check['value']!r} within {check['tol']!r}"


def _number(fmt: str, pattern: int) -> float:
    if fmt == "u32":
        return float(pattern)
    number = _FORMATS[fmt]
    bits = np.array([pattern], container(number.bits))
    return float(numeric.to_doubles(number, bits)[0])
