"""Virtual files: the interface through which tinygrad reaches the kernel, with ours in place of the GPU's files.

Paths of the emulated system are answered here; every other path is the real one, with real calls.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Any

from mockgpu.drivers import doorbells, hostmem, kfd
from mockgpu.drivers.gpu import Gpu
from mockgpu.drivers.sysfs import Attribute

KFD_PATH = "/dev/kfd"
#: Paths that begin like this may be ours; the system's tree knows.
_PREFIXES = ("/dev/dri/renderD", "/sys/devices/virtual/kfd", "/sys/class/drm/renderD")


class _RealFile:
    """A file of the host: plain calls on the descriptor."""

    def ioctl(self, fd: int, request: int, argument: Any) -> Any:
        return fcntl.ioctl(fd, request, argument)

    def mmap(self, fd: int, start: int, size: int, prot: int, flags: int, offset: int) -> int:
        return MockFileIOInterface._mmap(start, size, prot, flags, fd, offset)

    def close(self, fd: int) -> None:
        os.close(fd)

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def write(self, fd: int, content: Any, binary: bool) -> None:
        with open(fd, "wb" if binary else "w", closefd=False) as file:
            file.write(content)


class _VirtualFile(_RealFile):
    """What all files of the emulated system share. The descriptor is a real one that holds the place."""

    def __init__(self, system: kfd.KfdSystem):
        self.system = system

    def ioctl(self, fd: int, request: int, argument: Any) -> Any:
        raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))

    def mmap(self, fd: int, start: int, size: int, prot: int, flags: int, offset: int) -> int:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    def listdir(self, path: str) -> list[str]:
        return self.system.tree.listdir(path)


class _KfdFile(_VirtualFile):
    def ioctl(self, fd: int, request: int, argument: Any) -> Any:
        return self.system.ioctl(request, argument)

    def mmap(self, fd: int, start: int, size: int, prot: int, flags: int, offset: int) -> int:
        return self.system.kfd_mmap(start, size, flags, offset)


class _RenderFile(_VirtualFile):
    def __init__(self, system: kfd.KfdSystem, gpu: Gpu, fd: int):
        super().__init__(system)
        self.gpu = gpu
        system.drm_files[fd] = gpu

    def ioctl(self, fd: int, request: int, argument: Any) -> Any:
        return self.system.drm_ioctl(self.gpu, request, argument)

    def mmap(self, fd: int, start: int, size: int, prot: int, flags: int, offset: int) -> int:
        return self.system.drm_mmap(self.gpu, start, size, offset)

    def close(self, fd: int) -> None:
        self.system.drm_files.pop(fd, None)
        super().close(fd)


class _AttributeFile(_VirtualFile):
    """A sysfs attribute. Its text lies in an anonymous file, so that plain reads of the descriptor work too."""

    def __init__(self, system: kfd.KfdSystem, attribute: Attribute, fd: int):
        super().__init__(system)
        self.attribute = attribute
        self._show(fd)

    def _show(self, fd: int) -> None:
        os.ftruncate(fd, 0)
        os.pwrite(fd, self.attribute.content.encode(), 0)

    def write(self, fd: int, content: Any, binary: bool) -> None:
        self.attribute.write(content.decode() if binary else content)
        self._show(fd)


def _is_ours(path: str) -> bool:
    """Whether the emulated system may answer for ``path``."""
    return path == KFD_PATH or path.startswith(_PREFIXES)


def _missing(path: str) -> OSError:
    return OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _open(path: str, flags: int) -> tuple[int, _RealFile]:
    """Open ``path``: descriptor and what answers for it. Raises OSError."""
    if not _is_ours(path):
        return os.open(path, flags), _RealFile()
    system = kfd.system()
    gpu = next((g for g in system.gpus.all if g.node.render_path == path), None)
    if path == KFD_PATH:
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), _KfdFile(system)
    if gpu is not None:
        fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        return fd, _RenderFile(system, gpu, fd)
    if not system.tree.owns(path):
        return os.open(path, flags), _RealFile()
    return _open_tree(system, path, flags)


def _open_tree(system: kfd.KfdSystem, path: str, flags: int) -> tuple[int, _RealFile]:
    attribute = system.tree.files.get(path)
    if attribute is not None:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            attribute.check_writable()
        fd = os.memfd_create(path.rsplit("/", 1)[-1])
        return fd, _AttributeFile(system, attribute, fd)
    if not system.tree.is_folder(path):
        raise _missing(path)
    return os.open("/", os.O_RDONLY | os.O_CLOEXEC), _VirtualFile(system)


class MockFileIOInterface:
    """Same interface as tinygrad's FileIOInterface: ``path``, ``fd`` and the calls below. Raises OSError as they do."""

    def __init__(self, path: str = "", flags: int = os.O_RDONLY, fd: int | None = None):
        self.path: str = path
        self.fd: int
        self._file: _RealFile
        if fd:
            self.fd, self._file = fd, _RealFile()
        else:
            self.fd, self._file = _open(path, flags)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close(self.fd)

    def ioctl(self, request: int, arg: Any) -> Any:
        return self._file.ioctl(self.fd, request, arg)

    def mmap(self, start: int, sz: int, prot: int, flags: int, offset: int) -> int:
        return self._file.mmap(self.fd, start, sz, prot, flags, offset)

    def read(self, size: int | None = None, binary: bool = False, offset: int | None = None) -> Any:
        if offset is not None:
            self.seek(offset)
        with open(self.fd, "rb" if binary else "r", closefd=False) as file:
            return file.read(-1 if size is None else size)

    def write(self, content: Any, binary: bool = False, offset: int | None = None) -> None:
        if offset is not None:
            self.seek(offset)
        self._file.write(self.fd, content, binary)

    def listdir(self) -> list[str]:
        return self._file.listdir(self.path)

    def seek(self, offset: int) -> None:
        os.lseek(self.fd, offset, os.SEEK_SET)

    @staticmethod
    def _mmap(start: int, sz: int, prot: int, flags: int, fd: int, offset: int) -> int:
        address = hostmem.map_fd(start, sz, prot, flags, fd, offset)
        if flags & hostmem.MAP_FIXED:
            doorbells.retire(address, hostmem.page_align(sz), replaced=True)
        return address

    @staticmethod
    def anon_mmap(start: int, sz: int, prot: int, flags: int, offset: int) -> int:
        return MockFileIOInterface._mmap(start, sz, prot, flags, -1, offset)

    @staticmethod
    def munmap(buf: int, sz: int) -> int:
        system = kfd.current()
        if system is not None and system.munmap(buf, sz):
            return 0
        return hostmem.unmap(buf, sz)

    @staticmethod
    def exists(path: str) -> bool:
        if not _is_ours(path):
            return os.path.exists(path)
        system = kfd.system()
        if path == KFD_PATH or any(gpu.node.render_path == path for gpu in system.gpus.all):
            return True
        if system.tree.owns(path):
            return path in system.tree.files or system.tree.is_folder(path)
        return os.path.exists(path)

    @staticmethod
    def readlink(path: str) -> str:
        if _is_ours(path) and kfd.system().tree.owns(path):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        return os.readlink(path)

    @staticmethod
    def eventfd(initval: int, flags: int | None = None) -> MockFileIOInterface:
        return MockFileIOInterface(fd=os.eventfd(initval, flags or 0))
