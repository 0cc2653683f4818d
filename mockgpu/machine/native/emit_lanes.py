"""Vector registers of given lanes: lane reads and writes, registers by computed number, moves inside rows.

A register that the instruction names lies in the register file: code whose registers do not is not native. One by a
computed number (movrel) that lies outside is register 0 when it is read, and is not written.
"""

from __future__ import annotations

from llvmlite import ir

from mockgpu.machine.context import OUT_OF_RANGE_VGPR
from mockgpu.machine.native.context import NativeContext, Reader
from mockgpu.machine.native.emitter import I32, I64
from mockgpu.machine.native.layout import VGPR
from mockgpu.pcode.llvm.tuned_lanes import gathered
from mockgpu.pcode.llvm.values import NotNative, Value, broadcast, constant, lanes_of, resize, same

assert OUT_OF_RANGE_VGPR == 0  # the first row, see _computed


class LaneContext(NativeContext):
    """A context whose instruction may use registers of other lanes. The twin of Context.read_vgpr and write_vgpr."""

    scalar_source: Reader | None = None

    def read_vgpr(self, lane: Value, reg: Value) -> Value:
        """A VGPR of given lanes; a lane read whose source is a scalar reads that."""
        if self.scalar_source is not None:
            return self.scalar_source(32)
        if lanes_of(reg) > 1:
            raise NotNative("a register number by lane")
        if lanes_of(lane) == 1:
            return self.b.load(self._element(lane, reg), typ=I32)
        offset, _ = self._row(reg)
        row = self.e.vector(offset)
        if self._is_own(lane):
            return row
        number = resize(self.b, lane, 32)
        return gathered(self, row, self.b.and_(number, same(number, self.wave_size - 1)))

    def write_vgpr(self, lane: Value, reg: Value, value: Value, mask: Value | None) -> None:
        """Write a VGPR: of one lane whatever EXEC says, or of the executing lanes."""
        if lanes_of(reg) > 1:
            raise NotNative("a register number by lane")
        if lanes_of(lane) == 1:
            self._write_one(lane, reg, value, mask)
            return
        if not self._is_own(lane):
            raise NotNative("registers of other lanes are written, by lane")
        b, where = self.b, self.exec()
        offset, inside = self._row(reg)
        for cond in (mask, inside):
            if cond is not None:
                where = b.and_(where, broadcast(b, cond, self.wave_size))
        self.e.set_vector(offset, resize(b, value, 32), where)

    def _write_one(self, lane: Value, reg: Value, value: Value, mask: Value | None) -> None:
        if lanes_of(value) > 1 or mask is not None:
            raise NotNative("a register of another lane is written, by lane")
        place, new = self._element(lane, reg), resize(self.b, value, 32)
        self.late.append(lambda: self.b.store(new, place, align=4))

    def _is_own(self, lane: Value) -> bool:
        """Whether ``lane`` is the number of the executing lane."""
        if not isinstance(lane, ir.Constant) or lanes_of(lane) != self.wave_size:
            return False
        return [getattr(n, "constant", n) for n in lane.constant] == list(range(self.wave_size))

    def _row(self, reg: Value) -> tuple[Value, Value | None]:
        """The byte offset of a register, and whether it exists (None: for certain)."""
        named = self.named.get(id(reg))
        return self._computed(reg) if named is None else (named[1], None)

    def _computed(self, reg: Value) -> tuple[Value, Value]:
        b = self.b
        bytes_in = b.mul(resize(b, reg, 64), I64(4 * self.wave_size))
        inside = b.icmp_unsigned("<", bytes_in, self.e.get_context("vgpr_bytes"))
        return b.add(b.select(inside, bytes_in, I64(0)), I64(VGPR)), inside

    def _element(self, lane: Value, reg: Value) -> Value:
        """Pointer to one lane of a register that the instruction names."""
        b = self.b
        number = b.and_(resize(b, lane, 32), constant(self.wave_size - 1, 32))
        offset = b.add(b.mul(resize(b, reg, 64), I64(4 * self.wave_size)), b.shl(b.zext(number, I64), I64(2)))
        return self.e.at(b.add(offset, I64(VGPR)))
