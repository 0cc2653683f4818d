"""The typed IR that pseudocode is lowered to. Everything else is a walk over it.

A :class:`Program` is a list of statements over *operands* (architectural names such as ``S0``, ``D0``, ``SCC``,
``VCC``, ``EXEC``, ``PC``), *locals*, memory and the register file. Every expression carries its type; every
implicit rule of the pseudocode (promotion, truncation, which type a ``tmp`` takes) has become an explicit node.

Values are bit patterns. A value of type ``f32`` is its 32 bits, a value of type ``i16`` its two's complement in
16 bits. ``Cast`` converts between the numbers, ``Bitcast`` keeps the bits (and zero-extends or truncates).
Executors add a lane axis to every value: an ``If`` whose condition varies by lane is a predicate on its body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind = Literal["u", "i", "f", "bf", "fp8", "bf8", "b"]


@dataclass(frozen=True, slots=True)
class Type:
    """``kind`` and width in bits: u unsigned, i signed, f IEEE float (16, 32, 64), bf bfloat16, fp8/bf8, b raw bits.

    A type of one bit is a truth value.
    """

    kind: Kind
    bits: int

    def __str__(self) -> str:
        return self.kind if self.kind in ("fp8", "bf8") else f"{self.kind}{self.bits}"

    @property
    def is_float(self) -> bool:
        return self.kind in ("f", "bf", "fp8", "bf8")


U1, U8, U16, U32, U64 = (Type("u", n) for n in (1, 8, 16, 32, 64))
I8, I16, I32, I64 = (Type("i", n) for n in (8, 16, 32, 64))
F16, F32, F64, BF16 = Type("f", 16), Type("f", 32), Type("f", 64), Type("bf", 16)
B1, B8, B16, B32, B64 = (Type("b", n) for n in (1, 8, 16, 32, 64))


# -- expressions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Const:
    """``value`` is the bit pattern."""

    type: Type
    value: int


@dataclass(frozen=True, slots=True)
class Operand:
    """The whole of an architectural operand, read as ``type``. See :data:`OPERANDS` for the names."""

    type: Type
    name: str


@dataclass(frozen=True, slots=True)
class Local:
    """A local scalar or the loop variable of a :class:`For`."""

    type: Type
    name: str


@dataclass(frozen=True, slots=True)
class Element:
    """``name[index]`` of a local array declared with a length."""

    type: Type
    name: str
    index: Expr


@dataclass(frozen=True, slots=True)
class Bits:
    """``type.bits`` bits of ``base`` from bit ``lo`` upwards (``lo`` may vary by lane)."""

    type: Type
    base: Expr
    lo: Expr


@dataclass(frozen=True, slots=True)
class LaneBit:
    """The bit of a 64-bit lane mask (``VCC``, ``EXEC``, ``D0``, ``S2``, ...) that belongs to ``lane``; type u1.

    ``lane`` is None for the executing lane itself, the common case.
    """

    name: str
    lane: Expr | None = None

    @property
    def type(self) -> Type:
        return U1


@dataclass(frozen=True, slots=True)
class Vgpr:
    """``VGPR[lane][reg]``: a register of another lane, 32 bits. ``reg`` is a VGPR number."""

    type: Type
    lane: Expr
    reg: Expr


@dataclass(frozen=True, slots=True)
class Sgpr:
    """``SGPR[reg]``: a scalar register by computed number, 32 bits."""

    type: Type
    reg: Expr


@dataclass(frozen=True, slots=True)
class HwReg:
    """``HW_REGISTERS[index]``, 32 bits."""

    type: Type
    index: Expr


@dataclass(frozen=True, slots=True)
class Mem:
    """``type.bits`` bits of memory at byte address ``addr``; which memory is a property of the instruction."""

    type: Type
    addr: Expr


@dataclass(frozen=True, slots=True)
class Unary:
    """``op``: ``neg`` (two's complement, or the sign bit of a float), ``not`` (bitwise), ``lnot`` (truth value)."""

    type: Type
    op: str
    x: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """Both sides have the same type unless it is a shift.

    ``op``: ``add sub mul div mod`` (by ``type``), ``and or xor`` (bits), ``shl shr`` (``shr`` is arithmetic on
    signed types; the count is an integer of any type), ``pow`` (only ``2 ** n``: a float scaled by a power of two),
    and the comparisons ``eq ne lt le gt ge`` and ``lg`` (ordered not-equal) of type u1, ``land lor`` on u1.
    """

    type: Type
    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True, slots=True)
class Select:
    type: Type
    cond: Expr
    a: Expr
    b: Expr


@dataclass(frozen=True, slots=True)
class Cast:
    """Conversion of the number: int to int extends by the source's sign, int to float and float to float round.

    Float to int truncates toward zero and saturates, NaN gives 0.
    """

    type: Type
    x: Expr


@dataclass(frozen=True, slots=True)
class Bitcast:
    """The same bits as another type; zero-extended or truncated when the width differs."""

    type: Type
    x: Expr


@dataclass(frozen=True, slots=True)
class Concat:
    """Bits of ``parts``, the first part most significant."""

    type: Type
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A builtin function (:mod:`mockgpu.pcode.builtins`) on values of the parts' types."""

    type: Type
    fn: str
    args: tuple[Expr, ...]


Expr: TypeAlias = (
    Const | Operand | Local | Element | Bits | LaneBit | Vgpr | Sgpr | HwReg | Mem
    | Unary | Binary | Select | Cast | Bitcast | Concat | Call
)  # fmt: skip

#: What can be assigned. A ``Bits`` target has an assignable base.
Target: TypeAlias = Operand | Local | Element | Bits | LaneBit | Vgpr | Sgpr | HwReg | Mem


# -- statements -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declare:
    """A local; ``length`` is None for a scalar. Starts as zero bits."""

    name: str
    type: Type
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    target: Target
    value: Expr
    source: str = ""


@dataclass(frozen=True, slots=True)
class If:
    """``arms`` are (condition, body) tried in order; ``orelse`` runs when none holds."""

    arms: tuple[tuple[Expr, tuple[Stmt, ...]], ...]
    orelse: tuple[Stmt, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class For:
    """``var`` runs from ``start`` to ``stop`` inclusive."""

    var: str
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class While:
    cond: Expr
    body: tuple[Stmt, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """A call for its effect alone (a barrier, a trap, sleep)."""

    call: Call
    source: str = ""


Stmt: TypeAlias = Declare | Assign | If | For | While | Effect


@dataclass(frozen=True, slots=True)
class Program:
    """The lowered pseudocode of one opcode. ``reads`` and ``writes`` are operand names (``MEM``, ``VGPR`` included).

    ``D0`` is in ``reads`` when its old value matters (part of it is kept, or the text reads it).
    """

    body: tuple[Stmt, ...]
    reads: frozenset[str]
    writes: frozenset[str]
    text: str
