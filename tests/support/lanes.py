"""Runs assembled instructions on whole waves of given register values, on the oracle engine.

Values are flat arrays with one element per lane, as many as a test likes; they are spread over waves of one batch.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mockgpu.isa.arch import get_arch
from mockgpu.machine.memory import Memory
from mockgpu.machine.waves import EXEC, VCC, Batch
from support.kernels import Block, engine
from support.llvm_mc import assemble

Words = npt.NDArray[Any]

#: What the HSA kernel descriptor gives: nearest even, f32 denormals flushed, others kept, DX10_CLAMP, IEEE.
HSA_MODE = 0x3C0
FIRST_SOURCE, RESULT = 2, 32
_SOURCE_STEP = 6
LETTERS = "abcdef"
_USED = 64  # registers that start with garbage; tests use no others


@functools.cache
def machine_code(text: str, arch: str, wave_size: int) -> bytes:
    """The bytes of assembly text for a wave size."""
    rdna = arch.startswith("gfx1")
    features = ["+wavefrontsize64"] if wave_size == 64 and rdna else []
    if rdna and re.search(r"v\d+\.[lh]\b", text):
        features.append("+real-true16")
    return assemble(text, arch, ",".join(features))


def default_wave(arch: str) -> int:
    """The wave size that compilers choose."""
    return 32 if arch.startswith("gfx1") else 64


class Run:
    """Waves after a run. ``count`` is the number of lanes that tests asked for."""

    def __init__(self, batch: Batch, count: int):
        self.batch, self.count = batch, count

    def words(self, reg: int) -> npt.NDArray[np.uint32]:
        """A vector register, one word per lane."""
        return self.batch.vgpr[reg].ravel()[: self.count].copy()

    def pairs(self, reg: int) -> npt.NDArray[np.uint64]:
        """Two vector registers as 64-bit values."""
        return self.words(reg).astype(np.uint64) | self.words(reg + 1).astype(np.uint64) << np.uint64(32)

    def scalar(self, reg: int) -> npt.NDArray[np.uint32]:
        """A scalar register, one word per wave."""
        return self.batch.sgpr[reg].copy()

    def pair(self, reg: int) -> npt.NDArray[np.uint64]:
        """Two scalar registers as 64-bit values, one per wave."""
        return self.scalar(reg).astype(np.uint64) | self.scalar(reg + 1).astype(np.uint64) << np.uint64(32)

    def mask(self, reg: int) -> npt.NDArray[np.bool_]:
        """A lane mask in scalar registers, one bit per lane."""
        lanes = self.batch.lanes
        low = self.batch.sgpr[reg].astype(np.uint64)
        wide = low if lanes == 32 else low | self.batch.sgpr[reg + 1].astype(np.uint64) << np.uint64(32)
        bits = wide[:, None] >> np.arange(lanes, dtype=np.uint64) & np.uint64(1)
        return bits.astype(np.bool_).ravel()[: self.count]

    @property
    def vcc(self) -> npt.NDArray[np.bool_]:
        return self.mask(VCC)

    @property
    def scc(self) -> npt.NDArray[np.bool_]:
        """One bit per wave."""
        return self.batch.scc.copy()


def run(
    arch: str,
    text: str,
    *,
    vectors: Mapping[int, Words] | None = None,
    scalars: Mapping[int, Any] | None = None,
    masks: Mapping[int, Words] | None = None,
    scc: Any = 0,
    mode: int = HSA_MODE,
    lanes: Words | None = None,
    wave_size: int | None = None,
    waves: int | None = None,
    lds: int = 0,
    memory: Memory | None = None,
    dynamic: bool = False,
) -> Run:
    """Run ``text`` (without a terminator) on as many waves as the values need.

    ``vectors`` gives registers: 32-bit words, or 64-bit ones for two registers. ``scalars`` gives SGPRs, one word for
    all waves or one per wave; ``masks`` pairs of SGPRs (or VCC) as one bit per lane; ``lanes`` the active lanes
    (default: those that have values); the others hold garbage. ``dynamic``: S_ALLOC_VGPR is allowed.
    """
    size = wave_size or default_wave(arch)
    count = max((len(v) for v in (vectors or {}).values()), default=size * (waves or 1))
    waves = waves or -(-count // size)
    batch = _batch(arch, waves, size, lds, mode)
    for reg, value in (vectors or {}).items():
        _put(batch, reg, np.asarray(value))
    for reg, word in (scalars or {}).items():
        batch.sgpr[reg] = word
    for reg, bits in (masks or {}).items():
        _put_mask(batch, reg, bits)
    batch.scc[:] = scc
    if dynamic:
        batch.dynamic_vgprs = np.full(waves, 256)
    active = np.zeros(waves * size, np.bool_)
    active[:count] = True if lanes is None else lanes
    _put_mask(batch, EXEC, active)
    memory = memory or Memory()
    code = machine_code(text + "\n", arch, size)
    program = Block(memory, len(code) + 256)
    program.bytes[: len(code)] = np.frombuffer(code, np.uint8)
    batch.pc[:] = program.va
    engine(arch).run_code(batch, memory, program.va + len(code))
    memory.unmap(program.va)
    return Run(batch, count)


def _batch(arch: str, waves: int, size: int, lds: int, mode: int) -> Batch:
    batch = Batch(get_arch(arch), waves, size, 256, [(0, 0, 0)], lds, "test")
    batch.vgpr[:_USED] = np.random.default_rng(11).integers(0, 1 << 32, batch.vgpr.shape[1:], np.uint32)
    batch.mode[:] = mode
    batch.ordinal[:] = np.arange(waves)
    return batch


def _put(batch: Batch, reg: int, value: Words) -> None:
    flat = batch.vgpr.reshape(len(batch.vgpr), -1)
    for k in range(value.dtype.itemsize // 4 or 1):
        part = value >> np.uint64(32 * k) if value.dtype.itemsize == 8 else value
        flat[reg + k, : len(value)] = (part & 0xFFFFFFFF).astype(np.uint32)


def _put_mask(batch: Batch, reg: int, bits: Words) -> None:
    whole = np.zeros(batch.waves * batch.lanes, np.bool_)
    whole[: len(bits)] = bits
    words = np.packbits(whole.reshape(batch.waves, -1), axis=1, bitorder="little").view(np.uint32)
    for k in range(words.shape[1]):
        batch.sgpr[reg + k] = words[:, k]


def name(reg: int, bits: int) -> str:
    """The assembler's name of a vector register or a range of them."""
    return f"v{reg}" if bits <= 32 else f"v[{reg}:{reg + bits // 32 - 1}]"


def compute(arch: str, text: str, *sources: Words, bits: int = 32, old: Words | None = None, **options: Any) -> Words:
    """The results of one instruction: ``{d}`` in ``text`` is the destination, ``{a}``, ``{b}``, ... the sources.

    ``bits`` is the destination's width (16 gives the low half); ``old`` its former content.
    """
    ran = compute_run(arch, text, *sources, bits=bits, old=old, **options)
    if bits == 64:
        return ran.pairs(RESULT)
    words = ran.words(RESULT)
    return words & np.uint32(0xFFFF) if bits == 16 else words


def compute_run(arch: str, text: str, *sources: Words, bits: int = 32, old: Words | None = None, **options: Any) -> Run:
    """As ``compute``, giving all state afterwards."""
    names, vectors = {"d": name(RESULT, bits)}, dict(options.pop("vectors", {}))
    for k, source in enumerate(sources):
        reg = FIRST_SOURCE + _SOURCE_STEP * k
        names[LETTERS[k]] = name(reg, source.dtype.itemsize * 8)
        vectors[reg] = source
    if old is not None:
        vectors[RESULT] = old
    return run(arch, text.format(**names), vectors=vectors, **options)
