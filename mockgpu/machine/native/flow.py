"""What an instruction does to the flow of control, from its mnemonic alone: no pseudocode is read for it.

A block of native code ends where an oracle step ends one: at whatever may write PC, MODE or the state of a wave.
"""

from __future__ import annotations

from enum import Enum

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.control_names import NOTHING, SPECIAL_NAMES
from mockgpu.machine.matrix_ops import is_matrix_name


class Flow(Enum):
    """Whether a block ends behind an instruction, and whether the code behind it can be reached from it."""

    GOES_ON = 0
    ENDS_BLOCK = 1
    STOPS = 2


#: Branches to SIMM16 dwords behind the instruction.
_RELATIVE = ("s_branch", "s_cbranch_", "s_call_b64", "s_subvector_loop_")
_NOT_RELATIVE = frozenset({"s_cbranch_join", "s_cbranch_g_fork"})
_JUMPS = frozenset({"s_setpc_b64", "s_swappc_b64", "s_cbranch_join", "s_cbranch_g_fork"})
_MODES = frozenset(
    {"s_setvskip", "s_set_gpr_idx_on", "s_set_gpr_idx_off", "s_set_gpr_idx_mode", "s_setreg_b32", "s_setreg_imm32_b32"}
)
_STOPS = frozenset(
    {"s_branch", "s_setpc_b64", "s_code_end", "s_denorm_mode", "s_round_mode", "s_set_gpr_idx_on", "s_setvskip"}
)
_STOPPING_STARTS = ("s_endpgm", "s_rfe")
#: Instructions at which code is decoded again, because it may have been written.
REFETCHES = frozenset({"s_icache_inv"})

_KINDS = {
    "SMEM": "smem", "DS": "lds", "VDS": "lds", "LDSDIR": "lds", "VDSDIR": "lds",
    "FLAT": "vmem", "GLOBAL": "vmem", "SCRATCH": "vmem", "VFLAT": "vmem", "VGLOBAL": "vmem", "VSCRATCH": "vmem",
    "MUBUF": "vmem", "MTBUF": "vmem", "VBUFFER": "vmem", "MIMG": "vmem", "VIMAGE": "vmem", "VSAMPLE": "vmem",
}  # fmt: skip


def is_relative(instruction: Instruction) -> bool:
    """Whether an instruction branches, or may branch, to a place that its immediate names."""
    name = instruction.mnemonic
    return name.startswith(_RELATIVE) and name not in _NOT_RELATIVE


def target_of(instruction: Instruction, pc: int) -> int | None:
    """The byte address to which the instruction at ``pc`` may branch by its immediate."""
    if not is_relative(instruction):
        return None
    value = instruction.fields["simm16"]
    return pc + 4 + 4 * (value - 0x10000 if value >> 15 else value)


def flow_of(instruction: Instruction) -> Flow:
    """The flow of control behind an instruction."""
    name = instruction.mnemonic
    if name in _STOPS or name.startswith(_STOPPING_STARTS):
        return Flow.STOPS
    if not instruction.format.startswith("SOP"):
        return Flow.GOES_ON
    if name in SPECIAL_NAMES or name in _JUMPS or name in _MODES or name in REFETCHES or is_relative(instruction):
        return Flow.ENDS_BLOCK
    return Flow.GOES_ON


def kind_of(instruction: Instruction) -> str:
    """The class of an instruction in statistics, the same as that of its oracle step."""
    name, form = instruction.mnemonic, instruction.format
    if form.startswith("SOP"):
        if name == "s_alloc_vgpr":
            return "salu"
        if name in NOTHING or name in SPECIAL_NAMES:
            return "control"
        if is_relative(instruction) or name in _JUMPS:
            return "branch"
        return "control" if form == "SOPP" else "salu"
    if is_matrix_name(instruction.opcode.name):
        return "matrix"
    return _KINDS.get(form, "valu")
