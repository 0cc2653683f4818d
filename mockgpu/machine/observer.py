"""Callbacks for tools that watch a kernel run: profilers, sanitizers, thread trace, the stepper.

An engine calls nothing unless an observer is attached.
"""

from __future__ import annotations

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.errors import GuestFault
from mockgpu.machine.waves import Array, Batch


class Observer:
    """All callbacks do nothing; override those of interest.

    ``waves`` are indices into ``batch``; addresses are byte addresses of the active lanes.
    """

    def waves_start(self, batch: Batch) -> None:
        """The waves of a batch are about to run."""

    def instruction(self, batch: Batch, waves: Array, pc: int, instruction: Instruction) -> None:
        """Some waves have executed one instruction."""

    def access(self, batch: Batch, waves: Array, kind: str, space: str, addr: Array, nbytes: int) -> None:
        """A memory access: ``kind`` is load or store, ``space`` global, lds, scratch or flat.

        ``waves`` and ``addr`` have one element per active lane (per wave for scalar loads).
        """

    def barrier(self, batch: Batch, group: int) -> None:
        """All waves of a workgroup have arrived at a barrier and go on."""

    def wave_end(self, batch: Batch, waves: Array) -> None:
        """Some waves have ended."""

    def fault(self, batch: Batch, fault: GuestFault) -> None:
        """The batch stops with a fault."""
