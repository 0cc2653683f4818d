"""Buffer instructions that convert: TBUFFER_* and BUFFER_*_FORMAT_*, with 32-bit and 16-bit registers.

The data format comes from the instruction (TBUFFER) or from the descriptor; DST_SEL of the descriptor counts for the
latter alone. An element is in range as a whole or not at all; out of range it loads as zeros, but components that
DST_SEL sets to 1 are 1. A store with fewer components than the format has repeats the first one.

Sources: "Buffer Data" and "D16 Instructions" of the RDNA3, RDNA4 and CDNA3 manuals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mockgpu.isa.instruction import Instruction
from mockgpu.machine import format_convert
from mockgpu.machine.buffer_context import BufferContext
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.formats import DataFormat, split_format, unified_format
from mockgpu.machine.operands import register_row
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group

_CHANNEL = 4  # the lowest selector that names a channel


@dataclass(frozen=True, slots=True)
class Registers:
    """The data registers of an instruction: ``bits`` of each of ``count`` components from row ``first`` on.

    16-bit components lie in pairs, low half first; ``high`` puts the only one into the high half.
    """

    first: int
    count: int
    bits: int
    high: bool = False

    def read(self, g: Group, component: int) -> Array:
        """One component, (n, L) uint32."""
        row, half = self._place(component)
        if self.bits == 16:
            return g.vector_half(row, half).astype(np.uint32)
        return g.vector(row)

    def write(self, g: Group, component: int, value: Array, lanes: Array | None) -> None:
        """Write one component where ``lanes`` (None: all) holds; the other half of a register stays."""
        row, half = self._place(component)
        if self.bits == 16:
            g.write_half(row, half, value.astype(np.uint16), lanes)
        else:
            g.write_vector(row, value, lanes)

    def _place(self, component: int) -> tuple[int, int]:
        if self.bits == 32:
            return self.first + component, 0
        return self.first + component // 2, int(self.high) or component % 2


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a converting instruction. Raises IllegalInstruction."""
    access = TypedAccess(instruction, wave_size)
    return Step(access.store if "_store_" in instruction.mnemonic else access.load, "vmem")


class TypedAccess:
    """One converting load or store."""

    def __init__(self, instruction: Instruction, wave_size: int):
        self.ctx = BufferContext(instruction, wave_size, whole=True, converts=True)
        self.mnemonic = instruction.mnemonic
        self.typed = instruction.mnemonic.startswith("tbuffer")
        self.split = instruction.arch.family == "cdna"
        self.fixed = _fixed_format(instruction) if self.typed else None
        self.registers = _registers(instruction)

    def formats(self) -> Iterator[tuple[DataFormat | None, Array | None]]:
        """The formats that the waves use, each with the waves (n, 1) that do."""
        used = self.ctx.g.active.any(axis=1)
        if self.fixed is not None:
            if used.any():
                yield self._format(self.fixed), None
            return
        numbers = self.ctx.descriptor.format
        for number in np.unique(numbers[used]):
            yield self._format(int(number)), numbers == number

    def _format(self, number: int) -> DataFormat | None:
        try:
            return split_format(number) if self.split else unified_format(number)
        except LookupError as e:
            raise IllegalInstruction(f"{self.mnemonic}: {e.args[0]}") from None

    def components(self, g: Group) -> list[Array]:
        """Load, and give the components as patterns, (n, L) each; what no wave asks for is 0."""
        self.ctx.begin(g)
        out = [np.zeros((g.n, g.lanes), np.uint32) for _ in range(self.registers.count)]
        for fmt, waves in self.formats():
            if fmt is None:
                continue
            channels = self._channels(fmt, waves)
            for k in range(self.registers.count):
                value = self._component(fmt, channels, k)
                out[k] = value if waves is None else np.where(waves, value, out[k])
        return out

    def load(self, g: Group) -> None:
        """Load, convert and write the registers."""
        for k, value in enumerate(self.components(g)):
            self.registers.write(g, k, value, g.exec)

    def _channels(self, fmt: DataFormat, waves: Array | None) -> list[Array]:
        """The converted channels; lanes out of range load zeros."""
        ctx = self.ctx
        inside = ctx.inside(ctx.addr, fmt.nbytes)
        chosen = inside if waves is None else inside & waves
        words = [ctx.fetch(ctx.addr + np.uint64(at), bits, chosen).astype(np.uint32) for at, bits in parts(fmt)]
        return [format_convert.load_channel(fmt, c, words, self.registers.bits) for c in range(len(fmt.channels))]

    def _component(self, fmt: DataFormat, channels: list[Array], k: int) -> Array:
        if self.typed:
            return channels[k] if k < len(channels) else np.zeros((1, 1), np.uint32)
        return select(self.ctx.descriptor.selector(k), channels, format_convert.one(fmt, self.registers.bits))

    def store(self, g: Group) -> None:
        """Convert the registers and store."""
        self.ctx.begin(g)
        given = [self.registers.read(g, k) for k in range(self.registers.count)]
        for fmt, waves in self.formats():
            if fmt is None:
                continue
            inside = self.ctx.inside(self.ctx.addr, fmt.nbytes)
            chosen = inside if waves is None else inside & waves
            selectors = None if self.typed else [self.ctx.descriptor.selector(k) for k in range(4)]
            values = channel_values(fmt, given, selectors)
            words = format_convert.store_element(fmt, values, self.registers.bits)
            for (at, bits), word in zip(parts(fmt), words, strict=True):
                self.ctx.put(self.ctx.addr + np.uint64(at), word, bits, chosen)


def parts(fmt: DataFormat) -> list[tuple[int, int]]:
    """The dwords of an element, the last one perhaps shorter: (first byte, bits)."""
    return [(at, 8 * min(4, fmt.nbytes - at)) for at in range(0, fmt.nbytes, 4)]


def select(selector: Array, channels: list[Array], one: int) -> Array:
    """What DST_SEL, (n, 1), chooses: 0, 1, or a channel; channels that the format lacks are 0."""
    out: Array = np.where(selector == 1, np.uint32(one), np.uint32(0))
    for c, channel in enumerate(channels):
        out = np.where(selector == _CHANNEL + c, channel, out)
    return out


def channel_values(fmt: DataFormat, given: list[Array], selectors: list[Array] | None) -> list[Array]:
    """What is stored to each channel: the component that DST_SEL (None: identity) leads to it, else the first one."""
    out = []
    for c in range(len(fmt.channels)):
        value = given[c] if selectors is None and c < len(given) else given[0]
        if selectors is not None:
            for k in reversed(range(4)):
                supplied = given[k] if k < len(given) else given[0]
                value = np.where(selectors[k] == _CHANNEL + c, supplied, value)
        out.append(value)
    return out


def _fixed_format(instruction: Instruction) -> int:
    fields = instruction.fields
    return fields["dfmt"] << 3 | fields["nfmt"] if "dfmt" in fields else fields["format"]


def _registers(instruction: Instruction) -> Registers:
    words = instruction.mnemonic.split("_")
    count = len(re.sub("[^xyzw]", "", words[-1]))
    view = next((o for o in instruction.operands if o.field == "vdata"), None)
    first = register_row(view) if view is not None else 0
    return Registers(first, count, 16 if "d16" in words else 32, "hi" in words)
