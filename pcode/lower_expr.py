"""Expressions of the syntax tree to typed IR. The rules for types are in :mod:`mockgpu.pcode.typing`."""

from __future__ import annotations

from collections.abc import Callable

from mockgpu.pcode import ast, ir, slices
from mockgpu.pcode.ir import B32, F32, I32, I64, U1, U32, U64, Const, Expr, Type
from mockgpu.pcode.operands import (
    ALIASES,
    FLOAT_CONSTANTS,
    OPERANDS,
    REGISTER_NUMBERS,
    SELECTORS,
)
from mockgpu.pcode.scope import Array, Output, Scope
from mockgpu.pcode.signatures import BUILTINS
from mockgpu.pcode.two_over_pi import TWO_OVER_PI
from mockgpu.pcode.typing import (
    PcodeTypeError,
    agree,
    assignable,
    bitcast,
    convert,
    float_const,
    fold_binary,
    fold_negation,
    int_const,
    is_ieee,
    make_type,
    retype,
    suffix_type,
    truth,
)

_COMPARE = {"==": "eq", "!=": "ne", "<>": "lg", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}
_BITWISE = {"&": "and", "|": "or", "^": "xor"}
_SHIFT = {"<<": "shl", ">>": "shr"}
_LOGIC = {"&&": "land", "||": "lor"}
_LANE_MASKS = ("VCC", "EXEC")
_REGISTER_WIDTHS = (16, 32)
_CLASSIFY = ("isNAN", "isSignalNAN", "isQuietNAN")
_RENAMED = {
    "bitCount": "count_ones",
    "s_ff1_i32_b32": "find_first_one",
    "s_ff1_i32_b64": "find_first_one",
    "f32_to_f16_SR": "f32_to_f16_sr",
    "f32_to_bf16_SR": "f32_to_bf16_sr",
}


class ExprLowering:
    """One text's expressions. ``widths`` are the bits of an operand that the text touches by slices.

    ``inline`` lowers a call of another opcode; ``rounding`` is set between assignments to ``ROUND_MODE``.
    """

    def __init__(self, table: str, text: str, widths: dict[str, int], output: Output) -> None:
        self.table = table
        self.widths = widths
        self.output = output
        self.own_offset = "OFFSET" in text
        self.prefetch = "Prefetch" in text
        self.scope = Scope(output)
        self.rounding: str | None = None
        self.inline: Callable[[str, tuple[Expr, ...]], Expr | None] = lambda name, args: None
        self.call_lambda: Callable[[ast.Lambda, tuple[Expr, ...]], Expr]

    def expr(self, x: ast.Expr) -> Expr:
        """The value of ``x``."""
        match x:
            case ast.Name():
                return self._name(x.name)
            case ast.Number():
                return self._number(x)
            case ast.Field():
                return self._field(x)
            case ast.Index():
                return self._index(x)
            case ast.Slice():
                return self._slice(x)
            case ast.Part():
                return self._part(x)
            case ast.Call() if x.fn.startswith("Calc"):
                return self._calculated_address(x)
            case ast.Call():
                return self._call(x.fn, tuple(self.expr(a) for a in x.args))
            case ast.Cast():
                return self._cast(x)
            case ast.Unary():
                return self._unary(x.op, self.expr(x.x))
            case ast.Binary():
                return self.binary(x.op, self.expr(x.a), self.expr(x.b))
            case ast.Ternary():
                a, b = agree(self.expr(x.a), self.expr(x.b))
                return ir.Select(a.type, truth(self.expr(x.cond)), a, b)
            case ast.Concat():
                return concat(tuple(self.expr(p) for p in x.parts))
            case ast.Lambda():
                raise PcodeTypeError("a lambda that is not given a name")

    # -- names ------------------------------------------------------------------------------------------------

    def _name(self, name: str) -> Expr:
        meaning = self.scope.find(name)
        if isinstance(meaning, (Array, ast.Lambda)):
            raise PcodeTypeError(f"{name} used as a value")
        if meaning is not None:
            return meaning
        if name in FLOAT_CONSTANTS:
            patterns = FLOAT_CONSTANTS[name]
            bits = max(patterns)
            return Const(Type("f", bits), patterns[bits])
        if name in SELECTORS:
            return Const(Type("b", 3), SELECTORS[name])
        if name == "EXEC_LO":
            return ir.Operand(B32, "EXEC")
        return self.operand(name)

    def operand(self, name: str, type: Type | None = None) -> Expr:
        """An architectural operand, at ``type`` or at the width that the text's slices need."""
        name = self.canonical(name)
        if name not in OPERANDS:
            raise PcodeTypeError(f"unknown name {name}")
        native = OPERANDS[name][0]
        if name == "ADDR":
            address = self._address_operand()
            return retype(address, type or address.type)
        if native == B32:
            bits = self.widths.get(name, 32)
            if type is not None and (type.bits in _REGISTER_WIDTHS or type.bits % 32 == 0) and type.bits >= bits:
                return ir.Operand(type, name)
            if type is not None and type.bits == 16 and name not in self.widths:
                return ir.Operand(type, name)
            return retype(ir.Operand(Type("b", bits), name), type or Type("b", bits))
        if type is not None and name in ("EXEC", "VCC") and type.bits in (32, 64):
            return ir.Operand(type, name)
        return retype(ir.Operand(native, name), type or native)

    def canonical(self, name: str) -> str:
        """The one name of an operand (see :mod:`mockgpu.pcode.operands`)."""
        if name in ("VDATA", "SDATA") and not self.prefetch:
            return "DATA"
        return ALIASES.get(name, name)

    def _number(self, x: ast.Number) -> Const:
        if isinstance(x.value, float):
            return float_const(x.value, Type("f", x.bits))
        return int_const(x.value, make_type(x.kind, x.bits))

    # -- postfixes ----------------------------------------------------------------------------------------------

    def _field(self, x: ast.Field) -> Expr:
        type = suffix_type(x.field)
        if type is None:
            return self._name(self.dotted(x))
        if isinstance(x.base, ast.Name):
            return self._named(x.base.name, type)
        if isinstance(x.base, ast.Field) and suffix_type(x.base.field) is None:
            return self.operand(self.dotted(x.base), type)
        base = self.expr(x.base)
        if isinstance(base, ir.Sgpr) and type.bits > 32:
            return retype(self._consecutive(base, type.bits // 32), type)
        return retype(base, type)

    def _consecutive(self, first: ir.Sgpr, count: int) -> Expr:
        """Several scalar registers as one value, the first one lowest."""
        number = self.output.hold(first.reg, "number")
        registers = (ir.Sgpr(B32, self.binary("+", number, Const(number.type, k))) for k in range(count))
        return concat(tuple(reversed(tuple(registers))))

    def dotted(self, x: ast.Field) -> str:
        """``WAVE_MODE.IEEE`` as one name."""
        if not isinstance(x.base, ast.Name):
            raise PcodeTypeError(f"unknown field {x.field}")
        return f"{x.base.name}.{x.field}"

    def _named(self, name: str, type: Type) -> Expr:
        if name in FLOAT_CONSTANTS and self.scope.find(name) is None:
            return Const(type, FLOAT_CONSTANTS[name][type.bits])
        if name in SELECTORS:
            return Const(type, SELECTORS[name] & ((1 << type.bits) - 1))
        if self.scope.find(name) is None and name != "EXEC_LO":
            return self.operand(name, type)
        return retype(self._name(name), type)

    def _index(self, x: ast.Index) -> Expr:
        if (register := self.register(x)) is not None:
            return register
        if (lane := self.lane_bit(x)) is not None:
            return lane
        if isinstance(x.base, ast.Name) and isinstance(array := self.scope.find(x.base.name), Array):
            return ir.Element(array.type, array.name, self.index(x.index))
        return self.bits(self.expr(x.base), 1, self.index(x.index))

    def index(self, x: ast.Expr) -> Expr:
        """An index, as a 32-bit integer."""
        value = self.expr(x)
        return convert(value, I32 if value.type.kind == "i" else U32)

    def lane_bit(self, x: ast.Index) -> ir.LaneBit | None:
        """``VCC.u64[laneId]``, ``EXEC[i]``: a lane's bit of a mask."""
        base = x.base.base if isinstance(x.base, ast.Field) else x.base
        if not isinstance(base, ast.Name) or self.scope.find(base.name) is not None:
            return None
        if isinstance(x.index, ast.Name) and ALIASES.get(x.index.name) == "LANE":
            return ir.LaneBit(self.canonical(base.name))
        return ir.LaneBit(base.name, self.index(x.index)) if base.name in _LANE_MASKS else None

    def register(self, x: ast.Index) -> Expr | None:
        """``VGPR[lane][reg]``, ``SGPR[reg]``, ``HW_REGISTERS[i]``, ``MEM[addr]`` without a type: 32 bits."""
        if isinstance(x.base, ast.Index) and x.base.base == ast.Name("VGPR"):
            return ir.Vgpr(B32, self.index(x.base.index), self._register_number(x.index))
        if not isinstance(x.base, ast.Name):
            return None
        match x.base.name:
            case "SGPR":
                return ir.Sgpr(B32, self.index(x.index))
            case "HW_REGISTERS":
                return ir.HwReg(B32, self.index(x.index))
            case "MEM" | "LDS":
                return ir.Mem(B32, self.address(x.index))
        return None

    def _register_number(self, x: ast.Expr) -> Expr:
        if isinstance(x, ast.Binary):
            number = self.binary(x.op, self._register_number(x.a), self._register_number(x.b))
            return convert(number, U32)
        base = x.base if isinstance(x, ast.Field) else x
        if isinstance(base, ast.Name) and base.name in REGISTER_NUMBERS and self.scope.find(base.name) is None:
            return ir.Operand(U32, REGISTER_NUMBERS[base.name])
        return self.index(x)

    def address(self, x: ast.Expr) -> Expr:
        """A byte address, u64. A DS text that names no offset means that the address includes it."""
        value = self.expr(x)
        if x == ast.Name("ADDR") and self.table == "DSOp" and not self.own_offset:
            value = self.binary("+", value, ir.Operand(U32, "OFFSET"))
        return convert(value, U64)

    def _address_operand(self) -> Expr:
        return ir.Operand(U32 if self.table == "DSOp" else U64, "ADDR")

    def _slice(self, x: ast.Slice) -> Expr:
        base = self.expr(x.base)
        bits = slices.width(x.hi, x.lo)
        if bits > 0:
            return self.bits(base, bits, self.index(x.lo))
        straight = self.bits(base, 2 - bits, self.index(x.hi))
        return ir.Call(straight.type, "reverse_bits", (straight,))

    def _part(self, x: ast.Part) -> Expr:
        bits = slices.constant(x.width)
        if bits is None:
            raise PcodeTypeError("the width of a slice varies")
        return self.bits(self.expr(x.base), bits, self.index(x.lo))

    def bits(self, base: Expr, bits: int, lo: Expr) -> Expr:
        """``bits`` bits of ``base`` from ``lo``; integers give unsigned bits, others raw ones."""
        type = U1 if bits == 1 else Type("u" if base.type.kind in "ui" else "b", bits)
        if isinstance(lo, Const) and lo.value == 0 and bits == base.type.bits:
            return bitcast(base, type)
        if isinstance(lo, Const) and lo.value + bits > base.type.bits:
            raise PcodeTypeError(f"bits {lo.value} and up of a value of {base.type.bits} bits")
        if isinstance(base, ir.Bitcast) and base.x.type.bits == base.type.bits:
            base = base.x
        return ir.Bits(type, base, lo)

    # -- operators ----------------------------------------------------------------------------------------------

    def _unary(self, op: str, x: Expr) -> Expr:
        if op == "+":
            return x
        if op == "-":
            return fold_negation(x)
        if op == "!":
            return ir.Unary(U1, "lnot", truth(x))
        if isinstance(x, Const):
            return int_const(~x.value, x.type)
        return ir.Unary(x.type, "not", x)

    def binary(self, op: str, a: Expr, b: Expr) -> Expr:
        """``a op b`` under the rules of :mod:`mockgpu.pcode.typing`."""
        if op in _LOGIC:
            return ir.Binary(U1, _LOGIC[op], truth(a), truth(b))
        if op in _SHIFT:
            return self._shift(op, a, b)
        if op == "**":
            return fold_binary(a.type, "pow", a, b)
        if op in _COMPARE:
            return self._compare(_COMPARE[op], a, b)
        a, b = agree(a, b, arithmetic=op in _ARITHMETIC)
        name = _ARITHMETIC.get(op) or _BITWISE[op]
        return fold_binary(a.type, name, a, b)

    def _compare(self, op: str, a: Expr, b: Expr) -> Expr:
        a, b = agree(a, b)
        if op == "lg" and not a.type.is_float:
            op = "ne"
        return ir.Binary(U1, op, a, b)

    def _shift(self, op: str, a: Expr, b: Expr) -> Expr:
        wide = convert(a, make_type("u" if a.type.kind == "b" else a.type.kind, max(32, a.type.bits)))
        return fold_binary(wide.type, _SHIFT[op], wide, convert(b, U32 if b.type.kind != "i" else I32))

    # -- casts and calls ------------------------------------------------------------------------------------------

    def _cast(self, x: ast.Cast) -> Expr:
        type = make_type(x.kind, x.bits)
        if x.x == ast.Binary("/", ast.Number(2.0, 64, "f"), ast.Name("PI")):
            return Const(type, TWO_OVER_PI)
        value = self.expr(x.x)
        if type.is_float and _stands_for_bits(x.x, value):
            return bitcast(value, type)
        if type.kind == "b":
            return bitcast(value, type)
        return narrow_quiet(convert(_as_number(value), type))

    def _call(self, fn: str, args: tuple[Expr, ...]) -> Expr:
        fn = _RENAMED.get(fn, fn)
        if isinstance(function := self.scope.find(fn), ast.Lambda):
            return self.call_lambda(function, args)
        if fn in _CONVERSIONS:
            return self._conversion(fn, args[0])
        if (special := self._special(fn, args)) is not None:
            return special
        if fn in BUILTINS:
            return self._builtin(fn, args)
        if (inlined := self.inline(fn, args)) is not None:
            return inlined
        raise PcodeTypeError(f"unknown function {fn}")

    def _calculated_address(self, x: ast.Call) -> Expr:
        """``CalcDsAddr`` adds the offset unless it is given a constant 0; all others are complete addresses."""
        address = self._address_operand()
        if x.fn == "CalcDsAddr" and not all(isinstance(a, ast.Number) for a in x.args[1:]):
            return self.binary("+", address, ir.Operand(U32, "OFFSET"))
        return address

    def _conversion(self, fn: str, x: Expr) -> Expr:
        source, target = _CONVERSIONS[fn]
        value = retype(x, source) if source is not None else x
        rounded = f"{fn}_{self.rounding}"
        if self.rounding and rounded in BUILTINS:
            return ir.Call(target, rounded, (value,))
        return convert(value, target)

    def _special(self, fn: str, args: tuple[Expr, ...]) -> Expr | None:
        match fn:
            case "signext":
                return convert(bitcast(args[0], Type("i", args[0].type.bits)), I64)
            case "pow":
                return ir.Call(args[1].type, "exp2", (args[1],))
            case "float32":
                parts = (bitcast(args[0], U1), bitcast(args[1], Type("b", 8)), bitcast(args[2], Type("b", 23)))
                return bitcast(concat(parts), F32)
            case "writeableBitMask" | "HwRegWriteMask":
                # Which bits can be written is the register's property: the executor keeps the others.
                return Const(U32, 0xFFFFFFFF)
        return None

    def _builtin(self, fn: str, args: tuple[Expr, ...]) -> Expr:
        signature = BUILTINS[fn]
        if len(args) != signature.args:
            raise PcodeTypeError(f"{fn} takes {signature.args} arguments")
        if fn in _CLASSIFY or fn == "cvtToQuietNAN":
            args = (_before_widening(args[0]),)
        if fn == "fma":
            args = _same_float(args)
        return ir.Call(signature.result_type(args[0].type), fn, args)


def concat(parts: tuple[Expr, ...]) -> Expr:
    """``{ a, b }`` as raw bits."""
    return ir.Concat(Type("b", sum(p.type.bits for p in parts)), parts)


def narrow_quiet(x: Expr) -> Expr:
    """``32'F(cvtToQuietNAN(64'F(x)))`` works on the f32 itself: no conversion takes place."""
    if isinstance(x, ir.Cast) and isinstance(x.x, ir.Call) and x.x.fn == "cvtToQuietNAN":
        return assignable(x.x, x.type)
    return x


def _before_widening(x: Expr) -> Expr:
    """``64'F(x)`` -> ``x``: a signalling NAN would not survive a real conversion, and the manuals mean ``x``."""
    if isinstance(x, ir.Cast) and is_ieee(x.type) and is_ieee(x.x.type) and x.type.bits > x.x.type.bits:
        return x.x
    return x


def _same_float(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    if len({a.type for a in args}) != 1:
        raise PcodeTypeError("fma of different types")
    return args


def _stands_for_bits(written: ast.Expr, value: Expr) -> bool:
    """``32'F(0xffc00000)`` and ``32'F({ hi, lo })`` are bit patterns, not numbers."""
    hexadecimal = isinstance(written, ast.Number) and written.hexadecimal
    return hexadecimal or isinstance(value, ir.Concat) or (value.type.kind == "b" and value.type.bits <= 64)


def _as_number(x: Expr) -> Expr:
    """Raw bits that become a number count as unsigned."""
    return bitcast(x, Type("u", x.type.bits)) if x.type.kind == "b" else x


def _plain_conversions() -> dict[str, tuple[Type | None, Type]]:
    """Functions that are nothing but a conversion: name -> (type of the argument, type of the result)."""
    floats = "f16_to_f32 f32_to_f16 f32_to_f64 f64_to_f32 bf16_to_f32 f32_to_bf16"
    small_floats = "fp8_to_f32 bf8_to_f32 f32_to_fp8 f32_to_bf8"
    to_integers = "f16_to_i16 f16_to_u16 f32_to_i32 f32_to_u32 f32_to_u8 f64_to_i32 f64_to_u32"
    from_integers = "i16_to_f16 u16_to_f16 i32_to_f32 u32_to_f32 i32_to_f64 u32_to_f64"
    integers = "i16_to_i32 u16_to_u32 i8_to_i32 u8_to_u32 i4_to_i32 u4_to_u32"
    pairs = " ".join((floats, small_floats, to_integers, from_integers, integers)).split()
    table: dict[str, tuple[Type | None, Type]] = {}
    for pair in pairs:
        source, target = (suffix_type(s) for s in pair.split("_to_"))
        assert target is not None
        table[pair] = (source, target)
    table["v_cvt_i16_f32"] = (F32, Type("i", 16))
    table["v_cvt_u16_f32"] = (F32, Type("u", 16))
    return table


_CONVERSIONS = _plain_conversions()
