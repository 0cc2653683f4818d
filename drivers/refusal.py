"""How the emulated kernel says no."""

from __future__ import annotations

import errno
import os


class Refused(Exception):
    """A call that the kernel answers with ``number`` (an errno) for ``reason``."""

    def __init__(self, number: int, reason: str):
        self.number, self.reason = number, reason
        super().__init__(f"{errno.errorcode.get(number, number)}: {reason}")


def os_error(number: int, reason: str) -> OSError:
    """The error of a call: the kernel's number and text, and the reason, which only an emulator can give."""
    return OSError(number, f"{os.strerror(number)} ({reason})")


def invalid(reason: str) -> Refused:
    return Refused(errno.EINVAL, reason)
