"""Which operands an instruction's text has, in order, and what each sets: the inverse of the disassembler's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mockgpu.isa.asm_draft import SCALAR_FORMATS, Draft, field_value, place
from mockgpu.isa.asm_error import AsmError
from mockgpu.isa.asm_immediates import immediate
from mockgpu.isa.asm_operands import (
    Constant,
    Register,
    Source,
    checked_float_bits,
    evaluate,
    integer,
    register_of,
    source_of,
)
from mockgpu.isa.asm_syntax import Items, Node, Symbol
from mockgpu.isa.disasm_image import has_sampler
from mockgpu.isa.disasm_memory import CHANNELS, EXPORT_TARGETS
from mockgpu.isa.opcode import OperandSpec
from mockgpu.isa.operands import returns_old_value
from mockgpu.isa.registers import VCC_LO

_VECTOR_FORMATS = frozenset({"VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P", "VOP3PX2", "VINTERP"})
_SEGMENTS = frozenset({"FLAT", "GLOBAL", "SCRATCH", "VFLAT", "VGLOBAL", "VSCRATCH"})
_SCRATCH = frozenset({"SCRATCH", "VSCRATCH"})
_FLAT = frozenset({"FLAT", "VFLAT"})
_BUFFERS = frozenset({"MUBUF", "MTBUF", "VBUFFER"})
_IMAGES = frozenset({"MIMG", "VIMAGE", "VSAMPLE"})
_IMMEDIATE_OPTYPE = "OPR_SENDMSG_RTN"
_COMPARE_RESULT = OperandSpec("sdst", "FMT_NUM_M64", 64, "OPR_SDST", True, False)


@dataclass(frozen=True, slots=True)
class Slot:
    """One operand of the text. ``fill`` sets the fields; a ``rest`` slot takes all parts that are left."""

    name: str
    fill: Callable[[Sequence[Node]], None]
    rest: bool = False
    optional: bool = False


def slots(draft: Draft) -> list[Slot]:
    """The operands that the text of this instruction has, given the modifiers already set."""
    form = draft.form
    if form == "VOPD":
        return list(_dual(draft))
    if form in SCALAR_FORMATS:
        return _scalar(draft)
    if form in _VECTOR_FORMATS:
        return list(_vector(draft))
    makers = {"DS": _lds, "SMEM": _scalar_memory, **dict.fromkeys(_SEGMENTS, _segment)}
    makers |= {**dict.fromkeys(_BUFFERS, _buffer), **dict.fromkeys(_IMAGES, _image)}
    makers |= dict.fromkeys(("EXP", "VEXPORT"), _export)
    return list(makers.get(form, _parameter)(draft))


def _operand(draft: Draft, spec: OperandSpec) -> Slot:
    def fill(nodes: Sequence[Node]) -> None:
        place(draft, spec, source_of(draft.arch, nodes[0], draft.scope))

    return Slot(spec.field, fill)


def _declared(draft: Draft, *names: str) -> Iterator[Slot]:
    """Slots of the fields that the opcode declares, in the order of ``names``."""
    for name in names:
        spec = draft.opcode.operand(name)
        if spec is not None:
            yield _operand(draft, spec)


def _register(draft: Draft, node: Node) -> Register:
    found = register_of(draft.arch, node, draft.scope)
    if found is None:
        raise AsmError("expected a register", column=node.column)
    return found


def _is(node: Node, name: str) -> bool:
    return isinstance(node, Symbol) and node.name == name


# --- scalar and vector arithmetic -------------------------------------------------------------------------------------


def _scalar(draft: Draft) -> list[Slot]:
    opcode = draft.opcode
    found = [_scalar_slot(draft, spec) for spec in opcode.operands]
    if opcode.mnemonic == "s_setreg_b32":
        found.reverse()
    if opcode.mnemonic == "s_setreg_imm32_b32":
        found.append(_literal(draft))
    return _with_constant(draft, found)


def _scalar_slot(draft: Draft, spec: OperandSpec) -> Slot:
    if spec.field != "simm16" and spec.optype != _IMMEDIATE_OPTYPE:
        return _operand(draft, spec)
    optype = spec.optype
    if draft.opcode.mnemonic != "s_waitcnt" and optype == "OPR_WAITCNT":
        optype = "OPR_SIMM16"

    def fill(nodes: Sequence[Node]) -> None:
        draft.set(spec.field, immediate(draft.arch, optype, nodes, draft.scope) & draft.limit(spec.field))

    last = spec is draft.opcode.operands[-1] and draft.opcode.mnemonic != "s_setreg_imm32_b32"
    several = last and not draft.opcode.mnemonic.startswith("s_setreg")
    return Slot(spec.field, fill, rest=several, optional=draft.opcode.mnemonic == "s_endpgm")


def _literal(draft: Draft) -> Slot:
    def fill(nodes: Sequence[Node]) -> None:
        node = nodes[0]
        half = draft.opcode.mnemonic.endswith("f16")
        draft.set_literal(_literal_value(evaluate(node, draft.scope), half, node.column), node.column)

    return Slot("literal", fill)


def _literal_value(constant: Constant, half: bool, column: int) -> int:
    if isinstance(constant.value, float):
        return checked_float_bits(constant.value, 16 if half else 32, column)
    if not -(1 << 31) <= constant.value < 1 << 32:
        raise AsmError(f"{constant.value:#x} does not fit 32 bits", column=column)
    return constant.value & 0xFFFFFFFF


def _with_constant(draft: Draft, found: list[Slot]) -> list[Slot]:
    """Place the constant of multiply-add opcodes: K comes second of three in fmamk, last in fmaak."""
    mnemonic = draft.opcode.mnemonic
    if any(name in mnemonic for name in ("fmamk", "madmk")):
        return [*found[:2], _literal(draft), *found[2:]]
    if any(name in mnemonic for name in ("fmaak", "madak")):
        return [*found, _literal(draft)]
    return found


def _implicit_vcc(draft: Draft) -> Slot:
    def fill(nodes: Sequence[Node]) -> None:
        node = nodes[0]
        found = _register(draft, node)
        if found.code != VCC_LO or found.count != draft.lanes // 32:
            good = "vcc" if draft.lanes == 64 else "vcc_lo"
            raise AsmError(f"this encoding uses {good} here", column=node.column)

    return Slot("vcc", fill)


def _vector(draft: Draft) -> list[Slot]:
    specs = draft.opcode.operands
    if "sd" in draft.layout.field_names and draft.form == "VOPC":
        specs = (_COMPARE_RESULT, *specs)
    found = [_operand(draft, spec) for spec in specs]
    return _with_constant(draft, _with_implicit(draft, found))


def _with_implicit(draft: Draft, found: list[Slot]) -> list[Slot]:
    """Where the short formats show VCC though no field names it."""
    if draft.form not in ("VOP2", "VOPC") or draft.layout.name.endswith("_SDST"):
        return found
    implicit, vcc = draft.opcode.implicit, _implicit_vcc(draft)
    if draft.form == "VOPC":
        return [vcc, *found] if implicit.writes_vcc or draft.arch.family == "cdna" else found
    if implicit.writes_vcc:
        found = [found[0], vcc, *found[1:]]
    return [*found, vcc] if implicit.reads_vcc else found


def _dual(draft: Draft) -> Iterator[Slot]:
    """The X half, a separator that the caller checks, and the Y half."""
    assert draft.opcode_y is not None
    for opcode, order in ((draft.opcode, ("vdstx", "srcx0", "vsrcx1")), (draft.opcode_y, ("vdsty", "srcy0", "vsrcy1"))):
        found = [_operand(draft, spec) for name in order if (spec := opcode.operand(name)) is not None]
        if "fmamk" in opcode.mnemonic:
            found.insert(2, _literal(draft))
        if "fmaak" in opcode.mnemonic:
            found.append(_literal(draft))
        yield from found


# --- memory -----------------------------------------------------------------------------------------------------------


def _lds(draft: Draft) -> Iterator[Slot]:
    return _declared(draft, "vdst", "addr", "data0", "data1")


def _or_off(draft: Draft, slot: Slot, absent: Callable[[], None], present: Callable[[], None]) -> Slot:
    """An operand that may be ``off``."""

    def fill(nodes: Sequence[Node]) -> None:
        if _is(nodes[0], "off"):
            absent()
        else:
            slot.fill(nodes)
            present()

    return Slot(slot.name, fill)


def _nothing() -> None:
    return None


def _segment(draft: Draft) -> Iterator[Slot]:
    opcode, form = draft.opcode, draft.form
    result = opcode.operand("vdst")
    if result is not None and ("_atomic_" not in opcode.mnemonic or returns_old_value(draft.values)):
        yield _operand(draft, result)
    address = next((s for name in ("vaddr", "addr") for s in _declared(draft, name)), None)
    if address is not None and form in _SCRATCH:
        yield _or_off(draft, address, _nothing, lambda: draft.set("sve", 1))
    elif address is not None:
        yield address
    yield from _declared(draft, "data", "vsrc")
    if form not in _FLAT:
        yield from (_or_off(draft, slot, _nothing, _nothing) for slot in _declared(draft, "saddr"))


def _scalar_memory(draft: Draft) -> Iterator[Slot]:
    opcode = draft.opcode
    if "prefetch" in opcode.mnemonic:
        yield from _declared(draft, "sbase")
        yield Slot("offset", lambda nodes: _set_scalar_offset(draft, nodes[0]))
        yield from _declared(draft, "soffset")
        yield _raw(draft, "sdata")
        return
    yield from [_raw(draft, "sdata")] if "probe" in opcode.mnemonic else _declared(draft, "sdata")
    yield from _declared(draft, "sbase")
    if opcode.operand("sbase") is not None:
        yield Slot("offset", lambda nodes: _scalar_address(draft, nodes[0]))


def _raw(draft: Draft, name: str) -> Slot:
    """A number in a field that mostly names a register."""

    def fill(nodes: Sequence[Node]) -> None:
        draft.set(name, integer(nodes[0], draft.scope, 0, draft.limit(name), "an immediate"))

    return Slot(name, fill)


def _set_scalar_offset(draft: Draft, node: Node) -> None:
    name = "ioffset" if draft.has("ioffset") else "offset"
    limit = draft.limit(name)
    draft.set(name, integer(node, draft.scope, -(limit + 1) // 2, limit // 2, "offset") & limit)
    if draft.has("imm"):
        draft.set("imm", 1)


def _scalar_address(draft: Draft, node: Node) -> None:
    """The offset of scalar loads: a number, or a register to which ``offset:`` may add a number."""
    found = register_of(draft.arch, node, draft.scope)
    if found is None:
        return _set_scalar_offset(draft, node)
    spec = draft.opcode.operand("soffset")
    if spec is None:
        raise AsmError("a register offset is not possible here", column=node.column)
    if draft.has("soffset_en") and not draft.values.get("imm", 0):  # the offset field names the register
        return draft.set("offset", field_value(draft.layout.by_name["soffset"], found.code, draft.values))
    place(draft, spec, Source(found, False, False, False, False, node.column))
    if draft.has("soffset_en"):
        draft.set("soffset_en", 1)


def _buffer(draft: Draft) -> Iterator[Slot]:
    opcode = draft.opcode
    if not opcode.operands:
        return
    if not draft.values.get("lds", 0):
        yield from _declared(draft, "vdata")
    if "vaddr" in draft.layout.field_names:
        address = next(_declared(draft, "vaddr"))
        yield _or_off(draft, address, lambda: _refuse_indexed(draft), lambda: _demand_indexed(draft))
        yield _scalar_tuple(draft, "rsrc" if draft.has("rsrc") else "srsrc")
        yield from _declared(draft, "soffset")


def _indexed(draft: Draft) -> bool:
    return bool(draft.values.get("offen", 0) or draft.values.get("idxen", 0))


def _refuse_indexed(draft: Draft) -> None:
    if _indexed(draft):
        raise AsmError("offen and idxen need an address register instead of off")


def _demand_indexed(draft: Draft) -> None:
    if not _indexed(draft):
        raise AsmError("an address register needs offen or idxen; write off for none")


def _scalar_tuple(draft: Draft, name: str) -> Slot:
    """A resource or sampler descriptor."""

    def fill(nodes: Sequence[Node]) -> None:
        found = _register(draft, nodes[0])
        draft.set(name, field_value(draft.layout.by_name[name], found.code, draft.values))

    return Slot(name, fill)


def _image(draft: Draft) -> Iterator[Slot]:
    yield from _declared(draft, "vdata")
    yield Slot("address", lambda nodes: _image_address(draft, nodes[0]))
    yield _scalar_tuple(draft, "rsrc" if draft.has("rsrc") else "srsrc")
    if has_sampler(draft.opcode.mnemonic):
        yield _scalar_tuple(draft, "samp" if draft.has("samp") else "ssamp")


def _image_address(draft: Draft, node: Node) -> None:
    """One register range, or a list of registers whose last may be a range."""
    names = [name for name in ("vaddr", "vaddr0", "vaddr1", "vaddr2", "vaddr3", "vaddr4") if draft.has(name)]
    items = node.items if isinstance(node, Items) else (node,)
    if isinstance(node, Items) and len(names) == 1 and len(items) > 1:
        raise AsmError("expected one address range", column=node.column)
    if len(items) > len(names):
        raise AsmError(f"at most {len(names)} addresses", column=items[len(names)].column)
    for name, item in zip(names, items, strict=False):
        draft.set(name, field_value(draft.layout.by_name[name], _register(draft, item).code, draft.values))


# --- exports and parameters -------------------------------------------------------------------------------------------


def _export(draft: Draft) -> Iterator[Slot]:
    yield Slot("target", lambda nodes: _export_target(draft, nodes[0]))
    for n in range(4):
        spec = draft.opcode.operand(f"vsrc{n}")
        assert spec is not None
        yield _or_off(draft, _operand(draft, spec), _nothing, _enable(draft, n))


def _enable(draft: Draft, n: int) -> Callable[[], None]:
    return lambda: draft.merge("en", 1 << n)


def _export_target(draft: Draft, node: Node) -> None:
    targets = {name: number for number, name in EXPORT_TARGETS.items()}
    name = node.name if isinstance(node, Symbol) else ""
    if name.startswith("invalid_target_") and name[15:].isdigit() and int(name[15:]) <= draft.limit("target"):
        return draft.set("target", int(name[15:]))
    if name not in targets:
        raise AsmError(f"unknown target; good names are {', '.join(targets)}", column=node.column)
    draft.set("target", targets[name])


def _parameter(draft: Draft) -> Iterator[Slot]:
    yield from _declared(draft, "vdst")
    if "param" in draft.opcode.mnemonic:
        yield Slot("attribute", lambda nodes: _attribute(draft, nodes[0]))


def _attribute(draft: Draft, node: Node) -> None:
    """``attr3.x``."""
    name = node.name if isinstance(node, Symbol) else ""
    number, _, channel = name.removeprefix("attr").partition(".")
    good = name.startswith("attr") and number.isdigit() and len(channel) == 1 and channel in CHANNELS
    if not good or int(number) > draft.limit("attr"):
        raise AsmError(f"expected attr0.x to attr{draft.limit('attr')}.w", column=node.column)
    draft.values |= {"attr": int(number), "attr_chan": CHANNELS.index(channel)}
