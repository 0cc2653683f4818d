"""What can go wrong while the machine runs a guest: typed faults that name the place.

A fault is raised by an engine or a command processor, caught by the queue that ran it, and delivered to the
host by the driver (a KFD event, an errno). It never reaches the host program as a crash.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mockgpu.isa.errors import MockGPUError


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a fault in the guest: kernel, workgroup, wave, lane and program counter (byte address)."""

    kernel: str = ""
    pc: int | None = None
    workgroup: tuple[int, int, int] | None = None
    wave: int | None = None
    lane: int | None = None
    instruction: str = ""

    def __str__(self) -> str:
        parts = []
        if self.kernel:
            parts.append(f"kernel {self.kernel}")
        if self.pc is not None:
            parts.append(f"PC {self.pc:#x}")
        if self.instruction:
            parts.append(f"'{self.instruction}'")
        if self.workgroup is not None:
            parts.append(f"workgroup {self.workgroup}")
        if self.wave is not None:
            parts.append(f"wave {self.wave}")
        if self.lane is not None:
            parts.append(f"lane {self.lane}")
        return ", ".join(parts)


@dataclass
class GuestFault(MockGPUError):
    """Base of every fault of the guest. ``where`` is filled in by the engine, ``message`` says what happened."""

    message: str
    where: Where = field(default_factory=Where)

    def __str__(self) -> str:
        at = str(self.where)
        return f"{self.message} ({at})" if at else self.message


@dataclass
class PageFault(GuestFault):
    """An access outside every mapping, or against a mapping's permissions.

    ``address`` is a GPU virtual byte address, ``access`` one of ``read``, ``write``, ``execute``;
    ``present`` says that the page is mapped but the permission is missing. ``index`` is the position of the
    faulting element in the array of addresses that was accessed, for the engine to name wave and lane.
    """

    address: int = 0
    access: str = "read"
    present: bool = False
    index: int | None = None


@dataclass
class IllegalInstruction(GuestFault):
    """Bytes that do not decode, or an instruction without semantics."""


@dataclass
class Trap(GuestFault):
    """A wave stops itself: it traps or halts, or executes an instruction that only a trap handler may execute."""


@dataclass
class MemoryViolation(GuestFault):
    """An LDS or scratch access that the hardware reports as MEMVIOL."""


@dataclass
class KernelTimeout(GuestFault):
    """A wave that ran longer than the time allowed."""


@dataclass
class Deadlock(GuestFault):
    """Waves or queues that wait for something that cannot come."""


@dataclass
class PacketError(GuestFault):
    """A packet that the command processor does not know or cannot execute.

    ``opcode`` is its number, ``dwords`` the packet, ``offset`` the dword offset in the ring or indirect buffer.
    """

    opcode: int = 0
    dwords: tuple[int, ...] = ()
    offset: int = 0


@dataclass
class EmulatorError(GuestFault):
    """A mistake of the emulator itself, not of the guest. Its cause is logged with a traceback."""
