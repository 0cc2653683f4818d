"""Runs small assembled kernels on the oracle engine, without driver or runtime."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mockgpu.isa.arch import get_arch
from mockgpu.machine.engine import make_engine
from mockgpu.machine.launch import Engine, Launch, LaunchStats
from mockgpu.machine.memory import PAGE, Memory
from support.llvm_mc import assemble

HSA_FLOAT_MODE = 0xC0  # f32 denormals flushed, f16 and f64 kept, round to nearest even
_RSRC1 = 31 | HSA_FLOAT_MODE << 12 | 1 << 21 | 1 << 23  # 256 VGPRs, DX10_CLAMP, IEEE
_RSRC2 = 2 << 1 | 1 << 7 | 1 << 8 | 1 << 9  # two user SGPRs, workgroup ids in s2, s3, s4

_engines: dict[str, Engine] = {}


class Block:
    """Zeroed host memory, page-aligned and mapped at its own address."""

    def __init__(self, memory: Memory, size: int, **permissions: bool):
        size = -(-size // PAGE) * PAGE
        self.raw = ctypes.create_string_buffer(size + PAGE)
        self.va = -(-ctypes.addressof(self.raw) // PAGE) * PAGE
        self.bytes = np.frombuffer((ctypes.c_uint8 * size).from_address(self.va), np.uint8)
        memory.map(self.va, size, **permissions)


@dataclass
class Ran:
    """What a kernel left behind: the words of its buffer and the engine's statistics."""

    words: npt.NDArray[np.uint32]
    stats: LaunchStats
    memory: Memory
    buffer: int

    def floats(self) -> npt.NDArray[np.float32]:
        """The words as f32."""
        return self.words.view(np.float32)


def engine(arch: str = "gfx1100") -> Engine:
    """A shared engine, that of MOCKGPU_ENGINE or the oracle: decoding is cached between tests."""
    if arch not in _engines:
        _engines[arch] = make_engine(get_arch(arch), os.environ.get("MOCKGPU_ENGINE") or "oracle")
    return _engines[arch]


def run(
    text: str,
    *,
    arch: str = "gfx1100",
    grid: int | tuple[int, int, int] = 1,
    block: int | tuple[int, int, int] = 32,
    wave_size: int = 32,
    data: Any = None,
    size: int = 1 << 14,
    lds: int = 0,
    scratch: int = 0,
    timeout: float = 20.0,
    mode: int = HSA_FLOAT_MODE,
) -> Ran:
    """Run ``text`` (s_endpgm is added). s[0:1] is the address of a zeroed buffer that starts with ``data``.

    s2, s3, s4 are the workgroup ids, v0 the packed work-item id; ``scratch`` counts bytes per lane.
    """
    features = "+wavefrontsize64" if wave_size == 64 and arch.startswith("gfx1") else ""
    code = assemble(text + "\ns_endpgm\n", arch, *([features] if features else []))
    memory = Memory()
    program, buffer = Block(memory, len(code) + 256), Block(memory, size)
    program.bytes[: len(code)] = np.frombuffer(code, np.uint8)
    if data is not None:
        raw = np.ascontiguousarray(data).view(np.uint8).ravel()
        buffer.bytes[: raw.size] = raw
    waves = 64
    private = Block(memory, max(1, scratch * wave_size * waves))
    launch = Launch(
        entry=program.va,
        grid=grid if isinstance(grid, tuple) else (grid, 1, 1),
        block=block if isinstance(block, tuple) else (block, 1, 1),
        wave_size=wave_size,
        user_data=(buffer.va & 0xFFFFFFFF, buffer.va >> 32),
        rsrc1=(_RSRC1 & ~(0xFF << 12)) | mode << 12 | (32 if wave_size == 64 else 0),
        rsrc2=_RSRC2 | (1 if scratch else 0),
        rsrc3=0x3F if arch.startswith("gfx9") else 0,  # all of the vector registers are ordinary ones
        lds_bytes=lds,
        scratch_base=private.va,
        scratch_wave_bytes=scratch * wave_size,
        scratch_waves=waves if scratch else 0,
        kernel="test",
    )
    stats = engine(arch).run(launch, memory, timeout=timeout)
    ran = Ran(buffer.bytes.view(np.uint32).copy(), stats, memory, buffer.va)
    return ran


def lane_program(body: str, *, result: str = "v2") -> str:
    """A program whose lanes each store one register: v1 is the byte offset of the lane's word."""
    return f"v_and_b32 v0, 0x3ff, v0\nv_lshlrev_b32 v1, 2, v0\n{body}\nglobal_store_b32 v1, {result}, s[0:1]\n"
