"""Reading and writing the operands of an instruction: closures built once per decoded instruction.

A reader takes the executing :class:`Group` and returns the operand's bits in the container of its width (bool for
1 bit, uint16 up to 16, uint32, uint64), of a shape that broadcasts to (waves, lanes). A writer stores such bits.
Sources: "Scalar Operand Values", "Inline constants" and "Literal constants" of the RDNA3, RDNA4, CDNA3 manuals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mockgpu.isa.arch import Arch
from mockgpu.isa.instruction import Operand
from mockgpu.isa.registers import INLINE_FLOAT_BITS, Kind
from mockgpu.machine.waves import ACCUMULATION, EXEC, VCC, Array, Group, pack_lanes, unpack_lanes

Reader: TypeAlias = Callable[[Group], Array]
Writer: TypeAlias = Callable[[Group, Array, "Array | None"], None]

#: Byte addresses of the apertures that FLAT instructions map to LDS and scratch (as the kernel driver sets them).
SHARED_APERTURE = 1 << 48
PRIVATE_APERTURE = 2 << 48
APERTURE_SIZE = 1 << 32

VECTORS = (Kind.VGPR, Kind.AGPR)

_APERTURES = {
    Kind.SHARED_BASE: SHARED_APERTURE,
    Kind.SHARED_LIMIT: SHARED_APERTURE + APERTURE_SIZE - 1,
    Kind.PRIVATE_BASE: PRIVATE_APERTURE,
    Kind.PRIVATE_LIMIT: PRIVATE_APERTURE + APERTURE_SIZE - 1,
}


#: The numpy scalar type that holds n bits, for n up to 64.
_CONTAINERS: tuple[Any, ...] = (np.uint16, np.bool_, *[np.uint16] * 15, *[np.uint32] * 16, *[np.uint64] * 32)


def container(bits: int) -> Any:
    """The numpy scalar type that holds ``bits`` bits (object above 64: Python integers)."""
    return _CONTAINERS[bits] if bits <= 64 else object


def as_bits(value: Array, bits: int) -> Array:
    """The same bits in the container of ``bits`` bits, zero-extended or truncated."""
    dtype = container(bits)
    if value.dtype.type is dtype:
        return value
    if value.dtype == dtype:  # Python integers
        return value
    if dtype is np.bool_:
        value = value & value.dtype.type(1)
    elif value.dtype == object:
        value = value & ((1 << bits) - 1)
    converted: Array = value.astype(dtype)
    return converted


def constant(value: int, bits: int) -> Array:
    """A (1, 1) array of ``value`` (negative: two's complement)."""
    return np.array([[value & ((1 << bits) - 1)]], container(bits))


def _is_float(fmt: str) -> bool:
    return "_F16" in fmt or "_F32" in fmt or "_F64" in fmt or "_BF16" in fmt


def inline_float(code: int, bits: int, fmt: str) -> int:
    """The pattern of an inline float constant.

    A 16-bit float operand sees the f16 pattern, packed ones too (in their low half); a bf16 operand and integer
    operands of up to 32 bits see the f32 pattern (bf16: its high half).
    """
    if bits == 64:
        return INLINE_FLOAT_BITS[64][code]
    if "BF16" in fmt:
        return INLINE_FLOAT_BITS[32][code] >> 16
    if "F16" in fmt:
        return INLINE_FLOAT_BITS[16][code]
    return INLINE_FLOAT_BITS[32][code]


def literal_bits(value: int, bits: int, fmt: str) -> int:
    """A 32-bit literal as an operand: the high half of an f64, sign-extended for i64, zero-extended otherwise."""
    if bits <= 32:
        return value & ((1 << bits) - 1)
    if "F64" in fmt:
        return value << 32
    if "I64" in fmt and value >> 31:
        return value | 0xFFFFFFFF << 32
    return value


def constant_of(operand: Operand) -> int | None:
    """The bits of a constant operand, or None for a register."""
    bits, fmt = max(operand.bits, 16), operand.fmt
    if operand.kind is Kind.INT:
        return operand.index & ((1 << bits) - 1)
    if operand.kind is Kind.FLOAT:
        return inline_float(operand.code, bits, fmt)
    if operand.kind is Kind.LITERAL:
        return literal_bits(operand.index, bits, fmt)
    if operand.kind is Kind.IMM:
        return operand.index
    return None


def register_row(operand: Operand) -> int:
    """The row of a vector operand's first register: accumulation registers follow the others."""
    return operand.index + (ACCUMULATION if operand.kind is Kind.AGPR else 0)


def scalar_reader(code: int, bits: int, null: int | None) -> Reader:
    """Bits of the scalar registers from operand encoding ``code`` upwards; ``null`` is the null register's code."""
    if code == null:
        zero = constant(0, bits)
        return lambda g: zero
    if bits <= 16:
        return lambda g: g.scalar(code).astype(np.uint16)
    if bits <= 32:
        return lambda g: g.scalar(code)
    if bits <= 64:
        return lambda g: g.scalar64(code)
    return _wide(lambda g, k: g.scalar(code + k), bits)


def _wide(part: Callable[[Group, int], Array], bits: int) -> Reader:
    def read(g: Group) -> Array:
        value = part(g, 0).astype(object)
        for k in range(1, bits // 32):
            value = value | part(g, k).astype(object) << 32 * k
        return value

    return read


def vector_reader(reg: int, bits: int, high: int = 0) -> Reader:
    """Bits of the vector registers from ``reg`` upwards; ``high`` selects the half of a 16-bit operand."""
    if bits <= 16:
        return lambda g: g.vector_half(reg, high)
    if bits <= 32:
        return lambda g: g.vector(reg)
    if bits <= 64:
        return lambda g: g.vector64(reg)
    return _wide(lambda g, k: g.vector(reg + k), bits)


def special_reader(kind: Kind, bits: int) -> Reader:
    """SCC, VCCZ, EXECZ and the apertures as sources."""
    if kind in _APERTURES:
        value = constant(_APERTURES[kind], bits)
        return lambda g: value
    dtype = container(bits)
    if kind is Kind.SCC:
        return lambda g: g.batch.scc[g.index].astype(dtype)[:, None]
    if kind is Kind.VCCZ:
        return lambda g: is_zero(g, VCC).astype(dtype)
    if kind is Kind.EXECZ:
        return lambda g: is_zero(g, EXEC).astype(dtype)
    raise LookupError(f"operand {kind} cannot be read")


def is_zero(g: Group, code: int) -> Array:
    """Whether a lane mask is zero, (n, 1): wave32 looks at the low dword alone."""
    words: Array = g.scalar(code)
    if g.lanes == 64:
        words = words | g.scalar(code + 1)
    return np.equal(words, 0)


def reader(arch: Arch, operand: Operand, *, bits: int | None = None) -> Reader:
    """The operand without modifiers. Raises LookupError for an operand that cannot be read."""
    bits = operand.bits if bits is None else bits
    value = constant_of(operand)
    if value is not None:
        fixed = constant(value, max(bits, 16))
        return lambda g: fixed
    if operand.kind in VECTORS:
        return vector_reader(register_row(operand), bits, int(operand.hi))
    if operand.code < 128:
        return scalar_reader(operand.code, bits, arch.null_register)
    return special_reader(operand.kind, bits)


# -- writers --------------------------------------------------------------------------------------------------


def vector_writer(reg: int, bits: int, high: int = 0) -> Writer:
    """Write vector registers under EXEC and the given mask."""
    if bits <= 16:
        return lambda g, v, m: g.write_half(reg, high, v, g.lanes_of(m))
    if bits <= 32:
        return lambda g, v, m: g.write_vector(reg, v, g.lanes_of(m))

    def write(g: Group, value: Array, mask: Array | None) -> None:
        lanes = g.lanes_of(mask)
        for k in range(bits // 32):
            g.write_vector(reg + k, dword(value, k), lanes)

    return write


def scalar_writer(code: int, bits: int, null: int | None) -> Writer:
    """Write scalar registers of the waves that the mask selects; EXEC has no say."""
    if code == null:
        return lambda g, v, m: None
    if bits <= 32:
        return lambda g, v, m: g.write_scalar(code, as_bits(v, 32), m)

    def write(g: Group, value: Array, mask: Array | None) -> None:
        for k in range(bits // 32):
            g.write_scalar(code + k, dword(value, k), mask)

    return write


def dword(value: Array, k: int) -> Array:
    """Dword ``k`` of a value as uint32, which may be the value itself."""
    if value.dtype == object:
        return (value >> 32 * k & 0xFFFFFFFF).astype(np.uint32)
    if value.dtype != np.uint64:
        return value.astype(np.uint32, copy=False) if k == 0 else np.zeros((1, 1), np.uint32)
    return (value >> np.uint64(32 * k)).astype(np.uint32)


# -- lane masks -----------------------------------------------------------------------------------------------


def mask_reader(code: int) -> Reader:
    """A lane mask in scalar registers, spread to booleans (n, L)."""
    return lambda g: unpack_lanes(g.batch.sgpr[code, g.index], _high(g, code), g.lanes)


def _high(g: Group, code: int) -> Array | None:
    return g.batch.sgpr[code + 1, g.index] if g.lanes == 64 else None


def write_mask(g: Group, code: int, value: Array) -> None:
    """Pack booleans that broadcast to (n, L) into the lane mask at scalar register ``code``."""
    if code == g.batch.arch.null_register:
        return
    if value.shape != (g.n, g.lanes):
        value = np.broadcast_to(value, (g.n, g.lanes))
    words = pack_lanes(value)
    g.batch.sgpr[code, g.index] = words[:, 0]
    if g.lanes == 64:
        g.batch.sgpr[code + 1, g.index] = words[:, 1]
    if code == EXEC:
        g.refresh_exec()
