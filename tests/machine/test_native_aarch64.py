"""Code for AArch64 under an emulated CPU, and for lower levels of x86-64 on this one: the same to the bit."""

import ctypes
import functools

import numpy as np
import pytest
import unicorn
from support.host_lab import ArmLab, LevelLab, place, run_arm

from mockgpu.isa.arch import get_arch
from mockgpu.isa.asm import assemble
from mockgpu.isa.canonical import canonical, table_opcodes
from mockgpu.isa.decode import decode
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.native import host
from mockgpu.machine.native.compile import compile_ir
from mockgpu.machine.native.emit import Wanted, handlers_module, symbol
from mockgpu.machine.native.link import link
from mockgpu.machine.native.loader import load
from mockgpu.machine.native.shape import shape_of
from mockgpu.machine.native.state import aligned

#: Loads <32 x i32> from each of two places, stores a result to the third.
BODIES = {
    "add": "%r = add <32 x i32> %a, %b",
    "constants": "%r = mul <32 x i32> %a, <{}>".format(", ".join(f"i32 {3 * n + 7}" for n in range(32))),
    "fadd": """%x = bitcast <32 x i32> %a to <32 x float>
  %y = bitcast <32 x i32> %b to <32 x float>
  %z = fadd <32 x float> %x, %y
  %r = bitcast <32 x float> %z to <32 x i32>""",
    "select": "%c = icmp ult <32 x i32> %a, %b\n  %r = select <32 x i1> %c, <32 x i32> %a, <32 x i32> %b",
    "mask": """%c = icmp slt <32 x i32> %a, %b
  %m = bitcast <32 x i1> %c to i32
  %s = insertelement <32 x i32> %a, i32 %m, i32 0
  %n = xor i32 %m, 305419896
  %d = bitcast i32 %n to <32 x i1>
  %r = select <32 x i1> %d, <32 x i32> %s, <32 x i32> %b""",
    "call": "%r = call <32 x i32> @helper(<32 x i32> %a, <32 x i32> %b)",
}
FUNCTION = """
define i64 @{name}(ptr %p, ptr %q, ptr %to) {{
  %a = load <32 x i32>, ptr %p, align 64
  %b = load <32 x i32>, ptr %q, align 64
  {body}
  store <32 x i32> %r, ptr %to, align 64
  ret i64 1234567890123
}}
"""
HELPER = """
@table = internal constant [4 x i32] [i32 1, i32 20, i32 300, i32 4000]
define internal <32 x i32> @helper(<32 x i32> %a, <32 x i32> %b) noinline {
  %last = extractelement <32 x i32> %b, i32 31
  %index = and i32 %last, 3
  %place = getelementptr [4 x i32], ptr @table, i32 0, i32 %index
  %value = load volatile i32, ptr %place
  %r = insertelement <32 x i32> %a, i32 %value, i32 5
  ret <32 x i32> %r
}
"""
MODULE = HELPER + "".join(FUNCTION.format(name=name, body=body) for name, body in BODIES.items())


def inputs(seed: int) -> np.ndarray:
    """Two vectors of finite floats and a place for a third, as dwords."""
    memory = aligned(3 * 128).view(np.uint32)
    rng = np.random.default_rng(seed)
    memory[:64] = rng.standard_normal(64).astype(np.float32).view(np.uint32)
    memory[:64:3] = rng.integers(0, 1 << 30, 22, np.uint32)
    return memory


def call_here(level: str, name: str, memory: np.ndarray) -> int:
    code = load(compile_ir(MODULE, host.target(level)))
    base = memory.ctypes.data
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)(code[name])(base, base + 128, base + 256)


@functools.cache
def arm_code() -> tuple[np.ndarray, dict[str, int]]:
    image = link(compile_ir(MODULE, host.target(host.AARCH64)))
    return place(image.data), image.symbols


@pytest.mark.parametrize("name", BODIES)
def test_vectors_are_the_same_on_every_host(name: str) -> None:
    code, symbols = arm_code()
    results = []
    memory = inputs(1)
    base = memory.ctypes.data
    ranges = [(code.ctypes.data, code.nbytes), (base, memory.nbytes)]
    assert run_arm(code.ctypes.data + symbols[name], (base, base + 128, base + 256), ranges) == 1234567890123
    results.append(memory.copy())
    for level in host.host_levels():
        memory = inputs(1)
        assert call_here(level, name, memory) == 1234567890123
        results.append(memory)
    assert results[0][64:].any()
    for result in results[1:]:
        assert np.array_equal(result, results[0])


def test_memory_that_was_not_given_is_out_of_reach() -> None:
    code, symbols = arm_code()
    with pytest.raises(unicorn.UcError):
        run_arm(code.ctypes.data + symbols["add"], (0x123400, 0x123400, 0x123400), [(code.ctypes.data, code.nbytes)])


# -- handlers ---------------------------------------------------------------------------------------------------------

LINES = """\
v_add_f32 v0, v1, v2
v_fma_f32 v0, v1, v2, v3
v_fma_f32 v0, -v1, |v2|, s3 clamp
v_fma_f16 v0, v1, v2, v3
v_add_f16 v0, v1, v2
v_pk_fma_f16 v0, v1, v2, v3
v_min_f32 v0, v1, v2
v_add_f64 v[0:1], v[2:3], v[4:5]
v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]
v_cvt_i32_f32 v0, v1
v_cvt_f16_f32 v0, v1
v_cvt_f32_f16 v0, v1
v_cmp_lt_f32 vcc_lo, v1, v2
v_cndmask_b32 v0, v1, v2, vcc_lo
v_add_co_u32 v0, vcc_lo, v1, v2
v_mul_lo_u32 v0, v1, v2
v_mad_u64_u32 v[0:1], s2, v2, v3, v[4:5]
v_lshlrev_b64 v[0:1], v2, v[4:5]
v_bfe_u32 v0, v1, v2, v3
v_readlane_b32 s0, v1, s2
v_mov_b32 v0, 0x12345678
v_rcp_f32 v0, v1
v_sqrt_f32 v0, v1
v_div_fixup_f32 v0, v1, v2, v3
s_add_u32 s0, s1, s2
s_lshl_b64 s[0:1], s[2:3], s4
s_cmp_lt_i32 s0, s1
s_mul_hi_u32 s0, s1, s2
ds_load_b32 v0, v1
ds_store_b32 v0, v1
ds_add_u32 v0, v1
global_load_b32 v0, v[2:3], off
global_load_b128 v[4:7], v[2:3], off
global_store_b32 v[2:3], v4, off
global_atomic_add_u32 v0, v[2:3], v4, off glc
""".splitlines()
#: What has no native form on a host: the oracle executes it.
LEFT_OUT = {("x86-64-v2", "v_fma_f64"): "fma of f64 on a processor without one"}
SEEDS = 3


@functools.cache
def instructions() -> tuple[Instruction, ...]:
    arch = get_arch("gfx1100")
    return tuple(decode(arch, assemble(line, arch).code) for line in LINES)


@functools.cache
def lab(name: str, lanes: int) -> LevelLab:
    made = ArmLab("gfx1100", lanes) if name == host.AARCH64 else LevelLab("gfx1100", lanes, name)
    made.prepare(instructions())
    return made


@pytest.mark.parametrize("name", [*host.host_levels(), host.AARCH64])
@pytest.mark.parametrize("number", range(len(LINES)), ids=LINES)
def test_handlers_do_what_the_oracle_does(name: str, number: int) -> None:
    found, instruction = lab(name, 32), instructions()[number]
    if not found.native(instruction):
        assert LEFT_OUT[name, instruction.mnemonic] in found.refused.values()
        return
    left = found.left
    for seed in range(SEEDS):
        found.check(instruction, seed)
    assert found.left - left < SEEDS  # Python did not do all the work


@pytest.mark.parametrize("name", [*host.host_levels(), host.AARCH64])
@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
def test_code_of_all_kinds_is_made_for_every_host(name: str, arch: str) -> None:
    """No handler calls a library that a host might lack, or makes LLVM give up: one in 37 opcodes is tried."""
    target, found = host.target(name), get_arch(arch)
    opcodes = [opcode for opcode in table_opcodes(found) if found.has_opcode(opcode.name)]
    sample = [canonical(found, opcode) for opcode in opcodes[::37]]
    wanted = [Wanted(shape_of(i, 32, 0xF0), i, 32, 0xF0) for i in sample]
    text, refused = handlers_module(wanted, target.features)
    image = link(compile_ir(text, target))
    made = {symbol(w.shape.key) for w in wanted if w.shape.key not in refused}
    assert made <= set(image.symbols) and len(made) > len(sample) // 2
