"""Program control: SOPP, and branches by immediate of other formats."""

from __future__ import annotations

from collections.abc import Callable

from mockgpu.isa.registers import EXEC_LO, VCC_LO
from mockgpu.machine.control_names import NOTHING, SPECIAL_NAMES
from mockgpu.machine.native.emitter import I8, Emitter
from mockgpu.machine.native.flow import REFETCHES
from mockgpu.machine.native.layout import Reason
from mockgpu.machine.waves import BARRIER, ENDED
from mockgpu.pcode.llvm.values import NotNative, Value


def _is_zero(e: Emitter, code: int) -> Value:
    mask = e.mask_bits(e.code(code))
    return e.b.icmp_unsigned("==", mask, mask.type(0))


def _is_not_zero(e: Emitter, code: int) -> Value:
    mask = e.mask_bits(e.code(code))
    return e.b.icmp_unsigned("!=", mask, mask.type(0))


#: The condition of each conditional branch.
_CONDITIONS: dict[str, Callable[[Emitter], Value]] = {
    "s_cbranch_scc0": lambda e: e.b.not_(e.scc()),
    "s_cbranch_scc1": lambda e: e.scc(),
    "s_cbranch_vccz": lambda e: _is_zero(e, VCC_LO),
    "s_cbranch_vccnz": lambda e: _is_not_zero(e, VCC_LO),
    "s_cbranch_execz": lambda e: _is_zero(e, EXEC_LO),
    "s_cbranch_execnz": lambda e: _is_not_zero(e, EXEC_LO),
}
_DEBUGGER = "s_cbranch_cdbg"  # no debugger sets the conditions of these


def is_special(mnemonic: str) -> bool:
    """Whether pseudocode does not describe an instruction."""
    return mnemonic in NOTHING or mnemonic in SPECIAL_NAMES


def emit(e: Emitter) -> None:
    """A SOPP instruction."""
    mnemonic = e.instruction.mnemonic
    if mnemonic in REFETCHES:
        raise NotNative("code may have changed")
    if mnemonic in NOTHING:
        e.next()
    elif mnemonic == "s_endpgm":
        e.count_block()
        e.set_header("pc", e.pc())
        e.set_header("state", I8(ENDED))
        e.exit(Reason.END)
    elif mnemonic == "s_barrier":
        e.count_block()
        e.set_header("state", I8(BARRIER))
        e.exit(Reason.BARRIER)
    elif mnemonic == "s_branch":
        e.count_block()
        e.branch_to_target()
    elif mnemonic in _CONDITIONS:
        condition = _CONDITIONS[mnemonic](e)
        e.count_block()
        with e.b.if_then(condition):
            e.branch_to_target()
        e.next()
    elif mnemonic.startswith(_DEBUGGER):
        e.count_block()
        e.next()
    else:
        raise NotNative(mnemonic)
