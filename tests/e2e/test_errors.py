"""Errors as a user meets them: scripts in processes of their own that do something wrong, and what they print.

Every script ends within seconds, whatever goes wrong, and what can be survived is survived: after the error the same
process runs another kernel on the same device.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.usefixtures("on_amd")

#: Seconds after which a script counts as hanging.
TIMEOUT = 120

PRELUDE = """
import time
from tinygrad import Device, Tensor, dtypes
from tinygrad.device import Buffer, TinyELF
from tinygrad.helpers import Target
from tinygrad.uop.ops import KernelInfo, UOp

def load(name, body, device="AMD"):
    '''A program made of LLVM IR: one buffer of 32-bit integers, and the number of the work item.'''
    source = f'''
      declare i32 @llvm.amdgcn.workitem.id.x()
      define amdgpu_kernel void @{name}(ptr addrspace(1) %buffer) #0 {{
        %lane = call i32 @llvm.amdgcn.workitem.id.x()
        %place = getelementptr i32, ptr addrspace(1) %buffer, i32 %lane
        {body}
      }}
      attributes #0 = {{ nounwind }}'''
    dev = Device[device]
    elf = TinyELF(dev.compiler.compile(source), name, Target("AMD"), (("buffer", 0, dtypes.int32, (64,)),))
    return dev.runtime(elf)

def expect_error(fn):
    began = time.monotonic()
    try:
        fn()
    except RuntimeError as error:
        print(f"{time.monotonic() - began:.2f} s", error, sep="\\n")
    else:
        print("no error")

def goes_on():
    Device["AMD"].synchronize()
    print("goes on:", (Tensor([1, 2, 3]) * 2).tolist())

buffer = Tensor.full((64,), 5, dtype="int32").contiguous().realize()
good = buffer.uop.buffer._buf
"""


def script(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``text`` after the prelude, as MOCKGPU=1 DEV=AMD python -c would."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MOCKGPU")}
    env = {**clean, "MOCKGPU": "1", "DEV": "AMD", **environment}
    command = [sys.executable, "-c", PRELUDE + text]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False)


def survives(text: str, pattern: str, within: float = 1.0, env: dict[str, str] | None = None) -> None:
    """The error of ``text`` matches ``pattern``, comes ``within`` seconds of the launch, and the process goes on."""
    done = script(text + "\ngoes_on()\n", **(env or {}))
    assert done.returncode == 0, done.stdout + done.stderr
    seconds, rest = done.stdout.split("\n", 1)
    report, after = rest.rsplit("goes on:", 1)
    assert re.search(pattern, report), report
    assert after.strip() == "[2, 4, 6]"
    assert float(seconds.split()[0]) < within, f"took {seconds}"


# ---- wrong kernels ----------------------------------------------------------------------------------------------


def test_a_kernel_of_tinygrad_that_stores_out_of_bounds() -> None:
    survives(
        """
def kernel(out, a):
    i = UOp.range(8, 0)
    return out[i + (1 << 40)].store(a[i]).end(i).sink(arg=KernelInfo(name="astray", opts_to_apply=()))

out, = Tensor.custom_kernel(Tensor.empty(64, dtype="int32"), buffer, fxn=kernel)[:1]
out.realize(); expect_error(Device["AMD"].synchronize)
""",
        r"^MMU fault: 0x[0-9A-F]+ .*\n.*page fault: write at 0x[0-9a-f]+, .*kernel astray, PC 0x[0-9a-f]+, 'global_st",
        within=2,
    )


def test_a_load_from_nowhere() -> None:
    survives(
        '''
program = load("reads_nowhere", """
  %p = inttoptr i64 1311768464867721216 to ptr addrspace(1)
  %v = load volatile i32, ptr addrspace(1) %p
  ret void""")
expect_error(lambda: program(good, local_size=(32, 1, 1), wait=True))
''',
        r"^MMU fault: 0x.*\n.*page fault: read at .*kernel reads_nowhere, PC 0x",
    )


def test_an_instruction_without_semantics() -> None:
    survives(
        """
text = "image_bvh_intersect_ray v[0:3], [v0, v1, v[2:4], v[5:7], v[8:10]], s[0:3]"
program = load("traces_rays", f'call void asm sideeffect "{text}", ""()\\n ret void')
expect_error(lambda: program(good, local_size=(32, 1, 1), wait=True))
""",
        r"^HW fault: .*\n.*image_bvh_intersect_ray on gfx1100: no semantics.*kernel traces_rays, PC 0x[0-9a-f]+",
    )


def test_bytes_that_are_no_instruction() -> None:
    survives(
        """
program = load("is_no_code", 'call void asm sideeffect ".long 0xffffffff", ""()\\n ret void')
expect_error(lambda: program(good, local_size=(32, 1, 1), wait=True))
""",
        r"^HW fault: .*\n.*illegal instruction.*0xffffffff.*kernel is_no_code, PC 0x[0-9a-f]+",
    )


def test_a_kernel_that_loops_for_ever() -> None:
    survives(
        """
program = load("spins", "br label %l\\nl:\\n %v = load volatile i32, ptr addrspace(1) %place\\n br label %l")
expect_error(lambda: program(good, local_size=(32, 1, 1), wait=True))
""",
        r"^HW fault: .*\n.*no wave has ended for 1 s; raise MOCKGPU_TIMEOUT if .* slow .*kernel spins, PC 0x[0-9a-f]+",
        within=4,
        env={"MOCKGPU_TIMEOUT": "1"},
    )


def test_a_fault_on_one_device_leaves_the_other_alone() -> None:
    survives(
        """
there = Tensor([4, 5], device="AMD:1").realize()
program = load("breaks_the_second", 'call void asm sideeffect ".long 0xffffffff", ""()\\n ret void', "AMD:1")
expect_error(lambda: program(there.uop.buffer._buf, local_size=(32, 1, 1), wait=True))
assert there.tolist() == [4, 5]
""",
        r"^HW fault: .*\nAMD:1: .*kernel breaks_the_second",
    )


def test_results_from_before_the_fault_are_still_there() -> None:
    survives(
        """
program = load("stops_here", 'call void asm sideeffect ".long 0xffffffff", ""()\\n ret void')
expect_error(lambda: program(good, local_size=(32, 1, 1), wait=True))
assert buffer.tolist() == [5] * 64
""",
        "kernel stops_here",
    )


def test_an_error_that_nobody_waits_for_is_told_at_the_end() -> None:
    began = time.monotonic()
    done = script("""
program = load("not_awaited", 'call void asm sideeffect ".long 0xffffffff", ""()\\n ret void')
program(good, local_size=(32, 1, 1))
print("the script is done")
""")
    assert "the script is done" in done.stdout
    assert "kernel not_awaited" in done.stdout + done.stderr
    assert time.monotonic() - began < 30


def test_an_uncaught_error_ends_the_script_with_a_readable_last_line() -> None:
    done = script("""
program = load("not_caught", 'call void asm sideeffect ".long 0xffffffff", ""()\\n ret void')
program(good, local_size=(32, 1, 1), wait=True)
""")
    assert done.returncode == 1
    assert re.search(r"\nRuntimeError: HW fault: .*\n.*kernel not_caught, PC 0x", done.stderr)


# ---- wrong packets ----------------------------------------------------------------------------------------------


def test_an_unknown_packet_of_the_compute_queue() -> None:
    survives(
        """
dev = Device["AMD"]
queue = dev.hw_compute_queue_t().wait(dev.timeline_signal, dev.timeline_value - 1)
queue.q(0xC0017700, 0x11111111, 0x22222222)
queue.signal(dev.timeline_signal, dev.next_timeline()).submit(dev)
expect_error(dev.synchronize)
""",
        r"HW fault: .*\n.*PM4 queue.*0x77.*0x[0-9a-f]+.*c0017700 11111111 22222222",
    )


def test_an_unknown_packet_of_the_copy_queue() -> None:
    survives(
        """
dev = Device["AMD"]
queue = dev.hw_copy_queue_t().wait(dev.timeline_signal, dev.timeline_value - 1)
queue.q(0x000000EE, 0x33333333)
queue.signal(dev.timeline_signal, dev.next_timeline()).submit(dev)
expect_error(dev.synchronize)
""",
        r"HW fault: .*\n.*SDMA queue.*0xee.*0x[0-9a-f]+.*000000ee",
    )


def test_a_wait_for_what_never_comes() -> None:
    survives(
        """
dev = Device["AMD"]
never = dev.new_signal(value=0)
dev.hw_compute_queue_t().wait(never, 1).signal(dev.timeline_signal, dev.next_timeline()).submit(dev)
expect_error(dev.synchronize)
""",
        r"deadlock: .*\n +AMD:0 PM4 queue 0: ",
        within=10,
    )


# ---- wrong settings ---------------------------------------------------------------------------------------------

SETTINGS = [
    ({"DEV": "AMD:LLVM:gfx9999"}, r"gfx9999.*gfx1100"),
    ({"MOCKGPU_ARCH": "gfx1"}, r"MOCKGPU_ARCH.*gfx1100"),
    ({"DEV": "AMD:LLVM:gfx1100", "MOCKGPU_ARCH": "gfx1201"}, r"gfx1100.*gfx1201"),
    ({"DEV": "NV"}, r"NV.*not emulated.*AMD"),
    ({"MOCKGPU": "yes"}, r"MOCKGPU='?yes.*0, 1"),
    ({"MOCKGPU_ENGINE": "warp"}, r"MOCKGPU_ENGINE='?warp.*oracle"),
    ({"MOCKGPU_TIMEOUT": "never"}, r"MOCKGPU_TIMEOUT='?never.*number"),
    ({"MOCKGPU_TIMEOUT": "nan"}, r"MOCKGPU_TIMEOUT='?nan.*number"),
    ({"MOCKGPU_DEVICES": "0"}, r"MOCKGPU_DEVICES='?0.*1 to"),
    ({"MOCKGPU_VRAM": "12"}, r"MOCKGPU_VRAM='?12.*512M"),
    ({"MOCKGPU_LOG": "loud"}, r"MOCKGPU_LOG='?loud.*debug"),
    ({"MOCKGPU_ENGIN": "oracle"}, r"MOCKGPU_ENGIN is not a setting.*MOCKGPU_ENGINE"),
]


@pytest.mark.parametrize(("environment", "pattern"), SETTINGS, ids=[",".join(e.values()) for e, _ in SETTINGS])
def test_a_bad_setting_is_refused_with_the_good_ones(environment: dict[str, str], pattern: str) -> None:
    done = script("print('not reached')", **environment)
    assert done.returncode == 1 and "not reached" not in done.stdout
    assert re.search(pattern, done.stderr.strip().splitlines()[-1]), done.stderr


def test_a_device_that_does_not_exist() -> None:
    done = script("Tensor([1], device='AMD:2').realize()", MOCKGPU_DEVICES="2")
    assert done.returncode == 1
    assert "No device found for 2" in done.stderr


def test_more_memory_than_there_is() -> None:
    done = script("Buffer('AMD', 1 << 29, dtypes.uint8).allocate()", MOCKGPU_VRAM="256M")
    assert done.returncode == 1
    assert re.search(r"MemoryError: Allocation of .* failed on AMD", done.stderr), done.stderr[-500:]
