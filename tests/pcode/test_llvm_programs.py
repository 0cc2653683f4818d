"""Every program that has a native form gives what the oracle gives, to the bit."""

from __future__ import annotations

import functools
import zlib
from collections import Counter

import pytest
from support.llvm_lab import Case, Lab, batches, is_scalar, programs

from mockgpu.pcode import ir
from mockgpu.pcode.numeric import Denorm, Mode
from mockgpu.pcode.oracle_expr import walk
from mockgpu.pcode.text import FAMILIES

#: Each family is checked in so many parts, which may run beside each other.
PARTS = 4
KEEP = Mode(denorm_f32=Denorm.KEEP)
MODES = (
    Mode(denorm_f32=Denorm.FLUSH, denorm_f16_f64=Denorm.FLUSH),
    Mode(denorm_f32=Denorm.FLUSH, ieee=False),
    Mode(denorm_f32=Denorm.FLUSH_IN, denorm_f16_f64=Denorm.FLUSH_OUT, dx10_clamp=False),
    Mode(denorm_f32=Denorm.FLUSH_OUT, denorm_f16_f64=Denorm.FLUSH_IN, fp8_fnuz=True),
    Mode(denorm_f32=Denorm.KEEP, ieee=False, fp16_ovfl=True),
)


@functools.cache
def cases(family: str) -> list[Case]:
    """The programs of a family that no family before it has; half of those on floats with two MODEs."""
    out = []
    seen = {(is_scalar(k[1]), p) for f in FAMILIES[: FAMILIES.index(family)] for k, p in programs(f).items()}
    for key, program in programs(family).items():
        if (is_scalar(key[1]), program) in seen:
            continue
        number = zlib.crc32(".".join(key).encode())
        lanes = 64 if number % 5 == 0 else 32
        floats = any(isinstance(x, (ir.Binary, ir.Call, ir.Cast)) and x.type.is_float for x in walk(program.body))
        if not floats or number % 2:
            out.append(Case(key, program, lanes, KEEP))
        if floats:
            out.append(Case(key, program, 32, MODES[number % len(MODES)]))
    return out


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("family", FAMILIES)
def test_native_programs_give_what_the_oracle_gives(family: str, part: int) -> None:
    wrong, refused = [], Counter[str]()
    mine = cases(family)[part::PARTS]
    for batch in batches(mine, 60):
        lab = Lab(batch)
        refused.update(lab.refused.values())
        wrong += [r for k in range(len(batch)) if k not in lab.refused and (r := lab.check(k, 8, k)) is not None]
    assert not wrong, "\n\n".join(wrong[:5])
    plain = Counter({reason: n for reason, n in refused.items() if not reason.endswith(("_scale", "_sr"))})
    assert plain.total() < 0.05 * len(mine) + 3, plain.most_common(20)
