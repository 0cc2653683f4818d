"""Disassembly in LLVM's AMDGPU syntax: mnemonics, operand order and modifiers of every format."""

from __future__ import annotations

import functools
from dataclasses import replace

from mockgpu.isa.decoded import Decoded, Dpp8, Dpp16
from mockgpu.isa.disasm_memory import memory_text
from mockgpu.isa.disasm_operands import is_float, literal_text, modified, operand_text, scalar_text
from mockgpu.isa.disasm_scalar import immediate_text
from mockgpu.isa.opcode import opcodes
from mockgpu.isa.operands import Operand
from mockgpu.isa.registers import VCC_LO, Kind

_SCALAR_FORMATS = ("SOP1", "SOP2", "SOPC", "SOPK", "SOPP")
_VECTOR_FORMATS = ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P", "VOP3PX2", "VINTERP")
_SHORT = ("VOP1", "VOP2", "VOPC")
_TRUE16_FORMATS = ("VOP1", "VOP2", "VOPC", "VOP3", "VINTERP")
_BARE = frozenset({"v_swap_b32", "v_accvgpr_mov_b32", "v_nop", "v_pipeflush", "v_readfirstlane_b32", "v_clrexcp"})
_OMOD = ("", " mul:2", " mul:4", " div:2")
_HALVES_ONLY = frozenset({"v_cndmask_b16"})  # the register halves say it all
_SELECTING = ("v_cvt_scalef32", "v_cvt_sr_")  # selectors choose bytes or halves of 32-bit operands
_WIDE_MATRIX = ("v_wmma_f32", "v_wmma_i32", "v_swmmac")


def disassemble(inst: Decoded, pc: int | None = None, wave_size: int | None = None) -> str:
    """Assembly text of an instruction.

    ``pc`` is its byte address; with it branches show the target's address, without it their raw offset. Lane-mask
    operands have the width of ``wave_size`` lanes, by default the narrowest wave of the architecture.
    """
    lanes = inst.arch.wave_sizes[0] if wave_size is None else wave_size
    if inst.opcode_y is not None:
        return _dual(inst, lanes)
    if inst.format in _SCALAR_FORMATS:
        return _scalar(inst, pc, lanes)
    if inst.format in _VECTOR_FORMATS:
        return _vector(inst, lanes)
    return memory_text(inst, lanes)


def _join(mnemonic: str, operands: list[str], rest: str = "") -> str:
    return f"{mnemonic} {', '.join(operands)}{rest}" if operands else mnemonic + rest


# --- scalar formats ---------------------------------------------------------------------------------------------------


def _scalar(inst: Decoded, pc: int | None, lanes: int) -> str:
    mnemonic = inst.mnemonic
    texts = []
    for view in inst.operands:
        if view.code < 0:
            texts.append(immediate_text(inst, view.optype, view.index, pc))
        else:
            texts.append(operand_text(inst.arch, _at_least_dword(inst.format, view), lanes))
    if mnemonic in ("s_setreg_b32",):
        texts.reverse()
    if mnemonic == "s_setreg_imm32_b32":
        texts.append(literal_text(inst.literal or 0, 32, "FMT_NUM_B32"))
    if mnemonic == "s_endpgm" and texts == ["0"]:
        texts = []
    return _join(mnemonic, _with_constant(inst, texts))


def _at_least_dword(form: str, view: Operand) -> Operand:
    """Most scalar constants are shown as 32 bits even where the opcode uses fewer."""
    if view.bits >= 32 or view.kind not in (Kind.LITERAL, Kind.FLOAT):
        return view
    if view.fmt == "FMT_NUM_F16" and form == "SOP2":
        return view
    if view.fmt == "FMT_NUM_F16" and form == "SOPC":
        return replace(view, fmt="FMT_NUM_B16")
    return replace(view, bits=32, fmt="FMT_NUM_B32")


def _with_constant(inst: Decoded, texts: list[str]) -> list[str]:
    """Place the constant of multiply-add opcodes: K comes second of three in fmamk, last in fmaak."""
    mnemonic = inst.mnemonic
    if "fmamk" not in mnemonic and "fmaak" not in mnemonic and "madmk" not in mnemonic and "madak" not in mnemonic:
        return texts
    constant = f"{inst.literal or 0:#x}"
    return [*texts[:2], constant, *texts[2:]] if "mk_" in mnemonic else [*texts, constant]


# --- vector formats ---------------------------------------------------------------------------------------------------


@functools.cache
def _has_long_form(family: str, name: str) -> bool:
    """Whether a short-format opcode exists as VOP3 too, so that assembly names which form is meant."""
    long_name = name.removesuffix("_E32") + "_E64"
    table = opcodes(family)
    return ("VOP3Op", long_name) in table or ("VOP3SDOp", name.removesuffix("_E32")) in table


# LLVM's names where the tables keep an older one.
RENAMED = {
    "v_mad_mix_f32": "v_fma_mix_f32",
    "v_mad_mixlo_f16": "v_fma_mixlo_f16",
    "v_mad_mixhi_f16": "v_fma_mixhi_f16",
    "v_accvgpr_read": "v_accvgpr_read_b32",
    "v_accvgpr_write": "v_accvgpr_write_b32",
}


def _vector_mnemonic(inst: Decoded) -> str:
    base, encoding = inst.opcode.mnemonic, inst.encoding
    if base in _BARE:
        return base
    if inst.format in _SHORT:
        if encoding.endswith(("_DPP16", "_DPP8")):
            return base if inst.format == "VOPC" else f"{base}_dpp"
        if "_SDWA" in encoding:
            return f"{base}_sdwa"
        return f"{base}_e32" if _has_long_form(inst.opcode.family, inst.opcode.name) else base
    if encoding.endswith(("_DPP16", "_DPP8")):
        return f"{base}_e64_dpp"
    if _has_short_form(inst.opcode.family, inst.opcode.name):
        return f"{base}_e64"
    return RENAMED.get(base, base)


@functools.cache
def _has_short_form(family: str, name: str) -> bool:
    short = name.removesuffix("_E64") + "_E32"
    return any((table, short) in opcodes(family) for table in ("VOP1Op", "VOP2Op", "VOPCOp"))


def _vector(inst: Decoded, lanes: int) -> str:
    views = [view for view in inst.operands if view.code >= 0]
    texts = [_vector_operand(inst, view, lanes) for view in views]
    texts = _with_constant(inst, _with_implicit(inst, texts, lanes))
    return _join(_vector_mnemonic(inst), texts, _vector_modifiers(inst, views))


def _vector_operand(inst: Decoded, view: Operand, lanes: int) -> str:
    true16 = inst.arch.true16 and view.bits == 16 and inst.format in _TRUE16_FORMATS
    if view.kind is Kind.FLOAT and "ldexp" in inst.mnemonic:  # the exponent is an integer, shown as a float
        view = replace(view, fmt="FMT_NUM_F16")
    text = operand_text(inst.arch, view, lanes, true16)
    if inst.format in ("VOP3P", "VOP3PX2"):
        return _mix_modified(inst, text, view)
    if view.sext:
        text = f"sext({text})"
    return modified(text, view, view.neg, view.abs) if view.is_src and _takes_sign(view) else text


def _takes_sign(view: Operand) -> bool:
    """Whether neg and abs act on a source: floats, and 32-bit selects that move floats."""
    packed_sdwa = view.sel is not None and "PK" in view.fmt
    return not packed_sdwa and (is_float(view.fmt) or view.bits == 32)


def _mix_modified(inst: Decoded, text: str, view: Operand) -> str:
    """Mixed-precision multiply-adds use the packed fields as plain float modifiers."""
    if "_mix" not in inst.mnemonic or not view.is_src or view.field == "vdst":
        return text
    return modified(text, view, view.neg, view.neg_hi)


def _with_implicit(inst: Decoded, texts: list[str], lanes: int) -> list[str]:
    """Show VCC where the short formats use it without a field."""
    if inst.format not in ("VOP2", "VOPC") or inst.encoding.endswith("_SDST"):
        return texts
    implicit, vcc = inst.opcode.implicit, scalar_text(inst.arch, VCC_LO, lanes // 32)
    if inst.format == "VOPC":
        shown = implicit.writes_vcc or inst.arch.family == "cdna"
        return [vcc, *texts] if shown else texts
    if implicit.writes_vcc:
        texts = [texts[0], vcc, *texts[1:]]
    return [*texts, vcc] if implicit.reads_vcc else texts


def _bits(value: int, count: int) -> str:
    return "[" + ",".join(str(value >> n & 1) for n in range(count)) + "]"


def _vector_modifiers(inst: Decoded, views: list[Operand]) -> str:
    sources = sum(view.field in ("src0", "src1", "src2") for view in views)
    packed = inst.format in ("VOP3P", "VOP3PX2")
    text = _packed_modifiers(inst, sources) if packed else _select_modifiers(inst, sources)
    if inst.truth_table:
        text = f" bitop3:{inst.truth_table:#x}{text}"
    if inst.clamp:
        text = " clamp" + text if inst.format == "VINTERP" else text + " clamp"
    text += _OMOD[inst.omod]
    if inst.format == "VINTERP":
        text += f" wait_exp:{inst.fields['waitexp']}"
    return text + _sdwa_text(inst) + _dpp_text(inst)


def _select_modifiers(inst: Decoded, sources: int) -> str:
    opsel = inst.fields.get("opsel", 0)
    selects = inst.mnemonic.startswith(_SELECTING) or any(view.bits == 16 for view in inst.operands)
    if not opsel or inst.mnemonic in _HALVES_ONLY or "_legacy_" in inst.mnemonic or not selects:
        return ""
    sources += inst.opcode.implicit.reads_destination  # the accumulator counts as the last source
    plain = inst.mnemonic.startswith("v_cmpx") or (inst.mnemonic.startswith("v_cmp") and inst.dpp is not None)
    result = [] if plain else [opsel >> 3]
    bits = [*(opsel >> n & 1 for n in range(sources)), *result]
    return f" op_sel:[{','.join(map(str, bits))}]" if any(bits) else ""


def _packed_modifiers(inst: Decoded, sources: int) -> str:
    fields, mnemonic = inst.fields, inst.mnemonic
    if "cbsz" in fields:
        return _matrix_modifiers(inst)
    if mnemonic.startswith("v_accvgpr"):  # whole registers: the bits act on nothing
        return ""
    mix = "_mix" in mnemonic
    high = fields["opsel_hi"] | fields["opsel_hi2"] << 2
    full = (1 << sources) - 1
    parts = []
    matrix = mnemonic.startswith(_WIDE_MATRIX)
    if fields["opsel"] & full:
        parts.append(f" op_sel:{_bits(fields['opsel'], sources)}")
    if not matrix and high & full != (0 if mix else full):
        parts.append(f" op_sel_hi:{_bits(high, sources)}")
    if not mix and fields["neg"] & full:
        parts.append(f" neg_lo:{_bits(fields['neg'], sources)}")
    if not mix and fields["neg_hi"] & full:
        parts.append(f" neg_hi:{_bits(fields['neg_hi'], sources)}")
    return "".join(parts)


def _matrix_modifiers(inst: Decoded) -> str:
    fields = inst.fields
    shown: tuple[str, ...] = ("cbsz", "abid")
    parts = []
    if inst.format == "VOP3PX2":  # the selectors choose the scale bytes; bit 0 of ABID enables scaling
        shown = ("cbsz",)
        parts = [f" op_sel:{_bits(fields['opsel'] & 3, 3)}"] if fields["opsel"] & 3 else []
        parts.append(f" op_sel_hi:{_bits(fields['opsel_hi'], 3)}")
    parts += [f" {name}:{fields[name]}" for name in shown if fields[name]]
    if not fields["blgp"]:
        return "".join(parts)
    negates = inst.mnemonic.startswith("v_mfma_f64")  # double-precision forms negate with these bits
    parts.append(f" neg:{_bits(fields['blgp'], 3)}" if negates else f" blgp:{fields['blgp']}")
    return "".join(parts)


SDWA_SEL = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD", "")
SDWA_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE", "")


def _sdwa_text(inst: Decoded) -> str:
    text = ""
    wide = any(view.is_dst and view.bits == 64 for view in inst.operands)
    if inst.sdwa is not None and not wide:
        text = f" dst_sel:{SDWA_SEL[inst.sdwa.dst_sel]} dst_unused:{SDWA_UNUSED[inst.sdwa.dst_unused]}"
    for view in inst.operands:
        if view.sel is not None:
            text += f" src{0 if view.field == 'src0' else 1}_sel:{SDWA_SEL[view.sel]}"
    return text


DPP_ROWS = ((0x100, "row_shl"), (0x110, "row_shr"), (0x120, "row_ror"))
DPP_NAMED = {0x130: "wave_shl:1", 0x134: "wave_rol:1", 0x138: "wave_shr:1", 0x13C: "wave_ror:1"}
DPP_NAMED |= {0x140: "row_mirror", 0x141: "row_half_mirror", 0x142: "row_bcast:15", 0x143: "row_bcast:31"}


def dpp_control_text(ctrl: int, family: str) -> str:
    """The name of a 9-bit DPP control (manual section "DPP")."""
    if ctrl < 0x100:
        return f"quad_perm:[{','.join(str(ctrl >> 2 * n & 3) for n in range(4))}]"
    for base, name in DPP_ROWS:
        if base < ctrl <= base + 15:
            return f"{name}:{ctrl - base}"
    if ctrl in DPP_NAMED:
        return DPP_NAMED[ctrl]
    if ctrl & ~0xF == 0x150:
        return f"{'row_newbcast' if family == 'cdna' else 'row_share'}:{ctrl & 0xF}"
    if ctrl & ~0xF == 0x160:
        return f"row_xmask:{ctrl & 0xF}"
    return "/* Invalid dpp_ctrl value */"


def _dpp_text(inst: Decoded) -> str:
    dpp = inst.dpp
    if isinstance(dpp, Dpp8):
        lanes = ",".join(map(str, dpp.lanes))
        return f" dpp8:[{lanes}]" + (" fi:1" if dpp.fetch_inactive else "")
    if not isinstance(dpp, Dpp16):
        return ""
    text = f" {dpp_control_text(dpp.ctrl, inst.arch.family)} row_mask:{dpp.row_mask:#x} bank_mask:{dpp.bank_mask:#x}"
    return text + (" bound_ctrl:1" if dpp.bound_ctrl else "") + (" fi:1" if dpp.fetch_inactive else "")


# --- dual issue -------------------------------------------------------------------------------------------------------


def _dual(inst: Decoded, lanes: int) -> str:
    assert inst.opcode_y is not None
    halves = []
    for opcode, order in ((inst.opcode, ("vdstx", "srcx0", "vsrcx1")), (inst.opcode_y, ("vdsty", "srcy0", "vsrcy1"))):
        views = {view.field: view for view in inst.operands}
        used = [views[name] for name in order if opcode.operand(name) is not None]
        texts = [operand_text(inst.arch, view, lanes) for view in used]
        constant = f"{inst.literal or 0:#x}"
        if "fmamk" in opcode.mnemonic:
            texts.insert(2, constant)
        if "fmaak" in opcode.mnemonic:
            texts.append(constant)
        halves.append(_join(opcode.mnemonic, texts))
    return " :: ".join(halves)
