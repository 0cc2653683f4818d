"""Architecture records and the decode tables built for them."""

import pytest

from mockgpu.isa.arch import arch_names, get_arch
from mockgpu.isa.decode import Claim, OverlapError, build_tree, decode_tree, opcode_claims
from mockgpu.isa.errors import ConfigError, UnknownArchError


def test_unknown_architecture_lists_the_good_names():
    with pytest.raises(UnknownArchError) as caught:
        get_arch("gfx1099")
    assert isinstance(caught.value, ConfigError)
    assert caught.value.allowed == arch_names()
    assert "gfx1100" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "family", "waves", "lds"),
    [
        ("gfx1100", "rdna3", (32, 64), 65536),
        ("gfx1201", "rdna4", (32, 64), 65536),
        ("gfx942", "cdna", (64,), 65536),
        ("gfx950", "cdna", (64,), 163840),
    ],
)
def test_records(name, family, waves, lds):
    arch = get_arch(name)
    assert (arch.family, arch.wave_sizes, arch.lds_bytes) == (family, waves, lds)
    assert arch.wave32 == (32 in waves)


def test_null_and_m0_trade_places_between_families():
    assert (get_arch("gfx1100").null_register, get_arch("gfx1100").m0_register) == (124, 125)
    assert (get_arch("gfx942").null_register, get_arch("gfx942").m0_register) == (None, 124)


def test_targets_of_one_family_differ_in_opcodes():
    assert get_arch("gfx950").has_opcode("V_BITOP3_B32")
    assert not get_arch("gfx942").has_opcode("V_BITOP3_B32")
    assert not get_arch("gfx950").has_opcode("V_MFMA_F32_16X16X8_XF32")


@pytest.mark.parametrize("family", ["rdna3", "rdna4", "cdna"])
def test_no_two_opcodes_claim_one_bit_pattern(family):
    tree = decode_tree(family)
    assert len(tree) == 512
    assert sum(bool(nodes) for nodes in tree) > 200


def test_an_overlap_is_refused():
    claim = next(claim for claim in opcode_claims("rdna3") if claim.leaf.base.name == "VOP2")
    wider = Claim(0x80000000, 0, claim.leaf)
    with pytest.raises(OverlapError, match="both claim"):
        build_tree([claim, wider])
    with pytest.raises(OverlapError, match="both claim"):
        build_tree([claim, claim])


def test_gfx90a_lacks_what_came_with_later_targets():
    arch = get_arch("gfx90a")
    for name in ("V_MFMA_F32_32X32X8_F16", "V_MFMA_F64_16X16X4_F64", "V_PK_FMA_F32", "V_DOT2C_F32_F16_E32"):
        assert arch.has_opcode(name)
    for name in ("V_CVT_F32_FP8_E32", "V_SMFMAC_F32_16X16X32_F16", "V_MOV_B64_E32", "V_MFMA_F32_16X16X16_BF16"):
        assert not arch.has_opcode(name)


def test_targets_without_tables_say_why():
    for name in ("gfx1030", "gfx1250"):
        with pytest.raises(UnknownArchError, match="no generated table"):
            get_arch(name)


def test_targets_that_borrow_tables_say_what_is_assumed():
    assert all(get_arch(name).assumed for name in ("gfx90a", "gfx1151", "gfx1200"))
