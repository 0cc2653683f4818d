"""The syntax tree back to text, on one line: what a statement of a lowered program shows as its source."""

from __future__ import annotations

from mockgpu.pcode import ast


def show(x: ast.Expr | ast.Stmt) -> str:
    """``x`` as pseudocode. Control statements show their head only."""
    match x:
        case ast.Name():
            return x.name
        case ast.Number():
            return _number(x)
        case ast.Field():
            return f"{show(x.base)}.{x.field}"
        case ast.Index():
            return f"{show(x.base)}[{show(x.index)}]"
        case ast.Slice():
            return f"{show(x.base)}[{show(x.hi)} : {show(x.lo)}]"
        case ast.Part():
            return f"{show(x.base)}[{show(x.lo)} +: {show(x.width)}]"
        case ast.Call():
            return f"{x.fn}({_list(x.args)})"
        case ast.Cast():
            return f"{x.bits}'{x.kind}({show(x.x)})"
        case ast.Unary():
            return f"{x.op}{_nested(x.x)}"
        case ast.Binary():
            return f"{_nested(x.a)} {x.op} {_nested(x.b)}"
        case ast.Ternary():
            return f"{_nested(x.cond)} ? {_nested(x.a)} : {_nested(x.b)}"
        case ast.Concat():
            return f"{{ {_list(x.parts)} }}"
        case ast.Lambda():
            return f"lambda({', '.join(x.params)})"
    return _statement(x)


def _statement(s: ast.Stmt) -> str:
    match s:
        case ast.Declare():
            length = "" if s.length is None else f"[{s.length}]"
            return f"declare {s.name} : {s.bits}'{s.kind}{length}"
        case ast.Assign():
            return " ".join([*(f"{show(t)} {s.op}=" for t in s.targets), show(s.value)])
        case ast.If():
            return f"if {show(s.arms[0][0])} then"
        case ast.For():
            return f"for {s.var} in {show(s.start)} : {show(s.stop)} do"
        case ast.While():
            return f"while {show(s.cond)} do"
        case ast.Break():
            return "break"
        case ast.Return():
            return f"return {show(s.value)}"
        case ast.Effect():
            return show(s.call)
        case ast.Note():
            return f'"{s.text}"'


def _nested(x: ast.Expr) -> str:
    return f"({show(x)})" if isinstance(x, (ast.Binary, ast.Ternary)) else show(x)


def _list(parts: tuple[ast.Expr, ...]) -> str:
    return ", ".join(map(show, parts))


def _number(x: ast.Number) -> str:
    text = hex(x.value) if x.hexadecimal and isinstance(x.value, int) else str(x.value)
    if x.kind == "f":
        return {16: f"16'{text}", 32: f"{text}F"}.get(x.bits, text)
    suffix = {("i", 32): "", ("u", 32): "U", ("i", 64): "LL", ("u", 64): "ULL"}.get((x.kind, x.bits))
    return f"{x.bits}'{text}{'U' if x.kind == 'u' else ''}" if suffix is None else text + suffix
