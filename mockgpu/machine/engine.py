"""The registry of engines: the oracle, and the native engine in its three ways of running."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from mockgpu.isa.arch import Arch
from mockgpu.isa.errors import ConfigError
from mockgpu.machine.launch import Engine

if TYPE_CHECKING:
    from mockgpu.machine.native.tier import When

__all__ = ["ENGINES", "describe_engine", "make_engine"]

log = logging.getLogger("mockgpu.machine")


def _oracle(arch: Arch, host_level: str = "native") -> Engine:
    from mockgpu.machine.oracle_engine import OracleEngine  # all of the pseudocode's side: not where it is not needed

    return OracleEngine(arch)


def _native(when: When) -> _Maker:
    def make(arch: Arch, host_level: str = "native") -> Engine:
        from mockgpu.machine.native.engine import NativeEngine  # only for those who ask: it maps code

        return NativeEngine(arch, host_level, when=when)

    return make


def _auto(arch: Arch, host_level: str = "native") -> Engine:
    """The native engine, or the oracle on a host for which no native code can be made; then the log says so."""
    from mockgpu.machine.native.host import HostError, check_available

    try:
        check_available()
        return _native("hot")(arch, host_level)
    except HostError as error:
        log.warning("%s; the kernels run on the oracle engine, which is slow", error)
        return _oracle(arch)


class _Maker(Protocol):
    def __call__(self, arch: Arch, host_level: str = "native") -> Engine: ...


ENGINES: dict[str, _Maker] = {
    "auto": _auto,
    "oracle": _oracle,
    "threaded": _native("never"),
    "jit": _native("first"),
}


#: What each engine does, in a few words.
_ABOUT = {
    "auto": "native code, compiled together where it is hot",
    "oracle": "the pseudocode evaluated by numpy",
    "threaded": "native code, one handler per instruction",
    "jit": "native code, compiled together before it first runs",
}


def describe_engine(name: str) -> str:
    """What would execute the kernels, and why: ``name`` is one of ENGINES."""
    from mockgpu.machine.native.host import HostError, check_available

    if name != "oracle":
        try:
            check_available()
        except HostError as error:
            return f"{name} (the oracle stands in: {error})" if name == "auto" else f"{name} (cannot run: {error})"
    return f"{name} ({_ABOUT[name]})"


def make_engine(arch: Arch, name: str = "oracle", host_level: str = "native") -> Engine:
    """A new engine for a target; ``host_level`` as in mockgpu.machine.native.host, for engines that make host code.

    Raises ConfigError, which lists the names, for an unknown engine or level.
    """
    if name not in ENGINES:
        raise ConfigError("engine", name, ENGINES)
    return ENGINES[name](arch, host_level)
