"""Float and conversion arithmetic on numpy arrays of bit patterns under a :class:`Mode`: the public names.

See :mod:`~mockgpu.pcode.numeric_format` for what a bit pattern array is. Functions that depend on a format are made for
it once: ``binary("add", F32)(mode, a, b)``. Wrap evaluations in :func:`quiet_ieee`: the
arithmetic relies on the host computing IEEE doubles, with denormals, and numpy would warn of every overflow.
"""

from __future__ import annotations

from mockgpu.pcode.numeric_convert import (
    as_signed,
    extend,
    float_to_float,
    float_to_int,
    from_doubles,
    from_int64,
    int_to_float,
    resize,
    saturate_doubles,
    to_normalized,
    values,
)
from mockgpu.pcode.numeric_float import binary, compare, finish, fma, quieted, sqrt, to_doubles
from mockgpu.pcode.numeric_format import (
    BF6,
    BF8,
    BF8_FNUZ,
    BF16,
    F16,
    F32,
    F64,
    FP4,
    FP6,
    FP8,
    FP8_FNUZ,
    Bits,
    FloatFormat,
    Mask,
    NumericError,
    boxed,
    constant,
    container,
    float_mode,
    flush,
    flush_input,
    flush_output,
    format_of,
    is_denormal,
    is_inf,
    is_nan,
    is_signaling,
    is_zero,
    on_part,
)
from mockgpu.pcode.numeric_host import HostFloatError, host_is_ieee, ieee_host, quiet_ieee
from mockgpu.pcode.numeric_math import (
    CLASSES,
    ceil,
    classify,
    exponent_field,
    floor,
    fract,
    frexp_exponent,
    is_even,
    ldexp,
    mantissa,
    rcp,
    rndne,
    rsq,
    transcendental,
    trunc,
)
from mockgpu.pcode.numeric_mode import Denorm, FloatMode, Mode, Round
from mockgpu.pcode.numeric_modify import absolute, clamp, maximum_number, minimum_number, negate, omod
from mockgpu.pcode.numeric_small import narrow_scaled, narrow_scaled_stochastic, stochastic, widen_scaled

__all__ = [
    "BF6", "BF8", "BF8_FNUZ", "BF16", "CLASSES", "F16", "F32", "F64", "FP4", "FP6", "FP8", "FP8_FNUZ", "Bits",
    "Denorm", "FloatFormat", "FloatMode", "HostFloatError", "Mask", "Mode", "NumericError", "Round", "absolute",
    "as_signed", "binary", "boxed", "ceil", "clamp", "classify", "compare", "constant", "container", "exponent_field",
    "extend", "finish", "float_mode", "float_to_float", "float_to_int", "floor", "flush", "flush_input",
    "flush_output", "fma", "format_of", "fract", "frexp_exponent", "from_doubles", "from_int64", "host_is_ieee",
    "ieee_host", "int_to_float", "is_denormal", "is_even", "is_inf", "is_nan", "is_signaling", "is_zero", "ldexp",
    "mantissa", "maximum_number", "minimum_number", "narrow_scaled", "narrow_scaled_stochastic", "negate", "omod",
    "on_part", "quiet_ieee", "quieted", "rcp", "resize", "rndne", "rsq", "saturate_doubles", "sqrt", "stochastic",
    "to_doubles", "to_normalized", "transcendental", "trunc", "values", "widen_scaled",
]  # fmt: skip
