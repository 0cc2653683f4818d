"""Code objects: kernels, descriptors, symbols, errors."""

import struct
from pathlib import Path

import pytest
from support.llvm_mc import assemble_object, require_llvm

from mockgpu.isa.codeobject import CodeObjectError, KernelDescriptor, load_code_object
from mockgpu.isa.decode import decode_all

SHARED = Path(__file__).parents[3] / "shared"

_EM_AMDGPU, _GFX1100 = 224, 0x41
_DESCRIPTOR_AT, _CODE_AT = 0x200, 0x300
_CODE = bytes.fromhex("0000b0bf")


def descriptor(entry: int) -> bytes:
    return struct.pack("<IIIIq20xIIIHH4x", 128, 16, 24, 0, entry, 1, 2, 3, 1 << 10, 5)


def code_object(machine: int = _EM_AMDGPU, flags: int = _GFX1100, entry: int = _CODE_AT - _DESCRIPTOR_AT) -> bytes:
    """A minimal linked code object with one kernel `k`."""
    names = b"\0k\0k.kd\0.text\0.symtab\0.strtab\0"
    symbols = bytes(24)
    symbols += struct.pack("<IBBHQQ", 1, 0x12, 0, 1, _CODE_AT, len(_CODE))
    symbols += struct.pack("<IBBHQQ", 3, 0x11, 0, 1, _DESCRIPTOR_AT, 64)
    image = bytearray(_CODE_AT + len(_CODE))
    image[_DESCRIPTOR_AT : _DESCRIPTOR_AT + 64] = descriptor(entry)
    image[_CODE_AT:] = _CODE
    loaded = len(image)
    image += symbols
    names_at = len(image)
    image += names
    sections_at = len(image)
    rows = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (8, 1, 6, _CODE_AT, _CODE_AT, len(_CODE), 0, 0, 4, 0),
        (14, 2, 0, 0, loaded, len(symbols), 3, 1, 8, 24),
        (22, 3, 0, 0, names_at, len(names), 0, 0, 1, 0),
    ]
    image += b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows)
    ident = b"\x7fELF\x02\x01\x01\x40\x03" + bytes(7)
    image[:64] = ident + struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, sections_at, flags, 64, 56, 1, 64, len(rows), 3
    )
    image[64:120] = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, loaded, loaded, 4096)
    return bytes(image)


def test_kernel_and_descriptor():
    found = load_code_object(code_object())
    assert found.arch.name == "gfx1100"
    kernel = found.kernels["k"]
    assert (kernel.entry, kernel.size, kernel.descriptor_address) == (_CODE_AT, 4, _DESCRIPTOR_AT)
    assert found.code(kernel) == found.text == _CODE
    expected = KernelDescriptor(128, 16, 24, 0x100, rsrc1=2, rsrc2=3, rsrc3=1, code_properties=1024, kernarg_preload=5)
    assert kernel.descriptor == expected
    assert kernel.descriptor.wave32
    assert kernel.descriptor.user_sgprs == 1
    assert found.symbols["k"].kind == "STT_FUNC"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ELF"),
        (b"\x7fELF" + bytes(60), "ELF"),
        (code_object()[:100], "ELF"),
        (code_object(machine=62), "not EM_AMDGPU"),
    ],
)
def test_malformed_files(data, reason):
    with pytest.raises(CodeObjectError, match=reason):
        load_code_object(data)


def test_an_entry_outside_the_file():
    with pytest.raises(CodeObjectError, match="kernel k: entry address"):
        _ = load_code_object(code_object(entry=1 << 20)).kernels


def test_an_unknown_target_lists_the_known_ones():
    with pytest.raises(CodeObjectError, match=r"0x99.*gfx1100"):
        _ = load_code_object(code_object(flags=0x99)).arch


def test_a_short_descriptor():
    with pytest.raises(CodeObjectError, match="63 bytes, need 64"):
        KernelDescriptor.parse(bytes(63))


def test_recorded_code_objects():
    data = [path.read_bytes() for path in sorted(SHARED.glob("sqtt/gfx1*/*.hsaco"))]
    if not data:
        pytest.skip("no ../shared/sqtt beside the checkout")
    for elf in data:
        if elf[5] != 1:  # hand-made files without a machine, symbols or segments
            with pytest.raises(CodeObjectError):
                load_code_object(elf)
            continue
        found = load_code_object(elf)
        for kernel in found.kernels.values():
            texts = [inst.text for _, inst in decode_all(found.arch, found.code(kernel))]
            assert "s_endpgm" in texts


_TWO_KERNELS = """
.text
.globl first
.p2align 8
.type first,@function
first:
  s_nop 1
  s_endpgm
.size first, 8
.globl second
.p2align 8
.type second,@function
second:
  s_nop 2
  s_endpgm
.size second, 8
.rodata
.amdhsa_kernel first
  .amdhsa_next_free_vgpr 1
  .amdhsa_next_free_sgpr 1
.end_amdhsa_kernel
.amdhsa_kernel second
  .amdhsa_next_free_vgpr 1
  .amdhsa_next_free_sgpr 1
.end_amdhsa_kernel
"""


def test_an_object_that_is_not_linked_finds_its_kernels_by_relocation() -> None:
    require_llvm()
    found = load_code_object(assemble_object(_TWO_KERNELS, "gfx1100"))
    code = {name: next(decode_all(found.arch, found.code(k)))[1].text for name, k in found.kernels.items()}
    assert code == {"first": "s_nop 1", "second": "s_nop 2"}
