"""Assembling is the inverse of disassembling, and agrees with LLVM's assembler."""

import contextlib
import random
import re
from collections import Counter

import pytest
from support.llvm_mc import AssembleError, disassemble_one, require_llvm
from support.llvm_mc import assemble as llvm_assemble
from support.random_code import layouts, leaves, random_instruction

from mockgpu.isa.arch import get_arch
from mockgpu.isa.asm import AsmError, assemble, assemble_instruction
from mockgpu.isa.decode import decode

# LLVM shows and reads register halves of 16-bit operands on gfx12 only when told to.
FEATURES = {"gfx1201": "+real-true16"}
TARGETS = ("gfx1100", "gfx1201", "gfx942", "gfx950")


def programs(name, seed, share=1.0):
    """(layout, bytes) of a random instruction for every opcode and layout, or for a share of them."""
    arch, rng = get_arch(name), random.Random(seed)
    for leaf in leaves(arch):
        for layout in layouts(leaf, arch):
            if rng.random() < share:
                yield layout, random_instruction(rng, arch, leaf, layout, modifiers=rng.random() < 0.5)


@pytest.mark.parametrize(("name", "least"), [("gfx1100", 3300), ("gfx1201", 3200), ("gfx942", 2200), ("gfx950", 2300)])
def test_text_gives_the_same_text_again(name, least):
    """What the disassembler shows, the assembler reads: the text is a fixed point, and mostly the bytes too.

    Bytes may differ in bits that no text shows: fields of absent operands, literals that have an inline form.
    """
    arch, counts = get_arch(name), Counter()
    for layout, data in programs(name, seed=5):
        inst = decode(arch, data)
        try:
            again = assemble_instruction(arch, inst.text)
        except AsmError as error:
            counts["refused"] += 1
            assert refusable(error.reason, inst.text), f"{inst.text}: {error}"
            continue
        counts["same bytes" if again == data else "same text"] += 1
        text = decode(arch, again).text
        assert plain(text) == plain(inst.text), f"{layout.name}: {inst.text} became {text}"
    assert counts["same bytes"] + counts["same text"] >= least
    assert counts["same bytes"] > 2 * counts["same text"]
    assert counts["refused"] < 0.02 * least


def plain(text):
    """Text with one spelling of small numbers and of single addresses."""
    text = re.sub(r"\[(v\d+)\]", r"\1", text)
    return re.sub(r"0x[0-9a-f]+", lambda match: str(int(match[0], 16)), text)


# Text of random bits that means no instruction a program may hold.
_REFUSABLE = (
    r"must start at a multiple of",  # scalar tuples that are not aligned
    r"unexpected '/'",  # LLVM's remark inside the text
    r"two different literals",  # an inline half float that an integer operand shows as a number
    r"expected a scalar register",  # a constant as destination of a lane read
    r"does not fit 16 bits",
    r"unknown name 'reserved_",
)


def refusable(reason, text):
    return any(re.search(pattern, reason) for pattern in _REFUSABLE) or "/*" in text


# Where LLVM's assembler differs on its own text: (pattern of the text, reason).
EXPLAINED = [
    (r"^s_(atc_probe|prefetch)", "LLVM keeps five bits of a seven-bit immediate"),
    (r"^s_version ", "LLVM names generations; here the number is written"),
    (r"sendmsg\(MSG_GS", "messages of geometry shaders, which compute kernels do not send"),
    (r"^s_set_gpr_idx_", "LLVM invents a modifier syntax for GFX9 index modes, which CDNA3 has dropped"),
    (r"^v_mfma_ld_scale_b32 ", "half of a scaled matrix instruction"),
    (r"_dpp .*0x.* dpp8:", "LLVM lets a 16-bit constant name a literal, for which a DPP form has no room"),
    (r"^v_cvt_(pk_)?f32_(bf8|fp8)_sdwa ", "the selectors that this text leaves out have no effect"),
]


@pytest.mark.parametrize(("name", "least"), [("gfx1100", 1100), ("gfx1201", 1100), ("gfx942", 700), ("gfx950", 700)])
def test_bytes_equal_llvm(name, least):
    """Both assemblers read the text of LLVM's disassembler."""
    require_llvm()
    arch, features, equal, differences = get_arch(name), FEATURES.get(name, ""), 0, []
    for _, data in programs(name, seed=6, share=0.4):
        text, size = disassemble_one(data, name, features)
        if not size or "/*" in text or "Warning" in text:
            continue
        try:
            theirs = llvm_assemble(text, name, features)
        except AssembleError:
            continue
        try:
            ours = assemble_instruction(arch, text.replace("\t", " "))
        except AsmError as error:
            if not any(re.search(pattern, text) for pattern, _ in EXPLAINED):
                differences.append(f"{text}: {error}")
            continue
        equal += ours == theirs
        if ours != theirs and not any(re.search(pattern, text) for pattern, _ in EXPLAINED):
            differences.append(f"{text}: LLVM {theirs.hex()}, ours {ours.hex()}")
    assert not differences, "\n".join(differences[:20])
    assert equal >= least


# Forms that people write and no disassembler shows.
WRITTEN = {
    "gfx1100": """
        v_add_f32 v1, v2, v3
        v_add_f32 v1, s2, v3
        v_add_f32 v1, v2, s3
        v_add_f32 v1, 3.14, v3
        v_add_f32 v1, v3, 3.14
        v_add_f32 v1, 0x3f800000, v3
        v_add_f32 v1, -1, v3
        v_add_f32 v1, 0.0, v3
        v_add_f32 v1, 0xffffffff, v3
        v_add_f32 v1, |v2|, -v3
        v_add_f32 v1, abs(v2), neg(v3)
        v_add_f32 v1, -|v2|, v3 clamp
        v_add_f32 v1, v2, v3 mul:2
        v_add_f32 v1, v2, v3 row_shl:1
        v_add_f32 v1, v2, v3 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf bound_ctrl:1
        v_add_f32 v1, v2, v3 dpp8:[7,6,5,4,3,2,1,0]
        v_add_f64 v[0:1], 1.0, v[2:3]
        v_add_f64 v[0:1], 3.5, v[2:3]
        v_add_f64 v[0:1], v[2:3], 0x3ff00000
        v_cmp_lt_f32 vcc_lo, v1, v2
        v_cmp_lt_f32 s4, v1, v2
        v_cmpx_lt_f32 v1, v2
        v_cndmask_b32 v1, v2, v3, vcc_lo
        v_cndmask_b32 v1, v2, v3, s4
        v_mov_b32 v[1], v[2]
        v_mov_b32 v1, src_shared_base
        s_mov_b32 s0, 0x12345678
        s_mov_b64 s[0:1], exec
        s_mov_b64 [s0, s1], -1
        s_add_u32 s0, s0, 1 + 2 * 3
        s_waitcnt vmcnt(0)
        s_waitcnt vmcnt(0) & lgkmcnt(3)
        s_waitcnt vmcnt(1), expcnt(2)
        s_waitcnt 0
        s_waitcnt_depctr depctr_va_vdst(0)
        s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(TRANS32_DEP_2)
        s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 4)
        s_setreg_b32 hwreg(HW_REG_MODE), s1
        s_sendmsg sendmsg(MSG_INTERRUPT)
        s_endpgm
        s_load_b64 s[2:3], s[0:1], 0x8
        s_load_b64 s[2:3], s[0:1], s4 offset:8
        global_load_b32 v1, v[2:3], off
        global_load_b32 v1, v2, s[0:1] offset:-16
        flat_load_b32 v1, v[2:3] offset:16
        scratch_load_b32 v1, v2, off
        buffer_load_b32 v1, off, s[0:3], 0
        buffer_load_b32 v1, v2, s[0:3], 0 offen offset:4 glc
        ds_load_b32 v1, v2 offset:4
        ds_load_2addr_b32 v[2:3], v1 offset0:1 offset1:2
        ds_swizzle_b32 v1, v2 offset:swizzle(BITMASK_PERM,"01pip")
        v_pk_add_f16 v1, v2, v3 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0]
        v_pk_add_f16 v1, v2, 1.0
        v_add_f16 v1.l, v2.h, v3.l
        v_add_f16 v1.h, 0x3c00, v3.l
        v_dual_add_f32 v1, v2, v3 :: v_dual_mov_b32 v4, 0x11223344
        v_fmamk_f32 v1, v2, 0x42000000, v3
        v_fmaak_f32 v1, s2, v3, 2.5
        v_readlane_b32 s1, v2, 3
        v_div_scale_f32 v1, vcc_lo, v2, v3, v4
        exp mrt0 v0, v1, v2, v3 done
    """,
    "gfx1201": """
        v_add_f32 v1, v2, v3
        s_wait_loadcnt 0x0
        s_load_b64 s[2:3], s[0:1], 0x8
        global_load_b32 v1, v[2:3], off th:TH_LOAD_NT scope:SCOPE_DEV
        buffer_load_b32 v1, off, s[0:3], null offset:16
        v_minimum_f32 v1, v2, v3
    """,
    "gfx942": """
        v_add_f32 v1, v2, v3
        v_add_f32 v1, v2, s3
        v_add_f32_sdwa v1, v2, v3 src0_sel:WORD_1
        v_add_f32_dpp v1, v2, v3 row_bcast:15
        v_cmp_lt_f32 vcc, v1, v2
        v_cmp_lt_f32 s[4:5], v1, v2
        v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
        v_mfma_f32_4x4x4_16b_f16 v[0:3], v[0:1], v[2:3], 0 cbsz:1 abid:2
        v_accvgpr_write_b32 a1, v2
        global_load_dwordx4 a[0:3], v[2:3], off sc0 nt
        s_load_dwordx2 s[2:3], s[0:1], 0x8
        s_load_dwordx2 s[2:3], s[0:1], s4
        s_waitcnt vmcnt(63) lgkmcnt(0)
        buffer_load_dword off, s[0:3], s4 offset:4 lds
        buffer_inv sc1
        s_set_gpr_idx_off
    """,
    "gfx950": """
        v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:17], v[0:3], v20, v21 blgp:2
        v_cvt_scalef32_pk_fp8_f32 v1, v2, v3, v4
        v_permlane32_swap_b32 v1, v2
        v_bitop3_b16 v1, v2, v3, v4 bitop3:1 op_sel:[1,0,0,1]
        v_bitop3_b32 v1, v2, v3, v4 bitop3:0x55
    """,
}


def written(name):
    return [line.strip() for line in WRITTEN[name].strip().splitlines()]


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in WRITTEN for text in written(name)])
def test_written_forms_equal_llvm(name, text):
    require_llvm()
    try:
        theirs = llvm_assemble(text, name, FEATURES.get(name, ""))
    except AssembleError as error:
        pytest.fail(f"LLVM refuses {text}: {error}")
    assert assemble_instruction(get_arch(name), text).hex() == theirs.hex()


def test_suffixes_choose_the_encoding():
    arch = get_arch("gfx1100")
    sizes = {
        suffix: len(assemble_instruction(arch, f"v_add_f32{suffix} v1, v2, v3")) for suffix in ("", "_e32", "_e64")
    }
    assert sizes == {"": 4, "_e32": 4, "_e64": 8}
    assert len(assemble_instruction(arch, "v_add_f32_e64_dpp v1, v2, v3 row_shl:1")) == 12
    assert len(assemble_instruction(arch, "v_add_f32_e64 v1, v2, 0x12345678")) == 12
    with pytest.raises(AsmError, match="expected a vector register"):
        assemble_instruction(arch, "v_add_f32_e32 v1, v2, s3")


def test_lit_keeps_a_literal():
    data = assemble_instruction(get_arch("gfx1100"), "v_mov_b32 v1, lit(0x3f800000)")
    assert data.hex() == "ff02027e" + "0000803f"


def test_lane_masks_follow_the_wave_size():
    arch = get_arch("gfx1100")
    wave32 = assemble_instruction(arch, "v_cmp_eq_f32 vcc_lo, v1, v2")
    assert assemble_instruction(arch, "v_cmp_eq_f32 vcc, v1, v2", wave_size=64) == wave32
    with pytest.raises(AsmError, match="vcc_lo"):
        assemble_instruction(arch, "v_cmp_eq_f32_e32 vcc, v1, v2")
    kernel = ".amdhsa_kernel k\n.amdhsa_next_free_vgpr 1\n.amdhsa_next_free_sgpr 1\n.amdhsa_wavefront_size32 0\n"
    assert assemble(f"v_cmp_eq_f32 vcc, v1, v2\nk:\n{kernel}.end_amdhsa_kernel", arch).code == wave32


@pytest.mark.parametrize(
    ("name", "text", "reason", "column"),
    [
        ("gfx1100", "v_add_f31 v1, v2, v3", r"no instruction 'v_add_f31'; did you mean v_add_f32", 1),
        ("gfx1100", "v_add_f32 v1, v2", r"takes 3 operands \(vdst, src0, .*src1\), not 2", 1),
        ("gfx1100", "v_add_f32 v1, v2, v3, v4", r"takes 3 operands", 23),
        ("gfx1100", "v_add_f32 v1, v2, v256", "the last register is v255", 19),
        ("gfx1100", "s_mov_b64 s[1:2], 0", "must start at a multiple of 2", 11),
        ("gfx1100", "s_mov_b64 s[2:1], 0", "comes before the first", 11),
        ("gfx1100", "v_add_f32 v1, v[2:3], v4", "does not fit here", 15),
        ("gfx1100", "v_add_f64 v[0:1], v2, v[4:5]", "does not fit here", 19),
        ("gfx1100", "v_add_f32 v1, a2, v3", "no accumulation registers", 15),
        ("gfx1100", "v_add_f32 v1, v2 v3 ?", "unexpected character '\\?'", 21),
        ("gfx1100", "v_add_f32 v1,, v3", "unexpected ','; expected .*a name", 14),
        ("gfx1100", "v_add_f32 v1, (2", r"the line ends; expected '\)'", 17),
        ("gfx1100", "v_add_f32 v1, v2, v3 clampp:1", "unknown modifier 'clampp'; did you mean clamp", 22),
        ("gfx1100", "v_add_nc_u32 v1, v2, v3 mul:3", "mul takes 2 or 4", 25),
        ("gfx1100", "v_add_f32 v1, v2, v3 offset:4", "offset is not a modifier", 22),
        ("gfx1100", "v_add_f32 v1, v2, v3 clamp clamp", "given twice", 28),
        ("gfx1100", "v_add_f32 v1, v2, v3 row_shl:16", "from 1 to 15", 30),
        ("gfx1100", "v_fma_f32 v1, 0x11111111, 0x22222222, v3", "two different literals", 27),
        ("gfx1100", "v_add_f64 v[0:1], 0.1, v[2:3]", "upper 32 bits", 19),
        ("gfx1100", "s_mov_b32 s0, 0x100000000", "does not fit 32 bits", 15),
        ("gfx1100", "s_mov_b32 s0, nothing", "unknown register or name 'nothing'", 15),
        ("gfx1100", "s_waitcnt vmcnt(64)", "from 0 to 63", 17),
        ("gfx1100", "s_waitcnt vmcmt(0)", "unknown counter 'vmcmt'; good names are vmcnt", 11),
        ("gfx1100", "s_getreg_b32 s0, hwreg(HW_REG_MOD)", "did you mean HW_REG_MODE", 24),
        ("gfx1100", "s_sendmsg sendmsg(MSG_INTERUPT)", "did you mean MSG_INTERRUPT", 19),
        ("gfx1100", "global_load_b32 v1, v[2:3], off offset:5000", "from -4096 to 4095", 40),
        ("gfx1100", "buffer_load_b32 v1, v2, s[0:3], 0", "needs offen or idxen", 21),
        ("gfx1100", "buffer_load_b32 v1, off, s[0:3], 0 offen", "instead of off", 21),
        ("gfx1100", "v_dual_add_f32 v1, v2, v3 :: v_dual_mul_f32 v3, v4, v5", "even register, the other an odd", 45),
        ("gfx1100", "v_dual_add_f32 v1, v2, v3", "come in pairs", 1),
        ("gfx1100", "v_add_f16 v200.l, v1.l, v2.l quad_perm:[0,1,2]", "list of 4 lanes", 30),
        ("gfx942", "v_add_f32 v1, v2, 0x12345678", "needs a literal, which is not possible here", 19),
        ("gfx942", "v_dual_add_f32 v1, v2, v3 :: v_dual_mul_f32 v4, v4, v5", "no dual-issue", 30),
        ("gfx942", "v_add_f64 v[1:2], v[2:3], v[4:5]", "must start at a multiple of 2", 11),
        ("gfx942", "v_add_f32 v1, v2, v3 dpp8:[0,1,2,3,4,5,6,7]", "no dpp8 form", 1),
    ],
)
def test_errors_name_the_place(name, text, reason, column):
    with pytest.raises(AsmError, match=reason) as info:
        assemble_instruction(get_arch(name), text)
    assert info.value.column == column
    with pytest.raises(AsmError, match=reason) as info:
        assemble(f"s_nop 0\n  {text}", name)
    assert (info.value.line, info.value.column) == (2, column + 2)
    assert text in str(info.value)


_SHARDS = (
    *(
        *"()[]|,:+-*/~&",
        "::",
        "<<",
        "v1",
        "s[0:3]",
        "a[0:1]",
        "v1.h",
        "0x12345678",
        "1.0",
        "-4",
        "1e30",
        "clamp",
        "vcc",
    ),
    *("vcc", "off", "null", "op_sel:[1,1]", "offset:99999", "neg(", "hwreg(1", '"text"', "scc", "m0", "lit(0)", ""),
)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_text_gives_an_error_or_an_instruction(name):
    arch, rng = get_arch(name), random.Random(8)
    for _, data in programs(name, seed=9, share=0.25):
        words = re.findall(r"\w+|\W", decode(arch, data).text)
        for _ in range(2):
            words[rng.randrange(len(words))] = rng.choice(_SHARDS)
        text = "".join(words)
        try:
            again = assemble_instruction(arch, text)
        except AsmError as error:
            assert error.reason and error.column >= 1, text
        else:
            assert decode(arch, again).size == len(again)


@pytest.mark.parametrize("text", ["s_nop " + "((" * 2000, "s_nop " + "1+" * 3000 + "1", "s_nop " + "~" * 3000 + "1"])
def test_deep_nesting_is_no_crash(text):
    """Whether it is too deep depends on the interpreter's stack."""
    with contextlib.suppress(AsmError):
        assemble(text, "gfx1100")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("v_mov_b32 v1, 1e400", "too large for a float"),
        (".float 1e39", "does not fit a 32-bit float"),
        ("v_fmamk_f16 v1.l, v2.l, 1e6, v3.l", "does not fit a 16-bit float"),
        (".long " + "9" * 9000, "9000 digits is too long"),
    ],
)
def test_numbers_out_of_range(text, reason):
    with pytest.raises(AsmError, match=reason):
        assemble(text, "gfx1100")
