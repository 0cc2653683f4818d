"""The memory of the waves of one workgroup, for native code, and the oracle's view of the same memory.

Whatever native code has no form for is executed by the oracle's steps on ``batch``, whose arrays are views.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from mockgpu.isa.arch import Arch
from mockgpu.machine.native.layout import HEADER, SGPR, VGPR, wave_bytes
from mockgpu.machine.waves import ACCUMULATION, SCALARS, Batch
from mockgpu.machine.words import Words

#: Fields of a wave's header that are arrays of a Batch, and their types there.
_SHARED = {
    "pc": "i8", "scratch": "u8", "group": "i8", "ordinal": "i8", "mode": "u4", "trapsts": "u4", "sched_mode": "u4",
    "trap_ctrl": "u4", "scc": "?", "state": "u1",
}  # fmt: skip


def aligned(size: int, boundary: int = 64) -> npt.NDArray[np.uint8]:
    """Zeroed bytes that start at a multiple of ``boundary``."""
    raw = np.zeros(size + boundary, np.uint8)
    skip = -raw.ctypes.data % boundary
    return raw[skip : skip + size]


class Slot:
    """Place for the waves of one workgroup. ``address`` is that of the first wave, ``stride`` the bytes between two.

    ``rows`` counts vector registers, accumulation registers included; ``headers`` is the structured view of all waves.
    """

    def __init__(
        self, arch: Arch, waves: int, lanes: int, vgprs: int, accs: int, lds_bytes: int, kernel: str = ""
    ) -> None:
        self.arch, self.waves, self.lanes = arch, waves, lanes
        self.rows = ACCUMULATION + accs if arch.acc_vgprs else vgprs
        self.stride = wave_bytes(self.rows, lanes)
        self._memory = aligned(self.stride * waves)
        self.address = int(self._memory.ctypes.data)
        self.headers = as_strided(self._memory[: HEADER.itemsize].view(HEADER), (waves,), (self.stride,))
        self.batch = self._batch(vgprs, accs, lds_bytes, kernel)
        self.headers["lds"] = self.lds.ctypes.data
        self.headers["lds_bytes"] = lds_bytes

    def _view(self, offset: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> npt.NDArray[Any]:
        first = self._memory[offset : offset + np.dtype(dtype).itemsize].view(dtype)
        return as_strided(first, shape, strides)

    def _batch(self, vgprs: int, accs: int, lds_bytes: int, kernel: str) -> Batch:
        batch = Batch(self.arch, self.waves, self.lanes, vgprs, [(0, 0, 0)], lds_bytes, kernel, accs)
        w, lanes = self.waves, self.lanes
        assert HEADER.fields is not None
        for name, dtype in _SHARED.items():
            setattr(batch, name, self._view(int(HEADER.fields[name][1]), dtype, (w,), (self.stride,)))
        batch.sgpr = self._view(SGPR, "u4", (SCALARS, w), (4, self.stride))
        batch.vgpr = self._view(VGPR, "u4", (self.rows, w, lanes), (4 * lanes, self.stride, 4))
        batch.half = self._view(VGPR, "u2", (self.rows, w, lanes, 2), (4 * lanes, self.stride, 4, 2))
        self.lds = aligned(batch.lds_stride + 16)
        batch.lds, batch.lds_words = self.lds, Words(self.lds)
        return batch

    def wave(self, index: int) -> int:
        """The address of a wave."""
        return self.address + index * self.stride
