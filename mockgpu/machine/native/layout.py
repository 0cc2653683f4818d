"""Where native code finds things: the state of a wave, the context of a thread, and records of decoded code.

A wave is one block of memory: a header, the scalar registers by operand encoding, the vector registers lane-minor
(``vgpr[row][lane]``), all little-endian and 64-byte aligned. The numpy views of :mod:`callout` and LLVM code share it.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from mockgpu.machine.waves import SCALARS

#: The header of a wave. ``record`` is the address of its next record.
HEADER = np.dtype(
    [
        ("pc", "i8"), ("scratch", "u8"), ("lds", "u8"), ("lds_bytes", "i8"), ("scratch_bytes", "i8"),
        ("group", "i8"), ("ordinal", "i8"), ("dynamic_vgprs", "i8"), ("record", "u8"),
        ("mode", "u4"), ("trapsts", "u4"), ("sched_mode", "u4"), ("trap_ctrl", "u4"), ("scc", "u1"), ("state", "u1"),
    ],
    align=True,
)  # fmt: skip
SGPR = 128  # byte offset of scalar register 0
VGPR = SGPR + 4 * SCALARS  # byte offset of vector register 0
assert HEADER.itemsize <= SGPR

#: The context of a thread. Ranges ``*_lo``, ``*_hi`` are the last mappings hit; ``maps_*`` sorted tables of mappings
#: (first bytes, ends, one byte of permissions). ``exit_record`` and ``fault_*`` say where and why native code returned.
#: ``aborts`` counts regions of the second tier that were given up; ``lane_*`` are room for what helpers of one
#: instruction are given by lane, ``matrix`` for the elements of matrices.
CONTEXT = np.dtype(
    [
        ("read_lo", "u8"), ("read_hi", "u8"), ("write_lo", "u8"), ("write_hi", "u8"),
        ("maps_start", "u8"), ("maps_end", "u8"), ("maps_access", "u8"), ("maps_count", "i8"),
        ("exit_record", "u8"), ("fault_address", "u8"), ("fault_lane", "i8"), ("fault_bytes", "i8"),
        ("counters", "u8"), ("budget", "i8"), ("slice", "i8"), ("turns", "i8"), ("ended", "i8"),
        ("waves", "u8"), ("wave_stride", "i8"), ("wave_count", "i8"), ("current", "i8"), ("live", "i8"),
        ("scalars", "u8"), ("items", "u8"), ("item_bytes", "i8"), ("vgpr_bytes", "i8"), ("acc_offset", "i8"),
        ("acc_bytes", "i8"),
        ("lds", "u8"), ("lds_size", "i8"), ("next_group", "u8"), ("group_count", "i8"), ("group", "i8"),
        ("grid_x", "i8"), ("grid_y", "i8"), ("start_x", "i8"), ("start_y", "i8"), ("start_z", "i8"),
        ("id_x", "i8"), ("id_y", "i8"), ("id_z", "i8"), ("packed_ids", "i8"),
        ("entry_record", "u8"), ("entry_pc", "i8"), ("mode", "i8"), ("returns_at_end", "i8"), ("aborts", "i8"),
        ("lane_addresses", "u8", (64,)), ("lane_values", "u8", (64,)), ("lane_data", "u4", (512,)),
        ("matrix", "u1", (32768,)),
    ],
    align=True,
)  # fmt: skip

#: Bits of a mapping's permissions in ``maps_access``.
READ, WRITE, EXECUTE = 1, 2, 4

#: A decoded instruction: the address of its handler and what its shape says about it, see :mod:`shape`.
RECORD = np.dtype([("handler", "u8"), ("params", "i4", (14,))])
RECORD_BYTES = RECORD.itemsize
assert RECORD_BYTES == 64
PARAMS = 8  # byte offset of the first parameter of a record


class Reason(IntEnum):
    """Why a handler returned instead of going on to the next record.

    Up to ``TURN`` the run loop deals with it; the others return to Python. ``exit_record`` is the record at which it
    happened; the wave goes on at ``record`` (END: nowhere).
    """

    END = 0  # the wave ended
    BARRIER = 1  # the wave waits at S_BARRIER; it goes on behind it
    TURN = 2  # the budget is used up; the wave goes on at ``exit_record``
    DONE = 3  # run loop: no workgroup is left
    DEADLOCK = 4  # run loop: no wave can run
    CALLOUT = 5  # Python has to execute the instruction
    JUMP = 6  # the wave's PC was written: find its record
    READ_FAULT = 7
    WRITE_FAULT = 8
    LDS_FAULT = 9  # LDS atomic out of range
    SCRATCH_FAULT = 10
    TURNS = 11  # run loop: time to look at the clock
    END_RETURN = 12  # as END, but Python wants to know


def field(dtype: np.dtype[np.void], name: str) -> int:
    """Byte offset of a field of HEADER or CONTEXT."""
    assert dtype.fields is not None
    return int(dtype.fields[name][1])


def wave_bytes(rows: int, lanes: int) -> int:
    """Bytes from one wave to the next. An odd number of cache lines keeps waves out of each other's way."""
    size = -(-(VGPR + 4 * rows * lanes) // 64) * 64
    return size + 64 if size // 64 % 2 == 0 else size
