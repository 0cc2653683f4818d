"""The evaluator's view of the machine while one instruction executes on a group of waves.

A :class:`Context` is built once per decoded instruction: it maps the names that the pseudocode uses (``S0``, ``D0``,
``SCC``, ``ADDR``, ...) to readers and writers of registers. ``begin`` attaches it to a group of waves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mockgpu.isa.arch import Arch
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.registers import VGPR_BASE
from mockgpu.machine import hwreg
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.operands import Reader, as_bits, constant, container, dword, is_zero, mask_reader, write_mask
from mockgpu.machine.waves import EXEC, VCC, Array, Group
from mockgpu.pcode.numeric_mode import Mode

BitsReader: TypeAlias = Callable[[Group, int], Array]
BitsWriter: TypeAlias = Callable[[Group, Array, int, "Array | None"], None]

#: Registers of other lanes that do not exist are read as this VGPR (source out of range).
OUT_OF_RANGE_VGPR = 0


#: Operands that are the raw value of a field.
_RAW_FIELDS = {
    "OPSEL": "opsel", "NEG": "neg", "NEG_HI": "neg_hi", "ABS": "abs", "OMOD": "omod", "SIMM16": "simm16",
    "OFFSET0": "offset0", "OFFSET1": "offset1", "SDATA": "sdata",
}  # fmt: skip
_ABSENT_IS_ZERO = frozenset({"OPSEL", "NEG", "NEG_HI", "ABS", "OMOD"})
#: Operands that are the number of the register that a field names.
_NUMBERS = {
    "src0": ("SRC0",), "ssrc0": ("SRC0",), "src1": ("SRC1",), "vsrc1": ("SRC1",), "ssrc1": ("SRC1",),
    "src2": ("SRC2",), "vdst": ("VDST", "DST"), "sdst": ("DST",), "addr": ("ADDR_REG",), "data0": ("DATA_REG",),
}  # fmt: skip


def _pair(code: int) -> BitsReader:
    return lambda g, bits: g.scalar64(code) if bits > 32 else as_bits(g.scalar(code), bits)


def _scc(g: Group, bits: int) -> Array:
    return g.batch.scc[g.index].astype(container(bits))[:, None]


def _fixed(value: int) -> BitsReader:
    of_width = functools.cache(lambda bits: constant(value, bits))
    return lambda g, bits: of_width(bits)


def _write_scc(g: Group, value: Array, bits: int, mask: Array | None) -> None:
    scc, new = g.batch.scc, as_bits(value, 1)
    scc[g.index, None] = new if mask is None else np.where(mask, new, scc[g.index, None])


def _write_pair(code: int) -> BitsWriter:
    def write(g: Group, value: Array, bits: int, mask: Array | None) -> None:
        g.write_scalar(code, as_bits(as_bits(value, bits), 64).astype(np.uint32), mask)
        if bits > 32:
            g.write_scalar(code + 1, (as_bits(value, 64) >> np.uint64(32)).astype(np.uint32), mask)

    return write


def _write_scalar(code: int) -> BitsWriter:
    return lambda g, value, bits, mask: g.write_scalar(code, as_bits(value, 32), mask)


def _jump(g: Group, value: Array, bits: int, mask: Array | None) -> None:
    g.jump(as_bits(value, 64).astype(np.int64), mask)


def _mode_part(lo: int, width: int) -> tuple[BitsReader, BitsWriter]:
    """Read and write ``width`` bits of MODE. The waves of a group agree in MODE only until it is written."""
    field = np.uint32(((1 << width) - 1) << lo)

    def read(g: Group, bits: int) -> Array:
        return as_bits((g.batch.mode[g.index, None] & field) >> np.uint32(lo), bits)

    def write(g: Group, value: Array, bits: int, mask: Array | None) -> None:
        old = g.batch.mode[g.index, None]
        new = old & ~field | as_bits(value, 32) << np.uint32(lo) & field
        g.batch.mode[g.index] = (new if mask is None else np.where(mask, new, old))[:, 0]

    return read, write


#: Parts of MODE that texts name: first bit and width. Those of CDNA are in the MODE table of the CDNA3 manual.
MODE_FIELDS = {"WAVE_MODE.GPR_IDX_EN": (27, 1), "VSKIP": (28, 1), "WAVE_MODE.CSP": (29, 3)}
_MODE_PARTS = {name: _mode_part(*place) for name, place in MODE_FIELDS.items()}


def _shift(lo: int, total: int) -> Any:
    dtype = container(total)
    return lo if dtype is object else dtype(lo)


class Context:
    """Implements the evaluator's context for scalar and vector instructions.

    ``reads``, ``writes``, ``mask_readers`` and ``masks`` are filled by the builder of the instruction's format.
    ``masks`` maps the name of a lane mask that is written to the scalar register that holds it. ``vector``
    instructions see L lanes, others 1.
    """

    def __init__(self, arch: Arch, instruction: Instruction, wave_size: int, *, vector: bool):
        self.arch, self.instruction, self.wave_size = arch, instruction, wave_size
        self.lanes = wave_size if vector else 1
        self.waves = 0
        self.mode = Mode()
        self.g: Group
        m0 = arch.m0_register
        self.reads: dict[str, BitsReader] = {
            "SCC": _scc,
            "VCC": _pair(VCC),
            "VCC_LO": _pair(VCC),
            "EXEC": _pair(EXEC),
            "EXEC_LO": _pair(EXEC),
            "EXEC_HI": _pair(EXEC + 1),
            "M0": _pair(m0),
            "PC": lambda g, bits: constant(g.pc, bits),
            "VCCZ": lambda g, bits: as_bits(is_zero(g, VCC), bits),
            "EXECZ": lambda g, bits: as_bits(is_zero(g, EXEC), bits),
            "LANE": lambda g, bits: as_bits(g.batch.lane_ids, bits),
            "WAVE_MODE.IEEE": lambda g, bits: constant(g.mode >> 9 & 1, bits),
            "WAVE_STATUS.PRIV": _fixed(0),
            "WAVE_STATUS.COND_DBG_SYS": _fixed(0),
            "WAVE_STATUS.COND_DBG_USER": _fixed(0),
            "MODE.SCALAR_PREFETCH_EN": _fixed(0),
            "WAVE32": _fixed(int(wave_size == 32)),
            "WAVE64": _fixed(int(wave_size == 64)),
        }
        self.writes: dict[str, BitsWriter] = {
            "SCC": _write_scc,
            "VCC": _write_pair(VCC),
            "EXEC": _write_pair(EXEC),
            "EXEC_LO": _write_scalar(EXEC),
            "M0": _write_scalar(m0),
            "PC": _jump,
        }
        for name, (get, put) in _MODE_PARTS.items():
            self.reads[name], self.writes[name] = get, put
        self.mask_readers: dict[str, Reader] = {"VCC": mask_reader(VCC)}
        self.masks: dict[str, int] = {"VCC": VCC, "EXEC": EXEC}
        self._fields(instruction)

    def _fields(self, instruction: Instruction) -> None:
        """Names that stand for the raw value of a field."""
        fields = instruction.fields
        for name, field in _RAW_FIELDS.items():
            if field in fields or name in _ABSENT_IS_ZERO:
                self.reads[name] = _fixed(fields.get(field, 0))
        if "opsel_hi" in fields:
            self.reads["OPSEL_HI"] = _fixed(fields["opsel_hi"] | fields.get("opsel_hi2", 0) << 2)
        if "offset0" in fields:
            self.reads["OFFSET"] = _fixed(fields["offset1"] << 8 | fields["offset0"])
        if instruction.literal is not None:
            self.reads["SIMM32"] = _fixed(instruction.literal)
            self.reads.setdefault("SIMM16", _fixed(instruction.literal & 0xFFFF))
        self.reads["SDWA_SRC0_SEL"] = _fixed(fields.get("src0_sel", 6))
        for view in instruction.operands:
            for name in _NUMBERS.get(view.field, ()):
                self.reads[name] = _fixed(view.index if view.code >= VGPR_BASE else view.code)

    def begin(self, g: Group) -> None:
        """Attach to the waves that execute now."""
        self.g = g
        self.waves = g.n
        self.mode = g.float_mode

    # -- the evaluator's protocol -----------------------------------------------------------------------------

    def read(self, name: str, bits: int) -> Array:
        """An operand's bits, broadcastable to (waves, lanes)."""
        try:
            get = self.reads[name]
        except KeyError:
            raise self.illegal(f"the operand {name} does not exist here") from None
        return get(self.g, bits)

    def write(self, name: str, value: Array, bits: int, mask: Array | None) -> None:
        """Write an operand where ``mask`` holds (None: everywhere)."""
        try:
            put = self.writes[name]
        except KeyError:
            raise self.illegal(f"the operand {name} cannot be written here") from None
        put(self.g, value, bits, mask)

    def read_slice(self, name: str, lo: int, bits: int) -> Array:
        """32 or 64 bits of a wide operand from bit ``lo``, a multiple of 32."""
        g, k = self.g, lo // 32
        get = self.reads.get(f"{name}.{k}")
        if get is None:
            return as_bits(self.read(name, lo + bits) >> _shift(lo, lo + bits), bits)
        if bits <= 32:
            return get(g, bits)
        high = self.reads[f"{name}.{k + 1}"](g, 64)
        both: Array = get(g, 64) | high << np.uint64(32)
        return both

    def write_slice(self, name: str, lo: int, value: Array, bits: int, mask: Array | None) -> None:
        """Write 32 or 64 bits of a wide operand from bit ``lo``, a multiple of 32."""
        for k in range(-(-bits // 32)):
            self.write(f"{name}.{lo // 32 + k}", dword(as_bits(value, bits), k), 32, mask)

    def read_lane_mask(self, name: str) -> Array:
        """The executing lane's bit of a lane mask, booleans (waves, lanes)."""
        if name == "EXEC":
            return self.g.active
        return self.mask_readers[name](self.g)

    def write_lane_mask(self, name: str, value: Array, mask: Array | None) -> None:
        """Write the lanes' bits of a mask; lanes that EXEC turns off get 0, lanes outside ``mask`` keep theirs."""
        g = self.g
        new = as_bits(value, 1)
        if mask is not None:
            new = np.where(mask, new, mask_reader(self.masks[name])(g))
        write_mask(g, self.masks[name], new if g.exec is None else new & g.exec)

    def read_vgpr(self, lane: Array, reg: Array) -> Array:
        """A VGPR of given lanes; lane and register number broadcast to (waves, lanes)."""
        g = self.g
        numbers, lanes = np.broadcast_arrays(reg.astype(np.int64), lane.astype(np.int64))
        lanes = lanes & (self.wave_size - 1)
        numbers = np.where((numbers < 0) | (numbers >= g.batch.vgprs), OUT_OF_RANGE_VGPR, numbers)
        if lanes.shape[0] == 1:
            lanes, numbers = (
                np.broadcast_to(lanes, (g.n, lanes.shape[1])),
                np.broadcast_to(numbers, (g.n, lanes.shape[1])),
            )
        return self._vgpr_rows(numbers, lanes)

    def _vgpr_rows(self, numbers: Array, lanes: Array) -> Array:
        waves = self._wave_numbers()
        out: Array = self.g.batch.vgpr[numbers, waves, lanes]
        return out

    def _wave_numbers(self) -> Array:
        return np.arange(self.g.batch.waves)[self.g.index][:, None]

    def write_vgpr(self, lane: Array, reg: Array, value: Array, mask: Array | None) -> None:
        """Write a VGPR of given lanes. EXEC applies only where the lane is the executing one.

        A register number out of range makes the write a no-operation.
        """
        g = self.g
        shape = (g.n, max(lane.shape[-1] if lane.ndim else 1, reg.shape[-1] if reg.ndim else 1))
        own = lane.ndim > 0 and lane.shape[-1] == self.lanes > 1
        if own:
            mask = g.lanes_of(mask)
        numbers = np.broadcast_to(reg.astype(np.int64), shape)
        lanes = np.broadcast_to(lane.astype(np.int64) & (self.wave_size - 1), shape)
        new = np.broadcast_to(as_bits(value, 32), shape)
        chosen = (numbers >= 0) & (numbers < g.batch.vgprs)
        if mask is not None:
            chosen = chosen & mask
        waves = np.broadcast_to(self._wave_numbers(), shape)
        g.batch.vgpr[numbers[chosen], waves[chosen], lanes[chosen]] = new[chosen]

    def read_sgpr(self, reg: Array) -> Array:
        """A scalar register by computed number, (waves, 1); the target says what numbers out of range read."""
        g = self.g
        numbers = np.broadcast_to(reg.astype(np.int64), (g.n, 1))
        inside = numbers < self.arch.sgprs
        fallback = self.arch.out_of_range_sgpr
        value: Array = g.batch.sgpr[np.where(inside, numbers, fallback or 0), self._wave_numbers()]
        return value if fallback is not None else np.where(inside, value, np.uint32(0))

    def write_sgpr(self, reg: Array, value: Array, mask: Array | None) -> None:
        """Write a scalar register by computed number; numbers out of range are ignored."""
        g = self.g
        numbers = np.broadcast_to(reg.astype(np.int64), (g.n, 1))
        chosen = numbers < self.arch.sgprs
        if mask is not None:
            chosen = chosen & mask
        waves = self._wave_numbers()
        g.batch.sgpr[numbers[chosen], waves[chosen]] = np.broadcast_to(as_bits(value, 32), (g.n, 1))[chosen]

    def read_hwreg(self, index: Array) -> Array:
        """A hardware register, (waves, 1). Raises IllegalInstruction for one that is not modelled."""
        try:
            return hwreg.read(self.arch.family, self.g, int(np.asarray(index).flat[0]))
        except LookupError as e:
            raise self.illegal(e.args[0]) from None

    def write_hwreg(self, index: Array, value: Array, mask: Array | None) -> None:
        """Write a hardware register. Raises IllegalInstruction for one that is not modelled."""
        try:
            hwreg.write(self.arch.family, self.g, int(np.asarray(index).flat[0]), as_bits(value, 32), mask)
        except LookupError as e:
            raise self.illegal(e.args[0]) from None

    def load(self, addr: Array, bits: int, mask: Array | None) -> Array:
        """Memory of the instruction. Only memory instructions have any."""
        raise self.illegal("the instruction has no memory")

    def store(self, addr: Array, value: Array, bits: int, mask: Array | None) -> None:
        """Memory of the instruction. Only memory instructions have any."""
        raise self.illegal("the instruction has no memory")

    def effect(self, fn: str, args: tuple[Array, ...], mask: Array | None) -> None:
        """Calls for effect. Waiting and prefetching have none here: every instruction completes at once."""
        if fn not in NO_EFFECT:
            raise self.illegal(f"the effect {fn} is not modelled")

    def illegal(self, why: str) -> IllegalInstruction:
        """An IllegalInstruction of this instruction."""
        return IllegalInstruction(f"{self.instruction.mnemonic}: {why}")


#: Effects that change nothing that a program can see on a machine where every instruction completes at once.
NO_EFFECT = frozenset({"wait_idle", "nop", "s_nop", "s_sleep", "PrefetchScalarData", "PrefetchScalarInst"})
