"""Modifiers of assembly text (``clamp``, ``offset:16``, ``op_sel:[0,1]``) to field values, as tables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from mockgpu.isa.arch import Arch
from mockgpu.isa.asm_draft import Draft
from mockgpu.isa.asm_error import AsmError, did_you_mean
from mockgpu.isa.asm_operands import integer
from mockgpu.isa.asm_syntax import Call, Items, Modifier, Node, Number, Symbol, Text
from mockgpu.isa.disasm import DPP_NAMED, DPP_ROWS, SDWA_SEL, SDWA_UNUSED
from mockgpu.isa.disasm_image import DIMS
from mockgpu.isa.disasm_memory import (
    BUFFER_FORMATS,
    DATA_FORMATS,
    NUMBER_FORMATS,
    SCOPES,
    SIGNED_OFFSETS,
    TWO_OFFSETS,
    hint_name,
)
from mockgpu.isa.registers import DPP8_FI

Handler = Callable[[Draft, Node], None]

_FLAG_NAMES = (
    *("glc", "slc", "dlc", "sc0", "sc1", "nt", "nv", "tfe", "lds", "gds", "offen", "idxen", "r128", "a16"),
    *("lwe", "d16", "done"),
)
_FLAG_FIELDS = {name: name for name in _FLAG_NAMES} | {"clamp": "clmp", "unorm": "unrm", "row_en": "row"}
_NUMBER_FIELDS = {
    name: name
    for name in (
        *("dmask", "cbsz", "abid", "blgp", "wait_vdst", "wait_va_vdst", "wait_vm_vsrc", "row_mask", "bank_mask"),
        *("offset0", "offset1"),
    )
} | {"wait_exp": "waitexp"}
_BARE_DPP = ("row_mirror", "row_half_mirror")
_NAME_FIELDS: Mapping[str, tuple[str, Sequence[str]]] = {
    "dst_sel": ("dst_sel", SDWA_SEL),
    "src0_sel": ("src0_sel", SDWA_SEL),
    "src1_sel": ("src1_sel", SDWA_SEL),
    "dst_unused": ("dst_unused", SDWA_UNUSED),
    "dim": ("dim", [f"SQ_RSRC_IMG_{dim}" for dim in DIMS]),
    "scope": ("scope", ["SCOPE_CU", *SCOPES[1:]]),
}


def is_flag(arch: Arch, name: str) -> bool:
    """Whether a bare name is a modifier and not an operand. Where there are accumulation registers, a16 is one."""
    if name == "a16" and arch.acc_vgprs:
        return False
    return name in _FLAG_FIELDS or name in _BARE_DPP


def wants(parts: Sequence[Modifier]) -> frozenset[str]:
    """Which variants the modifiers ask for: "dpp16", "dpp8", "sdwa"."""
    return frozenset(_VARIANTS[part.name] for part in parts if part.name in _VARIANTS)


def apply_modifiers(draft: Draft, modifiers: Sequence[Modifier]) -> None:
    """Set the fields of all modifiers. Raises AsmError with the column."""
    seen: set[str] = set()
    for modifier in sorted(modifiers, key=lambda m: m.name == "th"):  # hint names depend on the scope
        if modifier.name in seen:
            raise AsmError(f"{modifier.name} is given twice", column=modifier.column)
        seen.add(modifier.name)
        handler = _handlers().get(modifier.name)
        if handler is None:
            hint = did_you_mean(modifier.name, _handlers())
            raise AsmError(f"unknown modifier {modifier.name!r}{hint}", column=modifier.column)
        try:
            handler(draft, modifier.value)
        except AsmError as error:
            error.column = error.column or modifier.column
            raise


def _set(draft: Draft, name: str, value: int, shown: str) -> None:
    if not draft.has(name):
        raise AsmError(f"{shown} is not a modifier of this instruction")
    if not 0 <= value <= draft.limit(name):
        raise AsmError(f"{shown} must be from 0 to {draft.limit(name)}")
    draft.set(name, value)


def _number(draft: Draft, node: Node, name: str, shown: str) -> None:
    if not draft.has(name):
        raise AsmError(f"{shown} is not a modifier of this instruction")
    draft.set(name, integer(node, draft.scope, 0, draft.limit(name), shown))


def _flag(name: str, shown: str) -> Handler:
    return lambda draft, node: _number(draft, node, name, shown)


def _named(name: str, names: Sequence[str], shown: str) -> Handler:
    def handle(draft: Draft, node: Node) -> None:
        text = _spelling(draft, node)
        for spelling in (text, f"SQ_RSRC_IMG_{text}"):
            if spelling and spelling in names:
                return _set(draft, name, names.index(spelling), shown)
        if isinstance(node, Symbol):
            good = ", ".join(n for n in names if n)
            raise AsmError(f"{shown} {node.name!r} is not known; good values are {good}", column=node.column)
        _number(draft, node, name, shown)

    return handle


def _spelling(draft: Draft, node: Node) -> str:
    return node.name if isinstance(node, Symbol) and draft.scope.lookup(node.name) is None else ""


def _bit_list(draft: Draft, node: Node, most: int, shown: str) -> list[int]:
    if not isinstance(node, Items) or not 1 <= len(node.items) <= most:
        raise AsmError(f"{shown} takes a list of up to {most} bits, such as [0,1]")
    return [integer(item, draft.scope, 0, 1, shown) for item in node.items]


def _packed(bits: Sequence[int]) -> int:
    return sum(bit << n for n, bit in enumerate(bits))


# --- operand selection ------------------------------------------------------------------------------------------------


def _sources(draft: Draft) -> int:
    """Sources that selectors count: the declared ones and an accumulator."""
    fields = {"src0", "src1", "src2"}
    return sum(s.field in fields for s in draft.opcode.operands) + draft.opcode.implicit.reads_destination


def _op_sel(draft: Draft, node: Node) -> None:
    bits = _bit_list(draft, node, 4, "op_sel")
    if not draft.has("opsel"):
        raise AsmError("op_sel is not a modifier of this instruction")
    sources = _sources(draft)
    result = 0
    if draft.form not in ("VOP3P", "VOP3PX2") and len(bits) > sources:  # the last bit is that of the result
        bits, result = bits[:-1], bits[-1]
    draft.merge("opsel", _packed(bits[:3]) | result << 3)


def _op_sel_hi(draft: Draft, node: Node) -> None:
    bits = _packed(_bit_list(draft, node, 3, "op_sel_hi"))
    if not draft.has("opsel_hi2"):
        return _set(draft, "opsel_hi", bits, "op_sel_hi")
    mix = "_mix" in draft.opcode.mnemonic
    unnamed = 0 if mix else 7 & ~((1 << _sources(draft)) - 1)  # bits of absent sources stay set
    draft.values |= {"opsel_hi": (bits | unnamed) & 3, "opsel_hi2": (bits | unnamed) >> 2}


def _sign_bits(name: str, shown: str) -> Handler:
    return lambda draft, node: _set(draft, name, _packed(_bit_list(draft, node, 3, shown)), shown)


def _output(multiply: bool) -> Handler:
    choices = {2: 1, 4: 2, 1: 0} if multiply else {2: 3, 1: 0}

    def handle(draft: Draft, node: Node) -> None:
        shown = "mul" if multiply else "div"
        if not isinstance(node, Number) or node.value not in choices:
            raise AsmError(f"{shown} takes {' or '.join(str(c) for c in choices)}")
        _set(draft, "omod", choices[int(node.value)], shown)

    return handle


def _truth_table(draft: Draft, node: Node) -> None:
    """The table of v_bitop3, in the fields of float modifiers."""
    value = integer(node, draft.scope, 0, 255, "bitop3")
    if "bitop3" not in draft.opcode.mnemonic:
        raise AsmError("bitop3 is not a modifier of this instruction")
    draft.values |= {"neg": value & 7, "abs": value >> 3 & 7, "omod": value >> 6}


# --- DPP --------------------------------------------------------------------------------------------------------------


def _lane_list(draft: Draft, node: Node, count: int, high: int, shown: str) -> list[int]:
    if not isinstance(node, Items) or len(node.items) != count:
        raise AsmError(f"{shown} takes a list of {count} lanes")
    return [integer(item, draft.scope, 0, high, shown) for item in node.items]


def _dpp8(draft: Draft, node: Node) -> None:
    for n, lane in enumerate(_lane_list(draft, node, 8, 7, "dpp8")):
        _set(draft, f"lane_sel_{n}", lane, "dpp8")


def _quad_perm(draft: Draft, node: Node) -> None:
    lanes = _lane_list(draft, node, 4, 3, "quad_perm")
    _set(draft, "dpp", sum(lane << 2 * n for n, lane in enumerate(lanes)), "quad_perm")


def _row(base: int, low: int, shown: str) -> Handler:
    def handle(draft: Draft, node: Node) -> None:
        _set(draft, "dpp", base + integer(node, draft.scope, low, 15, shown), shown)

    return handle


def _dpp_control(codes: Mapping[int, int], shown: str) -> Handler:
    def handle(draft: Draft, node: Node) -> None:
        value = integer(node, draft.scope, 0, 31, shown)
        if value not in codes:
            raise AsmError(f"{shown} takes {' or '.join(map(str, codes))}")
        _set(draft, "dpp", codes[value], shown)

    return handle


def _bound_ctrl(draft: Draft, node: Node) -> None:
    value = integer(node, draft.scope, 0, 1, "bound_ctrl")
    _set(draft, "bc", value if draft.arch.dpp8 else 1, "bound_ctrl")  # older assemblers write 0 for set


def _fetch_inactive(draft: Draft, node: Node) -> None:
    value = integer(node, draft.scope, 0, 1, "fi")
    if not draft.has("lane_sel_0"):
        return _set(draft, "fi", value, "fi")
    if value:
        draft.set("src0", DPP8_FI)


def _dpp_handlers() -> dict[str, Handler]:
    handlers: dict[str, Handler] = {"dpp8": _dpp8, "quad_perm": _quad_perm}
    handlers |= {name: _row(base, 1, name) for base, name in DPP_ROWS}
    rows = (("row_share", 0x150), ("row_newbcast", 0x150), ("row_xmask", 0x160))
    handlers |= {name: _row(base, 0, name) for name, base in rows}
    named: dict[str, dict[int, int]] = {}
    for code, text in DPP_NAMED.items():
        name, _, value = text.partition(":")
        named.setdefault(name, {})[int(value or 1)] = code
    return handlers | {name: _dpp_control(codes, name) for name, codes in named.items()}


# --- memory -----------------------------------------------------------------------------------------------------------


def _offset(draft: Draft, node: Node) -> None:
    if draft.form == "DS":
        return _lds_offset(draft, node)
    name = "ioffset" if draft.has("ioffset") else "offset"
    if not draft.has(name):
        raise AsmError("offset is not a modifier of this instruction")
    limit = draft.limit(name)
    signed = draft.form in SIGNED_OFFSETS or draft.form == "SMEM"
    low, high = (-(limit + 1) // 2, limit // 2) if signed else (0, limit)
    draft.set(name, integer(node, draft.scope, low, high, "offset") & limit)
    if draft.has("imm"):
        draft.set("imm", 1)


def _lds_offset(draft: Draft, node: Node) -> None:
    if any(part in draft.opcode.mnemonic for part in TWO_OFFSETS):
        raise AsmError("this instruction takes offset0 and offset1")
    swizzle = isinstance(node, Call) and node.name == "swizzle"
    value = _swizzle(draft, node) if swizzle else integer(node, draft.scope, 0, 0xFFFF, "offset")
    draft.values |= {"offset0": value & 0xFF, "offset1": value >> 8}


def _swizzle(draft: Draft, call: Node) -> int:
    """``swizzle(MODE, ...)`` of ds_swizzle (manual section "DS_SWIZZLE_B32")."""
    assert isinstance(call, Call)
    mode = call.arguments[0] if call.arguments else call
    name = mode.name if isinstance(mode, Symbol) else ""
    if name not in _SWIZZLES:
        raise AsmError(f"swizzle modes are {', '.join(_SWIZZLES)}", column=mode.column)
    count, limit, encode = _SWIZZLES[name]
    arguments = call.arguments[1:]
    if len(arguments) != count:
        raise AsmError(f"swizzle mode {name} takes {count} values", column=call.column)
    if name == "BITMASK_PERM":
        return _bitmask(arguments[0])
    return encode([integer(node, draft.scope, 0, limit, name) for node in arguments])


def _broadcast(values: list[int]) -> int:
    group, lane = values
    if group not in (2, 4, 8, 16, 32) or lane >= group:
        raise AsmError("BROADCAST takes a group size (2, 4, 8, 16 or 32) and a lane of the group")
    return 32 - group | lane << 5


def _power_of_two(value: int, what: str, sizes: tuple[int, ...]) -> int:
    if value not in sizes:
        raise AsmError(f"{what} takes a size of {', '.join(map(str, sizes))}")
    return value


_SWIZZLES: Mapping[str, tuple[int, int, Callable[[list[int]], int]]] = {
    "QUAD_PERM": (4, 3, lambda v: 0x8000 | sum(lane << 2 * n for n, lane in enumerate(v))),
    "SWAP": (1, 16, lambda v: 0x1F | _power_of_two(v[0], "SWAP", (1, 2, 4, 8, 16)) << 10),
    "REVERSE": (1, 32, lambda v: 0x1F | _power_of_two(v[0], "REVERSE", (2, 4, 8, 16, 32)) - 1 << 10),
    "BROADCAST": (2, 32, _broadcast),
    "FFT": (1, 31, lambda v: 0xE000 | v[0]),
    "ROTATE": (2, 31, lambda v: 0xC000 | (v[0] & 1) << 10 | v[1] << 5),
    "BITMASK_PERM": (1, 0, lambda v: 0),
}
_MASK_BITS = {"0": (0, 0, 0), "1": (0, 1, 0), "p": (1, 0, 0), "i": (1, 0, 1)}  # (and, or, exclusive or)


def _bitmask(node: Node) -> int:
    text = node.text if isinstance(node, Text) else ""
    if len(text) != 5 or set(text) - set(_MASK_BITS):
        raise AsmError('BITMASK_PERM takes five of 0, 1, p and i, such as "01pip"', column=node.column)
    value = 0
    for letter, bit in zip(text, (16, 8, 4, 2, 1), strict=True):
        for shift, chosen in zip((0, 5, 10), _MASK_BITS[letter], strict=True):
            value |= bit * chosen << shift
    return value


def _hint(draft: Draft, node: Node) -> None:
    """A temporal hint; its name says load, store or atomic (RDNA4 manual, "Memory Temporal Hints")."""
    name = _spelling(draft, node)
    if not name:
        return _number(draft, node, "th", "th")
    if not draft.has("th"):
        raise AsmError("th is not a modifier of this instruction")
    scope, mnemonic = draft.values.get("scope", 0), draft.opcode.mnemonic
    names = {hint_name(mnemonic, hint, scope): hint for hint in range(draft.limit("th"), -1, -1)}
    kind = next((hint.split("_")[1] for hint in names if hint.startswith("TH_")), "LOAD")
    names[f"TH_{kind}_RT"] = 0
    if name not in names:
        good = ", ".join(sorted(n for n in names if n.startswith("TH_")))
        raise AsmError(f"hint {name!r} is not possible here; good values are {good}", column=node.column)
    draft.set("th", names[name] | draft.returning)


_DATA_NAMES = {f"BUF_DATA_FORMAT_{name}": n for n, name in enumerate(DATA_FORMATS)}
_NUMBER_NAMES = {f"BUF_NUM_FORMAT_{name}": n for n, name in enumerate(NUMBER_FORMATS)}
_UNIFIED_NAMES = {f"BUF_FMT_{name}": n for n, name in enumerate(BUFFER_FORMATS)}


def _format(draft: Draft, node: Node) -> None:
    """The format of a typed buffer access: unified on RDNA, data and number format on CDNA."""
    if not draft.opcode.mnemonic.startswith("tbuffer"):
        raise AsmError("format is not a modifier of this instruction")
    names = [item.name for item in node.items if isinstance(item, Symbol)] if isinstance(node, Items) else []
    names = names or ([_spelling(draft, node)] if _spelling(draft, node) else [])
    if not names:
        value = integer(node, draft.scope, 0, 127, "format")
        return _set_format(draft, value)
    for name in names:
        if draft.has("format") and name in _UNIFIED_NAMES:
            draft.set("format", _UNIFIED_NAMES[name])
        elif draft.has("dfmt") and name in _DATA_NAMES:
            draft.set("dfmt", _DATA_NAMES[name])
        elif draft.has("dfmt") and name in _NUMBER_NAMES:
            draft.set("nfmt", _NUMBER_NAMES[name])
        else:
            known = _UNIFIED_NAMES if draft.has("format") else {**_DATA_NAMES, **_NUMBER_NAMES}
            raise AsmError(f"unknown format {name!r}{did_you_mean(name, known)}", column=node.column)


def _set_format(draft: Draft, value: int) -> None:
    draft.values |= {"format": value} if draft.has("format") else {"dfmt": value & 0xF, "nfmt": value >> 4}


@functools.cache
def _handlers() -> Mapping[str, Handler]:
    handlers: dict[str, Handler] = {name: _flag(target, name) for name, target in _FLAG_FIELDS.items()}
    handlers |= {name: _flag(target, name) for name, target in _NUMBER_FIELDS.items()}
    handlers |= {name: _named(target, names, name) for name, (target, names) in _NAME_FIELDS.items()}
    handlers |= {"op_sel": _op_sel, "op_sel_hi": _op_sel_hi, "mul": _output(True), "div": _output(False)}
    handlers |= {"neg_lo": _sign_bits("neg", "neg_lo"), "neg_hi": _sign_bits("neg_hi", "neg_hi")}
    handlers |= {"neg": _sign_bits("blgp", "neg"), "bound_ctrl": _bound_ctrl, "fi": _fetch_inactive}
    return handlers | _dpp_handlers() | {"bitop3": _truth_table, "offset": _offset, "th": _hint, "format": _format}


_VARIANTS = dict.fromkeys((*_dpp_handlers(), "row_mask", "bank_mask", "bound_ctrl"), "dpp16")
_VARIANTS |= {"dpp8": "dpp8"} | dict.fromkeys(("dst_sel", "dst_unused", "src0_sel", "src1_sel"), "sdwa")
