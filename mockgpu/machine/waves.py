"""The architectural state of a batch of waves, and views of some of them that run in lockstep.

A batch holds W waves of L lanes. Scalar registers are indexed by their operand encoding (0..127: SGPRs, VCC,
TTMPs, M0, EXEC), so that a register number of an instruction is a row of the array. Registers are bit patterns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mockgpu.isa.arch import Arch
from mockgpu.machine.memory import Memory
from mockgpu.machine.words import Words
from mockgpu.pcode.numeric_mode import Mode

Array: TypeAlias = npt.NDArray[Any]
Index: TypeAlias = "slice | npt.NDArray[np.intp]"

SCALARS = 128
VCC, EXEC, TTMP = 106, 126, 108
ACCUMULATION = 256  # row of the first accumulation register

#: Why a wave does not run: it waits at S_BARRIER, it has ended, it waits for a split barrier.
RUNNING, BARRIER, ENDED, WAITING = 0, 1, 2, 3


def unpack_lanes(low: Array, high: Array | None, lanes: int) -> npt.NDArray[np.bool_]:
    """Lane masks of n waves, as one or two arrays of n dwords, spread to booleans of shape (n, lanes)."""
    words = low[:, None] if high is None or lanes == 32 else np.stack((low, high), axis=1)
    raw = np.ascontiguousarray(words).view(np.uint8)
    return np.unpackbits(raw, axis=1, bitorder="little").view(np.bool_)


def pack_lanes(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
    """Booleans of shape (n, lanes) packed to dwords of shape (n, lanes / 32)."""
    packed: npt.NDArray[np.uint32] = np.packbits(mask, axis=1, bitorder="little").view(np.uint32)
    return packed


@dataclass
class Batch:
    """W waves of whole workgroups.

    Shapes: ``sgpr`` (128, W), ``vgpr`` (R, W, L) with the accumulation registers behind the others, ``scc``, ``mode``,
    ``pc``, ``state``, ``group`` and ``ordinal`` (W,). ``group`` is the index of a wave's workgroup in ``workgroups``,
    ``ordinal`` its number inside it.
    ``lds`` (groups, bytes) is the LDS of every workgroup, rounded up to 16 bytes; ``lds_bytes`` what it owns.
    """

    arch: Arch
    waves: int
    lanes: int
    vgprs: int
    workgroups: list[tuple[int, int, int]] = field(default_factory=list)
    lds_bytes: int = 0
    kernel: str = ""
    accs: int = -1  # accumulation registers; -1 stands for as many as the target has

    def __post_init__(self) -> None:
        w = self.waves
        if self.accs < 0:
            self.accs = self.arch.acc_vgprs
        self.sgpr = np.zeros((SCALARS, w), np.uint32)
        rows = ACCUMULATION + self.accs if self.arch.acc_vgprs else self.vgprs
        self.vgpr = np.zeros((rows, w, self.lanes), np.uint32)
        self.half = self.vgpr.view(np.uint16).reshape(rows, w, self.lanes, 2)
        self.scc = np.zeros(w, np.bool_)
        self.mode = np.zeros(w, np.uint32)
        self.trapsts = np.zeros(w, np.uint32)
        self.sched_mode = np.zeros(w, np.uint32)
        self.trap_ctrl = np.zeros(w, np.uint32)
        self.pc = np.zeros(w, np.int64)
        self.state = np.zeros(w, np.uint8)
        self.group = np.zeros(w, np.int64)
        self.ordinal = np.zeros(w, np.int64)
        self.scratch = np.zeros(w, np.uint64)  # byte address of the wave's scratch
        self.scratch_bytes = 0  # of one wave
        self.lds_stride = (self.lds_bytes + 15) & ~15
        self.lds = np.zeros(max(1, len(self.workgroups)) * self.lds_stride + 16, np.uint8)
        self.lds_words = Words(self.lds)
        self.lane_ids = np.arange(self.lanes, dtype=np.uint32)[None, :]
        self.observer: Any = None  # an Observer, set while one watches
        self.barriers: Any = None  # the mockgpu.machine.barrier.Barriers of a batch that uses split barriers
        self.dynamic_vgprs: Array | None = None  # (W,) registers of each wave, where a kernel may change their number
        self.interrupts: list[int] = []  # M0 of every MSG_INTERRUPT that waves sent, in order
        self.clock = 0  # instructions executed so far: a deterministic cycle counter

    def exec_mask(self, index: Index) -> npt.NDArray[np.bool_]:
        """EXEC of some waves as booleans (n, L)."""
        return unpack_lanes(self.sgpr[EXEC, index], self.sgpr[EXEC + 1, index], self.lanes)


class Group:
    """Some waves of a batch with the same PC and MODE: what an instruction executes on.

    ``index`` selects the waves along the W axis (a slice where they are neighbours, which costs no copy).
    ``exec`` is None while every lane of every wave is active, else booleans (n, L).
    ``mode`` is the MODE register, ``float_mode`` what it says about arithmetic.
    ``pc`` is the address of the executing instruction. ``moved`` says that the waves' PCs were written, ``changed``
    that their MODE or state was, so that they may no longer be a group.
    """

    __slots__ = (
        "active", "batch", "changed", "exec", "float_mode", "index", "lanes", "memory", "mode", "moved", "n", "pc",
        "whole",
    )  # fmt: skip

    def __init__(self, batch: Batch, index: Index, n: int, memory: Memory, pc: int, mode: int):
        self.batch, self.index, self.n, self.memory = batch, index, n, memory
        self.whole = isinstance(index, slice)
        self.lanes = batch.lanes
        self.pc, self.mode = pc, mode
        self.float_mode = Mode.from_register(mode, batch.arch.family, fp8_fnuz=batch.arch.fp8_fnuz)
        self.moved = self.changed = False
        self.exec: npt.NDArray[np.bool_] | None = None
        self.active: npt.NDArray[np.bool_]
        self.refresh_exec()

    def refresh_exec(self) -> None:
        """Recompute the lane masks after EXEC was written."""
        self.active = self.batch.exec_mask(self.index)
        self.exec = None if self.active.all() else self.active

    # -- scalar registers -------------------------------------------------------------------------------------

    def scalar(self, code: int) -> Array:
        """A scalar register by operand encoding, (n, 1) uint32; a copy."""
        return self.batch.sgpr[code, self.index, None].copy()

    def scalar64(self, code: int) -> Array:
        """A pair of scalar registers, (n, 1) uint64."""
        rows = self.batch.sgpr
        wide = rows[code + 1, self.index].astype(np.uint64) << np.uint64(32) | rows[code, self.index]
        return wide[:, None]

    def write_scalar(self, code: int, value: Array, mask: Array | None = None) -> None:
        """Write one scalar register of the waves. ``value`` and ``mask`` broadcast to (n, 1)."""
        row = self.batch.sgpr[code]
        row[self.index, None] = value if mask is None else np.where(mask, value, row[self.index, None])
        if code >= EXEC:
            self.refresh_exec()

    # -- vector registers -------------------------------------------------------------------------------------

    def vector(self, reg: int) -> Array:
        """A vector register, (n, L) uint32; a view where the waves are neighbours."""
        return self.batch.vgpr[reg, self.index]

    def vector_half(self, reg: int, high: int) -> Array:
        """One half of a vector register, (n, L) uint16."""
        return self.batch.half[reg, self.index, :, high]

    def vector64(self, reg: int) -> Array:
        """A pair of vector registers, (n, L) uint64."""
        out = np.empty((self.n, self.lanes, 2), np.uint32)
        out[:, :, 0] = self.batch.vgpr[reg, self.index]
        out[:, :, 1] = self.batch.vgpr[reg + 1, self.index]
        return out.view(np.uint64)[:, :, 0]

    def write_vector(self, reg: int, value: Array, mask: Array | None) -> None:
        """Write the lanes of a vector register that ``mask`` selects (None: all of them)."""
        self._write(self.batch.vgpr[reg], value, mask)

    def write_half(self, reg: int, high: int, value: Array, mask: Array | None) -> None:
        self._write(self.batch.half[reg, :, :, high], value, mask)

    def _write(self, row: Array, value: Array, mask: Array | None) -> None:
        if mask is None:
            row[self.index] = value
        elif self.whole:
            np.copyto(row[self.index], value, where=mask, casting="unsafe")
        else:
            kept = row[self.index]
            np.copyto(kept, value, where=mask, casting="unsafe")
            row[self.index] = kept

    def lanes_of(self, mask: Array | None) -> Array | None:
        """The lanes to write: EXEC and ``mask``. None means all of them."""
        if mask is None:
            return self.exec
        return mask if self.exec is None else self.exec & mask

    # -- program counter --------------------------------------------------------------------------------------

    def jump(self, target: Array, mask: Array | None = None) -> None:
        """Set the PC, int64, of the waves that ``mask`` (n, 1) selects; the others go on behind this instruction."""
        pc = self.batch.pc
        pc[self.index, None] = target if mask is None else np.where(mask, target, pc[self.index, None])
        self.moved = True
