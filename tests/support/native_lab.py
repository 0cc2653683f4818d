"""One instruction on one wave, by the oracle and by its native handler, from the same state: all of it compared.

>>> lab = Lab("gfx1100", 32)
>>> lab.prepare(instructions)  # compiles the handlers of all of them at once; lab.refused says which have none and why
>>> for i in instructions: lab.check(i, seed)  # AssertionError with the differences
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from mockgpu.isa.arch import get_arch
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.registers import Kind
from mockgpu.machine.errors import GuestFault
from mockgpu.machine.execute import build_step
from mockgpu.machine.native import emit
from mockgpu.machine.native.emitter import HANDLER
from mockgpu.machine.native.flow import target_of
from mockgpu.machine.native.layout import CONTEXT, READ, RECORD, WRITE, Reason
from mockgpu.machine.native.shape import Shape, shape_of
from mockgpu.machine.native.state import Slot
from mockgpu.machine.single import SingleStep
from mockgpu.machine.waves import EXEC, Batch, Group
from mockgpu.pcode.numeric import quiet_ieee

_SPECIALS = np.array(
    [
        0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, 0xBF800000,
        0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFBFFFFF, 0x00000001, 0x807FFFFF, 0x00800000,
        0x3C003C00, 0x7C00FC00, 0x7E017D01, 0x03FF8001, 0x40490FDB, 0x4F000000, 0xCF000000, 0x5F800000, 0x7F7FFFFF,
        0x7FF00000, 0xFFF80000, 0x7FF00001, 0x3FF00000, 0x43E00000, 0x3F000000, 0x33800000, 0x4B800000,
    ],
    np.uint32,
)  # fmt: skip

#: What the records behind an instruction and at its branch target return.
_NEXT, _TAKEN = 100, 101


def host_features() -> frozenset[str]:
    """What this host can do, as emitters are told."""
    return frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)


class Lab:
    """One wave of ``lanes`` lanes of a target. ``mode`` is the MODE register of the wave."""

    def __init__(self, arch: str, lanes: int, mode: int = 0xF0, features: frozenset[str] | None = None):
        self.arch, self.lanes, self.mode = get_arch(arch), lanes, mode
        self.features = host_features() if features is None else features
        self.machine = SingleStep(self.arch, lanes)
        self.refused: dict[str, str] = {}
        self.next_start: Batch | None = None  # the state of the next check, if it is not to be a random one
        self.left = 0  # runs that native code left to Python
        self._addresses: dict[str, int] = {}
        self._engines: list[Any] = []
        self._stop = self._taken = 0
        accs = self.arch.acc_vgprs
        self.slot = Slot(self.arch, 1, lanes, self.arch.vgprs, accs, 1 << 14, "lab")
        self.context = np.zeros(1, CONTEXT)
        self.context[0]["vgpr_bytes"] = 4 * lanes * self.arch.vgprs
        self._maps()

    def _maps(self) -> None:
        maps = sorted(self.machine.memory, key=lambda m: m.va)
        self._starts = np.array([m.va for m in maps], np.uint64)
        self._ends = np.array([m.end for m in maps], np.uint64)
        self._access = np.array([READ | WRITE] * len(maps), np.uint8)
        c = self.context[0]
        c["maps_start"], c["maps_end"] = self._starts.ctypes.data, self._ends.ctypes.data
        self.counters = np.zeros(4, np.int64)
        c["counters"], c["budget"] = self.counters.ctypes.data, 1 << 40
        c["maps_access"], c["maps_count"] = self._access.ctypes.data, len(maps)

    # -- compiling --------------------------------------------------------------------------------------------

    def prepare(self, instructions: Iterable[Instruction]) -> None:
        """Compile the handlers of the instructions. ``refused`` gets the reasons of those that have none."""
        wanted = {}
        for i in instructions:
            shape = shape_of(i, self.lanes, self.mode)
            if shape.key not in self._addresses and shape.key not in self.refused:
                wanted[shape.key] = emit.Wanted(shape, i, self.lanes, self.mode)
        text, refused = emit.handlers_module(wanted.values(), self.features)
        self.refused.update(refused)
        address = self._load(text + self._stop_text())
        self._stop, self._taken = address("lab_stop"), address("lab_taken")
        for key in wanted:
            if key not in refused:
                self._addresses[key] = address(emit.symbol(key))

    def _load(self, text: str) -> Callable[[str], int]:
        """Compile a module; what gives the addresses of its functions."""
        module = llvm.parse_assembly(text)
        module.verify()
        engine = _compile(module)
        self._engines.append(engine)
        return engine.get_function_address

    def _stop_text(self) -> str:
        module = ir.Module("stop")
        function = ir.Function(module, HANDLER, "lab_stop")
        ir.IRBuilder(function.append_basic_block()).ret(HANDLER.return_type(_NEXT))
        taken = ir.Function(module, HANDLER, "lab_taken")
        ir.IRBuilder(taken.append_basic_block()).ret(HANDLER.return_type(_TAKEN))
        return str(module).split('datalayout = ""')[1]

    def native(self, instruction: Instruction) -> bool:
        """Whether a prepared instruction has a handler."""
        return self._shape(instruction).key in self._addresses

    def _shape(self, instruction: Instruction) -> Shape:
        return shape_of(instruction, self.lanes, self.mode)

    # -- running ----------------------------------------------------------------------------------------------

    def check(self, instruction: Instruction, seed: int) -> None:
        """Both roads from the same random state. Raises AssertionError with the differences."""
        start = self.start(instruction, seed) if self.next_start is None else self.next_start
        self.next_start = None
        data = np.random.default_rng(seed).integers(0, 256, 1 << 16, np.uint8)
        mine, mine_data, mine_fault = self._oracle(instruction, start, data)
        reason, other_data = self._native(instruction, start, data)
        theirs = self.slot.batch
        if mine_fault is not None:
            self.left += 1
            assert reason not in (_NEXT, _TAKEN), (
                f"{instruction}: the oracle faults ({mine_fault}), native code does not"
            )
            return
        if reason == Reason.CALLOUT:  # left to Python: nothing may have changed
            self.left += 1
            mine, mine_data = start, other_data
            mine.lds[:] = theirs.lds[: mine.lds.size]  # stores before the one that was left are made again
        differences = _differences(mine, theirs)
        if not np.array_equal(mine_data, other_data):
            at = int(np.flatnonzero(mine_data != other_data)[0])
            differences.append(f"memory at +{at:#x}: {mine_data[at]:#x} against {other_data[at]:#x}")
        assert not differences, f"{instruction} seed {seed} (oracle against native):\n" + "\n".join(differences[:12])

    def start(self, instruction: Instruction, seed: int) -> Batch:
        """A wave with random registers, whose addresses lead to the lab's memory."""
        rng = np.random.default_rng(seed)
        batch = self.machine._batch()
        batch.mode[:] = self.mode
        random = rng.integers(0, 1 << 32, batch.vgpr.shape, np.uint32)
        special = rng.choice(_SPECIALS, batch.vgpr.shape)
        batch.vgpr[:] = np.where(rng.random(batch.vgpr.shape) < 0.5, special, random)
        batch.sgpr[:126] = np.where(
            rng.random((126, 1)) < 0.5, rng.choice(_SPECIALS, (126, 1)), rng.integers(0, 1 << 32, (126, 1), np.uint32)
        )
        batch.scc[:] = rng.random() < 0.5
        batch.lds[:] = rng.integers(0, 256, batch.lds.shape, np.uint8)
        full = rng.random()
        if full > 0.5:
            batch.sgpr[EXEC : EXEC + 2] = rng.integers(0, 1 << 32, (2, 1), np.uint32)
        elif full > 0.45:
            batch.sgpr[EXEC : EXEC + 2] = 0
        if self.lanes == 32:
            batch.sgpr[EXEC + 1] = 0
        end = self.machine.code.va + instruction.size
        for operand in instruction.operands:
            if operand.kind is not Kind.NULL:
                self.machine._point(batch, instruction, operand, end)
        return batch

    def _oracle(self, instruction: Instruction, start: Batch, data: Any) -> tuple[Batch, Any, GuestFault | None]:
        batch = self._copy(start)
        self._fill(data)
        pc = int(batch.pc[0])
        group = Group(batch, slice(0, 1), 1, self.machine.memory, pc, self.mode)
        fault = None
        try:
            with quiet_ieee():
                build_step(instruction, self.lanes).run(group)
        except GuestFault as e:
            fault = e
        if not group.moved:
            batch.pc[:] = pc + instruction.size
        return batch, self._data(), fault

    def _copy(self, start: Batch) -> Batch:
        batch = self.machine._batch()
        for name in ("vgpr", "sgpr", "scc", "lds", "mode", "pc"):
            getattr(batch, name)[:] = getattr(start, name)
        return batch

    def _fill(self, data: Any) -> None:
        ctypes.memmove(self.machine.data.va, data.ctypes.data, len(data))

    def _data(self) -> Any:
        return np.frombuffer(ctypes.string_at(self.machine.data.va, 1 << 16), np.uint8).copy()

    def _native(self, instruction: Instruction, start: Batch, data: Any) -> tuple[int, Any]:
        batch = self.slot.batch
        for name in ("vgpr", "sgpr", "scc", "mode", "pc", "state"):
            getattr(batch, name)[:] = getattr(start, name)
        batch.lds[: start.lds.size] = start.lds
        self.slot.headers["scratch"] = start.scratch
        self.slot.headers["scratch_bytes"] = start.scratch_bytes
        self._fill(data)
        shape = self._shape(instruction)
        records = np.zeros(4, RECORD)
        records["handler"] = self._stop
        records[1]["handler"] = self._addresses[shape.key]
        records[1]["params"][: len(shape.params)] = shape.params
        records[3]["handler"] = self._taken
        pc = int(batch.pc[0])
        for name, value in (("pc.lo", pc & 0xFFFFFFFF), ("pc.hi", pc >> 32), ("target", 2 * RECORD.itemsize)):
            if name in shape.names:
                records[1]["params"].view(np.uint32)[shape.names.index(name)] = value
        self.records = records
        for name in ("read_lo", "read_hi", "write_lo", "write_hi"):
            self.context[0][name] = 0
        record = records.ctypes.data + RECORD.itemsize
        reason = self._call(self._addresses[shape.key], self.slot.address, record, self.context.ctypes.data)
        if reason in (_NEXT, Reason.BARRIER):
            batch.pc[:] += instruction.size
        elif reason == _TAKEN:
            batch.pc[:] = target_of(instruction, pc)
        return reason, self._data()

    def _call(self, address: int, wave: int, record: int, context: int) -> int:
        """Call a handler."""
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)(address)(wave, record, context)


def _compile(module: Any) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    flags = features.flatten() + ",-prefer-256-bit"
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=flags, opt=2, codemodel="jitdefault", jit=True
    )
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    llvm.create_pass_builder(target, options).getModulePassManager().run(
        module, llvm.create_pass_builder(target, options)
    )
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return engine


def _differences(mine: Batch, theirs: Batch) -> list[str]:
    out = []
    for name in ("sgpr", "vgpr", "scc", "mode", "pc", "state"):
        a, b = getattr(mine, name), getattr(theirs, name)
        for at in list(zip(*np.nonzero(a != b), strict=True))[:6]:
            out.append(f"{name}{[int(n) for n in at]}: {int(a[at]):#x} against {int(b[at]):#x}")
    n = min(mine.lds.size, theirs.lds.size)
    for at in np.flatnonzero(mine.lds[:n] != theirs.lds[:n])[:4]:
        out.append(f"lds[{int(at):#x}]: {int(mine.lds[at]):#x} against {int(theirs.lds[at]):#x}")
    return out


__all__ = ["CONTEXT", "Lab", "Reason", "host_features"]
