"""The matrix instructions as data: everything that their names and targets say.

A name such as ``V_SMFMAC_F32_16X16X64_BF8_FP8`` gives the kind, the type of C and D, the shape MxNxK, the number of
matrices (``_4B``) and the types of A and B. gfx908 and gfx90a use older names (``V_MFMA_F32_32X32X4BF16_1K``).
Source: the opcode tables of the CDNA3, CDNA4, RDNA3 and RDNA4 ISA manuals.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from enum import Enum

from mockgpu.isa.errors import MockGPUError
from mockgpu.machine import matrix_layout as layout
from mockgpu.machine.matrix_layout import IndexLayout, Layout


class MatrixError(MockGPUError):
    """A matrix instruction that the target does not have, or operands and modifiers that it does not take."""


class Kind(Enum):
    """The families of matrix instructions."""

    WMMA = "WMMA"
    SWMMAC = "SWMMAC"
    MFMA = "MFMA"
    SMFMAC = "SMFMAC"
    LOAD_SCALE = "LD_SCALE"


#: Width in bits of an element of each type.
WIDTHS = {
    "f64": 64, "f32": 32, "xf32": 32, "i32": 32, "f16": 16, "bf16": 16, "fp8": 8, "bf8": 8, "i8": 8, "iu8": 8,
    "fp6": 6, "bf6": 6, "fp4": 4, "iu4": 4,
}  # fmt: skip

#: Types that the CBSZ (A) and BLGP (B) fields of an F8F6F4 instruction name.
F8F6F4_FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")

#: K values that share one scale.
SCALE_BLOCK = 32


@dataclass(frozen=True, slots=True)
class Target:
    """What matrix instructions depend on in a target. ``fnuz``: 8-bit floats are the FNUZ kind."""

    name: str
    family: str
    fnuz: bool = False
    xf32: bool = False
    wide_k: bool = False  # 128 bits of A per lane, F8F6F4 and scales
    old_names: bool = False  # of gfx908 and gfx90a


_TARGETS = {
    target.name: target
    for target in (
        Target("gfx908", "cdna", old_names=True),
        Target("gfx90a", "cdna", old_names=True),
        Target("gfx942", "cdna", fnuz=True, xf32=True),
        Target("gfx950", "cdna", wide_k=True),
        *(Target(name, "rdna3") for name in ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151")),
        *(Target(name, "rdna4") for name in ("gfx1200", "gfx1201")),
    )
}


def get_target(arch: str) -> Target:
    """The matrix properties of a target such as ``gfx942``. Raises MatrixError, which lists the good names."""
    try:
        return _TARGETS[arch]
    except KeyError:
        raise MatrixError(f"no matrix instructions are known for {arch!r}; known: {', '.join(_TARGETS)}") from None


@dataclass(frozen=True, slots=True)
class MatrixOp:
    """One matrix instruction of one target. ``a``, ``b``, ``cd`` are element types; ``k`` counts the K of B.

    ``a`` and ``b`` are ``f8f6f4`` where CBSZ and BLGP name the formats. All of them ignore EXEC: every lane is read and
    written (ISA manuals).
    """

    target: Target
    name: str
    kind: Kind
    m: int = 0
    n: int = 0
    k: int = 0
    blocks: int = 1
    a: str = ""
    b: str = ""
    cd: str = ""
    scaled: bool = False

    @property
    def sparse(self) -> bool:
        """Whether A keeps two of four values of K, told by an index."""
        return self.kind in (Kind.SWMMAC, Kind.SMFMAC)

    @property
    def f8f6f4(self) -> bool:
        return self.a == "f8f6f4"

    @property
    def integer(self) -> bool:
        return self.cd == "i32"

    @property
    def accumulates_in_place(self) -> bool:
        """Whether C is the destination register range (``src2`` then holds the index)."""
        return self.sparse

    def formats(self, cbsz: int = 0, blgp: int = 0) -> tuple[str, str]:
        """The types of A and B. Raises MatrixError for an F8F6F4 format code that does not exist."""
        if not self.f8f6f4:
            return self.a, self.b
        for field, code in (("CBSZ", cbsz), ("BLGP", blgp)):
            if code >= len(F8F6F4_FORMATS):
                raise MatrixError(
                    f"{self.name}: {field} = {code} names no format; 0 to 4 are {', '.join(F8F6F4_FORMATS)}"
                )
        return F8F6F4_FORMATS[cbsz], F8F6F4_FORMATS[blgp]


@dataclass(frozen=True, slots=True)
class Operands:
    """The layouts of an instruction's operands for one wave size."""

    a: Layout
    b: Layout
    cd: Layout
    index: IndexLayout | None


@functools.cache
def operands(op: MatrixOp, wave_size: int, a_type: str, b_type: str) -> Operands:
    """Layouts of A, B and C/D. Raises MatrixError for a wave size that the target does not have."""
    if wave_size != 64 and (op.target.family == "cdna" or wave_size != 32):
        raise MatrixError(f"{op.name} on {op.target.name}: no wave of {wave_size} lanes")
    kept = op.k // 2 if op.sparse else op.k
    a_bits, b_bits, cd_bits = WIDTHS[a_type], WIDTHS[b_type], WIDTHS[op.cd]
    if op.target.family == "cdna":
        a = layout.cdna_input(op.m, kept, op.blocks, a_bits)
        b = layout.cdna_input(op.n, op.k, op.blocks, b_bits)
        cd = layout.cdna_output(op.m, op.n, op.blocks, cd_bits)
    elif op.target.family == "rdna3":
        a, b = layout.rdna3_input(op.m, kept, a_bits), layout.rdna3_input(op.n, op.k, b_bits)
        cd = layout.rdna3_output(op.m, op.n, cd_bits, wave_size)
    else:
        a = layout.rdna4_input(op.m, kept, a_bits, wave_size)
        b = layout.rdna4_input(op.n, op.k, b_bits, wave_size, beside_sparse=op.sparse)
        cd = layout.rdna4_output(op.m, op.n, cd_bits, wave_size)
    return Operands(a, b, cd, layout.index_layout(a) if op.sparse else None)


# -- names ------------------------------------------------------------------------------------------------------------

_SHAPE = r"(?P<m>\d+)X(?P<n>\d+)X(?P<k>\d+)"
_NAME = re.compile(
    rf"V_(?P<kind>WMMA|SWMMAC|MFMA|SMFMAC)_(?P<scale>SCALE_)?(?P<cd>[A-Z]+\d+)_{_SHAPE}"
    r"(?:_(?P<blocks>\d+)B)?_(?P<a>F8F6F4|[A-Z]+\d+)(?:_(?P<b>[A-Z]+\d+))?"
)
_OLD_NAME = re.compile(rf"V_MFMA_(?P<cd>[A-Z]\d+)_{_SHAPE}(?P<a>BF16|F16|F32|F64|I8)(?P<one_k>_1K)?")

#: Values of A in one lane, for the old names, which do not say the number of matrices.
_OLD_RUN = {"F32": 1, "F64": 1, "F16": 4, "I8": 4, "BF16": 2}

_KINDS_OF = {"cdna": (Kind.MFMA, Kind.SMFMAC), "rdna3": (Kind.WMMA,), "rdna4": (Kind.WMMA, Kind.SWMMAC)}


@functools.cache
def matrix_op(arch: str, name: str) -> MatrixOp:
    """The instruction ``name`` (enum member or mnemonic) of target ``arch``. Raises MatrixError if there is none."""
    target = get_target(arch)
    found = _parse(target, name.upper())
    if found is None or not _has(target, found):
        raise MatrixError(f"{arch} has no matrix instruction {name}")
    return found


def is_matrix_name(name: str) -> bool:
    """Whether an opcode name is that of a matrix instruction (of any target)."""
    upper = name.upper()
    return upper == _LOAD_SCALE or _NAME.fullmatch(upper) is not None or _OLD_NAME.fullmatch(upper) is not None


_LOAD_SCALE = "V_MFMA_LD_SCALE_B32"


def _parse(target: Target, name: str) -> MatrixOp | None:
    if name == _LOAD_SCALE:
        return MatrixOp(target, name, Kind.LOAD_SCALE)
    if target.old_names:
        return _parse_old(target, _old_name(name))
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    part = match.groupdict()
    a = part["a"].lower()
    b = (part["b"] or part["a"]).lower()
    if any(kind not in WIDTHS and kind != "f8f6f4" for kind in (a, b, part["cd"].lower())):
        return None
    m, n, k = int(part["m"]), int(part["n"]), int(part["k"])
    kind = Kind(part["kind"])
    return MatrixOp(
        target,
        name,
        kind,
        m,
        n,
        k,
        int(part["blocks"] or 1),
        a,
        b,
        part["cd"].lower(),
        scaled=part["scale"] is not None,
    )


def _old_name(name: str) -> str:
    """A name of later targets as the older ones have it: ``32X32X4_2B_F16`` was ``32X32X4F16``."""
    match = _NAME.fullmatch(name)
    if match is None or match["scale"] or match["b"] or match["kind"] != "MFMA":
        return name
    return f"V_MFMA_{match['cd']}_{match['m']}X{match['n']}X{match['k']}{match['a']}"


def _parse_old(target: Target, name: str) -> MatrixOp | None:
    match = _OLD_NAME.fullmatch(name)
    if match is None:
        return None
    part = match.groupdict()
    m, n, k = int(part["m"]), int(part["n"]), int(part["k"])
    run = 4 if part["one_k"] else _OLD_RUN[part["a"]]
    a = part["a"].lower()
    return MatrixOp(target, name, Kind.MFMA, m, n, k, max(1, 64 * run // (m * k)), a, a, part["cd"].lower())


def _has(target: Target, op: MatrixOp) -> bool:
    """Which instructions of the common table the target has: the ones with 128 bits of A per lane are gfx950's."""
    if op.kind is Kind.LOAD_SCALE:
        return target.wide_k
    if op.kind not in _KINDS_OF[target.family]:
        return False
    if target.family != "cdna":
        return True
    if op.a == "xf32":
        return target.xf32
    if op.f8f6f4:
        return target.wide_k
    kept = op.k // 2 if op.sparse else op.k
    return target.wide_k or op.m * kept * op.blocks * WIDTHS[op.a] // 64 <= 64


_TABLES = {"rdna3": ("VOP3POp",), "rdna4": ("VOP3POp",), "cdna": ("VOP3POp", "VOP3PX2Op")}


@functools.cache
def table_names(family: str) -> tuple[str, ...]:
    """Names of all matrix instructions in the generated opcode tables of a family (rdna3, rdna4, cdna)."""
    import importlib

    tables = importlib.import_module(f"tinygrad.runtime.autogen.amd.{family}.enum")
    members = (name for table in _TABLES[family] for name in getattr(tables, table).__members__)
    return tuple(name for name in members if is_matrix_name(name))
