"""Directives: data, alignment, sections, symbols and kernel blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mockgpu.isa.arch import Arch
from mockgpu.isa.asm_error import AsmError, did_you_mean
from mockgpu.isa.asm_kernel import KernelBlock
from mockgpu.isa.asm_operands import Scope, checked_float_bits, evaluate, integer
from mockgpu.isa.asm_syntax import Directive, Node, Symbol, Text

BLOCK_ENDS = {".amdgpu_metadata": ".end_amdgpu_metadata"}
"""Directives that open a block of foreign text, with the line that closes it."""

_NOP = 0xBF800000  # s_nop 0 of every family
_TARGET_PREFIX = "amdgcn-amd-amdhsa--"
_MOST_BYTES = 1 << 26


@dataclass(slots=True)
class Emitter:
    """Where assembled bytes go, and what directives have said so far."""

    arch: Arch
    section: str = ".text"
    sections: dict[str, bytearray] = field(default_factory=lambda: {".text": bytearray()})
    constants: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    kernels: dict[str, KernelBlock] = field(default_factory=dict)
    kernel: KernelBlock | None = None
    version: int = 5

    @property
    def offset(self) -> int:
        """The offset in the current section."""
        return len(self.sections[self.section])

    def put(self, data: bytes) -> None:
        """Append bytes to the current section."""
        if self.offset + len(data) > _MOST_BYTES:
            raise AsmError(f"the section {self.section} grows beyond {_MOST_BYTES} bytes")
        self.sections[self.section] += data

    def enter(self, section: str) -> None:
        """Continue in a section."""
        self.section = section
        self.sections.setdefault(section, bytearray())


Handler = Callable[[Emitter, Directive, Scope], None]


def apply_directive(emitter: Emitter, directive: Directive, scope: Scope) -> None:
    """Do what a directive says. Raises AsmError."""
    try:
        if emitter.kernel is not None:
            return _inside_kernel(emitter, directive, scope)
        handler = _HANDLERS.get(directive.name)
        if handler is None:
            hint = did_you_mean(directive.name, _HANDLERS)
            raise AsmError(f"unknown directive {directive.name}{hint}", column=directive.column)
        handler(emitter, directive, scope)
    except AsmError as error:
        error.column = error.column or directive.column
        raise
    except RecursionError:
        raise AsmError("the expression is nested too deeply", column=directive.column) from None


def _argument(directive: Directive, index: int, what: str) -> Node:
    if index >= len(directive.arguments):
        raise AsmError(f"{directive.name} needs {what}")
    return directive.arguments[index]


def _name(node: Node) -> str:
    if isinstance(node, Symbol | Text):
        return node.name if isinstance(node, Symbol) else node.text
    raise AsmError("expected a name", column=node.column)


def _fixed(node: Node, scope: Scope, low: int, high: int, what: str) -> int:
    """An integer that must be known in the first pass, because sizes depend on it."""
    value = integer(node, scope, low, high, what)
    if scope.pending and evaluate(node, scope).symbolic:
        raise AsmError(f"{what} must not depend on labels", column=node.column)
    return value


# --- data -------------------------------------------------------------------------------------------------------------


def _data(size: int) -> Handler:
    def handle(emitter: Emitter, directive: Directive, scope: Scope) -> None:
        bits = 8 * size
        for node in directive.arguments:
            value = integer(node, scope, -(1 << bits - 1), (1 << bits) - 1, f"a value of {size} bytes")
            emitter.put((value & (1 << bits) - 1).to_bytes(size, "little"))

    return handle


def _floats(bits: int) -> Handler:
    def handle(emitter: Emitter, directive: Directive, scope: Scope) -> None:
        for node in directive.arguments:
            emitter.put(
                checked_float_bits(float(evaluate(node, scope).value), bits, node.column).to_bytes(bits // 8, "little")
            )

    return handle


def _string(end: bytes) -> Handler:
    def handle(emitter: Emitter, directive: Directive, scope: Scope) -> None:
        for node in directive.arguments:
            if not isinstance(node, Text):
                raise AsmError("expected a string", column=node.column)
            text = node.text.encode().decode("unicode_escape").encode("latin-1", "replace")
            emitter.put(text + end)

    return handle


def _align(exponent: bool) -> Handler:
    def handle(emitter: Emitter, directive: Directive, scope: Scope) -> None:
        node = _argument(directive, 0, "an alignment")
        value = _fixed(node, scope, 0, 16 if exponent else 1 << 16, "an alignment")
        alignment = 1 << value if exponent else max(1, value)
        missing = -emitter.offset % alignment
        if len(directive.arguments) > 1:
            fill = _fixed(directive.arguments[1], scope, -128, 255, "a fill byte") & 0xFF
            return emitter.put(bytes([fill]) * missing)
        emitter.put(_padding(emitter, missing))

    return handle


def _padding(emitter: Emitter, count: int) -> bytes:
    """Code is padded with s_nop, data with zeros."""
    if emitter.section != ".text":
        return bytes(count)
    return bytes(count % 4) + _NOP.to_bytes(4, "little") * (count // 4)


def _fill(emitter: Emitter, directive: Directive, scope: Scope) -> None:
    count = _fixed(_argument(directive, 0, "a count"), scope, 0, _MOST_BYTES, "a count")
    size = _fixed(directive.arguments[1], scope, 0, 8, "a size") if len(directive.arguments) > 1 else 1
    value = (
        integer(directive.arguments[2], scope, -(1 << 63), (1 << 64) - 1, "a value") if directive.arguments[2:] else 0
    )
    if count * size > _MOST_BYTES:
        raise AsmError(f"{count * size} bytes are too many")
    emitter.put((value & (1 << 8 * size) - 1).to_bytes(size, "little") * count)


def _space(emitter: Emitter, directive: Directive, scope: Scope) -> None:
    count = _fixed(_argument(directive, 0, "a count"), scope, 0, _MOST_BYTES, "a count")
    fill = integer(directive.arguments[1], scope, -128, 255, "a fill byte") & 0xFF if directive.arguments[1:] else 0
    emitter.put(bytes([fill]) * count)


# --- sections and symbols ---------------------------------------------------------------------------------------------


def _enter(section: str) -> Handler:
    return lambda emitter, directive, scope: emitter.enter(section)


def _section(emitter: Emitter, directive: Directive, scope: Scope) -> None:
    emitter.enter(_name(_argument(directive, 0, "a name")))


def _set(emitter: Emitter, directive: Directive, scope: Scope) -> None:
    name = _name(_argument(directive, 0, "a name"))
    emitter.constants[name] = _fixed(_argument(directive, 1, "a value"), scope, -(1 << 63), (1 << 64) - 1, "a value")


def _size(emitter: Emitter, directive: Directive, scope: Scope) -> None:
    node = _argument(directive, 1, "a size")
    emitter.sizes[_name(directive.arguments[0])] = integer(node, scope, -(1 << 32), 1 << 32, "a size")


def _target(emitter: Emitter, directive: Directive, scope: Scope) -> None:
    text = _name(_argument(directive, 0, "a target"))
    name = text.removeprefix(_TARGET_PREFIX).partition(":")[0]
    if not text.startswith(_TARGET_PREFIX) or name != emitter.arch.name:
        raise AsmError(f"the file is for {text}, but it is assembled for {_TARGET_PREFIX}{emitter.arch.name}")


def _version(emitter: Emitter, directive: Directive, scope: Scope) -> None:
    emitter.version = integer(_argument(directive, 0, "a version"), scope, 4, 6, "the code object version")


def _ignore(emitter: Emitter, directive: Directive, scope: Scope) -> None:
    """Visibility, types and notes say nothing that the bytes depend on."""


# --- kernels ----------------------------------------------------------------------------------------------------------


def _open_kernel(emitter: Emitter, directive: Directive, scope: Scope) -> None:
    name = _name(_argument(directive, 0, "a kernel name"))
    if name in emitter.kernels:
        raise AsmError(f"the kernel {name} has two descriptors")
    emitter.kernel = emitter.kernels[name] = KernelBlock(name, emitter.arch)


def _inside_kernel(emitter: Emitter, directive: Directive, scope: Scope) -> None:
    kernel = emitter.kernel
    assert kernel is not None
    if directive.name == ".end_amdhsa_kernel":
        kernel.finish()
        emitter.kernel = None
        return
    if not directive.name.startswith(".amdhsa_"):
        raise AsmError(f"{directive.name} inside a kernel block; expected .amdhsa_ directives or .end_amdhsa_kernel")
    node = _argument(directive, 0, "a value")
    kernel.set(directive.name.removeprefix(".amdhsa_"), integer(node, scope, 0, (1 << 32) - 1, "a setting"))


_HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys((".byte",), _data(1)),
    **dict.fromkeys((".short", ".2byte", ".hword"), _data(2)),
    **dict.fromkeys((".long", ".int", ".4byte"), _data(4)),
    **dict.fromkeys((".quad", ".8byte"), _data(8)),
    ".float": _floats(32),
    ".double": _floats(64),
    ".ascii": _string(b""),
    **dict.fromkeys((".asciz", ".string"), _string(b"\0")),
    ".p2align": _align(exponent=True),
    **dict.fromkeys((".balign", ".align"), _align(exponent=False)),
    ".fill": _fill,
    **dict.fromkeys((".space", ".skip", ".zero"), _space),
    **{name: _enter(name) for name in (".text", ".data", ".rodata", ".bss")},
    ".section": _section,
    **dict.fromkeys((".set", ".equ"), _set),
    ".size": _size,
    ".amdgcn_target": _target,
    ".amdhsa_code_object_version": _version,
    ".amdhsa_kernel": _open_kernel,
    **dict.fromkeys((".globl", ".global", ".weak", ".protected", ".hidden", ".local", ".type", ".ident"), _ignore),
}
