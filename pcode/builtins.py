"""The builtin functions that lowered programs call, on bit pattern arrays.

:data:`~mockgpu.pcode.signatures.BUILTINS` lists them; :func:`builtin` makes the function for given argument types.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mockgpu.pcode import numeric as num
from mockgpu.pcode import numeric_math as math
from mockgpu.pcode import numeric_minmax as minmax
from mockgpu.pcode.ir import Type
from mockgpu.pcode.numeric import Bits, FloatFormat, Mode
from mockgpu.pcode.numeric_scaled import fma_ldexp
from mockgpu.pcode.numeric_small import scaled_functions

#: A builtin made for its argument types: the MODE and the arguments, to the result's pattern.
Function: TypeAlias = Callable[..., Bits]
Maker: TypeAlias = Callable[[tuple[Type, ...]], Function]


class UnknownBuiltinError(LookupError):
    """A program calls a function that the oracle does not have."""

    def __init__(self, name: str, args: tuple[Type, ...]) -> None:
        super().__init__(f"no builtin {name}({', '.join(map(str, args))}); see mockgpu.pcode.signatures")
        self.name = name
        self.args_types = args


# -- float functions --------------------------------------------------------------------------------------------------


def _of_format(step: Callable[[FloatFormat], Function]) -> Maker:
    """A function made for the format of its first argument."""
    return lambda args: step(num.format_of(args[0]))


def _plain(step: Callable[[FloatFormat, Bits], Bits]) -> Maker:
    """A function of the bits of one float, MODE does not matter."""
    return _of_format(lambda fmt: lambda mode, x: step(num.on_part(fmt, mode), x))


def _sign(fmt: FloatFormat, x: Bits) -> Bits:
    return (x & fmt.word(fmt.sign)) != 0  # type: ignore[no-any-return]


def _quiet(fmt: FloatFormat, x: Bits) -> Bits:
    return x | fmt.word(fmt.quiet)  # type: ignore[no-any-return]


def _is_quiet(fmt: FloatFormat, x: Bits) -> Bits:
    nan = num.is_nan(fmt, x)
    return nan & ((x & fmt.word(fmt.quiet)) != 0) if np.count_nonzero(nan) else nan


def _mantissa(fmt: FloatFormat) -> Function:
    return lambda mode, x: math.mantissa(mode, fmt, num.flush_input(fmt, mode, x))


def _frexp_exponent(fmt: FloatFormat) -> Function:
    return lambda mode, x: math.frexp_exponent(fmt, num.flush_input(fmt, mode, x))


def _transcendental(name: str) -> Maker:
    return _of_format(lambda fmt: num.transcendental(name, fmt))


def _ldexp(args: tuple[Type, ...]) -> Function:
    return num.ldexp(num.format_of(args[0]), args[1].bits)


_FLOAT: dict[str, Maker] = {
    "abs": _plain(num.absolute),
    "sign": _plain(_sign),
    "exponent": _plain(num.exponent_field),
    "mantissa": _of_format(_mantissa),
    "frexp_exp": _of_format(_frexp_exponent),
    "isNAN": _plain(num.is_nan),
    "isSignalNAN": _plain(num.is_signaling),
    "isQuietNAN": _plain(_is_quiet),
    "isDENORM": _plain(num.is_denormal),
    "cvtToQuietNAN": _plain(_quiet),
    "isEven": _plain(num.is_even),
    "floor": _of_format(num.floor),
    "ceil": _of_format(num.ceil),
    "trunc": _of_format(num.trunc),
    "rndne": _of_format(num.rndne),
    "fract": _of_format(num.fract),
    "fma": _of_format(num.fma),
    "fma_ldexp": _of_format(fma_ldexp),
    "min_ieee": _of_format(lambda fmt: minmax.ieee(fmt, False)),
    "max_ieee": _of_format(lambda fmt: minmax.ieee(fmt, True)),
    "min_num": _of_format(lambda fmt: minmax.number(fmt, False)),
    "max_num": _of_format(lambda fmt: minmax.number(fmt, True)),
    "ldexp": _ldexp,
    "sqrt": _of_format(num.sqrt),
    "rcp": _of_format(num.rcp),
    "rsq": _of_format(num.rsq),
    **{name: _transcendental(name) for name in ("log2", "exp2", "sin", "cos", "sin2pi", "cos2pi")},
    **{f"f{n}_to_snorm": _of_format(lambda fmt: num.to_normalized(fmt, 16, True)) for n in (16, 32)},
    **{f"f{n}_to_unorm": _of_format(lambda fmt: num.to_normalized(fmt, 16, False)) for n in (16, 32)},
}


# -- integer functions ------------------------------------------------------------------------------------------------


def _saturate(bits: int, signed: bool) -> Maker:
    """An integer of at most 64 bits, saturated to fewer."""

    def make(args: tuple[Type, ...]) -> Function:
        source = args[0]

        def run(mode: Mode, x: Bits) -> Bits:
            if not signed:
                top = (1 << bits) - 1
                return num.resize(np.minimum(x, x.dtype.type(top)), source.bits, bits)
            half = 1 << (bits - 1)
            return num.from_int64(np.clip(num.as_signed(x, source.bits), -half, half - 1), bits)

        return run

    return make


def _signext_from_bit(args: tuple[Type, ...]) -> Function:
    bits = args[0].bits

    def run(mode: Mode, x: Bits, count: Bits) -> Bits:
        kept = np.minimum(count, count.dtype.type(bits)).astype(np.int64)
        spare = 64 - kept
        wide = num.resize(x, bits, 64).astype(np.int64)
        moved = (wide << np.minimum(spare, 63)) >> np.minimum(spare, 63)
        return num.from_int64(np.where(kept == 0, 0, moved), bits)

    return run


_SWAPS = (
    (1, 0x5555555555555555),
    (2, 0x3333333333333333),
    (4, 0x0F0F0F0F0F0F0F0F),
    (8, 0x00FF00FF00FF00FF),
    (16, 0x0000FFFF0000FFFF),
    (32, 0x00000000FFFFFFFF),
)


def _reverse_wide(bits: int) -> Function:
    one = np.frompyfunc(lambda v: int(format(int(v), f"0{bits}b")[::-1], 2), 1, 1)
    return lambda mode, x: one(x)


def _reverse_bits(args: tuple[Type, ...]) -> Function:
    bits = args[0].bits
    if bits > 64:
        return _reverse_wide(bits)

    def run(mode: Mode, x: Bits) -> Bits:
        wide = x.astype(np.uint64)
        for distance, pattern in _SWAPS:
            low, n = np.uint64(pattern), np.uint64(distance)
            wide = ((wide >> n) & low) | ((wide & low) << n)
        return num.resize(wide >> np.uint64(64 - bits), 64, bits)

    return run


def _ones(x: Bits) -> Any:
    return np.bitwise_count(x.astype(np.uint64)).astype(np.int64)


def _as_i32(x: Any) -> Bits:
    return np.asarray(x).astype(np.int64).astype(np.uint32)


def _count_ones(args: tuple[Type, ...]) -> Function:
    return lambda mode, x: _as_i32(_ones(x))


def _find_first_one(args: tuple[Type, ...]) -> Function:
    def run(mode: Mode, x: Bits) -> Bits:
        wide = x.astype(np.uint64)
        below = ~wide & (wide - np.uint64(1))
        return _as_i32(np.where(wide == 0, -1, _ones(below)))

    return run


def _leading_zeros(x: Bits, bits: int) -> Any:
    """Zero bits above the highest one bit of a ``bits``-wide pattern; -1 for zero."""
    wide = x.astype(np.uint64)
    smear = wide
    for n in (1, 2, 4, 8, 16, 32):
        smear = smear | (smear >> np.uint64(n))
    return np.where(wide == 0, -1, bits - _ones(smear))


def _count_leading_zeros(args: tuple[Type, ...]) -> Function:
    bits = args[0].bits
    return lambda mode, x: _as_i32(_leading_zeros(x, bits))


def _count_leading_signs(args: tuple[Type, ...]) -> Function:
    bits = args[0].bits

    def run(mode: Mode, x: Bits) -> Bits:
        signed = num.as_signed(x, bits)
        return _as_i32(_leading_zeros(num.from_int64(signed ^ (signed >> np.int64(63)), bits), bits))

    return run


def _byte_permute(args: tuple[Type, ...]) -> Function:
    """Selectors 0..7 a byte, 8..11 the sign of byte 1, 3, 5, 7 repeated, 12 zero, above ones."""

    def run(mode: Mode, data: Bits, selector: Bits) -> Bits:
        wide, pick = data.astype(np.uint64), selector.astype(np.uint64)
        if np.size(pick) == 1 and int(pick.flat[0]) < 8:
            return ((wide >> (pick * np.uint64(8))) & np.uint64(0xFF)).astype(np.uint16)
        index = np.where(pick < np.uint64(8), pick, (pick - np.uint64(8)) * np.uint64(2) + np.uint64(1)) & np.uint64(7)
        byte = (wide >> (index * np.uint64(8))) & np.uint64(0xFF)
        sign = np.where(byte >= np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
        fixed = np.where(pick == np.uint64(12), np.uint64(0), np.uint64(0xFF))
        out = np.where(pick < np.uint64(8), byte, np.where(pick < np.uint64(12), sign, fixed))
        return out.astype(np.uint16)

    return run


_INTEGER: dict[str, Maker] = {
    "i32_to_i16": _saturate(16, True),
    "u32_to_u16": _saturate(16, False),
    "signext_from_bit": _signext_from_bit,
    "reverse_bits": _reverse_bits,
    "count_ones": _count_ones,
    "find_first_one": _find_first_one,
    "count_leading_zeros": _count_leading_zeros,
    "count_leading_signs": _count_leading_signs,
    "byte_permute": _byte_permute,
}


# -- the table --------------------------------------------------------------------------------------------------------


def _always(function: Function) -> Maker:
    return lambda args: function


_NARROW: dict[str, Maker] = {
    **{
        f"f32_to_{name}_sr": _always(num.stochastic(num.F32, fmt))
        for name, fmt in (("f16", num.F16), ("bf16", num.BF16), ("fp8", num.FP8), ("bf8", num.BF8))
    },
    **{name: _always(function) for name, function in scaled_functions().items()},
}


def _rounded(name: str, rounding: num.Round) -> Maker:
    """A conversion from f32 that rounds its own way; denormals of the result are kept."""
    convert = num.float_to_float(num.F32, {"f16": num.F16, "bf16": num.BF16, "fp8": num.FP8, "bf8": num.BF8}[name])
    return _always(lambda mode, x: convert(mode.with_round(rounding), x))


_ROUNDED: dict[str, Maker] = {
    f"f32_to_{name}_{suffix}": _rounded(name, rounding)
    for name in ("f16", "bf16", "fp8", "bf8")
    for suffix, rounding in (("rtz", num.Round.ZERO), ("rne", num.Round.NEAREST_EVEN))
}

_MAKERS: dict[str, Maker] = {**_FLOAT, **_INTEGER, **_NARROW, **_ROUNDED}

#: Functions that flush denormal operands themselves, as MODE says.
FLUSHES = frozenset(
    {"floor", "ceil", "trunc", "rndne", "fract", "fma", "ldexp", "sqrt", "rcp", "rsq"}
    | {"mantissa", "frexp_exp", "fma_ldexp", "min_ieee", "max_ieee", "min_num", "max_num"}
    | {"log2", "exp2", "sin", "cos", "sin2pi", "cos2pi"}
)
#: Functions that look at the bits of their operand and see denormals whatever MODE says.
RAW = frozenset(("isDENORM", "isNAN", "isSignalNAN", "isQuietNAN", "sign"))


@functools.cache
def builtin(name: str, args: tuple[Type, ...]) -> Function:
    """``f(mode, *patterns)`` for the builtin ``name`` on arguments of the types ``args``.

    Raises :class:`UnknownBuiltinError` for other names, :class:`~mockgpu.pcode.numeric.NumericError` for a type that
    the function does not take.
    """
    make = _MAKERS.get(name)
    if make is None:
        raise UnknownBuiltinError(name, args)
    return make(args)
