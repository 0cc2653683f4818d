"""Registers by name, and reads of those that nobody models."""

import logging

import pytest

from mockgpu.drivers.boards import BOARDS, get_board
from mockgpu.isa.errors import ConfigError
from mockgpu.machine.registers import IpBlock, RegisterFile, register_map


def registers(arch: str = "gfx1100") -> RegisterFile:
    return RegisterFile(register_map(get_board(arch).register_blocks))


@pytest.mark.parametrize("arch", sorted(BOARDS))
def test_registers_of_a_dispatch_exist_and_lie_in_the_sh_window(arch: str) -> None:
    file = registers(arch)
    for name in ("PGM_LO", "USER_DATA_15", "DISPATCH_INITIATOR", "DISPATCH_SCRATCH_BASE_HI", "TMPRING_SIZE"):
        assert 0x2C00 <= file.register(f"COMPUTE_{name}").address < 0x3000


def test_address_and_name_agree() -> None:
    file = registers()
    register = file.register("COMPUTE_PGM_LO")
    assert file.map.name(register.address) == "COMPUTE_PGM_LO"
    assert file.map.name(0x3FFFFFF) == "register 0x3ffffff"


def test_fields_encode_and_decode() -> None:
    register = registers().register("COMPUTE_PGM_RSRC2")
    value = register.encode(lds_size=5, user_sgpr=3)
    assert (register.field(value, "lds_size"), register.field(value, "user_sgpr")) == (5, 3)
    with pytest.raises(ValueError, match="does not fit"):
        register.encode(user_sgpr=32)


def test_unmodelled_read_is_reported_once_by_name(caplog: pytest.LogCaptureFixture) -> None:
    file = registers()
    address = file.register("GRBM_STATUS").address
    with caplog.at_level(logging.WARNING, "mockgpu.registers"):
        assert file.read(address) == file.read(address) == 0
    assert [r.getMessage() for r in caplog.records] == [f"read of GRBM_STATUS ({address:#x}), which is not modelled: 0"]


def test_unknown_ip_version_lists_the_tables() -> None:
    with pytest.raises(ConfigError, match="gc_11_0_0"):
        register_map((IpBlock("gc", (99, 0, 0), "GC", "navi_offsets"),))


def test_newest_table_not_newer_than_the_version_is_taken() -> None:
    assert register_map((IpBlock("gc", (11, 0, 1), "GC", "navi_offsets"),)).by_name["COMPUTE_PGM_LO"].address == 0x2E0C
