"""The page of one instruction."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from mockgpu.cli import app
from mockgpu.instruction_page import indented, page, present
from mockgpu.instruction_show import lines
from mockgpu.isa.arch import get_arch


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["isa", "show", *arguments])


def text_of(name: str, arch: str) -> str:
    return "\n".join(text for text, _ in lines(page(name, get_arch(arch))))


def test_the_page_tells_everything_about_an_instruction() -> None:
    result = invoke("v_div_fmas_f32", "--arch", "gfx1100")
    assert result.exit_code == 0 and "\x1b" not in result.stdout
    for part in (
        "VOP3Op 567: v_div_fmas_f32 v0, v1, v2, v3",
        "bytes    00 00 37 d6 01 05 0e 04",
        "op[25:16]=0x237",
        "operand  src2  32 bits, f32, read",
        "also reads VCC, EXEC",
        "executed by the pseudocode",
        "      D0.f32 = fma_ldexp(S0.f32, S1.f32, S2.f32,",
        "Pseudocode in the manual",
        "Erratum div-fmas-f32 (correction)",
        "VCC = lanes 0-3: 1 0 1 0",
    ):
        assert part in result.stdout


def test_every_encoding_of_an_instruction_is_shown() -> None:
    found = page("v_add_f32", get_arch("gfx1100"))
    names = [layout.name for form in found.forms for layout in form.layouts]
    assert names == [f"{base}{end}" for base in ("VOP2", "VOP3") for end in ("", "_LIT", "_DPP16", "_DPP8")]
    assert [form.table for form in page("v_add_f32_e64", get_arch("gfx942")).forms] == ["VOP2Op", "VOP3Op"]
    assert "VOP2_SDWA" in text_of("v_add_f32", "gfx942")


def values(name: str, arch: str) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    example = page(name, get_arch(arch)).example
    assert example is not None
    before = {v.register: v.values for v in example.before}
    return before, {v.register: v.values for v in example.after}


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201", "gfx950"])
def test_examples_are_computed(arch: str) -> None:
    before, after = values("v_add_f32", arch)
    sums = [float(a) + float(b) for a, b in zip(before["v1"], before["v2"], strict=True)]
    assert [float(x) for x in after["v0"]] == sums
    before, after = values("v_cmp_lt_f32", arch)
    less = [int(float(a) < float(b)) for a, b in zip(before["v0"], before["v1"], strict=True)]
    assert after["VCC"] == (f"lanes 0-3: {' '.join(map(str, less))}",)
    before, after = values("v_fma_f64", arch)
    a, b, c = (float(before[r][0]) for r in ("v[2:3]", "v[4:5]", "v[6:7]"))
    assert float(after["v[0:1]"][0]) == a * b + c


def test_scalar_examples_show_the_carry() -> None:
    before, after = values("s_sub_i32", "gfx942")
    assert int(after["s0"][0]) == int(before["s1"][0]) - int(before["s2"][0]) and after["SCC"] == ("0",)


def test_accumulated_and_packed_values_are_shown() -> None:
    before, after = values("v_dual_fmac_f32", "gfx1100")
    assert float(after["v0"][0]) == float(before["v2"][0]) * float(before["v4"][0]) + float(before["v0"][0])
    before, after = values("v_pk_add_u16", "gfx1100")
    assert (before["v1"][0], before["v2"][0], after["v0"][0]) == ("(5, 12)", "(12, 3)", "(17, 15)")


def test_what_is_not_executed_says_why() -> None:
    assert "executed not at all: " in text_of("image_get_lod", "gfx1100")
    assert page("image_get_lod", get_arch("gfx1100")).example is None
    assert "executed by control." in text_of("s_barrier", "gfx1100")
    assert "approximately: rcp: 1 ulp" in text_of("v_rcp_f32", "gfx1100")


def test_every_instruction_has_a_page() -> None:
    arch = get_arch("gfx1100")
    for name in sorted({opcode.mnemonic for opcode in present(arch)})[::3]:
        found = page(name, arch)
        assert list(lines(found))
        json.dumps(found.data())


def test_json_is_the_same_page() -> None:
    facts = json.loads(invoke("s_add_u32", "--arch", "gfx942", "--json").stdout)
    assert facts["mnemonic"] == "s_add_u32" and facts["forms"][0]["writes"] == ["SCC"]
    assert facts["pcode"].startswith("tmp = 64'U(S0.u32)")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v_ad_f32", "there is no instruction v_ad_f32 on gfx1100; did you mean v_add_f32?"),
        ("v_mfma_f32_32x32x2_f32", "gfx942, gfx950 have."),
    ],
)
def test_unknown_names_get_a_suggestion(name: str, message: str) -> None:
    result = invoke(name)
    assert result.exit_code == 2 and message in result.output


def test_pseudocode_is_nested_by_its_keywords() -> None:
    text = "for i in 0 : 3 do\nif a then // then\nb = 1;\nelse\nb = 2\nendif\nendfor"
    assert indented(text).splitlines() == [
        "for i in 0 : 3 do",
        "    if a then // then",
        "        b = 1;",
        "    else",
        "        b = 2",
        "    endif",
        "endfor",
    ]
