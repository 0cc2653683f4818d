"""Program control: SOPP."""

from __future__ import annotations

from mockgpu.machine.control import NOTHING
from mockgpu.machine.native.emitter import I8, I64, Emitter
from mockgpu.machine.native.layout import Reason
from mockgpu.machine.waves import BARRIER, ENDED
from mockgpu.pcode.llvm.values import NotNative

_END = frozenset({"s_endpgm"})


def emit(e: Emitter) -> None:
    """A SOPP instruction."""
    mnemonic = e.instruction.mnemonic
    if mnemonic in NOTHING:
        e.next()
    elif mnemonic in _END:
        e.set_header("state", I8(ENDED))
        e.exit(Reason.END)
    elif mnemonic == "s_barrier":
        e.set_header("state", I8(BARRIER))
        e.exit(Reason.BARRIER)
    else:
        raise NotNative(mnemonic)


__all__ = ["I64", "emit"]
