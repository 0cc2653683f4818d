"""Encodings: where the fields of each instruction format lie, read from the generated format classes.

An encoding is a bit layout. A base encoding (``VOP2``) is chosen by fixed bits and opcode; its variants
(``VOP2_LIT``, ``VOP2_DPP16``) are chosen by marker values in a source field. Bits that no field covers are
ignored by hardware, save those in ``MUST_BE_ZERO``; fixed bits and opcodes that nothing claims are illegal.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mockgpu.isa.table_cache import cached

MUST_BE_ZERO = {
    # The generated opcode fields of these are narrower than the hardware's, so the rest of the opcode is zero.
    ("rdna4", "VOP1"): 1 << 16,
    ("rdna4", "VINTERP"): 0b111 << 21,
}
"""Bits outside every field that make an instruction illegal when set, by family and base encoding."""

_FIXED_EXTRA = {("cdna", "VOP3PX2"): ("x2encoding", 0xD3AC)}
_VARIANT_SUFFIXES = ("_LIT", "_DPP16", "_DPP8", "_SDWA_SDST", "_SDWA")
_KINDS = {
    "SrcField": "src",
    "SSrcField": "ssrc",
    "SGPRField": "sgpr",
    "VGPRField": "vgpr",
    "SBaseField": "sbase",
    "SRsrcField": "srsrc",
    "VDSTYField": "vdsty",
    "FixedBitField": "fixed",
    "EnumBitField": "op",
    "BitField": "bits",
}
# Fields that the generated classes give as plain bits though they name registers.
_KIND_BY_NAME = {"rsrc": "src", "samp": "src", "scale_src0": "src", "scale_src1": "src"}
_KIND_BY_NAME |= {f"vaddr{n}": "vgpr" for n in range(5)}


@dataclass(frozen=True, slots=True)
class Field:
    """Bits ``hi``..``lo`` of an instruction. ``kind`` says how the value maps to an operand encoding:

    src 0..511, ssrc 0..255, sgpr 0..127, vgpr +256, sbase *2, srsrc *4, vdsty (VOPD), bits, op, fixed.
    ``fixed`` is the required value of a fixed field, ``enum`` the opcode table of an op field.
    """

    name: str
    hi: int
    lo: int
    kind: str
    fixed: int | None = None
    enum: str = ""

    @property
    def mask(self) -> int:
        """The field's value mask, not shifted."""
        return (1 << (self.hi - self.lo + 1)) - 1


class Member(NamedTuple):
    """One entry of an opcode table: the generated enum class, the name in it and the number."""

    table: str
    name: str
    value: int


def member_of(entry: Any) -> Member:
    """The Member of a generated enum's entry."""
    return Member(type(entry).__name__, entry.name, int(entry.value))


@dataclass(frozen=True)
class Encoding:
    """One bit layout. ``size`` in bytes; ``members`` are the entries of opcode tables that may use it."""

    name: str
    base: str
    size: int
    fields: tuple[Field, ...]
    members: tuple[Member, ...] = field(repr=False)

    @functools.cached_property
    def by_name(self) -> Mapping[str, Field]:
        """Fields by name."""
        return {f.name: f for f in self.fields}

    @functools.cached_property
    def field_names(self) -> frozenset[str]:
        """Names of all fields."""
        return frozenset(self.by_name)

    @functools.cached_property
    def covered(self) -> int:
        """Mask of the bits that belong to some field."""
        mask = 0
        for f in self.fields:
            mask |= f.mask << f.lo
        return mask


@functools.cache
def table_module(family: str, module: str) -> Any:
    """A generated module of a family (``enum``, ``ins``, ``operands``), loaded on first use."""
    return importlib.import_module(f"tinygrad.runtime.autogen.amd.{family}.{module}")


def _field(family: str, base: str, name: str, raw: Any) -> Field:
    kind = _KIND_BY_NAME.get(name) or _KINDS[type(raw).__name__]
    fixed = raw.default if kind == "fixed" else None
    extra = _FIXED_EXTRA.get((family, base))
    if extra is not None and extra[0] == name:
        kind, fixed = "fixed", extra[1]
    enum = raw._enum.__name__ if kind == "op" else ""
    return Field(name, raw.hi, raw.lo, kind, fixed, enum)


def _is_replaced(cls: Any, name: str, raw: Any) -> bool:
    """Whether an inherited field's bits mean something else in this class (matrix forms of VOP3P)."""
    own = {n: f for n, f in vars(cls).items() if hasattr(f, "hi") and hasattr(f, "lo")}
    return name not in own and any(f.lo <= raw.hi and raw.lo <= f.hi for f in own.values())


def _base_name(name: str) -> str:
    for suffix in _VARIANT_SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def _members(family: str, cls: Any) -> tuple[Member, ...]:
    raw = dict(cls._fields).get("op")
    if raw is None:
        table = getattr(table_module(family, "enum"), f"{cls.__name__}Op", ())
        return () if cls.__name__.startswith("VOPD") else tuple(map(member_of, table))
    allowed = set(raw._enum) if raw.allowed is None else raw.allowed
    return tuple(sorted(map(member_of, allowed), key=_number))


def _number(member: Member) -> int:
    return member.value


# The second dword pair of an image instruction whose addresses are not sequential (RDNA3 manual, "Image NSA").
_NSA_FIELDS = tuple(Field(f"vaddr{n}", 63 + 8 * n, 56 + 8 * n, "vgpr") for n in range(1, 5))


@functools.cache
def encodings(family: str) -> Mapping[str, Encoding]:
    """All encodings of a family by name, variants included."""
    return cached("encodings", family, lambda: _read_encodings(family))


def _read_encodings(family: str) -> dict[str, Encoding]:
    classes = {n: c for n, c in vars(table_module(family, "ins")).items() if hasattr(c, "_fields") and n != "Inst"}
    scalar_forms = [cls for name, cls in classes.items() if name.endswith("_SDST") and "SDWA" not in name]
    scalar = {member_of(entry) for cls in scalar_forms for entry in cls.op.allowed}
    result: dict[str, Encoding] = {}
    for name, cls in classes.items():
        base = _base_name(name)
        fields = tuple(_field(family, base, n, raw) for n, raw in cls._fields if not _is_replaced(cls, n, raw))
        members = tuple(m for m in _members(family, cls) if "_SDST" in name or m not in scalar)
        result[name] = Encoding(name, base, cls._base_size, fields, members)
    if "MIMG" in result:
        mimg = result["MIMG"]
        result["MIMG_NSA"] = Encoding("MIMG_NSA", "MIMG", 12, mimg.fields + _NSA_FIELDS, mimg.members)
    if "VOP3P_MFMA" in result:
        _move_matrix_members(result)
    for suffix in ("_DPP16", "_DPP8"):
        if f"VOP3{suffix}" in result:
            result[f"VOP3_SDST{suffix}"] = _compare_dpp(result["VOP3_SDST"], result[f"VOP3{suffix}"])
    return result


def _move_matrix_members(result: dict[str, Encoding]) -> None:
    """The tables leave the xf32 instructions in VOP3P; all matrix instructions have the matrix layout."""
    plain, matrix = result["VOP3P"], result["VOP3P_MFMA"]
    moved = {m for m in plain.members if m.name.startswith("V_MFMA_F32")}
    result["VOP3P"] = replace(plain, members=tuple(m for m in plain.members if m not in moved))
    members = sorted({*matrix.members, *moved}, key=_number)
    result["VOP3P_MFMA"] = replace(matrix, members=tuple(members))


def _compare_dpp(compare: Encoding, dpp: Encoding) -> Encoding:
    """The DPP form of VOP3 compares, which the tables leave out: that of VOP3 with a scalar destination."""
    fields = tuple(compare.by_name["vdst"] if f.name == "vdst" else f for f in dpp.fields)
    members = tuple(m for m in compare.members if m.name.startswith("V_CMP"))
    name = dpp.name.replace("VOP3_", "VOP3_SDST_")
    return Encoding(name, "VOP3_SDST", dpp.size, fields, members)


@functools.cache
def base_encodings(family: str) -> tuple[Encoding, ...]:
    """The encodings chosen by fixed bits and opcode, without literal, DPP, SDWA and NSA variants."""
    return tuple(e for e in encodings(family).values() if e.base == e.name)
