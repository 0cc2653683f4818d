"""KFD events: signals from packets, waits, faults as exceptions, deadlocks."""

import errno
import gc
import threading
import time

import pytest
from support.kfd_host import EXECUTABLE, VRAM, WRITABLE, Host, Ring, refused
from support.queues import lo_hi, pkt3

from mockgpu.drivers.kfd_events import UNSIGNALED
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.launch import LaunchStats

Log = pytest.LogCaptureFixture
COMPLETE, TIMEOUT = 0, 1
SIGNAL, HW_EXCEPTION, MEMORY = 0, 3, 8
RELEASE, WRITE, WAIT = 0x49, 0x37, 0x3C


def release(address: int, value: int, context: int) -> tuple[int, ...]:
    return pkt3(RELEASE, 20 | 5 << 8, 1 << 29 | 2 << 24, *lo_hi(address), value, 0, context)


def wait_memory(address: int, value: int) -> tuple[int, ...]:
    return pkt3(WAIT, 1 << 4 | 5, *lo_hi(address), value, 0xFFFFFFFF, 4)


def write_data(address: int, value: int) -> tuple[int, ...]:
    return pkt3(WRITE, 5 << 8, *lo_hi(address), value)


# -- life of events ---------------------------------------------------------------------------------------------------


def test_signal_events_get_slots_and_others_do_not() -> None:
    host = Host()
    page = host.event_page()
    first = host.call("CREATE_EVENT", event_type=SIGNAL)
    assert (first.event_id, first.event_slot_index, first.event_trigger_data) == (1, 1, 1)
    assert host.event(MEMORY) >= 0x80000000
    assert page.words[2] == page.words[3] == 0xFFFFFFFF


def test_event_page_can_be_set_once_and_must_be_large(caplog: Log) -> None:
    host = Host()
    small = host.map(host.alloc(4096))
    with refused(errno.EINVAL, caplog, "too small"):
        host.call("CREATE_EVENT", event_page_offset=small.handle)
    page = host.event_page()
    with refused(errno.EINVAL, caplog, "already set"):
        host.call("CREATE_EVENT", event_page_offset=page.handle)
    host.unmap(page)
    with refused(errno.EPERM, caplog, "event page"):
        host.call("FREE_MEMORY_OF_GPU", handle=page.handle)


def test_signal_slots_run_out_and_are_reused(caplog: Log) -> None:
    host = Host()
    ids = [host.event() for _ in range(4096)]
    with refused(errno.ENOSPC, caplog, "4096"):
        host.event()
    host.call("DESTROY_EVENT", event_id=ids[7])
    assert host.event() == ids[7]


@pytest.mark.parametrize("call", ["SET_EVENT", "RESET_EVENT", "DESTROY_EVENT"])
def test_unknown_event_is_refused(call: str, caplog: Log) -> None:
    with refused(errno.EINVAL, caplog, call, "0x63"):
        Host().call(call, event_id=99)


@pytest.mark.parametrize("call", ["SET_EVENT", "RESET_EVENT"])
def test_host_cannot_set_an_exception_event(call: str, caplog: Log) -> None:
    host = Host()
    event = host.event(MEMORY)
    with refused(errno.EINVAL, caplog, call, "not a signal event"):
        host.call(call, event_id=event)


# -- waiting ----------------------------------------------------------------------------------------------------------


def test_wait_for_no_events_completes() -> None:
    assert Host().wait(timeout=1000)[0] == COMPLETE


def test_wait_for_an_unknown_event_is_refused(caplog: Log) -> None:
    with refused(errno.EINVAL, caplog, "WAIT_EVENTS", "0x63"):
        Host().wait(99)


def test_wait_with_a_bad_pointer_is_efault(caplog: Log) -> None:
    with refused(errno.EFAULT, caplog, "WAIT_EVENTS"):
        Host().call("WAIT_EVENTS", events_ptr=0x10, num_events=1)


def test_manual_event_stays_signaled_until_reset() -> None:
    host = Host()
    event = host.event()
    assert host.wait(event)[0] == TIMEOUT
    host.call("SET_EVENT", event_id=event)
    assert host.wait(event)[0] == host.wait(event)[0] == COMPLETE
    host.call("RESET_EVENT", event_id=event)
    assert host.wait(event)[0] == TIMEOUT


def test_auto_reset_event_wakes_one_wait() -> None:
    host = Host()
    event = host.event(auto_reset=True)
    host.call("SET_EVENT", event_id=event)
    assert [host.wait(event)[0] for _ in range(2)] == [COMPLETE, TIMEOUT]


def test_wait_for_all_gives_back_what_it_took_when_it_times_out() -> None:
    host = Host()
    a, b = host.event(auto_reset=True), host.event(auto_reset=True)
    host.call("SET_EVENT", event_id=a)
    assert host.wait(a, b, every=True)[0] == TIMEOUT
    host.call("SET_EVENT", event_id=b)
    assert host.wait(a, b, every=True)[0] == COMPLETE
    assert host.wait(a, b)[0] == TIMEOUT


def test_age_tells_that_a_signal_was_missed() -> None:
    host = Host()
    event = host.event(auto_reset=True)
    host.call("SET_EVENT", event_id=event)
    result, data = host.wait(event, ages=(1,))
    assert (result, data[0].signal_event_data.last_event_age) == (COMPLETE, 2)
    assert host.wait(event, ages=(2,))[0] == TIMEOUT
    assert host.wait(event, ages=(1,))[0] == COMPLETE


def test_wait_that_nothing_can_satisfy_returns_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mockgpu.drivers.kfd._alone", lambda: True)
    host = Host()
    start = time.monotonic()
    assert host.wait(host.event(), timeout=60_000)[0] == TIMEOUT
    assert host.wait(host.event(), timeout=0xFFFFFFFF)[0] == TIMEOUT
    assert time.monotonic() - start < 5


def test_other_thread_can_set_the_event_that_is_waited_for() -> None:
    host = Host()
    event = host.event()
    thread = threading.Timer(0.05, lambda: host.call("SET_EVENT", event_id=event))
    thread.start()
    assert host.wait(event, timeout=10_000)[0] == COMPLETE
    thread.join()


# -- signals from packets ---------------------------------------------------------------------------------------------


def test_release_mem_signals_the_event_of_its_mailbox() -> None:
    host = Host()
    page = host.event_page()
    event, other = host.event(auto_reset=True), host.event(auto_reset=True)
    host.queue().send(*release(page.va + 8 * event, event, event))
    assert host.wait(event)[0] == COMPLETE
    assert host.wait(other)[0] == TIMEOUT
    slot = page.words[2 * event] | page.words[2 * event + 1] << 32
    assert slot == UNSIGNALED, "the interrupt acknowledges the slot"


def test_sdma_fence_and_trap_signal_too() -> None:
    host = Host()
    page, event = host.event_page(), host.event(auto_reset=True)
    host.queue(kind=1).send(5, *lo_hi(page.va + 8 * event), event, 6, event)
    assert host.wait(event)[0] == COMPLETE


def test_interrupt_without_a_written_slot_signals_nothing() -> None:
    host = Host()
    host.event_page()
    event = host.event()
    host.queue(kind=1).send(6, event)
    assert host.wait(event)[0] == TIMEOUT


def test_interrupt_with_a_wrong_id_finds_the_written_slot() -> None:
    host = Host()
    page, event = host.event_page(), host.event()
    host.queue(kind=1).send(5, *lo_hi(page.va + 8 * event), event, 6, 0x0FFFFFFF)
    assert host.wait(event)[0] == COMPLETE


def test_wait_tries_blocked_queues_first() -> None:
    host = Host()
    page, event, data = host.event_page(), host.event(), host.map(host.alloc(4096))
    host.queue().send(*wait_memory(data.va, 1), *release(page.va + 8 * event, event, event))
    data.words[0] = 1
    assert host.wait(event, timeout=1000)[0] == COMPLETE


# -- exceptions -------------------------------------------------------------------------------------------------------


def test_page_fault_is_a_memory_exception_with_its_address() -> None:
    host = Host()
    memory, hardware = host.event(MEMORY), host.event(HW_EXCEPTION)
    host.queue(gpu=1).send(*write_data(0x1234_5678, 1))
    result, data = host.wait(memory, hardware)
    assert result == COMPLETE
    exception = data[0].memory_exception_data
    assert (exception.va, exception.gpu_id) == (0x1234_5678, host.ids[1])
    assert (exception.failure.NotPresent, exception.failure.ReadOnly, exception.failure.NoExecute) == (1, 0, 0)
    assert data[1].hw_exception_data.gpu_id == 0
    assert host.system.statistics().faults == 1


def test_write_to_read_only_memory_says_so() -> None:
    host = Host()
    memory, target = host.event(MEMORY), host.map(host.alloc(4096, flags=VRAM | EXECUTABLE))
    host.queue().send(*write_data(target.va, 1))
    exception = host.wait(memory)[1][0].memory_exception_data
    assert (exception.failure.NotPresent, exception.failure.ReadOnly) == (0, 1)


def test_running_code_without_execute_permission_says_so() -> None:
    host = Host()
    memory, queue = host.event(MEMORY), host.queue()
    code = host.map(host.alloc(4096, flags=VRAM | WRITABLE))
    device = host.system.gpus.all[0].device
    with pytest.raises(Exception, match="does not allow execute") as caught:
        device.memory.check(code.va, 4, "execute")
    host.engine.error = caught.value
    queue.send(*pkt3(0x76, 0x2E07 - 0x2C00, 1, 1, 1), *pkt3(0x15, 1, 1, 1, 1))
    assert host.wait(memory)[1][0].memory_exception_data.failure.NoExecute == 1


def test_illegal_instruction_is_a_hardware_exception() -> None:
    host = Host()
    memory, hardware, queue = host.event(MEMORY), host.event(HW_EXCEPTION), host.queue()
    host.engine.error = IllegalInstruction("s_bad")
    queue.send(*pkt3(0x76, 0x2E07 - 0x2C00, 1, 1, 1), *pkt3(0x15, 1, 1, 1, 1))
    result, data = host.wait(memory, hardware)
    assert (result, data[1].hw_exception_data.gpu_id, data[0].memory_exception_data.gpu_id) == (0, host.ids[0], 0)


def test_exception_stays_until_the_gpu_is_reset_and_the_process_goes_on() -> None:
    host = Host()
    memory, queue, data = host.event(MEMORY), host.queue(), host.map(host.alloc(4096))
    queue.send(*write_data(0x1000, 1))
    assert host.wait(memory)[0] == host.wait(memory)[0] == COMPLETE
    host.system.reset(0)
    assert host.wait(memory)[0] == TIMEOUT
    queue.send(*write_data(data.va, 5))
    assert data.words[0] == 5


def test_fault_of_one_gpu_leaves_the_others_running() -> None:
    host = Host()
    bad, good, data = host.queue(gpu=0), host.queue(gpu=1), host.map(host.alloc(4096, gpu=1), 1)
    bad.send(*write_data(0x1000, 1))
    good.send(*write_data(data.va, 5))
    assert data.words[0] == 5


# -- deadlock ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [True, False])
def test_deadlock_becomes_a_hardware_exception_that_lists_the_queues(
    alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mockgpu.drivers.kfd._alone", lambda: alone)
    host = Host()
    hardware, data = host.event(HW_EXCEPTION), host.map(host.alloc(4096), 0, 1)
    host.queue(gpu=0).send(*wait_memory(data.va, 1))
    host.queue(gpu=1).send(*wait_memory(data.va + 4, 2))
    start = time.monotonic()
    assert host.wait(hardware, timeout=20_000)[0] == COMPLETE
    assert time.monotonic() - start < 5
    (report,) = host.system.gpus.all[0].device.fault_report
    assert f"AMD:0 PM4 queue 0: WAIT_REG_MEM at ring dword 0x0: dword at {data.va:#x} >= 0x1" in report
    assert f"AMD:1 PM4 queue 1: WAIT_REG_MEM at ring dword 0x0: dword at {data.va + 4:#x} >= 0x2" in report


def test_doorbell_alone_is_no_deadlock() -> None:
    host = Host()
    hardware, data = host.event(HW_EXCEPTION), host.map(host.alloc(4096))
    host.queue().send(*wait_memory(data.va, 1), *write_data(data.va + 4, 2))
    assert host.wait(hardware, timeout=0)[0] == TIMEOUT, "a poll is not a wait"
    data.words[0] = 1
    host.wait(hardware, timeout=0)
    assert data.words[1] == 2


def test_queue_blocked_on_a_thread_of_the_host_is_given_time() -> None:
    host = Host()
    host.system.settings = type(host.system.settings)(devices=2, deadlock_seconds=30)
    page, event, data = host.event_page(), host.event(), host.map(host.alloc(4096))
    host.queue().send(*wait_memory(data.va, 1), *release(page.va + 8 * event, event, event))
    thread = threading.Timer(0.1, lambda: data.words.__setitem__(0, 1))
    thread.start()
    assert host.wait(event, timeout=10_000)[0] == COMPLETE
    thread.join()


# -- the host's code in the middle of a kernel ------------------------------------------------------------------------


def dispatch(queue: Ring) -> None:
    queue.send(*pkt3(0x76, 0x2E07 - 0x2C00, 1, 1, 1), *pkt3(0x15, 1, 1, 1, 1))


def test_wait_from_inside_of_a_kernel_is_refused(caplog: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    queue, event = host.queue(), host.event()

    def wait(*_: object, **__: object) -> LaunchStats:
        with refused(errno.EDEADLK, caplog, "WAIT_EVENTS"):
            host.wait(event, timeout=60_000)
        return LaunchStats(waves=1)

    monkeypatch.setattr(host.engine, "run", wait)
    dispatch(queue)
    assert host.system.statistics().kernels == 1


def test_garbage_is_not_collected_in_the_middle_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    queue, seen = host.queue(), []

    def look(*_: object, **__: object) -> LaunchStats:
        seen.append(gc.isenabled())
        return LaunchStats()

    monkeypatch.setattr(host.engine, "run", look)
    dispatch(queue)
    assert (seen, gc.isenabled()) == ([False], True)
