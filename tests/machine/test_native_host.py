"""Which host code is made for."""

import re

import pytest

from mockgpu.isa.errors import ConfigError
from mockgpu.machine.native import host
from mockgpu.machine.native.compile import assembly

WIDE_ADD = """
define void @add(ptr %a, ptr %b) {
  %x = load <32 x float>, ptr %a, align 64
  %y = load <32 x float>, ptr %b, align 64
  %z = fadd <32 x float> %x, %y
  store <32 x float> %z, ptr %a, align 64
  ret void
}
"""
#: Linux' names of the features that x86-64 levels add (x86-64 psABI, section 3.1.1).
LINUX = {
    "x86-64-v2": "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
    "x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
}
OLD = "cmov cx8 fxsr mmx sse sse2"


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch):
    """Pretend that this is an x86-64 machine with some flags."""

    def pretend(flags: str, machine: str = "x86_64") -> None:
        monkeypatch.setattr(host.platform, "machine", lambda: machine)
        monkeypatch.setattr(host, "_cpuinfo", lambda: {"flags": flags, "model": "1"})

    return pretend


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_levels_of_a_machine(cpu, count: int) -> None:
    cpu(" ".join([OLD, *list(LINUX.values())[:count]]))
    have = ("native", *list(LINUX)[:count])
    assert host.host_levels() == have
    for level in have:
        host.check_level(level)
    for level in set(LINUX) - set(have):
        with pytest.raises(ConfigError, match=f"MOCKGPU_HOST_LEVEL='{level}' .* {', '.join(have)}$"):
            host.host_target(level)


def test_one_missing_feature_takes_the_level_away(cpu) -> None:
    cpu(" ".join([OLD, LINUX["x86-64-v2"], LINUX["x86-64-v3"].replace("f16c", "")]))
    assert host.host_levels() == ("native", "x86-64-v2")


def test_other_machines_have_no_levels_of_x86(cpu) -> None:
    cpu(" ".join(LINUX.values()), machine="arm64")
    assert host.host_levels() == ("native",)
    with pytest.raises(ConfigError, match=r"good values are: native$"):
        host.check_level("x86-64-v2")


def test_a_machine_without_native_code_is_named(cpu) -> None:
    cpu("", machine="riscv64")
    with pytest.raises(host.HostError, match="not for riscv64"):
        host._native()


@pytest.mark.parametrize("name", ["", "x86-64-v1", "avx512", "aarch64"])
def test_an_unknown_level_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="MOCKGPU_HOST_LEVEL"):
        host.host_target(name)


def test_features_go_up_with_the_level() -> None:
    v2, v3, v4 = (host.target(name).features for name in LINUX)
    assert v2 < v3 < v4
    assert "fma" not in v2 and {"fma", "f16c"} <= v3 and "avx512f" not in v3 and "avx512f" in v4


@pytest.mark.parametrize(("name", "register"), [("x86-64-v2", "xmm"), ("x86-64-v3", "ymm"), ("x86-64-v4", "zmm")])
def test_vectors_are_as_wide_as_the_level_allows(name: str, register: str) -> None:
    adds = [line for line in assembly(WIDE_ADD, host.target(name)).splitlines() if "addps" in line]
    assert len(adds) == {"xmm": 8, "ymm": 4, "zmm": 2}[register]
    assert all(register in line for line in adds)


def test_native_code_uses_512_bits_where_there_are_any() -> None:
    own = host.target()
    text = assembly(WIDE_ADD, own)
    assert bool(re.search(r"addps.*zmm", text)) == ("avx512f" in own.features)


def test_the_identity_changes_with_the_cpu_alone(cpu) -> None:
    cpu("avx")
    first, level = host.identity(), host.identity("x86-64-v3")
    assert host.identity() == first
    cpu("avx avx2")
    assert host.identity() != first
    assert host.identity("x86-64-v3") == level
