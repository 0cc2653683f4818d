"""Image instructions with a sampler that picks texels: IMAGE_SAMPLE* with point filtering, and IMAGE_GATHER4*.

Images have a single level here, so that bias, derivatives, level and level clamp change nothing: they are skipped.
A scaled coordinate, computed in f32, becomes a fixed-point number with 8 bits of fraction, cut off where TRUNC_COORD
says so and rounded to nearest elsewhere and for a gather; its floor is the texel. A slice is rounded to nearest even
and clamped.

A gather returns one channel of four texels, those with larger Y first: (x, y+1), (x+1, y+1), (x+1, y), (x, y).
A comparison gives 1.0 where the reference, limited to 0..1 for normalized numbers, passes against the texel.

Sources: the operand order of LLVM's image intrinsics; the image descriptors of ROCr for gfx11.

Assumed, without a vector from silicon: the rounding of coordinates, NaN as 0, that the border's color passes DST_SEL,
the order of a gather and the direction of a comparison.
"""

from __future__ import annotations

import numpy as np

from mockgpu.isa.disasm_image import DIMS
from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine import format_convert
from mockgpu.machine.buffer_typed import Registers, parts, select
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.formats import DataFormat
from mockgpu.machine.image_context import ImageContext, address_registers
from mockgpu.machine.image_sampler import Sampler
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group

BOUND = "texel chosen by coordinates within 1/256 of a texel's edge"
_CUBE, _ARRAYS, _GATHERED = 3, (4, 5), (1, 5)
_MOST = 13  # registers of the longest address
_FAR = float(1 << 30)  # texels; coordinates beyond are taken for this
_FRACTION = 8
_ROW = ((0, 1), (1, 1), (1, 0), (0, 0))  # texels of a gather relative to the first, in order of the results
_ONE = {32: 0x3F800000, 16: 0x3C00}
_DERIVATIVES = {"x": 1, "xy": 2, "xyz": 3}


def build(instruction: Instruction, wave_size: int) -> Step:
    """The step of a sample or gather. Raises NoSemanticsError or IllegalInstruction."""
    if instruction.mnemonic.endswith(("get_lod", "gather4h")):
        reason = "graphics only: filtered sampling, of a footprint that the manuals do not describe"
        raise NoSemanticsError(instruction.mnemonic, reason, instruction.arch.name)
    return Step(Sampling(instruction, wave_size).run, "vmem")


class Sampling(ImageContext):
    """One sample or gather."""

    def __init__(self, instruction: Instruction, wave_size: int):
        super().__init__(instruction, wave_size)
        fields, self.mnemonic = instruction.fields, instruction.mnemonic
        self.dim, self.words = fields["dim"], instruction.mnemonic.split("_")[1:]
        self.gather = "gather4" in self.words
        self._check(fields["tfe"] | fields["lwe"])
        self.axes = self.names.replace("z", "") if self.dim in _ARRAYS else self.names
        self.unscaled = bool(fields["unrm"])
        self.sampler_code = instruction.operand("ssamp" if "ssamp" in fields else "samp").code
        named = address_registers(instruction)[:-4]
        self.registers = [*named, *(named[-1] + k for k in range(1, _MOST))]
        self.bits = 16 if fields["d16"] else 32
        self.components = [k for k in range(4) if fields["dmask"] >> k & 1]
        count = 4 if self.gather else max(1, len(self.components))
        self.data = Registers(fields["vdata"], count, self.bits)
        self.sampler: Sampler
        self.border: Array

    def _check(self, status: int) -> None:
        problem = ""
        if status:
            problem = "TFE and LWE are not modelled"
        elif self.dim == _CUBE or (self.gather and self.dim not in _GATHERED):
            problem = f"images of dimension {DIMS[self.dim]} are not modelled"
        elif self.gather and self.instruction.fields["dmask"].bit_count() != 1:
            problem = f"DMASK {self.instruction.fields['dmask']:#x} of a gather does not choose one channel"
        if problem:
            raise IllegalInstruction(f"{self.mnemonic}: {problem}")

    # -- the address ------------------------------------------------------------------------------------------

    def run(self, g: Group) -> None:
        """Sample and write the registers."""
        super().start(g)
        self.sampler = Sampler(g, self.sampler_code)
        waves = self.image.usable & g.active.any(axis=1, keepdims=True)
        problem = self.sampler.problem(waves, self.axes, self.gather)
        if problem is not None:
            raise IllegalInstruction(f"{self.mnemonic}: {problem}")
        texels, reference = self._address(g)
        if self.gather:
            steps = [{"x": dx, "y": dy} for dx, dy in _ROW]
            out = [self._pick(g, texels, step, self.components, reference)[0] for step in steps]
        else:
            out = self._pick(g, texels, {}, self.components, reference)
        lanes = g.lanes_of(self.image.usable | ~self.image.bound)
        for k, value in enumerate(out):
            self.data.write(g, k, value, lanes)

    def _address(self, g: Group) -> tuple[dict[str, Array], Array]:
        """Texel numbers before clamping by coordinate, (n, L) int64, and the reference of a comparison, f32.

        Registers hold, in this order: offset, bias, reference, derivatives, coordinates, level or level clamp.
        """
        at = 0
        offset = reference = np.zeros((g.n, g.lanes), np.uint32)
        if "o" in self.words:
            offset, at = g.vector(self.registers[at]), at + 1
        at += "b" in self.words
        if "c" in self.words:
            reference, at = g.vector(self.registers[at]), at + 1
        if "d" in self.words:
            each = _DERIVATIVES[self.axes]
            at += 2 * ((each + 1) // 2 if "g16" in self.words else each)
        texels = {name: self._texel(name, self._coordinate(g, at, k), offset) for k, name in enumerate(self.names)}
        return texels, reference.view(np.float32)

    def _coordinate(self, g: Group, at: int, k: int) -> Array:
        """A coordinate as f32."""
        if self.half:
            short = np.ascontiguousarray(g.vector_half(self.registers[at + k // 2], k % 2))
            return short.view(np.float16).astype(np.float32)
        return np.ascontiguousarray(g.vector(self.registers[at + k])).view(np.float32)

    def _size(self, name: str) -> Array:
        return {"x": self.image.width, "y": self.image.height, "z": self.image.slices}[name]

    def _texel(self, name: str, coordinate: Array, offset: Array) -> Array:
        size = self._size(name)
        if name not in self.axes:
            rounded = np.rint(np.where(np.isnan(coordinate), 0, np.clip(coordinate, 0, _FAR)))
            return np.clip(rounded.astype(np.int64), 0, size - 1)
        unscaled = self.unscaled | (self.sampler.field("force_unnormalized") != 0)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = coordinate * np.where(unscaled, 1, size).astype(np.float32)
        kept = np.clip(np.where(np.isnan(scaled), 0, scaled), -_FAR, _FAR).astype(np.float64) * (1 << _FRACTION)
        cut = (self.sampler.field("trunc_coord") != 0) & (not self.gather)
        fixed = np.where(cut, np.floor(kept), np.rint(kept)).astype(np.int64)
        if self.gather:
            fixed -= 1 << _FRACTION - 1  # the centre of the first texel
        out: Array = (fixed >> _FRACTION) + _offset(offset, "xyz".index(name))
        return out

    # -- texels -----------------------------------------------------------------------------------------------

    def inside(self) -> Array:
        """The lanes whose texel exists and is shown, (n, L)."""
        out: Array = super().inside() & ~self.border
        return out

    def _pick(
        self, g: Group, texels: dict[str, Array], step: dict[str, int], chosen: list[int], reference: Array
    ) -> list[Array]:
        """The chosen components of the texels, moved by ``step``, as patterns."""
        self.border = np.zeros((g.n, g.lanes), np.bool_)
        for name, texel in texels.items():
            place = texel
            if name in self.axes:
                place, outside = self.sampler.clamp(name, texel + step.get(name, 0), self._size(name))
                self.border = self.border | outside
            setattr(self, name, place)
        out = [np.zeros((g.n, g.lanes), np.uint32) for _ in chosen or [0]]
        for fmt, waves in self.formats(g):
            self.aim(fmt.nbytes, waves)
            words = [self.load(self.addr + np.uint64(at), bits, None).astype(np.uint32) for at, bits in parts(fmt)]
            values = self._components(fmt, words, reference)
            out = [np.where(waves, values[c], out[k]) for k, c in enumerate(chosen)] or out
        return out

    def _components(self, fmt: DataFormat, words: list[Array], reference: Array) -> list[Array]:
        """X, Y, Z, W as DST_SEL makes them."""
        one = format_convert.one(fmt, self.bits)
        if "c" in self.words:
            channels = border = [self._compared(fmt, words, reference)]
        else:
            channels = [format_convert.load_channel(fmt, c, words, self.bits) for c in range(len(fmt.channels))]
            border = self.sampler.border(one)
        selectors = [self.image.selector(k) for k in range(4)]
        return [np.where(self.border, select(s, border, one), select(s, channels, one)) for s in selectors]

    def _compared(self, fmt: DataFormat, words: list[Array], reference: Array) -> Array:
        """1.0 or 0.0 for every lane."""
        if len(fmt.channels) != 1 or fmt.integer:
            raise IllegalInstruction(f"{self.mnemonic}: a comparison with texels of format {fmt.name}")
        loaded = format_convert.load_channel(fmt, 0, words, 32)
        texel = np.where(self.border, self.sampler.border(_ONE[32])[0], loaded).astype(np.uint32).view(np.float32)
        if fmt.channels[0].number == "unorm":
            reference = np.clip(reference, 0, 1)
        return self.sampler.compare(reference, texel).astype(np.uint32) * np.uint32(_ONE[self.bits])


def _offset(packed: Array, axis: int) -> Array:
    """The signed six bits of one axis of a packed offset, in texels."""
    bits = packed.astype(np.int64) >> 8 * axis & 0x3F
    out: Array = (bits ^ 0x20) - 0x20
    return out
