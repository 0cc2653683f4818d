"""The context of instructions that access memory: addresses, data registers, atomics in rounds."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mockgpu.isa.instruction import Instruction, Operand
from mockgpu.machine.burst import Burst, burst_of
from mockgpu.machine.context import Context
from mockgpu.machine.errors import MemoryViolation
from mockgpu.machine.operands import Reader, as_bits, container, dword, register_row, vector_reader, vector_writer
from mockgpu.machine.semantics import evaluator_of, nodes
from mockgpu.machine.step import Step
from mockgpu.machine.waves import Array, Group
from mockgpu.pcode import ir
from mockgpu.pcode.numeric import Round
from mockgpu.pcode.oracle import Evaluator

_MOST_DWORDS = 4  # of a vector memory operand


class Space(Protocol):
    """A memory space, see mockgpu.machine.space."""

    name: str

    def load(self, g: Group, addr: Array, nbytes: int, lanes: Array | None, width: int) -> Array: ...

    def store(self, g: Group, addr: Array, value: Array, nbytes: int, lanes: Array | None, width: int) -> None: ...

    def load_dwords(self, g: Group, addr: Array, count: int, lanes: Array | None, width: int) -> list[Array]: ...

    def store_dwords(self, g: Group, addr: Array, values: list[Array], lanes: Array | None, width: int) -> None: ...


class MemoryContext(Context):
    """``address`` gives the byte address of every lane; it is read once, before any register is written.

    ``local``: equal addresses of different workgroups are different places (LDS). ``allows_bursts``: consecutive
    dwords may be moved at once (no buffer range is checked dword by dword).
    """

    local = False
    allows_bursts = True

    def __init__(self, instruction: Instruction, wave_size: int, space: Space, address: Reader, *, vector: bool = True):
        super().__init__(instruction.arch, instruction, wave_size, vector=vector)
        self.space, self.address = space, address
        self.addr: Array
        self.burst: Burst | None = None
        self.reads["ADDR"] = lambda g, bits: as_bits(self.addr, bits)

    def begin(self, g: Group) -> None:
        """Attach to the waves that execute now, and compute the addresses."""
        super().begin(g)
        self.mode = g.float_mode.with_round(Round.NEAREST_EVEN)  # float atomics do not see the rounding mode
        self.addr = self.address(g)

    def _lanes(self, mask: Array | None) -> Array | None:
        return self.g.lanes_of(mask) if self.lanes > 1 else mask

    def load(self, addr: Array, bits: int, mask: Array | None) -> Array:
        """``bits`` (8 to 64) of memory for the active lanes; the others get 0."""
        if self.burst is not None:
            return self._load_burst(self.burst, addr, mask)
        self._watch("load", addr, bits // 8, mask)
        value = self.space.load(self.g, addr, bits // 8, self._lanes(mask), self.lanes)
        return as_bits(value, bits) if value.dtype != np.uint8 else value.astype(container(bits))

    def store(self, addr: Array, value: Array, bits: int, mask: Array | None) -> None:
        """Store ``bits`` (8 to 64) for the active lanes."""
        if self.burst is not None:
            self._store_burst(self.burst, addr, value, mask)
            return
        self._watch("store", addr, bits // 8, mask)
        self.space.store(self.g, addr, value, bits // 8, self._lanes(mask), self.lanes)

    def _load_burst(self, burst: Burst, addr: Array, mask: Array | None) -> Array:
        """Fetch all dwords of a burst, write those behind the first one, return the first."""
        self._watch("load", addr, 4 * burst.dwords, mask)
        first, *others = self.space.load_dwords(self.g, addr, burst.dwords, self._lanes(mask), self.lanes)
        for k, value in enumerate(others, 1):
            self.write(f"{burst.operand}.{k}", value, 32, mask)
        return first

    def _store_burst(self, burst: Burst, addr: Array, first: Array, mask: Array | None) -> None:
        """Store all dwords of a burst, of which the program has read the first."""
        self._watch("store", addr, 4 * burst.dwords, mask)
        others = [self.read(f"{burst.operand}.{k}", 32) for k in range(1, burst.dwords)]
        self.space.store_dwords(self.g, addr, [first, *others], self._lanes(mask), self.lanes)

    def _watch(self, kind: str, addr: Array, nbytes: int, mask: Array | None) -> None:
        """Tell the observer, if there is one, which lanes access what."""
        g, observer = self.g, self.g.batch.observer
        if observer is None:
            return
        lanes = self._lanes(mask)
        chosen = np.ones((g.n, self.lanes), np.bool_) if lanes is None else np.broadcast_to(lanes, (g.n, self.lanes))
        rows, columns = np.nonzero(chosen)
        waves = np.arange(g.batch.waves)[g.index][rows]
        observer.access(
            g.batch, waves, kind, self.space.name, np.broadcast_to(addr, chosen.shape)[rows, columns], nbytes
        )

    # -- data registers ---------------------------------------------------------------------------------------

    def bind_data(self, name: str, operand: Operand) -> None:
        """A vector source, as a whole and dword by dword."""
        reg = register_row(operand)
        self.reads[name] = lambda g, bits: as_bits(vector_reader(reg, max(bits, 32))(g), bits)
        for k in range(_MOST_DWORDS):
            self._bind_part(name, k, reg + k)

    def _bind_part(self, name: str, k: int, reg: int) -> None:
        self.reads[f"{name}.{k}"] = lambda g, bits: as_bits(g.vector(reg), bits)

    def bind_result(self, operand: Operand | None) -> None:
        """The vector registers that take RETURN_DATA; None when the instruction returns nothing."""
        self.writes["RETURN_DATA"] = lambda g, v, bits, m: None
        if operand is None or not operand.is_dst:
            return
        first = register_row(operand)
        self._bind_return(first)
        for k in range(_MOST_DWORDS):
            self._bind_part("RETURN_DATA", k, first + k)
            self._bind_result_part(k, first + k)

    def _bind_return(self, reg: int) -> None:
        def write(g: Group, value: Array, bits: int, mask: Array | None) -> None:
            wide = max(bits, 32)
            vector_writer(reg, wide)(g, as_bits(value, wide), mask)

        self.reads["RETURN_DATA"] = lambda g, bits: as_bits(vector_reader(reg, max(bits, 32))(g), bits)
        self.writes["RETURN_DATA"] = write

    def _bind_result_part(self, k: int, reg: int) -> None:
        self.writes[f"RETURN_DATA.{k}"] = lambda g, v, bits, m: g.write_vector(reg, dword(v, 0), g.lanes_of(m))


def is_atomic(program: ir.Program) -> bool:
    """Whether a program reads and writes memory."""
    stores = any(isinstance(n, ir.Assign) and isinstance(n.target, ir.Mem) for n in nodes(program.body))
    values = [n.value for n in nodes(program.body) if isinstance(n, ir.Assign)]
    loads = any(isinstance(n, ir.Mem) for n in nodes(tuple(values)))
    return stores and loads


def access_bytes(program: ir.Program) -> int:
    """Size of the widest single access."""
    return max((n.type.bits // 8 for n in nodes(program.body) if isinstance(n, ir.Mem)), default=4)


def memory_step(ctx: MemoryContext, program: ir.Program, kind: str) -> Step:
    """A step that evaluates a memory instruction; an atomic one in rounds of distinct addresses."""
    if is_atomic(program):
        evaluator = evaluator_of(program)
        size, two = access_bytes(program), "OFFSET1" in program.reads
        return Step(lambda g: run_atomic(ctx, evaluator, g, size, two), kind)

    if ctx.allows_bursts:
        ctx.burst = burst_of(program)
    evaluator = evaluator_of(program if ctx.burst is None else ctx.burst.first)

    def run(g: Group) -> None:
        ctx.begin(g)
        evaluator.run_inside(ctx)

    return Step(run, kind)


def run_atomic(ctx: MemoryContext, evaluator: Evaluator, g: Group, size: int, two: bool) -> None:
    """Execute in rounds: in each no two lanes touch the same address. Lower waves and lanes go first."""
    ctx.begin(g)
    before = g.exec
    rank = _ranks(ctx, g, size, two)
    rounds = int(rank.max()) + 1
    if rounds == 1:
        evaluator.run_inside(ctx)
        return
    active = g.active
    try:
        for n in range(rounds):
            g.exec = (rank == n) & active
            evaluator.run_inside(ctx)
    finally:
        g.exec = before


def _ranks(ctx: MemoryContext, g: Group, size: int, two: bool) -> Array:
    """For each lane (n, L) how many earlier active lanes access the same address."""
    addr = np.broadcast_to(ctx.addr, (g.n, g.lanes)).astype(np.uint64)
    misaligned = g.active & ((addr & np.uint64(size - 1)) != 0)
    if misaligned.any() and not two:
        raise MemoryViolation(f"misaligned atomic at {int(addr[misaligned][0]):#x}, {size} bytes")
    rank = np.zeros((g.n, g.lanes), np.int64)
    if two:  # pairs of addresses: one lane after the other
        rank[g.active] = np.arange(int(g.active.sum()))
        return rank
    keys = addr + (g.batch.group[g.index].astype(np.uint64) << np.uint64(48))[:, None] if ctx.local else addr
    flat = keys[g.active]
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    starts = np.concatenate(([True], ordered[1:] != ordered[:-1])) if flat.size else np.zeros(0, bool)
    first = np.maximum.accumulate(np.where(starts, np.arange(flat.size), 0))
    ranks = np.empty(flat.size, np.int64)
    ranks[order] = np.arange(flat.size) - first
    rank[g.active] = ranks
    return rank
