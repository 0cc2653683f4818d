"""Elements of matrices: out of register words, into numbers, and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mockgpu.machine.matrix_layout import Ints
from mockgpu.pcode import numeric_format as formats
from mockgpu.pcode.numeric_convert import as_signed, values
from mockgpu.pcode.numeric_format import Bits, FloatFormat
from mockgpu.pcode.numeric_mode import Round
from mockgpu.pcode.numeric_round import round_double

Words = npt.NDArray[np.uint32]
Doubles = npt.NDArray[np.float64]

_XF32_DROPPED = np.uint32((1 << 13) - 1)  # xf32 has 10 fraction bits

_FLOATS = {
    "f64": formats.F64, "f32": formats.F32, "xf32": formats.F32, "f16": formats.F16, "bf16": formats.BF16,
    "fp8": formats.FP8, "bf8": formats.BF8, "fp6": formats.FP6, "bf6": formats.BF6, "fp4": formats.FP4,
}  # fmt: skip
_FNUZ = {"fp8": formats.FP8_FNUZ, "bf8": formats.BF8_FNUZ}


def float_format(kind: str, fnuz: bool) -> FloatFormat:
    """The format of a float element type; ``fnuz`` chooses the FNUZ kind of the 8-bit ones."""
    return _FNUZ[kind] if fnuz and kind in _FNUZ else _FLOATS[kind]


def flatten(registers: Words) -> Words:
    """Registers of shape (registers, waves, lanes) as (waves, registers * lanes)."""
    count, waves, lanes = registers.shape
    return np.ascontiguousarray(registers.transpose(1, 0, 2)).reshape(waves, count * lanes)


def gather(registers: Words, lane: Ints, bit: Ints, width: int) -> Bits:
    """The elements at the given places: (waves, *places), uint32 or (64-bit elements) uint64."""
    count, _, lanes = registers.shape
    words = flatten(registers)
    register, shift = bit // 32, (bit % 32).astype(np.uint32)
    low = words[:, register * lanes + lane]
    if width == 64:
        high = words[:, (register + 1) * lanes + lane]
        return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    mask = np.uint32((1 << width) - 1)
    if 32 % width == 0:
        return low >> shift & mask
    high = words[:, np.minimum(register + 1, count - 1) * lanes + lane]
    pair = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    return (pair >> shift).astype(np.uint32) & mask


def scatter(out: Words, elements: Bits, lane: Ints, bit: Ints, width: int) -> None:
    """Put elements of shape (waves, *places) into registers ``out`` (registers, waves, lanes), other bits stay."""
    count, waves, lanes = out.shape
    words = flatten(out)
    place = bit // 32 * lanes + lane
    if width == 64:
        words[:, place] = elements.astype(np.uint32)
        words[:, place + lanes] = (elements >> np.uint64(32)).astype(np.uint32)
    elif width == 32:
        words[:, place] = elements
    else:
        _scatter_halves(words, elements, place, bit % 32)
    out[:] = words.reshape(waves, count, lanes).transpose(1, 0, 2)


def _scatter_halves(words: Words, elements: Bits, place: Ints, offset: Ints) -> None:
    for shift in (0, 16):
        here = offset == shift
        if np.count_nonzero(here):
            kept = words[:, place[here]] & np.uint32(0xFFFF0000 >> shift)
            words[:, place[here]] = kept | elements[:, here].astype(np.uint32) << np.uint32(shift)


def to_numbers(kind: str, fmt: FloatFormat, bits: Bits) -> Doubles:
    """The exact numbers of float elements. xf32 loses the fraction bits that it has not (towards zero)."""
    if kind == "xf32":
        bits = bits & ~_XF32_DROPPED
    return values(fmt, bits.astype(fmt.word))


def to_integers(bits: Bits, width: int, signed: bool) -> npt.NDArray[np.int64]:
    """The numbers of integer elements."""
    return as_signed(bits, width) if signed else bits.astype(np.int64)


def from_numbers(fmt: FloatFormat, numbers: Doubles, saturate: bool = False) -> Bits:
    """Patterns of f16, bf16, f32 or f64 to nearest even; every NaN becomes the positive quiet one."""
    if fmt is formats.F64:
        bits: Bits = np.ascontiguousarray(numbers).view(np.uint64)
    elif fmt is formats.F32:
        bits = numbers.astype(np.float32).view(np.uint32)
    else:
        bits = round_double(fmt, Round.NEAREST_EVEN, numbers, saturate)
    return np.where(np.isnan(numbers), fmt.word(fmt.nan), bits)
