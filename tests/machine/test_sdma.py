"""Every SDMA packet that a copy queue takes, and what it says about those it does not take."""

import pytest
from support.queues import Bench, lo_hi

from mockgpu.machine.errors import PacketError, PageFault

POLL_MEMORY = 1 << 31


def copy(source: int, destination: int, nbytes: int) -> tuple[int, ...]:
    return (1, nbytes - 1, 0, *lo_hi(source), *lo_hi(destination))


@pytest.mark.parametrize("nbytes", [1, 3, 4, 5, 4096, 8191])
def test_copy_moves_exactly_its_count(nbytes: int) -> None:
    bench = Bench()
    source, destination = bench.block(8192), bench.block(8192)
    source.put(0, *range(1, 2049))
    bench.sdma().send(*copy(source.va, destination.va, nbytes))
    assert destination.bytes(0, 8192) == source.bytes(0, nbytes) + bytes(8192 - nbytes)
    assert bench.machine.statistics.copied_bytes == nbytes


def test_copy_count_above_its_field_is_refused() -> None:
    bench = Bench()
    bench.sdma().send(1, 1 << 30, 0, 0, 0, 0, 0)
    assert "bits above its field" in str(bench.driver.faults[0])


def test_copy_of_the_largest_count_is_checked_against_memory() -> None:
    bench = Bench()
    source = bench.block()
    bench.sdma().send(*copy(source.va, source.va, 1 << 30))
    fault = bench.driver.faults[0]
    assert isinstance(fault, PageFault)
    assert "COPY at ring dword 0x0" in str(fault)


def test_copy_to_two_places() -> None:
    bench = Bench()
    data = bench.block()
    data.put(0, 1, 2)
    bench.sdma().send(1 | 1 << 27, 7, 0, *lo_hi(data.va), *lo_hi(data.va + 64), *lo_hi(data.va + 128))
    assert (data[16], data[17], data[32], data[33]) == (1, 2, 1, 2)


def test_write_stores_its_dwords() -> None:
    bench = Bench()
    data = bench.block()
    bench.sdma().send(2, *lo_hi(data.va), 1, 5, 6)
    assert (data[0], data[1], data[2]) == (5, 6, 0)


def test_write_waits_until_its_length_is_known() -> None:
    bench = Bench()
    feed, data = bench.sdma(), bench.block()
    for word in (2, *lo_hi(data.va), 0):
        feed.send(word)
    assert data[0] == 0
    feed.send(8)
    assert data[0] == 8


def test_fence_writes_32_bits_and_leaves_the_neighbour() -> None:
    bench = Bench()
    data = bench.block()
    data.put(0, 1, 2, 3)
    bench.sdma().send(5 | 3 << 16, *lo_hi(data.va), 9)
    assert [data[i] for i in range(3)] == [9, 2, 3]


def test_trap_raises_an_interrupt_with_its_context() -> None:
    bench = Bench()
    bench.sdma().send(6, 0x42)
    assert bench.driver.interrupts == [0x42]


@pytest.mark.parametrize(("function", "value", "blocks"), [(5, 4, True), (5, 5, False), (3, 6, True), (0, 0, False)])
def test_poll_memory(function: int, value: int, blocks: bool) -> None:
    bench = Bench()
    data = bench.block()
    data[0] = value
    bench.sdma().send(8 | function << 28 | POLL_MEMORY, *lo_hi(data.va), 5, 0xFFFFFFFF, 0x0FFF0004)
    assert bool(bench.machine.blocked()) == blocks


def test_poll_register_takes_a_byte_address() -> None:
    bench = Bench()
    register = bench.device.registers.register("COMPUTE_USER_DATA_0")
    bench.device.registers.set(register.name, 5)
    bench.sdma().send(8 | 3 << 28, register.address << 2, 0, 5, 0xFFFFFFFF, 0)
    assert not bench.machine.blocked()
    assert not bench.driver.faults


@pytest.mark.parametrize(("header", "why"), [(7 << 28, "reserved"), (1 << 26, "HDP flush")])
def test_poll_forms_that_are_refused(header: int, why: str) -> None:
    bench = Bench()
    bench.sdma().send(8 | header, 0, 0, 0, 0, 0)
    assert why in str(bench.driver.faults[0])


@pytest.mark.parametrize("sub", [1, 2])
def test_timestamp_writes_64_bits(sub: int) -> None:
    bench = Bench()
    data = bench.block()
    data.put(0, 0xFFFFFFFF, 0xFFFFFFFF, 7)
    bench.sdma().send(13 | sub << 8, *lo_hi(data.va))
    assert (data[0] > 0, data[1], data[2]) == (True, 0, 7)


def test_constant_fill() -> None:
    bench = Bench()
    data = bench.block()
    bench.sdma().send(11 | 2 << 30, *lo_hi(data.va), 0x01020304, 7)
    assert (data[0], data[1], data[2]) == (0x01020304, 0x01020304, 0)
    bench.sdma().send(11, *lo_hi(data.va), 0xABABABAB, 2)
    assert data[0] == 0x01ABABAB
    bench.sdma().send(11, *lo_hi(data.va), 0x01020304, 2)
    assert "fill size 0" in str(bench.driver.faults[0])


def test_atomic_add_64() -> None:
    bench = Bench()
    data = bench.block()
    data.put(0, 0xFFFFFFFF, 0)
    bench.sdma().send(10 | 47 << 25, *lo_hi(data.va), 1, 0, 0, 0, 0)
    assert (data[0], data[1]) == (0, 1)


def test_atomic_loop_waits_for_the_compare() -> None:
    bench = Bench()
    data = bench.block()
    bench.sdma().send(10 | 1 << 16 | 0x08 << 25, *lo_hi(data.va), 9, 0, 4, 0, 0)
    assert "CMPSWAP_32" in bench.machine.blocked()[0]
    data[0] = 4
    bench.machine.run()
    assert data[0] == 9


def test_indirect_buffer_runs_and_returns() -> None:
    bench = Bench()
    feed, ib, data = bench.sdma(), bench.block(), bench.block()
    ib.put(0, 5, *lo_hi(data.va), 1, 0, 0, 0, 0)
    feed.send(4, *lo_hi(ib.va), 8, 0, 0, 5, *lo_hi(data.va + 4), 2)
    assert (data[0], data[1]) == (1, 2)


def test_cache_request_and_counted_nop_retire() -> None:
    bench = Bench()
    feed, data = bench.sdma(), bench.block()
    feed.send(17, 0, 0, 0, 0, 3 << 16, 0xDEAD, 0xDEAD, 0xDEAD, 5, *lo_hi(data.va), 1)
    assert data[0] == 1


@pytest.mark.parametrize(
    ("header", "name"), [(0x77, "unknown packet"), (14, "SRBM_WRITE"), (1 | 4 << 8, "COPY"), (12, "PTEPDE")]
)
def test_unsupported_packets_name_opcode_dwords_and_ring_offset(header: int, name: str) -> None:
    bench = Bench()
    bench.sdma().send(5, *lo_hi(bench.block().va), 0, header, 0xAA, 0xBB)
    fault = bench.driver.faults[0]
    assert isinstance(fault, PacketError)
    assert (fault.opcode, fault.offset, fault.dwords[:3]) == (header & 0xFF, 4, (header, 0xAA, 0xBB))
    assert f"{name} (opcode {header & 0xFF:#x}) at ring dword 0x4" in str(fault)


def test_write_pointer_inside_a_dword_is_an_error() -> None:
    bench = Bench()
    feed = bench.sdma()
    feed.device.doorbell(feed.queue, 6)
    assert "whole number of dwords" in str(bench.driver.faults[0])
