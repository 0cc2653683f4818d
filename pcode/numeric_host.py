"""The host's floating-point state: it must be the IEEE default while we compute.

A library in the process may have switched on flush-to-zero or another rounding direction (``-ffast-math`` start-up code
does); the guest's results must not follow it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

_SMALLEST_NORMAL = 2.0**-1022
_HALF = 0.5
_TWO = 2.0
_ABOVE_ONE = 1.0 + 2.0**-52
_TIE = 2.0**-53
_NEXT_EVEN = 1.0 + 2.0**-51


class HostFloatError(RuntimeError):
    """The host's floating-point state is not IEEE's default and cannot be set."""


def host_is_ieee() -> bool:
    """Whether the calling thread rounds to nearest even and keeps denormals (as inputs and as results)."""
    return (
        _SMALLEST_NORMAL * _HALF * _TWO == _SMALLEST_NORMAL
        and _ABOVE_ONE + _TIE == _NEXT_EVEN
        and -_ABOVE_ONE - _TIE == -_NEXT_EVEN
    )


@contextlib.contextmanager
def quiet_ieee() -> Iterator[None]:
    """What all arithmetic of this package needs around it: the IEEE default state, and no warnings from numpy.

    Raises :class:`HostFloatError`.
    """
    with ieee_host(), np.errstate(all="ignore"):
        yield


@functools.cache
def _libm() -> Any:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError) as error:
        raise HostFloatError("the C library cannot be reached to set the floating-point environment") from error


@contextlib.contextmanager
def ieee_host() -> Iterator[None]:
    """The calling thread's floating-point environment is the default inside, and as it was before afterwards.

    Raises :class:`HostFloatError` if it cannot be set.
    """
    if host_is_ieee():
        yield
        return
    saved = ctypes.create_string_buffer(256)
    lib = _libm()
    if not hasattr(lib, "fegetenv") or lib.fegetenv(saved) != 0:
        raise HostFloatError("fegetenv is missing; switch off flush-to-zero in this process")
    lib.fesetenv(ctypes.c_void_p(-1))
    try:
        if not host_is_ieee():
            raise HostFloatError("fesetenv(FE_DFL_ENV) did not restore IEEE arithmetic on this host")
        yield
    finally:
        lib.fesetenv(saved)
