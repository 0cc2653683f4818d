"""Ioctls that do not touch memory, queues or events; and how calls that mean nothing are refused."""

import ctypes
import errno

import pytest
from support.kfd_host import Host, refused

from mockgpu.drivers import drm, kfd
from mockgpu.drivers.kfd import _HANDLERS, ioctl_table
from mockgpu.drivers.kfd_memory import header
from mockgpu.drivers.settings import Settings
from mockgpu.isa.errors import ConfigError

Log = pytest.LogCaptureFixture
NOT_EMULATED = sorted(name for name, _ in ioctl_table().values() if name not in _HANDLERS)


def test_every_handler_is_an_ioctl_of_the_header() -> None:
    assert set(_HANDLERS) <= {name for name, _ in ioctl_table().values()}


@pytest.mark.parametrize("name", NOT_EMULATED)
def test_ioctl_that_is_not_emulated_is_named(name: str, caplog: Log) -> None:
    with refused(errno.EINVAL, caplog, f"AMDKFD_IOC_{name}", "not emulated"):
        Host(devices=1).call(name)


@pytest.mark.parametrize("number", [0x00, 0x27, 0x7F, 0xFF])
def test_unknown_ioctl_number_is_named(number: int, caplog: Log) -> None:
    with refused(errno.EINVAL, caplog, f"unknown KFD ioctl {number:#x}"):
        Host(devices=1).system.ioctl(ord("K") << 8 | number, bytearray(64))


def test_ioctl_of_another_kind_is_enotty() -> None:
    with pytest.raises(OSError) as caught:
        Host(devices=1).system.ioctl(ord("T") << 8 | 1, bytearray(64))
    assert caught.value.errno == errno.ENOTTY


@pytest.mark.parametrize(
    ("argument", "number"), [(0, errno.EFAULT), (b"\0" * 64, errno.EFAULT), (bytearray(2), errno.EINVAL)]
)
def test_arguments_that_cannot_hold_the_struct(argument: object, number: int, caplog: Log) -> None:
    with refused(number, caplog, "AMDKFD_IOC_GET_VERSION"):
        Host(devices=1).system.ioctl(ord("K") << 8 | 1, argument)


def test_struct_may_come_as_bytes() -> None:
    data = bytearray(8)
    Host(devices=1).system.ioctl(ord("K") << 8 | 1, data)
    assert int.from_bytes(data[:4], "little") == header().KFD_IOCTL_MAJOR_VERSION


@pytest.mark.parametrize(
    "call", ["GET_CLOCK_COUNTERS", "AVAILABLE_MEMORY", "SET_MEMORY_POLICY", "SET_SCRATCH_BACKING_VA"]
)
def test_wrong_gpu_id(call: str, caplog: Log) -> None:
    host = Host(devices=1)
    with refused(errno.EINVAL, caplog, call, "no GPU has id 0x7"):
        host.call(call, gpu_id=7)


def test_clock_stands_still_without_work() -> None:
    host = Host(devices=1)
    first, second = (host.call("GET_CLOCK_COUNTERS", gpu_id=host.ids[0]) for _ in range(2))
    assert first.gpu_clock_counter == second.gpu_clock_counter
    assert first.system_clock_freq == 1_000_000_000
    assert first.system_clock_counter <= second.system_clock_counter


def test_apertures_old_and_new() -> None:
    host = Host(devices=2)
    old = host.call("GET_PROCESS_APERTURES")
    assert old.num_of_nodes == 2
    assert [old.process_apertures[i].gpu_id for i in range(2)] == host.ids
    assert host.call("GET_PROCESS_APERTURES_NEW").num_of_nodes == 2
    array = (header().struct_kfd_process_device_apertures * 2)()
    host.call("GET_PROCESS_APERTURES_NEW", kfd_process_device_apertures_ptr=ctypes.addressof(array), num_of_nodes=2)
    assert [a.gpu_id for a in array] == host.ids
    assert array[0].lds_base >> 32 != array[0].scratch_base >> 32


def test_memory_policy_is_checked(caplog: Log) -> None:
    host = Host(devices=1)
    host.call("SET_MEMORY_POLICY", gpu_id=host.ids[0], default_policy=1)
    with refused(errno.EINVAL, caplog, "cache policies"):
        host.call("SET_MEMORY_POLICY", gpu_id=host.ids[0], default_policy=2)


def test_runtime_can_be_enabled_once(caplog: Log) -> None:
    host = Host(devices=1)
    host.call("RUNTIME_ENABLE", mode_mask=1)
    with refused(errno.EBUSY, caplog, "RUNTIME_ENABLE"):
        host.call("RUNTIME_ENABLE", mode_mask=1)
    host.call("RUNTIME_ENABLE", mode_mask=0)
    host.call("RUNTIME_ENABLE", mode_mask=1)


def test_address_space_belongs_to_one_render_node(caplog: Log) -> None:
    host = Host(devices=2)
    host.call("ACQUIRE_VM", drm_fd=1000, gpu_id=host.ids[0])
    with refused(errno.EINVAL, caplog, "ACQUIRE_VM", "renderD128"):
        host.call("ACQUIRE_VM", drm_fd=1001, gpu_id=host.ids[0])
    with refused(errno.EINVAL, caplog, "descriptor 5"):
        host.call("ACQUIRE_VM", drm_fd=5, gpu_id=host.ids[0])
    host.system.drm_files[1002] = host.system.gpus.all[0]
    with refused(errno.EBUSY, caplog, "another descriptor"):
        host.call("ACQUIRE_VM", drm_fd=1002, gpu_id=host.ids[0])


# -- DRM --------------------------------------------------------------------------------------------------------------


def query(host: Host, number: int, size: int) -> bytes:
    answer = ctypes.create_string_buffer(size)
    request = drm.header().struct_drm_amdgpu_info(
        return_pointer=ctypes.addressof(answer), return_size=size, query=number
    )
    host.system.drm_ioctl(host.system.gpus.all[0], ord("d") << 8 | 0x45, request)
    return answer.raw


def test_device_info_shows_every_compute_unit() -> None:
    info_t = drm.header().struct_drm_amdgpu_info_device
    info = info_t.from_buffer_copy(query(Host(devices=1), drm.header().AMDGPU_INFO_DEV_INFO, ctypes.sizeof(info_t)))
    assert (info.cu_active_number, info.num_shader_engines, info.wave_front_size) == (96, 6, 32)
    cells = [info.cu_bitmap[se % 4][sa + se // 4 * 2] for se in range(6) for sa in range(2)]
    assert sum(cell.bit_count() for cell in cells) == 96
    assert sum(cell.bit_count() for row in info.cu_bitmap for cell in row) == 96


def test_short_answers_are_cut_and_unknown_queries_named(caplog: Log) -> None:
    host = Host(devices=1)
    assert query(host, drm.header().AMDGPU_INFO_ACCEL_WORKING, 4) == b"\1\0\0\0"
    assert len(query(host, drm.header().AMDGPU_INFO_DEV_INFO, 8)) == 8
    with refused(errno.EINVAL, caplog, "AMDGPU_INFO_SENSOR"):
        query(host, drm.header().AMDGPU_INFO_SENSOR, 8)


def test_other_drm_calls_are_named(caplog: Log) -> None:
    host = Host(devices=1)
    gpu = host.system.gpus.all[0]
    with refused(errno.EINVAL, caplog, "DRM_IOCTL_AMDGPU_GEM_CREATE"):
        host.system.drm_ioctl(gpu, ord("d") << 8 | 0x40, bytearray(64))
    with refused(errno.EINVAL, caplog, "DRM ioctl 0x9f"):
        host.system.drm_ioctl(gpu, ord("d") << 8 | 0x9F, bytearray(64))


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"arch": "gfx9999"}, "gfx1100"), ({"devices": 0}, "1 to 64"), ({"clock": "sun"}, "work, wall")],
)
def test_bad_settings_list_the_good_ones(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Settings(**fields)  # type: ignore[arg-type]


def test_open_system_cannot_change_an_open_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kfd, "_system", None)
    monkeypatch.setattr(kfd, "_settings", Settings())
    first = kfd.open_system(Settings(devices=1))
    assert kfd.open_system(Settings(devices=1)) is first is kfd.system()
    with pytest.raises(RuntimeError, match="devices=1"):
        kfd.open_system(Settings(devices=2))
