"""The MODE register as the arithmetic sees it: rounding, denormals, clamping.

Source: "Mode register" in the shader state chapter of the RDNA3 and CDNA3 ISA manuals (FP_ROUND, FP_DENORM,
DX10_CLAMP, IEEE, FP16_OVFL).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from enum import IntEnum


class Round(IntEnum):
    """A two-bit FP_ROUND field."""

    NEAREST_EVEN = 0
    PLUS_INF = 1
    MINUS_INF = 2
    ZERO = 3


class Denorm(IntEnum):
    """A two-bit FP_DENORM field: bit 0 lets denormal inputs through, bit 1 denormal results."""

    FLUSH = 0
    FLUSH_OUT = 1
    FLUSH_IN = 2
    KEEP = 3


@dataclass(frozen=True, slots=True)
class FloatMode:
    """What MODE says about one group of formats."""

    round: Round
    flush_in: bool
    flush_out: bool
    nearest: bool


@functools.cache
def _float_mode(rounding: Round, denorm: Denorm) -> FloatMode:
    return FloatMode(rounding, not denorm & 1, not denorm & 2, rounding is Round.NEAREST_EVEN)


#: How formats that MODE does not govern are computed (bf16, the 8-bit and smaller ones).
PLAIN = _float_mode(Round.NEAREST_EVEN, Denorm.KEEP)


@dataclass(frozen=True, slots=True)
class Mode:
    """The floating-point state of a wave. The defaults are what the HSA kernel descriptor says when it says nothing.

    ``round_f16_f64`` and ``denorm_f16_f64`` govern f16 and f64 together, as the register does. ``fp8_fnuz`` is not in
    the register: it says that the part's 8-bit floats are the FNUZ kind (gfx942) and not the OCP kind.
    """

    round_f32: Round = Round.NEAREST_EVEN
    round_f16_f64: Round = Round.NEAREST_EVEN
    denorm_f32: Denorm = Denorm.FLUSH
    denorm_f16_f64: Denorm = Denorm.KEEP
    ieee: bool = True
    dx10_clamp: bool = True
    fp16_ovfl: bool = False
    fp8_fnuz: bool = False
    f32: FloatMode = field(init=False, repr=False, compare=False)
    f16_f64: FloatMode = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "f32", _float_mode(self.round_f32, self.denorm_f32))
        object.__setattr__(self, "f16_f64", _float_mode(self.round_f16_f64, self.denorm_f16_f64))

    @classmethod
    def from_register(cls, mode: int, family: str, *, fp8_fnuz: bool = False) -> Mode:
        """The state described by the MODE dword of a wave of ``family`` (rdna3, rdna4, cdna).

        RDNA4 has neither IEEE nor DX10_CLAMP: it behaves as if both were set.
        """
        return _from_register(mode & 0x8003FF, family, fp8_fnuz)

    def with_round(self, rounding: int) -> Mode:
        """The same state with both rounding fields set to ``rounding`` (``ROUND_MODE`` of the pseudocode)."""
        return _with_round(self, Round(rounding))


@functools.cache
def _from_register(mode: int, family: str, fp8_fnuz: bool) -> Mode:
    has_ieee = family != "rdna4"
    return Mode(
        round_f32=Round(mode & 3),
        round_f16_f64=Round(mode >> 2 & 3),
        denorm_f32=Denorm(mode >> 4 & 3),
        denorm_f16_f64=Denorm(mode >> 6 & 3),
        dx10_clamp=bool(mode >> 8 & 1) or not has_ieee,
        ieee=bool(mode >> 9 & 1) or not has_ieee,
        fp16_ovfl=bool(mode >> 23 & 1),
        fp8_fnuz=fp8_fnuz,
    )


@functools.cache
def _with_round(mode: Mode, rounding: Round) -> Mode:
    return replace(mode, round_f32=rounding, round_f16_f64=rounding)
