"""Vector instructions that use registers of other lanes, or by computed number, natively as by the oracle."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.native_lab import Lab
from support.random_code import layouts, leaves, random_instruction

from mockgpu.isa.arch import get_arch
from mockgpu.isa.decode import decode
from mockgpu.isa.errors import MockGPUError
from mockgpu.isa.instruction import Instruction
from mockgpu.isa.registers import VGPR_BASE, Kind
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.execute import build_step
from mockgpu.machine.operands import VECTORS

TARGETS = [("gfx1100", 32), ("gfx1100", 64), ("gfx1201", 32), ("gfx1201", 64), ("gfx942", 64), ("gfx950", 64)]
OTHER_LANES = (
    "v_movrel", "v_permlane", "v_readlane", "v_readfirstlane", "v_writelane", "v_interp", "v_swaprel", "v_cvt_f32_fp8",
    "v_cvt_f32_bf8", "v_cvt_pk_f32", "v_cvt_pk_fp8", "v_cvt_pk_bf8", "v_cvt_sr", "v_cvt_scalef32_sr_fp8",
    "v_cvt_scalef32_pk_fp4", "v_cvt_scalef32_f16_fp8",
)  # fmt: skip


class LowM0(Lab):
    """M0 is such that computed registers exist, or just do not."""

    def start(self, instruction: Instruction, seed: int) -> object:  # type: ignore[override]
        batch = super().start(instruction, seed)
        rng = np.random.default_rng(seed)
        batch.sgpr[self.arch.m0_register] = rng.choice([0, 1, 5, 30, 255, 256, 0xFFFFFFFF, 0x20003, 0x1000001])
        return batch


def drawn(arch: str, lanes: int) -> list[Instruction]:
    """Encodings of every opcode of OTHER_LANES; every second has random modifiers."""
    target, out = get_arch(arch), []
    for n, leaf in enumerate(leaves(target)):
        if leaf.opcode is None or not leaf.opcode.mnemonic.startswith(OTHER_LANES):
            continue
        for k, layout in enumerate(layouts(leaf, target)):
            rng, modified = random.Random(n * 100 + k), (n + k) % 2 == 1
            try:
                instruction = decode(target, random_instruction(rng, target, leaf, layout, modified))
                build_step(instruction, lanes)
            except (MockGPUError, LookupError):  # operands that mean nothing
                continue
            out.append(instruction)
    return out


def is_left_to_python(instruction: Instruction) -> bool:
    """Permutes by lane whose source is the same in all lanes, or whose clamp bit makes another program of them."""
    source = next((o for o in instruction.operands if o.field == "src0"), None)
    uniform = source is not None and source.kind not in VECTORS
    return "_var_" in instruction.mnemonic and (uniform or instruction.clamp)


@pytest.mark.parametrize(("arch", "lanes"), TARGETS)
def test_registers_of_other_lanes(arch: str, lanes: int) -> None:
    lab, instructions = LowM0(arch, lanes), drawn(arch, lanes)
    lab.prepare(instructions)
    for n, instruction in enumerate(instructions):
        if is_left_to_python(instruction):
            continue
        assert lab.native(instruction), (instruction, lab.refused)
        for seed in range(4):
            lab.check(instruction, 4 * n + seed)


@pytest.mark.parametrize("code", [128, 182, 255])
@pytest.mark.parametrize(("arch", "raw"), [("gfx1100", 0x7E000500), ("gfx942", 0x7E000500)])
def test_lane_read_into_a_constant_is_illegal(arch: str, raw: int, code: int) -> None:
    """v_readfirstlane_b32 whose scalar destination does not exist: no register of another kind is written."""
    words = (raw | 0x100 | code << 17).to_bytes(4, "little") + bytes(8)
    instruction = decode(get_arch(arch), words)
    assert instruction.mnemonic == "v_readfirstlane_b32"
    assert instruction.operand("vdst").kind is not Kind.VGPR and instruction.operand("vdst").code < VGPR_BASE
    with pytest.raises(IllegalInstruction, match=f"operand {code} cannot be written"):
        build_step(instruction, 64)
    lab = Lab(arch, 64)
    lab.prepare([instruction])
    assert not lab.native(instruction)


@pytest.mark.parametrize("opcode", range(0x280, 0x28A))
def test_scalar_float_instructions_take_no_vector_register(opcode: int) -> None:
    """v_s_exp_f32 to v_s_sqrt_f16 of gfx1201 write one scalar register."""
    words = (0xD4000000 | opcode << 16 | 36).to_bytes(4, "little") + (0x100 | 144).to_bytes(4, "little")
    instruction = decode(get_arch("gfx1201"), words + bytes(8))
    assert instruction.mnemonic.startswith("v_s_")
    with pytest.raises(IllegalInstruction, match="src0 must be a scalar"):
        build_step(instruction, 64)
    lab = Lab("gfx1201", 64)
    lab.prepare([instruction])
    assert not lab.native(instruction)
