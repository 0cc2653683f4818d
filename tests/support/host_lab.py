"""The lab on other hosts: handlers made for a lower level of x86-64, or for AArch64 and executed by unicorn."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import unicorn
from unicorn import arm64_const as arm

from mockgpu.machine.native import host
from mockgpu.machine.native.compile import compile_ir
from mockgpu.machine.native.link import link
from mockgpu.machine.native.loader import load
from mockgpu.machine.native.state import aligned

from .native_lab import Lab

_PAGE = 4096
_STACK, _STACK_BYTES, _RETURN = 0x10000, 1 << 20, 0x8000
_LIMIT = 1 << 20  # instructions in one call


class LevelLab(Lab):
    """Handlers for a level of the host (host.LEVELS), made and loaded as the engine does it."""

    def __init__(self, arch: str, lanes: int, level: str, mode: int = 0xF0):
        self.target = host.target(level)
        super().__init__(arch, lanes, mode, self.target.features)

    def _load(self, text: str) -> Callable[[str], int]:
        code = load(compile_ir(text, self.target))
        self._engines.append(code)
        return code.__getitem__


class ArmLab(LevelLab):
    """Handlers for AArch64: an emulated CPU executes them on this process's own memory."""

    def __init__(self, arch: str, lanes: int, mode: int = 0xF0):
        super().__init__(arch, lanes, host.AARCH64, mode)

    def _load(self, text: str) -> Callable[[str], int]:
        image = link(compile_ir(text, self.target))
        memory = place(image.data)
        self._engines.append(memory)
        return lambda name: int(memory.ctypes.data) + image.symbols[name]

    def _call(self, address: int, wave: int, record: int, context: int) -> int:
        arrays = (
            *self._engines, self.slot._memory, self.slot.lds, self.context, self.counters, self.records,
            self._starts, self._ends, self._access,
        )  # fmt: skip
        ranges = [(a.ctypes.data, a.nbytes) for a in arrays]
        ranges += [(mapping.va, mapping.end - mapping.va) for mapping in self.machine.memory]
        return run_arm(address, (wave, record, context), ranges)


def place(code: bytes) -> np.ndarray:
    """Code at the start of a page."""
    memory = aligned(len(code), _PAGE)
    memory[:] = np.frombuffer(code, np.uint8)
    return memory


def run_arm(address: int, arguments: Iterable[int], ranges: Iterable[tuple[int, int]]) -> int:
    """Call a function of AArch64 code at ``address``; the result.

    ``ranges`` are the (address, size) of this process's memory that the code may use; code lies there too. Raises
    unicorn.UcError for an access to other memory or an instruction that a plain ARMv8-A CPU has not.
    """
    cpu = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
    cpu.ctl_set_cpu_model(arm.UC_CPU_ARM64_A53)
    for start, end in _pages(ranges):
        cpu.mem_map_ptr(start, end - start, unicorn.UC_PROT_ALL, start)
    cpu.mem_map(_STACK, _STACK_BYTES)
    cpu.mem_map(_RETURN, _PAGE)
    cpu.reg_write(arm.UC_ARM64_REG_CPACR_EL1, 3 << 20)  # floats and vectors do not trap
    cpu.reg_write(arm.UC_ARM64_REG_SP, _STACK + _STACK_BYTES - 64)
    cpu.reg_write(arm.UC_ARM64_REG_LR, _RETURN)
    for register, value in zip((arm.UC_ARM64_REG_X0, arm.UC_ARM64_REG_X1, arm.UC_ARM64_REG_X2), arguments, strict=True):
        cpu.reg_write(register, value)
    cpu.emu_start(address, _RETURN, count=_LIMIT)
    if cpu.reg_read(arm.UC_ARM64_REG_PC) != _RETURN:
        raise AssertionError(f"the code has not returned after {_LIMIT} instructions")
    return int(cpu.reg_read(arm.UC_ARM64_REG_X0))


def _pages(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pages of ranges, joined where they touch."""
    joined: list[tuple[int, int]] = []
    for start, size in sorted(ranges):
        first, end = start // _PAGE * _PAGE, -(-(start + size) // _PAGE) * _PAGE
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return joined
