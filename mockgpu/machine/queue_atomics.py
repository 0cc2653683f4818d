"""Read-modify-write operations that packets perform, by their texture-cache opcode (``TC_OP_ATOMIC_*``).

The numbers are those of the TC_OP enumeration: 32-bit forms that return the old value start at 0x00, 64-bit forms
at 0x20; the forms without a return stand 0x40 higher.
"""

from __future__ import annotations

from collections.abc import Callable

Operation = Callable[[int, int, int, int], int]


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


# Each takes (old, source, compare, bits) and gives the new value before truncation.
_OPERATIONS: dict[int, tuple[str, Operation]] = {
    0x07: ("SWAP", lambda old, src, cmp, bits: src),
    0x08: ("CMPSWAP", lambda old, src, cmp, bits: src if old == cmp else old),
    0x0F: ("ADD", lambda old, src, cmp, bits: old + src),
    0x10: ("SUB", lambda old, src, cmp, bits: old - src),
    0x11: ("SMIN", lambda old, src, cmp, bits: min(old, src, key=lambda v: _signed(v, bits))),
    0x12: ("UMIN", lambda old, src, cmp, bits: min(old, src)),
    0x13: ("SMAX", lambda old, src, cmp, bits: max(old, src, key=lambda v: _signed(v, bits))),
    0x14: ("UMAX", lambda old, src, cmp, bits: max(old, src)),
    0x15: ("AND", lambda old, src, cmp, bits: old & src),
    0x16: ("OR", lambda old, src, cmp, bits: old | src),
    0x17: ("XOR", lambda old, src, cmp, bits: old ^ src),
    0x18: ("INC", lambda old, src, cmp, bits: 0 if old >= src else old + 1),
    0x19: ("DEC", lambda old, src, cmp, bits: src if old == 0 or old > src else old - 1),
}


def atomic_name(opcode: int) -> str | None:
    """``ADD_64`` and the like, or None for a number without an integer operation."""
    found = _OPERATIONS.get(opcode & 0x1F)
    return f"{found[0]}_{atomic_bits(opcode)}" if found else None


def atomic_bits(opcode: int) -> int:
    return 64 if opcode & 0x20 else 32


def apply_atomic(opcode: int, old: int, source: int, compare: int) -> int:
    """The new value of memory. ``old``, ``source`` and ``compare`` are unsigned and of the operation's width."""
    bits = atomic_bits(opcode)
    mask = (1 << bits) - 1
    return _OPERATIONS[opcode & 0x1F][1](old, source & mask, compare & mask, bits) & mask
