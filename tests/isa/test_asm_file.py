"""Whole files: labels, data, sections, comments, kernels and code objects."""

import io
import random

import pytest
from elftools.elf.elffile import ELFFile
from support.llvm_mc import assemble as llvm_assemble
from support.llvm_mc import assemble_object, require_llvm
from support.random_code import random_program

from mockgpu.isa.arch import get_arch
from mockgpu.isa.asm import AsmError, assemble
from mockgpu.isa.asm_listing import line_text, listing
from mockgpu.isa.asm_object import code_object
from mockgpu.isa.codeobject import load_code_object

PROGRAM = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"
.text
.globl add_one
.p2align 8
.type add_one,@function
add_one:
  s_load_b128 s[0:3], s[0:1], 0x0   ; the arguments
  v_lshlrev_b32 v0, 2, v0
  /* a comment
     over lines */ s_waitcnt lgkmcnt(0)
.Lagain: // back here
  global_load_b32 v1, v0, s[2:3]
  s_waitcnt vmcnt(0)
  v_add_f32 v1, 1.0, v1
  s_cbranch_scc1 .Lagain
  s_cbranch_scc0 .Lend
  s_call_b64 s[6:7], function
  global_store_b32 v0, v1, s[0:1]
.Lend:
  s_endpgm
.Lfunc_end:
.size add_one, .Lfunc_end-add_one
function:
  s_setpc_b64 s[6:7]
  s_mov_b32 s4, table
table: .long 1, 0x2, -3, table, .Lend - add_one
  .p2align 4
  .byte 1, 2
  .short 3
  .quad 0x123456789abcdef0
  .fill 3, 2, 0xabcd
  .zero 2
"""
KERNELS = {
    "gfx1100": """
        .amdhsa_group_segment_fixed_size 1024
        .amdhsa_private_segment_fixed_size 16
        .amdhsa_kernarg_size 24
        .amdhsa_user_sgpr_kernarg_segment_ptr 1
        .amdhsa_user_sgpr_dispatch_ptr 1
        .amdhsa_enable_private_segment 1
        .amdhsa_system_sgpr_workgroup_id_y 1
        .amdhsa_system_vgpr_workitem_id 2
        .amdhsa_next_free_vgpr 37
        .amdhsa_next_free_sgpr 20
        .amdhsa_float_denorm_mode_32 3
        .amdhsa_ieee_mode 0
    """,
    "gfx1201": """
        .amdhsa_next_free_vgpr 9
        .amdhsa_next_free_sgpr 4
        .amdhsa_wavefront_size32 0
        .amdhsa_user_sgpr_count 6
        .amdhsa_inst_pref_size 3
    """,
    "gfx942": """
        .amdhsa_next_free_vgpr 300
        .amdhsa_next_free_sgpr 33
        .amdhsa_accum_offset 256
        .amdhsa_user_sgpr_kernarg_segment_ptr 1
        .amdhsa_user_sgpr_kernarg_preload_length 2
        .amdhsa_tg_split 1
    """,
    "gfx950": """
        .amdhsa_next_free_vgpr 8
        .amdhsa_next_free_sgpr 16
        .amdhsa_accum_offset 4
        .amdhsa_group_segment_fixed_size 163840
    """,
}


def kernel_file(name, settings, body="s_endpgm"):
    return f".text\n.p2align 8\nk:\n{body}\n.rodata\n.p2align 6\n.amdhsa_kernel k\n{settings}\n.end_amdhsa_kernel\n"


def test_file_equals_llvm():
    require_llvm()
    text = "\n".join(line for line in PROGRAM.splitlines() if ".amdgcn_target" not in line)
    # Absolute addresses of labels are relocations for LLVM; the bytes it leaves there are zero.
    text = text.replace(", table, ", ", 0x2c, ").replace("s_mov_b32 s4, table", "s_mov_b32 s4, lit(0x2c)")
    ours = assemble(text, "gfx1100").code
    theirs = llvm_assemble(text.replace("lit(0x2c)", "table"), "gfx1100")
    assert len(ours) == len(theirs)
    different = [n for n in range(len(ours)) if ours[n] != theirs[n]]
    assert bytes(ours[n] for n in different).strip(b"\x2c") == b""


def test_labels_and_addresses():
    done = assemble(PROGRAM, "gfx1100")
    assert done.labels["add_one"] == (".text", 0)
    table = done.labels["table"][1]
    end = done.labels[".Lend"][1]
    words = [int.from_bytes(done.code[table + 4 * n : table + 4 * n + 4], "little") for n in range(5)]
    assert words == [1, 2, 0xFFFFFFFD, table, end]
    assert done.sizes["add_one"] == end + 4
    assert done.code.endswith(bytes.fromhex("01020300f0debc9a78563412cdabcdabcdab0000"))


@pytest.mark.parametrize("name", KERNELS)
def test_descriptor_equals_llvm(name):
    require_llvm()
    text = kernel_file(name, KERNELS[name])
    elf = ELFFile(io.BytesIO(assemble_object(f'.amdgcn_target "amdgcn-amd-amdhsa--{name}"\n{text}', name)))
    theirs = elf.get_section_by_name(".rodata").data()
    code = load_code_object(code_object(assemble(text, name)))
    address = code.kernels["k"].descriptor_address
    ours = code.image[address : address + 64]
    assert ours[:16] == theirs[:16] and ours[24:] == theirs[24:]  # between them lies the entry's offset, a relocation


def test_code_object_loads():
    code = load_code_object(code_object(assemble(PROGRAM + kernel_file("", KERNELS["gfx1100"], "s_nop 1"), "gfx1100")))
    kernel = code.kernels["k"]
    assert (code.arch.name, list(code.kernels)) == ("gfx1100", ["k"])
    assert kernel.entry % 256 == 0 and code.code(kernel) == bytes.fromhex("010080bf")
    assert kernel.descriptor.group_segment_size == 1024 and kernel.descriptor.user_sgprs == 4
    assert code.symbols["function"].kind == "STT_NOTYPE"


def test_metadata_is_kept_apart():
    done = assemble("s_nop 0\n.amdgpu_metadata\n---\na: [1, 2] ?\n.end_amdgpu_metadata\ns_nop 1\n", "gfx1100")
    assert done.metadata == "---\na: [1, 2] ?"
    assert len(done.code) == 8


@pytest.mark.parametrize(
    ("text", "reason", "line", "column"),
    [
        ("a:\ns_nop 0\na:", "defined twice", 3, 1),
        ("s_branch nowhere", "unknown name 'nowhere'", 1, 10),
        ("here:\ns_nop 0\ns_branch her", "did you mean here", 3, 10),
        ("s_nop 0\n.lonk 1", r"unknown directive \.lonk; did you mean \.long", 2, 1),
        (".long 0x100000000", "a value of 4 bytes", 1, 7),
        (".byte 1, 2, 300", "a value of 1 bytes", 1, 13),
        (".p2align 17", "an alignment", 1, 10),
        (".fill a\na:", "must not depend on labels", 1, 7),
        ("far: .fill 40000, 4, 0\ns_branch far", "32767", 2, 10),
        (".byte 1\nodd: s_nop 0\n.p2align 2\ns_branch odd", "multiple of 4", 4, 10),
        (".amdhsa_kernel k\n.amdhsa_next_free_vgpr 1\n.end_amdhsa_kernel", "lacks .amdhsa_next_free_sgpr", 3, 1),
        (".amdhsa_kernel k\n.amdhsa_next_free_vgprs 1", "did you mean next_free_vgpr", 2, 1),
        (".amdhsa_kernel k\n.amdhsa_ieee_mode 2", "from 0 to 1", 2, 1),
        (".amdhsa_kernel k\n.amdhsa_ieee_mode 1\n.amdhsa_ieee_mode 1", "given twice", 3, 1),
        (".amdhsa_kernel k\n.long 1", "inside a kernel block", 2, 1),
        (".amdhsa_kernel k\n.amdhsa_ieee_mode 1", "end_amdhsa_kernel is missing", 2, 1),
        (".amdgpu_metadata\nfoo", "expected .end_amdgpu_metadata", 2, 1),
        ('.amdgcn_target "amdgcn-amd-amdhsa--gfx1201"', "assembled for amdgcn-amd-amdhsa--gfx1100", 1, 1),
        ("s_nop 0 ; fine\n  v_nothing v1 // bad", "no instruction 'v_nothing'", 2, 3),
        (".set x, 1 / 0", "division by zero", 1, 13),
        (".space 1 << 60", "a count", 1, 8),
    ],
)
def test_errors_name_line_and_column(text, reason, line, column):
    with pytest.raises(AsmError, match=reason) as info:
        assemble(text, "gfx1100")
    assert (info.value.line, info.value.column) == (line, column)


def test_kernel_without_label():
    text = ".amdhsa_kernel k\n.amdhsa_next_free_vgpr 1\n.amdhsa_next_free_sgpr 1\n.end_amdhsa_kernel"
    with pytest.raises(AsmError, match="no label"):
        code_object(assemble(text, "gfx1100"))


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201", "gfx942", "gfx950"])
def test_listing_assembles_to_the_same_bytes(name):
    """Random code and random bytes alike: what the listing cannot say as an instruction it says as data."""
    rng = random.Random(name)
    data = b"".join(data for _, data in random_program(rng, get_arch(name), 400)) + rng.randbytes(402)
    lines = listing(get_arch(name), data)
    text = "\n".join((f"{line.label}:\n" if line.label else "") + line_text(line) for line in lines)
    assert assemble(text, name).code == data
    assert b"".join(line.data for line in lines) == data
    assert any(line.reason for line in lines)


def test_listing_labels_branch_targets():
    code = assemble("a: s_nop 0\nb: s_branch b\ns_cbranch_scc0 a\ns_branch 100", "gfx1100").code
    lines = listing(get_arch("gfx1100"), code, base=0x100, names={0x100: "start"})
    assert [(line.label, line.text) for line in lines] == [
        ("start", "s_nop 0"),
        ("L_0104", "s_branch L_0104"),
        ("", "s_cbranch_scc0 start"),
        ("", "s_branch 100"),
    ]
    assert line_text(lines[0]).split("//")[1] == " 00000100: BF800000"


def test_constants_and_expressions():
    text = ".set count, 3\ns_mov_b32 s0, count * 4 + 1\ns_mov_b64 s[count - 1:count], 0\ns_nop count << 1"
    assert assemble(text, "gfx1100").code == assemble("s_mov_b32 s0, 13\ns_mov_b64 s[2:3], 0\ns_nop 6", "gfx1100").code
