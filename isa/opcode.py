"""Opcodes and their operands, read once per family from the generated tables."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mockgpu.isa.encoding import Encoding, Member, encodings, member_of, table_module
from mockgpu.isa.implicit import Implicit, implicit_of
from mockgpu.isa.table_cache import cached

_DESTINATIONS = frozenset({"vdst", "sdst", "vdstx", "vdsty"})
_DATA = frozenset({"vdata", "sdata"})
_ORDER = ("vdstx", "vdsty", "vdst", "sdst", "sdata", "vdata")
_COMPARED = frozenset({"OPR_SDST_NULL"})


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """One declared operand of an opcode.

    ``field`` is a field of the encoding, ``fmt`` a name such as ``FMT_NUM_F16``, ``bits`` the operand's width,
    ``optype`` a name such as ``OPR_SRC``. ``is_dst`` and ``is_src`` are both set where the old value counts.
    """

    field: str
    fmt: str
    bits: int
    optype: str
    is_dst: bool
    is_src: bool


@dataclass(frozen=True, eq=False, repr=False)
class Opcode:
    """One opcode of one encoding table.

    ``table`` is the enum class (``VOP2Op``), ``name`` its member (``V_ADD_F32_E32``), ``mnemonic`` the assembly
    name without encoding suffix (``v_add_f32``), ``format`` the base encoding (``VOP2``). Opcodes are unique
    objects: equality is identity.
    """

    family: str
    table: str
    name: str
    value: int
    format: str
    mnemonic: str
    operands: tuple[OperandSpec, ...]
    implicit: Implicit

    def __repr__(self) -> str:
        return f"<{self.family} {self.table}.{self.name}>"

    def operand(self, field: str) -> OperandSpec | None:
        """The spec of a field, or None when the opcode does not use it."""
        return next((spec for spec in self.operands if spec.field == field), None)


def mnemonic_of(name: str) -> str:
    """``V_ADD_F32_E32`` -> ``v_add_f32``."""
    return name.lower().removesuffix("_e32").removesuffix("_e64")


def _is_source_only(name: str, optype: str) -> bool:
    """Scalar K-format opcodes that read the register in the destination field."""
    return name.startswith(("S_CMPK_", "S_SETREG_", "S_CBRANCH_I_FORK")) or optype in _COMPARED


def _directions(name: str, field: str, optype: str, implicit: Implicit) -> tuple[bool, bool]:
    """(is_dst, is_src) of a field."""
    if field in _DESTINATIONS:
        if _is_source_only(name, optype):
            return False, True
        return True, implicit.reads_destination
    if field in _DATA:
        if "ATOMIC" in name:
            return True, True
        stores = "STORE" in name or "PREFETCH" in name
        return not stores, stores
    return False, True


#: Operands whose pseudocode reads more bits than the tables declare: the high half of a register holds the value.
_HIGH_HALF_SOURCES = frozenset({("S_CVT_HI_F32_F16", "ssrc0")})


def _spec(name: str, field: str, declared: tuple[Any, int, Any], implicit: Implicit) -> OperandSpec:
    fmt, bits, optype = declared[0].name, declared[1], declared[2]
    if "LDEXP_F16" in name and field.endswith("src1"):  # the tables call the integer exponent a float
        fmt = "FMT_NUM_I16"
    if field == "vdst" and "CMPSWAP" in name:  # some tables give it the width of the operand pair
        bits = 64 if name.endswith(("64", "X2")) else 32
    if (name, field) in _HIGH_HALF_SOURCES:
        bits = 32
    is_dst, is_src = _directions(name, field, optype.name, implicit)
    if field == "src0" and "SWAP" in name and name.startswith("V_"):
        is_dst = True
    return OperandSpec(field, fmt, bits, optype.name, is_dst, is_src)


def _order(spec: OperandSpec) -> tuple[int, str]:
    if spec.field.startswith("scale_"):
        return len(_ORDER) + 1, spec.field
    rank = _ORDER.index(spec.field) if spec.field in _ORDER else len(_ORDER)
    return rank, spec.field.removeprefix("v").removeprefix("s") if rank == len(_ORDER) else ""


def _canonical(field: str, names: Iterable[str]) -> str:
    """The tables name some VOP3 sources after the DPP form; give them the field of this encoding."""
    if field in names:
        return field
    return field.removeprefix("v") if field.removeprefix("v") in names else field


# Operands that the generated tables leave out (RDNA3 manual, SOPK chapter).
_LOOP_OPERANDS = (
    OperandSpec("sdst", "FMT_NUM_B32", 32, "OPR_SDST", True, True),
    OperandSpec("simm16", "FMT_NUM_I16", 16, "OPR_LABEL", False, True),
)


def _xf32(registers: int) -> tuple[OperandSpec, ...]:
    """Operands of the xf32 matrix instructions of CDNA3, whose tables came from CDNA4 where they are gone."""
    result, source = 32 * registers, 64
    return (
        OperandSpec("vdst", "FMT_NUM_F32", result, "OPR_VGPR_OR_ACCVGPR", True, False),
        OperandSpec("src0", "FMT_NUM_PK2_F32", source, "OPR_SRC_VGPR_OR_ACCVGPR", False, True),
        OperandSpec("src1", "FMT_NUM_PK2_F32", source, "OPR_SRC_VGPR_OR_ACCVGPR", False, True),
        OperandSpec("src2", "FMT_NUM_F32", result, "OPR_SRC_VGPR_OR_ACCVGPR_OR_CONST", False, True),
    )


_MISSING_OPERANDS = {
    "V_MFMA_F32_16X16X8_XF32": _xf32(4),
    "V_MFMA_F32_32X32X4_XF32": _xf32(16),
    "S_SUBVECTOR_LOOP_BEGIN": _LOOP_OPERANDS,
    "S_SUBVECTOR_LOOP_END": _LOOP_OPERANDS,
    "S_WAITCNT": (OperandSpec("simm16", "FMT_NUM_B16", 16, "OPR_WAITCNT", False, True),),
    "S_GET_BARRIER_STATE": (
        OperandSpec("sdst", "FMT_NUM_B32", 32, "OPR_SDST", True, False),
        OperandSpec("ssrc0", "FMT_NUM_B32", 32, "OPR_SSRC_BARRIER_ID", False, True),
    ),
    "S_BARRIER_INIT": (OperandSpec("ssrc0", "FMT_NUM_B32", 32, "OPR_SSRC_BARRIER_ID", False, True),),
    "S_BARRIER_JOIN": (OperandSpec("ssrc0", "FMT_NUM_B32", 32, "OPR_SSRC_BARRIER_ID", False, True),),
    "S_ENDPGM": (OperandSpec("simm16", "FMT_NUM_B16", 16, "OPR_SIMM16", False, True),),
}


@functools.cache
def opcodes(family: str) -> Mapping[tuple[str, str], Opcode]:
    """All opcodes of a family by (table, name)."""
    return cached("opcodes", family, lambda: _read_opcodes(family))


def _declared(family: str) -> dict[Member, Mapping[str, tuple[Any, int, Any]]]:
    """The operands that the generated tables declare: (format, bits, operand type) by field."""
    return {member_of(entry): declared for entry, declared in table_module(family, "operands").OPERANDS.items()}


def _read_opcodes(family: str) -> dict[tuple[str, str], Opcode]:
    operands = _declared(family)
    shared: dict[OperandSpec, OperandSpec] = {}
    result: dict[tuple[str, str], Opcode] = {}
    for encoding in encodings(family).values():
        for member in encoding.members:
            if (member.table, member.name) not in result:
                opcode = _read_opcode(family, encoding, member, operands.get(member, {}), shared)
                result[member.table, member.name] = opcode
    return result


def _read_opcode(
    family: str,
    encoding: Encoding,
    member: Member,
    declared: Mapping[str, tuple[Any, int, Any]],
    shared: dict[OperandSpec, OperandSpec],
) -> Opcode:
    """One opcode; equal operand specs are one object, which keeps the table small."""
    implicit = implicit_of(family, member)
    by_field = {_canonical(f, encoding.field_names): d for f, d in declared.items()}
    specs = [_spec(member.name, f, d, implicit) for f, d in by_field.items() if f in encoding.field_names]
    if member.name.startswith("V_CMPX") and family != "cdna":  # writes EXEC and nothing else
        specs = [spec for spec in specs if spec.field != "vdst"]
    if "_LOAD_LDS_" in member.name:  # the data goes to local memory
        specs = [spec for spec in specs if spec.field not in ("vdst", "vdata")]
    specs = specs or list(_MISSING_OPERANDS.get(member.name, ()))
    ordered = tuple(shared.setdefault(spec, spec) for spec in sorted(specs, key=_order))
    form = encoding.base.removesuffix("_SDST").removesuffix("_MFMA")
    return Opcode(family, *member, form, mnemonic_of(member.name), ordered, implicit)


@functools.cache
def dual_opcodes(family: str) -> Mapping[int, tuple[Opcode, Opcode]]:
    """The opcodes of dual-issue (VOPD) instructions by number, each as (X form, Y form)."""
    return cached("dual", family, lambda: _read_dual_opcodes(family))


def _read_dual_opcodes(family: str) -> dict[int, tuple[Opcode, Opcode]]:
    table = [member_of(entry) for entry in getattr(table_module(family, "enum"), "VOPDOp", ())]
    operands = _declared(family) if table else {}
    return {member.value: _dual(family, member, operands.get(member, {})) for member in table}


def _dual(family: str, member: Member, declared: Mapping[str, tuple[Any, int, Any]]) -> tuple[Opcode, Opcode]:
    implicit = implicit_of(family, member)
    y_specs = tuple(sorted((_spec(member.name, f, d, implicit) for f, d in declared.items()), key=_order))
    x_names = {"vdsty": "vdstx", "srcy0": "srcx0", "vsrcy1": "vsrcx1"}
    x_specs = tuple(replace(spec, field=x_names[spec.field]) for spec in y_specs)
    forms = [Opcode(family, *member, "VOPD", mnemonic_of(member.name), specs, implicit) for specs in (x_specs, y_specs)]
    return forms[0], forms[1]
