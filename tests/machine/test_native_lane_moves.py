"""DS permutes and swizzles have native forms that agree with the oracle for any pattern, address and EXEC."""

from __future__ import annotations

import numpy as np
import pytest
from machine.test_native_memory import FORMATS, TARGETS, MemoryLab, drawn, masks, prepared, set_exec

from mockgpu.isa.arch import get_arch
from mockgpu.isa.decode import decode
from mockgpu.isa.instruction import Instruction

MOVES = ("ds_swizzle_b32", "ds_permute_b32", "ds_bpermute_b32", "ds_bpermute_fi_b32")
#: Offsets: masks, quads, rotations, transforms of the swizzle; steps of the permutes.
OFFSETS = (0, 4, 0x41F, 0x7C1F, 0x80B1, 0xC0A3, 0xC4E1, 0xE000, 0xE01F, 0xE00A, 0xFFFF)


def moves(arch: str, lanes: int) -> list[Instruction]:
    """Every move with every offset."""
    found = {i.mnemonic: i for i in drawn(arch, lanes, FORMATS["lds"], 8) if i.mnemonic in MOVES}
    target = get_arch(arch)
    raw = [i.raw.to_bytes(i.size, "little")[2:] for i in found.values()]
    return [decode(target, offset.to_bytes(2, "little") + rest) for rest in raw for offset in OFFSETS]


@pytest.mark.parametrize(("arch", "lanes"), TARGETS)
def test_lane_moves(arch: str, lanes: int) -> None:
    lab, rng = MemoryLab(arch, lanes), np.random.default_rng(lanes)
    instructions = moves(arch, lanes)
    assert len(prepared(lab, instructions)) == len(instructions) >= 3 * len(OFFSETS)
    for n, i in enumerate(instructions):
        for k, mask in enumerate(masks(lanes, rng)):
            start = lab.start(i, n + k)
            if k % 2:
                start.vgpr[i.operand("addr").index, 0] = 4 * rng.permutation(lanes)
            set_exec(start, mask)
            assert not lab.run(i, start, n)
