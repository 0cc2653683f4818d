"""Every PM4 packet that a compute queue takes, and what it says about those it does not take."""

import pytest
from support.queues import Bench, lo_hi, pkt3

from mockgpu.machine.errors import PacketError
from mockgpu.machine.pm4 import opcode_names
from mockgpu.machine.pm4_packets import HANDLERS

OPCODE = {name: number for number, name in opcode_names("pm4_nv").items()}


def send(bench: Bench, name: str, *operands: int) -> None:
    bench.pm4().send(*pkt3(OPCODE[name], *operands))


def test_every_handler_is_a_packet_of_both_generations_headers() -> None:
    for table in ("pm4_nv", "pm4_soc15"):
        names = set(opcode_names(table).values())
        assert set(HANDLERS) <= names, table


def test_unknown_packet_names_opcode_dwords_and_ring_offset() -> None:
    bench = Bench()
    feed = bench.pm4()
    feed.send(*pkt3(OPCODE["NOP"], 0), *pkt3(0xEE, 0x11, 0x22))
    fault = bench.driver.faults[0]
    assert isinstance(fault, PacketError)
    assert (fault.opcode, fault.offset, fault.dwords) == (0xEE, 2, (0xC001EE00, 0x11, 0x22))
    assert "unknown packet (opcode 0xee) at ring dword 0x2" in str(fault)
    assert "c001ee00 00000011 00000022" in str(fault)


def test_known_but_unsupported_packet_is_named() -> None:
    bench = Bench()
    send(bench, "MAP_QUEUES", 0, 0, 0, 0, 0, 0)
    assert "MAP_QUEUES (opcode 0xa2)" in str(bench.driver.faults[0])


@pytest.mark.parametrize("kind", [0, 1])
def test_other_packet_types_are_refused(kind: int) -> None:
    bench = Bench()
    bench.pm4().send(kind << 30 | 5, 0, 0)
    assert f"type-{kind} packet header at ring dword 0x0" in str(bench.driver.faults[0])


def test_wrong_length_is_refused() -> None:
    bench = Bench()
    send(bench, "WAIT_REG_MEM", 0, 0)
    assert "2 operand dwords where 6 belong" in str(bench.driver.faults[0])


def test_predicate_bit_is_refused() -> None:
    bench = Bench()
    header, *rest = pkt3(OPCODE["NOP"], 0)
    bench.pm4().send(header | 1, *rest)
    assert "predicate" in str(bench.driver.faults[0])


@pytest.mark.parametrize("length", [1, 2, 3, 100, 0x3FFF])
def test_nop_of_every_length(length: int) -> None:
    bench = Bench()
    feed, data = bench.pm4(ring_bytes=1 << 17), bench.block()
    feed.send(*pkt3(OPCODE["NOP"], *[0xDEAD] * length), *pkt3(OPCODE["WRITE_DATA"], 5 << 8, *lo_hi(data.va), 1))
    assert data[0] == 1


def test_cache_and_event_packets_retire() -> None:
    bench = Bench()
    feed = bench.pm4()
    feed.send(*pkt3(OPCODE["ACQUIRE_MEM"], *[0] * 7), *pkt3(OPCODE["ACQUIRE_MEM"], *[0] * 6))
    feed.send(*pkt3(OPCODE["EVENT_WRITE"], 7 | 4 << 8))
    assert feed.read_pointer == feed.put


# -- registers --------------------------------------------------------------------------------------------------------


def test_set_sh_reg_writes_a_run_of_registers() -> None:
    bench = Bench()
    register = bench.device.registers.register("COMPUTE_USER_DATA_0")
    send(bench, "SET_SH_REG", register.address - 0x2C00, 5, 6, 7)
    assert [bench.device.registers.get(f"COMPUTE_USER_DATA_{i}") for i in range(4)] == [5, 6, 7, 0]


def test_set_uconfig_reg_reaches_past_the_headers_end() -> None:
    bench = Bench()
    send(bench, "SET_UCONFIG_REG", 0x8000, 9)
    assert bench.device.registers.read(0xC000 + 0x8000) == 9


@pytest.mark.parametrize("name", ["SET_SH_REG", "SET_UCONFIG_REG"])
def test_register_offset_above_16_bits_is_refused(name: str) -> None:
    bench = Bench()
    send(bench, name, 0x10000, 9)
    assert "above its 16-bit field" in str(bench.driver.faults[0])


def test_register_run_past_the_window_is_refused() -> None:
    bench = Bench()
    send(bench, "SET_SH_REG", 0x3FF, 1, 2)
    assert "lie outside" in str(bench.driver.faults[0])


# -- waiting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "passing", "blocking"),
    [
        (0, [0, 5, 9], []),
        (1, [0, 4], [5, 6]),
        (2, [4, 5], [6]),
        (3, [5], [4, 6]),
        (4, [4, 6], [5]),
        (5, [5, 6, 0xFFFFFFFF], [4]),
        (6, [6], [4, 5]),
    ],
)
def test_wait_reg_mem_functions_on_memory(function: int, passing: list[int], blocking: list[int]) -> None:
    for value in passing + blocking:
        bench = Bench()
        data = bench.block()
        data[1] = value
        send(bench, "WAIT_REG_MEM", 1 << 4 | function, *lo_hi(data.va + 4), 5, 0xFFFFFFFF, 4)
        assert bool(bench.machine.blocked()) == (value in blocking)


def test_wait_reg_mem_masks_the_value() -> None:
    bench = Bench()
    data = bench.block()
    data[0] = 0xAB05
    send(bench, "WAIT_REG_MEM", 1 << 4 | 3, *lo_hi(data.va), 5, 0xFF, 4)
    assert not bench.machine.blocked()


def test_reserved_wait_function_is_refused() -> None:
    bench = Bench()
    send(bench, "WAIT_REG_MEM", 1 << 4 | 7, *lo_hi(bench.block().va), 5, 0xFF, 4)
    assert "function 7 is not supported" in str(bench.driver.faults[0])


def test_hdp_flush_request_is_done_at_once() -> None:
    bench = Bench()
    registers = bench.device.registers
    request, done = (registers.register(f"BIF_BX_PF0_GPU_HDP_FLUSH_{n}").address for n in ("REQ", "DONE"))
    send(bench, "WAIT_REG_MEM", 1 << 6 | 5, request, done, 0xFFFFFFFF, 0xFFFFFFFF, 4)
    assert not bench.machine.blocked()
    assert not bench.driver.faults


def test_wait_on_a_register_blocks_and_names_it() -> None:
    bench = Bench()
    address = bench.device.registers.register("SQ_THREAD_TRACE_STATUS").address
    send(bench, "WAIT_REG_MEM", 3, address, 0, 1, 1, 4)
    assert "SQ_THREAD_TRACE_STATUS & 0x1 == 0x1 (it is 0x0)" in bench.machine.blocked()[0]


# -- signalling -------------------------------------------------------------------------------------------------------


def release(bench: Bench, address: int, value: int, data: int, interrupt: int = 0, context: int = 0) -> None:
    select = data << 29 | interrupt << 24
    send(bench, "RELEASE_MEM", 20 | 5 << 8, select, *lo_hi(address), *lo_hi(value), context)


def test_release_mem_writes_32_bits_only() -> None:
    bench = Bench()
    data = bench.block()
    data.put(0, 1, 2, 3)
    release(bench, data.va, 0x1_0000_0009, data=1)
    assert [data[i] for i in range(3)] == [9, 2, 3]


def test_release_mem_writes_64_bits() -> None:
    bench = Bench()
    data = bench.block()
    data.put(0, 1, 2, 3)
    release(bench, data.va, 0x7_0000_0009, data=2)
    assert [data[i] for i in range(3)] == [9, 7, 3]


def test_release_mem_timestamps_grow_with_work() -> None:
    bench = Bench()
    data = bench.block()
    release(bench, data.va, 0, data=3)
    bench.device.copied(1 << 20)
    release(bench, data.va + 8, 0, data=3)
    assert 0 < data[0] < data[2]
    assert data[2] - data[0] >= (1 << 20) / 25 / 10


@pytest.mark.parametrize(("interrupt", "raised", "written"), [(0, 0, 1), (1, 1, 0), (2, 1, 1), (3, 0, 1), (4, 1, 1)])
def test_release_mem_interrupt_selectors(interrupt: int, raised: int, written: int) -> None:
    bench = Bench()
    data = bench.block()
    release(bench, data.va, 1, data=1, interrupt=interrupt, context=0x42)
    assert bench.driver.interrupts == [0x42] * raised
    assert data[0] == written


@pytest.mark.parametrize(("data", "interrupt"), [(4, 0), (5, 0), (1, 5), (1, 6)])
def test_release_mem_selectors_that_are_not_supported_are_named(data: int, interrupt: int) -> None:
    bench = Bench()
    release(bench, bench.block().va, 1, data=data, interrupt=interrupt)
    assert "is not supported" in str(bench.driver.faults[0])


# -- control flow -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mask", "value"), [(1, 1), (2, 0), (3, 1)])
def test_pred_exec_runs_on_the_named_xcc_only(mask: int, value: int) -> None:
    bench = Bench()
    feed, data = bench.pm4(), bench.block()
    body = pkt3(OPCODE["WRITE_DATA"], 5 << 8, *lo_hi(data.va), 1)
    after = pkt3(OPCODE["WRITE_DATA"], 5 << 8, *lo_hi(data.va + 4), 2)
    feed.send(*pkt3(OPCODE["PRED_EXEC"], mask << 24 | len(body)), *body, *after)
    assert (data[0], data[1]) == (value, 2)


def test_skip_waits_for_dwords_that_are_not_there_yet() -> None:
    bench = Bench()
    feed, data = bench.pm4(), bench.block()
    body = pkt3(OPCODE["WRITE_DATA"], 5 << 8, *lo_hi(data.va), 1)
    feed.send(*pkt3(OPCODE["PRED_EXEC"], 2 << 24 | len(body)))
    feed.send(*body)
    feed.send(*pkt3(OPCODE["WRITE_DATA"], 5 << 8, *lo_hi(data.va + 4), 2))
    assert (data[0], data[1]) == (0, 2)


def test_pred_exec_inside_an_indirect_buffer() -> None:
    bench = Bench()
    feed, ib, data = bench.pm4(), bench.block(), bench.block()
    body = pkt3(OPCODE["WRITE_DATA"], 5 << 8, *lo_hi(data.va), 1)
    words = (*pkt3(OPCODE["PRED_EXEC"], 2 << 24 | len(body)), *body)
    ib.put(0, *words)
    feed.send(*pkt3(OPCODE["INDIRECT_BUFFER"], *lo_hi(ib.va), len(words) | 1 << 23))
    assert data[0] == 0
    assert not bench.driver.faults


def test_skip_past_the_end_of_an_indirect_buffer_is_an_error() -> None:
    bench = Bench()
    feed, ib = bench.pm4(), bench.block()
    ib.put(0, *pkt3(OPCODE["PRED_EXEC"], 2 << 24 | 10))
    feed.send(*pkt3(OPCODE["INDIRECT_BUFFER"], *lo_hi(ib.va), 2 | 1 << 23))
    assert "past its indirect buffer's end" in str(bench.driver.faults[0])


@pytest.mark.parametrize("condition", [0, 1, 7])
def test_cond_exec_skips_when_memory_is_zero(condition: int) -> None:
    bench = Bench()
    feed, data = bench.pm4(), bench.block()
    data[8] = condition
    body = pkt3(OPCODE["WRITE_DATA"], 5 << 8, *lo_hi(data.va), 1)
    feed.send(*pkt3(OPCODE["COND_EXEC"], *lo_hi(data.va + 32), 0, len(body)), *body)
    assert data[0] == bool(condition)


# -- moving data ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count_64", "expected"), [(0, [1, 9]), (1, [1, 2])])
def test_copy_data_memory_to_memory(count_64: int, expected: list[int]) -> None:
    bench = Bench()
    data = bench.block()
    data.put(0, 1, 2)
    data.put(4, 9, 9)
    send(bench, "COPY_DATA", 2 | 2 << 8 | count_64 << 16, *lo_hi(data.va), *lo_hi(data.va + 16))
    assert [data[4], data[5]] == expected


def test_copy_data_immediate_register_and_clock() -> None:
    bench = Bench()
    data, registers = bench.block(), bench.device.registers
    address = registers.register("COMPUTE_USER_DATA_0").address
    send(bench, "COPY_DATA", 5, 77, 0, address, 0)
    assert registers.get("COMPUTE_USER_DATA_0") == 77
    send(bench, "COPY_DATA", 0 | 2 << 8, address, 0, *lo_hi(data.va))
    assert data[0] == 77
    send(bench, "COPY_DATA", 9 | 2 << 8 | 1 << 16, 0, 0, *lo_hi(data.va + 8))
    assert data[2] > 0


def test_copy_data_from_gds_is_refused() -> None:
    bench = Bench()
    send(bench, "COPY_DATA", 3 | 2 << 8, 0, 0, *lo_hi(bench.block().va))
    assert "src_sel 3 is not supported" in str(bench.driver.faults[0])


def test_write_data_to_one_address_and_to_registers() -> None:
    bench = Bench()
    data, registers = bench.block(), bench.device.registers
    send(bench, "WRITE_DATA", 5 << 8 | 1 << 16, *lo_hi(data.va), 1, 2, 3)
    assert (data[0], data[1]) == (3, 0)
    send(bench, "WRITE_DATA", 0, registers.register("COMPUTE_USER_DATA_3").address, 0, 8, 9)
    assert (registers.get("COMPUTE_USER_DATA_3"), registers.get("COMPUTE_USER_DATA_4")) == (8, 9)


def test_dma_data_copies_and_fills() -> None:
    bench = Bench()
    data = bench.block()
    data.put(0, 1, 2, 3)
    send(bench, "DMA_DATA", 0, *lo_hi(data.va), *lo_hi(data.va + 64), 10)
    assert data.bytes(64, 12) == data.bytes(0, 10) + b"\0\0"
    send(bench, "DMA_DATA", 2 << 29, 0x01020304, 0, *lo_hi(data.va + 128), 8)
    assert (data[32], data[33], data[34]) == (0x01020304, 0x01020304, 0)


@pytest.mark.parametrize(
    ("opcode", "old", "source", "new"),
    [
        (0x0F, 0xFFFFFFFF, 2, 1),
        (0x10, 1, 2, 0xFFFFFFFF),
        (0x11, 1, 0xFFFFFFFF, 0xFFFFFFFF),
        (0x12, 1, 0xFFFFFFFF, 1),
        (0x13, 1, 0xFFFFFFFF, 1),
        (0x14, 1, 0xFFFFFFFF, 0xFFFFFFFF),
        (0x15, 0b1100, 0b1010, 0b1000),
        (0x16, 0b1100, 0b1010, 0b1110),
        (0x17, 0b1100, 0b1010, 0b0110),
        (0x18, 5, 5, 0),
        (0x18, 4, 5, 5),
        (0x19, 0, 5, 5),
        (0x19, 3, 5, 2),
        (0x07, 3, 5, 5),
        (0x4F, 1, 2, 3),
    ],
)
def test_atomic_mem_operations(opcode: int, old: int, source: int, new: int) -> None:
    bench = Bench()
    data = bench.block()
    data.put(0, old, 0x55)
    send(bench, "ATOMIC_MEM", opcode, *lo_hi(data.va), *lo_hi(source), 0, 0, 0)
    assert (data[0], data[1]) == (new, 0x55)


def test_atomic_mem_loops_until_the_compare_holds() -> None:
    bench = Bench()
    data = bench.block()
    data.put(0, 7, 1)
    send(bench, "ATOMIC_MEM", 0x28 | 1 << 8, *lo_hi(data.va), *lo_hi(5), *lo_hi(8 | 1 << 32), 0)
    assert "CMPSWAP_64" in bench.machine.blocked()[0]
    data[0] = 8
    bench.machine.run()
    assert (data[0], data[1]) == (5, 0)


# -- dispatch ---------------------------------------------------------------------------------------------------------


def program(bench: Bench, **values: int) -> None:
    for name, value in values.items():
        bench.device.registers.set(f"COMPUTE_{name}", value)


def program_all(bench: Bench) -> None:
    program(bench, PGM_LO=0x12345678, PGM_HI=0x9, PGM_RSRC1=1, PGM_RSRC2=2 | 4 << 15, PGM_RSRC3=3)
    program(bench, NUM_THREAD_X=32, NUM_THREAD_Y=2, NUM_THREAD_Z=1 | 5 << 16, USER_DATA_0=10, USER_DATA_15=25)
    program(bench, TMPRING_SIZE=7 | 3 << 12, DISPATCH_SCRATCH_BASE_LO=0x100, DISPATCH_SCRATCH_BASE_HI=1)
    program(bench, START_X=1, START_Y=0, START_Z=2)


def initiator(bench: Bench, **fields: int) -> int:
    return bench.device.registers.register("COMPUTE_DISPATCH_INITIATOR").encode(compute_shader_en=1, **fields)


def test_dispatch_direct_builds_a_launch_from_the_registers() -> None:
    bench = Bench()
    program_all(bench)
    bench.device.register_code(0x9_12345678 << 8, 0x100, "my_kernel")
    send(bench, "DISPATCH_DIRECT", 4, 5, 6, initiator(bench, cs_w32_en=1, force_start_at_000=1))
    (launch,) = bench.engine.launches
    assert launch.entry == 0x9_12345678 << 8
    assert (launch.grid, launch.start, launch.block) == ((4, 5, 6), (0, 0, 0), (32, 2, 1))
    assert launch.wave_size == 32
    assert launch.user_data == (10, *[0] * 14, 25)
    assert (launch.rsrc1, launch.rsrc2, launch.rsrc3) == (1, 2 | 4 << 15, 3)
    assert launch.lds_bytes == 2048
    assert launch.scratch_base == 0x1_00000100 << 8
    assert (launch.scratch_wave_bytes, launch.scratch_waves) == (3 * 256, 7 * 6)
    assert launch.kernel == "my_kernel"
    assert (bench.machine.statistics.kernels, bench.machine.statistics.waves) == (1, 2)
    assert bench.machine.statistics.by_class == {"valu": 100}


def test_dispatch_starts_at_the_start_registers_and_ends_at_the_size() -> None:
    bench = Bench()
    program_all(bench)
    send(bench, "DISPATCH_DIRECT", 4, 5, 6, initiator(bench))
    (launch,) = bench.engine.launches
    assert (launch.grid, launch.start, launch.wave_size) == ((3, 5, 4), (1, 0, 2), 64)


def test_dispatch_indirect_reads_the_size_from_memory() -> None:
    bench = Bench()
    program_all(bench)
    data = bench.block()
    data.put(0, 7, 8, 9)
    send(bench, "DISPATCH_INDIRECT", *lo_hi(data.va), initiator(bench, force_start_at_000=1))
    assert bench.engine.launches[0].grid == (7, 8, 9)


def test_thread_dimensions_count_work_items() -> None:
    bench = Bench()
    program_all(bench)
    flags = initiator(bench, force_start_at_000=1, use_thread_dimensions=1)
    send(bench, "DISPATCH_DIRECT", 64, 4, 3, flags)
    assert bench.engine.launches[0].grid == (2, 2, 3)
    send(bench, "DISPATCH_DIRECT", 65, 4, 3, flags)
    assert "partial workgroups" in str(bench.driver.faults[0])


def test_empty_grid_launches_nothing() -> None:
    bench = Bench()
    program_all(bench)
    send(bench, "DISPATCH_DIRECT", 0, 5, 6, initiator(bench, force_start_at_000=1))
    assert not bench.engine.launches
    assert not bench.driver.faults


def test_workgroup_that_is_too_large_is_refused() -> None:
    bench = Bench()
    program_all(bench)
    program(bench, NUM_THREAD_X=1024)
    send(bench, "DISPATCH_DIRECT", 1, 1, 1, initiator(bench))
    assert "a workgroup of 1024 x 2 x 1 work items" in str(bench.driver.faults[0])
