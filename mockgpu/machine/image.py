"""Image instructions without a sampler: loads, stores, atomics and queries of linear images.

Coordinates are unsigned texel numbers, in 32-bit registers or 16-bit halves. A texel outside the image loads as zeros
(a component that DST_SEL sets to 1 is 1) and is not stored. DMASK chooses the components that registers hold; a store
repeats the first one in the channels that DMASK leaves out. The _PCK forms move the bits of the element as they are
(assumed: in whole dwords, small elements extended to one). DMASK 0 loads zeros into one register.

A descriptor of all zeros is unbound: it loads zeros. One of another type of resource makes the instruction do nothing.
Ray tracing and export belong to graphics and are refused by name.

Sources: "Image Instructions", "Image Opcodes with No Sampler" and "VGPR Usage" of the RDNA3 and RDNA4 manuals.
"""

from __future__ import annotations

import numpy as np

from mockgpu.isa.disasm_image import has_sampler
from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine import format_convert, image_atomic, image_sample
from mockgpu.machine.buffer_typed import Registers, channel_values, parts, select
from mockgpu.machine.formats import DataFormat
from mockgpu.machine.image_context import ImageContext
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group

_GRAPHICS = {
    "bvh": "graphics only: ray tracing",
    "msaa_load": "graphics only: loads from multisampled images",
    "exp": "graphics only: export",
}


def graphics_only(instruction: Instruction) -> str | None:
    """Why an instruction is refused; None for one that a compute kernel can execute."""
    return next((reason for part, reason in _GRAPHICS.items() if part in instruction.mnemonic), None)


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of an image or export instruction. Raises NoSemanticsError or IllegalInstruction."""
    if has_sampler(instruction.mnemonic):
        return image_sample.build(instruction, wave_size)
    reason = graphics_only(instruction)
    if reason is not None:
        raise NoSemanticsError(instruction.mnemonic, reason, instruction.arch.name)
    if "_atomic_" in instruction.mnemonic:
        return image_atomic.build(instruction, ImageContext(instruction, wave_size))
    access = ImageAccess(instruction, wave_size)
    if instruction.mnemonic == "image_get_resinfo":
        return Step(access.query, "vmem")
    return Step(access.store if "_store" in instruction.mnemonic else access.load, "vmem")


class ImageAccess:
    """One load, store or query."""

    def __init__(self, instruction: Instruction, wave_size: int):
        self.ctx = ImageContext(instruction, wave_size)
        self.mask = instruction.fields["dmask"]
        self.packed, self.signed = "_pck" in instruction.mnemonic, instruction.mnemonic.endswith("_sgn")
        self.bits = 16 if instruction.fields["d16"] and not self.packed else 32
        self.components = [k for k in range(4) if self.mask >> k & 1]
        first = instruction.fields["vdata"]
        self.registers = Registers(first, max(1, len(self.components)), self.bits)

    def load(self, g: Group) -> None:
        """Load, convert and write the registers."""
        ctx = self.ctx
        ctx.start(g)
        out = [np.zeros((g.n, g.lanes), np.uint32) for _ in range(self.registers.count)]
        for fmt, waves in ctx.formats(g):
            ctx.aim(fmt.nbytes, waves)
            words = [ctx.load(ctx.addr + np.uint64(at), bits, None).astype(np.uint32) for at, bits in parts(fmt)]
            values = self._raw(fmt, words) if self.packed else self._converted(fmt, words)
            out = [np.where(waves, values[c], out[k]) for k, c in enumerate(self.components)] or out
        lanes = g.lanes_of(ctx.image.usable | ~ctx.image.bound)
        for k, value in enumerate(out):
            self.registers.write(g, k, value, lanes)

    def _converted(self, fmt: DataFormat, words: list[Array]) -> list[Array]:
        """X, Y, Z, W as DST_SEL makes them."""
        channels = [format_convert.load_channel(fmt, c, words, self.bits) for c in range(len(fmt.channels))]
        one = format_convert.one(fmt, self.bits)
        return [select(self.ctx.image.selector(k), channels, one) for k in range(4)]

    def _raw(self, fmt: DataFormat, words: list[Array]) -> list[Array]:
        """The element's dwords; a small element is extended."""
        if self.signed and fmt.nbytes < 4:
            shift = np.int32(32 - 8 * fmt.nbytes)
            words = [((words[0].view(np.int32) << shift) >> shift).view(np.uint32)]
        return [*words, *[np.zeros((1, 1), np.uint32)] * (4 - len(words))]

    def store(self, g: Group) -> None:
        """Convert the registers and store."""
        ctx = self.ctx
        ctx.start(g)
        data = [self.registers.read(g, k) for k in range(self.registers.count)]
        given = [data[self.components.index(c)] if c in self.components else data[0] for c in range(4)]
        for fmt, waves in ctx.formats(g):
            ctx.aim(fmt.nbytes, waves)
            words = data + [data[0]] * 3 if self.packed else self._elements(fmt, given)
            for (at, bits), word in zip(parts(fmt), words, strict=False):
                ctx.store(ctx.addr + np.uint64(at), word, bits, None)

    def _elements(self, fmt: DataFormat, given: list[Array]) -> list[Array]:
        selectors = [self.ctx.image.selector(k) for k in range(4)]
        return format_convert.store_element(fmt, channel_values(fmt, given, selectors), self.bits)

    def query(self, g: Group) -> None:
        """Write width, height, depth and number of levels, those that DMASK chooses."""
        self.ctx.start(g)
        values = self.ctx.image.information(self.ctx.level)
        for k, component in enumerate(self.components):
            self.registers.write(g, k, values[component], g.exec)
