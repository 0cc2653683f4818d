"""Check that a lowered program obeys the rules of the IR: what executors rely on, stated once.

The rules are those of :mod:`mockgpu.pcode.ir` and :mod:`mockgpu.pcode.signatures`; a program that breaks one is an
error of the lowering, not of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mockgpu.isa.errors import MockGPUError
from mockgpu.pcode import ir, walk
from mockgpu.pcode.ir import U1, U64, Expr, Program, Stmt, Target, Type
from mockgpu.pcode.operands import OPERANDS
from mockgpu.pcode.signatures import BUILTINS

_ARITHMETIC = ("add", "sub", "mul", "div", "mod")
_BITWISE = ("and", "or", "xor")
_SHIFTS = ("shl", "shr")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "lg")
_FLOAT_BITS = {"f": (16, 32, 64), "bf": (16,), "fp8": (8,), "bf8": (8,)}
_LANE_MASKS = ("VCC", "EXEC", "D0", "D1", "S2")
_REGISTER = (ir.Vgpr, ir.Sgpr, ir.HwReg)


class VerifyError(MockGPUError):
    """A program breaks a rule of the IR."""


def verify(program: Program) -> None:
    """Raise :class:`VerifyError` at the first broken rule."""
    checker = _Checker(program)
    for s in program.body:
        checker.statement(s)
    _same("reads", program.reads, walk.reads(program.body))
    _same("writes", program.writes, walk.writes(program.body))


def _same(what: str, declared: Iterable[str], found: Iterable[str]) -> None:
    if set(declared) != set(found):
        raise VerifyError(f"{what} are declared as {sorted(declared)} but are {sorted(found)}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise VerifyError(message)


class _Checker:
    def __init__(self, program: Program) -> None:
        self.locals: dict[str, Type] = {}
        self.arrays: dict[str, Type] = {}
        self.loops: dict[str, Type] = {}
        for s in program.body:
            if isinstance(s, ir.Declare):
                self._declare(s)

    def _declare(self, s: ir.Declare) -> None:
        _require(s.name not in self.locals and s.name not in self.arrays, f"{s.name} is declared twice")
        (self.locals if s.length is None else self.arrays)[s.name] = s.type

    # -- statements -------------------------------------------------------------------------------------------------

    def statement(self, s: Stmt) -> None:
        """Check ``s`` and what is nested in it."""
        match s:
            case ir.Assign():
                self.target(s.target)
                self.expr(s.value)
                _require(s.target.type == s.value.type, f"{s.value.type} assigned to {s.target.type}: {s.source}")
            case ir.If():
                for condition, body in s.arms:
                    self.condition(condition)
                    self.block(body)
                self.block(s.orelse)
            case ir.For():
                self._for(s)
            case ir.While():
                self.condition(s.cond)
                self.block(s.body)
            case ir.Effect():
                self.expr(s.call)
                _require(BUILTINS[s.call.fn].effect, f"{s.call.fn} has no effect")

    def block(self, body: Iterable[Stmt]) -> None:
        for s in body:
            self.statement(s)

    def _for(self, s: ir.For) -> None:
        self.expr(s.start)
        self.expr(s.stop)
        _require(s.start.type == s.stop.type, f"the bounds of {s.var} differ in type")
        _require(s.var not in self.locals and s.var not in self.loops, f"{s.var} names two things")
        self.loops[s.var] = s.start.type
        self.block(s.body)
        del self.loops[s.var]

    def condition(self, x: Expr) -> None:
        self.expr(x)
        _require(x.type == U1, f"a condition of type {x.type}")

    def target(self, target: Target) -> None:
        """Check a place and the expressions in it."""
        place = walk.root(target)
        allowed = (ir.Operand, ir.Local, ir.Element, ir.LaneBit, ir.Mem, *_REGISTER)
        _require(isinstance(place, allowed), f"{type(place).__name__} assigned to")
        self.expr(target)

    # -- expressions ------------------------------------------------------------------------------------------------

    def expr(self, x: Expr) -> None:
        """Check ``x`` and everything in it."""
        for child in walk.children(x):
            self.expr(child)
        self._type(x.type)
        for message in self._faults(x):
            raise VerifyError(f"{type(x).__name__}: {message}")

    def _type(self, type: Type) -> None:
        allowed = _FLOAT_BITS.get(type.kind)
        _require(type.bits > 0 and (allowed is None or type.bits in allowed), f"there is no type {type}")
        _require(type.bits > 1 or type == U1, f"a truth value of type {type}")

    def _faults(self, x: Expr) -> Iterator[str]:
        match x:
            case ir.Const():
                if not 0 <= x.value < 1 << x.type.bits:
                    yield f"{x.value:#x} does not fit {x.type}"
            case ir.Operand():
                if x.name not in OPERANDS:
                    yield f"unknown operand {x.name}"
            case ir.LaneBit():
                if x.name not in _LANE_MASKS:
                    yield f"{x.name} is not a lane mask"
            case ir.Local():
                if {**self.locals, **self.loops}.get(x.name) != x.type:
                    yield f"{x.name} is not declared as {x.type}"
            case ir.Element():
                if self.arrays.get(x.name) != x.type:
                    yield f"{x.name} is not declared as an array of {x.type}"
            case ir.Bits():
                yield from _bits_faults(x)
            case ir.Vgpr() | ir.Sgpr() | ir.HwReg():
                if x.type.bits != 32:
                    yield f"a register of type {x.type}"
            case ir.Mem():
                if x.addr.type != U64:
                    yield f"an address of type {x.addr.type}"
            case ir.Unary() | ir.Binary() | ir.Select():
                yield from _operator_faults(x)
            case ir.Cast():
                if "b" in (x.type.kind, x.x.type.kind):
                    yield f"{x.x.type} to {x.type}: raw bits have no number"
            case ir.Concat():
                if sum(p.type.bits for p in x.parts) != x.type.bits:
                    yield "parts do not add up"
            case ir.Call():
                yield from _call_faults(x)


def _bits_faults(x: ir.Bits) -> Iterator[str]:
    if x.lo.type.kind not in "ui":
        yield f"a position of type {x.lo.type}"
    if isinstance(x.lo, ir.Const) and x.lo.value + x.type.bits > x.base.type.bits:
        yield f"{x.type.bits} bits from {x.lo.value} of {x.base.type}"


def _operator_faults(x: ir.Unary | ir.Binary | ir.Select) -> Iterator[str]:
    match x:
        case ir.Unary():
            if x.type != x.x.type or (x.op == "lnot" and x.type != U1):
                yield f"{x.op} of {x.x.type} gives {x.type}"
        case ir.Select():
            if x.cond.type != U1 or not x.type == x.a.type == x.b.type:
                yield f"{x.cond.type} ? {x.a.type} : {x.b.type} gives {x.type}"
        case ir.Binary():
            if not _is_sound(x):
                yield f"{x.a.type} {x.op} {x.b.type} gives {x.type}"


def _is_sound(x: ir.Binary) -> bool:
    a, b = x.a.type, x.b.type
    if x.op in _ARITHMETIC:
        return x.type == a == b and a.kind in ("u", "i", "f", "bf")
    if x.op in _BITWISE:
        return x.type == a == b and not a.is_float
    if x.op in _SHIFTS:
        return x.type == a and a.kind in "ui" and b.kind in "ui"
    if x.op in _COMPARISONS:
        return x.type == U1 and a == b and (x.op != "lg" or a.is_float)
    if x.op == "pow":
        return x.type == a and a.is_float and not b.is_float
    return x.op in ("land", "lor") and x.type == a == b == U1


def _call_faults(x: ir.Call) -> Iterator[str]:
    signature = BUILTINS.get(x.fn)
    if signature is None:
        yield f"unknown function {x.fn}"
    elif len(x.args) != signature.args:
        yield f"{x.fn} with {len(x.args)} arguments"
    elif not signature.effect and signature.result_type(x.args[0].type) != x.type:
        yield f"{x.fn} of {x.args[0].type} gives {x.type}"
