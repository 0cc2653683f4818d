"""The view that lowered pseudocode has of one instruction: operands by name, writes kept back until the end.

The twin of :class:`mockgpu.machine.context.Context`. Reads give the registers as they were before the instruction;
what was written is seen by later reads of the same name alone. :meth:`commit` stores everything, so that a
destination may overlap a source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from mockgpu.isa.registers import VGPR_BASE
from mockgpu.machine.context import _ABSENT_IS_ZERO, _NUMBERS, _RAW_FIELDS, NO_EFFECT
from mockgpu.machine.native.emitter import I1, I8, I32, I64, Emitter
from mockgpu.machine.waves import EXEC, VCC
from mockgpu.pcode.llvm.values import (
    Builder,
    NotNative,
    Value,
    broadcast,
    constant,
    container,
    interleaved,
    lanes_of,
    parted,
    resize,
    select,
    width_of,
)
from mockgpu.pcode.numeric_mode import Mode

Reader: TypeAlias = Callable[[int], Value]  # bits to a value
Writer: TypeAlias = Callable[[Value, int], None]  # a value of so many bits; EXEC is applied here


class NativeContext:
    """Implements the context of :mod:`mockgpu.pcode.llvm` on an :class:`Emitter`.

    ``reads`` and ``writes`` map operand names to how they are read and stored, ``mask_reads`` and ``masks`` the lane
    masks (``masks``: byte offset of the scalar register). The builder of the instruction's format fills them.
    """

    def __init__(self, e: Emitter, *, vector: bool):
        self.e = e
        self.arch = e.arch
        self.wave_size = e.lanes
        self.lanes = e.lanes if vector else 1
        self.mode: Mode = e.mode
        self.features = e.features
        self.defer = getattr(e, "defer", None)
        self.pending: dict[str, tuple[Value, int]] = {}
        self.pending_masks: dict[str, Value] = {}
        self.jump: Value | None = None  # the new PC
        self.late: list[Callable[[], object]] = []  # stores to be made in the end
        self.mask_operands: frozenset[str] = frozenset()  # operands that are the executing lane's bit of a lane mask
        self.named: dict[int, tuple[Value, Value]] = {}  # numbers of vector registers, and their byte offsets, by id
        self._exec: Value | None = None
        m0 = self.arch.m0_register
        self.reads: dict[str, Reader] = {
            "SCC": lambda bits: resize(self.b, e.scc(), container(bits)),
            "VCC": self.scalar_reader(e.code(VCC)),
            "VCC_LO": self.scalar_reader(e.code(VCC)),
            "EXEC": self.scalar_reader(e.code(EXEC)),
            "EXEC_LO": self.scalar_reader(e.code(EXEC)),
            "EXEC_HI": self.scalar_reader(e.code(EXEC + 1)),
            "M0": self.scalar_reader(e.code(m0)),
            "VCCZ": lambda bits: self.is_zero(VCC, bits),
            "EXECZ": lambda bits: self.is_zero(EXEC, bits),
            "LANE": self._lane,
            "WAVE_MODE.IEEE": self.fixed(e.mode_register >> 9 & 1),
            "WAVE_STATUS.PRIV": self.fixed(0),
            "WAVE_STATUS.COND_DBG_SYS": self.fixed(0),
            "WAVE_STATUS.COND_DBG_USER": self.fixed(0),
            "MODE.SCALAR_PREFETCH_EN": self.fixed(0),
            "WAVE32": self.fixed(int(e.lanes == 32)),
            "WAVE64": self.fixed(int(e.lanes == 64)),
        }
        self.writes: dict[str, Writer] = {
            "SCC": lambda value, bits: e.set_scc(resize(self.b, value, 1)),
            "VCC": self.scalar_writer(e.code(VCC)),
            "EXEC": self.scalar_writer(e.code(EXEC)),
            "EXEC_LO": self.scalar_writer(e.code(EXEC)),
            "M0": self.scalar_writer(e.code(m0)),
            "PC": self._set_jump,
        }
        self.mask_reads: dict[str, Callable[[], Value]] = {"VCC": lambda: e.mask(e.code(VCC))}
        self.masks: dict[str, Value | int] = {"VCC": e.code(VCC), "EXEC": e.code(EXEC)}
        self._fields()

    @property
    def b(self) -> Builder:
        return self.e.b

    def _fields(self) -> None:
        """Names that stand for the raw value of a field: parameters, or constants where the shape holds them."""
        e, fields = self.e, self.e.instruction.fields
        for name, field in _RAW_FIELDS.items():
            if field in fields or name in _ABSENT_IS_ZERO:
                self.reads[name] = self._field(field, fields.get(field, 0))
        if "opsel_hi" in fields:
            self.reads["OPSEL_HI"] = self.fixed(fields["opsel_hi"] | fields.get("opsel_hi2", 0) << 2)
        if "offset0" in fields:
            self.reads["OFFSET"] = self._offset
        if e.instruction.literal is not None:
            self.reads["SIMM32"] = self._field("literal", 0)
            self.reads.setdefault("SIMM16", lambda bits: self._cut(e.param("literal"), 16, bits))
        self.reads["SDWA_SRC0_SEL"] = self.fixed(fields.get("src0_sel", 6))
        for view in e.instruction.operands:
            for name in _NUMBERS.get(view.field, ()):
                self.reads[name] = self._number(view.field, view.code >= VGPR_BASE)

    def _field(self, field: str, value: int) -> Reader:
        if self.e.has_param(field):
            return lambda bits: resize(self.b, self.e.param(field), container(bits))
        return self.fixed(value)

    def _offset(self, bits: int) -> Value:
        if not self.e.has_param("offset0"):
            fields = self.e.instruction.fields
            return constant(fields["offset1"] << 8 | fields["offset0"], container(bits))
        high = self.b.shl(self.e.param("offset1"), I32(8))
        return resize(self.b, self.b.or_(high, self.e.param("offset0")), container(bits))

    def _number(self, field: str, vector: bool) -> Reader:
        """The number of the register that a field names, from its byte offset."""

        def read(bits: int) -> Value:
            from mockgpu.machine.native.layout import SGPR, VGPR

            offset = self.e.param(field)
            first, size = (VGPR, 4 * self.wave_size) if vector else (SGPR, 4)
            number = resize(self.b, self.b.udiv(self.b.sub(offset, I32(first)), I32(size)), container(bits))
            if vector:
                self.named[id(number)] = (number, offset)
            return number

        return read

    def _cut(self, value: Value, keep: int, bits: int) -> Value:
        return resize(self.b, self.b.and_(value, I32((1 << keep) - 1)), container(bits))

    # -- readers and writers ----------------------------------------------------------------------------------

    def fixed(self, value: int) -> Reader:
        """A constant."""
        return lambda bits: constant(value, container(bits))

    def _lane(self, bits: int) -> Value:
        width = container(bits)
        return ir.Constant(ir.VectorType(ir.IntType(width), self.wave_size), list(range(self.wave_size)))

    def is_zero(self, code: int, bits: int) -> Value:
        """Whether a lane mask is zero: wave32 looks at the low dword alone."""
        mask = self.e.mask_bits(self.e.code(code))
        return resize(self.b, self.b.icmp_unsigned("==", mask, mask.type(0)), container(bits))

    def scalar_reader(self, offset: Value | int) -> Reader:
        """Scalar registers from a byte offset, as many bits as are asked for."""
        return lambda bits: resize(self.b, self.e.scalar(offset, container(max(bits, 32))), container(bits))

    def scalar_writer(self, offset: Value | int) -> Writer:
        """Scalar registers from a byte offset; EXEC has no say."""

        def write(value: Value, bits: int) -> None:
            if lanes_of(value) > 1:
                raise NotNative("a scalar register gets a value by lane")
            self.e.set_scalar(offset, resize(self.b, value, container(max(bits, 32))))

        return write

    def vector_reader(self, offset: Value | int, *, high: bool = False) -> Reader:
        """Vector registers from a byte offset; ``high`` selects the upper half of a 16-bit operand."""

        def read(bits: int) -> Value:
            if bits <= 16:
                word = self.e.vector(offset)
                if high:
                    word = self.b.lshr(word, constant(16, 32, self.wave_size))
                return resize(self.b, word, container(bits))
            if bits <= 32:
                return self.e.vector(offset)
            if bits <= 64:
                return interleaved(self.b, self.e.vector(offset), self.e.vector(offset, 1))
            return self._wide(offset, container(bits))

        return read

    def _wide(self, offset: Value | int, bits: int) -> Value:
        kind = ir.VectorType(ir.IntType(bits), self.wave_size)
        value = self.b.zext(self.e.vector(offset), kind)
        for k in range(1, bits // 32):
            part = self.b.zext(self.e.vector(offset, k), kind)
            value = self.b.or_(value, self.b.shl(part, constant(32 * k, bits, self.wave_size)))
        return value

    def vector_writer(self, offset: Value | int, *, high: bool = False) -> Writer:
        """Vector registers from a byte offset, in the lanes that EXEC turns on."""

        def write(value: Value, bits: int) -> None:
            if bits <= 16:
                self.e.set_vector(offset, self._merged_half(offset, value, high), self.exec())
                return
            for k in range(-(-bits // 32)):
                self.e.set_vector(offset, dword(self.b, value, k), self.exec(), k)

        return write

    def _merged_half(self, offset: Value | int, value: Value, high: bool) -> Value:
        """A register with one half replaced."""
        n = self.wave_size
        new = broadcast(self.b, resize(self.b, value, 32), n)
        if high:
            new = self.b.shl(new, constant(16, 32, n))
        kept = self.b.and_(self.e.vector(offset), constant(0xFFFF if high else 0xFFFF0000, 32, n))
        return self.b.or_(kept, new)

    def _set_jump(self, value: Value, bits: int) -> None:
        self.jump = resize(self.b, value, 64)

    def exec(self) -> Value:
        """EXEC as it was before the instruction, <lanes x i1>."""
        if self._exec is None:
            self._exec = self.e.exec()
        return self._exec

    # -- the protocol of mockgpu.pcode.llvm -------------------------------------------------------------------

    def read(self, name: str, bits: int) -> Value:
        """An operand's bits, uniform or by lane."""
        if name in self.pending:
            value, _ = self.pending[name]
            return resize(self.b, value, container(bits))
        if name not in self.reads:
            raise NotNative(f"operand {name}")
        return self.reads[name](bits)

    def write(self, name: str, value: Value, bits: int, mask: Value | None) -> None:
        """Write an operand where ``mask`` holds (None: everywhere), when the instruction ends."""
        if name in self.mask_operands:
            self.write_lane_mask(name, value, mask)
            return
        if name not in self.writes:
            raise NotNative(f"writing operand {name}")
        value = resize(self.b, value, container(bits))
        if mask is not None:
            value = select(self.b, mask, value, self.read(name, bits))
        self.pending[name] = (value, bits)

    def has_part(self, name: str, dword: int) -> bool:
        """Whether dword ``dword`` of an operand can be read or written alone."""
        return f"{name}.{dword}" in self.reads or f"{name}.{dword}" in self.writes

    def is_written(self, name: str) -> bool:
        """Whether the whole operand has been written by this instruction."""
        return name in self.pending

    def read_lane_mask(self, name: str) -> Value:
        """The executing lane's bit of a lane mask, <lanes x i1>."""
        if name in self.pending_masks:
            return self.pending_masks[name]
        if name == "EXEC":
            return self.exec()
        if name not in self.mask_reads:
            raise NotNative(f"lane mask {name}")
        return self.mask_reads[name]()

    def write_lane_mask(self, name: str, value: Value, mask: Value | None) -> None:
        """Write the lanes' bits of a mask; lanes that EXEC turns off get 0, lanes outside ``mask`` keep theirs."""
        if name not in self.masks:
            raise NotNative(f"writing lane mask {name}")
        value = broadcast(self.b, resize(self.b, value, 1), self.wave_size)
        if mask is not None:
            old = self.pending_masks.get(name)
            value = select(self.b, mask, value, self.e.mask(self.masks[name]) if old is None else old)
        self.pending_masks[name] = value

    def commit(self) -> None:
        """Store what was written, in the order of writing."""
        for name, (value, bits) in self.pending.items():
            self.writes[name](value, bits)
        for name, value in self.pending_masks.items():
            place = self.masks[name]
            if isinstance(place, int) and place < 0:  # the null register
                continue
            self.e.set_mask(place, self.b.and_(self.e.packed(value), self.e.packed(self.exec())))
        for store in self.late:
            store()

    def read_vgpr(self, lane: Value, reg: Value) -> Value:
        """A VGPR of given lanes."""
        raise NotNative("a register of another lane")

    def write_vgpr(self, lane: Value, reg: Value, value: Value, mask: Value | None) -> None:
        raise NotNative("a register of another lane is written")

    def read_sgpr(self, reg: Value) -> Value:
        raise NotNative("a scalar register by computed number")

    def write_sgpr(self, reg: Value, value: Value, mask: Value | None) -> None:
        raise NotNative("a scalar register by computed number is written")

    def read_hwreg(self, index: Value) -> Value:
        raise NotNative("hardware register")

    def write_hwreg(self, index: Value, value: Value, mask: Value | None) -> None:
        raise NotNative("hardware register")

    def load(self, addr: Value, bits: int, mask: Value | None) -> Value:
        raise NotNative("memory")

    def store(self, addr: Value, value: Value, bits: int, mask: Value | None) -> None:
        raise NotNative("memory")

    def effect(self, fn: str, args: tuple[Value, ...], mask: Value | None) -> None:
        """Calls for effect. Waiting has none: every instruction completes at once."""
        if fn not in NO_EFFECT:
            raise NotNative(f"effect {fn}")


def dword(b: Builder, value: Value, k: int) -> Value:
    """Dword ``k`` of a value as i32."""
    width = width_of(value)
    if width <= 32:
        return resize(b, value, 32) if k == 0 else constant(0, 32, lanes_of(value))
    if width == 64 and lanes_of(value) > 1 and not isinstance(value, ir.Constant):
        return parted(b, value, k)
    if k:
        value = b.lshr(value, constant(32 * k, width, lanes_of(value)))
    return resize(b, value, 32)


__all__ = ["I1", "I8", "I32", "I64", "NativeContext", "Reader", "Writer", "dword"]
