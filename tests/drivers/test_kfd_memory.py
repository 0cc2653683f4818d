"""KFD memory: handles, limits, permissions, mapping to several GPUs, and host pages that outlive the host's mapping."""

import ctypes
import errno
import mmap

import pytest
from support.kfd_host import DOORBELL, EXECUTABLE, GTT, MIB, USERPTR, VRAM, WRITABLE, Host, refused
from support.queues import lo_hi

from mockgpu.drivers import hostmem
from mockgpu.machine.errors import PageFault

Log = pytest.LogCaptureFixture
ALL = WRITABLE | EXECUTABLE


def test_buffer_is_reached_by_the_gpu_only_while_mapped() -> None:
    host = Host()
    buffer = host.alloc(8192)
    memory = host.system.gpus.all[0].device.memory
    buffer.words[0] = 7
    with pytest.raises(PageFault):
        memory.read_u32(buffer.va)
    host.map(buffer)
    assert memory.read_u32(buffer.va) == 7
    host.unmap(buffer)
    with pytest.raises(PageFault):
        memory.read_u32(buffer.va)


def test_each_gpu_has_its_own_mappings() -> None:
    host = Host()
    buffer = host.map(host.alloc(4096, gpu=0, flags=VRAM | ALL), 0)
    other = host.system.gpus.all[1].device.memory
    with pytest.raises(PageFault):
        other.read_u32(buffer.va)
    host.map(buffer, 1)
    buffer.words[1] = 9
    assert other.read_u32(buffer.va + 4) == 9
    host.unmap(buffer, 0)
    assert other.read_u32(buffer.va + 4) == 9


@pytest.mark.parametrize(
    ("flags", "write", "execute"), [(0, False, False), (WRITABLE, True, False), (EXECUTABLE, False, True)]
)
def test_permissions_come_from_the_flags(flags: int, write: bool, execute: bool) -> None:
    host = Host()
    buffer = host.map(host.alloc(4096, flags=VRAM | flags))
    mapping = host.system.gpus.all[0].device.memory.find(buffer.va)
    assert mapping is not None
    assert (mapping.read, mapping.write, mapping.execute) == (True, write, execute)


def test_size_is_rounded_up_to_pages() -> None:
    host = Host()
    buffer = host.map(host.alloc(0x100))
    mapping = host.system.gpus.all[0].device.memory.find(buffer.va)
    assert mapping is not None
    assert mapping.size == 4096


def test_vram_runs_out_with_enomem_and_comes_back(caplog: Log) -> None:
    host = Host()
    first = host.alloc(60 * MIB, flags=VRAM | ALL)
    assert host.call("AVAILABLE_MEMORY", gpu_id=host.ids[0]).available == 4 * MIB
    with refused(errno.ENOMEM, caplog, "ALLOC_MEMORY_OF_GPU", "ENOMEM"):
        host.alloc(5 * MIB, flags=VRAM | ALL)
    host.alloc(5 * MIB, gpu=1, flags=VRAM | ALL)
    host.call("FREE_MEMORY_OF_GPU", handle=first.handle)
    assert host.call("AVAILABLE_MEMORY", gpu_id=host.ids[0]).available == 64 * MIB


def test_system_memory_runs_out_with_enomem(caplog: Log) -> None:
    host = Host()
    with refused(errno.ENOMEM, caplog, "system memory"):
        host.alloc(1 << 46, host=False)


def test_double_free_is_refused(caplog: Log) -> None:
    host = Host()
    buffer = host.alloc(4096)
    host.call("FREE_MEMORY_OF_GPU", handle=buffer.handle)
    with refused(errno.EINVAL, caplog, "FREE_MEMORY_OF_GPU", f"{buffer.handle:#x}"):
        host.call("FREE_MEMORY_OF_GPU", handle=buffer.handle)
    assert host.alloc(4096).handle != buffer.handle


def test_free_of_a_mapped_buffer_is_refused(caplog: Log) -> None:
    host = Host()
    buffer = host.map(host.alloc(4096))
    with refused(errno.EBUSY, caplog, "still mapped"):
        host.call("FREE_MEMORY_OF_GPU", handle=buffer.handle)
    host.unmap(buffer)
    host.call("FREE_MEMORY_OF_GPU", handle=buffer.handle)


def test_handle_of_another_gpu_id_is_refused(caplog: Log) -> None:
    host = Host()
    with refused(errno.EINVAL, caplog, "no GPU has id 0x9999"):
        host.call("FREE_MEMORY_OF_GPU", handle=0x9999 << 32 | 1)


def test_unknown_handle_when_mapping_is_enomem_as_in_the_kernel(caplog: Log) -> None:
    host = Host()
    with refused(errno.ENOMEM, caplog, "MAP_MEMORY_TO_GPU"):
        host.gpu_list("MAP_MEMORY_TO_GPU", host.ids[0] << 32 | 77, host.ids[0])


def test_map_counts_the_gpus_that_succeeded(caplog: Log) -> None:
    host = Host(devices=3)
    buffer = host.alloc(4096)
    array = (ctypes.c_uint32 * 3)(host.ids[0], 0x9999, host.ids[2])
    _, struct = next((n, s) for n, (name, s) in __table().items() if name == "MAP_MEMORY_TO_GPU")
    args = struct(handle=buffer.handle, device_ids_array_ptr=ctypes.addressof(array), n_devices=3)
    with refused(errno.EINVAL, caplog, "0x9999"):
        host.system.ioctl(ord("K") << 8 | 0x18, args)
    assert args.n_success == 1
    array[1] = host.ids[1]
    host.system.ioctl(ord("K") << 8 | 0x18, args)
    assert args.n_success == 3


def __table() -> dict[int, tuple[str, type]]:
    from mockgpu.drivers.kfd import ioctl_table

    return dict(ioctl_table())


def test_mapping_twice_and_unmapping_twice_change_nothing() -> None:
    host = Host()
    buffer = host.map(host.map(host.alloc(4096)))
    host.unmap(buffer)
    host.unmap(buffer)


def test_empty_and_unreadable_gpu_lists(caplog: Log) -> None:
    host = Host()
    buffer = host.alloc(4096)
    with refused(errno.EINVAL, caplog, "empty"):
        host.call("MAP_MEMORY_TO_GPU", handle=buffer.handle)
    with refused(errno.EFAULT, caplog, "0x10"):
        host.call("MAP_MEMORY_TO_GPU", handle=buffer.handle, device_ids_array_ptr=0x10, n_devices=1)
    with refused(errno.EINVAL, caplog, "n_success"):
        host.gpu_list("MAP_MEMORY_TO_GPU", buffer.handle, host.ids[0], done=2)


@pytest.mark.parametrize(("va", "size"), [(0, 4096), (0x1234, 4096), (0x10000, 0), (1 << 47, 4096)])
def test_bad_addresses_and_sizes(va: int, size: int, caplog: Log) -> None:
    host = Host()
    with refused(errno.EINVAL, caplog, "ALLOC_MEMORY_OF_GPU"):
        host.call("ALLOC_MEMORY_OF_GPU", va_addr=va, size=size, gpu_id=host.ids[0], flags=GTT)


def test_no_kind_of_memory_is_refused(caplog: Log) -> None:
    host = Host()
    with refused(errno.EINVAL, caplog, "no supported kind"):
        host.call("ALLOC_MEMORY_OF_GPU", va_addr=0x10000, size=4096, gpu_id=host.ids[0], flags=WRITABLE)


def test_memory_before_an_address_space_is_enodev(caplog: Log) -> None:
    host = Host()
    host.system.gpus.all[0].drm_file = None
    with refused(errno.ENODEV, caplog, "no address space"):
        host.alloc(4096)


def test_overlapping_buffers_cannot_both_be_mapped(caplog: Log) -> None:
    host = Host()
    first = host.map(host.alloc(8192))
    args = host.call("ALLOC_MEMORY_OF_GPU", va_addr=first.va + 4096, size=4096, gpu_id=host.ids[0], flags=GTT)
    with refused(errno.EINVAL, caplog, "MAP_MEMORY_TO_GPU"):
        host.gpu_list("MAP_MEMORY_TO_GPU", args.handle, host.ids[0])


# -- host pages -------------------------------------------------------------------------------------------------------


def test_buffer_that_the_host_never_mapped_still_has_pages() -> None:
    host = Host()
    buffer = host.map(host.alloc(8192, flags=VRAM | ALL, host=False))
    memory = host.system.gpus.all[0].device.memory
    memory.write_u32(buffer.va + 4096, 5)
    assert memory.read_u32(buffer.va + 4096) == 5


def test_gpu_pages_never_replace_memory_of_the_host(caplog: Log) -> None:
    host = Host()
    mine = hostmem.back(0, 4096, replace=False)
    args = host.call("ALLOC_MEMORY_OF_GPU", va_addr=mine, size=4096, gpu_id=host.ids[0], flags=VRAM)
    with refused(errno.EINVAL, caplog, "uses these addresses"):
        host.gpu_list("MAP_MEMORY_TO_GPU", args.handle, host.ids[0])


def test_host_unmap_leaves_the_gpu_its_pages() -> None:
    host = Host()
    buffer = host.map(host.alloc(8192))
    buffer.words[0] = 3
    assert host.system.munmap(buffer.va, buffer.size)
    memory = host.system.gpus.all[0].device.memory
    assert memory.read_u32(buffer.va) == 3
    host.unmap(buffer)
    host.call("FREE_MEMORY_OF_GPU", handle=buffer.handle)
    with pytest.raises(OSError, match="Bad address"):
        hostmem.read(buffer.va, 4)


def test_host_may_map_again_and_finds_its_data() -> None:
    host = Host()
    va = host.reserve(4096)
    gpu = host.system.gpus.all[0]
    args = host.call("ALLOC_MEMORY_OF_GPU", va_addr=va, size=4096, gpu_id=gpu.gpu_id, flags=VRAM | ALL)
    for expected in (0, 1):
        assert host.system.drm_mmap(gpu, va, 4096, args.mmap_offset) == va
        word = ctypes.c_uint32.from_address(va)
        assert word.value == expected
        word.value = 1
        host.system.munmap(va, 4096)


def test_unmapping_a_range_around_a_buffer_frees_the_rest() -> None:
    host = Host()
    base = hostmem.back(0, 3 * 4096, replace=False)
    gpu = host.system.gpus.all[0]
    args = host.call("ALLOC_MEMORY_OF_GPU", va_addr=base + 4096, size=4096, gpu_id=gpu.gpu_id, flags=VRAM | ALL)
    host.system.drm_mmap(gpu, base + 4096, 4096, args.mmap_offset)
    assert host.system.munmap(base, 3 * 4096)
    hostmem.read(base + 4096, 4)
    for gone in (base, base + 2 * 4096):
        with pytest.raises(OSError, match="Bad address"):
            hostmem.read(gone, 4)


def test_mmap_refusals(caplog: Log) -> None:
    host = Host()
    buffer, gpu = host.alloc(4096), host.system.gpus.all[0]
    offset = next(iter(host.system.memory.buffers())).mmap_offset
    with refused(errno.EINVAL, caplog, "mmap of /dev/dri/renderD128", "no buffer"):
        host.system.drm_mmap(gpu, buffer.va, 4096, offset + 4096)
    with refused(errno.EINVAL, caplog, "more than"):
        host.system.drm_mmap(gpu, buffer.va, 8192, offset)
    with refused(errno.EINVAL, caplog, "own address"):
        host.system.drm_mmap(gpu, 0, 4096, offset)
    with refused(errno.EINVAL, caplog, "renderD129"):
        host.system.drm_mmap(host.system.gpus.all[1], buffer.va, 4096, offset)


# -- user memory ------------------------------------------------------------------------------------------------------


def user(host: Host, va: int, size: int = 4096, gpu: int = 0) -> int:
    flags = USERPTR | ALL
    args = host.call("ALLOC_MEMORY_OF_GPU", va_addr=va, size=size, gpu_id=host.ids[gpu], flags=flags, mmap_offset=va)
    host.gpu_list("MAP_MEMORY_TO_GPU", args.handle, host.ids[gpu])
    handle: int = args.handle
    return handle


def test_user_memory_is_shared_with_several_gpus() -> None:
    host = Host()
    va = hostmem.back(0, 4096, replace=False)
    handles = [user(host, va, gpu=g) for g in (0, 1)]
    ctypes.c_uint32.from_address(va).value = 5
    assert [gpu.device.memory.read_u32(va) for gpu in host.system.gpus.all] == [5, 5]
    for g, handle in enumerate(handles):
        host.gpu_list("UNMAP_MEMORY_FROM_GPU", handle, host.ids[g])
        host.call("FREE_MEMORY_OF_GPU", handle=handle)
    assert hostmem.read(va, 4) == b"\5\0\0\0"
    assert host.system.memory.sysmem_used == 0


def test_user_memory_that_goes_away_faults_and_does_not_crash() -> None:
    host = Host()
    va = hostmem.back(0, 4096, replace=False)
    user(host, va)
    assert not host.system.munmap(va, 4096), "the host's own memory: left to the real call"
    with pytest.raises(PageFault):
        host.system.gpus.all[0].device.memory.read_u32(va)


def test_user_memory_that_is_not_there_is_efault(caplog: Log) -> None:
    host = Host()
    va = hostmem.back(0, 4096, replace=False)
    hostmem.unmap(va, 4096)
    with refused(errno.EFAULT, caplog, f"{va:#x} is not mapped"):
        user(host, va)


def test_user_memory_at_another_gpu_address_is_refused(caplog: Log) -> None:
    host = Host()
    with refused(errno.EINVAL, caplog, "another GPU address"):
        host.call(
            "ALLOC_MEMORY_OF_GPU", va_addr=0x10000, size=4096, gpu_id=host.ids[0], flags=USERPTR, mmap_offset=0x20000
        )


def test_doorbell_aperture_has_one_size(caplog: Log) -> None:
    host = Host()
    va = host.reserve(0x2000)
    args = host.call("ALLOC_MEMORY_OF_GPU", va_addr=va, size=0x2000, gpu_id=host.ids[0], flags=DOORBELL | WRITABLE)
    address = host.system.kfd_mmap(va, 0x2000, mmap.MAP_SHARED | hostmem.MAP_FIXED, args.mmap_offset)
    assert address == va
    with refused(errno.EINVAL, caplog, "doorbell aperture"):
        host.call("ALLOC_MEMORY_OF_GPU", va_addr=va, size=0x1000, gpu_id=host.ids[0], flags=DOORBELL)


def test_peer_copy_needs_the_mapping() -> None:
    host = Host()
    sdma, source = host.queue(gpu=0, kind=1), host.map(host.alloc(4096, gpu=0, flags=VRAM | ALL), 0)
    target = host.map(host.alloc(4096, gpu=1, flags=VRAM | ALL), 1)
    source.words[0] = 42
    copy = (1, 3, 0, *lo_hi(source.va), *lo_hi(target.va))
    sdma.send(*copy)
    fault = host.system.gpus.all[0].device.fault
    assert isinstance(fault, PageFault)
    assert fault.address == target.va
    host.system.reset(0)
    host.map(target, 0)
    sdma.send(*copy)
    assert target.words[0] == 42
