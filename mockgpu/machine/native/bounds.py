"""Checks of addresses against the mappings of the address space, as functions that a module's handlers share.

The handlers compare with the last mapping that was hit; these functions search the table and move that range.
"""

from __future__ import annotations

from llvmlite import ir

from mockgpu.machine.native.emitter import I1, I8, I64, PTR
from mockgpu.machine.native.layout import CONTEXT, READ, field

_LOOKUP, _CHECK = "mockgpu_lookup", "mockgpu_check"


def lookup(module: ir.Module) -> ir.Function:
    """``i1 lookup(context, first, end, access)``: whether all bytes allow the access; adjacent mappings join."""
    found = module.globals.get(_LOOKUP)
    if found is not None:
        return found
    function = ir.Function(module, ir.FunctionType(I1, [PTR, I64, I64, I64]), _LOOKUP)
    function.linkage = "internal"
    function.attributes.add("noinline")
    context, first, end, access = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))

    def get(name: str) -> ir.Value:
        return b.load(b.gep(context, [I64(field(CONTEXT, name))], source_etype=I8), typ=I64)

    starts, ends = (b.inttoptr(get(name), PTR) for name in ("maps_start", "maps_end"))
    allowed = b.inttoptr(get("maps_access"), PTR)
    count = get("maps_count")
    entry = b.block
    search, halve, found_block, step, good, bad = (
        function.append_basic_block(n) for n in ("search", "halve", "found", "step", "good", "bad")
    )
    over = b.icmp_unsigned("<", end, first)
    b.cbranch(over, bad, search)
    # The last mapping that begins at or below the first byte.
    b.position_at_end(search)
    low, high = b.phi(I64), b.phi(I64)
    low.add_incoming(I64(0), entry)
    high.add_incoming(count, entry)
    b.cbranch(b.icmp_signed("<", low, high), halve, found_block)
    b.position_at_end(halve)
    middle = b.lshr(b.add(low, high), I64(1))
    start = b.load(b.gep(starts, [middle], source_etype=I64), typ=I64)
    below = b.icmp_unsigned("<=", start, first)
    low.add_incoming(b.select(below, b.add(middle, I64(1)), low), halve)
    high.add_incoming(b.select(below, high, middle), halve)
    b.branch(search)
    b.position_at_end(found_block)
    index0 = b.sub(low, I64(1))
    b.cbranch(b.icmp_signed("<", index0, I64(0)), bad, step)
    # From mapping to mapping as far as the end.
    b.position_at_end(step)
    index, at = b.phi(I64), b.phi(I64)
    index.add_incoming(index0, found_block)
    at.add_incoming(first, found_block)
    start = b.load(b.gep(starts, [index], source_etype=I64), typ=I64)
    stop = b.load(b.gep(ends, [index], source_etype=I64), typ=I64)
    flags = b.zext(b.load(b.gep(allowed, [index], source_etype=I8), typ=I8), I64)
    permits = b.icmp_unsigned("!=", b.and_(flags, access), I64(0))
    inside = b.and_(b.icmp_unsigned("<=", start, at), b.icmp_unsigned("<", at, stop))
    onward = function.append_basic_block("onward")
    b.cbranch(b.and_(permits, inside), onward, bad)
    b.position_at_end(onward)
    following = function.append_basic_block("following")
    b.cbranch(b.icmp_unsigned("<=", end, stop), good, following)
    b.position_at_end(following)
    after = b.add(index, I64(1))
    index.add_incoming(after, following)
    at.add_incoming(stop, following)
    b.cbranch(b.icmp_signed("<", after, count), step, bad)
    b.position_at_end(good)
    reads = b.icmp_unsigned("==", access, I64(READ))
    base = b.select(reads, I64(field(CONTEXT, "read_lo")), I64(field(CONTEXT, "write_lo")))
    place = b.gep(context, [base], source_etype=I8)
    b.store(start, place)
    b.store(stop, b.gep(place, [I64(8)], source_etype=I8))
    b.ret(I1(1))
    b.position_at_end(bad)
    b.ret(I1(0))
    return function


def check(module: ir.Module) -> ir.Function:
    """``i1 check(context, lanes, bytes, access)``: whether all lanes of a mask may access their ``lane_addresses``."""
    found = module.globals.get(_CHECK)
    if found is not None:
        return found
    one = lookup(module)
    function = ir.Function(module, ir.FunctionType(I1, [PTR, I64, I64, I64]), _CHECK)
    function.linkage = "internal"
    function.attributes.add("noinline")
    context, mask, size, access = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    entry = b.block
    head, body, again, good, bad = (function.append_basic_block(n) for n in ("head", "body", "again", "good", "bad"))
    addresses = b.gep(context, [I64(field(CONTEXT, "lane_addresses"))], source_etype=I8)
    b.branch(head)
    b.position_at_end(head)
    left = b.phi(I64)
    left.add_incoming(mask, entry)
    b.cbranch(b.icmp_unsigned("==", left, I64(0)), good, body)
    b.position_at_end(body)
    lane = b.cttz(left, I1(1))
    first = b.load(b.gep(addresses, [lane], source_etype=I64), typ=I64)
    b.cbranch(b.call(one, [context, first, b.add(first, size), access]), again, bad)
    b.position_at_end(again)
    left.add_incoming(b.and_(left, b.sub(left, I64(1))), again)
    b.branch(head)
    b.position_at_end(good)
    b.ret(I1(1))
    b.position_at_end(bad)
    b.ret(I1(0))
    return function
