"""``mockgpu isa show --host``: the host code of an instruction."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from mockgpu.cli import app
from mockgpu.machine.native import host
from mockgpu.machine.native.compile import compile_ir
from mockgpu.machine.native.host_code import listing
from mockgpu.machine.native.link import link


def show(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["isa", "show", "--host", *arguments])


def forms(*arguments: str) -> list[dict[str, Any]]:
    result = show(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("level", "fused"),
    [("x86-64-v2", None), ("x86-64-v3", "vfmadd"), ("x86-64-v4", "vfmadd"), ("aarch64", "fmla")],
)
def test_a_fused_multiply_add(level: str, fused: str | None) -> None:
    (form,) = forms("v_fma_f32", "--level", level)
    texts = [text for _, _, text, _ in form["lines"]]
    assert form["target"] == level and form["reason"] == "" and "|V_FMA_F32|" in form["key"]
    assert any(text.startswith(fused or "vfmadd") for text in texts) == (fused is not None)
    assert sum(len(code) // 2 for _, code, _, _ in form["lines"]) == form["size"]
    assert [offset for offset, _, _, _ in form["lines"]] == sorted({offset for offset, _, _, _ in form["lines"]})


def test_every_encoding_is_shown() -> None:
    result = show("v_add_f32")
    assert result.exit_code == 0 and "v_add_f32_e32 v0, v1, v2    (gfx1100|32|VOP2|" in result.stdout
    assert "v_add_f32_e64" in result.stdout and "bytes for native" in result.stdout


def test_waves_of_64_lanes_and_other_targets() -> None:
    assert forms("v_add_f32", "--wave64")[0]["key"].startswith("gfx1100|64|")
    assert forms("v_add_f32", "--arch", "gfx942")[0]["key"].startswith("gfx942|64|")


def test_what_has_no_native_form_says_why() -> None:
    shown = show("s_sethalt")
    assert shown.exit_code == 0 and "no native form: " in shown.stdout and "the oracle executes it" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("v_add_f31",), "there is no instruction v_add_f31 on gfx1100; did you mean v_add_f32?"),
        (("v_add_f32", "--level", "8086"), "good values are: native, x86-64-v2"),
        (("v_add_f32", "--arch", "gfx1"), "good values are: gfx1100"),
    ],
)
def test_errors(arguments: tuple[str, ...], message: str) -> None:
    result = show(*arguments)
    assert result.exit_code == 2 and message in result.stderr


def test_options_of_host_code_need_it() -> None:
    result = CliRunner().invoke(app, ["isa", "show", "v_add_f32", "--wave64"])
    assert result.exit_code == 2 and "--level and --wave64 go with --host" in result.stderr


def test_constants_stand_beside_the_instruction_that_reads_them() -> None:
    body = "%r = add <4 x i32> %x, <i32 1, i32 2, i32 3, i32 4>\n  ret <4 x i32> %r"
    text = f"define <4 x i32> @f(<4 x i32> %x) {{\n  {body}\n}}"
    target = host.target("x86-64-v3")
    (line,) = [line for line in listing(link(compile_ir(text, target)), "f", target) if line.constant]
    assert line.text.startswith("vpaddd") and line.constant == b"".join(n.to_bytes(4, "little") for n in (1, 2, 3, 4))
