"""How the sum over K is formed and rounded: the rule of every target and type in one table, and the rules.

The order and width of accumulation are not in the ISA manuals. The table says for each entry where it comes from:

- ``published``: P. Xie et al., "Bit-Accurate Modeling of GPU Matrix Multiply-Accumulate Units", arXiv 2511.10909, whose
  models of MI100 (gfx908), MI250X (gfx90a) and MI300X (gfx942) were compared with the GPUs bit by bit. They cover dense
  instructions; that sparse ones add their kept products alike is assumed.
- ``assumed``: nothing is known. Sums that f32 holds exactly at every step do not depend on the rule.

Known and not reproduced: the adder of gfx1151's WMMA (ROCm/rocm-systems issue 12056) drops bits at a grid and subtracts
by inverting bits, which can be one grid step off; the width of its grid is not in the sources at hand, so gfx1151
follows the rule of the other RDNA3 parts. A result of 16 bits is rounded once, from the f32 that was accumulated
(assumed). Which K comes first is the manuals' numbering of K (assumed); it matters for inexact sums only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mockgpu.pcode import numeric_float
from mockgpu.pcode.numeric_format import F64
from mockgpu.pcode.numeric_mode import Mode
from mockgpu.pcode.numeric_round import sum_to_odd, two_sum

Doubles: TypeAlias = npt.NDArray[np.float64]
Exponents: TypeAlias = npt.NDArray[np.int64]

_F32_MIN_NORMAL = 2.0**-126
_F32_MIN_EXPONENT = -126
_NO_EXPONENT = -(1 << 20)  # of a zero product: below all others


@dataclass(frozen=True, slots=True)
class Terms:
    """The factors of a group of products, (..., products) when broadcast, and the least exponents of their formats."""

    a: Doubles
    b: Doubles
    a_min_exponent: int
    b_min_exponent: int


#: Adds a group of products to the accumulator ``c`` (...); all but f64 return numbers that f32 holds.
Step: TypeAlias = Callable[[Terms, Doubles], Doubles]


@dataclass(frozen=True, slots=True)
class Rule:
    """How products are accumulated: ``step`` takes ``group`` of them at a time, in the order of K.

    ``flush_inputs``: subnormal factors count as +0. ``flush_c``: so does a subnormal C. ``mode_inputs``: subnormal f32
    factors are flushed when MODE says so (C and the result never are; CDNA4 manual).
    """

    step: Step
    group: int
    evidence: str
    flush_inputs: bool = False
    flush_c: bool = False
    mode_inputs: bool = False


def accumulate(rule: Rule, terms: Terms, c: Doubles) -> Doubles:
    """``c`` plus the sum of all products of ``terms`` by ``rule``, group after group."""
    count = terms.a.shape[-1]
    a, b = _by_k(terms.a), _by_k(terms.b)
    for first in range(0, count, rule.group):
        part = slice(first, min(first + rule.group, count))
        c = rule.step(Terms(a[..., part], b[..., part], terms.a_min_exponent, terms.b_min_exponent), c)
    return c


def _by_k(x: Doubles) -> Doubles:
    """The same array, laid out so that the values of one K are neighbours."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1)


def _to_f32(x: Doubles) -> Doubles:
    return x.astype(np.float32).astype(np.float64)


# -- rules ------------------------------------------------------------------------------------------------------------


def fused(terms: Terms, c: Doubles) -> Doubles:
    """One product and C, rounded once to f32 (a chain of fused multiply-adds)."""
    return _to_f32(sum_to_odd(terms.a[..., 0] * terms.b[..., 0], c))


def fused_f64(terms: Terms, c: Doubles) -> Doubles:
    """One fused multiply-add in f64, to nearest even, denormals kept."""
    a, b, addend = np.broadcast_arrays(terms.a[..., 0], terms.b[..., 0], c)
    bits = (np.ascontiguousarray(x).view(np.uint64) for x in (a, b, addend))
    return numeric_float.fma(F64)(Mode(), *bits).view(np.float64)


def exact(terms: Terms, c: Doubles) -> Doubles:
    """All products of the group and C added exactly, rounded once to f32."""
    total = _representable_sum(terms)
    if total is not None:
        return _to_f32(sum_to_odd(total, c))
    products = terms.a * terms.b
    return _to_f32(exact_sum(np.concatenate([products, c[..., None]], axis=-1)))


def _representable_sum(terms: Terms) -> Doubles | None:
    """The sum of the products, where every partial sum is a double (nearly always); else None."""
    total: Doubles = terms.a[..., 0] * terms.b[..., 0]
    for k in range(1, terms.a.shape[-1]):
        total, rest = two_sum(total, terms.a[..., k] * terms.b[..., k])
        if np.count_nonzero(rest):  # also when there is an infinity or a NaN
            return None
    return total


def pairwise_flushing(terms: Terms, c: Doubles) -> Doubles:
    """Products and sums rounded to f32 one by one, neighbours first, then C; subnormal results become zero."""
    values = _flushed(_to_f32(terms.a * terms.b))
    while values.shape[-1] > 1:
        values = _flushed(_to_f32(values[..., 0::2] + values[..., 1::2]))
    return _flushed(_to_f32(values[..., 0] + c))


def _flushed(x: Doubles) -> Doubles:
    return np.where(np.abs(x) < _F32_MIN_NORMAL, np.copysign(0.0, x), x)


def aligned(terms: Terms, c: Doubles) -> Doubles:
    """Products cut towards zero 24 bits below the largest exponent and added; then C, both cut towards minus infinity.

    The exponent of a product is the sum of its factors' exponents. The sum keeps 31 bits and C 24 bits below the larger
    exponent of the two; the total is rounded to nearest even. (TR-FDPA of the paper.)
    """
    products, finite, special = _split_special(terms, c)
    total, top = _cut_sum(products, _exponents(terms, products))
    out = _add_aligned(total, top, np.where(finite, c, 0.0), drop_far=False)
    return _with_special(out, finite, special)


def aligned_halves(terms: Terms, c: Doubles) -> Doubles:
    """Like :func:`aligned`, but even and odd K are summed apart first and a C far below counts as 0. (GTR-FDPA.)"""
    products, finite, special = _split_special(terms, c)
    exponents = _exponents(terms, products)
    even, top_even = _cut_sum(products[..., 0::2], exponents[..., 0::2])
    odd, top_odd = _cut_sum(products[..., 1::2], exponents[..., 1::2])
    top = np.maximum(top_even, top_odd)
    total = _floor_at(even, top - 24) + _floor_at(odd, top - 24)
    out = _add_aligned(total, top, np.where(finite, c, 0.0), drop_far=True)
    return _with_special(out, finite, special)


def _with_special(out: Doubles, finite: npt.NDArray[np.bool_], special: Doubles) -> Doubles:
    """Infinities, NaN and the sign of zero are those of the plain sum."""
    return np.where(finite & ((out != 0.0) | (special != 0.0)), out, special)


def _split_special(terms: Terms, c: Doubles) -> tuple[Doubles, npt.NDArray[np.bool_], Doubles]:
    """Products (0 where the sum is not finite), where all is finite, and the sum elsewhere.

    A product of 2**128 or more counts as infinite.
    """
    products = terms.a * terms.b
    products = np.where(np.abs(products) >= 2.0**128, np.copysign(np.inf, products), products)
    special = products.sum(axis=-1) + c
    finite = np.isfinite(products).all(axis=-1) & np.isfinite(c)
    return np.where(finite[..., None], products, 0.0), finite, special


def _exponents(terms: Terms, products: Doubles) -> Exponents:
    of_a = np.maximum(np.frexp(terms.a)[1] - 1, terms.a_min_exponent)
    of_b = np.maximum(np.frexp(terms.b)[1] - 1, terms.b_min_exponent)
    return np.where(products == 0.0, _NO_EXPONENT, (of_a + of_b).astype(np.int64))


def _cut_sum(products: Doubles, exponents: Exponents) -> tuple[Doubles, Exponents]:
    top = exponents.max(axis=-1)
    place = np.maximum(top, -2000) - 24  # no product: nothing to cut
    cut = np.trunc(np.ldexp(products, -place[..., None]))
    return np.ldexp(cut.sum(axis=-1), place), top


def _floor_at(x: Doubles, place: Exponents) -> Doubles:
    """``x`` towards minus infinity to a multiple of ``2**place``."""
    place = np.maximum(place, -1000)
    return np.ldexp(np.floor(np.ldexp(x, -place)), place)


def _add_aligned(total: Doubles, top: Exponents, c: Doubles, *, drop_far: bool) -> Doubles:
    of_c = np.where(c == 0.0, _F32_MIN_EXPONENT, np.maximum(np.frexp(c)[1] - 1, _F32_MIN_EXPONENT)).astype(np.int64)
    larger = np.maximum(top, of_c)
    kept = _floor_at(c, larger - 24)
    if drop_far:
        kept = np.where(of_c < larger - 25, 0.0, kept)
    return _to_f32(_floor_at(total, larger - 31) + kept)


# -- exact sums -------------------------------------------------------------------------------------------------------

_LIMB = 40  # bits: 2**12 addends of a limb still add exactly


def exact_sum(x: Doubles) -> Doubles:
    """The sum over the last axis (at most 4096 numbers), rounded to odd: rounding it to f32 or less rounds once.

    The numbers are cut into limbs of 40 bits on a common grid, each limb adds exactly, and the limbs are joined from
    below after passing on their carries. Negative sums are joined as positive ones, so that nothing cancels then.
    """
    finite = np.isfinite(x)
    if not finite.all():
        plain = x.sum(axis=-1)
        here = np.asarray(finite.all(axis=-1))
        return np.where(here, exact_sum(np.where(here[..., None], x, 0.0)), plain)
    sums = _limb_sums(x)
    sign = np.where(_carried(sums)[0][0] < 0.0, -1.0, 1.0)
    limbs = _carried([(sign * limb, unit) for limb, unit in sums])
    total = limbs[-1][0]
    for limb, _ in reversed(limbs[:-1]):
        total = sum_to_odd(limb, total)
    total = total * sign
    negative_zero = (total == 0.0) & np.signbit(x).all(axis=-1)
    return np.where(negative_zero, -0.0, total)


def _limb_sums(x: Doubles) -> list[tuple[Doubles, float]]:
    """The limbs' sums with their units, the highest first."""
    exponents = np.frexp(x)[1]
    unit = 2.0 ** float(int(exponents.max(initial=0)) - _LIMB)
    sums: list[tuple[Doubles, float]] = []
    rest = x
    while not sums or np.count_nonzero(rest):
        part = np.trunc(rest / unit) * unit
        rest = rest - part
        sums.append((part.sum(axis=-1), unit))
        unit *= 2.0**-_LIMB
    return sums


def _carried(sums: list[tuple[Doubles, float]]) -> list[tuple[Doubles, float]]:
    """The limbs with carries passed up: each but the highest from 0 to below one unit of the limb above."""
    sums = list(sums)
    for n in range(len(sums) - 1, 0, -1):
        low, low_unit = sums[n]
        high, high_unit = sums[n - 1]
        carry = np.floor(low / high_unit) * high_unit
        sums[n] = low - carry, low_unit
        sums[n - 1] = high + carry, high_unit
    return sums


# -- the table --------------------------------------------------------------------------------------------------------

_PUBLISHED = "published: arXiv 2511.10909"
_ASSUMED = "assumed"

_FMA = Rule(fused, 1, _PUBLISHED, mode_inputs=True)
_FMA_F64 = Rule(fused_f64, 1, _PUBLISHED)
_MI100_F16 = Rule(exact, 4, _PUBLISHED)
_MI100_BF16 = Rule(exact, 2, _PUBLISHED)
_MI200_WIDE = Rule(pairwise_flushing, 4, _PUBLISHED, flush_inputs=True, flush_c=True)
_MI200_BF16 = Rule(pairwise_flushing, 2, _PUBLISHED, flush_inputs=True, flush_c=True)
_MI300_XF32 = Rule(aligned, 4, _PUBLISHED, mode_inputs=True)
_MI300_16 = Rule(aligned, 8, _PUBLISHED)
_MI300_8 = Rule(aligned_halves, 16, _PUBLISHED)
_MI350 = Rule(exact, 8, f"{_ASSUMED}: denormals of inputs below 32 bits are kept in every mode (CDNA4 manual)")
_MI350_8 = Rule(exact, 16, _MI350.evidence)
_DOT2 = Rule(exact, 2, f"{_ASSUMED}: three addends at a time, as measured on gfx1151 (rocm-systems issue 12056)")
_DOT2_BF16 = Rule(exact, 2, f"{_DOT2.evidence}; subnormal bf16 factors are flushed there", flush_inputs=True)
_RDNA4_16 = Rule(exact, 2, _ASSUMED)
_RDNA4_8 = Rule(exact, 4, _ASSUMED)

_EIGHT_BITS = ("fp8", "bf8")

#: By target (gfx11 and gfx12 by family) and type of A.
RULES: dict[tuple[str, str], Rule] = {
    ("gfx908", "f32"): _FMA,
    ("gfx908", "f16"): _MI100_F16,
    ("gfx908", "bf16"): _MI100_BF16,
    ("gfx90a", "f64"): _FMA_F64,
    ("gfx90a", "f32"): _FMA,
    ("gfx90a", "f16"): _MI200_WIDE,
    ("gfx90a", "bf16"): _MI200_BF16,
    ("gfx90a", "bf16_1k"): _MI200_WIDE,
    ("gfx942", "f64"): _FMA_F64,
    ("gfx942", "f32"): _FMA,
    ("gfx942", "xf32"): _MI300_XF32,
    ("gfx942", "f16"): _MI300_16,
    ("gfx942", "bf16"): _MI300_16,
    **{("gfx942", kind): _MI300_8 for kind in _EIGHT_BITS},
    ("gfx950", "f64"): _FMA_F64,
    ("gfx950", "f32"): _FMA,
    ("gfx950", "f16"): _MI350,
    ("gfx950", "bf16"): _MI350,
    **{("gfx950", kind): _MI350_8 for kind in (*_EIGHT_BITS, "fp6", "bf6", "fp4")},
    ("rdna3", "f16"): _DOT2,
    ("rdna3", "bf16"): _DOT2_BF16,
    ("rdna4", "f16"): _RDNA4_16,
    ("rdna4", "bf16"): _RDNA4_16,
    **{("rdna4", kind): _RDNA4_8 for kind in _EIGHT_BITS},
}
