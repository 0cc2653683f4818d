"""Random instructions of every opcode, drawn from the decoder's own tables so that a new opcode is covered at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from mockgpu.isa.arch import Arch
from mockgpu.isa.decode import Leaf, decode_tree
from mockgpu.isa.encode import encode_fields
from mockgpu.isa.encoding import Encoding, Field, Member, encodings
from mockgpu.isa.opcode import OperandSpec, dual_opcodes
from mockgpu.isa.registers import DPP8, DPP8_FI, DPP16, EXEC_LO, LITERAL, SDWA

_MODIFIERS = ("neg", "abs", "clmp", "omod", "opsel", "neg_hi")
_DPP_CONTROLS = (*range(256), *range(0x101, 0x110), *range(0x111, 0x120), *range(0x121, 0x130), 0x140, 0x141)
_RDNA_DPP = (*range(0x150, 0x160), *range(0x160, 0x170))
_CDNA_DPP = (0x130, 0x134, 0x138, 0x13C, 0x142, 0x143)


def leaves(arch: Arch) -> list[Leaf]:
    """Every opcode of an architecture, once, in a fixed order."""
    found: dict[object, Leaf] = {}
    for nodes in decode_tree(arch.tables):
        for node in nodes:
            for leaf in node.leaves.values():
                if leaf.opcode is None and leaf.base.members and not any(map(_exists(arch), leaf.base.members)):
                    continue
                if leaf.opcode is None or arch.has_opcode(leaf.opcode.name):
                    found.setdefault(leaf.opcode or leaf.base.name, leaf)
    return sorted(found.values(), key=lambda leaf: (leaf.base.name, leaf.opcode.name if leaf.opcode else ""))


def _exists(arch: Arch) -> Callable[[Member], bool]:
    return lambda member: arch.has_opcode(member.name)


def layouts(leaf: Leaf, arch: Arch) -> list[Encoding]:
    """The layouts an opcode may take."""
    if leaf.needs_literal and leaf.literal is not None:
        return [leaf.literal]
    result = [leaf.base, *dict.fromkeys(leaf.by_marker.values())]
    if leaf.literal is not None and (leaf.literal_fields or leaf.opcode is None):
        result.append(leaf.literal)
    if leaf.base.name == "MIMG":
        result.append(encodings(arch.tables)["MIMG_NSA"])
    return result


def random_instruction(rng: random.Random, arch: Arch, leaf: Leaf, layout: Encoding, modifiers: bool) -> bytes:
    """The bytes of one instruction of this opcode and layout, with random operands and modifiers."""
    specs = {spec.field: spec for spec in leaf.opcode.operands} if leaf.opcode else _dual_specs(arch)
    values = {f.name: _value(rng, arch, f, specs, modifiers) for f in layout.fields if f.fixed is None}
    for name, mask in _meaningful(leaf, specs).items():
        if name in values:
            values[name] &= mask
    if leaf.opcode is not None and "op" in values:
        values["op"] = leaf.opcode.value
    if leaf.opcode is None:
        _choose_late_opcodes(rng, arch, layout, values)
    _set_markers(rng, leaf, layout, values)
    if layout.base in ("FLAT", "VFLAT"):  # flat addresses take no scalar part
        values["saddr"] = arch.null_register or 0
    if leaf.opcode is not None and "V_CMPX" in leaf.opcode.name and "vdst" in values:
        values["vdst"] = EXEC_LO
    return encode_fields(layout, values)


def _meaningful(leaf: Leaf, specs: dict[str, OperandSpec]) -> dict[str, int]:
    """The bits of VOP3 modifiers that act on some operand of the opcode."""
    if leaf.opcode is None or leaf.opcode.format not in ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VINTERP"):
        return {}
    sources = [specs.get(f"src{n}") or specs.get(f"vsrc{n}") for n in range(3)]
    signs = [bool(s and s.fmt.endswith(("F16", "F32", "F64"))) for s in sources]
    halves = [bool(s and s.bits == 16) for s in (*sources, specs.get("vdst"))]
    floats = sum(1 << n for n, flag in enumerate(signs) if flag)
    result: dict[str, int] = {f"src{n}_{name}": int(flag) for n, flag in enumerate(signs) for name in ("neg", "abs")}
    return result | {"neg": floats, "abs": floats, "opsel": sum(1 << n for n, flag in enumerate(halves) if flag)}


def random_program(rng: random.Random, arch: Arch, count: int, modifiers: bool = True) -> Iterator[tuple[Leaf, bytes]]:
    """``count`` random instructions, opcodes drawn evenly."""
    every = leaves(arch)
    for _ in range(count):
        leaf = rng.choice(every)
        yield leaf, random_instruction(rng, arch, leaf, rng.choice(layouts(leaf, arch)), modifiers)


def _dual_specs(arch: Arch) -> dict[str, OperandSpec]:
    return {spec.field: spec for pair in dual_opcodes(arch.tables).values() for op in pair for spec in op.operands}


def _choose_late_opcodes(rng: random.Random, arch: Arch, layout: Encoding, values: dict[str, int]) -> None:
    if layout.members:
        members = [member for member in layout.members if arch.has_opcode(member.name)]
        values["op"] = int(rng.choice(members).value)
    if "opx" not in values:
        return
    literal = layout.name.endswith("_LIT")
    values["opx"] = rng.choice([n for n in dual_opcodes(arch.tables) if n < 16 and (literal or n not in (1, 2))])
    values["opy"] = rng.choice([n for n in dual_opcodes(arch.tables) if literal or n not in (1, 2)])


def _set_markers(rng: random.Random, leaf: Leaf, layout: Encoding, values: dict[str, int]) -> None:
    if "nsa" in values:
        values["nsa"] = int(layout.name == "MIMG_NSA")
    # LLVM misreads DPP words whose top byte is zero, so no word is drawn like that.
    for name in ("row_mask", "lane_sel_7"):
        if name in values:
            values[name] |= 1
    if "vsrc0" in values and "src0" in values:
        code = DPP16 if "dpp" in values else SDWA if "src0_sel" in values else rng.choice((DPP8, DPP8_FI))
        values["src0"] = code
    elif layout is leaf.literal and not leaf.needs_literal:
        names = [f.name for f in layout.fields if (f.lo, f.mask) in leaf.literal_fields]
        values[rng.choice(names)] = LITERAL


def _value(rng: random.Random, arch: Arch, f: Field, specs: dict[str, OperandSpec], modifiers: bool) -> int:
    spec = specs.get(f.name)
    if f.kind in ("src", "ssrc", "sgpr"):
        named = spec is not None or f.name in ("saddr", "soffset", "rsrc", "samp")
        return _scalar_or_vector(rng, arch, f, spec) if named else 0
    if f.kind in ("sbase", "srsrc"):
        return rng.randrange(0, 24) if spec or f.name == "ssamp" else 0
    if f.kind in ("vgpr", "vdsty"):
        used = spec is not None or f.name.startswith(("vsrc0", "vaddr"))
        return rng.randrange(0, min(f.mask, 200)) & ~1 if used else 0
    if f.name == "dpp":
        return rng.choice(_DPP_CONTROLS + (_CDNA_DPP if arch.family == "cdna" else _RDNA_DPP))
    if f.name in _MODIFIERS:
        return rng.choice((0, rng.randrange(f.mask + 1))) if modifiers else 0
    if f.name.endswith("_sel") or f.name == "dst_unused":  # the last value is reserved
        return rng.randrange(f.mask)
    if f.name in ("opsel_hi", "opsel_hi2"):
        return rng.choice((f.mask, rng.randrange(f.mask + 1))) if modifiers else f.mask
    return rng.choice((0, rng.randrange(f.mask + 1), rng.randrange(min(f.mask, 15) + 1)))


def _scalar_or_vector(rng: random.Random, arch: Arch, f: Field, spec: OperandSpec | None) -> int:
    """An operand code that fits the field, aligned as wide scalar operands must be."""
    regs = max(1, (spec.bits + 31) // 32) if spec else (4 if f.name in ("rsrc", "samp") else 1)
    step = 1 if regs == 1 else 2 if regs == 2 else 4
    choices = [rng.randrange(0, 104 - regs) // step * step, 106]
    optype = spec.optype if spec else ""
    if f.kind in ("src", "ssrc") and f.name not in ("rsrc", "samp", "soffset") and not optype.startswith("OPR_SREG"):
        choices += [rng.randrange(128, 209), rng.randrange(240, 249)]
    if f.kind == "src" and f.name not in ("rsrc", "samp"):
        vector = 256 + rng.randrange(0, 250 - regs) // 2 * 2
        choices += [vector, vector, vector]
        if "VGPR" in optype:
            choices = [vector]
    if f.name in ("saddr", "soffset"):
        choices += [127 if arch.null_register is None else 124]
    return rng.choice(choices[:1] if f.name in ("rsrc", "samp") else choices)
