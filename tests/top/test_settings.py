"""Every environment variable that is read: defaults, good values, bad values."""

from pathlib import Path

import pytest

from mockgpu import settings
from mockgpu.isa.errors import ConfigError

ROOT = Path(__file__).parents[2]
BAD = {
    "MOCKGPU": ["yes", "2", "on", "-1", "00"],
    "MOCKGPU_ARCH": ["gfx9999", "gfx950", "rdna3", "GFX1100", " gfx1100"],
    "MOCKGPU_DEVICES": ["0", "65", "-1", "two", "1.5", "٣", "1 "],
    "MOCKGPU_ENGINE": ["fast", "Oracle", "numpy"],
    "MOCKGPU_HOST_LEVEL": ["avx2", "x86-64-v1", "x86-64-v5", "Native"],
    "MOCKGPU_TIMEOUT": ["0", "-1", "nan", "inf", "1e9", "soon"],
    "MOCKGPU_VRAM": ["24", "24GB", "1M", "2000G", "G", "-1G", "1.5G"],
    "MOCKGPU_CLOCK": ["real", "WALL"],
    "MOCKGPU_LOG": ["loud", "INFO", "1"],
}
GOOD = {
    "MOCKGPU": {"0": False, "1": True, "": False},
    "MOCKGPU_ARCH": {"gfx1100": "gfx1100", "gfx1201": "gfx1201", "": None},
    "MOCKGPU_DEVICES": {"1": 1, "64": 64, "": 6},
    "MOCKGPU_ENGINE": {"oracle": "oracle"},
    "MOCKGPU_HOST_LEVEL": {"native": "native", "": "native"},
    "MOCKGPU_TIMEOUT": {"0.5": 0.5, "86400": 86400.0},
    "MOCKGPU_VRAM": {"512M": 512 << 20, "24G": 24 << 30, "24g": 24 << 30, "board": None, "": None},
    "MOCKGPU_CLOCK": {"work": "work", "wall": "wall"},
    "MOCKGPU_LOG": {"off": "off", "debug": "debug"},
}
FIELDS = dict(
    zip(
        settings.NAMES,
        ("on", "arch", "devices", "engine", "host_level", "timeout", "vram", "clock", "log"),
        strict=True,
    )
)


def test_every_setting_has_good_and_bad_values_here() -> None:
    assert list(BAD) == list(GOOD) == list(settings.NAMES)


def test_defaults() -> None:
    assert settings.read({}) == settings.Values(False, None, 6, "auto", "native", 60.0, None, "work", "warning")


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, texts in BAD.items() for t in texts])
def test_a_bad_value_is_refused_with_the_good_ones(name: str, text: str) -> None:
    row = next(s for s in settings.TABLE if s.name == name)
    with pytest.raises(ConfigError) as e:
        settings.read({name: text})
    assert str(e.value).startswith(f"{name}={text!r} is not understood; good values are: ")
    assert all(g in str(e.value) for g in row.good)


@pytest.mark.parametrize(("name", "text", "value"), [(n, t, v) for n, vs in GOOD.items() for t, v in vs.items()])
def test_a_good_value_is_read(name: str, text: str, value: object) -> None:
    assert getattr(settings.read({name: text}), FIELDS[name]) == value


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(
        settings.UnknownSettingError, match=r"MOCKGPU_DEVICE is not .*did you mean MOCKGPU_DEVICES\?.*MOCKGPU_LOG"
    ):
        settings.read({"MOCKGPU_DEVICE": "2"})
    with pytest.raises(settings.UnknownSettingError, match=r"MOCKGPU_ZZZZZZZZZ is not a setting of mockgpu\. The"):
        settings.read({"MOCKGPU_ZZZZZZZZZ": ""})


def test_the_readme_shows_this_table() -> None:
    assert settings.table_markdown() in (ROOT / "README.md").read_text()


def test_the_engines_are_those_that_exist() -> None:
    from mockgpu.isa.arch import get_arch
    from mockgpu.machine.engine import make_engine

    for name in settings.ENGINES:
        assert make_engine(get_arch("gfx1100"), name).name == name


def test_the_architectures_and_clocks_are_those_that_exist() -> None:
    from mockgpu.drivers.boards import BOARDS
    from mockgpu.machine.clock import CLOCKS

    assert list(BOARDS) == list(settings.ARCHS)
    assert list(CLOCKS) == list(settings.CLOCKS)
