"""Text of memory, export and image instructions."""

from __future__ import annotations

from mockgpu.isa.decoded import Decoded
from mockgpu.isa.disasm_image import image_text
from mockgpu.isa.disasm_operands import operand_text, register_range, scalar_text
from mockgpu.isa.disasm_scalar import small_or_hex
from mockgpu.isa.operands import Operand, returns_old_value
from mockgpu.isa.registers import Kind

_CACHE_BITS = {"rdna3": ("glc", "slc", "dlc"), "cdna": ("sc0", "nt", "sc1")}
SIGNED_OFFSETS = frozenset({"GLOBAL", "SCRATCH", "VFLAT", "VGLOBAL", "VSCRATCH"})
_SEGMENTS = frozenset({"FLAT", "GLOBAL", "SCRATCH", "VFLAT", "VGLOBAL", "VSCRATCH"})
_IMAGES = frozenset({"MIMG", "VIMAGE", "VSAMPLE"})
TWO_OFFSETS = ("2addr", "read2", "write2", "wrxchg2")
CHANNELS = "xyzw"
EXPORT_TARGETS = {
    **{n: f"mrt{n}" for n in range(8)},
    8: "mrtz",
    **{12 + n: f"pos{n}" for n in range(5)},
    20: "prim",
    21: "dual_src_blend0",
    22: "dual_src_blend1",
}
_BUFFER_FORMAT_FAMILIES = (
    ("8", "UNORM SNORM USCALED SSCALED UINT SINT"),
    ("16", "UNORM SNORM USCALED SSCALED UINT SINT FLOAT"),
    ("8_8", "UNORM SNORM USCALED SSCALED UINT SINT"),
    ("32", "UINT SINT FLOAT"),
    ("16_16", "UNORM SNORM USCALED SSCALED UINT SINT FLOAT"),
    ("10_11_11", "FLOAT"),
    ("11_11_10", "FLOAT"),
    ("10_10_10_2", "UNORM SNORM UINT SINT"),
    ("2_10_10_10", "UNORM SNORM USCALED SSCALED UINT SINT"),
    ("8_8_8_8", "UNORM SNORM USCALED SSCALED UINT SINT"),
    ("32_32", "UINT SINT FLOAT"),
    ("16_16_16_16", "UNORM SNORM USCALED SSCALED UINT SINT FLOAT"),
    ("32_32_32", "UINT SINT FLOAT"),
    ("32_32_32_32", "UINT SINT FLOAT"),
)
BUFFER_FORMATS = (
    "INVALID",
    *(f"{channels}_{kind}" for channels, kinds in _BUFFER_FORMAT_FAMILIES for kind in kinds.split()),
)
"""Names of the unified buffer formats of RDNA3 and RDNA4 by number (manual table "Buffer Image Format")."""


def memory_text(inst: Decoded, lanes: int) -> str:
    """Assembly text of a memory, export or image instruction."""
    form = inst.format
    if form == "DS":
        return _lds(inst, lanes)
    if form in _SEGMENTS:
        return _segment(inst, lanes)
    if form == "SMEM":
        return _scalar_memory(inst, lanes)
    if form in ("MUBUF", "MTBUF", "VBUFFER"):
        return _buffer(inst, lanes)
    if form in _IMAGES:
        return image_text(inst, cache_text(inst))
    if form in ("EXP", "VEXPORT"):
        return _export(inst)
    return _parameter(inst)


def sign_extend(value: int, bits: int) -> int:
    """A two's complement field as an integer."""
    return value - (1 << bits) if value >> bits - 1 & 1 else value


def cache_text(inst: Decoded) -> str:
    """Cache policy modifiers."""
    if inst.arch.family == "rdna4":
        return _temporal_text(inst)
    names = _CACHE_BITS[inst.arch.family]
    return "".join(f" {name}" for name in names if inst.fields.get(name, 0))


LOAD_HINTS = ("", "NT", "HT", "LU", "NT_RT", "RT_NT", "NT_HT", "")
STORE_HINTS = ("", "NT", "HT", "WB", "NT_RT", "RT_NT", "NT_HT", "NT_WB")
ATOMIC_HINTS = ("", "RETURN", "NT", "NT_RETURN", "CASCADE_RT", "CASCADE_RT", "CASCADE_NT", "CASCADE_NT")
SCOPES = ("", "SCOPE_SE", "SCOPE_DEV", "SCOPE_SYS")


def _temporal_text(inst: Decoded) -> str:
    hint, scope = inst.fields.get("th", 0), inst.fields.get("scope", 0)
    text = ""
    if hint:
        text = f" th:{hint_name(inst.mnemonic, hint, scope)}"
    text += f" scope:{SCOPES[scope]}" if scope else ""
    return text + (" nv" if inst.fields.get("nv", 0) else "")


def hint_name(mnemonic: str, hint: int, scope: int) -> str:
    kind, table = "LOAD", LOAD_HINTS
    if "atomic" in mnemonic:
        kind, table = "ATOMIC", ATOMIC_HINTS
    elif "store" in mnemonic:
        kind, table = "STORE", STORE_HINTS
    if hint == 3 and scope == 3 and kind != "ATOMIC":
        return f"TH_{kind}_BYPASS"
    if hint >= 4 and scope < 2 and kind == "ATOMIC":  # cascading needs a scope beyond the shader engine
        return f"TH_ATOMIC_{hint:#x}"
    return f"TH_{kind}_{table[hint]}" if table[hint] else f"{hint:#x}"


def _join(mnemonic: str, operands: list[str], rest: str = "") -> str:
    return f"{mnemonic} {', '.join(operands)}{rest}" if operands else mnemonic + rest


def _by_field(inst: Decoded) -> dict[str, Operand]:
    return {view.field: view for view in inst.operands}


def _texts(inst: Decoded, lanes: int, *names: str) -> list[str]:
    views = _by_field(inst)
    return [operand_text(inst.arch, views[name], lanes) for name in names if name in views]


# --- local data share -------------------------------------------------------------------------------------------------


def _lds(inst: Decoded, lanes: int) -> str:
    fields, mnemonic = inst.fields, inst.mnemonic
    texts = _texts(inst, lanes, "vdst", "addr", "data0", "data1")
    rest = ""
    if any(part in mnemonic for part in TWO_OFFSETS):
        rest += "".join(f" offset{n}:{fields[f'offset{n}']}" for n in (0, 1) if fields[f"offset{n}"])
    else:
        offset = fields["offset0"] | fields["offset1"] << 8
        rest += _swizzle(offset) if "swizzle" in mnemonic else f" offset:{offset}" if offset else ""
    if fields.get("gds", 0) and (inst.arch.family != "cdna" or "_gws_" in mnemonic):
        rest += " gds"
    return _join(mnemonic, texts, rest)


def _swizzle(offset: int) -> str:
    """The pattern of ds_swizzle (manual section "DS_SWIZZLE_B32")."""
    if not offset:
        return ""
    if offset & 0xFF00 == 0x8000:
        return f" offset:swizzle(QUAD_PERM,{','.join(str(offset >> 2 * n & 3) for n in range(4))})"
    if offset >= 0xE000:
        return f" offset:swizzle(FFT,{offset & 0x1F})"
    if offset >= 0xC000:
        return f" offset:swizzle(ROTATE,{offset >> 10 & 1},{offset >> 5 & 0x1F})"
    if offset & 0x8000:
        return f" offset:{offset}"
    and_mask, or_mask, xor_mask = offset & 0x1F, offset >> 5 & 0x1F, offset >> 10 & 0x1F
    if and_mask == 0x1F and not or_mask and xor_mask and xor_mask & xor_mask - 1 == 0:
        return f" offset:swizzle(SWAP,{xor_mask})"
    if and_mask == 0x1F and not or_mask and xor_mask and xor_mask & xor_mask + 1 == 0:
        return f" offset:swizzle(REVERSE,{xor_mask + 1})"
    group = 0x20 - and_mask
    if not xor_mask and group > 1 and group & group - 1 == 0 and or_mask < group:
        return f" offset:swizzle(BROADCAST,{group},{or_mask})"
    return f' offset:swizzle(BITMASK_PERM,"{_bitmask(and_mask, or_mask, xor_mask)}")'


def _bitmask(and_mask: int, or_mask: int, xor_mask: int) -> str:
    text = ""
    for bit in (16, 8, 4, 2, 1):
        low = or_mask & bit ^ xor_mask & bit
        high = (and_mask & bit | or_mask & bit) ^ xor_mask & bit
        text += ("p" if high else "0") if not low else ("1" if high else "i")
    return text


# --- flat, global and scratch -----------------------------------------------------------------------------------------


def _segment(inst: Decoded, lanes: int) -> str:
    fields, form = inst.fields, inst.format
    views = _by_field(inst)
    if not views:
        return inst.mnemonic + cache_text(inst)
    names = [view.field for view in inst.operands]
    texts = []
    if "vdst" in names and views["vdst"].is_dst:
        texts += _texts(inst, lanes, "vdst")
    address = "vaddr" if "vaddr" in fields else "addr"
    if inst.opcode.operand(address) is not None:
        texts += _texts(inst, lanes, address) or ["off"]
    texts += _texts(inst, lanes, "data", "vsrc")
    if form not in ("FLAT", "VFLAT") and inst.opcode.operand("saddr") is not None:
        saddr = views["saddr"]
        texts.append("off" if saddr.kind is Kind.NULL else operand_text(inst.arch, saddr, lanes))
    return _join(inst.mnemonic, texts, _offset_text(inst) + cache_text(inst))


def _offset_text(inst: Decoded) -> str:
    name = "ioffset" if "ioffset" in inst.fields else "offset"
    value, f = inst.fields[name], inst.layout.by_name[name]
    if inst.format in SIGNED_OFFSETS:
        value = sign_extend(value, f.hi - f.lo + 1)
    return f" offset:{value}" if value else ""


# --- scalar memory ----------------------------------------------------------------------------------------------------


def _scalar_memory(inst: Decoded, lanes: int) -> str:
    fields = inst.fields
    if not inst.operands:
        return inst.mnemonic
    if "prefetch" in inst.mnemonic:
        return _prefetch(inst, lanes)
    texts = [small_or_hex(fields["sdata"])] if "probe" in inst.mnemonic else _texts(inst, lanes, "sdata")
    texts += _texts(inst, lanes, "sbase")
    rest = ""
    if inst.opcode.operand("sbase") is not None:
        views = _by_field(inst)
        name = "ioffset" if "ioffset" in fields else "offset"
        offset = sign_extend(fields[name], inst.layout.by_name[name].hi - 31)
        has_offset = bool(fields.get("imm", 1))
        if "soffset" in views:
            texts.append(operand_text(inst.arch, views["soffset"], lanes))
            shown = has_offset and (offset or inst.arch.family != "rdna3")
            rest = f" offset:{_signed_hex(offset)}" if shown else ""
        elif offset or inst.arch.family != "rdna3":
            texts.append(_signed_hex(offset))
        else:
            texts.append("null")
    cache = "" if "probe" in inst.mnemonic and inst.arch.family == "rdna4" else cache_text(inst)
    return _join(inst.mnemonic, texts, rest + cache + _scalar_cache(inst))


def _scalar_cache(inst: Decoded) -> str:
    shown = inst.arch.family == "cdna" and any(word in inst.mnemonic for word in ("load", "store", "atomic"))
    return " glc" if shown and inst.fields["glc"] else ""


def _prefetch(inst: Decoded, lanes: int) -> str:
    """Prefetches put the offset before the registers, and a line count where loads have data."""
    offset = _signed_hex(sign_extend(inst.fields["ioffset"], 24))
    register = _texts(inst, lanes, "soffset") or ["null"]
    return _join(inst.mnemonic, [*_texts(inst, lanes, "sbase"), offset, *register, small_or_hex(inst.fields["sdata"])])


def _signed_hex(value: int) -> str:
    return f"-{-value:#x}" if value < 0 else f"{value:#x}"


# --- buffers ----------------------------------------------------------------------------------------------------------


def _buffer(inst: Decoded, lanes: int) -> str:
    fields = inst.fields
    views = _by_field(inst)
    if not views:
        return inst.mnemonic + (cache_text(inst) if inst.arch.family == "cdna" else "")
    texts = []
    if "vdata" in views:
        extra = fields.get("tfe", 0)
        data = views["vdata"]
        letter = "a" if data.kind is Kind.AGPR else "v"
        texts.append(register_range(letter, data.index, data.regs + extra))
    if "vaddr" in fields and inst.opcode.operands:
        texts += _texts(inst, lanes, "vaddr") or ["off"]
        rsrc = "rsrc" if "rsrc" in fields else "srsrc"
        code = fields[rsrc] << 2 if rsrc == "srsrc" else fields[rsrc]
        texts.append(scalar_text(inst.arch, code, 4))
        texts += _texts(inst, lanes, "soffset")
    rest = _buffer_format(inst)
    rest += " idxen" if fields["idxen"] else ""
    rest += " offen" if fields["offen"] else ""
    return _join(inst.mnemonic, texts, rest + _offset_text(inst) + cache_text(inst) + _buffer_flags(inst))


def _buffer_format(inst: Decoded) -> str:
    if not inst.mnemonic.startswith("tbuffer"):
        return ""
    if "dfmt" in inst.fields:
        return _legacy_format(inst.fields["dfmt"], inst.fields["nfmt"])
    number = inst.fields["format"]
    if number == 1:
        return ""
    name = f"[BUF_FMT_{BUFFER_FORMATS[number]}]" if number < len(BUFFER_FORMATS) else str(number)
    return f" format:{name}"


DATA_FORMATS = (
    *("INVALID", "8", "16", "8_8", "32", "16_16", "10_11_11", "11_11_10", "10_10_10_2", "2_10_10_10", "8_8_8_8"),
    *("32_32", "16_16_16_16", "32_32_32", "32_32_32_32", "RESERVED_15"),
)
NUMBER_FORMATS = ("UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "RESERVED_6", "FLOAT")


def _legacy_format(data: int, number: int) -> str:
    """Separate data and number formats of CDNA; the defaults 8 and UNORM are left out."""
    shown = [f"BUF_DATA_FORMAT_{DATA_FORMATS[data]}"] if data != 1 else []
    shown += [f"BUF_NUM_FORMAT_{NUMBER_FORMATS[number]}"] if number else []
    return f" format:[{','.join(shown)}]" if shown else ""


def _buffer_flags(inst: Decoded) -> str:
    return "".join(f" {name}" for name in ("tfe", "lds") if inst.fields.get(name, 0))


# --- exports and parameters -------------------------------------------------------------------------------------------


def _export(inst: Decoded) -> str:
    fields = inst.fields
    target = EXPORT_TARGETS.get(fields["target"], f"invalid_target_{fields['target']}")
    values = [f"v{fields[f'vsrc{n}']}" if fields["en"] >> n & 1 else "off" for n in range(4)]
    name = "export" if inst.arch.family == "rdna4" else "exp"
    flags = (" done" if fields["done"] else "") + (" row_en" if fields["row"] else "")
    return f"{name} {target} {', '.join(values)}{flags}"


def _parameter(inst: Decoded) -> str:
    fields = inst.fields
    texts = [f"v{fields['vdst']}"]
    if "param" in inst.mnemonic:
        texts.append(f"attr{fields['attr']}.{CHANNELS[fields['attr_chan']]}")
    if "wait_vdst" in fields:
        return _join(inst.mnemonic, texts, f" wait_vdst:{fields['wait_vdst']}")
    waits = f" wait_va_vdst:{fields['wait_va_vdst']} wait_vm_vsrc:{fields['wait_vm_vsrc']}"
    return _join(inst.mnemonic, texts, waits)


__all__ = ["BUFFER_FORMATS", "cache_text", "memory_text", "returns_old_value", "sign_extend"]
