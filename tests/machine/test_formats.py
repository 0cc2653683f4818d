"""Data formats: layout, and every conversion against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support import exact

from mockgpu.isa.disasm_memory import BUFFER_FORMATS
from mockgpu.machine.format_convert import load_channel, store_element
from mockgpu.machine.formats import DataFormat, split_format, unified_format

F32, F16 = exact.Format(8, 23, 127), exact.Format(5, 10, 15)
IMAGE_NUMBERS = (*range(64, 67), *range(68, 73))
NUMBERS = (*range(1, len(BUFFER_FORMATS)), *IMAGE_NUMBERS)
ZERO, NEAREST = exact.ZERO, exact.NEAREST


def fmt_of(number: int) -> DataFormat:
    fmt = unified_format(number)
    assert fmt is not None
    return fmt


def patterns(bits: int, count: int = 120) -> list[int]:
    """All patterns of a narrow channel, edges and some others of a wide one."""
    if bits <= 8:
        return list(range(1 << bits))
    top = (1 << bits) - 1
    edges = {0, 1, 2, top, top - 1, top >> 1, (top >> 1) + 1, (top >> 1) - 1, (top >> 1) + 2}
    if bits == 32:
        edges |= {0x3F800000, 0xBF800001, 0x7F800000, 0xFF800000, 0x00000001, 0x477FE000, 0x477FFFFF, 0x47800000}
    rng = np.random.default_rng(bits)
    return sorted(edges | {int(x) for x in rng.integers(0, top, count, endpoint=True)})


def place(fmt: DataFormat, channel: int, values: list[int]) -> list[np.ndarray]:
    """Dwords of elements in which one channel has the values, and the others ones."""
    other = (1 << 8 * fmt.nbytes) - 1
    c = fmt.channels[channel]
    hole = other ^ ((1 << c.bits) - 1) << c.lo
    elements = [hole | v << c.lo for v in values]
    return [np.array([[e >> 32 * k & 0xFFFFFFFF for e in elements]], np.uint32) for k in range(-(-fmt.nbytes // 4))]


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> bits - 1 else x


def number(kind: str, bits: int, x: int) -> Fraction | None:
    """The exact number of a pattern; None for infinities and NaN."""
    if kind == "unorm":
        return Fraction(x, (1 << bits) - 1)
    if kind == "snorm":
        return max(Fraction(signed(x, bits), (1 << bits - 1) - 1), Fraction(-1))
    if kind == "uscaled":
        return Fraction(x)
    if kind == "sscaled":
        return Fraction(signed(x, bits))
    source = {32: F32, 16: F16}.get(bits) or exact.Format(5, bits - 5, 15)
    return None if x & source.inf == source.inf else exact.value(source, x)


def loaded(kind: str, bits: int, x: int, to: int) -> int | None:
    """What a register of ``to`` bits gets."""
    if kind in ("uint", "sint"):
        wide = x if kind == "uint" else signed(x, bits)
        return wide & (1 << to) - 1
    value = number(kind, bits, x)
    if value is None:
        return None
    cut = kind == "float" and bits == 32 and to == 16
    minus = kind == "float" and bits >= 16 and bool(x >> bits - 1)
    return exact.encode(F32 if to == 32 else F16, value, ZERO if cut else NEAREST, minus=minus)


@pytest.mark.parametrize("to", [32, 16])
@pytest.mark.parametrize("number_", NUMBERS)
def test_loads_are_correctly_rounded(number_: int, to: int) -> None:
    fmt = fmt_of(number_)
    if fmt.channels[0].number == "srgb":
        return srgb_loads(fmt, to)
    for k, channel in enumerate(fmt.channels):
        values = patterns(channel.bits)
        got = load_channel(fmt, k, place(fmt, k, values), to)[0]
        for x, seen in zip(values, got, strict=True):
            expected = loaded(channel.number, channel.bits, x, to)
            assert expected is None or expected == seen, (fmt.name, k, hex(x), hex(seen))
    return None


def srgb_loads(fmt: DataFormat, to: int) -> None:
    """Ends and monotony: the curve itself is a formula."""
    values = list(range(256))
    got = load_channel(fmt, 0, place(fmt, 0, values), to)[0]
    assert got[0] == 0
    assert got[255] == (0x3F800000 if to == 32 else 0x3C00)
    assert (np.diff(got.astype(np.int64)) > 0).all()


@pytest.mark.parametrize("number_", NUMBERS)
def test_what_is_loaded_is_stored_again(number_: int) -> None:
    fmt = fmt_of(number_)
    widest = max(c.bits for c in fmt.channels)
    values = [x for x in patterns(widest) if not special(fmt, x)]
    elements = [sum((x & (1 << c.bits) - 1) << c.lo for c in fmt.channels) for x in values]
    words = [np.array([[e >> 32 * k & 0xFFFFFFFF for e in elements]], np.uint32) for k in range(-(-fmt.nbytes // 4))]
    registers = [load_channel(fmt, k, words, 32) for k in range(len(fmt.channels))]
    for before, after in zip(words, store_element(fmt, registers, 32), strict=True):
        assert (before == after).all(), fmt.name


def special(fmt: DataFormat, x: int) -> bool:
    """Patterns that another pattern stands for as well: the lowest snorm, and NaN."""
    for c in fmt.channels:
        y = x & (1 << c.bits) - 1
        if c.number == "snorm" and y == 1 << c.bits - 1:
            return True
        if c.number == "float" and number("float", c.bits, y) is None:
            return True
    return False


@pytest.mark.parametrize("to", [32, 16])
@pytest.mark.parametrize("kind", ["unorm", "snorm", "uscaled", "sscaled"])
@pytest.mark.parametrize("bits", [8, 16])
def test_stores_saturate_and_round_to_nearest_even(kind: str, bits: int, to: int) -> None:
    fmt = next(fmt_of(n) for n in NUMBERS if fmt_of(n).name == f"{bits}_{kind.upper()}")
    source = F32 if to == 32 else F16
    rng = np.random.default_rng(3)
    inputs = [int(x) for x in rng.integers(0, 1 << to, 300)]
    inputs += [exact.encode(source, Fraction(n, 512)) for n in range(-600, 600, 7)]
    inputs += [exact.encode(source, Fraction(2 * n + 1, 2)) for n in range(-6, 7)]
    top = (1 << bits) - 1 if kind[0] == "u" else (1 << bits - 1) - 1
    low = {"unorm": 0, "snorm": -top, "uscaled": 0, "sscaled": -top - 1}[kind]
    got = store_element(fmt, [np.array([inputs], np.uint32)], to)[0][0]
    for x, seen in zip(inputs, got, strict=True):
        value = number("float", to, x)
        if value is None:
            infinite = x & source.sign - 1 == source.inf
            expected = 0 if not infinite else low if x & source.sign else top
        else:
            scaled = value * (top if "norm" in kind else 1)
            expected = round(min(max(scaled, Fraction(low)), Fraction(top)))  # half to even
        assert seen == expected & (1 << bits) - 1, (hex(x), hex(seen))


@pytest.mark.parametrize("bits", [8, 10, 16])
def test_integer_stores_saturate(bits: int) -> None:
    name = {8: "8", 16: "16", 10: "2_10_10_10"}[bits]
    for kind in ("UINT", "SINT"):
        fmt = next(fmt_of(n) for n in NUMBERS if fmt_of(n).name == f"{name}_{kind}")
        inputs = [
            0,
            1,
            5,
            (1 << bits) - 1,
            1 << bits,
            0x7FFFFFFF,
            0x80000000,
            0xFFFFFFFF,
            (1 << bits - 1) - 1,
            0xFFFFFF80,
        ]
        got = store_element(fmt, [np.array([inputs], np.uint32)] * len(fmt.channels), 32)[0][0]
        for x, seen in zip(inputs, got, strict=True):
            if kind == "UINT":
                expected = min(x, (1 << bits) - 1)
            else:
                expected = min(max(signed(x, 32), -(1 << bits - 1)), (1 << bits - 1) - 1) & (1 << bits) - 1
            assert int(seen) & (1 << bits) - 1 == expected


def test_floats_are_cut_off_and_small_floats_have_no_sign() -> None:
    inputs = [exact.encode(F32, Fraction(n, 997)) for n in range(-3000, 300000, 997)]
    inputs += [0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x80000000, 0x33800000, 0x387FE000]
    half = store_element(fmt_of(13), [np.array([inputs], np.uint32)], 32)[0][0]
    small = store_element(fmt_of(30), [np.array([inputs], np.uint32)] * 3, 32)[0][0]
    for x, seen, packed in zip(inputs, half, small, strict=True):
        value = number("float", 32, x)
        if value is None:
            assert seen == (0x7C00 if x == 0x7F800000 else 0xFC00)
            continue
        assert seen == exact.encode(F16, value, ZERO, minus=bool(x >> 31))
        for shift, bits in ((0, 11), (11, 11), (22, 10)):
            expected = exact.encode(exact.Format(5, bits - 5, 15), max(value, Fraction(0)), ZERO)
            assert packed >> shift & (1 << bits) - 1 == expected


def test_channels_of_a_name_count_from_the_top() -> None:
    assert [(c.lo, c.bits) for c in fmt_of(36).channels] == [(0, 10), (10, 10), (20, 10), (30, 2)]
    assert [(c.lo, c.bits) for c in fmt_of(32).channels] == [(0, 2), (2, 10), (12, 10), (22, 10)]
    assert [(c.lo, c.bits) for c in fmt_of(30).channels] == [(0, 11), (11, 11), (22, 10)]
    assert [(c.lo, c.bits) for c in fmt_of(57).channels] == [(0, 16), (16, 16), (32, 16), (48, 16)]
    assert fmt_of(61).nbytes == 16


def test_shared_exponents() -> None:
    fmt = fmt_of(67)
    word = np.array([[31 << 27 | 511 << 18 | 1 << 9 | 256, 15 << 27 | 256]], np.uint32)
    loaded_ = [load_channel(fmt, k, [word], 32).view(np.float32)[0] for k in range(3)]
    assert list(loaded_[0]) == [256 * 2.0**7, 0.5]
    assert list(loaded_[1]) == [2.0**7, 0.0]
    assert loaded_[2][0] == 511 * 2.0**7
    again = store_element(fmt, [v.view(np.uint32)[None] for v in loaded_], 32)[0]
    assert (again == word).all()


def test_formats_of_cdna() -> None:
    assert split_format(0 << 3 | 7) is None
    fmt = split_format(9 << 3 | 5)
    assert fmt is not None and fmt.name == "2_10_10_10_SINT"
    raw = split_format(4 << 3 | 0)
    assert raw is not None and raw.channels[0].number == "raw"
    for number_ in (1 << 3 | 7, 9 << 3 | 7, 15 << 3, 4 << 3 | 6):
        with pytest.raises(LookupError):
            split_format(number_)
    for data in range(1, 15):
        for kind in (0, 1, 2, 3, 4, 5):
            assert split_format(data << 3 | kind) is not None


def test_other_formats_are_named() -> None:
    assert unified_format(0) is None
    with pytest.raises(LookupError, match="BC1_UNORM"):
        unified_format(109)
    with pytest.raises(LookupError, match="200"):
        unified_format(200)
