"""Where the meaning of an instruction comes from: what the engine would execute, found by asking its own builders.

Nothing is listed here. :func:`explain` builds the step that execution would build, watches which pseudocode the builder
asks for, and executes the instruction once on a small prepared machine. A step that needs no pseudocode is a rule
written by hand, named by the function that runs.
"""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import dataclass
from typing import Literal

from mockgpu.isa.arch import Arch
from mockgpu.isa.disasm_image import has_sampler
from mockgpu.isa.errors import NoSemanticsError
from mockgpu.isa.instruction import Instruction
from mockgpu.machine import image_sample
from mockgpu.machine.errors import GuestFault, IllegalInstruction, Trap
from mockgpu.machine.execute import Run, build_step
from mockgpu.machine.matrix import rule_of
from mockgpu.machine.matrix_ops import Kind, is_matrix_name, matrix_op
from mockgpu.machine.semantics import watching_programs
from mockgpu.machine.single import SingleStep
from mockgpu.pcode.accuracy import bounds_of

Source = Literal["pcode", "written", "approximate", "unsupported"]
_SECTION = re.compile(r"Sources?: (.*?)(?:\n\n|\Z)", re.DOTALL)
_ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Provenance:
    """How an instruction is executed.

    ``kind``: *pcode*, by the manual's pseudocode; *written*, by a rule of ours; *approximate*, by either, but hardware
    may differ within ``bound``; *unsupported*, it raises IllegalInstruction with ``reason``.
    ``rule`` is the function of a rule of ours, empty for pseudocode; ``section`` its source in the manuals. A rule that
    always stops the kernel has the message of its trap as ``reason``.
    """

    kind: Source
    rule: str = ""
    section: str = ""
    bound: str = ""
    reason: str = ""


def explain(instruction: Instruction, wave_size: int | None = None) -> Provenance:
    """What executes an instruction in a wave of ``wave_size`` lanes, by default the narrowest of the target."""
    size = wave_size or instruction.arch.wave_sizes[0]
    stops = ""
    try:
        with watching_programs() as programs:
            step = build_step(instruction, size)
        _machine(instruction.arch, size).run(instruction)
    except NoSemanticsError as e:
        return Provenance("unsupported", reason=e.reason)
    except IllegalInstruction as e:
        return Provenance("unsupported", reason=_reason(instruction, e))
    except LookupError as e:  # what the engine turns into an illegal instruction too
        return Provenance("unsupported", reason=str(e))
    except Trap as e:
        stops = _reason(instruction, e)
    except GuestFault:  # it executes; only its addresses lead nowhere
        pass
    bounds = list(dict.fromkeys(bound for program in programs for bound in bounds_of(program)))
    if programs:
        return Provenance("approximate", bound=", ".join(bounds)) if bounds else Provenance("pcode")
    rule, section = _rule(step.run)
    bound = image_sample.BOUND if has_sampler(instruction.mnemonic) else _summation(instruction)
    return Provenance("approximate" if bound else "written", rule, section, bound, stops)


@functools.cache
def _machine(arch: Arch, wave_size: int) -> SingleStep:
    return SingleStep(arch, wave_size)


def _reason(instruction: Instruction, fault: GuestFault) -> str:
    return fault.message.removeprefix("illegal instruction: ").removeprefix(f"{instruction.mnemonic}: ")


def _rule(run: Run) -> tuple[str, str]:
    """(module and outermost function, manual section) of a step written by hand."""
    module = inspect.getmodule(run)
    name = run.__qualname__.split(".")[0]
    found = _SECTION.search((module.__doc__ or "") if module is not None else "")
    section = " ".join(found.group(1).split()).rstrip(".") if found else ""
    return f"{run.__module__.rsplit('.', 1)[-1]}.{name}", section


def _summation(instruction: Instruction) -> str:
    """What is not known about the sums of a float matrix instruction; empty where the rule was published."""
    if not is_matrix_name(instruction.opcode.name):
        return ""
    op = matrix_op(instruction.arch.name, instruction.opcode.name)
    if op.integer or op.kind is Kind.LOAD_SCALE:
        return ""
    evidence = rule_of(op).evidence
    return f"rounding of inexact sums is {evidence}; exact sums are exact" if evidence.startswith(_ASSUMED) else ""
