"""Data-parallel primitives: reading source 0 from another lane.

Sources: "DPP" (DPP16, DPP8) of the RDNA3 and RDNA4 manuals, "DPP" of the CDNA3 manual. A control value gives, for
every lane, the lane it reads and whether that lane exists; EXEC, BOUND_CTRL and FI decide the rest when it executes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mockgpu.isa.arch import Arch
from mockgpu.isa.instruction import Dpp8, Dpp16
from mockgpu.machine.waves import Array, Group

ROW = 16
#: RDNA3 hardware reads the row's first lane for this control, which its manual does not list (vector dpp-0009).
_FIRST_OF_ROW = 0x142


@dataclass(frozen=True, slots=True)
class Shuffle:
    """``source`` (L,) is the lane each lane reads, ``exists`` whether it is a lane, ``enabled`` the row and bank masks.

    ``zero``: an invalid source reads as 0; otherwise the lane is not written. ``fetch_inactive``: lanes that EXEC
    turns off may be read.
    """

    source: Array
    exists: Array
    enabled: Array
    zero: bool
    fetch_inactive: bool

    def lanes(self, g: Group) -> tuple[Array | None, Array | None]:
        """(invalid sources, lanes to write) of a group, (n, L) or (1, L); None where there are none, or all."""
        invalid = ~self.exists[None, :]
        if not self.fetch_inactive and g.exec is not None:
            invalid = invalid | ~g.exec[:, self.source]
        enabled = self.enabled[None, :] if self.zero else self.enabled[None, :] & ~invalid
        lanes = None if enabled.all() else enabled
        return (invalid if invalid.any() else None), lanes

    def apply(self, value: Array, invalid: Array | None) -> Array:
        """``value`` (n, L) as the lanes read it."""
        moved = value[:, self.source] if value.shape[-1] > 1 else value
        if invalid is None or not self.zero:
            return moved
        return np.where(invalid, moved.dtype.type(0), moved)


def shuffle_of(arch: Arch, dpp: Dpp16 | Dpp8, lanes: int) -> Shuffle:
    """The shuffle of a DPP modifier. Raises LookupError for a reserved control."""
    if isinstance(dpp, Dpp8):
        return _dpp8(dpp, lanes)
    source, exists = _source16(arch, dpp.ctrl, lanes)
    ids = np.arange(lanes)
    row_on = dpp.row_mask >> (ids // ROW) & 1
    bank_on = dpp.bank_mask >> (ids % ROW // 4) & 1
    enabled = (row_on & bank_on).astype(np.bool_)
    fetch = dpp.fetch_inactive if arch.wave32 else False
    return Shuffle(source, exists, enabled, dpp.bound_ctrl, fetch)


def _dpp8(dpp: Dpp8, lanes: int) -> Shuffle:
    ids = np.arange(lanes)
    source = (ids & ~7) + np.array(dpp.lanes)[ids & 7]
    every = np.ones(lanes, np.bool_)
    return Shuffle(source, every, every, True, dpp.fetch_inactive)


def _in_row(ids: Array, moved: Array) -> tuple[Array, Array]:
    """Lanes inside a row: ``moved`` are positions that may leave 0..15."""
    exists = (moved >= 0) & (moved < ROW)
    return np.where(exists, (ids & ~(ROW - 1)) + moved, ids), exists


def _source16(arch: Arch, ctrl: int, lanes: int) -> tuple[Array, Array]:
    ids = np.arange(lanes)
    row, at = ids & ~(ROW - 1), ids & (ROW - 1)
    every = np.ones(lanes, np.bool_)
    amount = ctrl & 0xF
    if ctrl < 0x100:  # quad_perm
        return (ids & ~3) + (ctrl >> 2 * (ids & 3) & 3), every
    if 0x101 <= ctrl <= 0x10F:  # row_shl: from higher lanes
        return _in_row(ids, at + amount)
    if 0x111 <= ctrl <= 0x11F:  # row_shr
        return _in_row(ids, at - amount)
    if 0x121 <= ctrl <= 0x12F:  # row_ror
        return row + ((at - amount) & (ROW - 1)), every
    if ctrl == 0x140:  # row_mirror
        return row + (ROW - 1 - at), every
    if ctrl == 0x141:  # row_half_mirror
        return (ids & ~7) + (7 - (ids & 7)), every
    if arch.wave32 and 0x150 <= ctrl <= 0x15F:  # row_share
        return row + amount, every
    if arch.wave32 and 0x160 <= ctrl <= 0x16F:  # row_xmask
        return row + (at ^ amount), every
    if arch.wave32 and ctrl == _FIRST_OF_ROW:
        return row, every
    return _across_rows(arch, ctrl, lanes)


def _across_rows(arch: Arch, ctrl: int, lanes: int) -> tuple[Array, Array]:
    """Controls that move data between the rows of a wave64 (GFX9 and CDNA)."""
    ids = np.arange(lanes)
    every = np.ones(lanes, np.bool_)
    if not arch.wave32:
        if 0x150 <= ctrl <= 0x15F:  # row_newbcast
            return (ids & ~(ROW - 1)) + (ctrl & 0xF), every
        if ctrl in (0x130, 0x138):  # wave_shl:1, wave_shr:1
            moved = ids + (1 if ctrl == 0x130 else -1)
            exists = (moved >= 0) & (moved < lanes)
            return np.where(exists, moved, ids), exists
        if ctrl in (0x134, 0x13C):  # wave_rol:1, wave_ror:1
            return (ids + (1 if ctrl == 0x134 else -1)) % lanes, every
        if ctrl == 0x142:  # row_bcast:15
            return np.maximum(ids // ROW * ROW - 1, 0), ids >= ROW
        if ctrl == 0x143:  # row_bcast:31
            return np.full(lanes, 31), ids >= 32
    raise LookupError(f"DPP control {ctrl:#x} is reserved")
