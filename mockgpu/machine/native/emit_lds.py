"""DS instructions that move dwords between lanes and leave LDS alone. The twin of the lane permutes of machine/lds."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir as llvm

from mockgpu.machine.lds import _HALF, _offset, _swizzle_source, _whole_wave
from mockgpu.machine.native import lanes_moved
from mockgpu.machine.native.emitter import I8, I32, I64, Emitter
from mockgpu.machine.native.lanes_moved import order
from mockgpu.pcode.llvm.values import Value, broadcast, constant, same


def _swizzle(e: Emitter) -> None:
    """Every lane reads the lane that the offset, a part of the shape, gives it."""
    source = order(int(lane) for lane in _swizzle_source(_offset(e.instruction), e.lanes))
    value = _active(e, e.vector(e.param("addr")))
    e.set_vector(e.param("vdst"), e.b.shuffle_vector(value, value, source), e.exec())


def _bpermute(e: Emitter) -> None:
    """Each lane reads the lane that its address names; lanes that EXEC turns off give 0."""
    data = e.vector(e.param("data0"))
    if not e.instruction.mnemonic.endswith("_fi_b32"):
        data = _active(e, data)
    table = _table(e)
    e.b.store(data, table, align=4)
    e.b.store(_places(e, table), e.context_at("lane_addresses"), align=8)
    e.b.call(lanes_moved.collect(e.module, e.lanes, 1), [e.context])
    _write(e, e.context_at("lane_data"))


def _permute(e: Emitter) -> None:
    """Each active lane sends its data to the lane that its address names; the highest sender wins, others get 0."""
    b, table = e.b, _table(e)
    b.store(constant(0, 32, e.lanes), table, align=4)
    b.store(e.vector(e.param("data0")), e.context_at("lane_data"), align=4)
    spare = broadcast(b, b.ptrtoint(e.context_at("lane_values"), I64), e.lanes)
    b.store(b.select(e.exec(), _places(e, table), spare), e.context_at("lane_addresses"), align=8)
    b.call(lanes_moved.distribute(e.module, e.lanes, 1), [e.context])
    _write(e, table)


def _active(e: Emitter, value: Value) -> Value:
    """A vector register with 0 in the lanes that EXEC turns off."""
    return e.b.select(e.exec(), value, constant(0, 32, e.lanes))


def _table(e: Emitter) -> Value:
    """Room in the context for a dword of every lane, behind what the shared functions use."""
    return e.b.gep(e.context_at("lane_data"), [I32(4 * e.lanes)], source_etype=I8)


def _places(e: Emitter, table: Value) -> Value:
    """The host address of the table's dword that each lane's byte address names: of the wave, or of its own half."""
    b, n = e.b, e.lanes
    offset = b.or_(e.param("offset0"), b.shl(e.param("offset1"), I32(8)))
    lane = b.lshr(b.add(e.vector(e.param("addr")), broadcast(b, offset, n)), constant(2, 32, n))
    if _whole_wave(e.instruction):
        lane = b.and_(lane, same(lane, n - 1))
    else:
        half = llvm.Constant(lane.type, [k & ~(_HALF - 1) for k in range(n)])
        lane = b.or_(b.and_(lane, same(lane, _HALF - 1)), half)
    steps = b.shl(b.zext(lane, llvm.VectorType(I64, n)), constant(2, 64, n))
    return b.add(broadcast(b, b.ptrtoint(table, I64), n), steps)


def _write(e: Emitter, pointer: Value) -> None:
    value = e.b.load(pointer, typ=llvm.VectorType(I32, e.lanes), align=4)
    e.set_vector(e.param("vdst"), value, e.exec())


#: What emits a mnemonic.
LANE_MOVES: dict[str, Callable[[Emitter], None]] = {
    "ds_swizzle_b32": _swizzle,
    "ds_permute_b32": _permute,
    "ds_bpermute_b32": _bpermute,
    "ds_bpermute_fi_b32": _bpermute,
}
