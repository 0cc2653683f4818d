"""Text of the immediates of scalar instructions: wait counts, messages, hardware registers, delays.

Bit layouts: SOPP and SOPK chapters of the ISA manuals; symbolic names as LLVM's assembler knows them.
"""

from __future__ import annotations

from mockgpu.isa.decoded import Decoded
from mockgpu.isa.encoding import table_module

_HEX_IMMEDIATES = frozenset(
    {
        "s_set_inst_prefetch_distance",
        "s_clause",
        "s_wait_event",
        "s_round_mode",
        "s_ttracedata_imm",
        "s_setvskip",
        "s_wait_loadcnt",
        "s_wait_storecnt",
        "s_wait_samplecnt",
        "s_wait_bvhcnt",
        "s_wait_expcnt",
        "s_wait_dscnt",
        "s_wait_kmcnt",
        "s_wait_loadcnt_dscnt",
        "s_wait_storecnt_dscnt",
    }
)
_DECIMAL_BELOW = 65  # LLVM shows small immediates in decimal, others in hexadecimal
DELAY_IDS = (
    *("VALU_DEP_1", "VALU_DEP_2", "VALU_DEP_3", "VALU_DEP_4", "TRANS32_DEP_1", "TRANS32_DEP_2", "TRANS32_DEP_3"),
    *("FMA_ACCUM_CYCLE_1", "SALU_CYCLE_1", "SALU_CYCLE_2", "SALU_CYCLE_3"),
)
DELAY_SKIPS = ("NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4")
MESSAGES = {
    "rdna3": {
        1: "MSG_INTERRUPT",
        2: "MSG_HS_TESSFACTOR",
        3: "MSG_DEALLOC_VGPRS",
        5: "MSG_STALL_WAVE_GEN",
        6: "MSG_HALT_WAVES",
        9: "MSG_GS_ALLOC_REQ",
    },
    "cdna": {
        1: "MSG_INTERRUPT",
        4: "MSG_SAVEWAVE",
        5: "MSG_STALL_WAVE_GEN",
        6: "MSG_HALT_WAVES",
        7: "MSG_ORDERED_PS_DONE",
        8: "MSG_EARLY_PRIM_DEALLOC",
        9: "MSG_GS_ALLOC_REQ",
        10: "MSG_GET_DOORBELL",
    },
}
MESSAGES["rdna4"] = {n: name for n, name in MESSAGES["rdna3"].items() if name != "MSG_HALT_WAVES"}
RETURN_MESSAGES = (
    *("MSG_RTN_GET_DOORBELL", "MSG_RTN_GET_DDID", "MSG_RTN_GET_TMA", "MSG_RTN_GET_REALTIME", "MSG_RTN_SAVE_WAVE"),
    *("MSG_RTN_GET_TBA", "MSG_RTN_GET_TBA_TO_PC", "MSG_RTN_GET_SE_AID_ID"),
)
# (name, shift, width, default) of the fields of s_waitcnt_depctr and s_wait_alu
DEPCTR = (
    ("hold_cnt", 7, 1),
    ("sa_sdst", 0, 1),
    ("va_vdst", 12, 4),
    ("va_sdst", 9, 3),
    ("va_ssrc", 8, 1),
    ("va_vcc", 1, 1),
    ("vm_vsrc", 2, 3),
)
DEPCTR_UNUSED = 0x60
# (name, [(shift, width), ...] from low to high) of the fields of s_waitcnt
WAITCNT = {
    "rdna3": (("vmcnt", ((10, 6),)), ("expcnt", ((0, 3),)), ("lgkmcnt", ((4, 6),))),
    "cdna": (("vmcnt", ((0, 4), (14, 2))), ("expcnt", ((4, 3),)), ("lgkmcnt", ((8, 4),))),
}
WAITCNT["rdna4"] = WAITCNT["rdna3"]


def small_or_hex(value: int) -> str:
    """An immediate the way LLVM shows it: decimal when it is small."""
    return str(value) if value < _DECIMAL_BELOW else f"{value:#x}"


def wait_counts(family: str, value: int) -> dict[str, int]:
    """The counts of s_waitcnt by name."""
    counts = {}
    for name, pieces in WAITCNT[family]:
        count = shift = 0
        for low, width in pieces:
            count |= (value >> low & (1 << width) - 1) << shift
            shift += width
        counts[name] = count
    return counts


def _waitcnt(family: str, value: int) -> str:
    counts, limits = wait_counts(family, value), wait_counts(family, 0xFFFF)
    shown = [f"{name}({count})" for name, count in counts.items() if count != limits[name]]
    return " ".join(shown or [f"{name}({count})" for name, count in counts.items()])


def _depctr(value: int) -> str:
    if value & DEPCTR_UNUSED:
        return f"{value:#x}"
    fields = [(name, value >> shift & (1 << width) - 1, (1 << width) - 1) for name, shift, width in DEPCTR]
    waited = [f for f in fields if f[1] != f[2]] or fields
    return " ".join(f"depctr_{name}({count})" for name, count, _ in waited)


def _named(value: int, names: tuple[str, ...], kind: str) -> str:
    return names[value - 1] if value <= len(names) else f"/* invalid {kind} value */"


def _delay(value: int) -> str:
    parts = []
    if first := value & 0xF:
        parts.append(f"instid0({_named(first, DELAY_IDS, 'instid')})")
    if skip := value >> 4 & 0x7:
        parts.append(f"instskip({_named(skip, DELAY_SKIPS, 'instskip')})")
    if second := value >> 7 & 0xF:
        parts.append(f"instid1({_named(second, DELAY_IDS, 'instid')})")
    return " | ".join(parts) or "0"


_GFX12_MESSAGES = (135,)  # the tables of RDNA3 (enum MSG) end at 134


def _message(inst: Decoded, value: int) -> str:
    number = value & 0xFF
    family = inst.arch.family
    if family == "cdna":
        return _legacy_message(value)
    name = MESSAGES[family].get(number)
    if 128 <= number < 128 + len(RETURN_MESSAGES):
        name = RETURN_MESSAGES[number - 128]
    if name and (family != "rdna3" or number not in _GFX12_MESSAGES):
        return f"sendmsg({name})"
    return f"sendmsg({number}, 0, 0)" if value == number else str(value)


def _legacy_message(value: int) -> str:
    number, operation, stream = value & 0xF, value >> 4 & 0x7, value >> 8 & 0x3
    name = MESSAGES["cdna"].get(number)
    if value >> 10 or name is None or operation or stream:
        return f"sendmsg({number}, {operation}, {stream})" if not value >> 10 else str(value)
    return f"sendmsg({name})"


# LLVM's spelling where it differs from the manual's.
LLVM_HWREGS = {
    **{f"HW_REG_SQ_SHADER_{name}": f"HW_REG_{name}" for name in ("TBA_LO", "TBA_HI", "TMA_LO", "TMA_HI")},
    "HW_REG_SHADER_FLAT_SCRATCH_LO": "HW_REG_FLAT_SCR_LO",
    "HW_REG_SHADER_FLAT_SCRATCH_HI": "HW_REG_FLAT_SCR_HI",
}


def hwreg_text(family: str, value: int) -> str:
    """``hwreg(HW_REG_MODE, 0, 4)`` of the immediate of s_getreg and s_setreg."""
    number, offset, size = value & 0x3F, value >> 6 & 0x1F, (value >> 11) + 1
    names = {member.value: member.name for member in table_module(family, "enum").HWREG}
    name = names.get(number, str(number)).replace("HW_REG_SQ_SHADER_", "HW_REG_")
    name = LLVM_HWREGS.get(name, name)
    return f"hwreg({name})" if (offset, size) == (0, 32) else f"hwreg({name}, {offset}, {size})"


def branch_text(value: int, pc: int | None) -> str:
    """A branch immediate: its raw value, or the target address when the branch's address is known."""
    if pc is None:
        return str(value)
    signed = value - 0x10000 if value & 0x8000 else value
    return f"{pc + 4 + 4 * signed:#x}"


def immediate_text(inst: Decoded, optype: str, value: int, pc: int | None) -> str:
    """The text of ``simm16`` (or of the message number in ``ssrc0``)."""
    family, mnemonic = inst.arch.family, inst.mnemonic
    if optype == "OPR_LABEL":
        return branch_text(value, pc)
    if mnemonic == "s_endpgm":
        return str(value)
    if optype == "OPR_WAITCNT" and mnemonic == "s_waitcnt":
        return _waitcnt(family, value)
    if optype in ("OPR_WAITCNT_DEPCTR", "OPR_WAIT_ALU"):
        return _depctr(value)
    if optype == "OPR_DELAY":
        return _delay(value)
    if optype in ("OPR_SENDMSG", "OPR_SENDMSG_RTN"):
        return _message(inst, value)
    if optype == "OPR_HWREG":
        return hwreg_text(family, value)
    if inst.format == "SOPK" or mnemonic in _HEX_IMMEDIATES:
        return f"{value:#x}"
    return small_or_hex(value)
