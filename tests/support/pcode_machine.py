"""A small machine for programs of the pseudocode, and short names for its nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mockgpu.pcode import ir, oracle
from mockgpu.pcode import numeric as num
from mockgpu.pcode.ir import U1, U32, Type
from mockgpu.pcode.numeric import Denorm, Mode

#: Waves and lanes.
W, L = 2, 4


class Machine:
    """Operands, lane masks, registers and memory as plain arrays and dictionaries."""

    def __init__(self, mode: Mode | None = None, **operands: Any) -> None:
        self.waves, self.lanes, self.wave_size = W, L, L
        self.mode = mode or Mode(denorm_f32=Denorm.KEEP)
        self.operands: dict[str, np.ndarray] = operands
        self.masks: dict[str, np.ndarray] = {"EXEC": np.ones((W, L), np.bool_)}
        self.vgprs = np.arange(8 * W * L, dtype=np.uint32).reshape(8, W, L)
        self.sgprs = np.arange(16, dtype=np.uint32)
        self.memory: dict[int, int] = {}
        self.log: list[Any] = []

    def read(self, name: str, bits: int) -> np.ndarray:
        self.log.append(("read", name))
        return num.resize(self.operands[name], 128 if self.operands[name].dtype == object else 64, bits)

    def write(self, name: str, value: np.ndarray, bits: int, mask: np.ndarray | None) -> None:
        assert value.dtype == num.container(bits)
        new = np.broadcast_to(value, (W, L))
        old = self.operands.get(name, np.zeros((W, L), new.dtype))
        self.operands[name] = new.copy() if mask is None else np.where(mask, new, old)

    def read_lane_mask(self, name: str) -> np.ndarray:
        return self.masks[name]

    def write_lane_mask(self, name: str, value: np.ndarray, mask: np.ndarray | None) -> None:
        new = np.broadcast_to(value, (W, L))
        self.masks[name] = new if mask is None else np.where(mask, new, self.masks[name])

    def read_vgpr(self, lane: np.ndarray, reg: np.ndarray) -> np.ndarray:
        lanes, regs = np.broadcast_arrays(np.asarray(lane, np.int64), np.asarray(reg, np.int64))
        waves = np.arange(W)[:, None]
        return self.vgprs[regs, waves, lanes]

    def write_vgpr(self, lane: np.ndarray, reg: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        assert mask is None
        self.vgprs[int(reg), :, int(lane)] = np.broadcast_to(value, (W, 1))[:, 0]

    def read_sgpr(self, reg: np.ndarray) -> np.ndarray:
        return self.sgprs[np.broadcast_to(np.asarray(reg, np.int64), (W, 1))]

    def write_sgpr(self, reg: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        self.sgprs[int(reg)] = np.ravel(value)[0]

    def read_hwreg(self, index: np.ndarray) -> np.ndarray:
        return np.asarray(index) + np.uint32(100)

    def write_hwreg(self, index: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        self.log.append(("hwreg", int(index), int(np.ravel(value)[0])))

    def load(self, addr: np.ndarray, bits: int, mask: np.ndarray | None) -> np.ndarray:
        allowed = np.broadcast_to(True if mask is None else mask, (W, L))
        self.log.append(("load", int(np.count_nonzero(allowed))))
        flat = [self.memory.get(int(a), 0) for a in np.broadcast_to(addr, (W, L)).ravel()]
        return np.array(flat, num.container(bits)).reshape(W, L)

    def store(self, addr: np.ndarray, value: np.ndarray, bits: int, mask: np.ndarray | None) -> None:
        allowed = np.broadcast_to(True if mask is None else mask, (W, L))
        for a, v in zip(np.broadcast_to(addr, (W, L))[allowed], np.broadcast_to(value, (W, L))[allowed], strict=True):
            self.memory[int(a)] = int(v)

    def effect(self, fn: str, args: tuple[np.ndarray, ...], mask: np.ndarray | None) -> None:
        self.log.append((fn, [int(np.ravel(a)[0]) for a in args]))


class SlicedMachine(Machine):
    """A context that can read and write single dwords of wide operands."""

    def read_slice(self, name: str, lo: int, bits: int) -> np.ndarray:
        self.log.append(("read_slice", name, lo, bits))
        return ((self.operands[name] >> lo) & ((1 << bits) - 1)).astype(num.container(bits))

    def write_slice(self, name: str, lo: int, value: np.ndarray, bits: int, mask: np.ndarray | None) -> None:
        self.log.append(("write_slice", name, lo, bits))
        assert mask is None
        hole = ((1 << bits) - 1) << lo
        self.operands[name] = (self.operands[name] & ~hole) | (num.boxed(np.broadcast_to(value, (W, L))) << lo)


def program(*body: ir.Stmt) -> ir.Program:
    return ir.Program(tuple(body), frozenset(), frozenset(), "")


def run(machine: Machine, *body: ir.Stmt, mask: np.ndarray | None = None) -> Machine:
    oracle.compile_program(program(*body)).run(machine, mask)
    return machine


def const(value: int, type: Type = U32) -> ir.Const:
    return ir.Const(type, value)


def op(name: str, type: Type = U32) -> ir.Operand:
    return ir.Operand(type, name)


def local(name: str, type: Type = U32) -> ir.Local:
    return ir.Local(type, name)


def add(a: ir.Expr, b: ir.Expr) -> ir.Binary:
    return ir.Binary(a.type, "add", a, b)


def less(a: ir.Expr, b: ir.Expr) -> ir.Binary:
    return ir.Binary(U1, "lt", a, b)


def lanes(*values: int, dtype: Any = np.uint32) -> np.ndarray:
    return np.array([values, [v + 10 for v in values]], dtype)


D0 = op("D0")
