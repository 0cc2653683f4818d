"""Reserved operand codes never read something: every format, every source field, every code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mockgpu.isa.arch import Arch, get_arch
from mockgpu.isa.canonical import canonical, table_opcodes
from mockgpu.isa.decode import decode
from mockgpu.isa.encode import encode_fields
from mockgpu.isa.errors import DecodeError
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.opcode import opcodes
from mockgpu.isa.registers import VGPR_BASE, Kind, operand_encodings
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.execute import build_step

NOTHING = (Kind.RESERVED, Kind.POPS, Kind.LDS_DIRECT)


def fields_with_codes(arch: Arch) -> Iterator[tuple[Instruction, str, int]]:
    """(instruction, field, largest value) for each kind of field that holds an operand code."""
    seen = set()
    for opcode in table_opcodes(arch):
        if not arch.has_opcode(opcode.name):
            continue
        instruction = canonical(arch, opcode)
        for operand in instruction.operands:
            layout = instruction.layout.by_name.get(operand.field)
            key = instruction.format, operand.field, operand.optype
            if layout is not None and layout.kind in ("src", "ssrc", "sgpr") and key not in seen:
                seen.add(key)
                yield instruction, operand.field, layout.mask


@pytest.mark.parametrize("target", ["gfx1100", "gfx1201", "gfx90a", "gfx950"])
def test_reserved_codes_are_illegal(target: str) -> None:
    arch = get_arch(target)
    codes = [n for n in range(VGPR_BASE) if operand_encodings(arch.family)[n].kind in NOTHING]
    accepted = []
    for instruction, field, largest in fields_with_codes(arch):
        for code in (c for c in codes if c <= largest):
            raw = encode_fields(instruction.layout, {**instruction.fields, field: code})
            try:
                build_step(decode(arch, raw), arch.wave_sizes[0])
            except (DecodeError, IllegalInstruction):
                continue
            accepted.append(f"{instruction.mnemonic} {field} {code}")
    assert not accepted


@pytest.mark.parametrize(
    ("target", "name"),
    [("gfx1100", "V_WMMA_F32_16X16X16_F16"), ("gfx942", "V_MFMA_F32_32X32X8_F16"), ("gfx1100", "V_PERMLANE64_B32_E32")],
)
def test_scalars_and_constants_are_illegal_where_only_vectors_are_allowed(target: str, name: str) -> None:
    arch = get_arch(target)
    (opcode,) = (o for (_, n), o in opcodes(arch.tables).items() if n == name)
    plain = canonical(arch, opcode)
    for code, what in ((4, "a scalar register"), (130, "a constant")):
        other = decode(arch, encode_fields(plain.layout, {**plain.fields, "src0": code}))
        with pytest.raises(IllegalInstruction, match=f"src0 is {what} where only vector registers are allowed"):
            build_step(other, arch.wave_sizes[0])
