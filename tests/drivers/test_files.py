"""Virtual files: the emulated paths, and that every other path is the real one."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kfd_host import Host

from mockgpu.drivers import kfd
from mockgpu.drivers.files import MockFileIOInterface
from mockgpu.drivers.kfd import KfdSystem

NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
DEVICE = "/sys/class/drm/renderD129/device"


@pytest.fixture(autouse=True)
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[KfdSystem]:
    """A system of two GPUs that the files of this test belong to."""
    host = Host(devices=2)
    monkeypatch.setattr(kfd, "_system", host.system)
    yield host.system


def text(path: str) -> str:
    content: str = MockFileIOInterface(path).read()
    return content


def test_topology_lists_a_cpu_and_the_gpus(system: KfdSystem) -> None:
    nodes = MockFileIOInterface(NODES).listdir()
    assert sorted(nodes) == ["0", "1", "2"]
    assert [int(text(f"{NODES}/{n}/gpu_id")) for n in sorted(nodes)] == [0, *(g.gpu_id for g in system.gpus.all)]


def test_properties_are_lines_of_name_and_number() -> None:
    properties = dict(line.split() for line in text(f"{NODES}/2/properties").splitlines())
    assert properties["gfx_target_version"] == "110000"
    assert properties["drm_render_minor"] == "129"
    assert int(properties["simd_count"]) == 2 * 8 * int(properties["array_count"])


def test_ip_discovery_gives_versions_by_hardware_id() -> None:
    folder = f"{DEVICE}/ip_discovery/die/0"
    assert sorted(MockFileIOInterface(folder).listdir()) == ["108", "11", "42"]
    assert [text(f"{folder}/42/0/{part}").strip() for part in ("major", "minor", "revision")] == ["6", "0", "0"]


def test_read_sizes_offsets_and_bytes() -> None:
    file = MockFileIOInterface(f"{NODES}/1/name")
    assert file.read() == "gfx1100\n"
    assert file.read(3, offset=0) == "gfx"
    assert file.read(binary=True, offset=3) == b"1100\n"


def test_descriptor_of_an_attribute_can_be_read_plainly() -> None:
    file = MockFileIOInterface(f"{NODES}/1/name")
    assert os.read(file.fd, 100) == b"gfx1100\n"


def test_performance_level_can_be_set_to_what_exists() -> None:
    path = f"{DEVICE}/power_dpm_force_performance_level"
    assert text(path) == "profile_standard\n"
    MockFileIOInterface(path, os.O_RDWR).write("auto")
    assert text(path) == "auto\n"
    with pytest.raises(OSError, match="Invalid argument"):
        MockFileIOInterface(path, os.O_RDWR).write("fast")
    assert text(path) == "auto\n"


@pytest.mark.parametrize(
    ("path", "flags", "number"),
    [
        (f"{NODES}/9/gpu_id", os.O_RDONLY, errno.ENOENT),
        (f"{DEVICE}/nothing", os.O_RDONLY, errno.ENOENT),
        (f"{NODES}/1/gpu_id", os.O_RDWR, errno.EACCES),
    ],
)
def test_files_that_cannot_be_opened(path: str, flags: int, number: int) -> None:
    with pytest.raises(OSError) as caught:
        MockFileIOInterface(path, flags)
    assert caught.value.errno == number


def test_listing_a_file_is_refused() -> None:
    with pytest.raises(OSError) as caught:
        MockFileIOInterface(f"{NODES}/1/gpu_id").listdir()
    assert caught.value.errno == errno.ENOTDIR


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/dev/kfd", True),
        ("/dev/dri/renderD128", True),
        ("/dev/dri/renderD250", False),
        (NODES, True),
        (f"{NODES}/7", False),
        (f"{DEVICE}/vendor", True),
        ("/proc/self/maps", True),
        ("/no/such/path", False),
    ],
)
def test_exists(path: str, there: bool) -> None:
    assert MockFileIOInterface.exists(path) is there


def test_ioctl_on_a_file_that_has_none() -> None:
    with pytest.raises(OSError) as caught:
        MockFileIOInterface(f"{NODES}/1/name").ioctl(0, bytearray(4))
    assert caught.value.errno == errno.ENOTTY


def test_render_node_closes_its_descriptor(system: KfdSystem) -> None:
    file = MockFileIOInterface("/dev/dri/renderD128", os.O_RDWR)
    fd = file.fd
    assert system.drm_files[fd] is system.gpus.all[0]
    del file
    assert fd not in system.drm_files
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


# -- real files -------------------------------------------------------------------------------------------------------


def test_real_file_reads_writes_and_seeks(tmp_path: Path) -> None:
    path = tmp_path / "file"
    MockFileIOInterface(str(path), os.O_RDWR | os.O_CREAT).write("hello world")
    assert path.read_text() == "hello world"
    file = MockFileIOInterface(str(path))
    assert file.read(5, binary=True, offset=6) == b"world"
    assert MockFileIOInterface(str(tmp_path)).listdir() == ["file"]


def test_real_errors_stay_real(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MockFileIOInterface(str(tmp_path / "missing"))
    with pytest.raises(OSError) as caught:
        MockFileIOInterface("/dev/null").ioctl(0x5401, bytearray(64))
    assert caught.value.errno == errno.ENOTTY


def test_real_links_and_event_descriptors(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("target")
    assert MockFileIOInterface.readlink(str(link)) == "target"
    event = MockFileIOInterface.eventfd(3, os.EFD_NONBLOCK)
    assert os.eventfd_read(event.fd) == 3


def test_real_file_maps(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 4096)
    file = MockFileIOInterface(str(path))
    address = file.mmap(0, 4096, 1, 2, 0)
    assert Path("/proc/self/maps").read_text().count(str(path)) == 1
    assert MockFileIOInterface.munmap(address, 4096) == 0
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_mmap_that_fails_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Failed to mmap 0 bytes"):
        MockFileIOInterface.anon_mmap(0, 0, 3, 0x22, 0)
