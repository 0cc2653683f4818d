"""Records that are no instructions: the ends of blocks that run into the next one, jumps, calls of Python."""

from __future__ import annotations

from collections.abc import Callable

from mockgpu.machine.native.emitter import I8, I32, I64, Emitter
from mockgpu.machine.native.layout import Reason
from mockgpu.machine.waves import ENDED


def _fallthrough(e: Emitter) -> None:
    """The block ends here and the next record is that of the block behind it."""
    e.count_block()
    e.next()


def _callout(e: Emitter) -> None:
    """Python executes the instruction."""
    e.exit(Reason.CALLOUT)


def _jump(e: Emitter) -> None:
    """Go on at the byte address of the record, which has to be found."""
    e.count_block()
    e.set_header("pc", e.pc())
    e.exit(Reason.JUMP)


def _stop(e: Emitter) -> None:
    """The wave ends without an instruction."""
    e.count_block()
    e.set_header("pc", e.pc())
    e.set_header("state", I8(ENDED))
    e.exit(Reason.END)


PSEUDO: dict[str, Callable[[Emitter], None]] = {
    "pseudo|fallthrough": _fallthrough,
    "pseudo|callout": _callout,
    "pseudo|jump": _jump,
    "pseudo|stop": _stop,
}

__all__ = ["I32", "I64", "PSEUDO"]
