"""A forked child shares nothing with its parent: old descriptors and doorbells are dead, new ones are its own."""

import errno
import os
import traceback
from collections.abc import Callable

import pytest
from support.kfd_host import Host

from mockgpu.drivers import kfd
from mockgpu.drivers.doorbells import RetiredDoorbellError
from mockgpu.drivers.files import MockFileIOInterface


def in_child(check: Callable[[], None]) -> bool:
    """Run ``check`` in a forked child; whether it raised nothing."""
    pid = os.fork()
    if pid == 0:
        try:
            check()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded")
def test_child_cannot_use_the_parents_system_and_gets_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(devices=1)
    monkeypatch.setattr(kfd, "_system", host.system)
    queue, file = host.queue(), MockFileIOInterface("/dev/kfd", os.O_RDWR)

    def check() -> None:
        with pytest.raises(OSError) as caught:
            file.ioctl(ord("K") << 8 | 1, bytearray(8))
        assert caught.value.errno == errno.EBADF
        assert "forked after it opened the GPUs" in str(caught.value)
        with pytest.raises(RetiredDoorbellError):
            queue.doorbell[0] = 1
        fresh = MockFileIOInterface("/dev/kfd", os.O_RDWR)
        assert fresh.ioctl(ord("K") << 8 | 1, bytearray(8)) == 0
        assert kfd.system() is not host.system

    assert in_child(check)
    queue.send(0xFFFF1000)
    assert queue.read_pointer == 1
