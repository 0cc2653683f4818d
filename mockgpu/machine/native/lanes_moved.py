"""Dwords of lanes at unrelated addresses, moved one lane after the other by functions that a module's handlers share.

``lane_addresses`` of the context says where, ``lane_data`` holds the dwords, one vector behind the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from llvmlite import ir

from mockgpu.machine.native.emitter import I8, I32, I64, PTR
from mockgpu.machine.native.layout import CONTEXT, field
from mockgpu.pcode.llvm.values import Value, lanes_of


def collect(module: ir.Module, lanes: int, dwords: int) -> ir.Function:
    """``void collect(context)``: load ``dwords`` consecutive dwords for every lane."""
    name = f"mockgpu_collect_{lanes}_{dwords}"
    function, b = _function(module, name)
    if b is None:
        return function
    loaded = padded(b, [b.load(p, typ=_kind(dwords), align=1) for p in _pointers(b, function, lanes)])
    each = 4 if dwords == 3 else dwords
    whole = joined(b, loaded)
    for k in range(dwords):
        part = whole if each == 1 else b.shuffle_vector(whole, whole, order(range(k, each * lanes, each)))
        b.store(part, _data(b, function, lanes, k), align=4)
    b.ret_void()
    return function


def distribute(module: ir.Module, lanes: int, dwords: int) -> ir.Function:
    """``void distribute(context)``: store ``dwords`` consecutive dwords of every lane, lane after lane."""
    name = f"mockgpu_distribute_{lanes}_{dwords}"
    function, b = _function(module, name)
    if b is None:
        return function
    kind = ir.VectorType(I32, lanes)
    values = [b.load(_data(b, function, lanes, k), typ=kind, align=4) for k in range(dwords)]
    whole = values[0] if dwords == 1 else interleaved(b, values, lanes)
    for lane, pointer in enumerate(_pointers(b, function, lanes)):
        if dwords == 1:
            part = b.extract_element(whole, I32(lane))
        else:
            part = b.shuffle_vector(whole, whole, order(range(dwords * lane, dwords * (lane + 1))))
        b.store(part, pointer, align=1)
    b.ret_void()
    return function


def _function(module: ir.Module, name: str) -> tuple[ir.Function, ir.IRBuilder | None]:
    found = module.globals.get(name)
    if found is not None:
        return found, None
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function, ir.IRBuilder(function.append_basic_block("entry"))


def _pointers(b: ir.IRBuilder, function: ir.Function, lanes: int) -> Iterable[Value]:
    first = b.gep(function.args[0], [I64(field(CONTEXT, "lane_addresses"))], source_etype=I8)
    for lane in range(lanes):
        yield b.inttoptr(b.load(b.gep(first, [I64(lane)], source_etype=I64), typ=I64), PTR)


def _data(b: ir.IRBuilder, function: ir.Function, lanes: int, k: int) -> Value:
    return b.gep(function.args[0], [I64(field(CONTEXT, "lane_data") + 4 * lanes * k)], source_etype=I8)


def _kind(dwords: int) -> ir.Type:
    return I32 if dwords == 1 else ir.VectorType(I32, dwords)


def order(numbers: Iterable[int]) -> ir.Constant:
    """The order of a shuffle."""
    found = list(numbers)
    return ir.Constant(ir.VectorType(I32, len(found)), found)


def padded(b: ir.IRBuilder, parts: list[Value]) -> list[Value]:
    """Vectors of three as vectors of four."""
    if lanes_of(parts[0]) != 3:
        return parts
    return [b.shuffle_vector(part, part, order([0, 1, 2, 2])) for part in parts]


def joined(b: ir.IRBuilder, parts: list[Value]) -> Value:
    """Scalars or vectors of one size, a power of two of them, as one vector."""
    if not isinstance(parts[0].type, ir.VectorType):
        whole: Value = ir.Constant(ir.VectorType(parts[0].type, len(parts)), ir.Undefined)
        for k, part in enumerate(parts):
            whole = b.insert_element(whole, part, I32(k))
        return whole
    while len(parts) > 1:
        size = lanes_of(parts[0])
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [b.shuffle_vector(x, y, order(range(2 * size))) for x, y in pairs]
    return parts[0]


def interleaved(b: ir.IRBuilder, values: list[Value], lanes: int) -> Value:
    """Two to four dwords of every lane beside each other."""
    count = len(values)
    if count == 2:
        numbers = [k // 2 + lanes * (k % 2) for k in range(2 * lanes)]
        return b.shuffle_vector(values[0], values[1], order(numbers))
    low = b.shuffle_vector(values[0], values[1], order(range(2 * lanes)))
    high = b.shuffle_vector(values[2], values[3] if count == 4 else values[2], order(range(2 * lanes)))
    return b.shuffle_vector(low, high, order(k // count + lanes * (k % count) for k in range(count * lanes)))
