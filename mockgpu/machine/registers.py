"""The register file of a device: registers by name, from tinygrad's generated tables per IP version.

Addresses are dword offsets in the MMIO aperture, as packets carry them.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mockgpu.isa.errors import ConfigError

log = logging.getLogger("mockgpu.registers")

Field = tuple[int, int]
WriteHook = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class IpBlock:
    """One hardware block: its table (``gc``), version, and the name and module of its base addresses."""

    table: str
    version: tuple[int, int, int]
    base: str
    offsets: str


@dataclass(frozen=True, slots=True)
class Register:
    """A register: name without prefix, dword address, and its fields as (first bit, last bit)."""

    name: str
    address: int
    fields: Mapping[str, Field]

    def field(self, value: int, name: str) -> int:
        """Field ``name`` of register value ``value``. Raises KeyError for a field the register lacks."""
        low, high = self.fields[name]
        return (value >> low) & ((1 << (high - low + 1)) - 1)

    def encode(self, **fields: int) -> int:
        """A register value with the given fields set and the others zero."""
        value = 0
        for name, part in fields.items():
            low, high = self.fields[name]
            if part >> (high - low + 1):
                raise ValueError(f"{self.name}.{name} has {high - low + 1} bits, {part:#x} does not fit")
            value |= part << low
        return value


class RegisterMap:
    """Names and addresses of every register of some IP blocks (instance 0)."""

    def __init__(self, blocks: tuple[IpBlock, ...]):
        self.by_name: dict[str, Register] = {}
        self.by_address: dict[int, Register] = {}
        for block in blocks:
            self._add(block)

    def _add(self, block: IpBlock) -> None:
        offsets = importlib.import_module(f"tinygrad.runtime.autogen.am.{block.offsets}")
        unplaced: list[Register] = []
        for raw, (offset, segment, fields) in _table(block.table, block.version).items():
            base = getattr(offsets, f"{block.base}_BASE__INST0_SEG{segment}", None)
            register = Register(raw.removeprefix("reg").removeprefix("mm"), (base or 0) + offset, fields)
            self.by_name.setdefault(register.name, register)
            if base is None:
                unplaced.append(register)
            else:
                self.by_address.setdefault(register.address, register)
        # A segment without a base sits at its bare offset, where it must not hide a register that has one.
        for register in unplaced:
            self.by_address.setdefault(register.address, register)

    def name(self, address: int) -> str:
        register = self.by_address.get(address)
        return register.name if register else f"register {address:#x}"


@functools.cache
def register_map(blocks: tuple[IpBlock, ...]) -> RegisterMap:
    """The map of these IP blocks, built once. Raises ConfigError for a block without a table."""
    return RegisterMap(blocks)


def _table(prefix: str, version: tuple[int, int, int]) -> Mapping[str, tuple[int, int, Mapping[str, Field]]]:
    """The newest generated table of the same major version that is not newer than ``version``."""
    regs = importlib.import_module("tinygrad.runtime.autogen.am.regs")
    found = {tuple(map(int, n.split("_")[1:])): n for n in regs.__all__ if n.split("_")[0] == prefix}
    fitting = [v for v in found if v[0] == version[0] and v <= version]
    if not fitting:
        raise ConfigError(f"version of {prefix}", ".".join(map(str, version)), sorted(found.values()))
    table: Mapping[str, tuple[int, int, Mapping[str, Field]]] = getattr(regs, found[max(fitting)])
    return table


class RegisterFile:
    """Values of the registers of one device.

    A write is kept and read back. ``on_write`` attaches behaviour. Reading a register that was never written and
    that nobody models gives 0 and is reported once, by name.
    """

    def __init__(self, registers: RegisterMap):
        self.map = registers
        self._values: dict[int, int] = {}
        self._hooks: dict[int, WriteHook] = {}
        self._reported: set[int] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.map.by_name

    def register(self, name: str) -> Register:
        return self.map.by_name[name]

    def read(self, address: int) -> int:
        value = self._values.get(address)
        if value is None:
            value = 0
            if address not in self._reported:
                self._reported.add(address)
                log.warning("read of %s (%#x), which is not modelled: 0", self.map.name(address), address)
        return value

    def write(self, address: int, value: int) -> None:
        self._values[address] = value & 0xFFFFFFFF
        hook = self._hooks.get(address)
        if hook is not None:
            hook(value & 0xFFFFFFFF)

    def get(self, name: str) -> int:
        """The value last written to ``name``; 0 after reset. Not a read by the guest, so never reported."""
        return self._values.get(self.map.by_name[name].address, 0)

    def set(self, name: str, value: int) -> None:
        self.write(self.map.by_name[name].address, value)

    def field(self, name: str, field: str) -> int:
        return self.register(name).field(self.get(name), field)

    def on_write(self, name: str, hook: WriteHook) -> None:
        """Call ``hook`` with the value after each write of register ``name``."""
        self._hooks[self.map.by_name[name].address] = hook


def model_hdp_flush(registers: RegisterFile) -> None:
    """A flush of the host data path completes at once: DONE shows every client that REQ named."""
    for function in ("PF0", "PF1"):
        request, done = f"BIF_BX_{function}_GPU_HDP_FLUSH_REQ", f"BIF_BX_{function}_GPU_HDP_FLUSH_DONE"
        if request in registers and done in registers:
            registers.set(done, 0)
            registers.on_write(request, functools.partial(registers.set, done))
