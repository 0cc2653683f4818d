"""LLVM IR to code in memory: what is refused, and that the rest runs wherever it is placed."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

import mockgpu
from mockgpu.machine.native import host
from mockgpu.machine.native.compile import CompileError, UnresolvedSymbolError, assembly, compile_ir, optimised_ir
from mockgpu.machine.native.elf import ObjectError, ObjectFile
from mockgpu.machine.native.link import link
from mockgpu.machine.native.loader import Region, load

LEVELS = host.host_levels()
UNARY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
#: A constant in memory, a call of another function, an address of a function and one of data, a jump table.
EVERYTHING = """
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
@shared = constant i64 5
define i64 @twice(i64 %x) noinline {
  %r = shl i64 %x, 1
  ret i64 %r
}
define i64 @through_call(i64 %x) {
  %r = call i64 @twice(i64 %x)
  %s = add i64 %r, 1
  ret i64 %s
}
define i64 @through_pointer(i64 %x) {
  %slot = alloca ptr
  store volatile ptr @twice, ptr %slot
  %f = load volatile ptr, ptr %slot
  %r = musttail call i64 %f(i64 %x)
  ret i64 %r
}
define i64 @from_table(i64 %x) {
  %p = getelementptr [4 x i64], ptr @table, i64 0, i64 %x
  %r = load i64, ptr %p
  %s = load volatile i64, ptr @shared
  %t = add i64 %r, %s
  ret i64 %t
}
define i64 @from_switch(i64 %x) {
  switch i64 %x, label %other [i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e]
a:
  %ra = call i64 @twice(i64 100)
  ret i64 %ra
b:
  ret i64 7
c:
  %rc = call i64 @twice(i64 %x)
  ret i64 %rc
d:
  %rd = call i64 @through_call(i64 %x)
  ret i64 %rd
e:
  %re = call i64 @from_table(i64 1)
  ret i64 %re
other:
  ret i64 -1
}
"""
RESULTS = {
    "twice": [(21, 42)],
    "through_call": [(21, 43)],
    "through_pointer": [(21, 42)],
    "from_table": [(0, 15), (3, 45)],
    "from_switch": [(0, 200), (1, 7), (2, 4), (3, 7), (4, 25), (5, -1)],
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("opt", [0, 2])
def test_code_runs_where_it_is_placed(level: str, opt: int) -> None:
    image = link(compile_ir(EVERYTHING, host.target(level), opt))
    region = Region([image.data, b"\xcc" * 5000, image.data])
    for base in (region.addresses[0], region.addresses[2]):
        for name, cases in RESULTS.items():
            function = UNARY(base + image.symbols[name])
            assert [function(x) for x, _ in cases] == [y for _, y in cases], name


def test_symbols_and_sizes_of_functions() -> None:
    code, image = load(compile_ir(EVERYTHING, host.target())), link(compile_ir(EVERYTHING, host.target()))
    assert "twice" in code and "absent" not in code
    assert UNARY(code["twice"])(4) == 8
    assert set(RESULTS) <= set(image.symbols) and all(image.sizes[name] > 0 for name in RESULTS)


def test_the_same_text_gives_the_same_bytes() -> None:
    assert compile_ir(EVERYTHING, host.target()) == compile_ir(EVERYTHING, host.target())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("define i64 @f( {", "expected"),
        ("define i64 @f() {\n  ret i32 0\n}", "ret"),
        ('define void @f() {\n  call void asm sideeffect "nonsense", ""()\n  ret void\n}', "inline assembly"),
        ("declare void @llvm.aarch64.hint(i32)\n", r"@llvm\.aarch64\.\* is used in code for x86-64-v2"),
    ],
)
def test_bad_modules_are_refused(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile_ir(text, host.target("x86-64-v2"))


LIBRARY_CALLS = """
declare float @llvm.fma.f32(float, float, float)
declare double @llvm.sin.f64(double)
define float @f(float %x) {
  %r = call float @llvm.fma.f32(float %x, float %x, float %x)
  ret float %r
}
define double @g(double %x) {
  %r = call double @llvm.sin.f64(double %x)
  ret double %r
}
"""


@pytest.mark.parametrize(("level", "names"), [("x86-64-v2", ("fmaf", "sin")), ("x86-64-v3", ("sin",))])
def test_calls_of_libraries_are_refused_by_name(level: str, names: tuple[str, ...]) -> None:
    with pytest.raises(UnresolvedSymbolError, match=f"code for {level} calls {', '.join(names)}, which") as e:
        compile_ir(LIBRARY_CALLS, host.target(level))
    assert e.value.names == names


CIRCLES = r"""
import gc, sys
sys.path.insert(0, sys.argv[1])
from mockgpu.machine.native import compile, host
call = "declare float @g(float)\ndefine float @f() {\n  %r = call float @g(float 0.0)\n  ret float %r\n}"
for text in ["define i64 @f( {", "define i64 @f() {\n  ret i32 0\n}", call]:
    try:
        compile.compile_ir(text, host.target())
    except compile.CompileError as error:
        error.circle = error  # with its traceback, freed by garbage collection in no particular order
gc.collect()
print("alive")
"""


def test_modules_are_gone_before_their_contexts() -> None:
    """A module that garbage collection frees after its context ends the process."""
    home = str(Path(mockgpu.__file__).parents[1])
    result = subprocess.run([sys.executable, "-c", CIRCLES, home], capture_output=True, text=True, timeout=60)
    assert result.stdout == "alive\n", result.stderr


def test_an_absolute_address_cannot_be_linked() -> None:
    text = "define void @f() {\n  ret void\n}\n@pointer = constant ptr @f\n"
    with pytest.raises(ObjectError, match="depends on where the code is loaded"):
        link(compile_ir(text, host.target("x86-64-v2")))


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"MZ" + bytes(100), b"\x7fELF\x01\x01" + bytes(100)])
def test_what_is_no_object_file_is_refused(data: bytes) -> None:
    with pytest.raises(ObjectError):
        ObjectFile(data)


def test_code_cannot_be_written_once_it_is_loaded() -> None:
    region = Region([b"\xc3"])
    with open("/proc/self/maps") as maps:
        rights = [
            line.split()[1]
            for line in maps
            if int(line.split("-")[0], 16) <= region.addresses[0] < int(line.split("-")[1].split()[0], 16)
        ]
    assert rights == ["r-xp"]


def test_optimised_text_and_assembly_can_be_looked_at() -> None:
    assert "@from_switch" in optimised_ir(EVERYTHING, host.target("x86-64-v2"))
    assert "from_switch:" in assembly(EVERYTHING, host.target("aarch64"))
