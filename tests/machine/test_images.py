"""Image loads, stores, atomics and queries of linear images on RDNA3 and RDNA4."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.memory_bench import DESCRIPTOR, Bench

from mockgpu.isa.errors import NoSemanticsError
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.image_resource import descriptor

RDNA = pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
ADDRESS, DATA = 1, 16
WIDTH, HEIGHT, DEPTH = 10, 6, 3
IDENTITY = 0o7654
DIM_1D, DIM_2D, DIM_3D, DIM_CUBE, DIM_1D_ARRAY, DIM_2D_ARRAY, DIM_MSAA = range(7)


def bench(name: str, **fields: int) -> Bench:
    """A 2D image of 32_UINT texels unless the fields say otherwise; rows are padded to 256 bytes."""
    b = Bench(name, size=1 << 17)
    b.fill()
    family = b.arch.family
    common = {"base": b.va >> 8, "type": 9, "format": 20, "width": WIDTH - 1, "height": HEIGHT - 1, "dst_sel": IDENTITY}
    b.scalar(DESCRIPTOR, descriptor(family, **common | fields), 8)
    return b


def coordinates(b: Bench) -> tuple[Any, Any, Any]:
    """Lanes inside and outside the image."""
    lane = np.arange(b.lanes)
    return lane % (WIDTH + 2), lane * 5 % (HEIGHT + 1), lane * 3 % (DEPTH + 1)


def result(b: Bench, k: int = 0) -> Any:
    return b.batch.vgpr[DATA + k, 0]


@RDNA
def test_two_dimensions(name: str) -> None:
    b = bench(name)
    x, y, _ = coordinates(b)
    b.vector(ADDRESS, x)
    b.vector(ADDRESS + 1, y)
    b.image("IMAGE_LOAD", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)
    inside = (x < WIDTH) & (y < HEIGHT)
    assert (result(b) == np.where(inside, b.words[np.where(inside, y * 64 + x, 0)], 0)).all()
    before = b.words.copy()
    b.vector(DATA, np.arange(32) + 1)
    b.image("IMAGE_STORE", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)
    before[(y * 64 + x)[inside]] = np.arange(1, 33)[inside]
    assert (b.words == before).all()


@RDNA
@pytest.mark.parametrize("dim", [DIM_3D, DIM_2D_ARRAY, DIM_CUBE])
def test_slices(name: str, dim: int) -> None:
    kind = {DIM_3D: 10, DIM_2D_ARRAY: 13, DIM_CUBE: 11}[dim]
    first = 0 if dim == DIM_3D else 2
    b = bench(name, type=kind, depth=first + DEPTH - 1, base_array=2)
    x, y, z = coordinates(b)
    for k, value in enumerate((x, y, z)):
        b.vector(ADDRESS + k, value)
    b.image("IMAGE_LOAD", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=dim)
    inside = (x < WIDTH) & (y < HEIGHT) & (z < DEPTH)
    place = ((z + first) * HEIGHT + y) * 64 + x
    assert (result(b) == np.where(inside, b.words[np.where(inside, place, 0)], 0)).all()


@RDNA
def test_one_dimension_and_its_arrays(name: str) -> None:
    b = bench(name, type=8)
    b.vector(ADDRESS, np.arange(32))
    b.image("IMAGE_LOAD", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_1D)
    assert (result(b) == np.where(np.arange(32) < WIDTH, b.words[:32], 0)).all()
    b = bench(name, type=12, depth=DEPTH - 1)
    b.vector(ADDRESS, np.arange(32) % WIDTH)
    b.vector(ADDRESS + 1, np.arange(32) % 4)
    b.image("IMAGE_LOAD", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_1D_ARRAY)
    place = np.arange(32) % 4 * 64 + np.arange(32) % WIDTH
    assert (result(b) == np.where(np.arange(32) % 4 < DEPTH, b.words[place], 0)).all()


@RDNA
def test_a_pitch_in_the_descriptor(name: str) -> None:
    b = bench(name, pitch=100 - 1)
    b.vector(ADDRESS, 3)
    b.vector(ADDRESS + 1, 2)
    b.image("IMAGE_LOAD", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)
    assert (result(b) == b.words[2 * 100 + 3]).all()


@RDNA
def test_sixteen_bit_coordinates(name: str) -> None:
    b = bench(name, type=13, depth=DEPTH - 1)
    x, y, z = np.arange(32) % WIDTH, np.arange(32) % HEIGHT, np.arange(32) % DEPTH
    b.vector(ADDRESS, y << 16 | x)
    b.vector(ADDRESS + 1, 0xFFFF0000 | z)
    b.image("IMAGE_LOAD", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D_ARRAY, a16=1)
    assert (result(b) == b.words[(z * HEIGHT + y) * 64 + x]).all()


def test_separate_address_registers() -> None:
    b = bench("gfx1100")
    b.vector(40, 4)
    b.vector(7, 5)
    b.image("IMAGE_LOAD", "MIMG_NSA", vaddr=40, vaddr1=7, nsa=1, vdata=DATA, dmask=1, dim=DIM_2D)
    assert (result(b) == b.words[5 * 64 + 4]).all()
    b = bench("gfx1201")
    b.vector(40, 4)
    b.vector(7, 5)
    b.run("IMAGE_LOAD", rsrc=DESCRIPTOR, vaddr0=40, vaddr1=7, vdata=DATA, dmask=1, dim=DIM_2D)
    assert (result(b) == b.words[5 * 64 + 4]).all()


@RDNA
def test_masks_and_selectors(name: str) -> None:
    b = bench(name, format=46, dst_sel=1 << 9 | 4 << 6 | 5 << 3 | 6)  # 8_8_8_8_UINT: B, G, R, 1
    b.vector(ADDRESS, np.arange(32) % (WIDTH + 1))
    b.vector(DATA + 3, 77)
    b.image("IMAGE_LOAD", vaddr=ADDRESS, vdata=DATA, dmask=0b1101, dim=DIM_2D)
    x = np.arange(32) % (WIDTH + 1)
    bytes_ = b.data[: 4 * WIDTH].reshape(-1, 4)
    inside = x < WIDTH
    texel = bytes_[np.where(inside, x, 0)]
    assert (result(b) == np.where(inside, texel[:, 2], 0)).all()
    assert (result(b, 1) == np.where(inside, texel[:, 0], 0)).all()
    assert (result(b, 2) == 1).all()
    assert (result(b, 3) == 77).all()


@RDNA
def test_stores_fill_channels_that_the_mask_leaves_out(name: str) -> None:
    b = bench(name, format=46)
    for k, value in enumerate((11, 22, 33)):
        b.vector(DATA + k, value)
    b.image("IMAGE_STORE", vaddr=ADDRESS, vdata=DATA, dmask=0b1001, dim=DIM_2D)
    assert list(b.data[:4]) == [11, 11, 11, 22]


@RDNA
def test_sixteen_bit_data(name: str) -> None:
    b = bench(name, format=42)  # 8_8_8_8_UNORM
    b.vector(ADDRESS, np.arange(32) % WIDTH)
    b.vector(DATA + 1, 0x12340000)
    b.image("IMAGE_LOAD", vaddr=ADDRESS, vdata=DATA, dmask=0b0111, dim=DIM_2D, d16=1)
    texel = b.data[: 4 * WIDTH].reshape(-1, 4)[np.arange(32) % WIDTH]
    expected = (texel / 255).astype(np.float16).view(np.uint16).astype(np.uint32)
    assert (result(b) == (expected[:, 0] | expected[:, 1] << 16)).all()
    assert (result(b, 1) == (expected[:, 2] | 0x1234 << 16)).all()
    before = b.data.copy()
    b.image("IMAGE_STORE", vaddr=ADDRESS, vdata=DATA, dmask=0b0111, dim=DIM_2D, d16=1)
    assert (b.data[: 4 * WIDTH].reshape(-1, 4)[:, :3] == before[: 4 * WIDTH].reshape(-1, 4)[:, :3]).all()


@RDNA
def test_packed_forms_move_bits(name: str) -> None:
    b = bench(name, format=14)  # 8_8_UNORM
    b.vector(ADDRESS, np.arange(32) % WIDTH)
    b.image("IMAGE_LOAD_PCK", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)
    halves = b.data[: 2 * WIDTH].view(np.uint16)[np.arange(32) % WIDTH]
    assert (result(b) == halves).all()
    b.image("IMAGE_LOAD_PCK_SGN", vaddr=ADDRESS, vdata=DATA + 1, dmask=1, dim=DIM_2D)
    assert (result(b, 1) == halves.view(np.int16).astype(np.int32).view(np.uint32)).all()
    b.vector(DATA, 0xABCD1234)
    b.image("IMAGE_STORE_PCK", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)
    assert (b.data[: 2 * WIDTH].view(np.uint16) == 0x1234).all()
    wide = bench(name, format=49)  # 32_32_SINT
    wide.image("IMAGE_LOAD_PCK", vaddr=ADDRESS, vdata=DATA, dmask=3, dim=DIM_2D)
    assert (result(wide) == wide.words[0]).all()
    assert (result(wide, 1) == wide.words[1]).all()


@RDNA
def test_levels_beyond_the_only_one_do_not_exist(name: str) -> None:
    b = bench(name)
    b.vector(ADDRESS + 2, np.arange(32) % 2)
    b.image("IMAGE_LOAD_MIP", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)
    assert (result(b) == np.where(np.arange(32) % 2, 0, b.words[0])).all()
    before = b.words[0]
    b.vector(ADDRESS + 2, 1)
    b.vector(DATA, 3)
    b.image("IMAGE_STORE_MIP", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)
    assert b.words[0] == before


@RDNA
def test_resource_information(name: str) -> None:
    b = bench(name, type=10, depth=8 - 1, base_level=1, last_level=3, max_mip=4)
    b.vector(ADDRESS, np.arange(32) % 4)
    b.image("IMAGE_GET_RESINFO", vaddr=ADDRESS, vdata=DATA, dmask=0xF, dim=DIM_3D)
    assert [list(result(b, k)[:4]) for k in range(4)] == [[5, 2, 1, 0], [3, 1, 1, 0], [4, 2, 1, 0], [3] * 4]
    b = bench(name, type=13, depth=9, base_array=4)
    b.image("IMAGE_GET_RESINFO", vaddr=ADDRESS, vdata=DATA, dmask=0b0101, dim=DIM_2D_ARRAY)
    assert [int(result(b, k)[0]) for k in range(2)] == [WIDTH, 6]


def atomic_names(name: str) -> dict[str, str]:
    if name == "gfx1100":
        return {"add": "IMAGE_ATOMIC_ADD", "smax": "IMAGE_ATOMIC_SMAX"}
    return {"add": "IMAGE_ATOMIC_ADD_UINT", "smax": "IMAGE_ATOMIC_MAX_INT"}


def returning(name: str) -> dict[str, int]:
    return {"glc": 1} if name == "gfx1100" else {"th": 1}


@RDNA
def test_atomics(name: str) -> None:
    b = bench(name)
    b.words[:] = 1000
    x = np.arange(32) % (WIDTH + 2)
    b.vector(ADDRESS, x)
    b.vector(DATA, np.arange(32))
    names = atomic_names(name)
    b.image(names["add"], vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D, **returning(name))
    for texel in range(WIDTH):
        lanes = np.arange(32)[x == texel]
        assert b.words[texel] == 1000 + lanes.sum()
        assert list(result(b)[lanes]) == list(1000 + np.concatenate(([0], np.cumsum(lanes)[:-1])))
    assert (result(b)[x >= WIDTH] == 0).all()
    assert (b.words[WIDTH : 2 * WIDTH] == 1000).all()
    b.vector(DATA, 5000)
    b.image(names["smax"], vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)
    assert (b.words[:WIDTH] == 5000).all()
    assert (result(b) == 5000).all()


@RDNA
def test_compare_and_swap_and_wide_atomics(name: str) -> None:
    b = bench(name)
    b.words[:WIDTH] = np.arange(WIDTH)
    b.vector(ADDRESS, np.arange(32) % 32)
    b.vector(DATA, 99)
    b.vector(DATA + 1, 4)
    b.image("IMAGE_ATOMIC_CMPSWAP", vaddr=ADDRESS, vdata=DATA, dmask=3, dim=DIM_2D)
    assert list(b.words[:WIDTH]) == [0, 1, 2, 3, 99, *range(5, WIDTH)]
    wide = bench(name, format=48)  # 32_32_UINT
    wide.words[:2] = 0xFFFFFFFF, 0
    wide.exec(1)
    wide.vector(DATA, 1)
    wide.vector(DATA + 1, 0)
    wide.image(atomic_names(name)["add"], vaddr=ADDRESS, vdata=DATA, dmask=3, dim=DIM_2D, **returning(name))
    assert list(wide.words[:2]) == [0, 1]
    assert [int(result(wide, k)[0]) for k in range(2)] == [0xFFFFFFFF, 0]
    with pytest.raises(IllegalInstruction, match="32-bit atomic on an image of format 32_32_UINT"):
        wide.image(atomic_names(name)["add"], vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)
    with pytest.raises(IllegalInstruction, match="DMASK 0x5"):
        wide.image(atomic_names(name)["add"], vaddr=ADDRESS, vdata=DATA, dmask=5, dim=DIM_2D)


def test_packed_float_atomics() -> None:
    b = bench("gfx1201")
    b.exec(1)
    b.words[0] = np.array([1.5, -2.0], np.float16).view(np.uint32)[0]
    b.vector(DATA, np.array([0.25, 4.0], np.float16).view(np.uint32)[0])
    b.image("IMAGE_ATOMIC_PK_ADD_F16", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)
    assert list(b.words[:1].view(np.float16)) == [1.75, 2.0]


@RDNA
def test_unbound_and_other_resources(name: str) -> None:
    b = bench(name)
    b.scalar(DESCRIPTOR, 0, 8)
    b.vector(DATA, 5)
    b.image("IMAGE_LOAD", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)
    assert (result(b) == 0).all()
    b = bench(name, type=0)
    b.vector(DATA, 5)
    b.image("IMAGE_LOAD", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)
    assert (result(b) == 5).all()


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("gfx1100", {"sw_mode": 27}, "swizzle mode 64KB_R_X"),
        ("gfx1201", {"sw_mode": 3}, "swizzle mode 64KB_2D"),
        ("gfx1100", {"max_mip": 2}, "mip levels"),
        ("gfx1100", {"compressed": 1}, "compression"),
        ("gfx1100", {"type": 14}, "multisampled"),
        ("gfx1201", {"format": 121}, "BC7_UNORM"),
    ],
)
def test_what_is_not_modelled_is_named(name: str, fields: dict[str, int], message: str) -> None:
    b = bench(name, **fields)
    with pytest.raises(IllegalInstruction, match=message):
        b.image("IMAGE_LOAD", vaddr=ADDRESS, vdata=DATA, dmask=1, dim=DIM_2D)


@pytest.mark.parametrize(
    ("name", "opcode", "message"),
    [
        ("gfx1100", "IMAGE_GATHER4H", "filtered sampling"),
        ("gfx1201", "IMAGE_GET_LOD", "filtered sampling"),
        ("gfx1201", "IMAGE_BVH8_INTERSECT_RAY", "ray tracing"),
        ("gfx1100", "IMAGE_MSAA_LOAD", "multisampled"),
        ("gfx1100", "EXP", "export"),
        ("gfx1201", "EXPORT", "export"),
    ],
)
def test_graphics_is_refused_by_name(name: str, opcode: str, message: str) -> None:
    with pytest.raises(NoSemanticsError, match=f"graphics only: .*{message}"):
        Bench(name).run(opcode)


def test_an_empty_mask_loads_zeros() -> None:
    b = bench("gfx1100")
    b.vector(DATA, 5)
    b.image("IMAGE_LOAD", vaddr=ADDRESS, vdata=DATA, dmask=0, dim=DIM_2D)
    assert (result(b) == 0).all()
