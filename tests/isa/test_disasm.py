"""Disassembly, compared with LLVM's on random instructions of every opcode."""

import random
import re
from collections import Counter

import pytest
from support.llvm_mc import assemble, disassemble_one, require_llvm
from support.random_code import layouts, leaves, random_instruction

from mockgpu.isa.arch import get_arch
from mockgpu.isa.decode import decode
from mockgpu.isa.disasm import disassemble

# LLVM shows register halves of 16-bit operands on gfx12 only when told to; gfx11 does so by default.
FEATURES = {"gfx1200": "+real-true16", "gfx1201": "+real-true16"}

# Differences from LLVM that stay: (pattern of "LLVM's text | our text", reason).
EXPLAINED = [
    (r"^image_", "LLVM keeps placeholder widths where it has no pseudo instruction for a combination of sizes"),
    (r"\| image_", "LLVM falls back to a table of GFX9 for gfx12 image instructions it does not take"),
    (r"^s_version ", "LLVM names generations (UC_VERSION_GFX11); the raw number says the same"),
    (r"^v_(fma_mix|wmma|swmmac|pk).*0x", "LLVM cuts literals of packed operands to 16 bits"),
    (r"^v_cvt_pk_f32_(fp8|bf8)_.*0x", "LLVM cuts the literal to 16 bits in some forms on some targets"),
    (r"^v_cvt_pk_(fp8|bf8)_f32_e64_dpp ", "LLVM loses the last selector of the DPP control"),
    (r"^v_fmac_f(16|32)_e64_dpp ", "LLVM shows the encoding of an inline constant in src1 instead of its value"),
    (r"^s_set_gpr_idx_", "LLVM invents a modifier syntax for GFX9 index modes, which CDNA3 has dropped"),
    (r"^buffer_(inv|wbl2)", "LLVM shows cache bits that it considers meaningful only"),
    (r"hwreg\((\d+)", "the manual names hardware registers that LLVM does not know for this target"),
    (r"sendmsg\(MSG_(GS|SYSMSG)", "operations of graphics and system messages are shown as numbers"),
    (r"null \| .*reserved_125", "LLVM gives CDNA the null register of RDNA; the manual reserves the encoding"),
    (
        r"^(v_\S+ .*?)((?: clamp| mul:\d| div:2)*) \| \1 op_sel:\[[01,]+\]\2$",
        "LLVM drops op_sel of 16-bit operands where its assembler offers none; ours shows the bits that are set",
    ),
    (r"^v_mfma_ld_scale_b32", "the first half of a scaled matrix instruction whose second half LLVM does not take"),
]
SPACES = re.compile(r"\s+")


def explained(theirs: str, ours: str) -> bool:
    return any(re.search(pattern, f"{theirs} | {ours}") for pattern, _ in EXPLAINED)


def judged(text: str, size: int) -> bool:
    """Whether LLVM accepted the bytes without remark."""
    return size > 0 and "/*" not in text and "Warning" not in text


def compare(name: str, rounds: int, seed: int) -> tuple[Counter, list[str]]:
    """(counts, unexplained differences) over ``rounds`` instructions of every opcode and layout."""
    arch, rng = get_arch(name), random.Random(seed)
    counts: Counter = Counter()
    differences = []
    for leaf in leaves(arch):
        for layout in layouts(leaf, arch):
            for number in range(rounds):
                data = random_instruction(rng, arch, leaf, layout, modifiers=bool(number % 2))
                theirs, size = disassemble_one(data, name, FEATURES.get(name, ""))
                if not judged(theirs, size):
                    counts["not judged"] += 1
                    continue
                ours, theirs = decode(arch, data).text, SPACES.sub(" ", theirs)
                if ours == theirs:
                    counts["equal"] += 1
                elif explained(theirs, ours):
                    counts["explained"] += 1
                else:
                    differences.append(f"{data.hex()}: LLVM {theirs!r}, ours {ours!r}")
    return counts, differences


@pytest.mark.parametrize(
    ("name", "rounds", "least_equal"),
    [("gfx1100", 7, 21500), ("gfx1151", 1, 3000), ("gfx1201", 7, 21500), ("gfx942", 12, 21500), ("gfx950", 11, 21500)],
)
def test_text_equals_llvm(name, rounds, least_equal):
    require_llvm()
    counts, differences = compare(name, rounds, seed=2)
    assert not differences, "\n".join(differences[:20])
    assert counts["equal"] >= least_equal
    assert counts["explained"] < 0.02 * counts["equal"]


# Text that must survive assembling and disassembling.
PROGRAM = """
s_load_b128 s[0:3], s[0:1], 0x10
s_waitcnt lgkmcnt(0)
v_mad_u64_u32 v[2:3], null, s2, v1, v[4:5]
v_cmp_gt_f32_e32 vcc_lo, 0x41200000, v0
v_cndmask_b32_e64 v1, v2, -1.0, s5
s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)
v_pk_fma_f16 v1, v2, v3, v4 op_sel:[0,1,0] op_sel_hi:[1,0,1] neg_lo:[0,0,1]
v_fma_mix_f32 v1, v2, v3, v4 op_sel_hi:[1,1,0]
v_add_f16_e64 v1.h, v2.l, v3.h op_sel:[0,1,1]
v_mov_b32_dpp v1, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
v_dual_fmac_f32 v1, v2, v3 :: v_dual_mul_f32 v4, 2.0, v5
v_wmma_f32_16x16x16_f16 v[16:23], v[0:7], v[8:15], v[16:23]
ds_store_2addr_b64 v1, v[2:3], v[4:5] offset0:1 offset1:2
ds_swizzle_b32 v1, v2 offset:swizzle(SWAP,16)
buffer_load_b128 v[4:7], v1, s[8:11], null offen offset:16 slc
global_load_b128 v[4:7], v1, s[2:3] offset:-4096
global_atomic_add_f32 v1, v2, v3, s[4:5] glc
scratch_store_b32 off, v1, s2 offset:16
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3
s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)
s_endpgm
""".strip().splitlines()


def test_text_assembles_to_the_same_bytes():
    require_llvm()
    for line in PROGRAM:
        data = assemble(line, "gfx1100")
        inst = decode(get_arch("gfx1100"), data)
        assert (inst.text, inst.size) == (line, len(data))


def test_branch_targets_need_the_address():
    inst = decode(get_arch("gfx1100"), bytes.fromhex("fcffa0bf"))
    assert disassemble(inst) == "s_branch 65532"
    assert disassemble(inst, pc=0x1000) == "s_branch 0xff4"


def test_lane_masks_follow_the_wave_size():
    inst = decode(get_arch("gfx1100"), bytes.fromhex("0207247c"))
    assert disassemble(inst, wave_size=32) == "v_cmp_eq_f32_e32 vcc_lo, v2, v3"
    assert disassemble(inst, wave_size=64) == "v_cmp_eq_f32_e32 vcc, v2, v3"


def test_text_equals_llvm_in_wave64():
    require_llvm()
    arch, rng = get_arch("gfx1100"), random.Random(3)
    for leaf in leaves(arch):
        if leaf.base.name not in ("VOP2", "VOPC", "VOP3SD", "VOP3_SDST"):
            continue
        data = random_instruction(rng, arch, leaf, layouts(leaf, arch)[0], modifiers=False)
        theirs, size = disassemble_one(data, "gfx1100", "+wavefrontsize64")
        if judged(theirs, size):
            assert disassemble(decode(arch, data), wave_size=64) == SPACES.sub(" ", theirs)
