"""Waves that somebody has prepared, run by native code: their state is copied in, and back afterwards."""

from __future__ import annotations

import ctypes

from mockgpu.isa.arch import Arch
from mockgpu.machine.launch import Launch
from mockgpu.machine.native.space import Kind, Space
from mockgpu.machine.native.worker import Template, Worker
from mockgpu.machine.waves import RUNNING, Batch

_ARRAYS = ("sgpr", "scc", "mode", "trapsts", "sched_mode", "trap_ctrl", "pc", "state", "ordinal", "scratch")


class Prepared:
    """The waves of one workgroup of ``batch`` on a worker of their own."""

    def __init__(self, arch: Arch, batch: Batch, space: Space):
        self.batch = batch
        workgroup = batch.workgroups[0] if batch.workgroups else (0, 0, 0)
        self.launch = Launch(0, (1, 1, 1), (batch.lanes, 1, 1), batch.lanes, start=workgroup, kernel=batch.kernel)
        mode = int(batch.mode[0])
        template = Template.of_batch(batch, arch, Kind(batch.lanes, batch.vgprs, batch.accs, mode))
        self.worker = Worker(arch, template, self.launch, 0)
        self.own = self.worker.slot.batch
        kinds = [Kind(batch.lanes, batch.vgprs, batch.accs, int(m)) for m in batch.mode]
        entries = [space.enter(kind, int(pc)) for kind, pc in zip(kinds, batch.pc, strict=True)]
        self._next = ctypes.c_int64(0)
        self.worker.start(self.launch, space, entries[0], ctypes.addressof(self._next), 0)
        self._copy(batch, self.own)
        self.own.barriers, self.own.dynamic_vgprs = None, batch.dynamic_vgprs
        self.worker.slot.headers["scratch_bytes"] = self.own.scratch_bytes = batch.scratch_bytes
        self.worker.slot.headers["record"] = [entry.record for entry in entries]
        self.worker.context["live"] = int((batch.state == RUNNING).sum())

    def _copy(self, source: Batch, target: Batch) -> None:
        for name in _ARRAYS:
            getattr(target, name)[:] = getattr(source, name)
        rows = min(len(source.vgpr), len(target.vgpr))
        target.vgpr[:rows] = source.vgpr[:rows]
        size = min(source.lds.size, target.lds.size)
        target.lds[:size] = source.lds[:size]

    def give_back(self) -> None:
        """Copy the state back."""
        self._copy(self.own, self.batch)
        self.batch.interrupts += self.own.interrupts
        self.batch.clock = self.worker.executed()
