"""One instruction at a time on prepared waves and a block of memory, built from raw fields, without an engine."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from mockgpu.isa.arch import get_arch
from mockgpu.isa.canonical import table_opcodes
from mockgpu.isa.encode import build
from mockgpu.isa.opcode import Opcode
from mockgpu.machine.execute import build_step
from mockgpu.machine.memory import Memory
from mockgpu.machine.vectors import HostMemory
from mockgpu.machine.waves import EXEC, Batch, Group

DESCRIPTOR = 8  # scalar register of the descriptor


class Bench:
    """``waves`` waves of one workgroup; ``data`` are the bytes of the memory at ``va``."""

    def __init__(
        self, name: str, *, wave_size: int | None = None, waves: int = 1, size: int = 1 << 14, lds: int = 4096
    ):
        self.arch = get_arch(name)
        self.lanes = wave_size or self.arch.wave_sizes[0]
        self.memory = Memory()
        block = HostMemory(self.memory, size)
        self.block, self.va = block, block.va
        self.data: npt.NDArray[np.uint8] = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(self.va))
        self.batch = Batch(self.arch, waves, self.lanes, self.arch.vgprs, [(0, 0, 0)], lds, "bench")
        self.batch.sgpr[EXEC] = self.batch.sgpr[EXEC + 1] = 0xFFFFFFFF
        self.group()

    @property
    def words(self) -> npt.NDArray[np.uint32]:
        """The memory as dwords."""
        words: npt.NDArray[np.uint32] = self.data.view(np.uint32)
        return words

    def group(self) -> Group:
        """All waves as a group."""
        return Group(self.batch, slice(0, self.batch.waves), self.batch.waves, self.memory, 0x1000, 0xF0)

    def fill(self, seed: int = 1) -> npt.NDArray[np.uint8]:
        """Random bytes in memory; a copy of them."""
        self.data[:] = np.random.default_rng(seed).integers(0, 256, self.data.size, np.uint8)
        copied: npt.NDArray[np.uint8] = self.data.copy()
        return copied

    def vector(self, reg: int, values: Any) -> None:
        """Set a vector register of all waves."""
        self.batch.vgpr[reg] = np.asarray(values).astype(np.uint32)

    def scalar(self, reg: int, value: int, dwords: int = 1) -> None:
        """Set scalar registers of all waves."""
        for k in range(dwords):
            self.batch.sgpr[reg + k] = value >> 32 * k & 0xFFFFFFFF

    def exec(self, mask: int) -> None:
        """Set EXEC."""
        self.scalar(EXEC, mask, 2)

    def run(self, name: str, encoding: str | None = None, /, **fields: int) -> None:
        """Execute an instruction by its table name."""
        instruction = build(self.arch, opcode_of(self.arch.name, name, encoding), encoding, **fields)
        build_step(instruction, self.lanes).run(self.group())

    def buffer(self, name: str, **fields: int) -> None:
        """Execute a buffer instruction with the descriptor in DESCRIPTOR."""
        null = self.arch.null_register
        common = {"soffset": 128 if null is None else null}
        common |= {"rsrc": DESCRIPTOR} if self.arch.tables == "rdna4" else {"srsrc": DESCRIPTOR // 4}
        if "offset" in fields and self.arch.tables == "rdna4":
            fields["ioffset"] = fields.pop("offset")
        self.run(name, None, **common | fields)

    def image(self, name: str, encoding: str | None = None, /, **fields: int) -> None:
        """Execute an image instruction with the descriptor in DESCRIPTOR."""
        rdna4 = self.arch.tables == "rdna4"
        if rdna4:
            coordinates = {f"vaddr{k}": fields.get("vaddr", 0) + k for k in range(5)}
            fields = coordinates | {name: value for name, value in fields.items() if name != "vaddr"}
        common = {"rsrc": DESCRIPTOR} if rdna4 else {"srsrc": DESCRIPTOR // 4}
        self.run(name, encoding, **common | fields)


def opcode_of(arch: str, name: str, encoding: str | None = None) -> Opcode:
    """An opcode by its table name; of several formats that of the encoding, else the last one (never FLAT)."""
    found = [o for o in table_opcodes(get_arch(arch)) if o.name == name]
    if encoding is not None:
        found = [o for o in found if encoding.startswith(o.format)]
    return found[-1]


def raw_buffer(va: int, records: int, **fields: int) -> int:
    """A descriptor of RDNA; fields: stride, swizzle, dst_sel (12 bits), format, scale, index_stride, add_tid, oob."""
    word3 = fields.get("dst_sel", 0o7654) | fields.get("format", 22) << 12 | fields.get("scale", 0) << 18
    word3 |= fields.get("index_stride", 0) << 21 | fields.get("add_tid", 0) << 23 | fields.get("oob", 3) << 28
    word1 = fields.get("stride", 0) << 16 | fields.get("swizzle", 0) << 30
    return va | word1 << 32 | records << 64 | word3 << 96


def cdna_buffer(va: int, records: int, **fields: int) -> int:
    """A descriptor of CDNA; fields: stride, swizzle, dst_sel (12 bits), nfmt, dfmt, index_stride, add_tid."""
    word3 = fields.get("dst_sel", 0o7654) | fields.get("nfmt", 7) << 12 | fields.get("dfmt", 4) << 15
    word3 |= fields.get("index_stride", 0) << 21 | fields.get("add_tid", 0) << 23
    word1 = fields.get("stride", 0) << 16 | fields.get("swizzle", 0) << 31
    return va | word1 << 32 | records << 64 | word3 << 96
