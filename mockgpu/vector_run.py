"""Runs files of instruction vectors (docs/vectors.md) and tells what passed, failed and was skipped."""

from __future__ import annotations

import functools
import json
import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, cast

from mockgpu.isa.arch import arch_names, get_arch
from mockgpu.isa.decode import decode_all
from mockgpu.isa.disasm import disassemble
from mockgpu.isa.errors import ConfigError, DecodeError, MockGPUError
from mockgpu.machine.engine import ENGINES, make_engine
from mockgpu.machine.errors import GuestFault
from mockgpu.machine.vectors import CodeRunner, Difference, run_vector, target_of

#: Engines by another name.
_ALIASES = {"native": "threaded"}
HARNESSES = ("A", "B", "I")
_NEEDED = ("id", "arch", "lanes", "wave", "harness", "code", "expect")
_TOLD = ("op", "note", "evidence", "source_kind", "value_origin")


class VectorFileError(MockGPUError):
    """A file that holds no vectors, or a line that is none."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one vector. ``reason`` says why it was skipped, or which fault ended it.

    ``code`` is the disassembly of a vector that failed, ``about`` what its row says of itself.
    """

    id: str
    file: str
    target: str
    status: Literal["passed", "failed", "skipped"]
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    code: tuple[str, ...] = ()
    about: tuple[tuple[str, str], ...] = ()

    def data(self) -> dict[str, Any]:
        """As plain data; values of registers as hexadecimal text."""
        differences = [{**asdict(d), "register": "/".join(d.register)} for d in self.differences]
        words = [{k: f"{v:#010x}" if isinstance(v, int) else v for k, v in d.items()} for d in differences]
        return {**asdict(self), "differences": words, "about": dict(self.about)}


# -- files ------------------------------------------------------------------------------------------------------------


def read_rows(file: str) -> list[dict[str, Any]]:
    """The rows of a file. Raises VectorFileError, which names the line."""
    try:
        lines = Path(file).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise VectorFileError(f"{file}: {error.strerror if isinstance(error, OSError) else error}") from None
    return [_row(file, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _row(file: str, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise VectorFileError(f"{file}:{number}: not JSON: {error}") from None
    missing = [name for name in _NEEDED if not isinstance(row, dict) or name not in row]
    if missing:
        raise VectorFileError(f"{file}:{number}: a vector needs {', '.join(missing)}")
    return {**row, "file": file}


def choose(rows: Iterable[dict[str, Any]], only: str | None) -> list[dict[str, Any]]:
    """The rows whose id matches a pattern such as ``vop3-*``; all without one."""
    return [row for row in rows if only is None or fnmatchcase(row["id"], only)]


# -- running ----------------------------------------------------------------------------------------------------------


def run_rows(rows: list[dict[str, Any]], engine: str = "oracle", jobs: int = 1) -> Iterator[Result]:
    """The result of every row, in their order. Raises ConfigError for an unknown engine."""
    names = (*ENGINES, *_ALIASES)
    if engine not in names:
        raise ConfigError("engine", engine, names)
    run = functools.partial(run_row, engine=engine)
    if jobs <= 1 or len(rows) <= 1:
        yield from map(run, rows)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(rows)), context) as pool:
        yield from pool.map(run, rows, chunksize=8)


@functools.cache
def _engine(target: str, name: str) -> CodeRunner:
    return cast(CodeRunner, make_engine(get_arch(target), _ALIASES.get(name, name)))


def run_row(row: dict[str, Any], engine: str = "oracle") -> Result:
    """Run one row; whatever goes wrong inside of it is in the result."""
    target = target_of(row)
    head = row["id"], row["file"], target
    reason = _cannot_run(row, target)
    if reason:
        return Result(*head, "skipped", reason)
    try:
        outcome = run_vector(row, _engine(target, engine))
    except GuestFault as fault:
        return Result(*head, "failed", str(fault), (), listing(row, target), _about(row))
    if outcome.passed:
        return Result(*head, "passed")
    return Result(*head, "failed", "", tuple(outcome.differences), listing(row, target), _about(row))


def _cannot_run(row: dict[str, Any], target: str) -> str:
    if target not in arch_names():
        return f"there is no target {target}; there are {', '.join(arch_names())}"
    if row["harness"] not in HARNESSES:
        return f"there is no harness {row['harness']}; there are {', '.join(HARNESSES)}"
    if row["wave"] not in get_arch(target).wave_sizes:
        return f"{target} has no waves of {row['wave']} lanes"
    return ""


def listing(row: dict[str, Any], target: str) -> tuple[str, ...]:
    """The disassembly of a row's code, with offsets; ends where the bytes are no instruction."""
    lines = []
    try:
        for offset, instruction in decode_all(get_arch(target), bytes.fromhex(row["code"])):
            lines.append(f"{offset:04x}  {disassemble(instruction, offset)}")
    except DecodeError as error:
        lines.append(str(error))
    return tuple(lines)


def _about(row: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(row[name])) for name in _TOLD if name in row)


# -- telling ----------------------------------------------------------------------------------------------------------


def register_name(path: tuple[str, ...]) -> str:
    """``v/3/1`` as ``lane 3 v1``, ``s/4`` as ``s4``."""
    if path[0] == "v":
        return f"lane {path[1]} v{path[2]}"
    return f"s{path[1]}" if path[0] == "s" else path[0]


def marked(difference: Difference) -> list[str]:
    """The lines that show one difference: both values, and a mark below each hexadecimal digit that is wrong."""
    name = register_name(difference.register)
    if difference.check:
        return [f"{name}: {difference.check}"]
    wrong = (difference.seen ^ difference.expected) & difference.mask
    marks = "".join("^" if wrong >> shift & 0xF else " " for shift in range(28, -1, -4))
    bits = ", ".join(str(bit) for bit in range(31, -1, -1) if wrong >> bit & 1)
    width = len(name)
    unasserted = "" if difference.mask == 0xFFFFFFFF else f"  (asserted: {difference.mask:#010x})"
    return [
        f"{name}  expected {difference.expected:#010x}{unasserted}",
        f"{' ' * width}  got      {difference.seen:#010x}",
        f"{' ' * width}             {marks}  bits {bits}",
    ]


def report(results: list[Result], most: int = 16) -> str:
    """Failures in full, reasons of skipped vectors, and the totals; at most ``most`` differences of each vector."""
    parts = ["\n".join(_failure(r, most)) for r in results if r.status == "failed"]
    reasons = Counter(r.reason for r in results if r.status == "skipped")
    parts += [f"skipped {count}: {reason}" for reason, count in reasons.items()]
    return "\n\n".join([*parts, summary(results)])


def summary(results: list[Result]) -> str:
    """One line with the totals."""
    counts = Counter(r.status for r in results)
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def _failure(result: Result, most: int) -> Iterator[str]:
    yield f"FAILED {result.id} ({result.target}, {result.file})"
    yield from (f"  {name}: {text}" for name, text in result.about)
    yield from (f"    {line}" for line in result.code)
    if result.reason:
        yield f"  {result.reason}"
    for difference in result.differences[:most]:
        yield from (f"  {line}".rstrip() for line in marked(difference))
    if len(result.differences) > most:
        yield f"  ... and {len(result.differences) - most} more differences"


def data(results: list[Result]) -> dict[str, Any]:
    """The results as plain data."""
    counts = Counter(r.status for r in results)
    return {name: counts[name] for name in ("passed", "failed", "skipped")} | {"vectors": [r.data() for r in results]}
