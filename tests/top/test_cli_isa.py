"""The commands asm and dis."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mockgpu
from mockgpu.cli import app
from mockgpu.isa.asm import assemble
from mockgpu.isa.codeobject import load_code_object

HOME = str(Path(mockgpu.__file__).parents[1])
KERNEL = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx1201"
.text
.p2align 8
{name}:
  v_mov_b32 v0, {value}
again:
  s_cbranch_scc0 again
  s_endpgm
.amdhsa_kernel {name}
  .amdhsa_next_free_vgpr 1
  .amdhsa_next_free_sgpr 1
.end_amdhsa_kernel
"""


def run(*args: str, stdin: bytes | str | None = None):
    return CliRunner().invoke(app, list(args), input=stdin)


def test_hex_of_standard_input() -> None:
    result = run("asm", "-", "--arch", "gfx942", stdin="s_nop 1 ; comment\ns_endpgm")
    assert (result.exit_code, result.stdout) == (0, "bf800001 bf810000\n")


def test_code_object_round_trip(tmp_path: Path) -> None:
    source, target = tmp_path / "k.s", tmp_path / "k.hsaco"
    source.write_text(KERNEL.format(name="k", value=1))
    assert run("asm", str(source), "-o", str(target)).exit_code == 0
    code = load_code_object(target.read_bytes())
    assert code.arch.name == "gfx1201" and list(code.kernels) == ["k"]
    shown = run("dis", str(target))
    assert shown.exit_code == 0
    assert "; k: 12 bytes, wave32, LDS 0" in shown.stdout
    assert "\nk:\n  v_mov_b32_e32 v0, 1 " in shown.stdout and "\nagain:\n  s_cbranch_scc0 again " in shown.stdout
    assert assemble(shown.stdout, "gfx1201").code == code.text


def test_one_kernel_of_several(tmp_path: Path) -> None:
    source, target = tmp_path / "k.s", tmp_path / "k.hsaco"
    source.write_text(KERNEL.format(name="one", value=1) + KERNEL.format(name="two", value=2).replace("again", "back"))
    assert run("asm", str(source), "-o", str(target)).exit_code == 0
    shown = run("dis", str(target), "--kernel", "two", "--pcode")
    assert "two:" in shown.stdout and "one:" not in shown.stdout and "// D0.b32 = S0.b32" in shown.stdout
    wrong = run("dis", str(target), "--kernel", "three")
    assert wrong.exit_code == 2 and "there are: one, two" in wrong.stderr
    assert run("dis", "-", "--kernel", "k", stdin=b"\0\0\x80\xbf").exit_code == 2


def test_raw_code(tmp_path: Path) -> None:
    source, target = tmp_path / "k.s", tmp_path / "k.bin"
    source.write_text(KERNEL.format(name="k", value=1))
    assert run("asm", str(source), "--raw", "-o", str(target), "--hex").stdout == "7e000281 bfa1ffff bfb00000\n"
    shown = run("dis", str(target), "--arch", "gfx1201")
    assert shown.exit_code == 0 and "L_0004:\n  s_cbranch_scc0 L_0004" in shown.stdout


def test_bytes_that_are_no_instruction() -> None:
    result = run("dis", "-", stdin=bytes.fromhex("000080bf") + b"\xff\xff\xff\xff\x01")
    assert result.exit_code == 1
    assert ".long 0xffffffff" in result.stdout and "no instruction format has this prefix" in result.stdout
    assert ".byte 0x01" in result.stdout
    assert "2 pieces of the code are no instruction" in result.stderr


def test_wave64() -> None:
    shown = run("dis", "-", "--wave64", stdin=bytes.fromhex("0205247c"))
    assert "v_cmp_eq_f32_e32 vcc, v2, v2" in shown.stdout
    assert run("asm", "-", "--wave64", stdin="v_cmp_eq_f32 vcc, v2, v2").stdout == "7c240502\n"


@pytest.mark.parametrize(
    ("args", "stdin", "status", "message"),
    [
        (("asm", "-"), "s_nop 0\nv_add_f31 v1, v2, v3", 1, "<stdin>: line 2, column 1: gfx1100 has no instruction"),
        (("asm", "/no/such/file"), None, 2, "/no/such/file: No such file"),
        (("asm", "-", "--arch", "gfx9"), "", 2, "good values are: gfx1100"),
        (("asm", "-"), b"\xff\xfe", 2, "not a text file"),
        (("dis", "-"), b"\x7fELF nothing", 1, "not a well-formed ELF file"),
        (("dis", "-", "--arch", "gfx9"), b"", 2, "good values are: gfx1100"),
    ],
)
def test_errors(args: tuple[str, ...], stdin: bytes | str | None, status: int, message: str) -> None:
    result = run(*args, stdin=stdin)
    assert (result.exit_code, message in result.stderr) == (status, True), result.stderr


ADD = """
.text
.p2align 8
add:
  s_load_b128 s[0:3], s[0:1], null
  v_lshlrev_b32 v0, 2, v0
  s_waitcnt lgkmcnt(0)
  global_load_b32 v1, v0, s[2:3]
  s_waitcnt vmcnt(0)
  v_add_f32 v1, 1.5, v1
  global_store_b32 v0, v1, s[0:1]
  s_endpgm
.amdhsa_kernel add
  .amdhsa_next_free_vgpr 2
  .amdhsa_next_free_sgpr 4
  .amdhsa_kernarg_size 16
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
.end_amdhsa_kernel
"""
LAUNCH = """
import sys
from types import SimpleNamespace
from tinygrad import Device, Tensor
data, out = Tensor([1.0, 2.0, 3.0, 4.0]).realize(), Tensor.zeros(4).contiguous().realize()
file = SimpleNamespace(name="add", lib=open(sys.argv[1], "rb").read(), signature=(), target=None, profile_key=None)
program = Device["AMD"].runtime(file)
program(out.uop.buffer._buf, data.uop.buffer._buf, global_size=(1, 1, 1), local_size=(4, 1, 1), wait=True)
print(out.tolist())
"""


def test_assembled_kernel_runs_on_the_emulated_gpu(tmp_path: Path) -> None:
    source, target, script = tmp_path / "add.s", tmp_path / "add.hsaco", tmp_path / "launch.py"
    source.write_text(ADD)
    script.write_text(LAUNCH)
    assert run("asm", str(source), "-o", str(target)).exit_code == 0
    environ = {k: v for k, v in os.environ.items() if k not in ("MOCKGPU", "DEV")} | {"PYTHONPATH": HOME, "DEV": "AMD"}
    command = [sys.executable, "-m", "mockgpu", "run", str(script), str(target)]
    result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
    assert result.stdout.splitlines()[-1:] == ["[2.5, 3.5, 4.5, 5.5]"], result.stderr
