"""How the emulated kernel says no."""

from __future__ import annotations

import errno


class Refused(Exception):
    """A call that the kernel answers with ``number`` (an errno). ``reason`` goes to the log, not to the caller."""

    def __init__(self, number: int, reason: str):
        self.number, self.reason = number, reason
        super().__init__(f"{errno.errorcode.get(number, number)}: {reason}")


def invalid(reason: str) -> Refused:
    return Refused(errno.EINVAL, reason)
