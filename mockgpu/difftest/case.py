"""One program with the whole state it starts from, and the state a side leaves: what every side and tool exchanges.

A case is self-contained. Its body has no terminator and may stand at any address; its memory is one private region
whose address a side chooses and puts into a pair of scalar registers, so that no result depends on where it lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mockgpu.isa.arch import Arch, get_arch
from mockgpu.isa.decode import decode_all
from mockgpu.isa.errors import MockGPUError
from mockgpu.isa.instruction import Instruction

Words: TypeAlias = npt.NDArray[np.uint32]
End: TypeAlias = Literal["ended", "fault", "illegal", "hang", "refused"]

#: How a program may end. "refused": the side cannot run it, which is no difference.
ENDS: tuple[End, ...] = ("ended", "fault", "illegal", "hang", "refused")
HARNESS = "C"  # in vector files: the complete state is given and compared


class CaseError(MockGPUError, ValueError):
    """A description of a case that is none."""


@dataclass(frozen=True, eq=False, kw_only=True)
class State:
    """Everything a program can see and change.

    ``sgpr`` (arch.sgprs,), ``vgpr`` (arch.vgprs, lanes), ``acc`` (arch.acc_vgprs, lanes): dwords. ``vcc`` and ``exec``
    are 64 bits wide also in a wave32, whose upper halves are VCC_HI and EXEC_HI. ``lds`` and ``memory`` are bytes;
    ``scratch`` holds the bytes of lane 0, then those of lane 1, and so on, however a side interleaves them.
    """

    sgpr: Words
    vgpr: Words
    acc: Words
    vcc: int
    exec: int
    m0: int
    scc: int
    mode: int
    lds: bytes
    memory: bytes
    scratch: bytes


#: Names of the fields of a state, in the order in which differences are told.
FIELDS = ("sgpr", "vcc", "exec", "m0", "scc", "mode", "vgpr", "acc", "lds", "memory", "scratch")


@dataclass(frozen=True, eq=False, kw_only=True)
class Case(State):
    """A program of one wave and its initial state.

    ``code`` is position independent and ends without S_ENDPGM. The registers ``base_sgpr`` and the next one hold the
    64-bit address of ``memory``; what ``sgpr`` holds there is ignored, and a final state holds the same there as long
    as the program did not write the pair. Pages on both sides of the region fault.
    ``seed`` and ``number`` tell which program of which campaign it is.
    """

    arch: str
    wave_size: int
    seed: int
    number: int
    code: bytes
    base_sgpr: int

    @property
    def target(self) -> Arch:
        """The record of the architecture."""
        return get_arch(self.arch)

    @cached_property
    def placed(self) -> tuple[tuple[int, Instruction], ...]:
        """(byte offset, instruction) of the body. Raises DecodeError."""
        return tuple(decode_all(self.target, self.code))

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The decoded body. Raises DecodeError."""
        return tuple(instruction for _, instruction in self.placed)

    @property
    def scratch_per_lane(self) -> int:
        """Bytes of scratch of one lane."""
        return len(self.scratch) // self.wave_size

    @property
    def id(self) -> str:
        """A name that is the same wherever the case was generated."""
        return f"{self.arch}-w{self.wave_size}-{self.seed:x}-{self.number}"

    def changed(self, **fields: Any) -> Case:
        """The case with other values of some fields."""
        return replace(self, **fields)

    def to_json(self, outcome: Outcome | None = None) -> dict[str, Any]:
        """A row of a vector file, with the outcome as what is expected. Registers that are 0 at the start are left out;
        registers and memory that an outcome does not list kept their initial values."""
        row = {
            "id": self.id,
            "arch": self.target.tables,
            "gfx": self.arch,
            "lanes": self.wave_size,
            "wave": self.wave_size,
            "harness": HARNESS,
            "seed": self.seed,
            "number": self.number,
            "code": self.code.hex(),
            "base_sgpr": self.base_sgpr,
            "init": _state_json(self, None),
            "expect": {},
        }
        if outcome is not None:
            row["expect"] = outcome_json(outcome, self)
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Case:
        """The case of a row. Raises CaseError for a row that holds none, UnknownArchError for a foreign target."""
        try:
            arch = get_arch(str(row["gfx"]))
            state = _state(row["init"], zero_state(arch, int(row["wave"])))
            return cls(
                **vars_of(state),
                arch=arch.name,
                wave_size=int(row["wave"]),
                seed=int(row["seed"]),
                number=int(row["number"]),
                code=bytes.fromhex(row["code"]),
                base_sgpr=int(row["base_sgpr"]),
            )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            if isinstance(error, MockGPUError):
                raise
            raise CaseError(f"no case of differential testing: {type(error).__name__}: {error}") from None


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """What a side made of a case.

    ``detail`` describes a fault (its class, lane and address relative to the region), an illegal instruction, or why
    the side refused. ``state`` is None where the side cannot tell the state, as after most faults on hardware.
    """

    end: End
    detail: str = ""
    state: State | None = None

    @classmethod
    def from_json(cls, expect: Mapping[str, Any], case: Case) -> Outcome:
        """The outcome in a row of ``case``. Raises CaseError."""
        try:
            end = expect["end"]
            if end not in ENDS:
                raise CaseError(f"a program ends in one of {', '.join(ENDS)}, not {end!r}")
            known = "stateless" not in expect
            return cls(end=end, detail=str(expect.get("detail", "")), state=_state(expect, case) if known else None)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            if isinstance(error, MockGPUError):
                raise
            raise CaseError(f"no outcome: {type(error).__name__}: {error}") from None


def outcome_json(outcome: Outcome, case: Case) -> dict[str, Any]:
    """An outcome as plain data: what differs from the initial state of its case."""
    head: dict[str, Any] = {"end": outcome.end}
    if outcome.detail:
        head["detail"] = outcome.detail
    if outcome.state is None:
        return {**head, "stateless": True}
    return {**head, **_state_json(outcome.state, case)}


def vars_of(state: State) -> dict[str, Any]:
    """The fields of a state by name, those of a case that are no state left out."""
    return {name: getattr(state, name) for name in FIELDS}


def zero_state(arch: Arch, wave_size: int) -> State:
    """A state without LDS, memory and scratch in which everything is 0."""
    return State(
        sgpr=np.zeros(arch.sgprs, np.uint32),
        vgpr=np.zeros((arch.vgprs, wave_size), np.uint32),
        acc=np.zeros((arch.acc_vgprs, wave_size), np.uint32),
        vcc=0, exec=0, m0=0, scc=0, mode=0, lds=b"", memory=b"", scratch=b"",
    )  # fmt: skip


# -- plain data -----------------------------------------------------------------------------------------------

_FILES = {"v": "vgpr", "a": "acc"}
_NUMBERS = ("vcc", "exec", "m0", "scc", "mode")
_BYTES = ("lds", "memory", "scratch")


def _state_json(state: State, start: State | None) -> dict[str, Any]:
    """The parts that differ from ``start``; without one, registers that are not 0 and everything else."""
    out: dict[str, Any] = {}
    for key, name in _FILES.items():
        rows = getattr(state, name)
        changed = (rows != (0 if start is None else getattr(start, name))).any(axis=1)
        if changed.any():
            out[key] = {str(r): rows[r].astype(">u4").tobytes().hex() for r in np.flatnonzero(changed)}
    changed = state.sgpr != (0 if start is None else start.sgpr)
    if changed.any():
        out["s"] = {str(r): f"{state.sgpr[r]:#010x}" for r in np.flatnonzero(changed)}
    for name in _NUMBERS:
        if start is None or getattr(state, name) != getattr(start, name):
            out[name] = f"{getattr(state, name):#x}"
    for name in _BYTES:
        if start is None or getattr(state, name) != getattr(start, name):
            out[name] = getattr(state, name).hex()
    return out


def _state(data: Mapping[str, Any], start: State) -> State:
    """``start`` with what ``data`` lists put in."""
    fields = vars_of(start)
    for key, name in _FILES.items():
        rows = fields[name] = fields[name].copy()
        for number, text in data.get(key, {}).items():
            words = np.frombuffer(bytes.fromhex(text), ">u4")
            if words.shape != rows[int(number)].shape:
                raise CaseError(f"{key}{number} has {len(words)} lanes instead of {rows.shape[1]}")
            rows[int(number)] = words
    fields["sgpr"] = fields["sgpr"].copy()
    for number, text in data.get("s", {}).items():
        fields["sgpr"][int(number)] = int(text, 16)
    fields |= {name: int(data[name], 16) for name in _NUMBERS if name in data}
    fields |= {name: bytes.fromhex(data[name]) for name in _BYTES if name in data}
    return State(**fields)
