"""What tinygrad's runtime does when the emulated device reports a fault: say all that is known, and go on.

A KFD device counts as lost after a fault. The mock recovers as tinygrad's PCI interface does after a reset of the
device: queues are dropped, the timeline is brought up to date, and the process can run another kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from mockgpu.drivers import kfd
from mockgpu.machine.device import Device

#: Bytes of the exception data at the start of ``struct kfd_event_data``; the event's id follows later.
EXCEPTION_BYTES = 32


def device_of(iface: Any) -> Device:
    """The machine's device behind one of tinygrad's interfaces."""
    return kfd.system().gpus.get(iface.gpu_id).device


def register_code(program: Any) -> None:
    """Tell the machine the name and place of every kernel that is loaded (``AMDProgram``)."""
    original = program.__init__

    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        device_of(self.dev.iface).register_code(self.lib_gpu.va_addr, self.lib_gpu.size, self.name)

    program.__init__ = init


def report_faults(interface: Any) -> None:
    """Let ``on_device_hang`` of ``KFDIface`` raise the whole report, after the device was made usable again."""
    original: Callable[[Any], None] = interface.on_device_hang

    @wraps(original)
    def on_device_hang(self: Any) -> None:
        raised = self.dev.error_state
        if getattr(raised, "mockgpu_recovered", False):
            # Found while waiting, and recovered from; synchronize() keeps it and asks a second time.
            self.dev.error_state = None
            raise raised
        error = RuntimeError(_report(self, original))
        error.mockgpu_recovered = True  # type: ignore[attr-defined]
        recover(self.dev)
        raise error

    interface.on_device_hang = on_device_hang


def _report(iface: Any, original: Callable[[Any], None]) -> str:
    """tinygrad's own text, then what the machine knows: the faults of all devices, or what queues wait for."""
    try:
        original(iface)
        text = ""
    except RuntimeError as e:
        text = str(e)
    machine = kfd.system().machine
    faults = [
        line if line.startswith(f"{d.name} ") else f"{d.name}: {line}"
        for d in machine.devices
        for line in d.fault_report
    ]
    lines = faults or [f"still waiting: {line}" for line in machine.blocked()] or ["no queue has anything left to do"]
    return "\n".join([text or "the device hangs", *lines])


def survive_interrupts(ops_amd: Any) -> None:
    """Let Ctrl-C (or any other BaseException) out of a launch or a wait, and leave devices that can go on.

    What the devices had still to do is dropped; it is no fault, and nobody hears of it later.
    """
    queue, interface = ops_amd.AMDQueueDesc, ops_amd.KFDIface
    signal_doorbell, sleep = queue.signal_doorbell, interface.sleep

    @wraps(signal_doorbell)
    def ring(self: Any, dev: Any, *args: Any, **kwargs: Any) -> None:
        with _recovering(dev):
            signal_doorbell(self, dev, *args, **kwargs)

    @wraps(sleep)
    def wait(self: Any, tm: int) -> None:
        with _recovering(self.dev):
            sleep(self, tm)

    queue.signal_doorbell, interface.sleep = ring, wait


@contextmanager
def _recovering(device: Any) -> Iterator[None]:
    try:
        yield
    except Exception:
        raise
    except BaseException:
        recover(device)
        raise


def recover(device: Any) -> None:
    """Reset ``device`` (an ``AMDDevice``) and all others of its kind, and bring tinygrad's view of them up to date.

    All of them, because queues of one device may wait for signals of another that will never be sent.
    """
    from tinygrad.device import Device as Opened

    others = [Opened[name] for name in sorted(Opened._opened_devices)]
    for each in {device, *(d for d in others if isinstance(d, type(device)))}:
        _recover(each)


def _recover(device: Any) -> None:
    iface = device.iface
    kfd.system().reset(device_of(iface).index)
    for i in (1, 2):  # memory exception, hardware exception
        ctypes.memset(ctypes.addressof(iface.queue_event_arr[i]), 0, EXCEPTION_BYTES)
    device.timeline_signal.value = device.timeline_value - 1
    device.error_state = None
