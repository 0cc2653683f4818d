"""Listings: machine code as text that assembles to the same bytes, with labels for branch targets."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mockgpu.isa.arch import Arch
from mockgpu.isa.asm_error import AsmError
from mockgpu.isa.asm_instruction import assemble_instruction
from mockgpu.isa.decode import Bytes, decode
from mockgpu.isa.disasm import disassemble
from mockgpu.isa.errors import DecodeError
from mockgpu.isa.instruction import Instruction

_BRANCH = "OPR_LABEL"
_SIGN = 0x8000


@dataclass(frozen=True, slots=True)
class ListingLine:
    """One instruction, or bytes that are none.

    ``text`` assembles to ``data``; where the instruction's own text does not, it is a ``.long`` and ``note`` holds the
    instruction. ``reason`` says why bytes do not decode.
    """

    address: int
    data: bytes
    text: str
    label: str = ""
    note: str = ""
    reason: str = ""
    instruction: Instruction | None = None


def branch_target(inst: Instruction, address: int) -> int | None:
    """The address that a branch at ``address`` goes to; None for other instructions."""
    spec = inst.opcode.operand("simm16")
    if spec is None or spec.optype != _BRANCH:
        return None
    value = inst.fields["simm16"]
    return address + 4 + 4 * (value - 2 * _SIGN if value & _SIGN else value)


@functools.lru_cache(maxsize=1 << 16)
def _returns(arch: Arch, text: str, data: bytes, lanes: int) -> bool:
    """Whether a text assembles to these bytes."""
    try:
        return assemble_instruction(arch, text, wave_size=lanes) == data
    except AsmError:
        return False


def _walk(arch: Arch, data: Bytes, base: int) -> Iterator[tuple[int, bytes, Instruction | DecodeError]]:
    """(address, bytes, instruction or why there is none) from the start on; a bad dword is stepped over."""
    offset = 0
    while offset < len(data):
        found: Instruction | DecodeError
        try:
            found = decode(arch, data, offset)
            size = found.size
        except DecodeError as error:
            found, size = error, min(4, len(data) - offset)
        yield base + offset, bytes(data[offset : offset + size]), found
        offset += size


def listing(
    arch: Arch,
    data: Bytes,
    *,
    base: int = 0,
    wave_size: int | None = None,
    names: Mapping[int, str] | None = None,
) -> list[ListingLine]:
    """The lines of a piece of code at virtual address ``base``. ``names`` are labels by address."""
    lanes = wave_size or arch.wave_sizes[0]
    pieces = list(_walk(arch, data, base))
    labels = _labels(pieces, names or {})
    return [_line(arch, piece, labels, lanes) for piece in pieces]


def _labels(
    pieces: Sequence[tuple[int, bytes, Instruction | DecodeError]], names: Mapping[int, str]
) -> Mapping[int, str]:
    """Names of the addresses that branches go to, where an instruction begins there."""
    starts = {address for address, _, _ in pieces}
    found = {address: name for address, name in names.items() if address in starts}
    for address, _, inst in pieces:
        target = branch_target(inst, address) if isinstance(inst, Instruction) else None
        if target in starts and target is not None:
            found.setdefault(target, f"L_{target:04x}")
    return found


def _line(
    arch: Arch, piece: tuple[int, bytes, Instruction | DecodeError], labels: Mapping[int, str], lanes: int
) -> ListingLine:
    address, data, inst = piece
    label = labels.get(address, "")
    if isinstance(inst, DecodeError):
        return ListingLine(address, data, _raw_text(data), label, reason=inst.reason)
    text = disassemble(inst, wave_size=lanes)
    if not _returns(arch, text, data, lanes):
        return ListingLine(address, data, _raw_text(data), label, note=text, instruction=inst)
    target = branch_target(inst, address)
    if target in labels and target is not None:
        text = f"{text.rpartition(' ')[0]} {labels[target]}"
    return ListingLine(address, data, text, label, instruction=inst)


def _raw_text(data: bytes) -> str:
    if len(data) % 4:
        return ".byte " + ", ".join(f"{byte:#04x}" for byte in data)
    words = (int.from_bytes(data[n : n + 4], "little") for n in range(0, len(data), 4))
    return ".long " + ", ".join(f"{word:#010x}" for word in words)


def line_text(line: ListingLine, column: int = 60) -> str:
    """A line as shown: text, then address and dwords in a comment, as LLVM's objdump does."""
    words = " ".join(f"{int.from_bytes(line.data[n : n + 4], 'little'):08X}" for n in range(0, len(line.data), 4))
    extra = f"  {line.note}" if line.note else f"  {line.reason}" if line.reason else ""
    return f"  {line.text:<{column}} // {line.address:08X}: {words}{extra}"
