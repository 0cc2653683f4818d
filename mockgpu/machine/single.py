"""Runs one instruction on a small prepared machine: one wave whose addresses and descriptors lead to zeroed memory."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from mockgpu.isa.arch import Arch
from mockgpu.isa.instruction import Instruction, Operand
from mockgpu.isa.operands import Register
from mockgpu.isa.registers import Kind
from mockgpu.machine.image_resource import descriptor
from mockgpu.machine.memory import Memory
from mockgpu.machine.oracle_engine import OracleEngine
from mockgpu.machine.vectors import HSA_MODE, HostMemory
from mockgpu.machine.waves import EXEC, Batch

_DATA_BYTES = 1 << 16
_LDS_BYTES = 1 << 14
_SCRATCH_PER_LANE = 1 << 10
_LANE_STEP = 128  # bytes between the addresses of neighbouring lanes
#: Last dword of a buffer descriptor: one 32-bit float, X from the data; RDNA: bounds by bytes.
_RAW_BUFFER = {"rdna3": 3 << 28 | 22 << 12 | 4, "rdna4": 3 << 28 | 22 << 12 | 4, "cdna": 4 << 15 | 7 << 12 | 4}
_IMAGE = {"type": 9, "format": 22, "width": 63, "height": 63, "dst_sel": 4}  # 64 x 64 texels, linear, 32-bit floats
_IMAGE_FORMATS = ("MIMG", "VIMAGE", "VSAMPLE")
_ADDRESSES = ("addr", "vaddr")
_JUMPS = ("s_setpc", "s_swappc", "s_rfe")
_LDS_FORMATS = ("DS", "VDS")


class SingleStep:
    """A machine for one target; every run starts from a fresh state.

    All registers are zero but those that hold an address, a descriptor or the bound of LDS; EXEC is all ones, MODE is
    what a kernel starts with.
    """

    def __init__(self, arch: Arch, wave_size: int | None = None):
        self.arch = arch
        self.lanes = wave_size or arch.wave_sizes[0]
        self.engine = OracleEngine(arch)
        self.memory = Memory()
        self.code = HostMemory(self.memory, 1)
        self.data = HostMemory(self.memory, _DATA_BYTES)
        self.scratch = HostMemory(self.memory, _SCRATCH_PER_LANE * self.lanes)

    def run(self, instruction: Instruction, registers: Mapping[Register, list[int]] | None = None) -> Batch:
        """Execute the instruction and return the wave. ``registers`` are dwords, one per lane or one for all.

        Raises GuestFault; IllegalInstruction where it has no semantics.
        """
        raw = instruction.raw.to_bytes(instruction.size, "little")
        ctypes.memmove(self.code.va, raw, len(raw))
        ctypes.memset(self.data.va, 0, _DATA_BYTES)
        batch = self._batch()
        end = self.code.va + len(raw)
        for operand in instruction.operands:
            self._point(batch, instruction, operand, end)
        for register, values in (registers or {}).items():
            _set(batch, register, values)
        self.engine.run_code(batch, self.memory, end, timeout=10.0)
        return batch

    def _batch(self) -> Batch:
        arch = self.arch
        batch = Batch(arch, 1, self.lanes, arch.vgprs, [(0, 0, 0)], _LDS_BYTES, "single")
        batch.pc[:] = self.code.va
        batch.mode[:] = HSA_MODE
        batch.sgpr[EXEC : EXEC + self.lanes // 32] = 0xFFFFFFFF
        if arch.dynamic_vgprs:
            batch.dynamic_vgprs = np.full(1, arch.vgprs)
        batch.scratch_bytes = _SCRATCH_PER_LANE * self.lanes
        batch.scratch[:] = self.scratch.va
        return batch

    def _point(self, batch: Batch, instruction: Instruction, operand: Operand, end: int) -> None:
        """Give an operand that is an address something to point at."""
        name, code = operand.field, operand.code
        if name in _ADDRESSES:
            self._point_vector(batch, instruction, operand)
        elif name in ("srsrc", "rsrc") and instruction.format in _IMAGE_FORMATS:
            _write(batch, code, descriptor(self.arch.family, base=self.data.va >> 8, **_IMAGE), 8)
        elif name in ("srsrc", "rsrc") or (name == "sbase" and operand.bits == 128):
            _write(batch, code, self.data.va | _DATA_BYTES << 64 | _RAW_BUFFER[self.arch.family] << 96, 4)
        elif name in ("sbase", "saddr") and operand.kind is not Kind.NULL:
            _write(batch, code, self.data.va, 2)
        elif name == "ssrc0" and instruction.mnemonic.startswith(_JUMPS):
            _write(batch, code, end, 2)
        elif name == "sdst" and instruction.mnemonic.startswith("s_setreg"):
            _write(batch, code, HSA_MODE, 1)

    def _point_vector(self, batch: Batch, instruction: Instruction, operand: Operand) -> None:
        offsets = np.arange(self.lanes, dtype=np.uint64) * np.uint64(_LANE_STEP)
        if instruction.format in _LDS_FORMATS:
            batch.vgpr[operand.index, 0] = offsets % np.uint64(_LDS_BYTES)
            if self.arch.family == "cdna":  # M0 bounds accesses to LDS
                batch.sgpr[self.arch.m0_register] = 0x1FFFF
        elif operand.bits == 64:
            address = offsets + np.uint64(self.data.va)
            batch.vgpr[operand.index, 0] = address & np.uint64(0xFFFFFFFF)
            batch.vgpr[operand.index + 1, 0] = address >> np.uint64(32)


def _write(batch: Batch, code: int, value: int, count: int) -> None:
    for k in range(count):
        batch.sgpr[code + k] = value >> 32 * k & 0xFFFFFFFF


def _set(batch: Batch, register: Register, values: list[int]) -> None:
    if register.file == "scc":
        batch.scc[:] = bool(values[0])
    elif register.file == "s":
        batch.sgpr[register.number] = values[0]
    else:
        row = register.number + (256 if register.file == "a" else 0)
        filled = (values * batch.lanes)[: batch.lanes]
        batch.vgpr[row, 0] = np.array(filled, np.uint32)
