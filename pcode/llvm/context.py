"""The machine as the lowering of one instruction sees it: the twin of :class:`mockgpu.pcode.oracle_state.Context`."""

from __future__ import annotations

from typing import Protocol

from mockgpu.pcode.llvm.values import Builder, Value
from mockgpu.pcode.numeric_mode import Mode


class LlvmContext(Protocol):
    """``lanes`` is 1 for scalar instructions. ``mask`` is None, an i1, or an i1 by lane; the context adds EXEC itself.

    Reads give what registers held before the instruction, or what it has written to the operand of that name; writes
    reach registers when the instruction ends, so that a destination may overlap a source.
    ``has_part`` says whether dword k of an operand can be read and written alone, as the operand ``name.k``;
    ``is_written`` whether the operand as a whole has been written.
    """

    lanes: int
    wave_size: int
    mode: Mode
    features: frozenset[str]

    @property
    def b(self) -> Builder: ...

    def read(self, name: str, bits: int) -> Value: ...

    def write(self, name: str, value: Value, bits: int, mask: Value | None) -> None: ...

    def has_part(self, name: str, dword: int) -> bool: ...

    def is_written(self, name: str) -> bool: ...

    def read_lane_mask(self, name: str) -> Value: ...

    def write_lane_mask(self, name: str, value: Value, mask: Value | None) -> None: ...

    def read_vgpr(self, lane: Value, reg: Value) -> Value: ...

    def write_vgpr(self, lane: Value, reg: Value, value: Value, mask: Value | None) -> None: ...

    def read_sgpr(self, reg: Value) -> Value: ...

    def write_sgpr(self, reg: Value, value: Value, mask: Value | None) -> None: ...

    def read_hwreg(self, index: Value) -> Value: ...

    def write_hwreg(self, index: Value, value: Value, mask: Value | None) -> None: ...

    def load(self, addr: Value, bits: int, mask: Value | None) -> Value: ...

    def store(self, addr: Value, value: Value, bits: int, mask: Value | None) -> None: ...

    def effect(self, fn: str, args: tuple[Value, ...], mask: Value | None) -> None: ...
