"""KFD queues: what CREATE_QUEUE checks, doorbells, updating and destroying."""

import errno
import mmap

import pytest
from support.kfd_host import Host, refused
from support.queues import lo_hi, pkt3

from mockgpu.drivers import doorbells
from mockgpu.drivers.kfd_memory import DOORBELL_BYTES

Log = pytest.LogCaptureFixture


def write_data(address: int, value: int) -> tuple[int, ...]:
    return pkt3(0x37, 5 << 8, *lo_hi(address), value)


def test_queue_runs_at_the_doorbell_and_writes_its_read_pointer_back() -> None:
    host = Host()
    queue, data = host.queue(), host.map(host.alloc(4096))
    queue.send(*write_data(data.va, 1))
    assert (data.words[0], queue.read_pointer) == (1, 5)


def test_sdma_pointers_count_bytes() -> None:
    host = Host()
    queue, data = host.queue(kind=1), host.map(host.alloc(4096))
    queue.send(5, *lo_hi(data.va), 1)
    assert (data.words[0], queue.read_pointer) == (1, 16)


@pytest.mark.parametrize(
    ("change", "number", "word"),
    [
        ({"ring_size": 4095}, errno.EINVAL, "power of two"),
        ({"ring_size": 0}, errno.EINVAL, "power of two"),
        ({"ring_size": 1 << 20}, errno.EFAULT, "ring"),
        ({"queue_percentage": 101}, errno.EINVAL, "percentage"),
        ({"queue_priority": 16}, errno.EINVAL, "priority"),
        ({"gpu_id": 5}, errno.EINVAL, "no GPU has id 0x5"),
        ({"queue_type": 2}, errno.EINVAL, "AQL"),
        ({"queue_type": 9}, errno.EINVAL, "queue type 9"),
        ({"ring_base_address": 0x1000}, errno.EFAULT, "ring"),
        ({"ring_base_address": 0x1010}, errno.EINVAL, "256 bytes"),
        ({"read_pointer_address": 0x1000}, errno.EFAULT, "read pointer"),
        ({"write_pointer_address": 0x1002}, errno.EINVAL, "misaligned"),
    ],
)
def test_create_queue_refusals_leave_no_queue(change: dict[str, int], number: int, word: str, caplog: Log) -> None:
    host = Host()
    _, _, fields = host.queue_fields()
    with refused(number, caplog, "CREATE_QUEUE", word):
        host.call("CREATE_QUEUE", **(fields | change))
    assert not host.system.gpus.all[0].device.queues


def test_ring_of_another_gpu_is_out_of_reach(caplog: Log) -> None:
    host = Host()
    _, _, fields = host.queue_fields(gpu=0)
    with refused(errno.EFAULT, caplog, "out of the GPU's reach"):
        host.call("CREATE_QUEUE", **(fields | {"gpu_id": host.ids[1]}))


def test_sdma_queues_run_out_and_come_back(caplog: Log) -> None:
    host = Host()
    _, _, fields = host.queue_fields(kind=1)
    ids = [host.call("CREATE_QUEUE", **fields).queue_id for _ in range(12)]
    with refused(errno.ENOMEM, caplog, "all 12 SDMA queues"):
        host.call("CREATE_QUEUE", **fields)
    host.call("DESTROY_QUEUE", queue_id=ids[3])
    assert host.call("CREATE_QUEUE", **fields).queue_id == ids[3]


def test_queues_run_out(caplog: Log) -> None:
    host = Host()
    _, _, fields = host.queue_fields()
    for _ in range(1024):
        host.call("CREATE_QUEUE", **fields)
    with refused(errno.ENOMEM, caplog, "1024 queues"):
        host.call("CREATE_QUEUE", **fields)


def test_unknown_queue_ids(caplog: Log) -> None:
    host = Host()
    with refused(errno.EINVAL, caplog, "DESTROY_QUEUE", "no queue has id 7"):
        host.call("DESTROY_QUEUE", queue_id=7)
    with refused(errno.EFAULT, caplog, "UPDATE_QUEUE", "no queue has id 7"):
        host.call("UPDATE_QUEUE", queue_id=7)


def test_resting_queue_starts_again_where_it_was() -> None:
    host = Host()
    queue, data = host.queue(), host.map(host.alloc(4096))
    host.call("UPDATE_QUEUE", queue_id=queue.queue_id, ring_base_address=queue.ring.va, ring_size=queue.ring.size)
    queue.send(*write_data(data.va, 1))
    assert data.words[0] == 0
    fields = {"ring_base_address": queue.ring.va, "ring_size": queue.ring.size, "queue_percentage": 100}
    host.call("UPDATE_QUEUE", queue_id=queue.queue_id, **fields)
    assert data.words[0] == 1


def test_doorbell_of_a_destroyed_queue_does_nothing() -> None:
    host = Host()
    queue, data = host.queue(), host.map(host.alloc(4096))
    host.call("DESTROY_QUEUE", queue_id=queue.queue_id)
    queue.send(*write_data(data.va, 1))
    assert data.words[0] == 0


def test_recycled_doorbell_slot_starts_the_new_queue() -> None:
    host = Host()
    first, data = host.queue(), host.map(host.alloc(4096))
    first.send(*write_data(data.va, 1))
    host.call("DESTROY_QUEUE", queue_id=first.queue_id)
    second = host.queue()
    assert (second.queue_id, second.doorbell.address) == (first.queue_id, first.doorbell.address)
    second.send(*write_data(data.va, 2))
    assert data.words[0] == 2


def test_rings_of_two_gpus_have_doorbells_of_their_own() -> None:
    host = Host()
    a, b, data = host.queue(gpu=0), host.queue(gpu=1), host.map(host.alloc(4096), 0, 1)
    a.send(*write_data(data.va, 1))
    b.send(*write_data(data.va + 4, 2))
    assert (data.words[0], data.words[1]) == (1, 2)


def test_blocked_queue_goes_on_when_the_host_writes_what_it_waits_for() -> None:
    host = Host()
    queue, data = host.queue(), host.map(host.alloc(4096))
    queue.send(*pkt3(0x3C, 1 << 4 | 5, *lo_hi(data.va), 2, 0xFFFFFFFF, 4), *write_data(data.va + 8, 1))
    for value in (1, 2):
        view = doorbells.view(data.va, 8, "Q")
        assert view is not None
        assert data.words[2] == 0
        view[0] = value
    assert data.words[2] == 1
    assert doorbells.view(data.va, 8, "Q") is None, "nobody waits any more"


def test_doorbell_mapping_refusals(caplog: Log) -> None:
    host = Host()
    offset = 3 << 62 | host.ids[0] << 46
    with refused(errno.EINVAL, caplog, "mmap of /dev/kfd", "not 0x1000"):
        host.system.kfd_mmap(0, 0x1000, mmap.MAP_SHARED, offset)
    with refused(errno.EINVAL, caplog, "does not name a doorbell page"):
        host.system.kfd_mmap(0, DOORBELL_BYTES, mmap.MAP_SHARED, 2 << 62)
    with refused(errno.EINVAL, caplog, "no GPU has id 0x5"):
        host.system.kfd_mmap(0, DOORBELL_BYTES, mmap.MAP_SHARED, 3 << 62 | 5 << 46)


def test_mapping_at_a_negative_offset_as_c_sees_it() -> None:
    host = Host()
    address = host.system.kfd_mmap(0, DOORBELL_BYTES, mmap.MAP_SHARED, (3 << 62 | host.ids[0] << 46) - (1 << 64))
    assert doorbells.view(address, 8, "Q") is not None
