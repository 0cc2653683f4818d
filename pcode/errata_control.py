"""Errata rows: program control for which the documents give prose only."""

from __future__ import annotations

from mockgpu.pcode.erratum import Erratum

CONTROL: tuple[Erratum, ...] = (
    Erratum(
        "subvector-loop-begin",
        ("rdna3",),
        r"S_SUBVECTOR_LOOP_BEGIN",
        "missing",
        "no pseudocode",
        "skips the loop without active lanes; otherwise a wave64 runs its low half first and keeps the mask of the high"
        " one in D0. A wave32 has one pass",
        "RDNA2 manual, S_SUBVECTOR_LOOP_BEGIN; the rule for a wave32 is assumed",
        text="if EXECZ.u1 then\nPC = PC + signext(SIMM16.i16 * 16'4) + 4LL\n"
        "elsif WAVE64 then\n"
        "if EXEC.u64[31 : 0] == 32'0U then\nD0.u32 = 0U\n"
        "else\nD0.u32 = EXEC.u64[63 : 32].u32;\nEXEC.u64 = 64'U(EXEC.u64[31 : 0].u32)\nendif;\n"
        "PC = PC + 4LL\n"
        "else\nPC = PC + 4LL\nendif",
    ),
    Erratum(
        "subvector-loop-end",
        ("rdna3",),
        r"S_SUBVECTOR_LOOP_END",
        "missing",
        "no pseudocode",
        "after the low half of a wave64 starts the high one, if it has active lanes, and then puts the mask of the low"
        " half back. A wave32 goes on",
        "RDNA2 manual, S_SUBVECTOR_LOOP_END; the rule for a wave32 is assumed",
        text="if WAVE64 then\n"
        "if EXEC.u64[63 : 32] != 32'0U then\nEXEC.u64 = {{ EXEC.u64[63 : 32].u32, D0.u32 }};\nPC = PC + 4LL\n"
        "elsif D0.u32 == 0U then\nPC = PC + 4LL\n"
        "else\ntmp = D0.u32;\nD0.u32 = EXEC.u64[31 : 0].u32;\nEXEC.u64 = {{ tmp, 32'0U }};\n"
        "PC = PC + signext(SIMM16.i16 * 16'4) + 4LL\nendif\n"
        "else\nPC = PC + 4LL\nendif",
    ),
)
