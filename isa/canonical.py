"""One plain legal instruction of every opcode: no modifiers, small register numbers, default immediates.

Reports, teaching pages and tests that must look at each opcode once start from here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from mockgpu.isa.arch import Arch
from mockgpu.isa.encode import build
from mockgpu.isa.encoding import Encoding, Field, encodings
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.opcode import Opcode, OperandSpec, dual_opcodes, opcodes
from mockgpu.isa.registers import VCC_LO, VGPR_BASE

_MASK_FMT = "FMT_NUM_M64"
_NO_SADDR, _INLINE_ZERO, _INLINE_ONE, _INLINE_MINUS_ONE = 127, 128, 129, 193
_NAMED_BARRIERS = ("S_BARRIER_INIT", "S_BARRIER_JOIN")  # these take a named barrier, not that of the workgroup
_MOVE = "V_DUAL_MOV_B32"  # the partner of a dual-issue opcode that exists as second half only
_FIRST_HALVES = 16  # numbers of dual-issue opcodes that fit the field of the first half
#: The scale prefix is no instruction by itself but the first half of this one.
_PREFIXES = {"V_MFMA_LD_SCALE_B32": "V_MFMA_SCALE_F32_16X16X128_F8F6F4"}
_SCALAR_OPTYPES = ("OPR_SREG", "OPR_SSRC", "OPR_SDST")
_MODE_REGISTER = 1 | 31 << 11  # hardware register MODE, all 32 bits
_DEALLOC_VGPRS, _INTERRUPT, _REAL_TIME = 3, 1, 0x83  # message numbers
_GLOBAL_FORMATS = ("GLOBAL", "VGLOBAL")
_LITERAL_VALUE = 0x3F800000

#: Values of fields that are no operand, by format: what an assembler writes when the text says nothing.
_DEFAULTS: dict[str, dict[str, int]] = {
    "MIMG": {"dmask": 1, "dim": 1},
    "VIMAGE": {"dmask": 1, "dim": 1},
    "VSAMPLE": {"dmask": 1, "dim": 1},
    "MTBUF": {"format": 22, "dfmt": 4, "nfmt": 7},  # one 32-bit float
    "EXP": {"en": 1},
    "VEXPORT": {"en": 1},
}


def table_opcodes(arch: Arch) -> list[Opcode]:
    """The opcodes of the tables that decode the target, those that it lacks included; dual-issue ones by X form."""
    dual = [x for x, _ in dual_opcodes(arch.tables).values()]
    return [*opcodes(arch.tables).values(), *dual]


@functools.cache
def canonical(arch: Arch, opcode: Opcode) -> Instruction:
    """The instruction of an opcode of ``arch``. A dual-issue opcode stands in both halves where it can.

    Raises DecodeError where the target lacks the opcode.
    """
    if opcode.format == "VOPD":
        return _dual(arch, opcode)
    if opcode.name in _PREFIXES:
        return canonical(arch, _named(arch, _PREFIXES[opcode.name]))
    layout = _layout(arch, opcode)
    fields = dict(_DEFAULTS.get(layout.base, {}))
    numbers = _Numbers(arch)
    fields |= {spec.field: _operand(arch, layout, spec, numbers) for spec in opcode.operands}
    if opcode.name.endswith("ADDTID_B32") and layout.base in _GLOBAL_FORMATS:  # no address but a scalar one
        fields["saddr"] = numbers.next_scalar(64)
    if opcode.name in _NAMED_BARRIERS:
        fields["ssrc0"] = _INLINE_ONE
    fields |= _fixed(arch, layout, opcode)
    fields = {name: value for name, value in fields.items() if name in layout.field_names}
    return build(arch, opcode, layout.name, **fields)


def _named(arch: Arch, name: str) -> Opcode:
    return next(opcode for (_, member), opcode in opcodes(arch.tables).items() if member == name)


def _layout(arch: Arch, opcode: Opcode) -> Encoding:
    """The base encoding of an opcode, or the literal one of opcodes that always carry a literal."""
    return _layouts(arch.tables)[opcode.table, opcode.name]


@functools.cache
def _layouts(family: str) -> Mapping[tuple[str, str], Encoding]:
    table = encodings(family).values()
    literals = [e for e in table if e.name == f"{e.base}_LIT"]
    bases = [e for e in table if e.name == e.base]
    return {(m.table, m.name): e for e in (*literals, *bases) for m in e.members}  # bases come last and count


class _Numbers:
    """Hands out register numbers: vectors from v0, scalars from s0, wide ones aligned."""

    def __init__(self, arch: Arch) -> None:
        self.vector = self.scalar = 0

    def next_vector(self, bits: int) -> int:
        count = max(1, -(-bits // 32))
        first = self.vector + (self.vector & 1 if count > 1 else 0)
        self.vector = first + count
        return first

    def next_scalar(self, bits: int) -> int:
        count = max(1, -(-bits // 32))
        step = min(4, 1 << (count - 1).bit_length())
        first = -(-self.scalar // step) * step
        self.scalar = first + count
        return first


def _operand(arch: Arch, layout: Encoding, spec: OperandSpec, numbers: _Numbers) -> int:
    """The field value of one operand."""
    name, optype = spec.field, spec.optype
    layout_field = layout.by_name.get(name)
    if layout_field is None:
        return 0
    if name == "saddr":
        return _NO_SADDR if arch.null_register is None else arch.null_register
    if name == "soffset":
        return _INLINE_ZERO if arch.null_register is None else arch.null_register
    if spec.fmt == _MASK_FMT or (name == "sdst" and layout.base.startswith("VOP3")):
        return VCC_LO
    if optype == "OPR_SSRC_BARRIER_ID":
        return _INLINE_MINUS_ONE  # the barrier of the workgroup
    if optype == "OPR_SENDMSG_RTN":
        return _REAL_TIME
    if optype.startswith(("OPR_SIMM", "OPR_LABEL", "OPR_ATTR")):
        return 0
    return _register(layout_field, spec, numbers)


def _register(layout_field: Field, spec: OperandSpec, numbers: _Numbers) -> int:
    kind = layout_field.kind
    if kind == "sbase":
        return numbers.next_scalar(max(spec.bits, 64)) >> 1
    if kind == "srsrc":
        return numbers.next_scalar(max(spec.bits, 128)) >> 2
    if spec.field in ("rsrc", "samp"):
        return numbers.next_scalar(max(spec.bits, 128))
    if spec.optype.startswith(_SCALAR_OPTYPES) or kind in ("ssrc", "sgpr"):
        return numbers.next_scalar(spec.bits)
    if kind == "src":
        return VGPR_BASE + numbers.next_vector(spec.bits)
    return numbers.next_vector(spec.bits) if kind == "vgpr" else 0


def _fixed(arch: Arch, layout: Encoding, opcode: Opcode) -> dict[str, int]:
    """Fields that are set whatever the operands are."""
    values: dict[str, int] = {}
    if layout.name.endswith("_LIT"):
        values["literal"] = _LITERAL_VALUE
    if layout.base == "VOP3P" and "MIX" not in opcode.name:
        values |= {"opsel_hi": 3, "opsel_hi2": 1}  # packed operands use both halves
    if opcode.name.startswith("TBUFFER") and layout.base == "VBUFFER":
        values["format"] = _DEFAULTS["MTBUF"]["format"]
    if opcode.name == "IMAGE_ATOMIC_CMPSWAP":
        values["dmask"] = 3  # a new and an expected value
    if layout.base == "SMEM" and "imm" in layout.field_names:
        values |= {"imm": 1, "soffset": 0}
    if opcode.name.startswith(("S_GETREG", "S_SETREG")):
        values["simm16"] = _MODE_REGISTER
    if opcode.name in ("S_SENDMSG", "S_SENDMSGHALT"):
        values["simm16"] = _DEALLOC_VGPRS if arch.wave32 else _INTERRUPT
    return values


def _dual(arch: Arch, opcode: Opcode) -> Instruction:
    """A dual-issue pair: both halves the same, or a move first. The sources of the halves lie in different banks."""
    table = dual_opcodes(arch.tables)
    move = next(number for number, (x, _) in table.items() if x.name == _MOVE)
    opx = opcode.value if opcode.value < _FIRST_HALVES else move
    literal = "K_" in opcode.name
    registers = {"vdstx": 0, "vdsty": 0, "vsrcx1": 4, "vsrcy1": 5}
    sources = {"srcx0": VGPR_BASE + 2, "srcy0": VGPR_BASE + 3}
    name = "VOPD_LIT" if literal else "VOPD"
    values = {"opx": opx, "opy": opcode.value, **registers, **sources}
    if literal:
        values["literal"] = _LITERAL_VALUE
    return build(arch, opcode, name, **values)
