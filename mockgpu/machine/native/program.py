"""Decoded code as records for native code: control flow followed from an entry, blocks laid out by address.

A translation holds everything that can be reached from an entry by branches. Its blocks end at branches and at branch
targets; a block that runs into the next one ends in a pseudo record that counts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mockgpu.isa.arch import Arch
from mockgpu.isa.decode import decode
from mockgpu.isa.errors import DecodeError
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.registers import Kind
from mockgpu.machine.errors import PageFault
from mockgpu.machine.memory import Memory
from mockgpu.machine.native.flow import REFETCHES, Flow, flow_of, kind_of, target_of
from mockgpu.machine.native.layout import RECORD, RECORD_BYTES
from mockgpu.machine.native.shape import Shape, pseudo_shape, shape_of
from mockgpu.machine.waves import SCALARS

if TYPE_CHECKING:
    from mockgpu.machine.step import Step

_LONGEST = 16  # bytes of the longest instruction
_FETCH = 4096  # bytes read at once
_MOST = 1 << 16  # instructions of a translation; what lies beyond is translated when it is reached


@dataclass(slots=True)
class Item:
    """One record to be: an instruction, or a pseudo instruction (``instruction`` is None).

    ``target`` is the byte address to which it may branch, ``after`` the one behind it. ``callout``: Python executes it.
    """

    pc: int
    shape: Shape
    instruction: Instruction | None = None
    flow: Flow = Flow.STOPS
    after: int = 0
    target: int | None = None
    callout: bool = False


@dataclass(slots=True)
class Translation:
    """Records and what they stand for: ``items[i]`` is that of record ``i``.

    Behind the ``count`` records lie as many whose handlers are never replaced by code of the second tier. ``runs`` are
    the first and last record of each block; ``ends`` maps the last one to the number of the block, whose instructions
    by class are in ``counts`` and whose number of instructions is in ``lengths``. ``entries`` maps byte addresses at
    which waves may enter to numbers of records. ``code`` has the decoded bytes as (byte address, bytes).

    ``steps`` are the oracle's, of records that it has executed; ``left`` the records that are left to Python;
    ``executed`` the instructions that each block has executed; ``tiered`` says that hot blocks are, or are being,
    compiled together; ``kind`` is what the translation was made for.
    """

    records: npt.NDArray[np.void]
    items: list[Item]
    ends: dict[int, int]
    counts: list[Counter[str]]
    lengths: list[int]
    entries: dict[int, int]
    code: list[tuple[int, bytes]]
    runs: list[tuple[int, int]]
    first_counter: int = 0
    steps: dict[int, Step] = field(default_factory=dict)
    left: set[int] = field(default_factory=set)
    executed: Counter[int] = field(default_factory=Counter)
    tiered: bool = False
    kind: Any = None

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.items)

    def is_callout(self, index: int) -> bool:
        """Whether Python executes a record."""
        return index in self.left

    @property
    def address(self) -> int:
        return int(self.records.ctypes.data)

    def record(self, index: int) -> int:
        """The address of a record by its number."""
        return self.address + index * RECORD_BYTES

    def index(self, record: int) -> int:
        """The number of a record by its address."""
        return (record - self.address) // RECORD_BYTES

    def unchanged(self, memory: Memory) -> bool:
        """Whether memory still holds the bytes that were decoded."""
        try:
            return all(memory.read(va, len(raw), "execute") == raw for va, raw in self.code)
        except PageFault:
            return False


class Translator:
    """Translates code of one address space, for waves of one size, one MODE and one allocation of registers.

    ``stop`` is a byte address at which waves end without an instruction.
    """

    def __init__(self, arch: Arch, lanes: int, vgprs: int, accs: int, memory: Memory, mode: int):
        self.arch, self.lanes, self.vgprs, self.accs = arch, lanes, vgprs, accs
        self.memory, self.mode = memory, mode
        self.stop: int | None = None
        self._raw, self._base = b"", 0

    def translate(self, entry: int) -> Translation:
        """The code that can be reached from ``entry``; its records have no handlers yet."""
        found = self._reach(entry)
        leaders = _leaders(found, entry)
        items, ends, entries, runs = _lay_out(found, leaders)
        counts = [_count(items[first : last + 1]) for first, last in runs]
        lengths = [counted.total() for counted in counts]
        records = np.zeros(2 * len(items), RECORD)
        out = Translation(records, items, ends, counts, lengths, entries, self._code(found), runs)
        _fill(out)
        return out

    # -- following control flow -------------------------------------------------------------------------------

    def _reach(self, entry: int) -> dict[int, Item]:
        found: dict[int, Item] = {}
        todo = [entry]
        while todo:
            pc = todo.pop()
            while pc not in found and len(found) < _MOST:
                item = found[pc] = self._item(pc)
                if item.target is not None:
                    todo.append(item.target)
                if item.flow is Flow.STOPS:
                    break
                pc = item.after
        return found

    def _item(self, pc: int) -> Item:
        if pc == self.stop:
            return Item(pc, pseudo_shape("stop"))
        raw = self._bytes(pc)
        try:
            instruction = decode(self.arch, raw)
        except DecodeError:
            return Item(pc, pseudo_shape("callout"), callout=True)
        shape = shape_of(instruction, self.lanes, self.mode)
        after = pc + instruction.size
        item = Item(pc, shape, instruction, flow_of(instruction), after, target_of(instruction, pc))
        item.callout = instruction.mnemonic in REFETCHES or not self._has_registers(instruction)
        return item

    def _has_registers(self, instruction: Instruction) -> bool:
        """Whether all registers lie in the register file of the wave."""
        for operand in instruction.operands:
            if operand.kind is Kind.VGPR:
                if operand.index + operand.regs > self.vgprs:
                    return False
            elif operand.kind is Kind.AGPR:
                if operand.index + operand.regs > self.accs:
                    return False
            elif 0 <= operand.code < SCALARS < operand.code + operand.regs:
                return False
        return True

    def _bytes(self, pc: int) -> bytes:
        offset = pc - self._base
        if not 0 <= offset <= len(self._raw) - _LONGEST:
            self._raw, self._base, offset = self._fetch(pc), pc, 0
        return self._raw[offset : offset + _LONGEST]

    def _fetch(self, pc: int) -> bytes:
        size = 0
        while size < _FETCH:
            mapping = self.memory.find(pc + size)
            if mapping is None or not mapping.execute:
                break
            size = mapping.end - pc
        size = min(size, _FETCH)
        return self.memory.read(pc, size, "execute") if size else b""

    def _code(self, found: Mapping[int, Item]) -> list[tuple[int, bytes]]:
        """The bytes of all instructions, joined where they are neighbours."""
        spans: list[list[int]] = []
        for pc in sorted(found):
            item = found[pc]
            if item.instruction is None:
                continue
            if spans and spans[-1][1] >= pc:
                spans[-1][1] = max(spans[-1][1], item.after)
            else:
                spans.append([pc, item.after])
        return [(start, self.memory.read(start, end - start, "execute")) for start, end in spans]


def _leaders(found: Mapping[int, Item], entry: int) -> set[int]:
    """The byte addresses at which blocks begin."""
    leaders = {entry}
    for item in found.values():
        if item.target is not None:
            leaders.add(item.target)
        if item.flow is Flow.ENDS_BLOCK:
            leaders.add(item.after)
    return leaders & found.keys()


def _lay_out(
    found: Mapping[int, Item], leaders: set[int]
) -> tuple[list[Item], dict[int, int], dict[int, int], list[tuple[int, int]]]:
    """Items in the order of records, the ends and entries of blocks, and each block's first and last record."""
    items: list[Item] = []
    ends: dict[int, int] = {}
    entries: dict[int, int] = {}
    runs: list[tuple[int, int]] = []
    placed: dict[int, int] = {}
    for leader in sorted(leaders):
        first, pc = len(items), leader
        entries[leader] = first
        while True:
            item = found.get(pc)
            if item is None:  # beyond the limit of a translation: found when a wave gets there
                items.append(Item(pc, pseudo_shape("jump")))
                break
            items.append(item)
            placed.setdefault(pc, len(items) - 1)
            if item.flow is not Flow.GOES_ON:
                if item.flow is Flow.ENDS_BLOCK and item.after not in found:
                    items.append(Item(item.after, pseudo_shape("jump")))
                    ends[len(items) - 2] = len(runs)
                    runs.append((first, len(items) - 2))
                    first = -1
                break
            pc = item.after
            if pc in leaders:
                items.append(Item(pc, pseudo_shape("fallthrough")))
                break
        if first >= 0:
            ends[len(items) - 1] = len(runs)
            runs.append((first, len(items) - 1))
    return _with_jumps(items, ends, entries, runs)


def _with_jumps(
    items: list[Item], ends: dict[int, int], entries: dict[int, int], runs: list[tuple[int, int]]
) -> tuple[list[Item], dict[int, int], dict[int, int], list[tuple[int, int]]]:
    """Make sure that the record behind a block that goes on is that of the code behind it.

    Blocks lie in the order of addresses, so that it is, unless instructions overlap: then a jump leads there.
    """
    out: list[Item] = []
    moved: dict[int, int] = {}
    for n, item in enumerate(items):
        moved[n] = len(out)
        out.append(item)
        follows = item.pc if item.shape.key == "pseudo|fallthrough" else item.after
        goes_on = item.shape.key == "pseudo|fallthrough" or (n in ends and item.flow is Flow.ENDS_BLOCK)
        if goes_on and (n + 1 == len(items) or items[n + 1].pc != follows):
            out.append(Item(follows, pseudo_shape("jump")))
    return (
        out,
        {moved[n]: block for n, block in ends.items()},
        {pc: moved[n] for pc, n in entries.items()},
        [(moved[first], moved[last]) for first, last in runs],
    )


def _count(items: list[Item]) -> Counter[str]:
    return Counter(kind_of(item.instruction) for item in items if item.instruction is not None)


def _fill(out: Translation) -> None:
    """The parameters of all records. Counters are numbered from ``first_counter``, see :func:`set_counters`."""
    for n, item in enumerate(out.items):
        shape = item.shape
        params = out.records[n]["params"]
        params[: len(shape.params)] = shape.params
        for name, value in _computed(out, n, item):
            if name in shape.names:
                params[shape.names.index(name)] = value


def _computed(out: Translation, n: int, item: Item) -> Iterator[tuple[str, int]]:
    """Parameters that depend on where a record lies."""
    yield "pc.lo", _int32(item.pc)
    yield "pc.hi", _int32(item.pc >> 32)
    if n in out.ends:
        yield "length", out.lengths[out.ends[n]]
    if item.target is not None and item.target in out.entries:
        yield "target", (out.entries[item.target] - n) * RECORD_BYTES


def set_counters(out: Translation, first: int) -> None:
    """Number the counters of a translation's blocks from ``first``."""
    out.first_counter = first
    for n, block in out.ends.items():
        names = out.items[n].shape.names
        if "block" in names:
            out.records[n]["params"][names.index("block")] = first + block


def _int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


__all__ = ["Item", "Translation", "Translator", "set_counters"]
