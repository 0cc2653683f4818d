"""Text of image instructions, whose operand widths follow from the modifiers."""

from __future__ import annotations

import re

from mockgpu.isa.decoded import Decoded
from mockgpu.isa.disasm_operands import register_range, scalar_text

DIMS = ("1D", "2D", "3D", "CUBE", "1D_ARRAY", "2D_ARRAY", "2D_MSAA", "2D_MSAA_ARRAY")
_COORDINATES = (1, 2, 3, 3, 2, 3, 3, 4)
_GRADIENTS = (2, 4, 6, 4, 2, 4, 4, 4)
_FLAGS = ("r128", "a16", "tfe", "lwe", "d16")
_SIZES = (*range(1, 13), 16)


def _words(mnemonic: str) -> set[str]:
    return set(re.split("_", mnemonic)[2:])


def data_registers(inst: Decoded) -> int:
    """Registers of the data operand: one per enabled channel, packed in pairs for 16-bit data, one more for status."""
    fields, mnemonic = inst.fields, inst.mnemonic
    count = 4 if "gather4" in mnemonic or "msaa_load" in mnemonic else max(1, fields["dmask"].bit_count())
    if fields.get("d16", 0):
        count = (count + 1) // 2
    return count + fields.get("tfe", 0)


def address_registers(inst: Decoded) -> int:
    """Registers of the address operands (manual section "Image Instructions", address VGPR table)."""
    fields, words = inst.fields, _words(inst.mnemonic)
    dim = fields["dim"]
    if "resinfo" in words:
        return 1
    extra = sum(name in words for name in ("o", "b", "c"))
    gradients = _GRADIENTS[dim] if words & {"d", "cd"} else 0
    if "g16" in words:
        gradients = 2 * ((gradients // 2 + 1) // 2)
    body = _COORDINATES[dim] + sum(name in words for name in ("l", "cl", "mip"))
    if fields.get("a16", 0):
        body = (body + 1) // 2
    return extra + gradients + body


def image_text(inst: Decoded, cache: str) -> str:
    """Assembly text of an image instruction; ``cache`` are its cache modifiers."""
    fields = inst.fields
    texts = [register_range("v", fields["vdata"], data_registers(inst)), _address_text(inst)]
    rsrc = fields["srsrc"] << 2 if "srsrc" in fields else fields["rsrc"]
    texts.append(scalar_text(inst.arch, rsrc, 8))
    sampler = _sampler(inst)
    if sampler is not None:
        texts.append(scalar_text(inst.arch, sampler, 4))
    rest = f" dmask:{fields['dmask']:#x}" if fields["dmask"] else ""
    rest += f" dim:SQ_RSRC_IMG_{DIMS[fields['dim'] & 7]}"
    rest += " unorm" if fields.get("unrm", 0) else ""
    rest += cache + "".join(f" {name}" for name in _FLAGS if fields.get(name, 0))
    return f"{inst.mnemonic} {', '.join(texts)}{rest}"


def has_sampler(mnemonic: str) -> bool:
    """Whether an image instruction filters, and so names a sampler."""
    return any(word in mnemonic for word in ("sample", "gather4", "get_lod"))


def _sampler(inst: Decoded) -> int | None:
    if not has_sampler(inst.mnemonic):
        return None
    return inst.fields["samp"] if "samp" in inst.fields else inst.fields["ssamp"] << 2


def _address_text(inst: Decoded) -> str:
    fields = inst.fields
    count = address_registers(inst)
    first = fields["vaddr"] if "vaddr" in fields else fields["vaddr0"]
    separate = [first, *(fields[f"vaddr{n}"] for n in range(1, 5) if f"vaddr{n}" in fields)]
    if len(separate) == 1:
        return register_range("v", first, next(size for size in _SIZES if size >= count))
    shown = [f"v{n}" for n in separate[:count]]
    if count > len(separate):
        shown[-1] = register_range("v", separate[-1], count - len(separate) + 1)
    return f"[{', '.join(shown)}]"
