"""The report: lower bounds for what parses and what lowers, and a reason for everything else."""

from __future__ import annotations

import pytest

from mockgpu.pcode.report import main, report

FAMILIES = ("rdna3", "rdna4", "cdna")


@pytest.mark.parametrize(("family", "percent"), [("rdna3", 98.4), ("rdna4", 98.0), ("cdna", 95.2)])
def test_nearly_all_texts_parse(family: str, percent: float) -> None:
    result = report(family)
    assert 100 * result.parsed / result.total >= percent


@pytest.mark.parametrize(("family", "percent"), [("rdna3", 95.8), ("rdna4", 94.9), ("cdna", 92.7)])
def test_nearly_all_texts_lower(family: str, percent: float) -> None:
    result = report(family)
    assert 100 * result.lowered / result.total >= percent


@pytest.mark.parametrize("family", FAMILIES)
def test_everything_else_has_a_known_reason(family: str) -> None:
    result = report(family)
    assert "not pseudocode" not in result.unparsed
    assert all(result.unparsed) and all(result.unlowered)


@pytest.mark.parametrize("family", FAMILIES)
def test_computation_lowers_but_for_matrices(family: str) -> None:
    """What the engine does by itself is matrices, program control, formats, the image unit and special LDS uses."""
    result = report(family)
    without = {name for names in (*result.unparsed.values(), *result.unlowered.values()) for name in names}
    vector = [n for n in without if n.startswith(("VOP", "SOP1", "SOP2", "SOPC", "SMEM", "GLOBAL", "VGLOBAL", "FLAT"))]
    matrices = ("V_WMMA", "V_SWMMAC", "V_MFMA", "V_SMFMAC")
    rest = [n for n in vector if not n.split(".")[1].startswith((*matrices, "S_BARRIER", "S_GET_BARRIER", "S_ALLOC"))]
    assert rest == []


def test_the_report_prints_counts_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    printed = capsys.readouterr().out
    assert "rdna3: 1370 of 1392 texts parse (98.42%)" in printed
    assert "matrix product stated as a formula" in printed
