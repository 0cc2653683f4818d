"""One wave of a few lanes in which a lowered program runs on the oracle, for tests of the lowering."""

from __future__ import annotations

from typing import Any

import numpy as np

from mockgpu.pcode.ir import Program
from mockgpu.pcode.numeric import container
from mockgpu.pcode.numeric_mode import Mode
from mockgpu.pcode.oracle import compile_program

Value = int | list[int]


class Machine:
    """Operands by name: an integer, or one per lane. ``masks`` are lane masks, ``vgpr`` is [register][lane]."""

    def __init__(self, lanes: int, mode: Mode | None, operands: dict[str, Value]) -> None:
        self.waves, self.lanes, self.wave_size = 1, lanes, max(lanes, 32)
        self.mode = mode or Mode()
        self.operands = dict(operands)
        self.masks: dict[str, list[bool]] = {"EXEC": [True] * self.wave_size, "VCC": [False] * self.wave_size}
        self.vgpr: dict[int, list[int]] = {}
        self.memory: dict[int, int] = {}

    def read(self, name: str, bits: int) -> Any:
        if name not in self.operands and name in self.masks:
            return self._array(sum(on << lane for lane, on in enumerate(self.masks[name])), bits)
        return self._array(self.operands[name], bits)

    def _array(self, value: Value, bits: int) -> Any:
        values = value if isinstance(value, list) else [value]
        return np.array([[v & ((1 << bits) - 1) for v in values]], container(bits))

    def write(self, name: str, value: Any, bits: int, mask: Any) -> None:
        new = self._lanes(value)
        if mask is not None:
            old = self._lanes(self.read(name, bits)) if name in self.operands else [0] * len(new)
            new = [n if m else o for n, o, m in zip(new, old, self._lanes(mask), strict=True)]
        self.operands[name] = new

    def _lanes(self, value: Any) -> list[int]:
        return [int(v) for v in np.broadcast_to(value, (1, self.lanes))[0]]

    def read_lane_mask(self, name: str) -> Any:
        return np.array([self.masks[name][: self.lanes]])

    def write_lane_mask(self, name: str, value: Any, mask: Any) -> None:
        old = self.masks.get(name, [False] * self.lanes)
        chosen = [True] * self.lanes if mask is None else self._lanes(mask)
        self.masks[name] = [bool(n) if m else o for n, o, m in zip(self._lanes(value), old, chosen, strict=False)]

    def read_vgpr(self, lane: Any, reg: Any) -> Any:
        pairs = zip(self._lanes(lane), self._lanes(reg), strict=True)
        return np.array([[self.vgpr[r][n] for n, r in pairs]], np.uint32)

    def write_vgpr(self, lane: Any, reg: Any, value: Any, mask: Any) -> None:
        chosen = [True] * self.lanes if mask is None else self._lanes(mask)
        rows = zip(self._lanes(lane), self._lanes(reg), self._lanes(value), chosen, strict=True)
        for n, r, v, on in rows:
            if on:
                self.vgpr[r][n] = v

    def load(self, addr: Any, bits: int, mask: Any) -> Any:
        def one(a: int) -> int:
            return sum(self.memory.get(a + i, 0) << (8 * i) for i in range(bits // 8))

        return np.array([[one(a) for a in self._lanes(addr)]], container(bits))

    def store(self, addr: Any, value: Any, bits: int, mask: Any) -> None:
        chosen = [True] * self.lanes if mask is None else self._lanes(mask)
        for a, v, on in zip(self._lanes(addr), self._lanes(value), chosen, strict=True):
            for i in range(bits // 8):
                if on:
                    self.memory[a + i] = v >> (8 * i) & 0xFF


def run(program: Program, *, lanes: int = 1, mode: Mode | None = None, **operands: Value) -> Machine:
    """Run ``program`` and return the machine. Operands that the program reads must be given."""
    machine = Machine(lanes, mode, operands)
    execute(program, machine)
    return machine


def execute(program: Program, machine: Machine) -> None:
    """Run ``program`` on a prepared machine."""
    compile_program(program).run(machine)  # type: ignore[arg-type]
