"""Assembly of one instruction: from its parsed text to bytes, checked by disassembling them again."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mockgpu.isa.arch import Arch
from mockgpu.isa.asm_draft import SHORT_FORMATS, Draft
from mockgpu.isa.asm_error import AsmError, did_you_mean
from mockgpu.isa.asm_modifiers import apply_modifiers, is_flag, wants
from mockgpu.isa.asm_operands import Constant, Register, Scope, Source, register_of, source_of
from mockgpu.isa.asm_slots import Slot, slots
from mockgpu.isa.asm_syntax import Half, Modifier, Node, Number, Symbol, parse_line
from mockgpu.isa.decode import Leaf, decode, decode_tree
from mockgpu.isa.disasm import RENAMED, disassemble
from mockgpu.isa.encode import EncodeError, encode_fields
from mockgpu.isa.encoding import Encoding, encodings
from mockgpu.isa.errors import DecodeError
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.opcode import Opcode, dual_opcodes, opcodes

_VECTOR = ("VOP", "VINTERP")
_EXPORTS = ("EXP", "VEXPORT")
# suffix -> (short forms only, long forms only, variants that it allows); None: those that the modifiers ask for
_SUFFIXES: Mapping[str, tuple[bool, bool, frozenset[str] | None]] = {
    "_e64_dpp": (False, True, frozenset({"dpp16", "dpp8"})),
    "_dpp": (True, False, frozenset({"dpp16", "dpp8"})),
    "_sdwa": (True, False, frozenset({"sdwa"})),
    "_e32": (True, False, frozenset()),
    "_e64": (False, True, frozenset()),
}
_IMMEDIATE_FORMATS = frozenset({"SOPP", "SOPK"})
_OPERANDS, _CHECK = 1, 2  # how far a candidate came


@dataclass(frozen=True, slots=True)
class Candidate:
    """One encoding of a mnemonic. ``variant`` is "", "dpp16", "dpp8" or "sdwa"."""

    leaf: Leaf
    opcode: Opcode
    layout: Encoding
    variant: str

    @property
    def short(self) -> bool:
        """Whether it is one of the short vector formats."""
        return self.opcode.format in SHORT_FORMATS

    @property
    def vector(self) -> bool:
        """Whether it is a vector arithmetic format, whose mnemonics take suffixes."""
        return self.opcode.format.startswith(_VECTOR)


# --- what mnemonics exist ---------------------------------------------------------------------------------------------


def _leaves(arch: Arch) -> Iterator[Leaf]:
    seen = set()
    for nodes in decode_tree(arch.tables):
        for node in nodes:
            for leaf in node.leaves.values():
                key = leaf.opcode or leaf.base.name
                if key not in seen:
                    seen.add(key)
                    yield leaf


def _members(arch: Arch, leaf: Leaf) -> Iterator[Opcode]:
    """The opcodes behind a leaf that the target has."""
    table = opcodes(arch.tables)
    found = [leaf.opcode] if leaf.opcode else [table[m.table, m.name] for m in leaf.base.members]
    yield from (opcode for opcode in found if arch.has_opcode(opcode.name))


def _layouts(arch: Arch, leaf: Leaf) -> Iterator[tuple[Encoding, str]]:
    """(layout, variant) of an opcode, shortest first."""
    if not leaf.needs_literal:
        yield leaf.base, ""
    if leaf.literal is not None and (leaf.literal_fields or leaf.needs_literal or leaf.opcode is None):
        yield leaf.literal, ""
    if leaf.base.name == "MIMG":
        yield encodings(arch.tables)["MIMG_NSA"], ""
    for layout in dict.fromkeys(leaf.by_marker.values()):
        names = layout.field_names
        yield layout, "dpp16" if "dpp" in names else "dpp8" if "lane_sel_0" in names else "sdwa"


def _spellings(opcode: Opcode) -> tuple[str, ...]:
    if opcode.format in _EXPORTS:
        return ("exp", "export")
    name = opcode.mnemonic
    return (name, RENAMED[name]) if name in RENAMED else (name,)


@functools.cache
def candidates(arch: Arch) -> Mapping[str, tuple[Candidate, ...]]:
    """All encodings of every mnemonic without suffix, those of short formats first."""
    found: dict[str, list[Candidate]] = {}
    for leaf in _leaves(arch):
        if leaf.opcode is None and not leaf.base.members:  # dual issue: see _dual_candidates
            continue
        for opcode in _members(arch, leaf):
            options = [Candidate(leaf, opcode, layout, variant) for layout, variant in _layouts(arch, leaf)]
            for name in _spellings(opcode):
                found.setdefault(name, []).extend(options)
    return {name: tuple(sorted(options, key=lambda c: not c.short)) for name, options in found.items()}


@functools.cache
def _dual_names(family: str) -> Mapping[str, tuple[Opcode, Opcode]]:
    return {x.mnemonic: (x, y) for x, y in dual_opcodes(family).values()}


def mnemonics(arch: Arch) -> frozenset[str]:
    """Every mnemonic of a target, without suffixes."""
    return frozenset(candidates(arch)) | frozenset(_dual_names(arch.tables))


def _split_suffix(arch: Arch, half: Half) -> tuple[str, str]:
    mnemonic = half.mnemonic
    if mnemonic in candidates(arch):
        return mnemonic, ""
    for suffix in _SUFFIXES:
        base = mnemonic.removesuffix(suffix)
        if base != mnemonic and base in candidates(arch):
            return base, suffix
    hint = did_you_mean(mnemonic, mnemonics(arch))
    if mnemonic in _dual_names(arch.tables):
        hint = "; dual-issue instructions come in pairs: v_dual_... :: v_dual_..."
    raise AsmError(f"{arch.name} has no instruction {mnemonic!r}{hint}", column=half.column)


def _choose(arch: Arch, half: Half, asked: frozenset[str]) -> list[Candidate]:
    """The encodings that suffix and modifiers allow."""
    base, suffix = _split_suffix(arch, half)
    found = candidates(arch)[base]
    if suffix:
        short, long, allowed = _SUFFIXES[suffix]
        found = tuple(c for c in found if c.vector and not (short and not c.short) and not (long and c.short))
    else:
        allowed = None
    variants = _variants(allowed, asked, half.column)
    chosen = [c for c in found if c.variant in variants]
    if not chosen:
        shown = ", ".join(sorted(asked)) or suffix or "such"
        raise AsmError(f"{base} has no {shown} form on {arch.name}", column=half.column)
    return chosen


def _variants(allowed: frozenset[str] | None, asked: frozenset[str], column: int) -> frozenset[str]:
    if len(asked) > 1:
        raise AsmError(f"modifiers of {' and '.join(sorted(asked))} do not go together", column=column)
    if allowed is None:
        return asked or frozenset({""})
    if asked - allowed:
        raise AsmError(f"modifiers of {next(iter(asked))} do not go with this suffix", column=column)
    if asked:
        return asked
    return allowed - {"dpp8"} or frozenset({""})


# --- filling one candidate --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Failure(Exception):
    """A candidate did not fit: how far it came, and why."""

    stage: int
    error: AsmError


def _split_parts(arch: Arch, half: Half) -> tuple[list[Node], list[Modifier]]:
    operands: list[Node] = []
    modifiers: list[Modifier] = []
    for part in half.parts:
        if isinstance(part, Modifier):
            modifiers.append(part)
        elif isinstance(part, Symbol) and is_flag(arch, part.name):
            modifiers.append(Modifier(part.name, Number(1, part.column), part.column))
        else:
            operands.append(part)
    return operands, modifiers


def _fill(wanted: Sequence[Slot], operands: Sequence[Node], half: Half) -> None:
    """Fill the slots from the operands. Raises AsmError."""
    position = 0
    for slot in wanted:
        left = operands[position:]
        if not left and slot.optional:
            continue
        if not left:
            raise AsmError(_count_text(half, wanted, len(operands)), column=half.column)
        taken = left if slot.rest else left[:1]
        try:
            slot.fill(taken)
        except AsmError as error:
            error.column = error.column or left[0].column
            raise
        position += len(taken)
    if position < len(operands):
        raise AsmError(_count_text(half, wanted, len(operands)), column=operands[position].column)


def _count_text(half: Half, wanted: Sequence[Slot], given: int) -> str:
    names = ", ".join(slot.name for slot in wanted)
    return (
        f"{half.mnemonic} takes {len(wanted)} operands ({names}), not {given}"
        if wanted
        else (f"{half.mnemonic} takes no operands")
    )


def _encode(draft: Draft) -> Instruction:
    """The finished draft as an instruction. Raises AsmError."""
    if "literal" in draft.layout.field_names and draft.literal is None:
        raise AsmError("no literal is needed")
    if "op" in draft.layout.field_names:
        draft.values["op"] = draft.opcode.value
    try:
        inst = decode(draft.arch, encode_fields(draft.layout, draft.values))
    except (EncodeError, DecodeError) as error:
        raise AsmError(str(error)) from None
    if inst.layout is not draft.layout or inst.opcode is not draft.opcode:
        raise AsmError("these operands mean another instruction")
    return inst


def _attempt(draft: Draft, halves: Sequence[Half]) -> Instruction:
    """One candidate. Raises _Failure."""
    parts = [_split_parts(draft.arch, half) for half in halves]
    try:
        apply_modifiers(draft, [m for _, modifiers in parts for m in modifiers])
    except AsmError as error:
        raise _Failure(0, error) from None
    try:
        _fill_halves(draft, halves, [operands for operands, _ in parts])
    except AsmError as error:
        raise _Failure(_OPERANDS, error) from None
    try:
        inst = _encode(draft)
        _check(draft, inst, halves)
    except AsmError as error:
        raise _Failure(_CHECK if draft.literal is not None or error.column else 0, error) from None
    return inst


def _fill_halves(draft: Draft, halves: Sequence[Half], operands: Sequence[Sequence[Node]]) -> None:
    wanted = slots(draft)
    if len(halves) == 1:
        return _fill(wanted, operands[0], halves[0])
    border = next(n for n, slot in enumerate(wanted) if slot.name == "vdsty")
    _fill(wanted[:border], operands[0], halves[0])
    _fill(wanted[border:], operands[1], halves[1])


# --- the check --------------------------------------------------------------------------------------------------------


def _check(draft: Draft, inst: Instruction, halves: Sequence[Half]) -> None:
    """The bytes must disassemble to the registers that were written. Raises AsmError.

    This is where register widths are checked: the disassembler knows how many registers each operand covers.
    """
    if draft.form in _IMMEDIATE_FORMATS:
        return
    shown = parse_line(disassemble(inst, wave_size=draft.lanes)).halves
    for written, read in zip(halves, shown, strict=True):
        ours, theirs = _split_parts(draft.arch, written)[0], _split_parts(draft.arch, read)[0]
        for node, other in zip(ours, theirs, strict=False):
            _compare(draft, node, other)


def _source(draft: Draft, node: Node) -> Source | None:
    """An operand, or None for one that is no register or number."""
    try:
        return source_of(draft.arch, node, draft.scope)
    except AsmError:
        return None


def _compare(draft: Draft, node: Node, other: Node) -> None:
    ours, theirs = _source(draft, node), _source(draft, other)
    if ours is None or theirs is None or isinstance(ours.value, Constant) or isinstance(theirs.value, Constant):
        return
    if not _same_register(ours.value, theirs.value):
        names = _register_text(ours.value), _register_text(theirs.value)
        raise AsmError(f"{names[0]} does not fit here; the encoding holds {names[1]}", column=node.column)
    if (ours.neg, ours.abs, ours.sext) != (theirs.neg, theirs.abs, theirs.sext):
        raise AsmError("neg, abs or sext has no effect on this operand", column=node.column)


def _same_register(ours: Register, theirs: Register) -> bool:
    same_count = None in (ours.count, theirs.count) or ours.count == theirs.count
    same_half = not ours.half or ours.half == theirs.half
    return same_count and same_half and (ours.code, ours.acc) == (theirs.code, theirs.acc)


def _register_text(register: Register) -> str:
    kind = "accumulation register" if register.acc else "vector register" if register.code > 255 else "scalar register"
    number = register.code & 0xFF if register.code > 255 else register.code
    half = {"l": " lower half", "h": " upper half"}.get(register.half, "")
    count = register.count or 1
    return f"{kind} {number}{half}" if count == 1 else f"{count} {kind}s from {number} on"


# --- entry ------------------------------------------------------------------------------------------------------------


def _drafts(arch: Arch, halves: Sequence[Half], scope: Scope, lanes: int) -> Iterator[Draft]:
    if len(halves) > 1:
        yield from _dual_drafts(arch, halves, scope, lanes)
        return
    asked = wants(_split_parts(arch, halves[0])[1])
    for c in _choose(arch, halves[0], asked):
        yield Draft(arch, c.leaf, c.opcode, c.layout, scope, lanes)
        if "_atomic_" in c.opcode.mnemonic and "th" in c.layout.field_names:  # some hints come with and without return
            yield Draft(arch, c.leaf, c.opcode, c.layout, scope, lanes, returning=True)


def _dual_drafts(arch: Arch, halves: Sequence[Half], scope: Scope, lanes: int) -> Iterator[Draft]:
    names = _dual_names(arch.tables)
    if not names:
        raise AsmError(f"{arch.name} has no dual-issue instructions", column=halves[1].column)
    for half in halves:
        if half.mnemonic not in names:
            hint = did_you_mean(half.mnemonic, names)
            raise AsmError(f"{half.mnemonic!r} is no half of a dual-issue pair{hint}", column=half.column)
    if len(halves) > 2:
        raise AsmError("a dual-issue instruction has two halves", column=halves[2].column)
    opcode, opcode_y = names[halves[0].mnemonic][0], names[halves[1].mnemonic][1]
    table = encodings(arch.tables)["VOPD"].by_name
    if opcode.value > table["opx"].mask:
        raise AsmError(f"{opcode.mnemonic} can be the second half only", column=halves[0].column)
    leaf = next(leaf for leaf in _leaves(arch) if leaf.base.name == "VOPD")
    for layout, _ in _layouts(arch, leaf):
        values = {"opx": opcode.value, "opy": opcode_y.value}
        yield Draft(arch, leaf, opcode, layout, scope, lanes, opcode_y=opcode_y, values=values)


def assemble_halves(arch: Arch, halves: Sequence[Half], scope: Scope, lanes: int) -> Instruction:
    """The instruction that parsed text means, in its shortest encoding. Raises AsmError with the column."""
    try:
        return _assemble_halves(arch, halves, scope, lanes)
    except RecursionError:
        raise AsmError("the expression is nested too deeply", column=halves[0].column) from None


def _assemble_halves(arch: Arch, halves: Sequence[Half], scope: Scope, lanes: int) -> Instruction:
    failure: _Failure | None = None
    for draft in _drafts(arch, halves, scope, lanes):
        try:
            return _attempt(draft, halves)
        except _Failure as error:
            place = (error.stage, error.error.column)
            if failure is None or place >= (failure.stage, failure.error.column):
                failure = error
    assert failure is not None
    raise failure.error


def assemble_instruction(arch: Arch, text: str, *, wave_size: int | None = None) -> bytes:
    """The bytes of one instruction in LLVM syntax. Raises AsmError."""
    line = parse_line(text)
    if line.directive is not None or line.labels or not line.halves:
        raise AsmError("expected one instruction", column=1)
    lanes = wave_size or arch.wave_sizes[0]
    inst = assemble_halves(arch, line.halves, Scope(), lanes)
    return inst.raw.to_bytes(inst.size, "little")


__all__ = ["assemble_halves", "assemble_instruction", "candidates", "mnemonics", "register_of"]
