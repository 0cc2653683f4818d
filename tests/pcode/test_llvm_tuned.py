"""Forms of opcodes that do not follow their text, and idioms: the same bits as the oracle, and really used."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.llvm_lab import Case, Lab, host_features, is_scalar, programs

from mockgpu.pcode import ir
from mockgpu.pcode.llvm import tuned
from mockgpu.pcode.llvm.idioms import funnel_shift, largest
from mockgpu.pcode.lower import lower
from mockgpu.pcode.numeric import Denorm, Mode
from mockgpu.pcode.text import FAMILIES

MODES = (Mode(denorm_f32=Denorm.KEEP), Mode(denorm_f32=Denorm.FLUSH, denorm_f16_f64=Denorm.FLUSH, ieee=False))


def having_forms() -> dict[str, tuple[str, str, str]]:
    """One opcode for each form and program that it is used for."""
    found = {}
    for family in FAMILIES:
        for key, program in programs(family).items():
            if tuned.find(key, program) is not None:
                found[".".join(key)] = key
    return found


@pytest.mark.parametrize("portable", [False, True], ids=["host", "portable"])
@pytest.mark.parametrize("lanes", [32, 64])
def test_forms_give_what_the_oracle_gives(lanes: int, portable: bool) -> None:
    features = frozenset[str]() if portable else host_features()
    cases = [
        Case(key, lower(*key), lanes, mode)
        for key in having_forms().values()
        for mode in (MODES[:1] if is_scalar(key[1]) else MODES)
    ]
    lab = Lab(cases, features=features)
    assert not lab.refused
    wrong = [r for k in range(len(cases)) if (r := lab.check(k, 40, k)) is not None]
    assert not wrong, "\n\n".join(wrong[:5])


def test_every_form_is_used() -> None:
    names = {key[2].removesuffix("_E32").removesuffix("_E64") for key in having_forms().values()}
    assert names == set(tuned.FORMS)


def test_a_changed_program_keeps_to_its_text() -> None:
    key = ("rdna3", "VOP3Op", "V_PERM_B32")
    program = lower(*key)
    assert tuned.find(key, program) is not None
    assert tuned.find(key, replace(program, body=program.body[:-1])) is None


def test_a_shift_of_two_dwords_is_a_funnel_shift() -> None:
    program = lower("rdna3", "VOP3Op", "V_ALIGNBIT_B32")
    (assign,) = program.body
    assert isinstance(assign, ir.Assign) and isinstance(assign.value, ir.Bitcast)
    shifted = funnel_shift(assign.value)
    assert shifted is not None
    high, low, count = shifted
    assert (high, low) == (ir.Operand(ir.U32, "S0"), ir.Operand(ir.U32, "S1")) and largest(count) == 31
