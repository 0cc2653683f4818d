"""From a launch to waves: how a grid is cut into batches, and the state in which a wave starts.

Sources: COMPUTE_PGM_RSRC1/2/3 in the AMDGPU back-end manual ("Kernel descriptor", "Initial kernel execution state")
and the register headers; "Initial wave state" of the RDNA3 and RDNA4 ISA manuals.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mockgpu.isa.arch import Arch
from mockgpu.machine.launch import Launch
from mockgpu.machine.waves import EXEC, TTMP, Batch

#: Lanes of a batch at which the cost of numpy's calls no longer counts beside the cost of their elements.
BATCH_LANES = 16384
#: Bytes of registers and LDS that a batch of many lanes may hold.
BATCH_BYTES = 24 << 20


@dataclass(frozen=True, slots=True)
class Resources:
    """COMPUTE_PGM_RSRC1, 2 and 3 taken apart. Counts are of registers; ``mode`` is the initial MODE register.

    ``vgprs`` and ``accs`` are the two parts of the unified register file of CDNA, divided at ACCUM_OFFSET.
    ``dynamic_vgprs``: the kernel may change its number of vector registers.
    """

    vgprs: int
    accs: int
    dynamic_vgprs: bool
    mode: int
    scratch: bool
    user_sgprs: int
    group_id: tuple[bool, bool, bool]
    group_info: bool

    @classmethod
    def of(cls, launch: Launch, arch: Arch) -> Resources:
        """Decode the registers of a launch."""
        one, two = launch.rsrc1, launch.rsrc2
        ieee_and_clamp = (one >> 21 & 1) << 8 | (one >> 23 & 1) << 9
        mode = one >> 12 & 0xFF | (one >> 26 & 1) << 23
        if not arch.trap_workgroup_ids:  # later parts have neither bit
            mode |= ieee_and_clamp
        vgprs, accs = _registers(launch, arch)
        dynamic = bool(arch.dynamic_vgprs and two >> 6 & 1)
        return cls(
            vgprs=arch.vgprs if dynamic else vgprs,
            accs=accs,
            dynamic_vgprs=dynamic,
            mode=mode,
            scratch=bool(two & 1),
            user_sgprs=two >> 1 & 0x1F,
            group_id=(bool(two >> 7 & 1), bool(two >> 8 & 1), bool(two >> 9 & 1)),
            group_info=bool(two >> 10 & 1),
        )


def _registers(launch: Launch, arch: Arch) -> tuple[int, int]:
    """(vector registers, accumulation registers) of a wave.

    The VGPRS field counts granules of 8 (wave32 RDNA, CDNA) or 4 (wave64 RDNA). On CDNA it counts both kinds, and
    RSRC3.ACCUM_OFFSET + 1 granules of 4 are ordinary ones.
    """
    granule = 4 if launch.wave_size == 64 and arch.wave32 else 8
    every = ((launch.rsrc1 & 0x3F) + 1) * granule
    if not arch.acc_vgprs:
        return min(every, arch.vgprs), 0
    first_acc = min(((launch.rsrc3 & 0x3F) + 1) * 4, every, arch.vgprs)
    return first_acc, min(every - first_acc, arch.acc_vgprs)


def batches(launch: Launch, arch: Arch, lanes: int = BATCH_LANES) -> Iterator[Batch]:
    """The grid as a sequence of batches of whole workgroups, in the order of their ids (x fastest)."""
    resources = Resources.of(launch, arch)
    waves_per_group = -(-_items(launch) // launch.wave_size)
    per_batch = max(1, min(lanes // (waves_per_group * launch.wave_size), BATCH_BYTES // _bytes(launch, resources)))
    if resources.scratch and launch.scratch_waves:
        per_batch = max(1, min(per_batch, launch.scratch_waves // waves_per_group))
    ids = _group_ids(launch)
    while workgroups := list(itertools.islice(ids, per_batch)):
        yield start_batch(launch, arch, resources, workgroups)


def _bytes(launch: Launch, resources: Resources) -> int:
    """Bytes of the vector registers and the LDS of a workgroup."""
    lanes = -(-_items(launch) // launch.wave_size) * launch.wave_size
    return 4 * (resources.vgprs + resources.accs) * lanes + launch.lds_bytes


def _items(launch: Launch) -> int:
    x, y, z = launch.block
    return x * y * z


def _group_ids(launch: Launch) -> Iterator[tuple[int, int, int]]:
    ranges = [range(first, first + count) for first, count in zip(launch.start, launch.grid, strict=True)]
    for z, y, x in itertools.product(ranges[2], ranges[1], ranges[0]):
        yield x, y, z


def start_batch(launch: Launch, arch: Arch, resources: Resources, workgroups: list[tuple[int, int, int]]) -> Batch:
    """The waves of some workgroups in their initial state."""
    items, size = _items(launch), launch.wave_size
    per_group = -(-items // size)
    lds = -(-launch.lds_bytes // arch.lds_granularity) * arch.lds_granularity
    waves = len(workgroups) * per_group
    batch = Batch(arch, waves, size, resources.vgprs, workgroups, lds, launch.kernel, resources.accs)
    if resources.dynamic_vgprs:
        batch.dynamic_vgprs = np.full(waves, _registers(launch, arch)[0])
    batch.group[:] = np.repeat(np.arange(len(workgroups)), per_group)
    batch.ordinal[:] = np.tile(np.arange(per_group), len(workgroups))
    batch.pc[:] = launch.entry
    batch.mode[:] = resources.mode
    _item_ids(batch, launch, items)
    _scalars(batch, launch, arch, resources, per_group)
    _scratch(batch, launch)
    return batch


def _item_ids(batch: Batch, launch: Launch, items: int) -> None:
    """v0 holds the work item's id, x | y << 10 | z << 20; lanes past the workgroup's end are inactive."""
    number = batch.ordinal[:, None] * batch.lanes + np.arange(batch.lanes)
    x, y, _ = launch.block
    packed = number % x | number // x % y << 10 | number // (x * y) << 20
    active = number < items
    batch.vgpr[0] = np.where(active, packed, 0)
    bits = active.astype(np.uint64) << np.arange(batch.lanes, dtype=np.uint64)
    mask = np.bitwise_or.reduce(bits, axis=1)
    batch.sgpr[EXEC] = mask.astype(np.uint32)
    batch.sgpr[EXEC + 1] = (mask >> np.uint64(32)).astype(np.uint32)


def _scalars(batch: Batch, launch: Launch, arch: Arch, resources: Resources, per_group: int) -> None:
    """User data first, then the enabled workgroup ids and the workgroup info word, in this order."""
    for n, value in enumerate(launch.user_data[: resources.user_sgprs]):
        batch.sgpr[n] = value
    ids = np.array(batch.workgroups, np.int64)[batch.group].astype(np.uint32)
    if arch.trap_workgroup_ids:
        batch.sgpr[TTMP + 9] = ids[:, 0]
        batch.sgpr[TTMP + 7] = ids[:, 1] | ids[:, 2] << np.uint32(16)
        batch.sgpr[TTMP + 8] = batch.ordinal.astype(np.uint32) << np.uint32(25)
        return
    at = resources.user_sgprs
    for axis, enabled in enumerate(resources.group_id):
        if enabled:
            batch.sgpr[at] = ids[:, axis]
            at += 1
    if resources.group_info:
        first = (batch.ordinal == 0).astype(np.uint32) << np.uint32(31)
        batch.sgpr[at] = first | np.uint32(per_group)


def _scratch(batch: Batch, launch: Launch) -> None:
    """Each wave of the batch has a slot of its own; the runtime allocates as many slots as waves may run."""
    slots = np.arange(batch.waves, dtype=np.uint64)
    if launch.scratch_waves:
        slots %= np.uint64(launch.scratch_waves)
    batch.scratch[:] = np.uint64(launch.scratch_base) + slots * np.uint64(launch.scratch_wave_bytes)
    batch.scratch_bytes = launch.scratch_wave_bytes
