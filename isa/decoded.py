"""The value that decoding gives: opcode, fields, operand views, modifiers, registers read and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from mockgpu.isa.arch import Arch
from mockgpu.isa.encoding import Encoding
from mockgpu.isa.opcode import Opcode
from mockgpu.isa.operands import Operand, Parts, Register, operand_views
from mockgpu.isa.registers import EXEC_LO, VCC_LO


@dataclass(frozen=True, slots=True)
class Dpp16:
    """DPP modifier of source 0: ``ctrl`` is the 9-bit control (manual section "DPP")."""

    ctrl: int
    row_mask: int
    bank_mask: int
    bound_ctrl: bool
    fetch_inactive: bool


@dataclass(frozen=True, slots=True)
class Dpp8:
    """DPP8 modifier of source 0: lane n of each group of eight reads lane ``lanes[n]`` of the group."""

    lanes: tuple[int, ...]
    fetch_inactive: bool


@dataclass(frozen=True, slots=True)
class Sdwa:
    """SDWA destination: ``dst_sel`` 0-3 byte, 4-5 word, 6 dword; ``dst_unused`` 0 pad, 1 sign-extend, 2 keep."""

    dst_sel: int
    dst_unused: int


@dataclass(frozen=True, eq=False, repr=False)
class Decoded:
    """A decoded instruction. Equal when architecture and bytes are equal.

    ``layout`` is the bit layout (``encoding`` its name, e.g. ``VOP2_LIT``), ``fields`` the raw unsigned values of its
    fields, ``raw`` the bytes as a little-endian integer and ``size`` their number. ``opcode_y`` is the second half
    of a VOPD pair, whose first half is ``opcode``.
    """

    arch: Arch
    opcode: Opcode
    layout: Encoding
    fields: Mapping[str, int]
    literal: int | None
    raw: int
    size: int
    opcode_y: Opcode | None = None

    def __hash__(self) -> int:
        return hash((self.arch.name, self.raw, self.size))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decoded):
            return NotImplemented
        return (self.raw, self.size, self.arch.name) == (other.raw, other.size, other.arch.name)

    def __repr__(self) -> str:
        return f"<{self.arch.name} {self.raw:0{2 * self.size}x} {self.encoding} {self.opcode.name}>"

    @property
    def encoding(self) -> str:
        """Name of the bit layout, e.g. ``VOP2_LIT``."""
        return self.layout.name

    @property
    def format(self) -> str:
        """Name of the base encoding, e.g. ``VOP2``."""
        return self.opcode.format

    @property
    def mnemonic(self) -> str:
        """Assembly name without encoding suffix; VOPD gives both halves."""
        if self.opcode_y is None:
            return self.opcode.mnemonic
        return f"{self.opcode.mnemonic} :: {self.opcode_y.mnemonic}"

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """Operands in assembly order, destinations first. VOPD: those of the X half, then those of the Y half."""
        parts = Parts(self.arch, self.opcode, self.layout, self.fields, self.literal, self.opcode_y)
        return operand_views(parts)

    def operand(self, field: str) -> Operand:
        """The operand of a field. Raises KeyError when this instruction does not use that field."""
        for view in self.operands:
            if view.field == field:
                return view
        raise KeyError(f"{self.mnemonic} has no operand {field}")

    @property
    def clamp(self) -> bool:
        """Whether the result is clamped (saturated for integers)."""
        return bool(self.fields.get("clmp", 0))

    @property
    def omod(self) -> int:
        """Output modifier: 0 none, 1 times 2, 2 times 4, 3 divided by 2."""
        return 0 if self.truth_table is not None else self.fields.get("omod", 0)

    @property
    def truth_table(self) -> int | None:
        """The eight bits of V_BITOP3, which lie in the fields of float modifiers; None for other opcodes."""
        if "bitop3" not in self.opcode.mnemonic:
            return None
        return self.fields["neg"] | self.fields["abs"] << 3 | self.fields["omod"] << 6

    @cached_property
    def dpp(self) -> Dpp16 | Dpp8 | None:
        """The DPP modifier, if there is one."""
        fields = self.fields
        if "dpp" in fields:
            masks = fields["row_mask"], fields["bank_mask"]
            return Dpp16(fields["dpp"], *masks, bool(fields["bc"]), bool(fields.get("fi", 0)))
        if "lane_sel_0" in fields:
            lanes = tuple(fields[f"lane_sel_{n}"] for n in range(8))
            return Dpp8(lanes, fields["src0"] == 234)
        return None

    @cached_property
    def sdwa(self) -> Sdwa | None:
        """The SDWA modifier of the destination, if there is one."""
        if "dst_sel" not in self.fields:
            return None
        return Sdwa(self.fields["dst_sel"], self.fields["dst_unused"])

    @cached_property
    def reads(self) -> frozenset[Register]:
        """Registers read, declared and implicit, for the narrowest wave of the architecture."""
        return self.reads_in(self.arch.wave_sizes[0])

    @cached_property
    def writes(self) -> frozenset[Register]:
        """Registers written, declared and implicit, for the narrowest wave of the architecture."""
        return self.writes_in(self.arch.wave_sizes[0])

    def reads_in(self, wave_size: int) -> frozenset[Register]:
        """Registers read by a wave of ``wave_size`` lanes."""
        return frozenset(self._touched(wave_size, reads=True))

    def writes_in(self, wave_size: int) -> frozenset[Register]:
        """Registers written by a wave of ``wave_size`` lanes."""
        return frozenset(self._touched(wave_size, reads=False))

    def _touched(self, wave_size: int, reads: bool) -> Iterator[Register]:
        for view in self.operands:
            if view.is_src if reads else view.is_dst:
                yield from view.registers(wave_size)
        halves = (self.opcode,) if self.opcode_y is None else (self.opcode, self.opcode_y)
        for implicit in (opcode.implicit for opcode in halves):
            if implicit.reads_scc if reads else implicit.writes_scc:
                yield Register("scc", 0)
            if implicit.reads_m0 if reads else implicit.writes_m0:
                yield Register("s", self.arch.m0_register)
            named_result = "sd" in self.fields and self.format == "VOPC"
            if implicit.reads_vcc if reads else implicit.writes_vcc and not named_result:
                yield from (Register("s", VCC_LO + n) for n in range(wave_size // 32))
            if implicit.reads_exec if reads else implicit.writes_exec:
                yield from (Register("s", EXEC_LO + n) for n in range(wave_size // 32))
