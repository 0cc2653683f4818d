"""Errata rows: where single targets differ from their family."""

from __future__ import annotations

from mockgpu.pcode.erratum import ENCODING, Erratum

_HALVES = [(source, half) for source in ("S0", "S1") for half in ("15 : 0", "31 : 16")]

TARGETS: tuple[Erratum, ...] = (
    Erratum(
        "dot2-flush",
        ("cdna",),
        rf"V_DOT2C?_F32_F16{ENCODING}",
        "correction",
        "converts the f16 factors as they are",
        "gfx90a takes subnormal f16 factors as zero in every mode; gfx950 never does",
        "measured on gfx90a and gfx950, llvm-project issue 205101; vectors gfx90a_dot2*",
        edits=tuple(
            (f"f16_to_f32({s}[{h}].f16)", f"f16_to_f32(isDENORM({s}[{h}].f16) ? 16'F(0x0) : {s}[{h}].f16)")
            for s, h in _HALVES
        ),
        targets=("gfx90a",),
    ),
)
