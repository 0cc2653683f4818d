"""Nanoseconds per wave instruction of some handlers of the threaded tier, each in a chain of records of its own.

Run from the checkout: ``python benchmarks/handlers.py [--mode 0x3f0]``. The time of a call from Python is taken out
by comparing a long chain with a short one; both fit the first level of the data cache.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable

import numpy as np

from mockgpu.isa.arch import get_arch
from mockgpu.isa.decode import decode
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.native.handlers import Handlers
from mockgpu.machine.native.layout import CONTEXT, RECORD, Reason
from mockgpu.machine.native.shape import Shape, shape_of
from mockgpu.machine.native.state import Slot
from mockgpu.machine.waves import EXEC

ARCH, SHORT, LONG, REPEATS = "gfx1100", 100, 600, 400
#: Sources are v2, v3 and v4 (s2 where they are scalar), the result is v1.
WORDS: tuple[tuple[int, ...], ...] = (
    (0x7E020302,), (0x7E020202,), (0x06020702,), (0x10020702,), (0x56020702,), (0xD6130001, 0x04120702), (0x4A020702,),
    (0x30020702,), (0x02020702,), (0x7C220702,), (0x7C920702,), (0x20020702,), (0x7E021102,), (0x7E020D02,),
    (0x7E021502,), (0x7E024B02,), (0x7E025502,), (0xC8C60702, 0x05041104),
)  # fmt: skip


def instructions(lanes: int) -> list[Instruction]:
    """What is measured; pairs exist in wave32 only."""
    arch = get_arch(ARCH)
    out = [decode(arch, b"".join(w.to_bytes(4, "little") for w in words) + bytes(8)) for words in WORDS]
    return [i for i in out if lanes == 32 or i.opcode_y is None]


class Bench:
    """Chains of one handler on one wave."""

    def __init__(self, lanes: int, mode: int):
        self.lanes, self.mode = lanes, mode
        self.slot = Slot(get_arch(ARCH), 1, lanes, 256, 0, 0)
        self.context = np.zeros(1, CONTEXT)
        batch = self.slot.batch
        batch.vgpr[:] = np.float32(1).view(np.uint32)  # products of it stay what they are
        batch.sgpr[EXEC : EXEC + lanes // 32] = 0xFFFFFFFF
        # what ends a chain: a handler that returns at once
        self._returns = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)(lambda w, r, c: int(Reason.CALLOUT))
        self._end = ctypes.cast(self._returns, ctypes.c_void_p).value

    def nanoseconds(self, shape: Shape, address: int) -> float:
        """Per wave instruction."""
        short, long = (self._best(shape, address, count) for count in (SHORT, LONG))
        return (long - short) / (LONG - SHORT)

    def _best(self, shape: Shape, address: int, count: int) -> float:
        records = np.zeros(count + 1, RECORD)
        records["handler"][:count], records["handler"][count] = address, self._end
        records["params"][:count, : len(shape.params)] = shape.params
        call: Callable[[int, int, int], int] = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)(address)
        given = (self.slot.address, int(records.ctypes.data), int(self.context.ctypes.data))
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter_ns()
            call(*given)
            times.append(time.perf_counter_ns() - start)
        return min(times)


def measure(lanes: int, mode: int) -> dict[str, float]:
    """Nanoseconds by disassembly."""
    bench, found = Bench(lanes, mode), instructions(lanes)
    shapes = [shape_of(i, lanes, mode) for i in found]
    handlers = Handlers()  # owns the code
    made = handlers.get({s.key: (s, i, lanes, mode) for s, i in zip(shapes, found, strict=True)})
    return {
        i.text: bench.nanoseconds(s, made.addresses[s.key])
        for s, i in zip(shapes, found, strict=True)
        if s.key in made.addresses
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mode", type=lambda text: int(text, 0), default=0x3F0, help="MODE register (default 0x3f0)")
    mode = parser.parse_args().mode
    narrow, wide = measure(32, mode), measure(64, mode)
    print(f"{'ns per wave instruction, MODE ' + hex(mode):44} wave32 wave64")
    for text, first in narrow.items():
        second = f"{wide[text]:6.2f}" if text in wide else "     -"
        print(f"{text:44} {first:6.2f} {second}")


if __name__ == "__main__":
    main()
