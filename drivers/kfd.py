"""/dev/kfd: the emulated system of this process, and the ioctls that reach it.

:func:`open_system` makes the system; :func:`system` is the one there is (made with default settings if need be).
A process that forks leaves its system behind, as with the real driver: in the child every call on the old
descriptors gives EBADF, and opening the files again gives a system of the child's own.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mockgpu.drivers import doorbells, drm, hostmem, kfd_events
from mockgpu.drivers.gpu import Gpu, Gpus
from mockgpu.drivers.kfd_events import EventTable, Waiter
from mockgpu.drivers.kfd_memory import MemoryManager, header
from mockgpu.drivers.kfd_queues import MMAP_TYPE_DOORBELL, QueueManager, QueueRequest, parse_mmap_offset
from mockgpu.drivers.refusal import Refused, invalid, os_error
from mockgpu.drivers.settings import Settings, system_memory
from mockgpu.drivers.sysfs import NodeSpec, Tree
from mockgpu.isa.arch import get_arch
from mockgpu.machine.clock import CLOCKS
from mockgpu.machine.device import Device, Machine, Statistics
from mockgpu.machine.errors import GuestFault, PageFault
from mockgpu.machine.launch import Engine

log = logging.getLogger("mockgpu.kfd")

_FIRST_GPU_ID = 0x4D01
_INFINITE = 0xFFFFFFFF
_POLL_SECONDS = 0.0005
#: Apertures of GFX9 and later: base addresses of LDS and scratch in the flat address space.
_LDS_BASE, _SCRATCH_BASE = 1 << 48, 2 << 48

Handler = Callable[["KfdSystem", Any], None]
_HANDLERS: dict[str, Handler] = {}


def _ioctl(name: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        _HANDLERS[name] = handler
        return handler

    return register


@functools.cache
def ioctl_table() -> Mapping[int, tuple[str, type[Any]]]:
    """Name and argument struct of every KFD ioctl, by number, from the generated header."""
    table: dict[int, tuple[str, type[Any]]] = {}
    for symbol, value in vars(header()).items():
        if symbol.startswith("AMDKFD_IOC_") and isinstance(value, functools.partial):
            _, _, number, struct = value.args
            table[number] = (symbol.removeprefix("AMDKFD_IOC_"), struct)
    return table


class KfdSystem:
    """The GPUs of this process, their memory, queues and events. The driver side of :class:`Machine`."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.pid = os.getpid()
        self.machine = Machine(self, CLOCKS[settings.clock](), timeout=settings.timeout)
        self.gpus = Gpus([self._make_gpu(i) for i in range(settings.devices)])
        self.memory = MemoryManager(self.gpus, system_memory())
        self.queues = QueueManager()
        self.events = EventTable()
        self.tree = Tree([gpu.node for gpu in self.gpus.all], self.memory.sysmem_bytes)
        self.drm_files: dict[int, Gpu] = {}
        self._stuck_since: float | None = None
        self._runtime_enabled = False

    def _make_gpu(self, index: int) -> Gpu:
        board = self.settings.board
        node = NodeSpec(board, _FIRST_GPU_ID + index, index, self.settings.vram)
        return Gpu(node, self.machine.add_device(board.machine_config(), self._make_engine))

    def _make_engine(self) -> Engine:
        from mockgpu.machine.engine import make_engine  # loads numpy, decoder and pseudocode: on first use only

        return make_engine(get_arch(self.settings.arch), self.settings.engine, self.settings.host_level)

    # -- what devices raise -----------------------------------------------------------------------------------

    def _gpu_of(self, device: Device) -> Gpu:
        return self.gpus.all[device.index]

    def interrupt(self, device: Device, context_id: int) -> None:
        self.events.interrupt(context_id)

    def fault(self, device: Device, fault: GuestFault) -> None:
        gpu_id = self._gpu_of(device).gpu_id
        if isinstance(fault, PageFault):
            self.events.memory_exception(gpu_id, fault.address, present=fault.present, access=fault.access)
        else:
            self.events.hw_exception(gpu_id)

    def watch(self, addresses: frozenset[int]) -> None:
        doorbells.watch(addresses, lambda offset, value: self.poll())

    def poll(self) -> None:
        """Try blocked queues again, after the host wrote memory."""
        self.machine.run()

    def reset(self, index: int) -> None:
        """Reset the queues of one GPU after a fault and forget its exceptions; the process goes on."""
        gpu = self.gpus.all[index]
        with self.machine.lock:
            gpu.device.reset()
            self.events.clear_exceptions(gpu.gpu_id)

    # -- calls ------------------------------------------------------------------------------------------------

    def check_process(self) -> None:
        """Raises OSError EBADF in a process that was forked from the one that made the system."""
        if os.getpid() != self.pid:
            reason = "this process was forked after it opened the GPUs; open them after the fork, or spawn processes"
            log.error(reason)
            raise os_error(errno.EBADF, reason)

    @contextmanager
    def _answer(self, name: str) -> Iterator[None]:
        """Turn a refusal into the OSError that the host sees, and log it with the name of the call."""
        self.check_process()
        try:
            yield
        except Refused as refused:
            log.warning("%s: %s", name, refused)
            raise os_error(refused.number, f"{name}: {refused.reason}") from None

    def ioctl(self, request: int, argument: Any) -> int:
        """ioctl(2) on /dev/kfd. ``argument`` is a writable buffer with the call's struct. Returns 0, raises OSError."""
        number = request & 0xFF
        if request >> 8 & 0xFF != ord("K"):
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        name, struct = ioctl_table().get(number, (f"ioctl {number:#x}", None))
        with self._answer(f"AMDKFD_IOC_{name}" if struct else f"unknown KFD {name}"):
            handler = _HANDLERS.get(name)
            if struct is None or handler is None:
                raise invalid("not emulated")
            handler(self, _as_struct(struct, argument))
        return 0

    def drm_ioctl(self, gpu: Gpu, request: int, argument: Any) -> int:
        """ioctl(2) on a render node."""
        if request >> 8 & 0xFF != ord("d"):
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        with self._answer(drm.ioctl_name(request & 0xFF)):
            drm.ioctl(gpu, request & 0xFF, _as_bytes(argument))
        return 0

    def kfd_mmap(self, start: int, size: int, flags: int, offset: int) -> int:
        """mmap(2) on /dev/kfd: the doorbell page of a GPU."""
        with self._answer("mmap of /dev/kfd"), self.machine.lock:
            kind, gpu_id = parse_mmap_offset(offset)
            if kind != MMAP_TYPE_DOORBELL:
                raise invalid(f"offset {offset & (1 << 64) - 1:#x} does not name a doorbell page")
            fixed = bool(flags & hostmem.MAP_FIXED)
            return self.queues.map_doorbells(self.gpus.get(gpu_id), start, size, fixed=fixed)

    def drm_mmap(self, gpu: Gpu, start: int, size: int, offset: int) -> int:
        """mmap(2) on a render node: a buffer."""
        with self._answer(f"mmap of {gpu.node.render_path}"), self.machine.lock:
            return self.memory.mmap(gpu, start, size, offset)

    def munmap(self, start: int, size: int) -> bool:
        """munmap(2) of any range. True when it was driver memory and is dealt with."""
        with self.machine.lock:
            doorbells.retire(start, hostmem.page_align(size), replaced=False)
            return self.memory.munmap(start, size)

    # -- waiting ----------------------------------------------------------------------------------------------

    def wait(self, waiters: list[Waiter], every: bool, timeout_ms: int) -> int:
        """Wait for events: KFD_IOC_WAIT_RESULT_COMPLETE or _TIMEOUT.

        Blocked queues are tried again first. When nothing but the host could end the wait, it times out at once; a
        queue that stays blocked then is a deadlock, which is reported as a hardware exception.
        """
        with self.machine.lock:
            if self.machine.running:
                raise Refused(errno.EDEADLK, "a wait from inside of the work that it waits for (a finalizer?)")
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            with self.machine.lock:
                self._note_progress(self.machine.run())
                result = kfd_events.test(waiters, every)
                if result == kfd_events.TIMEOUT and self._is_stuck(timeout_ms) and self._break_deadlock():
                    result = kfd_events.test(waiters, every)
            expired = timeout_ms != _INFINITE and time.monotonic() >= deadline
            if result == kfd_events.COMPLETE or expired or _alone():
                return result
            time.sleep(_POLL_SECONDS)

    def _note_progress(self, progress: bool) -> None:
        if progress:
            self._stuck_since = None

    def _is_stuck(self, timeout_ms: int) -> bool:
        """Whether queues are blocked, and nobody but the waiting host is left to wake them (or had the time to)."""
        if not self.machine.blocked():
            self._stuck_since = None
            return False
        now = time.monotonic()
        self._stuck_since = now if self._stuck_since is None else self._stuck_since
        return timeout_ms > 0 and (_alone() or now - self._stuck_since >= self.settings.deadlock_seconds)

    def _break_deadlock(self) -> bool:
        self._stuck_since = None
        return self.machine.break_deadlock()

    def statistics(self) -> Statistics:
        return self.machine.statistics


def _alone() -> bool:
    """Whether no other thread of the host could do what a wait is for."""
    return threading.active_count() == 1


def _as_bytes(argument: Any) -> memoryview:
    """The writable bytes of an ioctl argument. Refuses with EFAULT."""
    try:
        view = memoryview(argument).cast("B")
    except TypeError as error:
        raise Refused(errno.EFAULT, f"the argument is {argument!r}, not a struct") from error
    if view.readonly:
        raise Refused(errno.EFAULT, "the argument cannot be written")
    return view


def _as_struct(struct: type[Any], argument: Any) -> Any:
    """``argument`` as the struct of the call, sharing its memory. Refuses with EFAULT or EINVAL."""
    if isinstance(argument, struct):
        return argument
    view = _as_bytes(argument)
    if len(view) < ctypes.sizeof(struct):
        raise invalid(f"the argument has {len(view)} bytes, {struct.__name__} has {ctypes.sizeof(struct)}")
    return struct.from_buffer(view)


# -- the ioctls ---------------------------------------------------------------------------------------------------


@_ioctl("GET_VERSION")
def _get_version(system: KfdSystem, args: Any) -> None:
    args.major_version, args.minor_version = header().KFD_IOCTL_MAJOR_VERSION, header().KFD_IOCTL_MINOR_VERSION


@_ioctl("ACQUIRE_VM")
def _acquire_vm(system: KfdSystem, args: Any) -> None:
    gpu = system.gpus.get(args.gpu_id)
    if system.drm_files.get(args.drm_fd) is not gpu:
        raise invalid(f"descriptor {args.drm_fd} is not an open {gpu.node.render_path}")
    if gpu.drm_file not in (None, args.drm_fd):
        raise Refused(errno.EBUSY, f"GPU {gpu.gpu_id:#x} has the address space of another descriptor")
    gpu.drm_file = args.drm_fd


@_ioctl("RUNTIME_ENABLE")
def _runtime_enable(system: KfdSystem, args: Any) -> None:
    enable = bool(args.mode_mask & header().KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK)
    if enable and system._runtime_enabled:
        raise Refused(errno.EBUSY, "the runtime is enabled already")
    system._runtime_enabled = enable


@_ioctl("GET_CLOCK_COUNTERS")
def _get_clock_counters(system: KfdSystem, args: Any) -> None:
    args.gpu_clock_counter = system.gpus.get(args.gpu_id).device.clock.ticks
    args.cpu_clock_counter = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    args.system_clock_counter = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    args.system_clock_freq = 1_000_000_000


def _aperture(gpu: Gpu) -> Any:
    return header().struct_kfd_process_device_apertures(
        lds_base=_LDS_BASE,
        lds_limit=_LDS_BASE | 0xFFFFFFFF,
        scratch_base=_SCRATCH_BASE,
        scratch_limit=_SCRATCH_BASE | 0xFFFFFFFF,
        gpuvm_base=hostmem.PAGE,
        gpuvm_limit=(1 << 47) - 1,
        gpu_id=gpu.gpu_id,
    )


@_ioctl("GET_PROCESS_APERTURES")
def _get_process_apertures(system: KfdSystem, args: Any) -> None:
    gpus = system.gpus.all[: header().NUM_OF_SUPPORTED_GPUS]
    for i, gpu in enumerate(gpus):
        args.process_apertures[i] = _aperture(gpu)
    args.num_of_nodes = len(gpus)


@_ioctl("GET_PROCESS_APERTURES_NEW")
def _get_process_apertures_new(system: KfdSystem, args: Any) -> None:
    gpus = system.gpus.all
    if args.num_of_nodes:
        gpus = gpus[: args.num_of_nodes]
        _store(args.kfd_process_device_apertures_ptr, b"".join(bytes(_aperture(gpu)) for gpu in gpus))
    args.num_of_nodes = len(gpus)


def _store(address: int, data: bytes) -> None:
    try:
        hostmem.write(address, data)
    except OSError as error:
        raise Refused(errno.EFAULT, str(error)) from error


@_ioctl("SET_MEMORY_POLICY")
def _set_memory_policy(system: KfdSystem, args: Any) -> None:
    kfd, gpu = header(), system.gpus.get(args.gpu_id)
    policies = (kfd.KFD_IOC_CACHE_POLICY_COHERENT, kfd.KFD_IOC_CACHE_POLICY_NONCOHERENT)
    if args.default_policy not in policies or args.alternate_policy not in policies:
        raise invalid(f"cache policies {args.default_policy} and {args.alternate_policy} must be among {policies}")
    gpu.policy = {"default": args.default_policy, "alternate": args.alternate_policy}


@_ioctl("AVAILABLE_MEMORY")
def _available_memory(system: KfdSystem, args: Any) -> None:
    args.available = system.gpus.get(args.gpu_id).vram_free


@_ioctl("SET_SCRATCH_BACKING_VA")
def _set_scratch_backing_va(system: KfdSystem, args: Any) -> None:
    # Scratch comes from COMPUTE_DISPATCH_SCRATCH_BASE or the AQL queue on every board here.
    system.gpus.get(args.gpu_id)


@_ioctl("ALLOC_MEMORY_OF_GPU")
def _alloc_memory(system: KfdSystem, args: Any) -> None:
    gpu = system.gpus.get(args.gpu_id)
    with system.machine.lock:
        buffer = system.memory.alloc(gpu, args.va_addr, args.size, args.flags, args.mmap_offset)
    args.handle = buffer.handle
    if buffer.kind == "DOORBELL":
        args.mmap_offset = MMAP_TYPE_DOORBELL << 62 | gpu.gpu_id << 46
    elif buffer.kind != "USERPTR":
        args.mmap_offset = buffer.mmap_offset


@_ioctl("FREE_MEMORY_OF_GPU")
def _free_memory(system: KfdSystem, args: Any) -> None:
    page = system.events.page
    if page is not None and page.handle == args.handle:
        raise Refused(errno.EPERM, "the event page cannot be freed")
    with system.machine.lock:
        system.memory.free(args.handle)


def _each_gpu(system: KfdSystem, args: Any, apply: Callable[[Any, Gpu], None]) -> None:
    """Apply to the buffer and the GPUs from ``n_success`` on; ``n_success`` counts those that are done."""
    if not args.n_devices:
        raise invalid("the list of GPUs is empty")
    if args.n_success > args.n_devices:
        raise invalid(f"n_success {args.n_success} exceeds n_devices {args.n_devices}")
    try:
        ids = memoryview(hostmem.read(args.device_ids_array_ptr, 4 * args.n_devices)).cast("I")
    except OSError as error:
        raise Refused(errno.EFAULT, str(error)) from error
    with system.machine.lock:
        buffer = system.memory.find(args.handle, missing=errno.ENOMEM)
        for gpu_id in ids[args.n_success :]:
            apply(buffer, system.gpus.get(gpu_id))
            args.n_success += 1


@_ioctl("MAP_MEMORY_TO_GPU")
def _map_memory(system: KfdSystem, args: Any) -> None:
    _each_gpu(system, args, system.memory.map)


@_ioctl("UNMAP_MEMORY_FROM_GPU")
def _unmap_memory(system: KfdSystem, args: Any) -> None:
    _each_gpu(system, args, system.memory.unmap)


@_ioctl("CREATE_QUEUE")
def _create_queue(system: KfdSystem, args: Any) -> None:
    gpu = system.gpus.get(args.gpu_id)
    request = QueueRequest(
        type=args.queue_type,
        ring_base=args.ring_base_address,
        ring_size=args.ring_size,
        read_pointer=args.read_pointer_address,
        write_pointer=args.write_pointer_address,
        percentage=args.queue_percentage,
        priority=args.queue_priority,
    )
    with system.machine.lock:
        queue = system.queues.create(gpu, request)
    args.queue_id, args.doorbell_offset = queue.queue_id, system.queues.doorbell_offset(queue)


@_ioctl("DESTROY_QUEUE")
def _destroy_queue(system: KfdSystem, args: Any) -> None:
    with system.machine.lock:
        system.queues.destroy(args.queue_id)


@_ioctl("UPDATE_QUEUE")
def _update_queue(system: KfdSystem, args: Any) -> None:
    with system.machine.lock:
        system.queues.update(
            args.queue_id, args.ring_base_address, args.ring_size, args.queue_percentage, args.queue_priority
        )
        system.machine.run()


@_ioctl("CREATE_EVENT")
def _create_event(system: KfdSystem, args: Any) -> None:
    with system.machine.lock:
        if args.event_page_offset:
            system.events.set_page(system.memory.find(args.event_page_offset))
        event = system.events.create(args.event_type, bool(args.auto_reset))
    args.event_id = args.event_trigger_data = event.event_id
    args.event_slot_index = event.event_id if event.type == kfd_events.SIGNAL else 0


@_ioctl("DESTROY_EVENT")
def _destroy_event(system: KfdSystem, args: Any) -> None:
    system.events.destroy(args.event_id)


@_ioctl("SET_EVENT")
def _set_event(system: KfdSystem, args: Any) -> None:
    system.events.set(args.event_id)


@_ioctl("RESET_EVENT")
def _reset_event(system: KfdSystem, args: Any) -> None:
    system.events.reset(args.event_id)


@_ioctl("WAIT_EVENTS")
def _wait_events(system: KfdSystem, args: Any) -> None:
    waiters = system.events.waiters(args.events_ptr, args.num_events)
    args.wait_result = system.wait(waiters, bool(args.wait_for_all), args.timeout)
    if args.wait_result == kfd_events.TIMEOUT:
        for waiter in waiters:
            waiter.give_back()
        return
    try:
        for waiter in waiters:
            waiter.deliver()
    except OSError as error:
        raise Refused(errno.EFAULT, str(error)) from error


# -- the system of this process ---------------------------------------------------------------------------------

_system: KfdSystem | None = None
_settings = Settings()


def open_system(settings: Settings) -> KfdSystem:
    """Make the system that this process sees. Raises RuntimeError when there is one with other settings."""
    global _system, _settings
    if _system is not None and _system.settings != settings:
        raise RuntimeError(f"the emulated system is open with {_system.settings}, it cannot become {settings}")
    _settings = settings
    return system()


def system() -> KfdSystem:
    """The system of this process; made on first use with the settings of the last :func:`open_system`."""
    global _system
    if _system is None:
        _system = KfdSystem(_settings)
    return _system


def current() -> KfdSystem | None:
    """The system if there is one already."""
    return _system


def close_system() -> None:
    """Forget the system, as the end of the process would. Host memory of its buffers stays where it is."""
    global _system
    _system = None


def statistics() -> Statistics:
    """What this process executed so far."""
    return _system.statistics() if _system is not None else Statistics()


def _after_fork() -> None:
    doorbells.forget()
    close_system()


os.register_at_fork(after_in_child=_after_fork)
