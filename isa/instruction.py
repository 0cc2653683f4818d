"""A decoded instruction: an immutable value that says everything an executor needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mockgpu.isa.decoded import Decoded, Dpp8, Dpp16, Sdwa
from mockgpu.isa.disasm import disassemble
from mockgpu.isa.operands import Operand, Register


@dataclass(frozen=True, eq=False, repr=False)
class Instruction(Decoded):
    """A decoded instruction that can also show itself. See Decoded for the fields."""

    def __repr__(self) -> str:
        return f"<{self.arch.name} {self.raw:0{2 * self.size}x} {self.text}>"

    @cached_property
    def text(self) -> str:
        """Assembly text in LLVM syntax, for the narrowest wave of the architecture; branches show their offset."""
        return disassemble(self)


__all__ = ["Dpp8", "Dpp16", "Instruction", "Operand", "Register", "Sdwa"]
