"""What the top floor asks the driver to emulate."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mockgpu.drivers.boards import Board, get_board
from mockgpu.isa.errors import ConfigError
from mockgpu.machine.clock import CLOCKS

MAX_DEVICES = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """``vram_bytes`` None means the board's; ``timeout`` bounds a kernel, ``deadlock_seconds`` a wait that cannot end
    while other threads of the host might still end it; ``host_level`` is the CPU that native code is made for.

    Raises ConfigError for values that are not understood.
    """

    arch: str = "gfx1100"
    devices: int = 6
    vram_bytes: int | None = None
    engine: str = "auto"
    timeout: float = 60.0
    clock: str = "work"
    deadlock_seconds: float = 1.0
    host_level: str = "native"

    def __post_init__(self) -> None:
        get_board(self.arch)
        if not 1 <= self.devices <= MAX_DEVICES:
            raise ConfigError("devices", self.devices, [f"1 to {MAX_DEVICES}"])
        if self.clock not in CLOCKS:
            raise ConfigError("clock", self.clock, CLOCKS)

    @property
    def board(self) -> Board:
        return get_board(self.arch)

    @property
    def vram(self) -> int:
        return self.vram_bytes if self.vram_bytes is not None else self.board.vram_bytes


def system_memory() -> int:
    """Bytes of host memory that GPUs may use together: all but a sixty-fourth, as the kernel has it."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return total - total // 64
