"""The render node: the amdgpu DRM queries that a compute runtime makes."""

from __future__ import annotations

import errno
import functools
from types import ModuleType
from typing import Any

from mockgpu.drivers import hostmem
from mockgpu.drivers.gpu import Gpu
from mockgpu.drivers.refusal import Refused, invalid
from mockgpu.machine.clock import TICKS_PER_SECOND


@functools.cache
def header() -> ModuleType:
    """tinygrad's generated amdgpu DRM header."""
    from tinygrad.runtime.autogen import amdgpu_drm

    return amdgpu_drm


def ioctl_name(number: int) -> str:
    """The name of a DRM ioctl number, or the number."""
    drm = header()
    names = (n for n, v in vars(drm).items() if n.startswith("DRM_AMDGPU_") and v == number - drm.DRM_COMMAND_BASE)
    found = next(names, None)
    return f"DRM_IOCTL_{found.removeprefix('DRM_')}" if found else f"DRM ioctl {number:#x}"


def ioctl(gpu: Gpu, number: int, argument: memoryview) -> None:
    """Answer one ioctl of the render node; ``argument`` is its struct. Refuses with EINVAL or EFAULT."""
    drm = header()
    if number != drm.DRM_COMMAND_BASE + drm.DRM_AMDGPU_INFO:
        raise invalid("not emulated")
    request = drm.struct_drm_amdgpu_info.from_buffer(argument)
    answer = bytes(_info(gpu, request.query))[: request.return_size]
    try:
        hostmem.write(request.return_pointer, answer)
    except OSError as error:
        raise Refused(errno.EFAULT, str(error)) from error


def _info(gpu: Gpu, query: int) -> Any:
    drm = header()
    if query == drm.AMDGPU_INFO_ACCEL_WORKING:
        return (1).to_bytes(4, "little")
    if query == drm.AMDGPU_INFO_DEV_INFO:
        return _device_info(gpu)
    if query == drm.AMDGPU_INFO_VRAM_GTT:
        size = gpu.node.vram_bytes
        return drm.struct_drm_amdgpu_info_vram_gtt(vram_size=size, vram_cpu_accessible_size=size, gtt_size=size)
    if query == drm.AMDGPU_INFO_VRAM_USAGE:
        return gpu.vram_used.to_bytes(8, "little")
    name = next((n for n, v in vars(drm).items() if n.startswith("AMDGPU_INFO_") and v == query), f"{query:#x}")
    raise invalid(f"query {name} is not emulated")


def _device_info(gpu: Gpu) -> Any:
    board = gpu.board
    info = header().struct_drm_amdgpu_info_device(
        device_id=board.device_id,
        family=board.family,
        num_shader_engines=board.shader_engines,
        num_shader_arrays_per_engine=board.arrays_per_engine,
        gpu_counter_freq=TICKS_PER_SECOND // 1000,
        max_engine_clock=board.engine_clock_mhz * 1000,
        max_memory_clock=board.memory_clock_mhz * 1000,
        cu_active_number=board.compute_units,
        virtual_address_offset=hostmem.PAGE,
        virtual_address_max=1 << 47,
        virtual_address_alignment=hostmem.PAGE,
        gart_page_size=hostmem.PAGE,
        vram_bit_width=board.vram_bits,
        wave_front_size=board.wave_front_size,
        num_cu_per_sh=board.cus_per_array,
        gl2c_cache_size=board.l2_bytes,
        mall_size=board.mall_bytes,
    )
    for engine in range(board.shader_engines):
        for array in range(board.arrays_per_engine):
            # Engines above four share the rows of the lower ones, further to the right.
            info.cu_bitmap[engine % 4][array + engine // 4 * 2] = (1 << board.cus_per_array) - 1
    return info
