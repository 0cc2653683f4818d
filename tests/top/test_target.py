"""What DEV becomes, and what is refused."""

import pytest

from mockgpu import target
from mockgpu.isa.errors import ConfigError, UnknownArchError

REWRITTEN = {
    "": "MOCKKFD+AMD:LLVM",
    "AMD": "MOCKKFD+AMD:LLVM",
    "amd": "MOCKKFD+AMD:LLVM",
    "AMD:LLVM": "MOCKKFD+AMD:LLVM",
    "AMD:HIP": "MOCKKFD+AMD:HIP",
    "AMD::gfx1201": "MOCKKFD+AMD:LLVM:gfx1201",
    "AMD:LLVM:gfx1201": "MOCKKFD+AMD:LLVM:gfx1201",
    "KFD+AMD": "MOCKKFD+AMD:LLVM",
    "KFD:0,2+AMD:HIP": "MOCKKFD:0,2+AMD:HIP",
    "MOCK+AMD": "MOCKKFD+AMD:LLVM",
    "MOCKKFD+AMD": "MOCKKFD+AMD:LLVM",
    "::gfx1201": "MOCKKFD+AMD:LLVM:gfx1201",
    "CPU": "CPU",
    "cpu": "cpu",
    "CPU:LLVM": "CPU:LLVM",
    "PYTHON": "PYTHON",
    "CPU;AMD": "CPU;MOCKKFD+AMD:LLVM",
    "AMD;CPU:CLANG": "MOCKKFD+AMD:LLVM;CPU:CLANG",
}


@pytest.mark.parametrize(("dev", "expected"), REWRITTEN.items())
def test_dev_is_rewritten(dev: str, expected: str) -> None:
    assert target.plan(dev, None).dev == expected


@pytest.mark.parametrize("dev", REWRITTEN)
def test_a_child_that_inherits_the_rewritten_dev_keeps_it(dev: str) -> None:
    once = target.plan(dev, None)
    assert target.plan(once.dev, None) == once


@pytest.mark.parametrize("dev", REWRITTEN)
def test_the_rewritten_dev_means_the_same_to_tinygrad(dev: str) -> None:
    from tinygrad.helpers import Target

    for text in target.plan(dev, None).dev.split(";"):
        ours, theirs = target.parse(text), Target.parse(text)
        fields = ("interface", "indices", "device", "renderer", "arch")
        assert [getattr(ours, f) for f in fields] == [getattr(theirs, f) for f in fields]


@pytest.mark.parametrize(
    "dev", ["NV", "CUDA", "PCI+AMD", "USB+AMD", "MOCKPCI+AMD", "MOCKUSB+AMD", "MOCK+NV", "MOCK+CUDA", "CPU;NV", "X+AMD"]
)
def test_what_has_no_emulation_is_refused_with_what_has(dev: str) -> None:
    with pytest.raises(target.NotEmulatedError, match=r"DEV=.* is not emulated; good values are: AMD, .*CPU"):
        target.plan(dev, None)


@pytest.mark.parametrize("dev", ["A+B+AMD", "AMD:LLVM:gfx1100:x"])
def test_malformed_text_is_refused(dev: str) -> None:
    with pytest.raises(ConfigError, match=r"DEV=.*good values are: AMD"):
        target.plan(dev, None)


@pytest.mark.parametrize(
    ("dev", "hint"),
    [
        ("AMD:gfx1100", r"did you mean AMD:LLVM:gfx1100\?"),
        ("AMD:GFX1201", r"did you mean AMD:LLVM:gfx1201\?"),
        ("AMD:1", r'as in Tensor\(\.\.\., device="AMD:1"\)'),
        ("AMD:9999", r"its renderers are LLVM, HIP, HIPCC"),
        ("AMD:CLANG:gfx1100", "the form is AMD:RENDERER:ARCH"),
    ],
)
def test_what_is_no_renderer_of_amd_is_refused_with_a_hint(dev: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=rf"DEV='.*': AMD has no renderer .*{hint}.* Good values are: AMD, AMD:LLVM,"):
        target.plan(dev, None)


def test_an_unknown_architecture_lists_the_known_ones() -> None:
    with pytest.raises(UnknownArchError, match=r"gfx9999.*gfx1100, gfx1201"):
        target.plan("AMD:LLVM:gfx9999", None)


def test_the_architecture_comes_from_dev_then_from_the_setting_then_from_the_default() -> None:
    assert target.plan("AMD:LLVM:gfx1201", None).arch == "gfx1201"
    assert target.plan("AMD:LLVM:gfx1201", "gfx1201").arch == "gfx1201"
    assert target.plan("AMD", "gfx1201").arch == "gfx1201"
    assert target.plan("CPU", None).arch == "gfx1100"


def test_a_conflict_between_dev_and_the_setting_is_an_error() -> None:
    with pytest.raises(target.ConflictError, match=r"DEV and MOCKGPU_ARCH ask for .*gfx1100 and gfx1201"):
        target.plan("AMD:LLVM:gfx1201", "gfx1100")
    with pytest.raises(target.ConflictError, match="the targets of DEV ask"):
        target.plan("AMD:LLVM:gfx1201;AMD:HIP:gfx1100", None)


def test_only_the_llvm_renderer_needs_llvm() -> None:
    assert target.plan("AMD", None).needs_llvm
    assert not target.plan("AMD:HIP", None).needs_llvm
    assert not target.plan("CPU:LLVM", None).needs_llvm
