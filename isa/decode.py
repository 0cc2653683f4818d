"""Decoding: bytes to Instruction, by two table look-ups.

The top nine bits of the first dword choose a node (every format's fixed prefix lies inside them), the node's mask
over the whole dword chooses opcode and base encoding, and markers in the source fields choose the variant. The
tables are built once per family and checked: no two (encoding, opcode) pairs may claim the same bit pattern.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from mockgpu.isa.arch import Arch
from mockgpu.isa.encoding import MUST_BE_ZERO, Encoding, base_encodings, encodings
from mockgpu.isa.errors import DecodeError
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.opcode import Opcode, dual_opcodes, opcodes
from mockgpu.isa.registers import DPP8, DPP8_FI, DPP16, LITERAL, SDWA
from mockgpu.isa.table_cache import cached

_PREFIX_SHIFT = 23
_MEMO_LIMIT = 1 << 16
_SIZES = (4, 8, 12, 16)
_LITERAL_FIELDS = ("src0", "src1", "src2", "ssrc0", "ssrc1", "srcx0", "srcy0")
_MARKERS = {DPP8: "DPP8", DPP8_FI: "DPP8", SDWA: "SDWA", DPP16: "DPP"}
_PREFIX_OPCODES = ("V_MFMA_LD_SCALE_B32",)  # the first half of a 16-byte scaled matrix instruction, never alone
_UNKNOWN = cast(None, object())  # stands for "not decoded before" beside None, "longer than this"

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Leaf:
    """One opcode of one base encoding with the variants it may take. VOPD has a single leaf and no opcode."""

    opcode: Opcode | None
    base: Encoding
    literal: Encoding | None
    needs_literal: bool
    literal_fields: tuple[tuple[int, int], ...]  # (shift, mask) of the sources that may name a literal
    source0: tuple[int, int] | None  # (shift, mask) of the field that holds DPP and SDWA markers
    by_marker: Mapping[int, Encoding]
    must_be_zero: int


@dataclass(frozen=True, slots=True)
class Node:
    """Leaves behind one nine-bit prefix, by the first dword under ``mask``."""

    mask: int
    leaves: Mapping[int, Leaf]


class OverlapError(AssertionError):
    """Two opcodes of a family claim the same bit pattern: the generated tables contradict themselves."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A leaf and the bits of the identifying dword that lead to it. The identifying dword is the first one."""

    mask: int
    bits: int
    leaf: Leaf

    def overlaps(self, other: Claim) -> bool:
        """Whether some dword satisfies both claims."""
        common = self.mask & other.mask
        return self.bits & common == other.bits & common


def _claim(encoding: Encoding, value: int) -> tuple[int, int]:
    """(mask, bits) that the fixed fields and the opcode require of the first dword."""
    mask = bits = 0
    for f in encoding.fields:
        if (f.fixed is not None or f.name == "op") and f.lo < 32:
            mask |= f.mask << f.lo
            bits |= (f.fixed if f.fixed is not None else value) << f.lo
    return mask, bits


# RDNA manuals, section "DPP": not with 64-bit data, nor with these.
_NO_DPP = ("V_PERMLANE", "V_SWAP", "V_READLANE", "V_WRITELANE", "V_DIV_F", "V_DIV_SCALE")


def _takes_dpp(family: str, opcode: Opcode) -> bool:
    if family == "cdna":
        return True
    wide = any(spec.bits > 32 and spec.fmt != "FMT_NUM_M64" for spec in opcode.operands)
    return not wide and not opcode.name.startswith(_NO_DPP)


def _markers(family: str, encoding: Encoding, opcode: Opcode) -> Mapping[int, Encoding]:
    """The DPP and SDWA variants of an opcode by the value of source 0 that announces them."""
    table = encodings(family)
    found: dict[int, Encoding] = {}
    for suffixes, codes in _MARKED:
        variant = next((table[encoding.name + s] for s in suffixes if encoding.name + s in table), None)
        if variant is not None and opcode.name in _names(variant) and _takes_dpp(family, opcode):
            found |= dict.fromkeys(codes, variant)
    return found


_MARKED = (
    (("_DPP16",), (DPP16,)),
    (("_DPP8",), (DPP8, DPP8_FI)),
    (("_SDWA", "_SDWA_SDST"), (SDWA,)),
)


def _span(encoding: Encoding, name: str) -> tuple[int, int]:
    f = encoding.by_name[name]
    return f.lo, f.mask


def _leaf(family: str, encoding: Encoding, opcode: Opcode | None, needs_literal: bool = False) -> Leaf:
    used = {"srcx0", "srcy0"}
    if opcode is not None:
        used = {spec.field for spec in opcode.operands if spec.optype != "OPR_SENDMSG_RTN"}
    sources = [n for n in _LITERAL_FIELDS if n in encoding.by_name and n in used]
    return Leaf(
        opcode=opcode,
        base=encoding,
        literal=encodings(family).get(f"{encoding.name}_LIT"),
        needs_literal=needs_literal,
        literal_fields=tuple(_span(encoding, n) for n in sources),
        source0=_span(encoding, "src0") if "src0" in used and "src0" in encoding.by_name else None,
        by_marker=_markers(family, encoding, opcode) if opcode is not None and "src0" in used else {},
        must_be_zero=MUST_BE_ZERO.get((family, encoding.name), 0),
    )


@functools.cache
def _names(encoding: Encoding) -> frozenset[str]:
    return frozenset(member.name for member in encoding.members)


def opcode_claims(family: str) -> Iterator[Claim]:
    """Every opcode of every base encoding; opcodes that only the literal variant has always carry a literal."""
    table, bases = opcodes(family), base_encodings(family)
    plain = {(m.table, m.name) for e in bases for m in e.members}
    for encoding in bases:
        if "op" not in encoding.by_name or encoding.by_name["op"].lo >= 32:  # the first dword holds no opcode
            single = encoding.members[0] if len(encoding.members) == 1 else None
            opcode = table[single.table, single.name] if single is not None else None
            yield Claim(*_claim(encoding, 0), _leaf(family, encoding, opcode))
            continue
        literal = encodings(family).get(f"{encoding.name}_LIT")
        only = [m for m in literal.members if (m.table, m.name) not in plain] if literal else []
        for member in (*encoding.members, *only):
            if member.name in _PREFIX_OPCODES:
                continue
            opcode = table[member.table, member.name]
            leaf = _leaf(family, encoding, opcode, needs_literal=member in only)
            yield Claim(*_claim(encoding, member.value), leaf)


def _by_prefix(claims: Iterable[Claim]) -> list[list[Claim]]:
    groups: list[list[Claim]] = [[] for _ in range(512)]
    for claim in claims:
        fixed, value = claim.mask >> _PREFIX_SHIFT, claim.bits >> _PREFIX_SHIFT
        for prefix in range(512):
            if prefix & fixed == value:
                groups[prefix].append(claim)
    return groups


def build_tree(claims: Iterable[Claim]) -> tuple[tuple[Node, ...], ...]:
    """Nodes by nine-bit prefix. Raises OverlapError when two claims can match the same dword.

    SOP1, SOPC and SOPP lie inside the prefix of SOPK, and that inside the one of SOP2: no opcode of the wider format
    may use the narrower one's prefix, which is checked like any other overlap.
    """
    return tuple(_nodes(group) for group in _by_prefix(claims))


def _nodes(group: list[Claim]) -> tuple[Node, ...]:
    by_mask: dict[int, dict[int, Claim]] = {}
    for claim in group:
        same_mask = by_mask.setdefault(claim.mask, {})
        _refuse_overlap(claim, same_mask.get(claim.bits))
        same_mask[claim.bits] = claim
    for one, other in itertools.combinations(by_mask.values(), 2):
        for claim, rival in itertools.product(one.values(), other.values()):
            _refuse_overlap(claim, rival if claim.overlaps(rival) else None)
    order = sorted(by_mask.items(), reverse=True)
    return tuple(Node(mask, {bits: claim.leaf for bits, claim in found.items()}) for mask, found in order)


def _refuse_overlap(claim: Claim, rival: Claim | None) -> None:
    if rival is not None:
        names = f"{claim.leaf.opcode or claim.leaf.base.name} and {rival.leaf.opcode or rival.leaf.base.name}"
        raise OverlapError(f"{names} both claim {claim.bits | rival.bits:#010x}")


@functools.cache
def decode_tree(family: str) -> tuple[tuple[Node, ...], ...]:
    """The decode tables of a family: for each nine-bit prefix its nodes, checked for overlaps."""
    return cached("decode", family, lambda: build_tree(opcode_claims(family)), _References(family))


class _References:
    """Opcodes and encodings, which the decode tables refer to and do not own."""

    def __init__(self, family: str):
        self.family = family

    def key(self, item: object) -> tuple[str, ...] | None:
        """How the decode tables name an opcode or an encoding."""
        if isinstance(item, Opcode):
            return item.table, item.name
        return (item.name,) if isinstance(item, Encoding) else None

    def find(self, key: tuple[str, ...]) -> object:
        """The opcode or encoding of a key."""
        if len(key) == 1:
            return encodings(self.family)[key[0]]
        return opcodes(self.family)[key[0], key[1]]


class _Decoder:
    """Decodes for one architecture; remembers what it has decoded by the bytes."""

    def __init__(self, arch: Arch):
        self.arch = arch
        self.tree = decode_tree(arch.tables)
        self.lacking = frozenset(name for _, name in opcodes(arch.tables) if not arch.has_opcode(name))
        self.memo: dict[int, dict[int, Instruction | None]] = {size: {} for size in _SIZES}

    def decode(self, data: Bytes, offset: int) -> Instruction:
        length = len(data)
        for size in _SIZES:
            if offset + size > length:
                break
            raw = int.from_bytes(data[offset : offset + size], "little")
            found = self.memo[size].get(raw, _UNKNOWN)
            if found is _UNKNOWN:
                break
            if found is not None:
                return found
        return self._remember(self._decode(data, offset))

    def _remember(self, instruction: Instruction) -> Instruction:
        for size in _SIZES:
            memo = self.memo[size]
            if len(memo) >= _MEMO_LIMIT:
                memo.clear()
            if size == instruction.size:
                memo[instruction.raw] = instruction
                return instruction
            memo[instruction.raw & (1 << 8 * size) - 1] = None  # longer than this
        raise AssertionError(f"instruction of {instruction.size} bytes")

    def _decode(self, data: Bytes, offset: int) -> Instruction:
        if offset < 0 or offset + 4 > len(data):
            raise self._error(f"instruction stream ends: {max(0, len(data) - offset)} bytes left, need 4", offset, None)
        word = int.from_bytes(data[offset : offset + 4], "little")
        leaf = self._leaf(word, offset)
        raw = self._take(data, offset, leaf.base.size, word)
        layout = self._variant(leaf, raw, offset)
        raw = self._take(data, offset, layout.size, word)
        if any(raw >> f.lo & f.mask != f.fixed for f in layout.fields if f.fixed is not None):
            raise self._error(f"the fixed bits of {layout.name} do not match", offset, word)
        fields = {f.name: raw >> f.lo & f.mask for f in layout.fields if f.fixed is None}
        opcode, opcode_y = self._opcodes(leaf, fields, offset, word)
        literal = fields.get("literal")
        return Instruction(self.arch, opcode, layout, MappingProxyType(fields), literal, raw, layout.size, opcode_y)

    def _leaf(self, word: int, offset: int) -> Leaf:
        nodes = self.tree[word >> _PREFIX_SHIFT]
        for node in nodes:
            leaf = node.leaves.get(word & node.mask)
            if leaf is None:
                continue
            if word & leaf.must_be_zero:
                break
            if leaf.opcode is not None and leaf.opcode.name in self.lacking:
                raise self._error(f"{leaf.opcode.mnemonic} does not exist on this target", offset, word)
            return leaf
        reason = "illegal opcode" if nodes else "no instruction format has this prefix"
        raise self._error(reason, offset, word)

    def _take(self, data: Bytes, offset: int, size: int, word: int) -> int:
        if offset + size > len(data):
            left = len(data) - offset
            raise self._error(f"instruction stream ends: {left} bytes left, need {size}", offset, word)
        return int.from_bytes(data[offset : offset + size], "little")

    def _variant(self, leaf: Leaf, raw: int, offset: int) -> Encoding:
        """The layout of the instruction, from the markers in its source fields."""
        if leaf.needs_literal and leaf.literal is not None:
            return leaf.literal
        if leaf.source0 is not None:
            marker = raw >> leaf.source0[0] & leaf.source0[1]
            if marker in leaf.by_marker:
                return leaf.by_marker[marker]
            if marker in _MARKERS and leaf.source0[1] > 0xFF:
                raise self._error(f"{_MARKERS[marker]} is not allowed here", offset, raw & 0xFFFFFFFF)
        if leaf.opcode is None and self._is_dual_literal(leaf, raw) and leaf.literal is not None:
            return leaf.literal
        if any(raw >> shift & mask == LITERAL for shift, mask in leaf.literal_fields):
            if leaf.literal is None:
                raise self._error("a literal is not allowed here", offset, raw & 0xFFFFFFFF)
            return leaf.literal
        if leaf.base.name == "MIMG" and raw & 1:
            return encodings(self.arch.tables)["MIMG_NSA"]
        return leaf.base

    def _is_dual_literal(self, leaf: Leaf, raw: int) -> bool:
        """Whether a VOPD half always carries a literal."""
        halves = (raw >> f.lo & f.mask for f in leaf.base.fields if f.kind == "op")
        return any(number in dual_literals(self.arch.tables) for number in halves)

    def _opcodes(self, leaf: Leaf, fields: Mapping[str, int], offset: int, word: int) -> tuple[Opcode, Opcode | None]:
        if leaf.opcode is not None:
            return leaf.opcode, None
        if "opx" not in fields:
            return self._late_opcode(leaf, fields, offset, word), None
        table = dual_opcodes(self.arch.tables)
        if fields["opx"] not in table or fields["opy"] not in table:
            raise self._error("illegal dual-issue opcode", offset, word)
        return table[fields["opx"]][0], table[fields["opy"]][1]

    def _late_opcode(self, leaf: Leaf, fields: Mapping[str, int], offset: int, word: int) -> Opcode:
        """The opcode of a format that keeps it beyond the first dword."""
        for member in leaf.base.members:
            if member.value == fields["op"] and member.name not in self.lacking:
                return opcodes(self.arch.tables)[member.table, member.name]
        raise self._error("illegal opcode in the second half", offset, word)

    def _error(self, reason: str, offset: int, word: int | None) -> DecodeError:
        return DecodeError(reason, offset=offset, word=word, arch=self.arch.name)


@functools.cache
def dual_literals(family: str) -> frozenset[int]:
    """Numbers of the dual-issue opcodes that always carry a literal: multiply-add with a constant."""
    return frozenset(number for number, (x, _) in dual_opcodes(family).items() if "_FMA" in x.name and "K_" in x.name)


@functools.cache
def _decoder(arch: Arch) -> _Decoder:
    return _Decoder(arch)


def decode(arch: Arch, data: Bytes, offset: int = 0) -> Instruction:
    """The instruction at byte ``offset`` of ``data``.

    Raises DecodeError for an illegal encoding and for a stream that ends inside the instruction. Bits that no field
    covers are ignored, as hardware does, but stay in ``Instruction.raw``.
    """
    return _decoder(arch).decode(data, offset)


def decode_all(arch: Arch, data: Bytes, start: int = 0, end: int | None = None) -> Iterator[tuple[int, Instruction]]:
    """(byte offset, instruction) of a straight run of code from ``start`` to ``end``."""
    offset = start
    stop = len(data) if end is None else end
    while offset < stop:
        instruction = decode(arch, data, offset)
        yield offset, instruction
        offset += instruction.size
