"""Statements of the syntax tree to typed IR: assignments to every kind of target, loops, lambdas."""

from __future__ import annotations

from collections.abc import Iterable

from mockgpu.pcode import ast, ir, slices
from mockgpu.pcode.ir import B32, I32, U1, U32, Const, Expr, Local, Type
from mockgpu.pcode.lower_expr import ExprLowering
from mockgpu.pcode.operands import ALIASES, IGNORED_TARGETS, OPERANDS, REGISTER_NUMBERS, ROUND_MODES
from mockgpu.pcode.scope import Array, Output, Scope
from mockgpu.pcode.show import show
from mockgpu.pcode.signatures import BUILTINS
from mockgpu.pcode.typing import PcodeTypeError, assignable, convert, make_type, suffix_type, truth

_NO_OPERATION = ("nop", "s_nop")
_DESTINATIONS = {"VDATA": "RETURN_DATA", "SDATA": "RETURN_DATA"}


class StmtLowering(ExprLowering):
    """One text's statements; they go to ``output``."""

    def __init__(self, table: str, text: str, widths: dict[str, int], output: Output) -> None:
        super().__init__(table, text, widths, output)
        self.call_lambda = self._call_lambda
        self.breaks: list[Local] = []
        self.local_destination = False

    def statements(self, statements: Iterable[ast.Stmt]) -> None:
        """Lower a block. What follows a statement that may break runs only if it did not."""
        rest = list(statements)
        while rest:
            statement = rest.pop(0)
            self.statement(statement)
            if rest and _may_break(statement):
                with self.output.nested() as body:
                    self.statements(rest)
                going = ir.Unary(U1, "lnot", self.breaks[-1])
                self.output.emit(ir.If(((going, tuple(body)),)))
                return

    def statement(self, s: ast.Stmt) -> None:
        match s:
            case ast.Declare():
                self._declare(s)
            case ast.Assign():
                self._assign_statement(s)
            case ast.If():
                self._if(s)
            case ast.For():
                self._for(s)
            case ast.While():
                raise PcodeTypeError("a loop that waits for another wave")
            case ast.Break():
                self.output.emit(ir.Assign(self.breaks[-1], Const(U1, 1), "break"))
            case ast.Return():
                self._return(s)
            case ast.Effect():
                self._effect(s)
            case ast.Note():
                self.output.emit(ir.Effect(ir.Call(U1, "wait_idle", ()), s.text))

    def _declare(self, s: ast.Declare) -> None:
        type = make_type(s.kind, s.bits)
        if s.name == "S" and s.length is not None:
            self._sources(type, s.length)
        elif ALIASES.get(s.name, s.name) in OPERANDS or s.name in REGISTER_NUMBERS:
            return
        elif s.length is not None:
            self.scope.array(s.name, type, s.length)
        else:
            self.scope.local(s.name, type)

    def _sources(self, type: Type, length: int) -> None:
        """``declare S : 32'B[3]``: the sources as an array."""
        array = self.scope.array("S", type, length)
        for i in range(length):
            target = ir.Element(type, array.name, Const(U32, i))
            self.output.emit(ir.Assign(target, ir.Operand(type, f"S{i}"), f"S[{i}] = S{i}"))

    # -- assignment -----------------------------------------------------------------------------------------------

    def _assign_statement(self, s: ast.Assign) -> None:
        if isinstance(s.value, ast.Lambda):
            self._name_lambda(s.targets, s.value)
        elif s.targets == (ast.Name("ROUND_MODE"),):
            self._set_rounding(s.value)
        elif s.value != ast.Name("ROUND_MODE") and not self._ignored(s.targets[0]):
            self._assign_value(s)

    def _assign_value(self, s: ast.Assign) -> None:
        source = show(s)
        value = self.expr(s.value)
        if s.op:
            value = self.binary(s.op, self.expr(s.targets[0]), value)
        if len(s.targets) > 1:
            value = self.output.hold(value, "value")
        for target in reversed(s.targets):
            self.assign(target, value, source)

    def _ignored(self, target: ast.Expr) -> bool:
        return isinstance(target, ast.Field) and show(target) in IGNORED_TARGETS

    def _set_rounding(self, value: ast.Expr) -> None:
        self.rounding = ROUND_MODES.get(value.name) if isinstance(value, ast.Name) else None

    def _name_lambda(self, targets: tuple[ast.Expr, ...], value: ast.Lambda) -> None:
        (target,) = targets
        if not isinstance(target, ast.Name):
            raise PcodeTypeError("a lambda that is not given a name")
        self.scope.meanings[target.name] = value

    def assign(self, target: ast.Expr, value: Expr, source: str) -> None:
        """``target = value``."""
        if isinstance(target, ast.Concat):
            self._assign_parts(target, value, source)
            return
        if (wide := self._wide_register(target)) is not None:
            self._assign_registers(wide, value, source)
            return
        place = self.place(target, value.type)
        self.output.emit(ir.Assign(place, assignable(value, place.type), source))

    def _assign_parts(self, target: ast.Concat, value: Expr, source: str) -> None:
        value = self.output.hold(value, "value")
        lo = 0
        for part in reversed(target.parts):
            place = self.place(part, value.type)
            bits = place.type.bits
            piece = ir.Bits(U1 if bits == 1 else Type("b", bits), value, Const(U32, lo))
            self.output.emit(ir.Assign(place, assignable(piece, place.type), source))
            lo += bits

    def place(self, target: ast.Expr, type: Type) -> ir.Target:
        """What an assignment of a value of ``type`` writes to."""
        match target:
            case ast.Name():
                return self._place_name(target.name, type)
            case ast.Field():
                return self._place_field(target, type)
            case ast.Index():
                return self._place_index(target, type)
            case ast.Slice():
                return self._place_slice(target)
        raise PcodeTypeError("this cannot be assigned to")

    def _place_name(self, name: str, type: Type) -> ir.Target:
        meaning = self.scope.find(name)
        if isinstance(meaning, Local):
            return meaning
        if meaning is not None:
            raise PcodeTypeError(f"{name} cannot be assigned to")
        if self._destination(name) not in OPERANDS:
            return self.scope.local(name, type)
        name = self._destination(name)
        native = OPERANDS[name][0]
        if name in ("VCC", "EXEC"):
            return ir.Operand(B32 if type.bits == 32 else native, name)
        if native != B32:
            return ir.Operand(native, name)
        return self._whole(name, Type("b", type.bits) if type.bits > 1 else B32)

    def _destination(self, name: str) -> str:
        if name == "D0" and self.local_destination:
            return "result of the inlined opcode"
        return _DESTINATIONS.get(name) or self.canonical(name)

    def _whole(self, name: str, type: Type) -> ir.Target:
        """An operand written as ``type``; narrower than a register, the rest of it is kept."""
        if type.bits in (16, 32) or type.bits % 32 == 0 or OPERANDS[name][0] != B32:
            return ir.Operand(type, name)
        return ir.Bits(type, ir.Operand(B32, name), Const(U32, 0))

    def _place_field(self, target: ast.Field, type: Type) -> ir.Target:
        suffix = suffix_type(target.field)
        if suffix is None:
            return ir.Operand(OPERANDS[self.dotted(target)][0], self.dotted(target))
        if not isinstance(target.base, ast.Name):
            return _with_type(self.place(target.base, suffix), suffix)
        name = target.base.name
        meaning = self.scope.find(name)
        if name == "D1" and suffix == U1:
            return ir.LaneBit("D1")
        if meaning is None and self._destination(name) in OPERANDS:
            return self._whole(self._destination(name), suffix)
        return _with_type(self._place_name(name, suffix), suffix)

    def _place_index(self, target: ast.Index, type: Type) -> ir.Target:
        place = self.register(target)
        if isinstance(place, ir.Mem):
            return ir.Mem(type, place.addr)
        if isinstance(place, (ir.Vgpr, ir.Sgpr, ir.HwReg)):
            return place
        if (lane := self.lane_bit(target)) is not None:
            return lane
        if isinstance(target.base, ast.Name) and isinstance(array := self.scope.find(target.base.name), Array):
            return ir.Element(array.type, array.name, self.index(target.index))
        return ir.Bits(U1, self.place(target.base, B32), self.index(target.index))

    def _place_slice(self, target: ast.Slice) -> ir.Target:
        bits = slices.width(target.hi, target.lo)
        base = self._sliced_base(target)
        lo = self.index(target.lo)
        if lo == Const(lo.type, 0) and bits == base.type.bits:
            return _with_type(base, Type("b", bits))
        return ir.Bits(Type("b", bits), base, lo)

    def _sliced_base(self, target: ast.Slice) -> ir.Target:
        """What ``target`` is a part of; an unknown name becomes a local as wide as its slices reach."""
        if not isinstance(target.base, ast.Name):
            return self.place(target.base, B32)
        name = target.base.name
        if self.scope.find(name) is None and self._destination(name) in OPERANDS:
            name = self._destination(name)
            return ir.Operand(Type("b", self.widths.get(name, 32)), name)
        return self._place_name(name, Type("b", self.widths.get(name, 32)))

    # -- registers of more than 32 bits by computed number ----------------------------------------------------

    def _wide_register(self, target: ast.Expr) -> tuple[ir.Sgpr, int] | None:
        if not isinstance(target, ast.Field) or not isinstance(target.base, ast.Index):
            return None
        suffix = suffix_type(target.field)
        place = self.register(target.base)
        return (place, suffix.bits) if isinstance(place, ir.Sgpr) and suffix and suffix.bits > 32 else None

    def _assign_registers(self, wide: tuple[ir.Sgpr, int], value: Expr, source: str) -> None:
        first, bits = wide
        value = self.output.hold(assignable(value, Type("b", bits)), "value")
        number = self.output.hold(first.reg, "number")
        for k in range(bits // 32):
            place = ir.Sgpr(B32, self.binary("+", number, Const(number.type, k)))
            self.output.emit(ir.Assign(place, ir.Bits(B32, value, Const(U32, 32 * k)), source))

    # -- control --------------------------------------------------------------------------------------------------

    def _if(self, s: ast.If) -> None:
        """Conditions are evaluated before the first arm: they have no effects."""
        arms: list[tuple[Expr, tuple[ir.Stmt, ...]]] = []
        conditions = [truth(self.expr(condition)) for condition, _ in s.arms]
        for condition, (_, block) in zip(conditions, s.arms, strict=True):
            with self.output.nested() as body:
                self.statements(block)
            arms.append((condition, tuple(body)))
        with self.output.nested() as orelse:
            self.statements(s.orelse)
        if orelse or any(body for _, body in arms):
            self.output.emit(ir.If(tuple(arms), tuple(orelse), f"if {show(s.arms[0][0])}"))

    def _for(self, s: ast.For) -> None:
        start, stop = self.expr(s.start), self.expr(s.stop)
        type = I32 if start.type.kind == "i" else U32
        var = self.output.unique(s.var)
        hidden = self.scope.meanings.get(s.var)
        self.scope.meanings[s.var] = Local(type, var)
        body = self._loop_body(s.body)
        del self.scope.meanings[s.var]
        if hidden is not None:
            self.scope.meanings[s.var] = hidden
        if body:
            source = f"for {s.var} in {show(s.start)} : {show(s.stop)}"
            self.output.emit(ir.For(var, convert(start, type), convert(stop, type), body, source))

    def _loop_body(self, statements: tuple[ast.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        """The body of a loop; a loop that breaks carries a flag and skips its remaining rounds."""
        if not any(map(_may_break, statements)):
            with self.output.nested() as body:
                self.statements(statements)
            return tuple(body)
        flag = Local(U1, self.output.declare("stopped", U1))
        self.output.emit(ir.Assign(flag, Const(U1, 0)))
        self.breaks.append(flag)
        with self.output.nested() as body:
            self.statements(statements)
        self.breaks.pop()
        return (ir.If(((ir.Unary(U1, "lnot", flag), tuple(body)),)),)

    def _effect(self, s: ast.Effect) -> None:
        if s.call.fn in _NO_OPERATION:
            return
        if s.call.fn not in BUILTINS or not BUILTINS[s.call.fn].effect:
            raise PcodeTypeError(f"unknown function {s.call.fn}")
        args = tuple(self.expr(a) for a in s.call.args)
        self.output.emit(ir.Effect(ir.Call(U1, s.call.fn, args), show(s)))

    # -- lambdas ----------------------------------------------------------------------------------------------------

    def _call_lambda(self, function: ast.Lambda, args: tuple[Expr, ...]) -> Expr:
        held = [self.output.hold(a, p) for a, p in zip(args, function.params, strict=True)]
        outer = self.scope
        self.scope = Scope(self.output, outer, dict(zip(function.params, held, strict=True)))
        try:
            if not isinstance(function.body, tuple):
                return self.expr(function.body)
            return self._run_body(function.body)
        finally:
            self.scope = outer

    def _run_body(self, body: tuple[ast.Stmt, ...]) -> Expr:
        """A body of statements whose returns all stand at the ends of its branches."""
        results: list[Local] = []
        scope = self.scope

        def returned(value: Expr) -> None:
            if not results:
                results.append(Local(value.type, self.output.declare("result", value.type)))
            self.output.emit(ir.Assign(results[0], assignable(value, results[0].type), "return"))

        scope.returns = returned
        self.statements(body)
        if not results:
            raise PcodeTypeError("a lambda without a result")
        return results[0]

    def _return(self, s: ast.Return) -> None:
        if self.scope.returns is None:
            raise PcodeTypeError("return outside of a lambda")
        self.scope.returns(self.expr(s.value))


def _with_type(place: ir.Target, type: Type) -> ir.Target:
    """The same place, taking values of ``type``. A local of another type, or a wider one, is written in part."""
    match place:
        case ir.Mem():
            return ir.Mem(type, place.addr)
        case ir.Operand():
            return ir.Operand(type, place.name)
        case ir.Bits():
            if type.bits == place.type.bits:
                return ir.Bits(type, place.base, place.lo)
            return place
        case ir.Vgpr() | ir.Sgpr() | ir.HwReg() if type.bits == place.type.bits:
            return type_register(place, type)
    return place


def type_register(place: ir.Vgpr | ir.Sgpr | ir.HwReg, type: Type) -> ir.Target:
    """A register written as ``type``, of its own width."""
    match place:
        case ir.Vgpr():
            return ir.Vgpr(type, place.lane, place.reg)
        case ir.Sgpr():
            return ir.Sgpr(type, place.reg)
        case ir.HwReg():
            return ir.HwReg(type, place.index)


def _may_break(s: ast.Stmt) -> bool:
    """A break of the loop that ``s`` stands in, not of one inside ``s``."""
    if isinstance(s, ast.Break):
        return True
    if not isinstance(s, ast.If):
        return False
    blocks = [body for _, body in s.arms] + [s.orelse]
    return any(_may_break(inner) for block in blocks for inner in block)
