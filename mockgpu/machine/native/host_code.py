"""The host's instructions in a compiled handler, for people: needs capstone, and is loaded for nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mockgpu.machine.native.host import Target
from mockgpu.machine.native.link import Image

_SHOWN_BYTES = 16  # of a constant


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction: its offset in bytes from the function's start, its bytes, its text, and what it reads."""

    offset: int
    code: bytes
    text: str
    constant: bytes = b""


def listing(image: Image, symbol: str, target: Target) -> list[Line]:
    """The instructions of a function of an image. Raises KeyError for a name that the image has not."""
    start, size = image.symbols[symbol], image.sizes[symbol]
    return list(_lines(image.data, start, size, target))


def _lines(data: bytes, start: int, size: int, target: Target) -> Iterator[Line]:
    decoder = _decoder(target)
    end = 0
    for found in decoder.disasm(data[start : start + size], 0):
        text = f"{found.mnemonic} {found.op_str}".rstrip()
        yield Line(found.address, bytes(found.bytes), text, _constant(found, data, start) if target.x86 else b"")
        end = found.address + found.size
    if end < size:  # an instruction that capstone does not know
        yield Line(end, data[start + end : start + size], f".byte {data[start + end : start + size].hex(' ')}")


def _decoder(target: Target) -> Any:
    import capstone

    if target.x86:
        decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    else:
        decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    decoder.detail = True
    return decoder


def _constant(found: Any, data: bytes, start: int) -> bytes:
    """The constant that an x86 instruction reads from the image."""
    from capstone.x86 import X86_OP_MEM, X86_REG_RIP

    for operand in found.operands:
        if operand.type == X86_OP_MEM and operand.mem.base == X86_REG_RIP and found.mnemonic != "lea":
            at = start + found.address + found.size + operand.mem.disp
            return data[at : at + min(operand.size, _SHOWN_BYTES)]
    return b""
