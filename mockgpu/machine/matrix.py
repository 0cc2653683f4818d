"""Matrix multiply-accumulate instructions on register words: WMMA, SWMMAC, MFMA, SMFMAC and the block-scaled MFMA.

``execute`` knows nothing of waves, EXEC or register files: the caller reads the operands of whole waves (EXEC is
ignored by these instructions, so all lanes) and writes back what is returned. Registers are ``uint32`` arrays of shape
(registers, waves, lanes).

D = A x B + C for every one of the instruction's matrices. Products are exact;
:mod:`mockgpu.machine.matrix_accumulate` has the rule by which they are summed. Integer sums are exact and wrap (or
saturate with CLAMP) at the end; CLAMP does nothing to floats (RDNA3 manual).

Sources: the matrix chapters of the RDNA3, RDNA4, CDNA3 and CDNA4 ISA manuals.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mockgpu.machine import matrix_layout
from mockgpu.machine.matrix_accumulate import RULES, Rule, Terms, accumulate
from mockgpu.machine.matrix_elements import (
    Doubles,
    Words,
    float_format,
    from_numbers,
    gather,
    scatter,
    to_integers,
    to_numbers,
)
from mockgpu.machine.matrix_layout import Ints
from mockgpu.machine.matrix_ops import SCALE_BLOCK, Kind, MatrixError, MatrixOp, Operands, matrix_op, operands
from mockgpu.pcode.numeric_format import Bits, FloatFormat, flush, is_denormal
from mockgpu.pcode.numeric_mode import Mode


@dataclass(frozen=True, slots=True)
class Modifiers:
    """The modifier fields of an instruction word, raw.

    ``neg`` and ``neg_hi`` are bit masks over sources 0 to 2, ``opsel`` and ``opsel_hi`` likewise. The MFMA encoding has
    ``cbsz``, ``abid`` and ``blgp`` in their place.
    """

    cbsz: int = 0
    abid: int = 0
    blgp: int = 0
    neg: int = 0
    neg_hi: int = 0
    clamp: bool = False
    opsel: int = 0
    opsel_hi: int = 0


NO_MODIFIERS = Modifiers()
#: Waves whose sums are formed together: few enough that the numbers stay in the processor's cache.
_WAVES_AT_ONCE = 48


def modifiers_of(op: MatrixOp, fields: Mapping[str, int]) -> Modifiers:
    """The modifiers from decoded fields (names of the generated VOP3P, VOP3P_MFMA and VOP3PX2 layouts).

    The MFMA fields lie on those of VOP3P: CBSZ on NEG_HI, ABID on OPSEL and OPSEL_HI[2], BLGP on NEG.
    """
    opsel, opsel_hi = fields.get("opsel", 0), fields.get("opsel_hi", 0)
    if op.target.family != "cdna":
        return Modifiers(
            neg=fields.get("neg", 0),
            neg_hi=fields.get("neg_hi", 0),
            clamp=bool(fields.get("clmp", 0)),
            opsel=opsel,
            opsel_hi=opsel_hi,
        )
    cbsz = fields.get("cbsz", fields.get("neg_hi", 0))
    abid = fields.get("abid", opsel | fields.get("opsel_hi2", 0) << 3)
    return Modifiers(cbsz, abid, fields.get("blgp", fields.get("neg", 0)), opsel=opsel, opsel_hi=opsel_hi)


@dataclass(frozen=True, slots=True)
class RegisterCounts:
    """How many registers the operands take; ``index`` is 0 or 1."""

    a: int
    b: int
    cd: int
    index: int


def register_counts(arch: str, name: str, wave_size: int, modifiers: Modifiers = NO_MODIFIERS) -> RegisterCounts:
    """Registers of each operand. Raises MatrixError for whatever :func:`execute` refuses, operands apart."""
    op = matrix_op(arch, name)
    if op.kind is Kind.LOAD_SCALE:
        return RegisterCounts(0, 0, 0, 0)
    _check_broadcast(op, modifiers)
    places = operands(op, wave_size, *op.formats(modifiers.cbsz, modifiers.blgp))
    return RegisterCounts(places.a.registers, places.b.registers, places.cd.registers, int(op.sparse))


def scale_of_constant(bits: int) -> int:
    """The register value that acts like an inline float constant as a scale: its exponent in every byte."""
    return (bits >> 23 & 0xFF) * 0x01010101


def execute(
    name: str,
    arch: str,
    wave_size: int,
    a: Words,
    b: Words,
    c: Words,
    index: Words | None = None,
    scales: tuple[Words, Words] | None = None,
    modifiers: Modifiers = NO_MODIFIERS,
    mode: Mode | None = None,
    previous: Words | None = None,
) -> Words:
    """The destination registers, shape (registers, waves, lanes), of instruction ``name`` on target ``arch``.

    ``a``, ``b``, ``c``: source registers in order (at least as many as :func:`register_counts` says). For SWMMAC and
    SMFMAC ``c`` is the old content of the destination and ``index`` (waves, lanes) the register of source 2.
    ``scales``: the scale registers of A and B, each (waves, lanes). ``previous``: the old content of the destination,
    of which RDNA3 keeps one half of every register when C and D are 16 bits wide (absent: ``c``).
    ``V_MFMA_LD_SCALE_B32`` on its own only carries scales to the instruction after it and returns no registers.
    Raises MatrixError when the target lacks the instruction, or an operand or modifier does not fit it.
    """
    op = matrix_op(arch, name)
    waves = c.shape[1]
    if op.kind is Kind.LOAD_SCALE:
        return np.zeros((0, waves, wave_size), np.uint32)
    job = _Job(op, wave_size, modifiers, Mode() if mode is None else mode)
    job.check(a, b, c, index, scales)
    with np.errstate(all="ignore"):
        elements = job.integers(a, b, c, index) if op.integer else job.floats(a, b, c, index, scales)
    out = np.zeros((job.places.cd.registers, waves, wave_size), np.uint32)
    if job.keeps_half:
        out[:] = (c if previous is None else previous)[: out.shape[0]]
    lane, bit = job.cd_places()
    scatter(out, elements, lane, bit, job.places.cd.bits)
    return out


class _Job:
    """One execution: the instruction with its modifiers resolved."""

    def __init__(self, op: MatrixOp, wave_size: int, modifiers: Modifiers, mode: Mode) -> None:
        self.op = op
        self.wave_size = wave_size
        self.modifiers = modifiers
        self.mode = mode
        self.a_type, self.b_type = op.formats(modifiers.cbsz, modifiers.blgp)
        self.places = operands(op, wave_size, self.a_type, self.b_type)

    # -- operands -----------------------------------------------------------------------------------------------------

    @property
    def keeps_half(self) -> bool:
        """RDNA3 stores 16-bit C and D in one half of each register."""
        return self.op.target.family == "rdna3" and self.places.cd.bits == 16

    def check(self, a: Words, b: Words, c: Words, index: Words | None, scales: tuple[Words, Words] | None) -> None:
        """Raises MatrixError when the operands are not those of the instruction."""
        for what, given, needed in (("A", a, self.places.a), ("B", b, self.places.b), ("C", c, self.places.cd)):
            if given.ndim != 3 or given.shape[2] != self.wave_size or given.shape[0] < needed.registers:
                wanted = f"({needed.registers}, waves, {self.wave_size})"
                raise MatrixError(f"{self.op.name}: {what} has shape {given.shape}, {wanted} is needed")
        if self.op.sparse and index is None:
            raise MatrixError(f"{self.op.name}: the index register is missing")
        if self.op.scaled and scales is None:
            raise MatrixError(f"{self.op.name}: the scale registers are missing")
        _check_broadcast(self.op, self.modifiers)

    def a_places(self) -> tuple[Ints, Ints]:
        lane, bit = _places(self.op, self.wave_size, self.a_type, self.b_type, "a")
        if _broadcasts(self.op) and self.modifiers.cbsz:
            lane = matrix_layout.cbsz_lanes(self.modifiers.cbsz, self.modifiers.abid)[lane]
        return lane, bit

    def b_places(self) -> tuple[Ints, Ints]:
        lane, bit = _places(self.op, self.wave_size, self.a_type, self.b_type, "b")
        if _broadcasts(self.op) and self.modifiers.blgp:
            lane = matrix_layout.blgp_lanes(self.modifiers.blgp)[lane]
        return lane, bit

    def cd_places(self) -> tuple[Ints, Ints]:
        lane, bit = _places(self.op, self.wave_size, self.a_type, self.b_type, "cd")
        if self.keeps_half and self.modifiers.opsel & 4:
            bit = bit + 16
        return lane, bit

    def kept_k(self, index: Words) -> Ints:
        """K of every kept value of a sparse A, shape (waves, 1, rows, kept)."""
        where = self.places.index
        assert where is not None
        lane, bit = where.fields.places()
        fields = gather(index[None], lane, bit + self._index_set(where.sets) * where.set_bits, where.fields.bits)
        pair = np.stack([fields & np.uint32(3), fields >> np.uint32(2)], axis=-1).astype(np.intp)
        group = 4 * np.arange(fields.shape[-1], dtype=np.intp)[:, None]
        return (pair + group).reshape(*fields.shape[:-1], -1)

    def _index_set(self, sets: int) -> int:
        """RDNA4 selects by OPSEL; CDNA by ABID, but CBSZ other than 0 forces the first set."""
        if self.op.kind is Kind.SWMMAC:
            return self.modifiers.opsel % sets
        return 0 if self.modifiers.cbsz else self.modifiers.abid % sets

    def _pair_b(self, b: npt.NDArray[Any], index: Words | None) -> npt.NDArray[Any]:
        """B as (waves, blocks, 1 or rows, columns, stored K): for a sparse A the values that meet the kept ones."""
        if not self.op.sparse:
            return b[:, :, None]
        assert index is not None
        kept = self.kept_k(index)
        wave = np.arange(b.shape[0])[:, None, None, None, None]
        column = np.arange(b.shape[2])[None, None, None, :, None]
        return np.asarray(b[wave, 0, column, kept[:, :, :, None, :]])

    # -- integers -----------------------------------------------------------------------------------------------------

    def integers(self, a: Words, b: Words, c: Words, index: Words | None) -> Bits:
        """Elements of D, (waves, blocks, rows, columns). IU types: NEG[0] says that A is signed, NEG[1] that B is."""
        signs = (True, True) if self.a_type == "i8" else (bool(self.modifiers.neg & 1), bool(self.modifiers.neg & 2))
        left = to_integers(gather(a, *self.a_places(), self.places.a.bits), self.places.a.bits, signs[0])
        right = to_integers(gather(b, *self.b_places(), self.places.b.bits), self.places.b.bits, signs[1])
        start = to_integers(gather(c, *self.cd_places(), 32), 32, True)
        paired = self._pair_b(right, index).astype(np.int64)
        total = start + (left[:, :, :, None, :] * paired).sum(axis=-1)
        if self.modifiers.clamp:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return np.asarray(total).astype(np.uint32)

    # -- floats -------------------------------------------------------------------------------------------------------

    def floats(self, a: Words, b: Words, c: Words, index: Words | None, scales: tuple[Words, Words] | None) -> Bits:
        """Elements of D, (waves, blocks, rows, columns)."""
        op, rule = self.op, rule_of(self.op)
        fnuz = op.target.fnuz
        a_format, b_format = float_format(self.a_type, fnuz), float_format(self.b_type, fnuz)
        cd_format = float_format(op.cd, fnuz)
        left = self._factors(rule, 0, self.a_type, a_format, gather(a, *self.a_places(), self.places.a.bits))
        right = self._factors(rule, 1, self.b_type, b_format, gather(b, *self.b_places(), self.places.b.bits))
        if op.scaled and self.modifiers.abid & 1:
            assert scales is not None
            left = left * self._scale_factors(scales[0], 0, op.m)
            right = right * self._scale_factors(scales[1], 1, op.n)
        paired = self._pair_b(right, index).astype(np.float64)
        lowest, addend = (_min_exponent(a_format), _min_exponent(b_format)), self._addend(rule, cd_format, c)
        parts = [slice(n, n + _WAVES_AT_ONCE) for n in range(0, c.shape[1], _WAVES_AT_ONCE)]
        sums = [accumulate(rule, Terms(left[p, :, :, None, :], paired[p], *lowest), addend[p]) for p in parts]
        result = np.concatenate(sums)
        return from_numbers(cd_format, result, saturate=self.mode.fp16_ovfl and op.cd == "f16")

    def _factors(self, rule: Rule, source: int, kind: str, fmt: FloatFormat, bits: Bits) -> Doubles:
        bits = bits.astype(fmt.word)
        if rule.flush_inputs:
            bits = np.where(is_denormal(fmt, bits), fmt.word(0), bits)
        elif rule.mode_inputs and self.mode.f32.flush_in:
            bits = flush(fmt, bits)
        return to_numbers(kind, fmt, bits ^ self._sign_flips(source, kind, fmt))

    def _sign_flips(self, source: int, kind: str, fmt: FloatFormat) -> Bits:
        """Sign bits to invert along K: NEG for even and NEG_HI for odd K of 16-bit types, BLGP as NEG for f64."""
        if kind == "f64":
            return np.array((self._f64_negations >> source & 1) << 63, np.uint64)
        low, high = (bool(field >> source & 1) for field in (self.modifiers.neg, self.modifiers.neg_hi))
        if self.op.target.family == "cdna" or kind not in ("f16", "bf16") or not (low or high):
            return np.zeros((), fmt.word)
        kept = self.op.k // 2 if self.op.sparse and source == 0 else self.op.k
        odd = np.arange(kept) % 2 == 1
        return np.asarray(np.where(np.where(odd, high, low), fmt.word(fmt.sign), fmt.word(0)))

    @property
    def _f64_negations(self) -> int:
        """Bits 0 to 2: A, B, C of an f64 MFMA are negated. gfx90a has no such modifier."""
        return 0 if self.op.target.old_names else self.modifiers.blgp

    def _addend(self, rule: Rule, fmt: FloatFormat, c: Words) -> Doubles:
        bits = gather(c, *self.cd_places(), fmt.bits).astype(fmt.word)
        if rule.flush_c:
            bits = np.where(is_denormal(fmt, bits), fmt.word(0), bits)
        numbers = to_numbers(self.op.cd, fmt, bits)
        if self.op.cd == "f64":
            return -numbers if self._f64_negations & 4 else numbers
        if self.op.kind is not Kind.WMMA:
            return numbers
        if self.modifiers.neg_hi & 4:
            numbers = np.abs(numbers)
        return -numbers if self.modifiers.neg & 4 else numbers

    def _scale_factors(self, scale: Words, source: int, dim: int) -> Doubles:
        """2**(byte - 127) for every (row, K), NaN for byte 255; shape (waves, 1, dim, K)."""
        byte = (self.modifiers.opsel >> source & 1) | (self.modifiers.opsel_hi >> source & 1) << 1
        lanes = matrix_layout.scale_lanes(dim, self.op.k // SCALE_BLOCK)
        codes = (scale[:, lanes] >> np.uint32(8 * byte) & np.uint32(0xFF)).astype(np.int64)
        factors = np.where(codes == 255, np.nan, np.ldexp(1.0, codes - 127))
        return np.repeat(factors, SCALE_BLOCK, axis=-1)[:, None]


def _broadcasts(op: MatrixOp) -> bool:
    """Whether CBSZ, ABID and BLGP move lanes: dense MFMA, except those that use the fields otherwise."""
    return op.kind is Kind.MFMA and not op.f8f6f4 and op.cd != "f64"


def _check_broadcast(op: MatrixOp, modifiers: Modifiers) -> None:
    """Raises MatrixError for values that the manual calls undefined or illegal."""
    if not _broadcasts(op):
        return
    cbsz, abid = modifiers.cbsz, modifiers.abid
    if 1 << cbsz > op.blocks:
        raise MatrixError(f"{op.name}: CBSZ = {cbsz} is undefined for {op.blocks} block(s)")
    if abid >= 1 << cbsz:
        raise MatrixError(f"{op.name}: ABID = {abid} is illegal with CBSZ = {cbsz}")


@functools.cache
def _places(op: MatrixOp, wave_size: int, a_type: str, b_type: str, which: str) -> tuple[Ints, Ints]:
    found: Operands = operands(op, wave_size, a_type, b_type)
    chosen = {"a": found.a, "b": found.b, "cd": found.cd}[which]
    return chosen.places()


def rule_of(op: MatrixOp) -> Rule:
    """How the sums over K of a float matrix instruction are formed."""
    kind = "fp8" if op.f8f6f4 else op.a
    if op.name.endswith("_1K"):
        kind += "_1k"
    by_target = RULES.get((op.target.name, kind))
    return RULES[op.target.family, kind] if by_target is None else by_target


def _min_exponent(fmt: FloatFormat) -> int:
    return 1 - fmt.bias


__all__ = [
    "NO_MODIFIERS",
    "MatrixError",
    "Modifiers",
    "RegisterCounts",
    "execute",
    "modifiers_of",
    "register_counts",
    "scale_of_constant",
]
