"""Every builtin that a lowered program may call, with the types of its result: the contract with the executors.

:data:`BUILTINS` is complete: lowering emits :class:`~mockgpu.pcode.ir.Call` nodes with these names only, so an
executor that implements all of them can run every program. Functions of the pseudocode that are *not* here never
reach an executor, because lowering turns them into other nodes:

* plain conversions (``f32_to_i32``, ``u8_to_u32``, ``f16_to_f32``, ``f32_to_fp8``, ``v_cvt_i16_f32`` ...) and
  ``signext`` become :class:`~mockgpu.pcode.ir.Cast`; types ``fp8`` and ``bf8`` follow the target's number format;
* ``v_min_f32(...)`` and other opcodes are inlined, lambdas too;
* ``Calc...Addr`` is the operand ``ADDR``; ``pow(2.0, x)`` is ``exp2``; ``float32(s, e, m)`` is a concatenation;
* a reversed slice is ``reverse_bits``; ``s_ff1_i32_b64`` is ``find_first_one``; ``bitCount`` is ``count_ones``.
"""

from __future__ import annotations

from dataclasses import dataclass

from mockgpu.pcode.ir import F16, F32, I16, I32, U1, U16, Type


@dataclass(frozen=True, slots=True)
class Signature:
    """``args``: number of arguments. ``result`` is None when the result has the type of the first argument.

    ``effect``: called for its effect on the machine (:class:`~mockgpu.pcode.ir.Effect`), the result is void.
    """

    name: str
    args: int
    result: Type | None
    doc: str
    effect: bool = False

    def result_type(self, first: Type) -> Type:
        """The result's type, given the type of the first argument."""
        return first if self.result is None else self.result


B4, B6, BF16, FP8, BF8 = Type("b", 4), Type("b", 6), Type("bf", 16), Type("fp8", 8), Type("bf8", 8)

# Floats: the arguments are f16, f32 or f64 (bf16 too for abs and sign).
_FLOAT = (
    Signature("abs", 1, None, "clear the sign bit"),
    Signature("sign", 1, U1, "the sign bit"),
    Signature("exponent", 1, I32, "the biased exponent field: 0 for zero and denormals, all ones for INF and NAN"),
    Signature("mantissa", 1, None, "frexp's mantissa: in [0.5, 1), sign kept; zero is kept; denormals are normalised"),
    Signature("frexp_exp", 1, I32, "frexp's exponent: x == mantissa(x) * 2**frexp_exp(x); 0 for zero, INF and NAN"),
    Signature("isNAN", 1, U1, "any NAN"),
    Signature("isSignalNAN", 1, U1, "a NAN whose highest mantissa bit is clear"),
    Signature("isQuietNAN", 1, U1, "a NAN whose highest mantissa bit is set"),
    Signature("isDENORM", 1, U1, "a denormal, whatever MODE says about them (zero is none)"),
    Signature("cvtToQuietNAN", 1, None, "set the highest mantissa bit, keep sign and payload"),
    Signature("isEven", 1, U1, "an integer-valued float that is even"),
    Signature("floor", 1, None, "round down to an integer"),
    Signature("ceil", 1, None, "round up to an integer"),
    Signature("trunc", 1, None, "round toward zero to an integer"),
    Signature("rndne", 1, None, "round to the nearest integer, ties to even, sign of zero kept"),
    Signature("fract", 1, None, "x - floor(x)"),
    Signature("min_ieee", 2, None, "-0 < +0; a NAN loses to a number; with MODE.IEEE a signalling NAN wins, quieted"),
    Signature("max_ieee", 2, None, "-0 < +0; a NAN loses to a number; with MODE.IEEE a signalling NAN wins, quieted"),
    Signature("min_num", 2, None, "-0 < +0; a NAN loses to a number; of two NANs the first, quieted"),
    Signature("max_num", 2, None, "-0 < +0; a NAN loses to a number; of two NANs the first, quieted"),
    Signature("fma", 3, None, "a * b + c rounded once"),
    Signature("fma_ldexp", 4, None, "(a * b + c) * 2**d, d an i32; rounded once"),
    Signature("ldexp", 2, None, "a * 2**b, b an i32; rounded once, NAN quieted, zero and INF kept"),
    Signature("sqrt", 1, None, "square root"),
    Signature("rcp", 1, None, "1 / x"),
    Signature("rsq", 1, None, "1 / sqrt(x)"),
    Signature("log2", 1, None, "logarithm to base 2"),
    Signature("exp2", 1, None, "2**x"),
    Signature("sin", 1, None, "sine, x in radians"),
    Signature("cos", 1, None, "cosine, x in radians"),
    Signature("sin2pi", 1, None, "sine of x turns, sin(2 pi x); exact at multiples of 1/4; NAN for INF"),
    Signature("cos2pi", 1, None, "cosine of x turns, cos(2 pi x); exact at multiples of 1/4; NAN for INF"),
)

# Conversions inside ``ROUND_MODE = ...``: the rounding is fixed, whatever MODE says.
_ROUNDED = (
    Signature("f32_to_f16_rtz", 1, F16, "round toward zero"),
    Signature("f32_to_f16_rne", 1, F16, "round to nearest even"),
    Signature("f32_to_bf16_rne", 1, BF16, "round to nearest even"),
)

_NORMALIZED = (
    Signature("f16_to_snorm", 1, I16, "clamp to [-1, 1], times 32767, rounded; NAN gives 0"),
    Signature("f16_to_unorm", 1, U16, "clamp to [0, 1], times 65535, rounded; NAN gives 0"),
    Signature("f32_to_snorm", 1, I16, "clamp to [-1, 1], times 32767, rounded; NAN gives 0"),
    Signature("f32_to_unorm", 1, U16, "clamp to [0, 1], times 65535, rounded; NAN gives 0"),
)

_INTEGER = (
    Signature("i32_to_i16", 1, I16, "saturate to 16 bits"),
    Signature("u32_to_u16", 1, U16, "saturate to 16 bits"),
    Signature("signext_from_bit", 2, None, "sign-extend a's low b bits; b == 0 gives 0; b >= width gives a"),
    Signature("reverse_bits", 1, None, "reverse the order of all bits of the argument's width"),
    Signature("count_ones", 1, I32, "number of one bits"),
    Signature("find_first_one", 1, I32, "index of the lowest one bit, -1 if there is none"),
    Signature("count_leading_zeros", 1, I32, "zero bits above the highest one bit, -1 if there is no one bit"),
    Signature("count_leading_signs", 1, I32, "bits from the top that equal the top bit, -1 if all bits are equal"),
    Signature("byte_permute", 2, Type("b", 8), "V_PERM_B32's selection of a byte: a is b64, b the 8-bit selector"),
)

_STOCHASTIC = (
    Signature("f32_to_f16_sr", 2, F16, "stochastic rounding of a by the random u32 b"),
    Signature("f32_to_bf16_sr", 2, BF16, "stochastic rounding of a by the random u32 b"),
    Signature("f32_to_fp8_sr", 2, FP8, "stochastic rounding of a by the random u32 b"),
    Signature("f32_to_bf8_sr", 2, BF8, "stochastic rounding of a by the random u32 b"),
)


def _scaled() -> tuple[Signature, ...]:
    """CDNA4's conversions with a block scale (an 8-bit biased exponent, the last argument).

    ``x_to_y_scale(x, scale)`` divides by 2**(scale - 127) on the way to the narrow format and multiplies on the way
    back; ``x_to_y_sr_scale(x, random, scale)`` rounds stochastically.
    """
    wide = {"f32": F32, "f16": F16, "bf16": BF16}
    narrow = {"fp8": FP8, "bf8": BF8, "fp6": B6, "bf6": B6, "fp4": B4}
    rows: list[Signature] = []
    for w, wide_type in wide.items():
        for n, narrow_type in narrow.items():
            rows.append(Signature(f"{w}_to_{n}_scale", 2, narrow_type, f"{w} to {n}, divided by the scale"))
            rows.append(Signature(f"{w}_to_{n}_sr_scale", 3, narrow_type, f"{w} to {n}, scaled, stochastic rounding"))
            rows.append(Signature(f"{n}_to_{w}_scale", 2, wide_type, f"{n} to {w}, multiplied by the scale"))
    return tuple(rows)


_EFFECTS = (
    Signature("wait_idle", 0, None, "wait until all earlier instructions of the wave have completed", effect=True),
    Signature("PrefetchScalarData", 2, None, "prefetch b bytes of data at address a", effect=True),
    Signature("PrefetchScalarInst", 2, None, "prefetch b bytes of instructions at address a", effect=True),
)

BUILTINS: dict[str, Signature] = {
    s.name: s for s in (*_FLOAT, *_ROUNDED, *_NORMALIZED, *_INTEGER, *_STOCHASTIC, *_scaled(), *_EFFECTS)
}
