"""Every opcode that has a native form gives the same state as the oracle, on every target and wave size."""

from __future__ import annotations

import random

import pytest
from support.native_lab import Lab
from support.random_code import layouts, leaves, random_instruction

from mockgpu.isa.arch import get_arch
from mockgpu.isa.decode import decode
from mockgpu.isa.errors import MockGPUError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.execute import build_step

#: Target, wave size, and of how many opcodes one is drawn: a part where the code is much the same as elsewhere.
TARGETS = [("gfx1100", 32, 1), ("gfx1201", 32, 1), ("gfx950", 64, 1), ("gfx942", 64, 3), ("gfx1100", 64, 3)]
#: MODE of the waves: that of HSA kernels; f32 and f16 flushed without IEEE and DX10_CLAMP.
MODES = {"hsa": 0x3C0, "flushed": 0x800000}
FORMATS = ["SOP", "VOP1", "VOP2", "VOPC", "VOP3", "VOP3P", "VOPD", "DS", "SMEM", "MEMORY"]
_INTEGER = ("SOP", "SMEM", "MEMORY", "DS", "VOPC")
_MEMORY = ("FLAT", "GLOBAL", "SCRATCH", "VFLAT", "VGLOBAL", "VSCRATCH")
#: Jumps to addresses in registers: the lab has no code there.
_JUMPS = ("s_setpc", "s_swappc", "s_rfe")
_CASES = [
    (arch, lanes, part, group, mode)
    for arch, lanes, part in TARGETS
    for group in FORMATS
    for mode in MODES
    if mode == "hsa" or (group not in _INTEGER and part == 1)
]


def group_of(form: str) -> str:
    """The group of FORMATS that an instruction format belongs to."""
    if form in _MEMORY:
        return "MEMORY"
    if form.startswith("SOP"):
        return "SOP"
    return {"VDS": "DS", "VOP3SD": "VOP3", "VINTERP": "VOP3", "VOP3PX2": "VOP3P"}.get(form, form)


def drawn(arch: str, lanes: int, part: int, group: str, mode: int) -> list[Instruction]:
    """Two instructions of every opcode of a group, one in its own layout, one in any, with random modifiers."""
    target, out = get_arch(arch), []
    for n, leaf in enumerate(leaves(target)):
        form = leaf.opcode.format if leaf.opcode else leaf.base.name
        if group_of(form) != group or n % part or (leaf.opcode and leaf.opcode.mnemonic.startswith(_JUMPS)):
            continue
        rng = random.Random(n * 1000 + mode % 7)
        for k, layout in enumerate((leaf.base, rng.choice(layouts(leaf, target)))):
            try:
                instruction = decode(target, random_instruction(rng, target, leaf, layout, k == 1))
                build_step(instruction, lanes)
            except (MockGPUError, LookupError):  # no semantics, or operands that mean nothing
                continue
            out.append(instruction)
    return out


@pytest.mark.parametrize(("arch", "lanes", "part", "group", "mode"), _CASES)
def test_native_forms_agree_with_the_oracle(arch: str, lanes: int, part: int, group: str, mode: str) -> None:
    lab = Lab(arch, lanes, MODES[mode])
    instructions = drawn(arch, lanes, part, group, MODES[mode])
    for first in range(0, len(instructions), 100):
        lab.prepare(instructions[first : first + 100])
    native = [i for i in instructions if lab.native(i)]
    assert native or not instructions, lab.refused
    for n, instruction in enumerate(native):
        try:
            lab.check(instruction, n)
        except (IndexError, ValueError):  # random operands that name no registers of this kind
            continue
