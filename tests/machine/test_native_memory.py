"""Native loads, stores and atomics agree with the oracle whatever the lanes' addresses look like, faults included.

The data of the lab's machine is two mappings side by side, so that accesses cross from one to the other; behind the
second one nothing is mapped. What native code leaves to Python is made by the oracle from what native code left behind.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.native_lab import _NEXT, Lab, _differences
from support.random_code import leaves, random_instruction

from mockgpu.isa.arch import get_arch
from mockgpu.isa.decode import decode
from mockgpu.isa.errors import MockGPUError
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.registers import Kind
from mockgpu.machine.execute import build_step
from mockgpu.machine.flat import signed_offset
from mockgpu.machine.native.layout import READ, WRITE, Reason
from mockgpu.machine.waves import EXEC, Batch

TARGETS = [("gfx1100", 32), ("gfx1100", 64), ("gfx1201", 32), ("gfx950", 64)]
FORMATS = {
    "global": ("GLOBAL", "VGLOBAL"), "flat": ("FLAT", "VFLAT"), "scratch": ("SCRATCH", "VSCRATCH"),
    "lds": ("DS", "VDS"),
}  # fmt: skip
DATA, HALF = 1 << 16, 1 << 15
#: Bytes behind the first address that lanes may access: of the data, of a workgroup's LDS, of a lane's scratch.
ROOM = {"global": DATA, "flat": DATA, "scratch": 1 << 10, "lds": 1 << 14}


class MemoryLab(Lab):
    """A lab whose data is two adjacent mappings, of which ``second`` says what the GPU may do in the upper one."""

    def __init__(self, arch: str, lanes: int, *, second: int = READ | WRITE):
        self.second = second
        super().__init__(arch, lanes)
        memory, va = self.machine.memory, self.machine.data.va
        memory.unmap(va)
        memory.map(va, HALF)
        memory.map(va + HALF, HALF, read=bool(second & READ), write=bool(second & WRITE))
        self._maps()

    def _maps(self) -> None:
        super()._maps()
        for n, mapping in enumerate(sorted(self.machine.memory, key=lambda m: m.va)):
            self._access[n] = READ * mapping.read | WRITE * mapping.write

    def run(self, instruction: Instruction, start: Batch, seed: int) -> bool:
        """Both roads from ``start``. Raises AssertionError with the differences.

        Returns whether native code left to Python what does not fault.
        """
        data = np.random.default_rng(seed).integers(0, 256, DATA, np.uint8)
        for name in ("lane_values", "lane_data", "lane_addresses"):  # what earlier instructions may have left there
            self.context[0][name][:] = 0xA5A5A5A5
        mine, mine_data, mine_fault = self._oracle(instruction, start, data)
        reason, other_data = self._native(instruction, start, data)
        theirs = self.slot.batch
        if reason != _NEXT:
            assert reason == Reason.CALLOUT, reason
            assert np.array_equal(start.vgpr, theirs.vgpr), f"{instruction} writes registers before it is left"
            left = self._copy(start)
            left.lds[:] = theirs.lds[: left.lds.size]
            theirs, other_data, fault = self._oracle(instruction, left, other_data)
            assert _words(fault) == _words(mine_fault), instruction
        elif mine_fault is not None:
            raise AssertionError(f"{instruction}: the oracle faults ({mine_fault}), native code does not")
        differences = [] if mine_fault else _differences(mine, theirs)
        if mine_fault is None and not np.array_equal(mine_data, other_data):
            at = int(np.flatnonzero(mine_data != other_data)[0])
            differences.append(f"memory at +{at:#x}: {mine_data[at]:#x} against {other_data[at]:#x}")
        assert not differences, f"{instruction} (oracle against native):\n" + "\n".join(differences[:12])
        return reason != _NEXT and mine_fault is None


def _words(fault: Any) -> tuple[str, str, object] | None:
    return None if fault is None else (type(fault).__name__, str(fault), getattr(fault, "lane", None))


def shapes(lanes: int, size: int, room: int, rng: np.random.Generator) -> Iterator[tuple[str, Any, bool]]:
    """Name, offset of every lane (int64) and whether all lie inside ``room`` bytes, for values of ``size`` bytes."""
    k = np.arange(lanes)
    top = room - size * lanes
    middle = min(HALF, room // 2) // 64 * 64
    rows = {"row": k * size, "reversed": (lanes - 1 - k) * size, "uniform": k * 0, "groups": k // 8 * 64}
    rows |= {"periodic": k % 8 * size, "strided": k * (room // 2 // lanes // 8 * 8), "overlapping": k * (size // 2)}
    rows |= {"halves": k % 32 * size, "one off": np.where(k == lanes // 2, 0, k * size)}
    for name, offsets in rows.items():
        if int(offsets.max()) + size <= room:
            yield name, offsets, True
    yield "random", rng.integers(0, (room - size) // 8, lanes) * 8, True
    yield "unaligned", rng.integers(0, room - size, lanes), True
    if top > 0:
        yield "unaligned row", 3 + np.minimum(k * size, room - size - 3), True
        yield (
            "unaligned, across mappings",
            np.minimum(np.maximum(0, middle - size * lanes // 2 + 2) + k * size, room - size),
            True,
        )
    yield "one at the end", np.where(k == lanes - 3, room - size, 0), True
    yield "past the end", np.where(k == lanes - 3, room - size // 2, 64), False
    yield "row past the end", room - size * (lanes // 2) + k * size, False
    yield "scattered", rng.integers(0, 1 << 31, lanes), False
    yield "around zero", (k - 2) * size, False
    yield "the last bytes", np.full(lanes, (1 << 32) - size // 2), False


def masks(lanes: int, rng: np.random.Generator) -> list[int]:
    """Values of EXEC."""
    full = (1 << lanes) - 1
    drawn = int(rng.integers(0, 1 << 63, dtype=np.uint64)) * 2 & full
    return [full, full, drawn, 1 << int(rng.integers(0, lanes)), full >> 3, full & ~1, 0, 0x5555555555555555 & full]


def drawn(arch: str, lanes: int, formats: tuple[str, ...], each: int = 1) -> list[Instruction]:
    """``each`` instructions of every opcode of the formats, with random operands."""
    target, out = get_arch(arch), []
    for n, leaf in enumerate(leaves(target)):
        if leaf.opcode is None or leaf.opcode.format not in formats:
            continue
        for k in range(each):
            try:
                i = decode(
                    target, random_instruction(random.Random(7 * n + k), target, leaf, leaf.base, (n + k) % 2 == 1)
                )
                build_step(i, lanes)
            except (MockGPUError, LookupError):  # no semantics, or operands that mean nothing
                continue
            out.append(i)
    return out


def place(lab: MemoryLab, batch: Batch, i: Instruction, space: str, offsets: Any) -> None:
    """Let the lanes' addresses be ``offsets`` from the start of the space, the immediate included."""
    fields = {o.field: o for o in i.operands}
    vector = fields.get("addr") or fields.get("vaddr")
    scalar = fields.get("saddr")
    if scalar is not None and scalar.kind is Kind.NULL:
        scalar = None
    if space == "lds":
        if vector is not None:
            batch.vgpr[vector.index, 0] = (offsets & 0xFFFFFFFF).astype(np.uint32)
        return
    base = -signed_offset(i)
    if space == "scratch":
        if scalar is not None:
            batch.sgpr[scalar.code] = base & 0xFFFFFFFF
            base = 0
        if vector is not None:
            batch.vgpr[vector.index, 0] = (offsets + base & 0xFFFFFFFF).astype(np.uint32)
        return
    base += lab.machine.data.va
    if scalar is not None:
        batch.sgpr[scalar.code], batch.sgpr[scalar.code + 1] = base & 0xFFFFFFFF, base >> 32
    if vector is None:
        return
    address = offsets.astype(np.uint64) if scalar is not None else (offsets + base).astype(np.uint64)
    batch.vgpr[vector.index, 0] = (address & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    if vector.bits == 64:
        batch.vgpr[vector.index + 1, 0] = (address >> np.uint64(32)).astype(np.uint32)


def is_elsewhere(i: Instruction, space: str) -> bool:
    """Whether an immediate or M0 has a say in the addresses that ``place`` does not make up for."""
    if space == "lds":
        return bool(i.fields["offset0"] or i.fields["offset1"] or "addtid" in i.mnemonic)
    registers = [o for o in i.operands if o.field in ("addr", "vaddr", "saddr") and o.kind is not Kind.NULL]
    return not registers


def size_of(i: Instruction) -> int:
    """Bytes that a lane accesses, as far as its registers tell."""
    return max([o.bits for o in i.operands if o.field in ("data", "vdata", "vsrc", "vdst", "data0")], default=32) // 8


def set_exec(batch: Batch, mask: int) -> None:
    batch.sgpr[EXEC], batch.sgpr[EXEC + 1] = mask & 0xFFFFFFFF, mask >> 32


def prepared(lab: MemoryLab, instructions: list[Instruction]) -> list[Instruction]:
    """Those that have a native form."""
    lab.prepare(instructions)
    return [i for i in instructions if lab.native(i)]


def check_all(lab: MemoryLab, space: str, instructions: list[Instruction]) -> set[tuple[str, str]]:
    """Every shape of addresses for each instruction. Returns what was left to Python, by mnemonic and shape."""
    rng = np.random.default_rng(lab.lanes)
    left = set()
    for n, i in enumerate(instructions):
        values = masks(lab.lanes, rng)
        for k, (name, offsets, inside) in enumerate(shapes(lab.lanes, size_of(i), ROOM[space], rng)):
            start = lab.start(i, n)
            place(lab, start, i, space, offsets)
            set_exec(start, values[(n + k) % len(values)])
            if lab.run(i, start, n + k) and inside and not is_elsewhere(i, space):
                left.add((i.mnemonic, name))
    return left


@pytest.mark.parametrize("space", FORMATS)
@pytest.mark.parametrize(("arch", "lanes"), TARGETS)
def test_any_shape_of_addresses(arch: str, lanes: int, space: str) -> None:
    lab = MemoryLab(arch, lanes)
    native = prepared(lab, drawn(arch, lanes, FORMATS[space]))
    assert len(native) > 20, lab.refused
    left = check_all(lab, space, native)
    assert not [(name, shape) for name, shape in left if not shape.startswith(("unaligned", "overlapping"))]


@pytest.mark.parametrize("second", [READ, WRITE], ids=["read only", "write only"])
@pytest.mark.parametrize(("arch", "lanes"), [("gfx1100", 32), ("gfx950", 64)])
def test_permissions(arch: str, lanes: int, second: int) -> None:
    lab = MemoryLab(arch, lanes, second=second)
    check_all(lab, "global", prepared(lab, drawn(arch, lanes, FORMATS["global"])))


@pytest.mark.parametrize(("arch", "lanes"), TARGETS)
def test_scalar_loads(arch: str, lanes: int) -> None:
    lab, rng = MemoryLab(arch, lanes), np.random.default_rng(lanes)
    native = [i for i in prepared(lab, drawn(arch, lanes, ("SMEM",), 4)) if "load" in i.mnemonic]
    assert native
    done = 0
    for n, i in enumerate(native):
        fields = {o.field: o for o in i.operands}
        base, more = fields["sbase"], fields.get("soffset")
        size = max(fields["sdata"].bits, 32) // 8
        places = (64, HALF - size // 2 & -4, DATA - size, DATA - size // 2, 66, int(rng.integers(0, DATA)))
        for k, at in enumerate(places):
            start = lab.start(i, n)
            if more is not None and more.kind is not Kind.NULL and more.code not in range(base.code, base.code + 4):
                start.sgpr[more.code] = 4 * k
            immediate = i.fields.get("ioffset", i.fields.get("offset", 0))
            bits = i.layout.by_name["ioffset" if "ioffset" in i.fields else "offset"]
            signed = immediate - (1 << bits.hi - bits.lo + 1) * (immediate >> bits.hi - bits.lo)
            address = lab.machine.data.va + at - signed
            start.sgpr[base.code], start.sgpr[base.code + 1] = address & 0xFFFFFFFF, address >> 32
            if base.bits == 128:  # a buffer: stride and size in bytes
                start.sgpr[base.code + 1] |= 4 * (k % 2) << 16
                start.sgpr[base.code + 2] = max(0, signed + 4 * k + size // 2 * (n % 3)) // (4 if k % 2 else 1)
            done += not lab.run(i, start, n)
    assert done > len(native)
