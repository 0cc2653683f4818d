"""The context of image instructions: descriptor, coordinates, addresses, and which lanes have a texel.

Sources: "Image Opcodes with No Sampler" and "VGPR Usage" of the RDNA3 and RDNA4 manuals.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.formats import DataFormat, unified_format
from mockgpu.machine.image_resource import Image
from mockgpu.machine.memory_context import MemoryContext
from mockgpu.machine.space import GLOBAL
from mockgpu.machine.waves import Array, Group

#: Coordinates of each DIM: which of x, y, z (slice, face) they are.
_DIMS = {0: "x", 1: "xy", 2: "xyz", 3: "xyz", 4: "xz", 5: "xyz"}
_NOWHERE = 1 << 60  # addresses of lanes without a texel: distinct, and never accessed
_WIDEST = 16  # bytes


class ImageContext(MemoryContext):
    """Texels of images: coordinates, addresses and which lanes have a texel.

    ``image`` is the waves' descriptor, ``x``, ``y``, ``z`` the coordinates, (n, L) int64, ``level`` the mip level.
    """

    allows_bursts = False

    def __init__(self, instruction: Instruction, wave_size: int):
        super().__init__(instruction, wave_size, GLOBAL, lambda g: self._aimed)
        fields = instruction.fields
        if fields["dim"] not in _DIMS:
            raise IllegalInstruction(f"{instruction.mnemonic}: multisampled images are not modelled")
        self.code = instruction.operand("srsrc" if "srsrc" in fields else "rsrc").code
        self.short, self.half = bool(fields["r128"]), bool(fields["a16"])
        query = instruction.mnemonic == "image_get_resinfo"
        self.names = "" if query else _DIMS[fields["dim"]]
        self.has_level = query or "_mip" in instruction.mnemonic
        self.registers = address_registers(instruction)
        self._aimed: Array
        self.image: Image
        self.x: Array
        self.y: Array
        self.z: Array
        self.level: Array
        self.chosen: Array

    def start(self, g: Group) -> None:
        """Attach to the waves, read the descriptor and the coordinates."""
        self._aimed = np.zeros((1, 1), np.uint64)
        self.begin(g)
        self.image = Image(self.arch, g, self.code, short=self.short)
        values = [self._component(g, k) for k in range(len(self.names) + self.has_level)]
        by_name = dict(zip(self.names, values, strict=False))
        zero = np.zeros((g.n, g.lanes), np.int64)
        self.x, self.y, self.z = (by_name.get(name, zero) for name in "xyz")
        self.level = values[-1] if self.has_level else zero

    def _component(self, g: Group, k: int) -> Array:
        if self.half:
            return g.vector_half(self.registers[k // 2], k % 2).astype(np.int64)
        return g.vector(self.registers[k]).astype(np.int64)

    def inside(self) -> Array:
        """The lanes whose texel exists, (n, L)."""
        out: Array = self.image.usable & (self.level == 0) & self.image.inside(self.x, self.y, self.z)
        return out

    def formats(self, g: Group) -> Iterator[tuple[DataFormat, Array]]:
        """The formats of the images that waves with active lanes use, and those waves, (n, 1).

        Raises IllegalInstruction for images that are not modelled.
        """
        used = self.image.usable & g.active.any(axis=1, keepdims=True)
        problem = self.image.problem(used)
        if problem is not None:
            raise IllegalInstruction(f"{self.instruction.mnemonic}: {problem}")
        for number in np.unique(self.image.format[used]):
            fmt = self._format(int(number))
            if fmt is not None:
                yield fmt, used & (self.image.format == number)

    def _format(self, number: int) -> DataFormat | None:
        try:
            return unified_format(number)
        except LookupError as e:
            raise IllegalInstruction(f"{self.instruction.mnemonic}: {e.args[0]}") from None

    def aim(self, nbytes: int, waves: Array) -> None:
        """Compute the addresses of texels of ``nbytes`` bytes in the given waves, (n, 1)."""
        self.chosen = self.inside() & waves
        nowhere = _NOWHERE + np.arange(self.g.lanes, dtype=np.uint64) * np.uint64(_WIDEST)
        self._aimed = np.where(self.chosen, self.image.place(self.x, self.y, self.z, nbytes), nowhere)
        self.addr = self._aimed

    def load(self, addr: Array, bits: int, mask: Array | None) -> Array:
        """As MemoryContext's, for the lanes whose texel exists."""
        return super().load(addr, bits, self.chosen if mask is None else mask & self.chosen)

    def store(self, addr: Array, value: Array, bits: int, mask: Array | None) -> None:
        """As MemoryContext's, for the lanes whose texel exists."""
        super().store(addr, value, bits, self.chosen if mask is None else mask & self.chosen)


def address_registers(instruction: Instruction) -> list[int]:
    """The register of each 32-bit part of the address; the last one named is followed by its neighbours."""
    fields = instruction.fields
    named = [fields[name] for name in ("vaddr", "vaddr0", "vaddr1", "vaddr2", "vaddr3", "vaddr4") if name in fields]
    return [*named, *(named[-1] + k for k in range(1, 5))]
