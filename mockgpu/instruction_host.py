"""The host code of an instruction's handlers: what ``mockgpu isa show --host`` prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mockgpu.instruction_page import find
from mockgpu.isa.arch import Arch
from mockgpu.isa.canonical import canonical
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.native import host

if TYPE_CHECKING:
    from mockgpu.machine.native.host_code import Line

#: MODE as the runtime sets it: round to nearest even, flush no denormals but those of 32 bits.
_MODE = 0xF0
_REGISTERS = ("rdi, rsi, rdx", "x0, x1, x2")  # x86-64, AArch64


@dataclass(frozen=True, slots=True)
class HostForm:
    """One encoding of the instruction. ``lines`` are (offset, bytes, instruction, constant it reads).

    ``size`` is in bytes; ``key`` names the handler in the cache; ``reason`` says why there is no native form.
    """

    text: str
    key: str
    target: str
    size: int
    lines: tuple[tuple[int, str, str, str], ...]
    reason: str = ""

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def host_forms(name: str, arch: Arch, level: str, lanes: int) -> list[HostForm]:
    """The handlers of an instruction for waves of ``lanes`` lanes, made for a level of host.LEVELS or ``aarch64``.

    Raises UnknownInstructionError, ConfigError for the level, and HostError without llvmlite.
    """
    target = host.target(level)
    return [_form(canonical(arch, opcode), target, lanes) for opcode in find(name, arch)]


def _form(instruction: Instruction, target: host.Target, lanes: int) -> HostForm:
    from mockgpu.machine.native.compile import CompileError, compile_ir
    from mockgpu.machine.native.emit import Wanted, handlers_module, symbol
    from mockgpu.machine.native.host_code import listing
    from mockgpu.machine.native.link import link
    from mockgpu.machine.native.shape import shape_of

    shape = shape_of(instruction, lanes, _MODE)
    module, refused = handlers_module([Wanted(shape, instruction, lanes, _MODE)], target.features)
    if refused:
        return HostForm(instruction.text, shape.key, target.name, 0, (), refused[shape.key])
    try:
        image = link(compile_ir(module, target))
    except CompileError as error:
        return HostForm(instruction.text, shape.key, target.name, 0, (), str(error))
    lines = listing(image, symbol(shape.key), target)
    return HostForm(instruction.text, shape.key, target.name, image.sizes[symbol(shape.key)], tuple(map(_row, lines)))


def _row(line: Line) -> tuple[int, str, str, str]:
    return line.offset, line.code.hex(), line.text, line.constant.hex(" ", 4)


def text(forms: list[HostForm]) -> Iterator[str]:
    """The forms as lines of text."""
    for form in forms:
        yield f"{form.text}    ({form.key})"
        if form.reason:
            yield f"  no native form: {form.reason}; the oracle executes it"
        else:
            registers = _REGISTERS[form.target == host.AARCH64]
            yield f"  {form.size} bytes for {form.target}; {registers} hold wave, record, context"
        for offset, _, instruction, constant in form.lines:
            yield f"  {offset:5x}  {f'{instruction:60} ; {constant}' if constant else instruction}"
        yield ""
