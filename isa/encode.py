"""Encoding: field values to bytes, the inverse of decoding."""

from __future__ import annotations

from collections.abc import Mapping

from mockgpu.isa.arch import Arch
from mockgpu.isa.decode import decode
from mockgpu.isa.encoding import Encoding, encodings
from mockgpu.isa.errors import MockGPUError
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.opcode import Opcode


class EncodeError(MockGPUError, ValueError):
    """Field values that do not make an instruction."""


def encode(instruction: Instruction) -> bytes:
    """The bytes of an instruction. Bits outside its fields, which hardware ignores, are zero."""
    return encode_fields(instruction.layout, instruction.fields)


def encode_fields(layout: Encoding, fields: Mapping[str, int]) -> bytes:
    """The bytes of a layout with these field values; absent fields are zero. Raises EncodeError."""
    unknown = fields.keys() - layout.field_names
    if unknown:
        raise EncodeError(f"{layout.name} has no field {', '.join(sorted(unknown))}")
    raw = 0
    for f in layout.fields:
        value = f.fixed if f.fixed is not None else fields.get(f.name, 0)
        if not 0 <= value <= f.mask:
            raise EncodeError(f"{layout.name}.{f.name}: {value} does not fit {f.hi - f.lo + 1} bits")
        raw |= value << f.lo
    return raw.to_bytes(layout.size, "little")


def build(arch: Arch, opcode: Opcode, encoding: str | None = None, /, **fields: int) -> Instruction:
    """An instruction of an opcode from raw field values, in its base encoding unless one is named.

    Raises EncodeError for values that do not fit and DecodeError when they make no legal instruction.
    """
    table = encodings(arch.tables)
    name = encoding or opcode.format
    if name not in table:
        raise EncodeError(f"{arch.name} has no encoding {name}; it has {', '.join(table)}")
    values = {"op": opcode.value, **fields} if "op" in table[name].by_name else fields
    return decode(arch, encode_fields(table[name], values))
