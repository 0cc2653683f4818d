"""Sub-dword addressing (CDNA): sources and results that are a byte or word of a register.

Source: "Sub-dword addressing" of the CDNA3 manual. Selectors: 0 to 3 a byte, 4 and 5 a word, 6 the whole register.
"""

from __future__ import annotations

import numpy as np

from mockgpu.isa.instruction import Operand, Sdwa
from mockgpu.machine.operands import Reader, as_bits
from mockgpu.machine.waves import Array, Group

_PAD, _SIGN, _KEEP = range(3)  # what happens to the rest of the destination


def _place(selector: int) -> tuple[int, int]:
    """(first bit, bits) that a selector names."""
    if selector < 4:
        return 8 * selector, 8
    return (16 * (selector - 4), 16) if selector < 6 else (0, 32)


def _sign_extended(value: Array, bits: int) -> Array:
    spare = np.int32(32 - bits)
    extended: Array = (value.view(np.int32) << spare >> spare).view(np.uint32)
    return extended


def selected(read: Reader, operand: Operand) -> Reader:
    """The part of a source that its selector names, zero- or sign-extended. ``read`` gives whole registers."""
    first, bits = _place(6 if operand.sel is None else operand.sel)

    def select(g: Group) -> Array:
        value = np.ascontiguousarray(as_bits(read(g), 32)) >> np.uint32(first)
        if bits < 32:
            value = value & np.uint32((1 << bits) - 1)
            if operand.sext:
                value = _sign_extended(value, bits)
        return as_bits(value, max(16, operand.bits))

    return select


def placed(sdwa: Sdwa, value: Array, old: Array) -> Array:
    """The destination register with a result put where the selector says."""
    first, bits = _place(sdwa.dst_sel)
    part = as_bits(value, 32)
    if bits == 32:
        return part
    mask = np.uint32((1 << bits) - 1)
    moved = (part & mask) << np.uint32(first)
    if sdwa.dst_unused == _KEEP:
        return old & ~(mask << np.uint32(first)) | moved
    if sdwa.dst_unused == _SIGN:
        return _sign_extended(part & mask, bits) << np.uint32(first)
    return moved
