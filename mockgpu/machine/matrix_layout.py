"""Where the elements of matrix operands lie: lane and bits of which register, by rule.

A layout is linear: every bit of a coordinate (row ``i``, column ``j``, inner index ``k``, matrix number ``block``)
adds a fixed lane and a fixed bit offset. A *basis* holds these steps, the lowest coordinate bit first; bit offset
``32*r + s`` is bit ``s`` of the operand's register ``r``.

Sources: "Matrix fused multiply-add" (dense, sparse, block-scaled) of the CDNA3 and CDNA4 ISA manuals, "Wave matrix
multiply accumulate" of the RDNA3 and RDNA4 ISA manuals. The rules agree with AMD's matrix instruction calculator and
with packings that were run on gfx942, gfx950 and gfx1201, up to an order of K that is common to all operands and cannot
be observed in exact sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

#: A lane step and a bit step.
Step: TypeAlias = tuple[int, int]
Steps: TypeAlias = tuple[Step, ...]
Ints: TypeAlias = npt.NDArray[np.intp]

_REGISTER = 32  # bits
_CDNA_CHUNK = 128  # bits of a row that lie in one lane before the next lane group follows
_RDNA4_CHUNK = 64
_INDEX_FIELD = 4  # bits of a sparse index: two positions inside a group of four


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of one operand.

    ``row`` are the steps of ``i`` (of ``j`` for B), ``col`` those of ``k`` (A, B; kept values of a sparse A) or ``j``
    (C, D), ``block`` those of the matrix number. ``bits`` is the width of an element.
    """

    bits: int
    row: Steps
    col: Steps
    block: Steps = ()

    @property
    def registers(self) -> int:
        """How many registers hold the operand."""
        top = sum(bit for steps in (self.row, self.col, self.block) for _, bit in steps)
        return (top + self.bits + _REGISTER - 1) // _REGISTER

    def places(self) -> tuple[Ints, Ints]:
        """Lane and bit offset of every element, each of shape (blocks, rows, columns)."""
        lanes, bits = (_sum_steps(self.block, self.row, self.col, part) for part in (0, 1))
        return lanes, bits


def _sum_steps(block: Steps, row: Steps, col: Steps, part: int) -> Ints:
    b, r, c = (_offsets(steps, part) for steps in (block, row, col))
    return b[:, None, None] + r[None, :, None] + c[None, None, :]


def _offsets(steps: Steps, part: int) -> Ints:
    out = np.zeros(1, np.intp)
    for step in steps:
        out = np.concatenate([out, out + step[part]])
    return out


def log2(n: int) -> int:
    """The exponent of a power of two."""
    return n.bit_length() - 1


def _lanes(first: int, count: int) -> Steps:
    return tuple((first << n, 0) for n in range(count))


def _in_lane(first: int, count: int) -> Steps:
    return tuple((0, first << n) for n in range(count))


def _spread(run: int, bits: int, chunk: int, lanes: Steps) -> Steps:
    """Steps of an inner index, ``2**run`` values to a lane: up to ``chunk`` bits, then other lanes, then the rest."""
    near = min(run, log2(chunk // bits)) if chunk % bits == 0 else run
    return _in_lane(bits, near) + lanes + _in_lane(bits << near, run - near)


# -- CDNA -------------------------------------------------------------------------------------------------------------


def cdna_input(dim: int, inner: int, blocks: int, bits: int) -> Layout:
    """A or B: ``dim`` rows (columns), ``inner`` stored values of K, elements of ``bits`` bits.

    The low lane bits are the row, then comes the block; what is left of the 64 lanes takes parts of K. A lane holds
    at most 128 bits of consecutive K before the next lanes go on (6-bit elements: all 32 of the lane).
    """
    rows, many = log2(dim), log2(blocks)
    spare = 6 - rows - many
    lanes = _lanes(dim * blocks, spare)
    col = _spread(log2(inner) - spare, bits, _CDNA_CHUNK, lanes)
    return Layout(bits, _lanes(1, rows), col, _lanes(dim, many))


def cdna_output(m: int, n: int, blocks: int, bits: int) -> Layout:
    """C and D: columns in the low lanes; four rows (f64: one row) in a lane, then over lanes, then over registers.

    Blocks take the lanes that rows leave, else further registers.
    """
    run = 2 if bits == 32 else 0
    rows, cols, many = log2(m), log2(n), log2(blocks)
    row_lanes = min(rows - run, 6 - cols)
    block_lanes = min(many, 6 - cols - row_lanes)
    near = _in_lane(bits, run)
    across = _lanes(1 << (cols + block_lanes), row_lanes)
    far = _in_lane(bits << run, rows - run - row_lanes)
    block = _lanes(n, block_lanes) + _in_lane(bits << (rows - row_lanes), many - block_lanes)
    return Layout(bits, near + across + far, _lanes(1, cols), block)


# -- RDNA3 ------------------------------------------------------------------------------------------------------------


def rdna3_input(dim: int, inner: int, bits: int) -> Layout:
    """A or B: one row per lane, K in the lane. Programs must repeat it in every 16 lanes; lanes 0-15 are read."""
    return Layout(bits, _lanes(1, log2(dim)), _in_lane(bits, log2(inner)))


def rdna3_output(m: int, n: int, bits: int, wave_size: int) -> Layout:
    """C and D: rows go over the lane groups first, then over registers; a 16-bit element fills half a register."""
    groups = log2(wave_size // n)
    row = _lanes(n, groups) + _in_lane(_REGISTER, log2(m) - groups)
    return Layout(bits, row, _lanes(1, log2(n)))


# -- RDNA4 ------------------------------------------------------------------------------------------------------------


def rdna4_input(dim: int, inner: int, bits: int, wave_size: int, *, beside_sparse: bool = False) -> Layout:
    """A or B: 64 bits of K in a lane (128 for the B of a sparse A), then 16 lanes further, then more registers."""
    chunk = _RDNA4_CHUNK * 2 if beside_sparse else _RDNA4_CHUNK
    col = _spread(log2(inner) - 1, bits, chunk, _lanes(dim, 1))
    return _widen(Layout(bits, _lanes(1, log2(dim)), col), wave_size)


def rdna4_output(m: int, n: int, bits: int, wave_size: int) -> Layout:
    """C and D: eight rows in a lane (packed when 16 bits wide), the other eight 16 lanes further."""
    row = _in_lane(bits, log2(m) - 1) + _lanes(n, 1)
    return _widen(Layout(bits, row, _lanes(1, log2(n))), wave_size)


def _widen(layout: Layout, wave_size: int) -> Layout:
    """The layout of wave64: the upper half of the registers moves to lanes 32-63. A single register stays."""
    if wave_size == 32 or layout.registers == 1:
        return layout
    half = layout.registers * _REGISTER // 2

    def move(steps: Steps) -> Steps:
        return tuple((32, 0) if step == (0, half) else step for step in steps)

    return Layout(layout.bits, move(layout.row), move(layout.col), move(layout.block))


# -- sparsity and scales ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """The places of the 4-bit index fields of a sparse A: one register with ``sets`` alternatives of ``set_bits`` bits.

    The low two bits of a field say where in its group of four the first kept value belongs, the high two the second.
    """

    fields: Layout
    set_bits: int

    @property
    def sets(self) -> int:
        return _REGISTER // self.set_bits


def index_layout(a: Layout) -> IndexLayout:
    """The index that goes with the sparse ``a``: in the lane of its pair, fields in the order of the pairs."""
    if a.col[0] != (0, a.bits):
        raise ValueError("the two kept values of a group must lie side by side")
    pair = 2 * a.bits
    col = tuple((lane, bit // pair * _INDEX_FIELD) for lane, bit in a.col[1:])
    set_bits = sum(bit for _, bit in col) + _INDEX_FIELD
    return IndexLayout(Layout(_INDEX_FIELD, a.row, col), set_bits)


def scale_lanes(dim: int, k_blocks: int) -> Ints:
    """Lane of the scale of every (row, block of 32 K), shape (dim, k_blocks)."""
    return np.arange(dim, dtype=np.intp)[:, None] + dim * np.arange(k_blocks, dtype=np.intp)[None, :]


# -- lane selection ---------------------------------------------------------------------------------------------------


def cbsz_lanes(cbsz: int, abid: int) -> Ints:
    """Lane that lane ``l`` takes A from: all groups of ``64 / 2**cbsz`` lanes read group ABID (shape (64,)).

    This is the formula of the CDNA3 and CDNA4 manuals ("CBSZ and ABID"). AMD's calculator shares one block inside each
    run of ``2**cbsz`` neighbouring blocks instead; the two agree when ``2**cbsz`` is the number of blocks.
    """
    size = 64 >> cbsz
    return np.arange(64, dtype=np.intp) % size + size * abid


def blgp_lanes(blgp: int) -> Ints:
    """Lane that lane ``l`` takes B from, for BLGP 0 to 7 (shape (64,))."""
    lane = np.arange(64, dtype=np.intp)
    if blgp == 0:
        return lane
    if blgp in (1, 2):
        return lane % 32 + 32 * (blgp - 1)
    if blgp == 3:
        return (lane + 16) % 64
    return lane % 16 + 16 * (blgp - 4)
