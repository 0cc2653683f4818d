"""Every opcode of RDNA3 executes on random registers, or is on the list of those without semantics."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from support.random_code import layouts, leaves, random_instruction

from mockgpu.isa.arch import get_arch
from mockgpu.isa.decode import Leaf, decode
from mockgpu.isa.errors import NoSemanticsError
from mockgpu.machine.errors import GuestFault
from mockgpu.machine.execute import build_step
from mockgpu.machine.memory import Memory
from mockgpu.machine.step import Step
from mockgpu.machine.waves import EXEC, Batch, Group
from mockgpu.pcode.numeric import quiet_ieee

ARCH = get_arch("gfx1100")
#: No semantics: graphics, global data share and global wave sync, and what the table lists in a wrong segment.
WITHOUT = re.compile(
    r"EXP\..*|LDS_PARAM_LOAD|IMAGE_(GATHER4H|GET_LOD|MSAA_LOAD|BVH).*|DS_GWS_.*|DS_ORDERED_COUNT|DS_BVH_.*"
    r"|DS_.*_GS_REG_RTN|S_SUBVECTOR_.*|.*FLAT_ATOMIC_CSUB_U32|FLAT\.GLOBAL_.*_ADDTID_B32"
)
#: Execution may end in a fault: traps, messages, hardware registers that do not exist; image dimensions and masks.
MAY_FAULT = re.compile(
    r"S_(RFE_B64|SENDMSG.*|GETREG_B32|SETREG.*|SETHALT|TRAP|CODE_END)|V_(PERMLANE|READLANE|WRITELANE|SWAP|MOVREL|WMMA).*"
    r"|IMAGE_.*"
)


def batch() -> Batch:
    made = Batch(ARCH, 3, 32, 256, [(0, 0, 0)], 1024)
    state = np.random.RandomState(5)
    made.vgpr[:] = state.randint(0, 1 << 32, made.vgpr.shape, np.uint64)
    made.sgpr[:106] = state.randint(0, 1 << 32, (106, 3), np.uint64)
    return made


def problem(leaf: Leaf, index: int) -> str | None:
    """Run each layout of an opcode once; what went wrong that should not have."""
    short = leaf.opcode.name if leaf.opcode else "PAIR"
    name = f"{leaf.base.name}.{short}"
    without = bool(WITHOUT.fullmatch(name) or WITHOUT.fullmatch(short))
    for layout in layouts(leaf, ARCH):
        raw = random_instruction(random.Random(index), ARCH, leaf, layout, False)
        instruction = decode(ARCH, raw)
        excused = without or bool(MAY_FAULT.fullmatch(short)) or bool(instruction.fields.get("gds"))
        try:
            step = build_step(instruction, 32)
            execute(step)
        except (NoSemanticsError, GuestFault) as e:
            if not excused:
                return f"{name}: {e}"
    return None


def execute(step: Step) -> None:
    """Run a step. Memory instructions run with all lanes off: they touch their operands but no memory."""
    if step.kind == "smem":
        return
    waves = batch()
    waves.sgpr[EXEC] = 0 if step.kind in ("vmem", "lds") else 0x8FFF00F3
    with quiet_ieee():
        step.run(Group(waves, slice(0, 3), 3, Memory(), 0x1000, 0x3C0))


@pytest.mark.parametrize("base", sorted({leaf.base.name for leaf in leaves(ARCH)}))
def test_opcodes_of_an_encoding(base: str) -> None:
    chosen = [(n, leaf) for n, leaf in enumerate(leaves(ARCH)) if leaf.base.name == base]
    problems = [text for n, leaf in chosen if (text := problem(leaf, n))]
    assert not problems, "\n".join(problems)
