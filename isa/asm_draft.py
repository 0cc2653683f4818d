"""An instruction under construction: the field values of one layout, filled in operand by operand."""

from __future__ import annotations

from dataclasses import dataclass, field

from mockgpu.isa.arch import Arch
from mockgpu.isa.asm_error import AsmError
from mockgpu.isa.asm_operands import Constant, Register, Scope, Source, constant_code
from mockgpu.isa.decode import Leaf
from mockgpu.isa.encoding import Encoding, Field
from mockgpu.isa.opcode import Opcode, OperandSpec
from mockgpu.isa.registers import DPP8, DPP16, EXEC_LO, INLINE_FLOAT_BITS, LITERAL, SDWA, VCC_LO, VGPR_BASE

SHORT_FORMATS = frozenset({"VOP1", "VOP2", "VOPC"})
SCALAR_FORMATS = frozenset({"SOP1", "SOP2", "SOPC", "SOPK", "SOPP"})
_HALF_FORMATS = frozenset({"VOP3", "VINTERP"})
_SCALAR_OPTYPES = frozenset({"OPR_SDST", "OPR_SREG", "OPR_SREG_NOVCC", "OPR_SDST_NULL"})
_PLAIN_ACC_OPTYPES = frozenset({"OPR_ACCVGPR", "OPR_SRC_ACCVGPR"})
_POSITION = {"src0": 0, "ssrc0": 0, "src1": 1, "vsrc1": 1, "ssrc1": 1, "src2": 2}
_SHIFTS = {"sbase": 1, "srsrc": 2}
_SCALARS = 128


@dataclass(slots=True)
class Draft:
    """Field values of ``layout`` so far. ``opcode`` is the X half of a VOPD pair, ``opcode_y`` its Y half."""

    arch: Arch
    leaf: Leaf
    opcode: Opcode
    layout: Encoding
    scope: Scope
    lanes: int
    returning: bool = False  # prefer the hints of atomics that return the old value
    opcode_y: Opcode | None = None
    values: dict[str, int] = field(default_factory=dict)
    literal: int | None = None

    def __post_init__(self) -> None:
        self.values |= _defaults(self)

    @property
    def form(self) -> str:
        """The base format."""
        return self.opcode.format

    def has(self, name: str) -> bool:
        """Whether the layout has a field."""
        return name in self.layout.field_names

    def limit(self, name: str) -> int:
        """The largest value of a field."""
        return self.layout.by_name[name].mask

    def set(self, name: str, value: int) -> None:
        """Set a field."""
        self.values[name] = value

    def merge(self, name: str, bits: int) -> None:
        """Set bits of a field."""
        self.values[name] = self.values.get(name, 0) | bits

    def set_literal(self, value: int, column: int) -> None:
        """The dword that follows the instruction; there is one for all operands. Raises AsmError."""
        if "literal" not in self.layout.field_names:
            raise AsmError("a literal is not possible here", column=column)
        if self.literal is not None and self.literal != value:
            raise AsmError(
                f"two different literals, {self.literal:#x} and {value:#x}; there is room for one", column=column
            )
        self.literal = value
        self.values["literal"] = value


_PACKED_DEFAULTS = {"opsel_hi": 3, "opsel_hi2": 1}
_DPP_DEFAULTS = {"dpp": 0xE4, "row_mask": 0xF, "bank_mask": 0xF}  # quad_perm:[0,1,2,3] is the identity
_SDWA_DEFAULTS = {"dst_sel": 6, "dst_unused": 2, "src0_sel": 6, "src1_sel": 6}
_FORMAT_DEFAULTS = {"format": 1, "dfmt": 1, "nfmt": 0}
_SADDR_FORMATS = frozenset({"FLAT", "GLOBAL", "SCRATCH", "VFLAT", "VGLOBAL", "VSCRATCH"})


def _defaults(draft: Draft) -> dict[str, int]:
    """What fields hold when the text does not name them."""
    opcode, layout = draft.opcode, draft.layout
    values: dict[str, int] = {}
    if draft.form == "VOP3P" and "cbsz" not in layout.field_names and "_mix" not in opcode.mnemonic:
        values |= _PACKED_DEFAULTS
    if "dpp" in layout.field_names:
        values |= {**_DPP_DEFAULTS, "src0": DPP16}
    if "lane_sel_0" in layout.field_names:
        values["src0"] = DPP8
    if "src0_sel" in layout.field_names:
        values |= {**_SDWA_DEFAULTS, "src0": SDWA}
        if opcode.operand("vsrc1") is None:
            values["src1_sel"] = 0
    if draft.form in ("MTBUF", "VBUFFER"):
        values |= _FORMAT_DEFAULTS
    if opcode.name.startswith("V_CMPX") and "vdst" in layout.field_names:
        values["vdst"] = EXEC_LO
    null = draft.arch.null_register
    if draft.form in _SADDR_FORMATS and (opcode.operands or "scope" in layout.field_names):
        flat_without = draft.form == "FLAT" and null is None
        values["saddr"] = 0 if flat_without else 127 if null is None else null
    if draft.form == "VOP3PX2":
        values["abid"] = 1  # says that the scales count
    if draft.form == "SMEM" and null is not None and opcode.operand("sbase") is not None:
        values["soffset"] = null
    if draft.form == "MIMG":
        values["nsa"] = int(layout.name == "MIMG_NSA")
    return {name: value for name, value in values.items() if name in layout.field_names}


# --- placing operands -------------------------------------------------------------------------------------------------


def place(draft: Draft, spec: OperandSpec, source: Source) -> None:
    """Put an operand into the field that its spec names. Raises AsmError."""
    try:
        code = _code(draft, spec, source)
        _modify(draft, spec, source)
        _put(draft, spec, code, source.value)
    except AsmError as error:
        error.column = error.column or source.column
        raise


def _code(draft: Draft, spec: OperandSpec, source: Source) -> int:
    """The operand encoding of a source, which may set the literal."""
    if isinstance(source.value, Register):
        return source.value.code
    bits, fmt = spec.bits, spec.fmt
    if draft.form in SCALAR_FORMATS:
        bits, fmt = _scalar_constant_type(draft.form, bits, fmt)
    try:
        code, literal = constant_code(source.value, bits, fmt)
    except ValueError as error:
        raise AsmError(str(error)) from None
    if source.force_literal and literal is None:
        code, literal = LITERAL, _literal_bits(source.value)
    if literal is None:
        return code
    if not _takes_literal(draft, spec):
        inline = _half_code(literal) if bits == 16 and not _literal_elsewhere(draft, source) else None
        if inline is None:
            raise AsmError(f"{literal:#x} needs a literal, which is not possible here")
        return inline
    draft.set_literal(literal, source.column)
    return code


def _literal_elsewhere(draft: Draft, source: Source) -> bool:
    """Whether another layout of the opcode, or only a literal, can hold the constant."""
    return source.force_literal or (draft.leaf.literal is not None and not draft.has("vsrc0"))


def _half_code(bits: int) -> int | None:
    """The inline float with these bits, which 16-bit integer operands receive as an integer."""
    return next((code for code, pattern in INLINE_FLOAT_BITS[16].items() if pattern == bits), None)


def _scalar_constant_type(form: str, bits: int, fmt: str) -> tuple[int, str]:
    """(width, format) that a constant of a scalar instruction is written in: 32 bits, save for half floats."""
    if bits >= 32 or (fmt == "FMT_NUM_F16" and form == "SOP2"):
        return bits, fmt
    return (bits, "FMT_NUM_B16") if fmt == "FMT_NUM_F16" and form == "SOPC" else (32, "FMT_NUM_B32")


def _literal_bits(constant: Constant) -> int:
    if isinstance(constant.value, float):
        raise AsmError("lit() takes an integer")
    return constant.value & 0xFFFFFFFF


def _takes_literal(draft: Draft, spec: OperandSpec) -> bool:
    f = draft.layout.by_name.get(spec.field)
    return draft.has("literal") and f is not None and (f.lo, f.mask) in draft.leaf.literal_fields


def _modify(draft: Draft, spec: OperandSpec, source: Source) -> None:
    """Set the bits of source modifiers."""
    position = _POSITION.get(spec.field)
    for name, wanted in (("neg", source.neg), ("abs", source.abs), ("sext", source.sext)):
        if not wanted:
            continue
        target = _modifier_field(draft, name, position)
        if target is None or position is None:
            raise AsmError(f"{name} is not possible in this operand")
        draft.merge(*target)


def _modifier_field(draft: Draft, name: str, position: int | None) -> tuple[str, int] | None:
    """(field, bits) of a source modifier."""
    single = f"src{position}_{name}"
    if draft.form in SHORT_FORMATS:
        return (single, 1) if draft.has(single) else None
    if draft.form in ("VOP3P", "VOP3PX2"):
        if "_mix" not in draft.opcode.mnemonic:
            return None
        name = {"neg": "neg", "abs": "neg_hi"}.get(name, name)
    return (name, 1 << (position or 0)) if draft.has(name) else None


def _put(draft: Draft, spec: OperandSpec, code: int, value: Register | Constant) -> None:
    name, form = spec.field, draft.form
    half = isinstance(value, Register) and value.half == "h"
    if isinstance(value, Register) and value.acc:
        _accumulate(draft, spec)
    if half and form in _HALF_FORMATS:
        draft.merge("opsel", 1 << (3 if name == "vdst" else _POSITION[name]))
    if draft.arch.true16 and spec.bits == 16 and form in SHORT_FORMATS and code >= VGPR_BASE:
        if code - VGPR_BASE >= 128:
            raise AsmError("this encoding reaches the halves of v0 to v127 only")
        code += 128 * half
    if "vsrc0" in draft.layout.field_names and name == "src0":
        _put_dpp_source(draft, code)
    elif name == "sdst" and "sd" in draft.layout.field_names:
        draft.values |= {"sd": int(code != VCC_LO), "sdst": code if code != VCC_LO else 0}
    elif name == "vsrc1" and "s1" in draft.layout.field_names:
        draft.values |= {"s1": int(code < VGPR_BASE), "vsrc1": code & 0xFF}
    elif name == "vdst" and spec.optype in _SCALAR_OPTYPES:
        draft.set(name, _below(code, _SCALARS, "a scalar register"))
    else:
        draft.set(name, field_value(draft.layout.by_name[name], code, draft.values))


def _put_dpp_source(draft: Draft, code: int) -> None:
    """Source 0 of DPP and SDWA forms, which lies in the second dword."""
    if draft.has("s0"):
        draft.values |= {"s0": int(code < VGPR_BASE), "vsrc0": code & 0xFF}
    else:
        draft.set("vsrc0", _vector(code))


def _vector(code: int) -> int:
    if code < VGPR_BASE:
        raise AsmError("expected a vector register")
    return code - VGPR_BASE


def _below(code: int, limit: int, what: str) -> int:
    if code >= limit:
        raise AsmError(f"expected {what}")
    return code


def field_value(layout_field: Field, code: int, values: dict[str, int]) -> int:
    """The value of a field that means an operand encoding. Raises AsmError when the field cannot name it."""
    kind = layout_field.kind
    if kind == "vgpr":
        return _vector(code)
    if kind == "vdsty":
        register = _vector(code)
        if not (register ^ values.get("vdstx", 0)) & 1:
            raise AsmError("one destination of a pair must be an even register, the other an odd one")
        return register >> 1
    if kind in _SHIFTS:
        _below(code, _SCALARS, "scalar registers")
        if code & (1 << _SHIFTS[kind]) - 1:
            raise AsmError(f"expected scalar registers from a multiple of {1 << _SHIFTS[kind]} on")
        return code >> _SHIFTS[kind]
    limit, what = {"ssrc": (VGPR_BASE, "a scalar operand"), "sgpr": (_SCALARS, "a scalar register")}.get(
        kind, (512, "")
    )
    return _below(code, limit, what)


def _accumulate(draft: Draft, spec: OperandSpec) -> None:
    """Mark an operand as an accumulation register where the layout has a bit for it."""
    name = spec.field
    if spec.optype in _PLAIN_ACC_OPTYPES:
        return
    if "acc_cd" in draft.layout.field_names and name in ("vdst", "src2"):
        draft.set("acc_cd", 1)
    elif "acc_cd" in draft.layout.field_names and name in _POSITION:
        draft.merge("acc", 1 << _POSITION[name])
    elif draft.has("acc") and "acc_cd" not in draft.layout.field_names:
        draft.set("acc", 1)
    else:
        raise AsmError("an accumulation register is not possible here")
