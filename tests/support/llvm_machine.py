"""Programs of the pseudocode on two machines that agree in everything: numpy arrays for the oracle, memory for LLVM.

A *wave* is one block of bytes; native code gets a pointer to it. All operands are dwords, ``[dword][lane]`` for those
that vary by lane. :class:`Layout` says where they lie, :class:`NumpyMachine` and :class:`LlvmMachine` are contexts.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llvmlite import ir as llvm

from mockgpu.pcode import ir
from mockgpu.pcode import numeric as num
from mockgpu.pcode.llvm.values import Value, broadcast, constant, container, lanes_of, resize, select, typed
from mockgpu.pcode.numeric import Mode
from mockgpu.pcode.oracle_expr import walk
from support import exact, shaped

I8, I32, I64 = llvm.IntType(8), llvm.IntType(32), llvm.IntType(64)
VGPRS, SGPRS, HWREGS, MEMORY = 16, 128, 64, 4096
#: Operands that vary by lane in vector instructions; all others are one value for the wave.
_BY_LANE = frozenset({"S0", "S1", "S2", "D0", "D1", "DATA", "DATA2", "RETURN_DATA", "ADDR", "VDATA"})
#: Operands that are fields of the instruction: constants of the code.
_FIELDS = frozenset({"OPSEL", "OPSEL_HI", "NEG", "NEG_HI", "ABS", "OMOD", "SDWA_SRC0_SEL"})
_NUMBERS = frozenset({"SRC0", "SRC1", "SRC2", "DST", "VDST", "ADDR_REG", "DATA_REG"})
_FORMATS = {("f", 16): exact.F16, ("f", 32): exact.F32, ("f", 64): exact.F64}
_SCALAR_TABLES = ("SOP", "SMEM", "SOPP", "SOPC", "SOPK")


def is_scalar(table: str) -> bool:
    """Whether the opcodes of a table have no lanes."""
    return table.startswith(_SCALAR_TABLES)


@dataclass
class Layout:
    """Where the operands of a program lie in a wave, in bytes, and how many dwords they have."""

    lanes: int
    vector: bool
    dwords: dict[str, int]
    fields: dict[str, int]
    uniform: frozenset[str] = frozenset()
    places: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def __post_init__(self) -> None:
        for name, count in self.dwords.items():
            self._put(name, 4 * count * (self.lanes if self.by_lane(name) else 1))
        for name, count in (("vgprs", VGPRS * self.lanes), ("sgprs", SGPRS), ("hwregs", HWREGS), ("log", 64)):
            self._put(name, 4 * count)
        self._put("memory", MEMORY + 64)

    def _put(self, name: str, size: int) -> None:
        self.places[name] = self.size
        self.size += -(-size // 64) * 64

    def by_lane(self, name: str) -> bool:
        return self.vector and name in _BY_LANE - self.uniform

    def view(self, waves: np.ndarray, name: str) -> np.ndarray:
        """An operand of all waves as uint32 [wave, dword, lane]."""
        lanes, count = self.lanes if self.by_lane(name) else 1, self.dwords[name]
        return self.words(waves, name, count * lanes).reshape(len(waves), count, lanes)

    def words(self, waves: np.ndarray, name: str, count: int) -> np.ndarray:
        at = self.places[name]
        return waves[:, at : at + 4 * count].view(np.uint32)


def layout_of(program: ir.Program, lanes: int, vector: bool) -> Layout:
    """The layout of what a program reads and writes. Fields get values that depend on the program alone."""
    bits: dict[str, int] = {"EXEC": 64, "VCC": 64}
    for x in walk(program.body):
        if isinstance(x, ir.Operand):
            bits[x.name] = max(bits.get(x.name, 64), x.type.bits)
        if isinstance(x, ir.LaneBit):
            bits[f"mask {x.name}"] = bits[x.name] = 64
    rng = np.random.default_rng(zlib.crc32(program.text.encode()))
    fields = {name: int(rng.integers(0, 8)) for name in sorted(_FIELDS)}
    fields |= {"WAVE32": int(lanes == 32), "WAVE64": int(lanes == 64), "WAVE_MODE.IEEE": int(rng.integers(0, 2))}
    lane_moves = any(isinstance(x, ir.Vgpr) and not isinstance(x.lane, ir.Operand) for x in walk(program.body))
    uniform = frozenset({"S0", "S1", "S2"}) if lane_moves else frozenset()
    return Layout(lanes, vector, {n: -(-b // 32) for n, b in sorted(bits.items())}, fields, uniform)


# -- inputs -----------------------------------------------------------------------------------------------------------


def _pools(program: ir.Program, rng: np.random.Generator) -> list[np.ndarray]:
    """Dwords at which the program may go wrong, by kind; 64-bit patterns as rows of two."""
    pools: list[np.ndarray] = [np.array(shaped.integers(32), np.uint32), shaped.runs(rng, 32, 200)]
    kinds = {(x.type.kind, x.type.bits) for x in walk(program.body) if hasattr(x, "type")}
    small = np.array(shaped.integers(8), np.uint32)
    pools.append(rng.choice(small, (80, 4)).astype(np.uint8).view(np.uint32).ravel())
    if ("f", 16) in kinds:
        pools += 3 * [rng.choice(np.array(shaped.floats(exact.F16), np.uint16), (300, 2)).view(np.uint32).ravel()]
        pools.append(shaped.near(rng, exact.F16, 400).astype(np.uint16).reshape(-1, 2).view(np.uint32).ravel())
    if ("f", 32) in kinds:
        pools += 2 * [np.array(shaped.floats(exact.F32), np.uint32)]
        pools += [np.array(shaped.few_floats(exact.F32), np.uint32), shaped.near(rng, exact.F32, 200)]
    if kinds & {("u", 64), ("i", 64), ("b", 64)}:
        pools.append(np.array(shaped.integers(64), np.uint64).view(np.uint32).reshape(-1, 2))
    if ("f", 64) in kinds:
        pools += 4 * [np.array(shaped.floats(exact.F64), np.uint64).view(np.uint32).reshape(-1, 2)]
        pools.append(shaped.near(rng, exact.F64, 200).view(np.uint32).reshape(-1, 2))
    return pools


def _draw(rng: np.random.Generator, pools: list[np.ndarray], shape: tuple[int, int, int]) -> np.ndarray:
    """uint32 [wave, dword, lane]."""
    out = np.zeros(shape, np.uint32)
    which = rng.integers(0, len(pools), (shape[0], shape[2]))
    for k, pool in enumerate(pools):
        rows = pool[rng.integers(0, len(pool), (shape[0], shape[2], shape[1]))]
        if pool.ndim == 2:
            one = pool[rng.integers(0, len(pool), (shape[0], shape[2], -(-shape[1] // 2)))]
            rows = one.reshape(shape[0], shape[2], -1)[..., : shape[1]]
        out = np.where((which == k)[:, None, :], rows.transpose(0, 2, 1), out)
    return out


def make_waves(program: ir.Program, layout: Layout, count: int, seed: int) -> np.ndarray:
    """Bytes of ``count`` waves with shaped inputs."""
    rng = np.random.default_rng(seed)
    waves = np.zeros((count, layout.size), np.uint8)
    pools = _pools(program, rng)
    for name in layout.dwords:
        view = layout.view(waves, name)
        view[:] = _draw(rng, pools, view.shape)
        if name in _NUMBERS:
            view[:] = rng.integers(0, VGPRS, (count, 1, 1))
        elif name.startswith("OFFSET"):
            view[:] = rng.integers(0, 3, (count, 1, 1))
        elif name == "ADDR":
            view[:] = 0
            view[:, 0, :] = np.arange(view.shape[2]) * 64 + 8 * rng.integers(0, 2, (count, 1))
        elif name == "PC":
            view[:, 1] = 0
    exec_ = layout.view(waves, "EXEC")
    exec_[rng.random(count) < 0.4] = 0xFFFFFFFF
    if layout.lanes == 32:
        exec_[:, 1] = 0
    for name, size in (("vgprs", VGPRS * layout.lanes), ("sgprs", SGPRS), ("hwregs", HWREGS)):
        words = layout.words(waves, name, size)
        words[:] = _draw(rng, pools, (count, 1, size))[:, 0]
    at = layout.places["memory"]
    waves[:, at : at + MEMORY + 64] = (
        _draw(rng, pools, (count, 1, (MEMORY + 64) // 4)).reshape(count, -1).view(np.uint8)
    )
    return waves


# -- the oracle's side ------------------------------------------------------------------------------------------------


def _to_pattern(dwords: np.ndarray, bits: int) -> np.ndarray:
    """[wave, dword, lane] to patterns of ``bits`` bits [wave, lane]."""
    if bits <= 64:
        low = dwords[:, 0].astype(np.uint64)
        wide = low | dwords[:, 1].astype(np.uint64) << np.uint64(32) if dwords.shape[1] > 1 else low
        return num.resize(wide, 64, bits)
    total = dwords[:, 0].astype(object)
    for k in range(1, -(-bits // 32)):
        total = total | dwords[:, k].astype(object) << 32 * k
    return total & ((1 << bits) - 1)


class NumpyMachine:
    """The context of the oracle. Writes reach the waves at :meth:`commit`."""

    def __init__(self, layout: Layout, waves: np.ndarray, mode: Mode):
        self.layout, self.bytes, self.mode = layout, waves, mode
        self.waves, self.wave_size = len(waves), layout.lanes
        self.lanes = layout.lanes if layout.vector else 1
        self.pending: dict[str, np.ndarray] = {}
        self.logged = 0
        self.exec = self._bits("EXEC")

    def _view(self, name: str) -> np.ndarray:
        return self.layout.view(self.bytes, name)

    def _bits(self, name: str) -> np.ndarray:
        """A mask as booleans [wave, lane]."""
        dwords = self._view(name)[:, :, 0]
        return np.unpackbits(dwords.copy().view(np.uint8), axis=1, bitorder="little")[:, : self.layout.lanes] != 0

    def _dwords(self, name: str) -> np.ndarray:
        if name not in self.pending:
            self.pending[name] = self._view(name).copy()
        return self.pending[name]

    def read(self, name: str, bits: int) -> np.ndarray:
        if name in self.layout.fields:
            return num.constant(bits, self.layout.fields[name])
        if name == "LANE":
            return num.resize(np.arange(self.layout.lanes, dtype=np.uint32)[None], 32, bits)
        found = self.pending.get(name)
        return _to_pattern(self._view(name) if found is None else found, bits)

    def write(self, name: str, value: np.ndarray, bits: int, mask: np.ndarray | None) -> None:
        dwords = self._dwords(name)
        for k in range(-(-bits // 32)):
            part = (num.boxed(value) >> 32 * k & 0xFFFFFFFF).astype(np.uint32)
            self._put(dwords, k, part, mask)

    @staticmethod
    def _put(dwords: np.ndarray, k: int, part: np.ndarray, mask: np.ndarray | None) -> None:
        dwords[:, k] = part if mask is None else np.where(mask, part, dwords[:, k])

    def read_lane_mask(self, name: str) -> np.ndarray:
        if name == "EXEC":
            return self.exec
        return self.pending.get(f"mask {name}", self._bits(name))

    def write_lane_mask(self, name: str, value: np.ndarray, mask: np.ndarray | None) -> None:
        new = np.broadcast_to(value, (self.waves, self.layout.lanes))
        self.pending[f"mask {name}"] = new if mask is None else np.where(mask, new, self.read_lane_mask(name))

    def _vgprs(self) -> np.ndarray:
        words = self.layout.words(self.bytes, "vgprs", VGPRS * self.layout.lanes)
        return words.reshape(self.waves, VGPRS, self.layout.lanes)

    def _place(self, lane: np.ndarray, reg: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        number = np.atleast_2d(reg).astype(np.int64) % VGPRS
        at = np.atleast_2d(lane).astype(np.int64) % self.layout.lanes
        number, at = np.broadcast_arrays(number, at)
        number = np.broadcast_to(number, (self.waves, number.shape[1]))
        return np.arange(self.waves)[:, None], number, np.broadcast_to(at, number.shape)

    def read_vgpr(self, lane: np.ndarray, reg: np.ndarray) -> np.ndarray:
        return self._vgprs()[self._place(lane, reg)]

    def write_vgpr(self, lane: np.ndarray, reg: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        place = self._place(lane, reg)
        if np.ndim(lane) and lane.shape[-1] == self.lanes > 1:
            mask = self.exec if mask is None else mask & self.exec
        allowed = np.broadcast_to(True if mask is None else mask, place[1].shape)
        waves = np.broadcast_to(place[0], place[1].shape)
        new = np.broadcast_to(value, place[1].shape)
        self._vgprs()[waves[allowed], place[1][allowed], place[2][allowed]] = new[allowed]

    def _file(self, name: str, count: int, index: np.ndarray) -> tuple[np.ndarray, Any]:
        words = self.layout.words(self.bytes, name, count)
        return words, (np.arange(self.waves), np.broadcast_to(index, (self.waves, 1))[:, 0].astype(np.int64) % count)

    def read_sgpr(self, reg: np.ndarray) -> np.ndarray:
        words, at = self._file("sgprs", SGPRS, reg)
        return words[at][:, None]

    def write_sgpr(self, reg: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        words, at = self._file("sgprs", SGPRS, reg)
        self._set(words, at, value, mask)

    def _set(self, words: np.ndarray, at: Any, value: np.ndarray, mask: np.ndarray | None) -> None:
        new = np.broadcast_to(value, (self.waves, 1))[:, 0]
        words[at] = new if mask is None else np.where(np.broadcast_to(mask, (self.waves, 1))[:, 0], new, words[at])

    def read_hwreg(self, index: np.ndarray) -> np.ndarray:
        words, at = self._file("hwregs", HWREGS, index)
        return words[at][:, None]

    def write_hwreg(self, index: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        words, at = self._file("hwregs", HWREGS, index)
        self._set(words, at, value, mask)

    def _memory(self, addr: np.ndarray, bits: int, mask: np.ndarray | None) -> tuple[Any, np.ndarray]:
        count = -(-bits // 8)
        addr = np.broadcast_to(addr, (self.waves, self.lanes)) % np.uint64(MEMORY)
        at = self.layout.places["memory"] + addr.astype(np.int64)[..., None] + np.arange(count)
        waves = np.broadcast_to(np.arange(self.waves)[:, None, None], at.shape)
        allowed = np.broadcast_to(True if mask is None else mask, (self.waves, self.lanes))
        if self.lanes > 1:
            allowed = allowed & self.exec
        return (waves, at), allowed

    def load(self, addr: np.ndarray, bits: int, mask: np.ndarray | None) -> np.ndarray:
        place, allowed = self._memory(addr, bits, mask)
        wide = np.zeros((self.waves, self.lanes, 8), np.uint8)
        wide[..., : -(-bits // 8)] = self.bytes[place]
        return num.resize(np.where(allowed, wide.view(np.uint64)[..., 0], np.uint64(0)), 64, bits)

    def store(self, addr: np.ndarray, value: np.ndarray, bits: int, mask: np.ndarray | None) -> None:
        (waves, at), allowed = self._memory(addr, bits, mask)
        new = np.broadcast_to(value, allowed.shape).astype(np.uint64)[..., None].view(np.uint8)[..., : at.shape[2]]
        self.bytes[waves[allowed], at[allowed]] = new[allowed]

    def effect(self, fn: str, args: tuple[np.ndarray, ...], mask: np.ndarray | None) -> None:
        log = self.layout.words(self.bytes, "log", 64)
        on = np.broadcast_to(True if mask is None else mask, (self.waves, self.lanes))[:, 0]
        log[:, self.logged] = np.where(on, np.uint32(zlib.crc32(fn.encode())), log[:, self.logged])
        self.logged += 1

    def commit(self) -> None:
        for name, new in self.pending.items():
            if name.startswith("mask "):
                packed = np.packbits(new & self.exec, axis=1, bitorder="little").view(np.uint32)
                self._view(name)[:, : packed.shape[1], 0] = packed
            elif self.layout.by_lane(name):
                view = self._view(name)
                view[:] = np.where(self.exec[:, None], new, view)
            else:
                self._view(name)[:] = new


# -- the native side --------------------------------------------------------------------------------------------------


class LlvmMachine:
    """The context of the lowering, in a function ``void f(ptr wave)``."""

    def __init__(self, layout: Layout, function: llvm.Function, mode: Mode, features: frozenset[str]):
        self.layout, self.mode, self.features = layout, mode, features
        self.wave = function.args[0]
        self.b = llvm.IRBuilder(function.append_basic_block())
        self.wave_size = layout.lanes
        self.lanes = layout.lanes if layout.vector else 1
        self.pending: dict[str, list[Value]] = {}
        self.masks: dict[str, Value] = {}
        self.logged = 0

    def _at(self, name: str, offset: Value | int = 0) -> Value:
        at = self.b.gep(self.wave, [I64(self.layout.places[name])], source_etype=I8)
        if isinstance(offset, int):
            return self.b.gep(at, [I64(offset)], source_etype=I8)
        return self.b.gep(at, [offset], source_etype=I8)

    def _count(self, name: str) -> int:
        return self.layout.lanes if self.layout.by_lane(name) else 1

    def _dword(self, name: str, k: int) -> Value:
        if name in self.pending:
            return self.pending[name][k]
        n = self._count(name)
        return self.b.load(self._at(name, 4 * n * k), typ=typed(32, n), align=4)

    def _constant(self, name: str, bits: int) -> Value | None:
        if name in self.layout.fields:
            return constant(self.layout.fields[name] & ((1 << bits) - 1), container(bits))
        if name == "LANE":
            width, n = container(bits), self.layout.lanes
            return llvm.Constant(llvm.VectorType(llvm.IntType(width), n), list(range(n)))
        return None

    def read(self, name: str, bits: int) -> Value:
        found = self._constant(name, bits)
        if found is not None:
            return found
        width = container(bits)
        if name == "S0" and name not in self.layout.dwords:  # the register that SRC0 is the number of
            return self.b.load(self._row("SRC0"), typ=typed(32, self.lanes), align=4)
        if "." in name[-3:]:
            name, k = name.rsplit(".", 1)
            return resize(self.b, self._dword(name, int(k)), width)
        value = resize(self.b, self._dword(name, 0), max(width, 32))
        for k in range(1, -(-bits // 32)):
            part = resize(self.b, self._dword(name, k), width)
            value = self.b.or_(value, self.b.shl(part, constant(32 * k, width, lanes_of(part))))
        return resize(self.b, value, width)

    def write(self, name: str, value: Value, bits: int, mask: Value | None) -> None:
        first = 0
        if name == "D0" and name not in self.layout.dwords:  # the register that VDST is the number of
            at = self._row("VDST")
            old = self.b.load(at, typ=value.type, align=4)
            self.b.store(self.b.select(self._mask("EXEC"), value, old), at, align=4)
            return
        if "." in name[-3:]:
            name, first = name.rsplit(".", 1)[0], int(name.rsplit(".", 1)[1])
        count = self.layout.dwords[name]
        dwords = [self._dword(name, k) for k in range(count)]
        for k in range(first, first + -(-bits // 32)):
            width = max(container(bits), 32)
            wide = resize(self.b, value, width)
            part = resize(self.b, self.b.lshr(wide, constant(32 * (k - first), width, lanes_of(wide))), 32)
            part = part if mask is None else select(self.b, mask, part, dwords[k])
            dwords[k] = part
        self.pending[name] = dwords

    def _row(self, name: str) -> Value:
        """Pointer to the vector register of which an operand is the number."""
        return self._at("vgprs", self.b.shl(self._index(I64(0), self.read(name, 32)), I64(2)))

    def has_part(self, name: str, dword: int) -> bool:
        return dword < self.layout.dwords.get(name, 0) and name not in self.layout.fields

    def is_written(self, name: str) -> bool:
        return name in self.pending

    def _mask(self, name: str) -> Value:
        n = self.layout.lanes
        return self.b.bitcast(self.b.load(self._at(name), typ=llvm.IntType(n), align=4), typed(1, n))

    def read_lane_mask(self, name: str) -> Value:
        return self.masks[name] if name in self.masks else self._mask(name)

    def write_lane_mask(self, name: str, value: Value, mask: Value | None) -> None:
        new = broadcast(self.b, value, self.layout.lanes)
        self.masks[name] = new if mask is None else select(self.b, mask, new, self.read_lane_mask(name))

    def _index(self, lane: Value, reg: Value) -> Value:
        """Index of a dword in the vector registers, i64."""
        reg = self.b.and_(resize(self.b, reg, 64), I64(VGPRS - 1))
        lane = self.b.and_(resize(self.b, lane, 64), I64(self.layout.lanes - 1))
        return self.b.add(self.b.mul(reg, I64(self.layout.lanes)), lane)

    def _lane_of(self, value: Value, k: int) -> Value:
        return self.b.extract_element(value, I32(k)) if lanes_of(value) > 1 else value

    def read_vgpr(self, lane: Value, reg: Value) -> Value:
        n = max(lanes_of(lane), lanes_of(reg))
        out: Value = llvm.Constant(typed(32, n), llvm.Undefined)
        for k in range(n):
            at = self._index(self._lane_of(lane, k), self._lane_of(reg, k))
            one = self.b.load(self._at("vgprs", self.b.shl(at, I64(2))), typ=I32)
            out = one if n == 1 else self.b.insert_element(out, one, I32(k))
        return out

    def write_vgpr(self, lane: Value, reg: Value, value: Value, mask: Value | None) -> None:
        n = max(lanes_of(lane), lanes_of(reg))
        if lanes_of(lane) > 1:
            exec_ = self.read_lane_mask("EXEC")
            mask = exec_ if mask is None else self.b.and_(exec_, broadcast(self.b, mask, n))
        for k in range(n):
            at = self._index(self._lane_of(lane, k), self._lane_of(reg, k))
            self._set(self._at("vgprs", self.b.shl(at, I64(2))), self._lane_of(value, k), mask, k)

    def _set(self, at: Value, value: Value, mask: Value | None, k: int = 0) -> None:
        if mask is not None:
            value = self.b.select(self._lane_of(mask, k), value, self.b.load(at, typ=value.type))
        self.b.store(value, at)

    def _file(self, name: str, count: int, index: Value) -> Value:
        at = self.b.urem(resize(self.b, index, 64), I64(count))
        return self._at(name, self.b.shl(at, I64(2)))

    def read_sgpr(self, reg: Value) -> Value:
        return self.b.load(self._file("sgprs", SGPRS, reg), typ=I32)

    def write_sgpr(self, reg: Value, value: Value, mask: Value | None) -> None:
        self._set(self._file("sgprs", SGPRS, reg), value, mask)

    def read_hwreg(self, index: Value) -> Value:
        return self.b.load(self._file("hwregs", HWREGS, index), typ=I32)

    def write_hwreg(self, index: Value, value: Value, mask: Value | None) -> None:
        self._set(self._file("hwregs", HWREGS, index), value, mask)

    # Memory goes lane by lane through helpers that the module defines once.

    def _access(self, helper: str, addr: Value, value: Value | None, bits: int, mask: Value | None) -> Value:
        n = self.lanes
        flags = broadcast(self.b, constant(1, 1) if mask is None else mask, n)
        if n > 1:
            flags = self.b.and_(flags, self.read_lane_mask("EXEC"))
        word = resize(self.b, flags if n == 1 else self.b.bitcast(flags, llvm.IntType(n)), 64)
        entry = self.b.function.entry_basic_block
        with self.b.goto_block(entry) if entry.is_terminated else self.b.goto_entry_block():
            places, data = self.b.alloca(typed(64, n)), self.b.alloca(typed(64, n))
        self.b.store(broadcast(self.b, addr, n), places)
        if value is not None:
            self.b.store(broadcast(self.b, resize(self.b, value, 64), n), data)
        function = self.b.module.globals[helper]
        self.b.call(function, [self._at("memory"), places, data, word, I64(n), I64(-(-bits // 8))])
        return data

    def load(self, addr: Value, bits: int, mask: Value | None) -> Value:
        data = self._access("load_lanes", addr, None, bits, mask)
        loaded = self.b.load(data, typ=typed(64, self.lanes))
        if bits % 8:
            loaded = self.b.and_(loaded, constant((1 << bits) - 1, 64, self.lanes))
        return resize(self.b, loaded, container(bits))

    def store(self, addr: Value, value: Value, bits: int, mask: Value | None) -> None:
        self._access("store_lanes", addr, value, bits, mask)

    def effect(self, fn: str, args: tuple[Value, ...], mask: Value | None) -> None:
        at = self._at("log", 4 * self.logged)
        self.logged += 1
        self._set(at, I32(zlib.crc32(fn.encode())), mask)

    def commit(self) -> None:
        """Store what was written, and end the function."""
        for name, dwords in self.pending.items():
            n = self._count(name)
            for k, value in enumerate(dwords):
                at = self._at(name, 4 * n * k)
                value = broadcast(self.b, value, n)
                if n > 1:
                    value = self.b.select(self._mask("EXEC"), value, self.b.load(at, typ=value.type, align=4))
                self.b.store(value, at, align=4)
        for name, mask in self.masks.items():
            bits = self.b.bitcast(self.b.and_(mask, self._mask("EXEC")), llvm.IntType(self.layout.lanes))
            self.b.store(bits, self._at(f"mask {name}"), align=4)
        self.b.ret_void()


#: void load_lanes(memory, addresses, data, mask, lanes, bytes) and its counterpart.
HELPERS = """
define private void @load_lanes(ptr %m, ptr %a, ptr %d, i64 %on, i64 %n, i64 %count) noinline {
entry:
  br label %lane
lane:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %ap = getelementptr i64, ptr %a, i64 %k
  %a0 = load i64, ptr %ap, align 8
  %a1 = and i64 %a0, 4095
  %from = getelementptr i8, ptr %m, i64 %a1
  %to = getelementptr i64, ptr %d, i64 %k
  store i64 0, ptr %to, align 8
  %s = lshr i64 %on, %k
  %s1 = trunc i64 %s to i1
  br i1 %s1, label %copy, label %next
copy:
  %j = phi i64 [ 0, %lane ], [ %j1, %copy ]
  %fp = getelementptr i8, ptr %from, i64 %j
  %tp = getelementptr i8, ptr %to, i64 %j
  %v = load i8, ptr %fp
  store i8 %v, ptr %tp
  %j1 = add i64 %j, 1
  %more = icmp ult i64 %j1, %count
  br i1 %more, label %copy, label %next
next:
  %k1 = add i64 %k, 1
  %again = icmp ult i64 %k1, %n
  br i1 %again, label %lane, label %done
done:
  ret void
}
define private void @store_lanes(ptr %m, ptr %a, ptr %d, i64 %on, i64 %n, i64 %count) noinline {
entry:
  br label %lane
lane:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %ap = getelementptr i64, ptr %a, i64 %k
  %a0 = load i64, ptr %ap, align 8
  %a1 = and i64 %a0, 4095
  %to = getelementptr i8, ptr %m, i64 %a1
  %from = getelementptr i64, ptr %d, i64 %k
  %s = lshr i64 %on, %k
  %s1 = trunc i64 %s to i1
  br i1 %s1, label %copy, label %next
copy:
  %j = phi i64 [ 0, %lane ], [ %j1, %copy ]
  %fp = getelementptr i8, ptr %from, i64 %j
  %tp = getelementptr i8, ptr %to, i64 %j
  %v = load i8, ptr %fp
  store i8 %v, ptr %tp
  %j1 = add i64 %j, 1
  %more = icmp ult i64 %j1, %count
  br i1 %more, label %copy, label %next
next:
  %k1 = add i64 %k, 1
  %again = icmp ult i64 %k1, %n
  br i1 %again, label %lane, label %done
done:
  ret void
}
"""
