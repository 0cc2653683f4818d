"""A small executed example of an instruction: what the first lanes hold before, and what the engine makes of it."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from mockgpu.isa.arch import Arch
from mockgpu.isa.instruction import Instruction, Operand
from mockgpu.isa.operands import Register
from mockgpu.isa.registers import EXEC_LO, VCC_LO, Kind
from mockgpu.machine.errors import GuestFault
from mockgpu.machine.single import SingleStep
from mockgpu.machine.waves import Batch

LANES = 4  # shown of a vector register
_FORMATS = frozenset({"SOP1", "SOP2", "SOPC", "SOPK", "VOP1", "VOP2", "VOP3", "VOP3SD", "VOPC", "VOP3P", "VOPD"})
_LEFT_OUT = ("s_getpc", "s_setpc", "s_swappc", "s_call", "s_rfe", "s_cbranch", "s_sendmsg", "s_setreg", "s_subvector")
_NUMBER = re.compile(r"FMT_NUM_(?:PK(?P<count>\d+)_)?(?P<kind>BF|F|I|U|B|M)(?P<bits>\d+)")
_FLOATS = (1.5, -2.0, 0.25, 3.0, -0.5)
_INTEGERS = (5, 12, -3, 100, 2)
_PATTERNS = (0x0F0F0F0F0F0F0F0F, 0x00FF00FF00FF00FF, 0x8000000080000001, 0x123456789ABCDEF0, 0x3333333333333333)
_MASK = 0b0101
_PACK = {16: "e", 32: "f", 64: "d"}


@dataclass(frozen=True, slots=True)
class Number:
    """The format of an operand: ``count`` numbers of ``bits`` bits; ``kind`` F, BF, I, U, B or M (a bit per lane)."""

    kind: str
    bits: int
    count: int = 1

    def values(self, start: int) -> list[int]:
        """Patterns for the first lanes, beginning at another number for every source."""
        return [self._pack(start + lane) for lane in range(LANES)]

    def _pack(self, start: int) -> int:
        return sum(self._one(start + k) << k * self.bits for k in range(self.count))

    def _one(self, n: int) -> int:
        if self.kind == "M":
            return _MASK
        if self.kind in ("F", "BF"):
            return self._float(_FLOATS[n % len(_FLOATS)])
        value = (_PATTERNS if self.kind == "B" else _INTEGERS)[n % len(_INTEGERS)]
        return abs(value) if self.kind == "U" else value & (1 << self.bits) - 1

    def _float(self, value: float) -> int:
        if self.kind == "BF":
            return int.from_bytes(struct.pack("<f", value)[2:], "little")
        return int.from_bytes(struct.pack(f"<{_PACK[self.bits]}", value), "little")

    def text(self, pattern: int) -> str:
        """A pattern as people write the number."""
        parts = [self._text(pattern >> k * self.bits & (1 << self.bits) - 1) for k in range(self.count)]
        return parts[0] if self.count == 1 else f"({', '.join(parts)})"

    def _text(self, pattern: int) -> str:
        if self.kind == "BF":
            return f"{struct.unpack('<f', struct.pack('<I', pattern << 16))[0]:.7g}"
        if self.kind == "F":
            raw = pattern.to_bytes(self.bits // 8, "little")
            return f"{struct.unpack(f'<{_PACK[self.bits]}', raw)[0]:.{17 if self.bits == 64 else 8}g}"
        if self.kind == "I":
            return str(pattern - (pattern >> self.bits - 1 << self.bits))
        return str(pattern) if self.kind == "U" else f"{pattern:#0{self.bits // 4 + 2}x}"


@dataclass(frozen=True, slots=True)
class Value:
    """A register and what it holds: a text for each of the first lanes, or one."""

    register: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """An instruction, registers before it and registers after it."""

    text: str
    before: tuple[Value, ...]
    after: tuple[Value, ...]


def example(instruction: Instruction) -> Example | None:
    """The example of an instruction on plain operands; None where registers alone do not tell what it does."""
    views = [(operand, _number(operand)) for operand in instruction.operands]
    if instruction.format not in _FORMATS or instruction.mnemonic.startswith(_LEFT_OUT):
        return None
    sources = [(o, n) for o, n in views if o.is_src and o.kind in (Kind.VGPR, Kind.AGPR, Kind.SGPR, Kind.VCC)]
    results = [(o, n) for o, n in views if o.is_dst]
    if any(n is None for _, n in (*sources, *results)):
        return None
    given = [(o, n, n.values(k)) for k, (o, n) in enumerate(sources) if n is not None]
    registers = dict(_implicit_inputs(instruction))
    for operand, number, values in given:
        registers.update(_dwords(operand, number, values))
    try:
        batch = _machine(instruction.arch).run(instruction, registers)
    except GuestFault:
        return None
    before = [_value(o, n, values) for o, n, values in given]
    if instruction.opcode.implicit.reads_vcc:
        before.append(Value("VCC", (_lanes(_MASK),)))
    after = [_value(o, n, _read(batch, o, n)) for o, n in results if n is not None]
    after += _implicit_results(instruction, batch)
    return Example(instruction.text, tuple(before), tuple(after)) if after else None


@functools.cache
def _machine(arch: Arch) -> SingleStep:
    return SingleStep(arch)


def _number(operand: Operand) -> Number | None:
    if operand.is_mask:
        return Number("M", 64)
    match = _NUMBER.fullmatch(operand.fmt)
    if match is None or operand.bits > 64:
        return None
    number = Number(match["kind"], int(match["bits"]), int(match["count"] or 1))
    if number.kind == "F" and number.bits not in _PACK:
        return None
    return number if number.bits * number.count == operand.bits else None


def _implicit_inputs(instruction: Instruction) -> Iterator[tuple[Register, list[int]]]:
    if instruction.opcode.implicit.reads_vcc:
        yield Register("s", VCC_LO), [_MASK]


def _dwords(operand: Operand, number: Number, values: list[int]) -> Iterator[tuple[Register, list[int]]]:
    file = {Kind.VGPR: "v", Kind.AGPR: "a"}.get(operand.kind, "s")
    first = operand.index if file != "s" else operand.code
    for k in range(max(1, number.bits * number.count // 32)):
        yield Register(file, first + k), [value >> 32 * k & 0xFFFFFFFF for value in values]


def _read(batch: Batch, operand: Operand, number: Number) -> list[int]:
    bits, count = number.bits * number.count, max(1, number.bits * number.count // 32)
    if operand.kind in (Kind.VGPR, Kind.AGPR):
        row = operand.index + (256 if operand.kind is Kind.AGPR else 0)
        words = [[int(batch.vgpr[row + k, 0, lane]) for k in range(count)] for lane in range(LANES)]
    else:
        words = [[int(batch.sgpr[operand.code + k, 0]) for k in range(count)]]
    return [sum(word << 32 * k for k, word in enumerate(lane)) & (1 << bits) - 1 for lane in words]


def _value(operand: Operand, number: Number, values: list[int]) -> Value:
    if operand.is_mask:
        return Value(_name(operand), (_lanes(values[0]),))
    shown = values if operand.kind in (Kind.VGPR, Kind.AGPR) else values[:1]
    return Value(_name(operand), tuple(map(number.text, shown)))


def _lanes(mask: int) -> str:
    """The bits of the first lanes, lane 0 first."""
    return f"lanes 0-{LANES - 1}: {' '.join(str(mask >> lane & 1) for lane in range(LANES))}"


def _name(operand: Operand) -> str:
    letter = {Kind.VGPR: "v", Kind.AGPR: "a", Kind.SGPR: "s"}.get(operand.kind)
    if letter is None:
        return str(operand.kind)
    last = operand.index + operand.regs - 1
    return f"{letter}{operand.index}" if operand.regs == 1 else f"{letter}[{operand.index}:{last}]"


def _implicit_results(instruction: Instruction, batch: Batch) -> list[Value]:
    implicit, found = instruction.opcode.implicit, []
    if implicit.writes_scc:
        found.append(Value("SCC", (str(int(batch.scc[0])),)))
    if implicit.writes_vcc:
        found.append(Value("VCC", (_lanes(int(batch.sgpr[VCC_LO, 0])),)))
    if implicit.writes_exec:
        found.append(Value("EXEC", (_lanes(int(batch.sgpr[EXEC_LO, 0])),)))
    return found
