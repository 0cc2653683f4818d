"""One thread's part of a launch: its context, its waves, and how a launch starts on them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mockgpu.isa.arch import Arch
from mockgpu.machine.dispatch import Resources, start_batch
from mockgpu.machine.launch import Launch
from mockgpu.machine.native.layout import CONTEXT, SGPR, VGPR
from mockgpu.machine.native.space import Kind, Place, Space
from mockgpu.machine.native.state import Slot, aligned
from mockgpu.machine.waves import ACCUMULATION, SCALARS, Batch

#: Instructions that a wave executes before another one gets its turn, and turns after which Python looks at the clock.
SLICE, TURNS = 1 << 20, 4


@dataclass(frozen=True, slots=True)
class Frame:
    """What launches have in common that differ in their arguments, grid and code alone."""

    arch: str
    block: tuple[int, int, int]
    wave_size: int
    rsrc: tuple[int, int, int]
    lds_bytes: int
    scratch: tuple[int, int, int]

    @classmethod
    def of(cls, launch: Launch, arch: Arch) -> Frame:
        rsrc = launch.rsrc1, launch.rsrc2, launch.rsrc3
        scratch = launch.scratch_base, launch.scratch_wave_bytes, launch.scratch_waves
        return cls(arch.name, launch.block, launch.wave_size, rsrc, launch.lds_bytes, scratch)


class Template:
    """The initial state of the waves of a workgroup, but for the workgroup's id.

    ``scalars`` (waves, 128) and ``items`` (waves, lanes) are what registers start with; ``ids`` the byte offsets at
    which a wave wants its workgroup's id, 0 for nowhere.
    """

    def __init__(self, batch: Batch, arch: Arch, kind: Kind, user_sgprs: int, ids: tuple[bool, bool, bool]):
        self.waves, self.kind, self.user_sgprs = batch.waves, kind, user_sgprs
        self.scalars = aligned(4 * SCALARS * self.waves).view(np.uint32).reshape(self.waves, SCALARS)
        self.scalars[:] = batch.sgpr.T
        lanes = batch.lanes
        self.items = aligned(4 * lanes * self.waves).view(np.uint32).reshape(self.waves, lanes)
        self.items[:] = batch.vgpr[0]
        self.lds_bytes = batch.lds_bytes
        self.dynamic_vgprs = batch.dynamic_vgprs
        self.packed_ids = arch.trap_workgroup_ids
        self.ids = self._places(ids)

    @classmethod
    def of_launch(cls, launch: Launch, arch: Arch) -> Template:
        """The template of a launch."""
        resources = Resources.of(launch, arch)
        batch = start_batch(launch, arch, resources, [(0, 0, 0)])
        kind = Kind(batch.lanes, batch.vgprs, batch.accs, resources.mode)
        return cls(batch, arch, kind, resources.user_sgprs, resources.group_id)

    @classmethod
    def of_batch(cls, batch: Batch, arch: Arch, kind: Kind) -> Template:
        """The template for waves that are copied from a batch."""
        return cls(batch, arch, kind, 0, (False, False, False))

    def _places(self, ids: tuple[bool, bool, bool]) -> tuple[int, int, int]:
        at, places = self.user_sgprs, []
        for enabled in ids:
            places.append(SGPR + 4 * at if enabled and not self.packed_ids else 0)
            at += enabled
        return places[0], places[1], places[2]

    def set_arguments(self, user_data: tuple[int, ...]) -> None:
        """Put the launch's user data in the first scalar registers."""
        count = min(self.user_sgprs, len(user_data))
        self.scalars[:, :count] = user_data[:count]


class Worker:
    """The context and the waves of one thread. ``number`` tells the threads of a launch apart."""

    def __init__(self, arch: Arch, template: Template, launch: Launch, number: int):
        kind = template.kind
        self.template, self.number = template, number
        self.slot = Slot(arch, template.waves, kind.lanes, kind.vgprs, kind.accs, template.lds_bytes, launch.kernel)
        self._context = aligned(CONTEXT.itemsize).view(CONTEXT)
        self.context: Any = self._context[0]
        self.address = int(self._context.ctypes.data)
        self.counters: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.callouts = 0
        self._set_fixed(arch, launch)

    def _set_fixed(self, arch: Arch, launch: Launch) -> None:
        c, t, slot = self.context, self.template, self.slot
        slot.headers["ordinal"] = np.arange(t.waves)
        base, size, count = launch.scratch_base, launch.scratch_wave_bytes, launch.scratch_waves
        numbers = np.arange(t.waves) + self.number * t.waves
        if count:
            numbers %= count
        slot.headers["scratch"] = base + numbers.astype(np.uint64) * np.uint64(size)
        slot.headers["scratch_bytes"] = slot.batch.scratch_bytes = size
        c["waves"], c["wave_stride"], c["wave_count"] = slot.address, slot.stride, t.waves
        c["scalars"], c["items"] = t.scalars.ctypes.data, t.items.ctypes.data
        c["item_bytes"] = 4 * t.kind.lanes
        c["vgpr_bytes"] = 4 * t.kind.lanes * t.kind.vgprs
        c["acc_offset"] = VGPR + 4 * t.kind.lanes * ACCUMULATION if arch.acc_vgprs else VGPR
        c["acc_bytes"] = 4 * t.kind.lanes * t.kind.accs if arch.acc_vgprs else 0
        c["lds"], c["lds_size"] = slot.lds.ctypes.data, slot.batch.lds_stride
        c["id_x"], c["id_y"], c["id_z"] = t.ids
        c["packed_ids"], c["mode"] = int(t.packed_ids), t.kind.mode
        c["slice"] = SLICE

    def start(self, launch: Launch, space: Space, entry: Place, next_group: int, groups: int) -> None:
        """Get ready to run workgroups of a launch, taken from the shared counter at ``next_group``."""
        c = self.context
        self.map(space)
        self.grow_counters(space)
        self.callouts = 0
        c["next_group"], c["group_count"] = next_group, groups
        c["grid_x"], c["grid_y"] = launch.grid[0], launch.grid[1]
        c["start_x"], c["start_y"], c["start_z"] = launch.start
        c["entry_pc"], c["entry_record"] = launch.entry, entry.record
        c["live"] = c["ended"] = c["current"] = c["aborts"] = 0
        c["budget"], c["turns"] = SLICE, TURNS
        c["returns_at_end"] = int(self.template.dynamic_vgprs is not None)
        self.fresh_group()

    def fresh_group(self) -> None:
        """What Python keeps of a workgroup starts anew."""
        batch = self.slot.batch
        batch.barriers = None
        dynamic = self.template.dynamic_vgprs
        batch.dynamic_vgprs = None if dynamic is None else dynamic.copy()

    def map(self, space: Space) -> None:
        """Follow the mappings of the address space."""
        self._mappings = space.mappings()
        c = self.context
        for name, value in self._mappings.fields().items():
            c[name] = value
        for name in ("read_lo", "read_hi", "write_lo", "write_hi"):
            c[name] = 0

    def grow_counters(self, space: Space) -> None:
        """Make room for the counters of all blocks that are translated by now."""
        if space.counters > len(self.counters):
            grown = np.zeros(max(256, 2 * space.counters), np.int64)
            grown[: len(self.counters)] = self.counters
            self.counters = grown
            self.context["counters"] = grown.ctypes.data

    def workgroup(self, launch: Launch) -> tuple[int, int, int]:
        """The id of the workgroup that runs."""
        row, x = divmod(int(self.context["group"]), launch.grid[0])
        z, y = divmod(row, launch.grid[1])
        return launch.start[0] + x, launch.start[1] + y, launch.start[2] + z

    def executed(self) -> int:
        """Instructions since the launch began, roughly: a clock that goes forward with work."""
        c = self.context
        return int((TURNS - c["turns"]) * SLICE + SLICE - c["budget"]) + self.callouts


RUN = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
