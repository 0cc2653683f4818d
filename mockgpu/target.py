"""What DEV asks for, and what it becomes: the AMD device on tinygrad's mock interface.

DEV is a list of targets, separated by ``;``, each ``interface:indices+DEVICE:RENDERER:arch`` with every part but the
device optional. Targets of devices that need no GPU (CPU, PYTHON, ...) stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mockgpu.isa.errors import ConfigError, UnknownArchError
from mockgpu.settings import ARCHS, DEFAULT_ARCH

INTERFACE = "MOCKKFD"
RENDERER = "LLVM"
#: How DEV may name the interface of the emulated device.
KFD_NAMES = ("", "KFD", "MOCK", INTERFACE)
GOOD = ("AMD", "AMD:LLVM", "AMD:LLVM:gfx1100 (or another architecture)", "KFD+AMD", "MOCKKFD+AMD", "CPU", "PYTHON")
_NOT_EMULATED = ("NV", "CUDA")
#: The names of tinygrad's renderers for AMD.
RENDERERS = ("LLVM", "HIP", "HIPCC")


class NotEmulatedError(ConfigError):
    """A device or interface that exists but has no emulation here."""

    def __init__(self, name: str, value: object, what: str, allowed: Iterable[object] = GOOD):
        super().__init__(name, value, allowed)
        self.args = (f"{name}={value!r}: {what} is not emulated; good values are: {', '.join(self.allowed)}",)


class UnknownRendererError(ConfigError):
    """What stands after ``AMD:`` is no renderer of tinygrad's: an architecture, a number, or a misspelling."""

    def __init__(self, name: str, value: object, allowed: Iterable[object], renderer: str):
        super().__init__(name, value, allowed)
        arch = renderer.lower()
        hint = f"did you mean AMD:{RENDERER}:{arch}?" if arch in ARCHS else _renderer_hint(renderer)
        known = f"AMD has no renderer {renderer!r}, its renderers are {', '.join(RENDERERS)}"
        self.args = (f"{name}={value!r}: {known}; {hint} Good values are: {', '.join(self.allowed)}",)


def _renderer_hint(renderer: str) -> str:
    if renderer.isdigit():
        return f'the device of this number is chosen in the program, as in Tensor(..., device="AMD:{renderer}").'
    return "the form is AMD:RENDERER:ARCH."


@dataclass(frozen=True, slots=True)
class Target:
    """One target of DEV; ``device`` and ``renderer`` are upper case, ``indices`` is text such as ``0,2`` or ``0-3``."""

    interface: str = ""
    indices: str = ""
    device: str = ""
    renderer: str = ""
    arch: str = ""

    def __str__(self) -> str:
        left = f"{self.interface}:{self.indices}".rstrip(":")
        right = f"{self.device}:{self.renderer}:{self.arch}".rstrip(":")
        return f"{left}+{right}" if left else right


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of DEV: its new text, the architecture, and whether the LLVM renderer is asked for on AMD."""

    dev: str
    arch: str
    needs_llvm: bool


def parse(text: str) -> Target:
    """One target. Raises ConfigError for text that tinygrad would not understand either."""
    left, _, right = text.rpartition("+")
    parts = right.split(":")
    if "+" in left or len(parts) > 3:
        raise ConfigError("DEV", text, GOOD)
    interface, _, indices = left.rpartition(":") if ":" in left else (left, "", "")
    device, renderer, arch = (*parts, "", "")[:3]
    return Target(interface, indices, device.upper(), renderer.upper(), arch)


def emulate(target: Target) -> Target:
    """The target on the mock interface; targets of devices that need no GPU come back unchanged.

    Raises NotEmulatedError for GPUs and interfaces that have no emulation here, UnknownRendererError for a renderer
    that tinygrad does not have for AMD.
    """
    if target.device in _NOT_EMULATED:
        raise NotEmulatedError("DEV", str(target), f"the {target.device} device")
    if target.device not in ("", "AMD"):
        return target
    if target.interface not in KFD_NAMES:
        raise NotEmulatedError("DEV", str(target), f"the {target.interface} interface of AMD")
    if target.renderer and target.renderer not in RENDERERS:
        raise UnknownRendererError("DEV", str(target), GOOD, target.renderer)
    return replace(target, interface=INTERFACE, device="AMD", renderer=target.renderer or RENDERER)


def plan(dev: str, arch: str | None) -> Plan:
    """What becomes of DEV's text ``dev``; ``arch`` is MOCKGPU_ARCH or None. An inherited plan's text stays as it is.

    Raises ConfigError for text that is not understood, for an unknown architecture and for a conflict between two.
    """
    texts = dev.split(";")
    targets = [parse(t) for t in texts]
    new = [emulate(t) for t in targets]
    amd = [t for t in new if t.device == "AMD"]
    # A target that does not change keeps its spelling.
    text = ";".join(old if a == b else str(b) for old, a, b in zip(texts, targets, new, strict=True))
    return Plan(text, _arch([t.arch for t in amd if t.arch], arch), any(t.renderer == RENDERER for t in amd))


def _arch(from_dev: list[str], from_setting: str | None) -> str:
    for name in from_dev:
        if name not in ARCHS:
            raise UnknownArchError("the architecture in DEV", name, ARCHS)
    names = sorted({*from_dev, *([from_setting] if from_setting else [])})
    if len(names) > 1:
        raise ConflictError("MOCKGPU_ARCH" if from_setting else "DEV", " and ".join(names), names)
    return names[0] if names else DEFAULT_ARCH


class ConflictError(ConfigError):
    """Two settings ask for different architectures."""

    def __init__(self, name: str, value: object, allowed: Iterable[object]):
        super().__init__(name, value, allowed)
        both = "DEV and MOCKGPU_ARCH ask" if name == "MOCKGPU_ARCH" else "the targets of DEV ask"
        self.args = (f"{both} for different architectures, {value}; name only one of: {', '.join(self.allowed)}",)
