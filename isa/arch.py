"""Architecture records: what differs between targets, as data.

Sources: the RDNA3, RDNA4, CDNA3 and CDNA4 ISA manuals ("Kernel State", "Data Sharing") and the AMDGPU
ELF machine flags (``EF_AMDGPU_MACH_*``) of the AMDGPU back-end usage manual.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from mockgpu.isa.errors import UnknownArchError
from mockgpu.isa.targets import CDNA3_AND_LATER, CDNA3_ONLY, CDNA4_ONLY


@dataclass(frozen=True, eq=False)
class Arch:
    """One target. Sizes are in the units their names say; every flag answers one question.

    ``tables`` names the generated table set (``tinygrad.runtime.autogen.amd.<tables>``) that decodes it.
    ``lacks`` holds name patterns of opcodes in those tables that this target does not have: they are illegal.
    """

    name: str
    family: str
    target: tuple[int, int, int]
    tables: str
    elf_mach: int  # EF_AMDGPU_MACH of e_flags
    wave_sizes: tuple[int, ...]
    sgprs: int  # user-visible scalar registers of a wave
    vgprs: int  # architectural vector registers of a wave
    acc_vgprs: int  # accumulation registers of a wave, 0 where there are none
    lds_bytes: int  # largest LDS allocation of a workgroup
    lds_granularity: int  # bytes
    vgpr_granule: int  # registers per allocation step of a wave64 (RDNA: wave32 uses twice this)
    null_register: int | None  # operand encoding of the null register
    m0_register: int  # operand encoding of M0
    true16: bool  # 16-bit vector operands name halves of registers
    dpp8: bool
    sdwa: bool
    dpp_vop3: bool  # VOP3 and VOP3P accept a DPP modifier
    vop3_literal: bool  # VOP3 and VOP3P accept a 32-bit literal
    trap_workgroup_ids: bool  # workgroup ids arrive in TTMP registers instead of SGPRs
    fp8_fnuz: bool  # 8-bit floats are the FNUZ kind (bias 8) instead of OCP
    image: bool  # image and sample instructions exist
    dynamic_vgprs: bool  # a kernel may change its number of vector registers (S_ALLOC_VGPR)
    vector_modes: bool  # MODE can index vector registers and skip vector instructions
    out_of_range_sgpr: int | None  # register that a source beyond the last one reads, None: it reads 0
    lacks: tuple[str, ...] = field(default=(), repr=False)
    assumed: tuple[str, ...] = field(default=(), repr=False)  # what is taken for granted, for want of own tables

    def has_opcode(self, name: str) -> bool:
        """Whether the target has the opcode with that table name."""
        return not any(fnmatchcase(name, pattern) for pattern in self.lacks)

    @property
    def wave32(self) -> bool:
        """Whether a wave can have 32 lanes."""
        return 32 in self.wave_sizes


def _rdna(name: str, target: tuple[int, int, int], tables: str, elf_mach: int, *, ttmp_ids: bool) -> Arch:
    return Arch(
        name=name,
        family=tables,
        target=target,
        tables=tables,
        elf_mach=elf_mach,
        wave_sizes=(32, 64),
        sgprs=106,
        vgprs=256,
        acc_vgprs=0,
        lds_bytes=65536,
        lds_granularity=1024,
        vgpr_granule=12,
        null_register=124,
        m0_register=125,
        true16=True,
        dpp8=True,
        sdwa=False,
        dpp_vop3=True,
        vop3_literal=True,
        trap_workgroup_ids=ttmp_ids,
        fp8_fnuz=False,
        image=True,
        dynamic_vgprs=ttmp_ids,
        vector_modes=False,
        out_of_range_sgpr=None,
    )


def _cdna(name: str, target: tuple[int, int, int], elf_mach: int, *, lds: tuple[int, int], fnuz: bool) -> Arch:
    return Arch(
        name=name,
        family="cdna",
        target=target,
        tables="cdna",
        elf_mach=elf_mach,
        wave_sizes=(64,),
        sgprs=102,
        vgprs=256,
        acc_vgprs=256,
        lds_bytes=lds[0],
        lds_granularity=lds[1],
        vgpr_granule=8,
        null_register=None,
        m0_register=124,
        true16=False,
        dpp8=False,
        sdwa=True,
        dpp_vop3=False,
        vop3_literal=False,
        trap_workgroup_ids=False,
        fp8_fnuz=fnuz,
        image=False,
        dynamic_vgprs=False,
        vector_modes=True,
        out_of_range_sgpr=0,
    )


_GFX1100 = (
    "scalar float instructions and S_FMAMK_F32, which LLVM knows from gfx1150 on, run here: published gfx11 hardware"
    " tests use them",
)
_GFX1151 = (
    "instructions, formats and sizes are those of the RDNA3 tables",
    "dot products and WMMA add as on gfx1100; the adder of gfx1151 is known to differ in the last bit",
)
_GFX1201 = ("named barriers, which the manual reserves for later parts, work as LLVM describes them for gfx1250",)
_GFX1200 = (*_GFX1201, "everything is as on gfx1201")
_GFX90A = (
    "instructions come from the CDNA4 tables without those that LLVM does not accept for gfx90a",
    "instructions that gfx90a alone has are missing, and illegal: V_MAC_F32, V_MAD_F32, V_MADMK_F32, V_MADAK_F32, the"
    " matrix products of bf16, and those of i8 with 32x32x8 and 16x16x16",
    "scratch and cache control bits work as on gfx942; BUFFER_INVL2 is decoded as BUFFER_INV",
)
_ARCHS = {
    arch.name: arch
    for arch in (
        replace(_rdna("gfx1100", (11, 0, 0), "rdna3", 0x41, ttmp_ids=False), assumed=_GFX1100),
        replace(_rdna("gfx1151", (11, 5, 1), "rdna3", 0x4A, ttmp_ids=False), assumed=_GFX1151),
        replace(_rdna("gfx1200", (12, 0, 0), "rdna4", 0x48, ttmp_ids=True), assumed=_GFX1200),
        replace(_rdna("gfx1201", (12, 0, 1), "rdna4", 0x4E, ttmp_ids=True), assumed=_GFX1201),
        replace(
            _cdna("gfx90a", (9, 0, 10), 0x3F, lds=(65536, 512), fnuz=False),
            lacks=(*CDNA4_ONLY, *CDNA3_ONLY, *CDNA3_AND_LATER),
            assumed=_GFX90A,
        ),
        replace(_cdna("gfx942", (9, 4, 2), 0x4C, lds=(65536, 512), fnuz=True), lacks=CDNA4_ONLY),
        replace(_cdna("gfx950", (9, 5, 0), 0x4F, lds=(163840, 1280), fnuz=False), lacks=CDNA3_ONLY),
    )
}


#: Targets that are asked for and cannot be had, and why.
_IMPOSSIBLE = {
    "gfx1030": "the encodings of RDNA2 differ from RDNA3's and no generated table holds them",
    "gfx1250": "the instructions of gfx1250 are in no generated table",
}


def arch_names() -> tuple[str, ...]:
    """The names that ``get_arch`` knows, in order."""
    return tuple(_ARCHS)


def get_arch(name: str) -> Arch:
    """The record of a target such as ``gfx1100``. Raises UnknownArchError, which lists the good names."""
    try:
        return _ARCHS[name]
    except KeyError:
        wanted = f"{name} ({_IMPOSSIBLE[name]})" if name in _IMPOSSIBLE else name
        raise UnknownArchError("architecture", wanted, _ARCHS) from None
