"""Operand views: the operands of one decoded instruction with register kind, width and modifiers resolved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mockgpu.isa.arch import Arch
from mockgpu.isa.encoding import Encoding, Field
from mockgpu.isa.opcode import Opcode, OperandSpec
from mockgpu.isa.registers import CONSTANT_KINDS, SCALAR_KINDS, VCC_LO, VGPR_BASE, Kind, operand_encodings

_SHORT_FORMATS = frozenset({"VOP1", "VOP2", "VOPC"})
_SEGMENT_FORMATS = frozenset({"FLAT", "GLOBAL", "SCRATCH", "VFLAT", "VGLOBAL", "VSCRATCH"})
_SCRATCH_FORMATS = frozenset({"SCRATCH", "VSCRATCH"})
_FLAT_FORMATS = frozenset({"FLAT", "VFLAT"})
_POSITION = {"src0": 0, "ssrc0": 0, "src1": 1, "vsrc1": 1, "ssrc1": 1, "src2": 2}
_CODE_SHIFT = {"sbase": 1, "srsrc": 2}
_ACC_DATA = frozenset({"vdst", "vdata", "data", "data0", "data1"})
_SCALAR_OPTYPES = frozenset({"OPR_SDST", "OPR_SREG", "OPR_SREG_NOVCC", "OPR_SDST_NULL"})
_MASK_FMT = "FMT_NUM_M64"


class Register(NamedTuple):
    """One 32-bit register. ``file`` is "v", "a" (accumulation), "s" or "scc".

    In file "s" the number is the operand encoding, so VCC is 106/107, M0 125 (124 on CDNA), EXEC 126/127.
    """

    file: str
    number: int


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of one instruction.

    ``code`` is the operand encoding 0..511 (-1 for immediates); ``index`` counts inside ``kind`` (register number,
    inline integer, literal or immediate value). ``bits`` is the width read or written, ``regs`` the number of
    32-bit registers that covers. ``is_mask``: one bit per lane, so the wave size decides how many registers.
    ``hi`` selects the upper 16 bits of the register (16-bit operands). ``neg`` and ``abs`` are the float
    modifiers of a source; ``neg_hi``, ``opsel`` and ``opsel_hi`` the packed ones (``opsel`` is also set for VOP3);
    ``sext`` and ``sel`` the SDWA ones (``sel`` is None without SDWA).
    """

    field: str
    kind: Kind
    code: int
    index: int
    bits: int
    regs: int
    fmt: str
    optype: str
    is_dst: bool
    is_src: bool
    is_mask: bool = False
    hi: bool = False
    neg: bool = False
    abs: bool = False
    neg_hi: bool = False
    opsel: bool = False
    opsel_hi: bool = False
    sext: bool = False
    sel: int | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the operand is an inline constant, a literal or an immediate."""
        return self.kind in CONSTANT_KINDS

    def registers(self, wave_size: int) -> Iterator[Register]:
        """The 32-bit registers the operand covers in a wave of that size."""
        count = wave_size // 32 if self.is_mask else self.regs
        if self.kind in (Kind.VGPR, Kind.AGPR):
            file = "v" if self.kind is Kind.VGPR else "a"
            yield from (Register(file, self.index + n) for n in range(count))
        elif self.kind in SCALAR_KINDS and self.kind is not Kind.NULL:
            yield from (Register("s", self.code + n) for n in range(count))
        elif self.kind is Kind.SCC:
            yield Register("scc", 0)


@dataclass(frozen=True, slots=True)
class Parts:
    """What operand views are made of: a decoded instruction without its views."""

    arch: Arch
    opcode: Opcode
    layout: Encoding
    fields: Mapping[str, int]
    literal: int | None
    opcode_y: Opcode | None


def is_acc_mfma(layout: Encoding) -> bool:
    """Whether the layout is that of matrix instructions, whose ``acc`` bits choose accumulation registers."""
    return "acc_cd" in layout.field_names


def operand_views(parts: Parts) -> tuple[Operand, ...]:
    """The views in assembly order: destinations first; for VOPD the X half and then the Y half."""
    views = [_view(parts, spec) for spec in _specs(parts)]
    if parts.opcode_y is not None:
        views += [_view(parts, spec) for spec in parts.opcode_y.operands]
    return tuple(view for view in views if view is not None)


_COMPARE_RESULT = OperandSpec("sdst", _MASK_FMT, 64, "OPR_SDST", True, False)


def _specs(parts: Parts) -> tuple[OperandSpec, ...]:
    """The opcode's operands in this encoding; compares with SDWA name their result."""
    specs = parts.opcode.operands
    if "sd" in parts.fields and parts.opcode.format == "VOPC":
        return (_COMPARE_RESULT, *specs)
    if parts.fields.get("lds", 0):
        return tuple(spec for spec in specs if spec.field != "vdata")
    return specs


def operand_code(layout_field: Field, value: int, fields: Mapping[str, int]) -> int:
    """The operand encoding 0..511 that a field's value means, -1 for immediates."""
    kind = layout_field.kind
    if kind in ("src", "ssrc", "sgpr"):
        return value
    if kind == "vgpr":
        return VGPR_BASE + value
    if kind in _CODE_SHIFT:
        return value << _CODE_SHIFT[kind]
    if kind == "vdsty":  # the two destinations of a pair lie in different banks of two
        return VGPR_BASE + (value << 1 | (~fields["vdstx"] & 1))
    return -1


def _view(parts: Parts, spec: OperandSpec) -> Operand | None:
    bits = _bits(parts, spec)
    if bits == 0:
        return None
    code = _code(parts, spec)
    if code < 0:
        return _immediate(parts, spec)
    kind, index, hi = _register(parts, spec, code)
    mask = spec.fmt == _MASK_FMT or (
        spec.field in ("vdst", "sdst") and kind in SCALAR_KINDS and _lane_mask(parts, spec)
    )
    neg, absolute = _float_modifiers(parts, spec.field)
    neg_hi, opsel, opsel_hi = _packed_modifiers(parts, spec.field)
    sext, sel = _sdwa_modifiers(parts, spec.field)
    hi = hi or (opsel and bits == 16 and kind not in CONSTANT_KINDS and parts.opcode.format in ("VOP3", "VINTERP"))
    return Operand(
        field=spec.field,
        kind=kind,
        code=code,
        index=index,
        bits=bits,
        regs=max(1, (bits + 31) // 32),
        fmt=spec.fmt,
        optype=spec.optype,
        is_dst=spec.is_dst and not _discards_result(parts, spec),
        is_src=spec.is_src,
        is_mask=mask,
        hi=hi,
        neg=neg,
        abs=absolute,
        neg_hi=neg_hi,
        opsel=opsel,
        opsel_hi=opsel_hi,
        sext=sext,
        sel=sel,
    )


def _immediate(parts: Parts, spec: OperandSpec) -> Operand | None:
    if spec.field not in parts.fields:
        return None
    value = parts.fields[spec.field]
    return Operand(spec.field, Kind.IMM, -1, value, spec.bits, 0, spec.fmt, spec.optype, spec.is_dst, spec.is_src)


def _lane_mask(parts: Parts, spec: OperandSpec) -> bool:
    """Scalar destinations of vector compares hold one bit per lane (the tables type them as plain 64 bits on CDNA)."""
    compare = parts.opcode.mnemonic.startswith("v_cmp")
    return compare and spec.field in ("vdst", "sdst") and spec.bits == 64


def _code(parts: Parts, spec: OperandSpec) -> int:
    """The operand encoding of a field, looking through the DPP and SDWA forms of source 0."""
    name, fields, by_name = spec.field, parts.fields, parts.layout.by_name
    if spec.optype == "OPR_SENDMSG_RTN":
        return -1
    if name == "sdst" and not fields.get("sd", 1):
        return VCC_LO
    if name == "soffset" and not fields.get("imm", 1) and not fields["soffset_en"]:
        return fields["offset"] & 0x7F  # the offset field names the register
    if name == "vdst" and spec.optype in _SCALAR_OPTYPES:
        return fields["vdst"]
    if name == "src0" and "vsrc0" in fields:
        scalar = fields.get("s0", 0)
        return fields["vsrc0"] if scalar else VGPR_BASE + fields["vsrc0"]
    if name == "vsrc1" and fields.get("s1", 0):
        return fields["vsrc1"]
    return operand_code(by_name[name], fields[name], fields) if name in by_name else -1


def _register(parts: Parts, spec: OperandSpec, code: int) -> tuple[Kind, int, bool]:
    """(kind, index, upper half) of an operand encoding."""
    if spec.field == "saddr" and code == _no_saddr(parts.arch):
        return Kind.NULL, 0, False
    encoded = operand_encodings(parts.arch.family)[code]
    if encoded.kind is Kind.LITERAL:
        return Kind.LITERAL, parts.literal or 0, False
    if encoded.kind is not Kind.VGPR:
        return encoded.kind, encoded.index, False
    if spec.optype in ("OPR_ACCVGPR", "OPR_SRC_ACCVGPR") or _accumulates(parts, spec.field):
        return Kind.AGPR, encoded.index, False
    if parts.arch.true16 and spec.bits == 16 and parts.opcode.format in _SHORT_FORMATS:
        return Kind.VGPR, encoded.index & 0x7F, bool(encoded.index & 0x80)
    return Kind.VGPR, encoded.index, False


def _accumulates(parts: Parts, name: str) -> bool:
    fields = parts.fields
    if is_acc_mfma(parts.layout):
        if name == "src2" and parts.opcode.mnemonic.startswith("v_smfmac"):  # the index register
            return False
        if name in ("vdst", "src2"):
            return bool(fields["acc_cd"])
        return name in ("src0", "src1") and bool(fields["acc"] >> _POSITION[name] & 1)
    return name in _ACC_DATA and bool(fields.get("acc", 0))


def _no_saddr(arch: Arch) -> int:
    """The encoding of an absent scalar address: null on RDNA, 0x7f where there is no null register."""
    return 127 if arch.null_register is None else arch.null_register


def _bits(parts: Parts, spec: OperandSpec) -> int:
    """Width of an operand in this instruction; 0 when the addressing mode leaves it out."""
    form, fields, name = parts.opcode.format, parts.fields, spec.field
    if form in _SEGMENT_FORMATS:
        return _segment_bits(parts, spec)
    if name == "vaddr" and "offen" in fields:
        return 32 * (fields["offen"] + fields["idxen"])
    if form == "SMEM" and name == "soffset":
        return spec.bits if _smem_soffset(parts) else 0
    if form in ("EXP", "VEXPORT") and name.startswith("vsrc"):
        return spec.bits if fields["en"] >> int(name[4:]) & 1 else 0
    return _matrix_bits(parts, spec)


def _segment_bits(parts: Parts, spec: OperandSpec) -> int:
    form, fields, name = parts.opcode.format, parts.fields, spec.field
    scalar = fields["saddr"] != _no_saddr(parts.arch)
    if name == "saddr":
        if form in _FLAT_FORMATS:
            return 0
        return 32 if form in _SCRATCH_FORMATS else 64
    if name in ("addr", "vaddr"):
        if form in _SCRATCH_FORMATS:
            return 32 if fields["sve"] else 0
        return 32 if scalar and form not in _FLAT_FORMATS else 64
    return spec.bits


def _smem_soffset(parts: Parts) -> bool:
    if parts.arch.null_register is not None:
        return parts.fields["soffset"] != parts.arch.null_register
    return bool(parts.fields["soffset_en"]) or not parts.fields["imm"]


_F8F6F4_BITS = {0: 256, 1: 256, 2: 192, 3: 192, 4: 128}


def _matrix_bits(parts: Parts, spec: OperandSpec) -> int:
    """The element formats in CBSZ and BLGP set the widths of f8f6f4 matrix sources."""
    if spec.field in ("src0", "src1") and "f8f6f4" in parts.opcode.mnemonic:
        return _F8F6F4_BITS.get(parts.fields["cbsz" if spec.field == "src0" else "blgp"], 256)
    return spec.bits


def _discards_result(parts: Parts, spec: OperandSpec) -> bool:
    """Memory atomics return the old value only when the return bit is set."""
    if spec.field not in ("vdst", "vdata", "sdata") or "_atomic_" not in parts.opcode.mnemonic:
        return False
    if parts.opcode.format == "DS":
        return False
    return not returns_old_value(parts.fields)


def returns_old_value(fields: Mapping[str, int]) -> bool:
    """The return bit of an atomic: GLC, SC0 or bit 0 of TH."""
    return bool(fields.get("glc", 0) or fields.get("sc0", 0) or fields.get("th", 0) & 1)


def _float_modifiers(parts: Parts, name: str) -> tuple[bool, bool]:
    fields, position = parts.fields, _POSITION.get(name)
    if position is None or "bitop3" in parts.opcode.mnemonic:  # whose truth table lies in these fields
        return False, False
    neg = fields.get("neg", 0) >> position & 1
    absolute = fields.get("abs", 0) >> position & 1
    if parts.opcode.format in _SHORT_FORMATS:  # the modifiers of DPP and SDWA words
        neg |= fields.get(f"src{position}_neg", 0)
        absolute |= fields.get(f"src{position}_abs", 0)
    return bool(neg), bool(absolute)


def _packed_modifiers(parts: Parts, name: str) -> tuple[bool, bool, bool]:
    fields, position = parts.fields, _POSITION.get(name)
    opsel = fields.get("opsel", 0)
    if name == "vdst":
        return False, bool(opsel >> 3 & 1), False
    if position is None:
        return False, False, False
    neg_hi = fields.get("neg_hi", 0) >> position & 1
    opsel_hi = fields.get("opsel_hi", 0) | fields.get("opsel_hi2", 0) << 2
    return bool(neg_hi), bool(opsel >> position & 1), bool(opsel_hi >> position & 1)


def _sdwa_modifiers(parts: Parts, name: str) -> tuple[bool, int | None]:
    position = _POSITION.get(name)
    if position is None or f"src{position}_sel" not in parts.fields:
        return False, None
    return bool(parts.fields[f"src{position}_sext"]), parts.fields[f"src{position}_sel"]
