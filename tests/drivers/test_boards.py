"""Board records agree with themselves."""

import pytest

from mockgpu.drivers.boards import BOARDS, get_board
from mockgpu.isa.arch import get_arch
from mockgpu.isa.errors import UnknownArchError


@pytest.mark.parametrize("arch", sorted(BOARDS))
def test_target_version_names_the_architecture(arch: str) -> None:
    board = get_board(arch)
    version = board.gfx_target_version
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    assert arch == f"gfx{major}{minor:x}{step:x}"
    assert board.gc == (major, minor, step) == get_arch(arch).target


@pytest.mark.parametrize("arch", sorted(BOARDS))
def test_topology_counts_are_consistent(arch: str) -> None:
    board = get_board(arch)
    node = board.topology(render_minor=128, location_id=0, unique_id=1)
    assert node["simd_count"] == board.compute_units * node["simd_per_cu"]
    assert node["array_count"] == board.shader_engines * node["simd_arrays_per_engine"] * node["num_xcc"]
    assert node["lds_size_in_kb"] * 1024 == get_arch(arch).lds_bytes


def test_unknown_board_lists_the_known() -> None:
    with pytest.raises(UnknownArchError, match="gfx1100"):
        get_board("gfx1")
