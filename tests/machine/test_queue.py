"""The contract of queues: retiring, wrapping, blocking, faults, indirect buffers, and the scheduler between them."""

import pytest
from support.queues import Bench, Feed, lo_hi, pkt3

from mockgpu.machine.errors import (
    Deadlock,
    EmulatorError,
    IllegalInstruction,
    PacketError,
    PageFault,
    Where,
)
from mockgpu.machine.queue import MAX_DEPTH, Status

NOP, WAIT, RELEASE, IB, WRITE, DISPATCH, SET_SH = 0x10, 0x3C, 0x49, 0x3F, 0x37, 0x15, 0x76
VALID, CHAIN = 1 << 23, 1 << 20


def write_data(address: int, *values: int) -> tuple[int, ...]:
    return pkt3(WRITE, 5 << 8, *lo_hi(address), *values)


def wait_memory(address: int, value: int) -> tuple[int, ...]:
    return pkt3(WAIT, 1 << 4 | 5, *lo_hi(address), value, 0xFFFFFFFF, 4)


def indirect(address: int, dwords: int, flags: int = VALID) -> tuple[int, ...]:
    return pkt3(IB, *lo_hi(address), dwords | flags)


def test_empty_queue_needs_input() -> None:
    feed = Bench().pm4()
    assert feed.queue.step().status is Status.NEED_INPUT


def test_each_step_retires_one_packet() -> None:
    bench = Bench()
    feed, data = bench.pm4(), bench.block()
    feed.write(*write_data(data.va, 1), *write_data(data.va + 4, 2))
    feed.queue.doorbell(feed.put)
    assert feed.queue.step().packet == "WRITE_DATA"
    assert (data[0], data[1]) == (1, 0)
    assert feed.queue.step().status is Status.RETIRED
    assert (data[0], data[1]) == (1, 2)
    assert feed.queue.step().status is Status.NEED_INPUT


def test_part_of_a_packet_waits_for_the_rest() -> None:
    bench = Bench()
    feed, data = bench.pm4(), bench.block()
    packet = write_data(data.va, 7)
    for word in packet[:-1]:
        feed.send(word)
        assert data[0] == 0
    feed.send(packet[-1])
    assert data[0] == 7
    assert feed.read_pointer == len(packet)


@pytest.mark.parametrize("start", range(256 - 8, 257))
def test_pm4_packet_wraps_around_the_ring_at_every_dword(start: int) -> None:
    bench = Bench()
    feed, data = bench.pm4(ring_bytes=1024), bench.block()
    feed.send(*[0xFFFF1000] * start)
    feed.send(*write_data(data.va, *range(1, 6)))
    assert [data[i] for i in range(5)] == [1, 2, 3, 4, 5]
    assert not bench.driver.faults


@pytest.mark.parametrize("start", range(256 - 7, 257))
def test_sdma_packet_wraps_around_the_ring_at_every_dword(start: int) -> None:
    bench = Bench()
    feed, data = bench.sdma(ring_bytes=1024), bench.block()
    feed.send(*[0] * start)
    feed.send(2, *lo_hi(data.va), 2, 11, 22, 33)
    assert [data[i] for i in range(3)] == [11, 22, 33]
    assert feed.read_pointer == 4 * (start + 7)


@pytest.mark.parametrize(("kind", "filler"), [("pm4", 0xFFFF1000), ("pm4", 0x80000000), ("sdma", 0)])
def test_a_whole_ring_of_fillers_is_consumed(kind: str, filler: int) -> None:
    bench = Bench()
    feed: Feed = getattr(bench, kind)(ring_bytes=1 << 16)
    for _ in range(3):
        feed.send(*[filler] * feed.size)
    assert feed.read_pointer == 3 * feed.size * (4 // feed.queue.unit)
    assert not bench.driver.faults


def test_write_pointer_more_than_a_ring_ahead_is_an_error() -> None:
    bench = Bench()
    feed = bench.pm4(ring_bytes=1024)
    feed.device.doorbell(feed.queue, 257)
    assert "over a ring ahead" in str(bench.driver.faults[0])


def test_write_pointer_that_goes_back_is_an_error() -> None:
    bench = Bench()
    feed = bench.pm4()
    feed.send(*pkt3(NOP, 0))
    feed.device.doorbell(feed.queue, 1)
    assert "behind the read pointer" in str(bench.driver.faults[0])


def test_recycled_slot_works_when_the_pointer_is_small_again() -> None:
    bench = Bench()
    first, data = bench.pm4(), bench.block()
    first.send(*write_data(data.va, 1))
    bench.device.queues.remove(first.queue)
    second = bench.pm4()
    second.send(*write_data(data.va, 2))
    assert data[0] == 2


# -- blocking -------------------------------------------------------------------------------------------------------


def test_blocked_queue_resumes_when_the_host_writes_and_the_machine_runs() -> None:
    bench = Bench()
    feed, signal, data = bench.pm4(), bench.block(), bench.block()
    feed.send(*wait_memory(signal.va, 3), *write_data(data.va, 1))
    assert data[0] == 0
    assert bench.machine.blocked() == [
        f"AMD:0 PM4 queue 0: WAIT_REG_MEM at ring dword 0x0: dword at {signal.va:#x} >= 0x3 (it is 0x0)"
    ]
    signal[0] = 3
    assert bench.machine.run()
    assert data[0] == 1
    assert bench.machine.blocked() == []


def test_queues_of_two_devices_wake_each_other() -> None:
    bench = Bench(devices=2)
    a, b, signal, data = bench.pm4(), bench.sdma(device=1), bench.block(), bench.block()
    fence, poll = (5, *lo_hi(signal.va)), (8 | 5 << 28 | 1 << 31, *lo_hi(signal.va + 4))
    a.send(*wait_memory(signal.va, 1), *write_data(signal.va + 4, 1))
    a.send(*wait_memory(signal.va, 2), *write_data(data.va, 9))
    b.send(*fence, 1, *poll, 1, 0xFFFFFFFF, 0, *fence, 2)
    assert data[0] == 9
    assert bench.machine.blocked() == []


def test_deadlock_names_what_every_queue_waits_for() -> None:
    bench = Bench(devices=2)
    a, b, signal = bench.pm4(), bench.pm4(device=1), bench.block()
    a.send(*wait_memory(signal.va, 1))
    b.send(*wait_memory(signal.va + 8, 2))
    assert bench.machine.break_deadlock()
    assert [type(f) for f in bench.driver.faults] == [Deadlock, Deadlock]
    text = str(bench.driver.faults[0])
    assert f"AMD:0 PM4 queue 0: WAIT_REG_MEM at ring dword 0x0: dword at {signal.va:#x} >= 0x1" in text
    assert f"AMD:1 PM4 queue 0: WAIT_REG_MEM at ring dword 0x0: dword at {signal.va + 8:#x} >= 0x2" in text
    assert not bench.machine.break_deadlock()


# -- faults ---------------------------------------------------------------------------------------------------------


def test_page_fault_names_packet_and_stops_the_device_until_reset() -> None:
    bench = Bench()
    feed, other, data = bench.pm4(), bench.sdma(), bench.block()
    feed.send(*write_data(0x1000_0000, 1), *write_data(data.va, 1))
    fault = bench.driver.faults[0]
    assert isinstance(fault, PageFault)
    assert (fault.address, fault.access, fault.present) == (0x1000_0000, "write", False)
    assert "AMD:0 PM4 queue 0: WRITE_DATA at ring dword 0x0" in str(fault)
    other.send(5, *lo_hi(data.va), 5)
    assert data[0] == 0
    bench.device.reset()
    assert data[0] == 0, "what was queued is dropped"
    feed.send(*write_data(data.va, 2))
    assert data[0] == 2
    assert bench.device.fault is None


def test_read_only_memory_cannot_be_written() -> None:
    bench = Bench()
    feed, data = bench.pm4(), bench.block(write=False)
    feed.send(*write_data(data.va, 1))
    fault = bench.driver.faults[0]
    assert isinstance(fault, PageFault)
    assert fault.present


def test_fault_of_a_kernel_keeps_its_own_place() -> None:
    bench = Bench()
    bench.engine.error = IllegalInstruction("bad bytes", Where(kernel="k", pc=0x40))
    feed, data = bench.pm4(), bench.block()
    dispatch(feed)
    feed.send(*write_data(data.va, 1))
    assert str(bench.driver.faults[0]) == "bad bytes (kernel k, PC 0x40)"
    assert data[0] == 0
    assert bench.device.fault_report == ["bad bytes (kernel k, PC 0x40)"]


def dispatch(feed: Feed) -> None:
    num_thread = 0x2E07 - 0x2C00
    feed.send(*pkt3(SET_SH, num_thread, 1, 1, 1), *pkt3(DISPATCH, 1, 1, 1, 1))


def test_error_of_the_emulator_itself_is_a_fault_that_says_so(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.engine.error = ZeroDivisionError("oops")
    feed = bench.pm4()
    dispatch(feed)
    assert isinstance(bench.driver.faults[0], EmulatorError)
    assert "internal error of mockgpu, ZeroDivisionError: oops" in str(bench.driver.faults[0])
    assert "Traceback" in caplog.text
    bench.engine.error = None
    bench.device.reset()
    dispatch(feed)
    assert len(bench.engine.launches) == 2


def test_interrupt_by_the_user_comes_out_and_is_no_fault() -> None:
    bench = Bench()
    bench.engine.error = KeyboardInterrupt()
    feed = bench.pm4()
    with pytest.raises(KeyboardInterrupt):
        dispatch(feed)
    assert not bench.driver.faults and not bench.device.fault_report
    bench.engine.error = None
    dispatch(feed)
    assert len(bench.engine.launches) == 2


def test_read_pointer_in_unmapped_memory_is_a_fault() -> None:
    bench = Bench()
    feed = bench.pm4()
    bench.device.memory.unmap(feed.pointers.va)
    feed.send(*pkt3(NOP, 0))
    assert isinstance(bench.driver.faults[0], PageFault)
    bench.device.reset()


# -- indirect buffers -------------------------------------------------------------------------------------------------


def test_nested_indirect_buffers_return_in_order() -> None:
    bench = Bench()
    feed, outer, inner, data = bench.pm4(), bench.block(), bench.block(), bench.block()
    inner_words = write_data(data.va + 4, 2)
    inner.put(0, *inner_words)
    outer_words = (*write_data(data.va, 1), *indirect(inner.va, len(inner_words)), *write_data(data.va + 8, 3))
    outer.put(0, *outer_words)
    feed.send(*indirect(outer.va, len(outer_words)), *write_data(data.va + 12, 4))
    assert [data[i] for i in range(4)] == [1, 2, 3, 4]


def test_wait_inside_a_nested_buffer_resumes_there() -> None:
    bench = Bench()
    feed, outer, inner, data = bench.pm4(), bench.block(), bench.block(), bench.block()
    inner_words = (*wait_memory(data.va, 1), *write_data(data.va + 4, 2))
    inner.put(0, *inner_words)
    outer_words = (*indirect(inner.va, len(inner_words)), *write_data(data.va + 8, 3))
    outer.put(0, *outer_words)
    feed.send(*indirect(outer.va, len(outer_words)))
    assert "of the indirect buffer at" in bench.machine.blocked()[0]
    data[0] = 1
    bench.machine.run()
    assert (data[1], data[2]) == (2, 3)


def test_chained_buffer_does_not_return() -> None:
    bench = Bench()
    feed, first, second, data = bench.pm4(), bench.block(), bench.block(), bench.block()
    second_words = write_data(data.va, 1)
    second.put(0, *second_words)
    first_words = (*indirect(second.va, len(second_words), VALID | CHAIN), *write_data(data.va + 4, 9))
    first.put(0, *first_words)
    feed.send(*indirect(first.va, len(first_words)), *write_data(data.va + 8, 2))
    assert [data[i] for i in range(3)] == [1, 0, 2]


def test_endless_chain_is_an_error() -> None:
    bench = Bench()
    feed, loop = bench.pm4(), bench.block()
    words = indirect(loop.va, 4, VALID | CHAIN)
    loop.put(0, *words)
    feed.send(*indirect(loop.va, len(words)))
    assert "endless chain" in str(bench.driver.faults[0])


def test_buffer_that_calls_itself_is_an_error() -> None:
    bench = Bench()
    feed, loop = bench.pm4(), bench.block()
    loop.put(0, *indirect(loop.va, 4))
    feed.send(*indirect(loop.va, 4))
    assert f"nested deeper than {MAX_DEPTH}" in str(bench.driver.faults[0])


def test_buffer_that_was_freed_is_a_page_fault() -> None:
    bench = Bench()
    feed, ib = bench.pm4(), bench.block()
    bench.device.memory.unmap(ib.va)
    feed.send(*indirect(ib.va, 4))
    fault = bench.driver.faults[0]
    assert isinstance(fault, PageFault)
    assert fault.address == ib.va
    assert "INDIRECT_BUFFER" in str(fault)


def test_buffer_that_ends_inside_a_packet_is_an_error() -> None:
    bench = Bench()
    feed, ib = bench.pm4(), bench.block()
    ib.put(0, *pkt3(NOP, 0), *pkt3(WRITE, 5 << 8, 0, 0, 0))
    feed.send(*indirect(ib.va, 4))
    fault = bench.driver.faults[0]
    assert isinstance(fault, PacketError)
    assert "ends inside WRITE_DATA at dword 0x2" in str(fault)


@pytest.mark.parametrize(("packet", "why"), [(indirect(0x1000, 0), "empty"), (indirect(0x1000, 4, 0), "VALID")])
def test_bad_indirect_buffer_packets(packet: tuple[int, ...], why: str) -> None:
    bench = Bench()
    ib = bench.block()
    bench.pm4().send(packet[0], *lo_hi(ib.va), packet[3])
    assert why in str(bench.driver.faults[0])
