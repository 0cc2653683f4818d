"""Data-parallel primitives: source 0 from another lane, by patterns known when code is made. See machine/dpp.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from mockgpu.machine.dpp import shuffle_of
from mockgpu.machine.native.emitter import I1, I32, Emitter
from mockgpu.pcode.llvm.values import Builder, Value, broadcast, lanes_of, same


class Shuffled:
    """The DPP modifier of an instruction. ``active`` are the lanes that it writes."""

    def __init__(self, e: Emitter, dpp: Any, active: Value):
        self.lanes = e.lanes
        self.shuffle = shuffle_of(e.arch, dpp, e.lanes)
        s, b = self.shuffle, e.b
        self.invalid: Value | None = None
        if not s.exists.all():
            self.invalid = _flags(~s.exists)
        if not s.fetch_inactive:
            off = b.not_(self._moved(b, active))
            self.invalid = off if self.invalid is None else b.or_(self.invalid, off)
        enabled = _flags(s.enabled)
        if not s.zero and self.invalid is not None:
            enabled = b.and_(enabled, b.not_(self.invalid))
        self.active = b.and_(active, enabled)

    def _moved(self, b: Builder, value: Value) -> Value:
        order = ir.Constant(ir.VectorType(I32, self.lanes), [int(n) for n in self.shuffle.source])
        return b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order)

    def apply(self, b: Builder, value: Value) -> Value:
        """``value`` as the lanes read it."""
        if lanes_of(value) > 1:
            value = self._moved(b, value)
        if self.invalid is None or not self.shuffle.zero:
            return value
        value = broadcast(b, value, self.lanes)
        return b.select(self.invalid, same(value, 0), value)


def _flags(values: Any) -> ir.Constant:
    flags = np.asarray(values, np.bool_)
    return ir.Constant(ir.VectorType(I1, len(flags)), [int(flag) for flag in flags])
