"""What a command processor hands to an engine: one dispatch, and the engine's interface."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from mockgpu.isa.arch import Arch
from mockgpu.machine.memory import Memory


@dataclass(frozen=True, slots=True)
class Launch:
    """One dispatch, with the values of the COMPUTE_* registers at that moment.

    ``entry`` is the byte address of the first instruction. ``grid`` counts workgroups, ``start`` is the first
    workgroup id, ``block`` the work items of a workgroup, each as (x, y, z). ``user_data`` are the 16
    COMPUTE_USER_DATA dwords. ``rsrc1/2/3`` are COMPUTE_PGM_RSRC1/2/3. ``scratch_base`` is a byte address,
    ``scratch_wave_bytes`` the bytes of scratch of one wave (COMPUTE_TMPRING_SIZE.WAVESIZE in bytes).
    ``lds_bytes`` is the LDS allocation of a workgroup.
    """

    entry: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    wave_size: int = 32
    start: tuple[int, int, int] = (0, 0, 0)
    user_data: tuple[int, ...] = ()
    rsrc1: int = 0
    rsrc2: int = 0
    rsrc3: int = 0
    lds_bytes: int = 0
    scratch_base: int = 0
    scratch_wave_bytes: int = 0
    scratch_waves: int = 0
    kernel: str = ""


@dataclass(slots=True)
class LaunchStats:
    """What a dispatch did: number of waves, executed wave-instructions, and the device time in clock ticks.

    ``interrupts`` are the data of the interrupts that waves sent to the host (M0 of S_SENDMSG MSG_INTERRUPT).
    """

    waves: int = 0
    instructions: int = 0
    by_class: dict[str, int] = field(default_factory=dict)
    interrupts: list[int] = field(default_factory=list)


class Engine(Protocol):
    """Runs dispatches. Implementations: the numpy oracle; native engines drop in behind the same interface.

    ``run`` returns when every wave has ended, and raises a :class:`~mockgpu.machine.errors.GuestFault`
    (page fault, illegal instruction, time-out, deadlock) with its ``where`` filled in. It has no other effect
    than on ``memory``. ``timeout`` bounds the wall-clock seconds in which some workgroup has to end.
    """

    name: str

    def run(self, launch: Launch, memory: Memory, *, timeout: float) -> LaunchStats: ...


class EngineFactory(Protocol):
    def __call__(self, arch: Arch) -> Engine: ...
