"""The coverage report: complete, true, and the same as the page in docs."""

from __future__ import annotations

import functools
import json
from enum import Enum
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mockgpu.cli import app
from mockgpu.coverage import KINDS, Coverage, coverage, coverages
from mockgpu.coverage_show import markdown
from mockgpu.isa.arch import arch_names, get_arch
from mockgpu.isa.canonical import canonical, table_opcodes
from mockgpu.isa.encode import encode
from mockgpu.isa.encoding import table_module
from mockgpu.machine.errors import IllegalInstruction, PageFault, Trap
from mockgpu.machine.single import SingleStep

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
#: The tables list these among the flat ones too, where no field can hold their address: it is zero.
ADDTID = tuple(f"GLOBAL_{what}_ADDTID_B32" for what in ("LOAD", "STORE", "LOAD_LDS"))
PREFIX = "V_MFMA_LD_SCALE_B32"  # the first half of another instruction


def table_size(family: str) -> int:
    """Number of opcodes in the generated enums of a family."""
    enums = vars(table_module(family, "enum"))
    return sum(
        len(cls)
        for name, cls in enums.items()
        if name.endswith("Op") and isinstance(cls, type) and issubclass(cls, Enum)
    )


def kind_of(result: Coverage, name: str) -> str:
    return next(e.provenance.kind for e in result.entries if e.name == name)


@pytest.mark.parametrize("name", arch_names())
def test_every_opcode_of_the_tables_is_counted_once(name: str) -> None:
    result = coverage(name)
    assert len(result.entries) + result.lacking == table_size(result.tables)
    assert len({(e.table, e.name) for e in result.entries}) == len(result.entries)
    counts = result.counts()
    assert counts["opcodes"] == sum(counts[kind] for kind in KINDS) == counts["decoded"]
    assert all(sum(result.counts(form)[kind] for form in result.formats) == counts[kind] for kind in KINDS)


@pytest.mark.parametrize("name", arch_names())
def test_the_plain_instruction_of_every_opcode_decodes_to_it(name: str) -> None:
    arch = get_arch(name)
    for opcode in table_opcodes(arch):
        if not arch.has_opcode(opcode.name) or opcode.name == PREFIX:
            continue
        instruction = canonical(arch, opcode)
        halves = {instruction.opcode.name, instruction.opcode_y.name if instruction.opcode_y else ""}
        assert opcode.name in halves
        assert encode(instruction) == instruction.raw.to_bytes(instruction.size, "little")


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201", "gfx942", "gfx950"])
def test_what_is_called_supported_executes_and_what_is_not_raises(name: str) -> None:
    arch = get_arch(name)
    machine = SingleStep(arch)
    opcodes = {(o.table, o.name): o for o in table_opcodes(arch)}
    for entry in coverage(name).entries:
        instruction = canonical(arch, opcodes[entry.table, entry.name])
        run = functools.partial(machine.run, instruction)
        if entry.provenance.kind == "unsupported":
            assert entry.provenance.reason
            with pytest.raises(IllegalInstruction):
                run()
        elif entry.provenance.reason:
            with pytest.raises(Trap):
                run()
        elif entry.name in ADDTID and entry.format in ("FLAT", "VFLAT"):
            with pytest.raises(PageFault):
                run()
        else:
            run()


def test_sources_are_told_apart() -> None:
    result = coverage("gfx1100")
    assert kind_of(result, "V_ADD_F32_E32") == "pcode"
    assert kind_of(result, "S_BARRIER") == "written"
    assert kind_of(result, "V_RCP_F32_E64") == "approximate"
    assert kind_of(result, "IMAGE_SAMPLE") == "approximate"
    assert kind_of(result, "IMAGE_GET_LOD") == "unsupported"
    rcp = next(e for e in result.entries if e.name == "V_RCP_F32_E32").provenance
    assert rcp.bound == "rcp: 1 ulp" and not rcp.rule
    barrier = next(e for e in result.entries if e.name == "S_BARRIER").provenance
    assert barrier.rule and "manual" in barrier.section


def test_sums_that_nobody_has_measured_are_approximate() -> None:
    """The rounding of gfx942's matrix sums was published, that of gfx950's was not."""
    assert kind_of(coverage("gfx942"), "V_MFMA_F32_32X32X8_F16") == "written"
    assert kind_of(coverage("gfx950"), "V_MFMA_F32_32X32X8_F16") == "approximate"
    assert kind_of(coverage("gfx950"), "V_MFMA_I32_32X32X16_I8") == "written"


def test_the_page_is_what_the_command_prints() -> None:
    assert PAGE.read_text() == markdown(coverages()), "run: mockgpu isa coverage --markdown > docs/coverage.md"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["isa", "coverage", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_has_every_opcode() -> None:
    (facts,) = json.loads(run("--arch", "gfx942", "--json"))
    assert facts["arch"] == "gfx942" and facts["opcodes"] == len(facts["instructions"])
    assert facts["formats"]["VOPC"]["unsupported"] == 0
    add = next(e for e in facts["instructions"] if e["name"] == "V_ADD_F32_E32")
    assert add["mnemonic"] == "v_add_f32" and add["provenance"]["kind"] == "pcode"


def test_the_table_is_readable() -> None:
    text = run("--arch", "gfx1201")
    assert "gfx1201: " in text and "of 1563 opcodes are executed" in text
    for word in ("VOP3", "approximate", "rcp: 1 ulp (", "Unsupported", "v_rcp_f32"):
        assert word in text
    assert "\x1b" not in text


def test_an_unknown_target_is_refused_with_the_good_names() -> None:
    result = CliRunner().invoke(app, ["isa", "coverage", "--arch", "gfx9"])
    assert result.exit_code == 2 and "gfx1100, " in result.output
