"""Sampling that picks texels, and gathers, on RDNA3 and RDNA4."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.memory_bench import DESCRIPTOR, Bench

from mockgpu.isa.arch import get_arch
from mockgpu.isa.canonical import table_opcodes
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.image_resource import descriptor
from mockgpu.machine.image_sampler import sampler

RDNA = pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
ADDRESS, DATA, SAMPLER = 1, 32, DESCRIPTOR + 8
W, H = 10, 6
LANE = np.arange(32)
U, V = (LANE * 7 % 41 - 15) / 10 + 0.03, (LANE * 5 % 23 - 9) / 6 + 0.05
NAMES = [
    o.name
    for o in table_opcodes(get_arch("gfx1100"))
    if o.name.startswith(("IMAGE_SAMPLE", "IMAGE_GATHER4")) and o.name != "IMAGE_GATHER4H"
]


def f32(values: Any) -> Any:
    return np.broadcast_to(np.asarray(values, np.float32), 32).copy().view(np.uint32)


def bench(name: str, samp: dict[str, int] | None = None, **fields: int) -> Bench:
    b = Bench(name, size=1 << 16)
    b.fill()
    common = {"base": b.va >> 8, "type": 9, "format": 20, "width": W - 1, "height": H - 1, "dst_sel": 0o7654}
    b.scalar(DESCRIPTOR, descriptor(b.arch.family, **common | fields), 8)
    b.scalar(SAMPLER, sampler(**samp or {}), 4)
    return b


def run(b: Bench, opcode: str, address: list[Any], **fields: int) -> None:
    for k, value in enumerate(address):
        b.vector(ADDRESS + k, value)
    given = {"vdata": DATA, "dmask": 1, "dim": 1} | fields
    if b.arch.family == "rdna3":
        b.run(opcode, srsrc=DESCRIPTOR >> 2, ssamp=SAMPLER >> 2, vaddr=ADDRESS, **given)
    else:
        places = {f"vaddr{k}": ADDRESS + k for k in range(4)}
        b.run(opcode, rsrc=DESCRIPTOR, samp=SAMPLER, **places, **given)


def result(b: Bench, k: int = 0) -> Any:
    return b.batch.vgpr[DATA + k, 0]


def clamped(t: int, size: int, mode: int) -> int:
    """The texel by walking, -1 for the border."""
    if mode == 0:
        return t % size
    if mode == 1:
        return [*range(size), *reversed(range(size))][t % (2 * size)]
    if mode in (3, 7) and t < 0:
        t = -1 - t
    return min(max(t, 0), size - 1) if mode in (2, 3) or 0 <= t < size else -1


def expected(b: Bench, mode: int, dx: int = 0, dy: int = 0, half: float = 0.0, border: int = 0) -> Any:
    out = []
    for u, v in zip(U, V, strict=True):
        x = clamped(int(np.floor(u * W - half)) + dx, W, mode)
        y = clamped(int(np.floor(v * H - half)) + dy, H, mode)
        out.append(border if min(x, y) < 0 else int(b.words[y * 64 + x]))
    return np.array(out, np.uint32)


@RDNA
@pytest.mark.parametrize("opcode", NAMES)
def test_every_variant_reads_its_address(name: str, opcode: str) -> None:
    words, compares = opcode.split("_"), "_C_" in opcode + "_"
    b = bench(name, {"depth_compare_func": 1}, format=22 if compares else 20)
    b.words[:] = np.random.RandomState(3).rand(b.words.size).astype(np.float32).view(np.uint32)
    address: list[Any] = [np.full(32, 0x3E | 3 << 8)] if "O" in words else []  # x - 2, y + 3
    address += [f32(9.0)] if "B" in words else []
    address += [f32(0.5)] if compares else []
    address += [f32(5.0)] * (2 if "G16" in words else 4) if "D" in words else []
    address += [f32(U), f32(V)] + [f32(1.0)] * ("L" in words or "CL" in words)
    run(b, opcode, address)
    dx, dy = (-2, 3) if "O" in words else (0, 0)
    gather = "GATHER4" in words
    for k, (i, j) in enumerate([(0, 1), (1, 1), (1, 0), (0, 0)] if gather else [(0, 0)]):
        want = expected(b, 0, dx + i, dy + j, 0.5 if gather else 0.0)
        if compares:
            want = f32(want.view(np.float32) > 0.5)
        assert (result(b, k) == want).all()


@RDNA
@pytest.mark.parametrize("mode", [0, 1, 2, 3, 6, 7])
@pytest.mark.parametrize("color", [0, 1, 2])
def test_clamp_modes(name: str, mode: int, color: int) -> None:
    b = bench(name, {"clamp_x": mode, "clamp_y": mode, "border_color_type": color})
    run(b, "IMAGE_SAMPLE_LZ", [f32(U), f32(V)])
    assert (result(b) == expected(b, mode, border=int(color == 2))).all()


@RDNA
@pytest.mark.parametrize("function", range(8))
def test_comparisons(name: str, function: int) -> None:
    b = bench(name, {"depth_compare_func": function}, format=22)
    b.words[:] = f32(0.5)[0]
    reference = np.array([0.25, 0.5, 0.75, np.nan] * 8, np.float32)
    run(b, "IMAGE_SAMPLE_C_LZ", [f32(reference), f32(0), f32(0)])
    r = reference
    passed = [r != r, r < 0.5, r == 0.5, r <= 0.5, r > 0.5, r != 0.5, r >= 0.5, r == r][function]
    assert (result(b) == f32(np.where(function == 7, True, passed))).all() or function == 0
    assert function or not result(b).any()


@RDNA
def test_texel_coordinates_and_halves(name: str) -> None:
    x, y = LANE % W + 0.5, LANE % H + 0.25
    place = LANE % H * 64 + LANE % W
    b = bench(name, {"force_unnormalized": 1})
    run(b, "IMAGE_SAMPLE_LZ", [f32(x), f32(y)])
    assert (result(b) == b.words[place]).all()
    b = bench(name)
    packed = x.astype(np.float16).view(np.uint16) | y.astype(np.float16).view(np.uint16).astype(np.uint32) << 16
    run(b, "IMAGE_SAMPLE", [packed], unrm=1, a16=1)
    assert (result(b) == b.words[place]).all()


@RDNA
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"xy_min_filter": 1}, "filtered sampling: XY_MIN_FILTER is BILINEAR"),
        ({"xy_mag_filter": 3}, "filtered sampling: XY_MAG_FILTER is ANISO_LINEAR"),
        ({"z_filter": 2}, "filtered sampling: Z_FILTER is LINEAR"),
        ({"mip_filter": 2}, "filtered sampling: MIP_FILTER is LINEAR"),
        ({"clamp_y": 4}, "CLAMP_Y is a half border"),
        ({"clamp_x": 6, "border_color_type": 3}, "BORDER_COLOR_TYPE is a palette"),
        ({"force_degamma": 1}, "FORCE_DEGAMMA"),
    ],
)
def test_what_is_not_modelled_is_named(name: str, fields: dict[str, int], message: str) -> None:
    with pytest.raises(IllegalInstruction, match=message):
        run(bench(name, fields), "IMAGE_SAMPLE_LZ", [f32(0), f32(0)])


@RDNA
@pytest.mark.parametrize("field", ["tfe", "lwe"])
def test_status_is_refused(name: str, field: str) -> None:
    with pytest.raises(IllegalInstruction, match="TFE and LWE"):
        run(bench(name), "IMAGE_SAMPLE_LZ", [f32(0), f32(0)], **{field: 1})
