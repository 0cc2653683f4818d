"""Kernel descriptors from ``.amdhsa_`` directives.

Bit layout and defaults: AMDGPU back-end usage manual, sections "Kernel Descriptor" and "AMDHSA Kernel Directives".
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mockgpu.isa.arch import Arch
from mockgpu.isa.asm_error import AsmError, did_you_mean

DESCRIPTOR_BYTES = 64
_WORDS = {
    "group": 0,
    "private": 4,
    "kernarg": 8,
    "rsrc3": 44,
    "rsrc1": 48,
    "rsrc2": 52,
    "properties": 56,
    "preload": 58,
}
_REQUIRED = ("next_free_vgpr", "next_free_sgpr")


class Bits(NamedTuple):
    """Where a directive's value goes: a word of the descriptor, the lowest bit, the width, and the default."""

    word: str
    low: int
    width: int
    default: int = 0


_EVERYWHERE = {
    "group_segment_fixed_size": Bits("group", 0, 32),
    "private_segment_fixed_size": Bits("private", 0, 32),
    "kernarg_size": Bits("kernarg", 0, 32),
    "float_round_mode_32": Bits("rsrc1", 12, 2),
    "float_round_mode_16_64": Bits("rsrc1", 14, 2),
    "float_denorm_mode_32": Bits("rsrc1", 16, 2),
    "float_denorm_mode_16_64": Bits("rsrc1", 18, 2, 3),
    "fp16_overflow": Bits("rsrc1", 26, 1),
    "enable_private_segment": Bits("rsrc2", 0, 1),
    "system_sgpr_workgroup_id_x": Bits("rsrc2", 7, 1, 1),
    "system_sgpr_workgroup_id_y": Bits("rsrc2", 8, 1),
    "system_sgpr_workgroup_id_z": Bits("rsrc2", 9, 1),
    "system_sgpr_workgroup_info": Bits("rsrc2", 10, 1),
    "system_vgpr_workitem_id": Bits("rsrc2", 11, 2),
    "exception_fp_ieee_invalid_op": Bits("rsrc2", 24, 1),
    "exception_fp_denorm_src": Bits("rsrc2", 25, 1),
    "exception_fp_ieee_div_zero": Bits("rsrc2", 26, 1),
    "exception_fp_ieee_overflow": Bits("rsrc2", 27, 1),
    "exception_fp_ieee_underflow": Bits("rsrc2", 28, 1),
    "exception_fp_ieee_inexact": Bits("rsrc2", 29, 1),
    "exception_int_div_zero": Bits("rsrc2", 30, 1),
    "user_sgpr_dispatch_ptr": Bits("properties", 1, 1),
    "user_sgpr_queue_ptr": Bits("properties", 2, 1),
    "user_sgpr_kernarg_segment_ptr": Bits("properties", 3, 1),
    "user_sgpr_dispatch_id": Bits("properties", 4, 1),
    "user_sgpr_private_segment_size": Bits("properties", 6, 1),
    "uses_dynamic_stack": Bits("properties", 11, 1),
}
_OLD_FLOAT = {"dx10_clamp": Bits("rsrc1", 21, 1, 1), "ieee_mode": Bits("rsrc1", 23, 1, 1)}
_RDNA = {
    "wavefront_size32": Bits("properties", 10, 1, 1),
    "workgroup_processor_mode": Bits("rsrc1", 29, 1, 1),
    "memory_ordered": Bits("rsrc1", 30, 1, 1),
    "forward_progress": Bits("rsrc1", 31, 1, 1),
}
_BY_FAMILY: Mapping[str, Mapping[str, Bits]] = {
    "rdna3": _OLD_FLOAT | _RDNA | {"shared_vgpr_count": Bits("rsrc3", 0, 4), "inst_pref_size": Bits("rsrc3", 4, 6)},
    "rdna4": _RDNA | {"inst_pref_size": Bits("rsrc3", 4, 8), "round_robin_scheduling": Bits("rsrc1", 21, 1)},
    "cdna": _OLD_FLOAT
    | {
        "tg_split": Bits("rsrc3", 16, 1),
        "user_sgpr_kernarg_preload_length": Bits("preload", 0, 7),
        "user_sgpr_kernarg_preload_offset": Bits("preload", 7, 9),
    },
}
_COUNTS = {"next_free_vgpr": 512, "next_free_sgpr": 128, "user_sgpr_count": 31, "accum_offset": 256}
_COUNTS |= {"reserve_vcc": 1, "reserve_xnack_mask": 1, "reserve_flat_scratch": 1}
_USER_SGPRS = {"dispatch_ptr": 2, "queue_ptr": 2, "kernarg_segment_ptr": 2, "dispatch_id": 2, "private_segment_size": 1}
_SGPR_GRANULE = 8
_CDNA_EXTRA_SGPRS = 6  # VCC, XNACK mask and flat scratch lie behind the allocated registers


@functools.cache
def kernel_settings(family: str) -> Mapping[str, Bits]:
    """The directives of a family that go straight into bits, by name without ``.amdhsa_``."""
    return {**_EVERYWHERE, **_BY_FAMILY[family]}


@dataclass(slots=True)
class KernelBlock:
    """The settings of one kernel, by name without ``.amdhsa_``."""

    name: str
    arch: Arch
    settings: dict[str, int] = field(default_factory=dict)

    def set(self, name: str, value: int) -> None:
        """Set one. Raises AsmError for unknown names, repeated ones and values that do not fit."""
        table = kernel_settings(self.arch.family)
        if name not in table and name not in _COUNTS:
            raise AsmError(f"unknown directive .amdhsa_{name}{did_you_mean(name, (*table, *_COUNTS))}")
        if name in self.settings:
            raise AsmError(f".amdhsa_{name} is given twice")
        limit = _COUNTS[name] if name in _COUNTS else (1 << table[name].width) - 1
        if not 0 <= value <= limit:
            raise AsmError(f".amdhsa_{name} must be from 0 to {limit}")
        self.settings[name] = value

    @property
    def wave_size(self) -> int:
        """Lanes of a wave."""
        return 32 if self.arch.wave32 and self.settings.get("wavefront_size32", 1) else 64

    def finish(self) -> None:
        """Check that nothing is missing. Raises AsmError."""
        required = (*_REQUIRED, "accum_offset") if self.arch.acc_vgprs else _REQUIRED
        for name in required:
            if name not in self.settings:
                raise AsmError(f"kernel {self.name} lacks .amdhsa_{name}")

    def descriptor(self, entry_offset: int) -> bytes:
        """The 64 bytes of the descriptor; the offset counts from the descriptor to the first instruction."""
        words = dict.fromkeys(_WORDS, 0)
        for name, bits in kernel_settings(self.arch.family).items():
            words[bits.word] |= self.settings.get(name, bits.default) << bits.low
        words["rsrc1"] |= self._vgpr_blocks() | self._sgpr_blocks() << 6
        words["rsrc2"] |= self._user_sgprs() << 1
        if self.arch.acc_vgprs:
            words["rsrc3"] |= self.settings["accum_offset"] // 4 - 1
        data = bytearray(DESCRIPTOR_BYTES)
        for name, value in words.items():
            struct.pack_into("<H" if name in ("properties", "preload") else "<I", data, _WORDS[name], value)
        struct.pack_into("<q", data, 16, entry_offset)
        return bytes(data)

    def _vgpr_blocks(self) -> int:
        granule = 8 if self.arch.acc_vgprs or self.wave_size == 32 else 4
        return max(1, -(-self.settings["next_free_vgpr"] // granule)) - 1

    def _sgpr_blocks(self) -> int:
        if self.arch.wave32:  # RDNA allocates all of them
            return 0
        count = self.settings["next_free_sgpr"] + _CDNA_EXTRA_SGPRS
        return max(1, -(-count // _SGPR_GRANULE)) - 1

    def _user_sgprs(self) -> int:
        if "user_sgpr_count" in self.settings:
            return self.settings["user_sgpr_count"]
        counted = sum(n for name, n in _USER_SGPRS.items() if self.settings.get(f"user_sgpr_{name}", 0))
        return counted + self.settings.get("user_sgpr_kernarg_preload_length", 0)
