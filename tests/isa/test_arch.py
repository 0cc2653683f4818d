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
