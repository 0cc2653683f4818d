"""Native matrix instructions on ordinary numbers, where they must not leave the work to Python."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.native_lab import Lab
from support.random_code import leaves, random_instruction

from mockgpu.isa.arch import get_arch
from mockgpu.isa.decode import decode
from mockgpu.isa.errors import MockGPUError
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.registers import Kind
from mockgpu.machine.execute import build_step
from mockgpu.machine.matrix_ops import is_matrix_name

TARGETS = [("gfx1100", 32), ("gfx1100", 64), ("gfx1201", 32), ("gfx1201", 64), ("gfx942", 64), ("gfx950", 64)]


def drawn(arch: str, lanes: int) -> list[Instruction]:
    """Two instructions of every matrix opcode, whose matrices lie in registers of their own."""
    target, out = get_arch(arch), []
    for n, leaf in enumerate(leaves(target)):
        if leaf.opcode is None or not is_matrix_name(leaf.opcode.name):
            continue
        found = 0
        for k in range(200):
            rng = random.Random(n * 1000 + k)
            try:
                instruction = decode(target, random_instruction(rng, target, leaf, leaf.base, k % 2 == 1))
                build_step(instruction, lanes)
            except (MockGPUError, LookupError):
                continue
            if found < 2 and _in_vectors(instruction):
                out.append(instruction)
                found += 1
    return out


def _in_vectors(instruction: Instruction) -> bool:
    sources = [o for o in instruction.operands if o.field in ("src0", "src1", "src2")]
    return all(o.kind in (Kind.VGPR, Kind.AGPR) for o in sources)


def ordinary(lab: Lab, instruction: Instruction, seed: int) -> None:
    """Fill the registers of the matrices with numbers from 0.25 to 4 of their types."""
    rng = np.random.default_rng(seed)
    batch = lab.next_start
    assert batch is not None
    name = instruction.mnemonic
    for field in ("src0", "src1", "src2"):
        operand = instruction.operand(field)
        first = operand.index + (256 if operand.kind is Kind.AGPR else 0)
        rows = batch.vgpr[first : first + operand.regs]
        half = "bf16" in name or "f16" in name.split("_")[-1] or (field == "src2" and "_f16_16" in name)
        wide = field == "src2" and not ("_f16_16" in name or "_bf16_16" in name)
        numbers = rng.uniform(0.25, 4, (*rows.shape, 2)).astype(np.float32)
        if wide or not half:
            rows[:] = numbers[..., 0].view(np.uint32)
        elif "bf16" in name:
            words = numbers.view(np.uint32) >> 16
            rows[:] = words[..., 0] | words[..., 1] << 16
        else:
            rows[:] = numbers.astype(np.float16).view(np.uint32)[..., 0]


@pytest.mark.parametrize(("arch", "lanes"), TARGETS)
def test_matrices_of_ordinary_numbers(arch: str, lanes: int) -> None:
    lab = Lab(arch, lanes, 0x3F0)
    instructions = drawn(arch, lanes)
    lab.prepare(instructions)
    native = [i for i in instructions if lab.native(i)]
    assert native, lab.refused
    for n, instruction in enumerate(native):
        lab.next_start = lab.start(instruction, n)
        ordinary(lab, instruction, n)
        lab.check(instruction, n)
    assert lab.left <= len(native) // 2, f"{lab.left} of {len(native)} were left to Python"
