"""Wrong kernels: what tinygrad raises, and that the process goes on to run others."""

import gc
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tinygrad import Device, Tensor
from tinygrad.device import BufferSpec, TinyELF
from tinygrad.dtype import dtypes
from tinygrad.helpers import Target
from tinygrad.runtime.support.compiler_llvm import AMDLLVMCompiler
from tinygrad.runtime.support.hcq import HCQBuffer

from mockgpu.drivers import kfd
from mockgpu.machine.device import Device as MachineDevice
from mockgpu.machine.launch import Launch

NOWHERE = 0x7F00DEAD0000
SOURCE = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.trap()
define amdgpu_kernel void @{name}(ptr addrspace(1) %out, ptr addrspace(1) %in) #0 {{
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %source = getelementptr i32, ptr addrspace(1) %in, i32 %lane
  %target = getelementptr i32, ptr addrspace(1) %out, i32 %lane
  {body}
}}
attributes #0 = {{ nounwind "amdgpu-flat-work-group-size"="1,64" }}
"""
COPY = "%v = load i32, ptr addrspace(1) %source\n store i32 %v, ptr addrspace(1) %target\n ret void"
ILLEGAL = 'call void asm sideeffect ".long 0xffffffff", ""()\n ret void'
NO_SEMANTICS = """call void asm sideeffect
 "image_bvh_intersect_ray v[0:3], [v0, v1, v[2:4], v[5:7], v[8:10]], s[0:3]", ""()
 ret void"""
TRAP = "call void @llvm.trap()\n ret void"
FOR_EVER = "br label %l\nl:\n %v = load volatile i32, ptr addrspace(1) %source\n br label %l"


@pytest.fixture
def dev() -> Any:
    device = Device["AMD"]
    if not device.iface.__class__.__name__.startswith("MOCK"):
        pytest.fail("AMD is not the emulated device")
    return device


@pytest.fixture
def launch(dev: Any) -> Callable[..., Any]:
    """``launch(name, body, out, source, wait=True)``: compile and run one workgroup of 32 lanes."""
    signature = (("out", 0, dtypes.int32, (64,)), ("in", 1, dtypes.int32, (64,)))

    def run(name: str, body: str, out: HCQBuffer, source: HCQBuffer, wait: bool = True) -> Any:
        library = AMDLLVMCompiler(dev.arch).compile(SOURCE.format(name=name, body=body))
        program = dev.runtime(TinyELF(library, name, Target("AMD"), signature))
        program(out, source, global_size=(1, 1, 1), local_size=(32, 1, 1), wait=wait)
        return program

    return run


@pytest.fixture
def good(dev: Any) -> Iterator[HCQBuffer]:
    buffer = dev.allocator.alloc(4096, BufferSpec())
    yield buffer
    dev.allocator.free(buffer, 4096)


@pytest.fixture
def bad(dev: Any) -> HCQBuffer:
    """A buffer that is mapped nowhere."""
    return HCQBuffer(NOWHERE, 4096, owner=dev)


def the_process_goes_on(dev: Any) -> None:
    assert dev.error_state is None
    dev.synchronize()
    assert (Tensor([1, 2, 3]) + 1).tolist() == [2, 3, 4]


def test_a_load_outside_of_every_mapping(dev: Any, launch: Any, good: HCQBuffer, bad: HCQBuffer) -> None:
    with pytest.raises(RuntimeError) as e:
        launch("reads_nowhere", COPY, good, bad)
    first, second = str(e.value).splitlines()
    assert first.startswith("MMU fault: 0x7F00DEAD0000 | NotPresent=1 ReadOnly=0")
    assert re.match(
        r"AMD:0: page fault: read at 0x7f00dead0000, no mapping holds this address \(kernel reads_nowhere, "
        r"PC 0x[0-9a-f]+, 'global_load_b32 .*', workgroup \(0, 0, 0\), wave 0, lane 0\)$",
        second,
    )
    the_process_goes_on(dev)


def test_a_store_outside_of_every_mapping(dev: Any, launch: Any, good: HCQBuffer, bad: HCQBuffer) -> None:
    with pytest.raises(RuntimeError, match=r"MMU fault: 0x7F00DEAD0000[^\n]*\n.*write at .*kernel writes_nowhere,"):
        launch("writes_nowhere", COPY, bad, good)
    the_process_goes_on(dev)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (ILLEGAL, r"illegal instruction: .* 0xffffffff \(kernel stops_here, PC 0x"),
        (NO_SEMANTICS, r"image_bvh_intersect_ray on gfx1100: no semantics .*\(kernel stops_here, PC 0x"),
        (TRAP, r"\(kernel stops_here, PC 0x[0-9a-f]+, 's_trap 2'"),
    ],
    ids=["illegal", "no semantics", "trap"],
)
def test_an_instruction_that_cannot_be_executed(dev: Any, launch: Any, good: HCQBuffer, body: str, text: str) -> None:
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=rf"HW fault: [^\n]*\n.*{text}"):
        launch("stops_here", body, good, good)
    assert time.monotonic() - start < 5
    the_process_goes_on(dev)


def test_a_kernel_that_never_ends(dev: Any, launch: Any, good: HCQBuffer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kfd.system().machine.devices[0], "timeout", 0.5)
    with pytest.raises(
        RuntimeError, match=r"HW fault: [^\n]*\n.*0\.5 s; raise MOCKGPU_TIMEOUT .*\(kernel turns_round, PC 0x[0-9a-f]+"
    ):
        launch("turns_round", FOR_EVER, good, good)
    the_process_goes_on(dev)


@pytest.mark.parametrize("wait", [True, False])
def test_an_interrupt_of_a_long_kernel_is_no_fault(
    dev: Any, launch: Any, good: HCQBuffer, capfd: pytest.CaptureFixture[str], wait: bool
) -> None:
    before, other = kfd.statistics().faults, Tensor([1, 2], device="AMD:1").realize()
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    launch("returns", COPY, good, good)  # compiler and engine are warm
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            launch("is_interrupted", FOR_EVER, good, good, wait=wait)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    the_process_goes_on(dev)
    assert other.tolist() == [1, 2]
    assert kfd.statistics().faults == before
    assert "fault" not in capfd.readouterr().err


INTERRUPTED = """
import signal
from tinygrad import Tensor
a = Tensor.ones(512, 512).contiguous().realize()
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try: (a @ a).realize(); print("not interrupted")
except KeyboardInterrupt: print("interrupted")
signal.setitimer(signal.ITIMER_REAL, 0)
print((Tensor([1, 2, 3]) + 1).tolist())
"""


def test_nothing_false_is_said_after_an_interrupt_or_at_exit() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    environment = {**os.environ, "MOCKGPU": "1", "DEV": "AMD"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "interrupted\n[2, 3, 4]\n", done.stderr
    assert done.returncode == 0 and done.stderr == ""


def test_the_error_of_a_launch_that_nobody_waits_for_comes_with_the_next_wait(
    dev: Any, launch: Any, good: HCQBuffer, bad: HCQBuffer
) -> None:
    launch("not_awaited", COPY, good, bad, wait=False)
    with pytest.raises(RuntimeError, match="kernel not_awaited"):
        dev.synchronize()
    the_process_goes_on(dev)


def test_an_error_found_while_copying_comes_once(dev: Any, launch: Any, good: HCQBuffer, bad: HCQBuffer) -> None:
    launch("before_a_copy", COPY, good, bad, wait=False)
    with pytest.raises(RuntimeError, match="kernel before_a_copy"):
        dev.allocator._copyout(memoryview(bytearray(64)), good)
    the_process_goes_on(dev)


def test_a_fault_of_one_device_is_reported_to_the_one_that_waits_for_it(
    dev: Any, launch: Any, good: HCQBuffer, bad: HCQBuffer
) -> None:
    there = Tensor([1, 2, 3], device="AMD:1").realize()
    launch("on_the_first", COPY, good, bad, wait=False)
    with pytest.raises(RuntimeError, match="kernel on_the_first"):
        (there.to("AMD:0") + Tensor([1, 1, 1])).tolist()
    the_process_goes_on(dev)
    assert there.tolist() == [1, 2, 3]


def test_a_wait_for_a_signal_that_nothing_sends(dev: Any) -> None:
    never = dev.new_signal(value=0)
    queue = dev.hw_compute_queue_t().wait(never, 1).signal(dev.timeline_signal, dev.next_timeline())
    queue.submit(dev)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"AMD:0: deadlock: .*\n +AMD:0 PM4 queue 0: "):
        dev.synchronize()
    assert time.monotonic() - start < 10
    the_process_goes_on(dev)


def test_a_packet_that_does_not_exist(dev: Any) -> None:
    queue = dev.hw_compute_queue_t()
    queue.q(0xC0017700, 0x11111111, 0x22222222)  # type 3, opcode 0x77, two dwords
    queue.signal(dev.timeline_signal, dev.next_timeline()).submit(dev)
    with pytest.raises(
        RuntimeError, match=r"HW fault: .*\nAMD:0 PM4 queue 0: .*0x77.* at ring dword 0x.*c0017700 11111111 22222222"
    ):
        dev.synchronize()
    the_process_goes_on(dev)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_program_that_is_collected_while_another_runs_disturbs_nothing(
    dev: Any, launch: Any, good: HCQBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finalizer frees the program's memory, and waits for the device before; it can run inside of a submission."""

    class Cycle:
        def __init__(self, program: Any) -> None:
            self.program, self.itself = program, self

    execute = MachineDevice.launch

    def collect_and_execute(self: MachineDevice, launch: Launch) -> None:
        gc.collect()
        execute(self, launch)

    total = Tensor([1, 2, 3]).realize() + 1
    monkeypatch.setattr(MachineDevice, "launch", collect_and_execute)
    gc.disable()
    try:
        Cycle(launch("is_collected", COPY, good, good))
        start = time.monotonic()
        assert total.tolist() == [2, 3, 4]
    finally:
        gc.enable()
    assert time.monotonic() - start < 20
    the_process_goes_on(dev)


def test_memory_whose_free_was_put_off_is_there_when_it_is_needed(dev: Any) -> None:
    size = 1 << 33  # a third of the board's memory
    never = dev.new_signal(value=0)
    for _ in range(6):
        buffer = dev.allocator.alloc(size, BufferSpec(nolru=True))
        dev.hw_compute_queue_t().wait(never, 1).signal(dev.timeline_signal, dev.next_timeline()).submit(dev)
        dev.allocator.free(buffer, size, BufferSpec(nolru=True))  # the device is busy
        never.value = 1
        never = dev.new_signal(value=0)
    the_process_goes_on(dev)


def test_faults_are_counted(launch: Any, good: HCQBuffer, bad: HCQBuffer) -> None:
    before = kfd.statistics().faults
    with pytest.raises(RuntimeError):
        launch("is_counted", COPY, good, bad)
    assert kfd.statistics().faults == before + 1
