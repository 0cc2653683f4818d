"""The virtual file tree: KFD topology and the DRM devices' attributes, made from board records."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mockgpu.drivers.boards import Board

TOPOLOGY = "/sys/devices/virtual/kfd/kfd/topology"
FIRST_RENDER_MINOR = 128
PERFORMANCE_LEVELS = (
    "auto",
    "low",
    "high",
    "manual",
    "profile_exit",
    "profile_standard",
    "profile_min_sclk",
    "profile_min_mclk",
    "profile_peak",
    "perf_determinism",
)


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One GPU of the system as the topology shows it."""

    board: Board
    gpu_id: int
    index: int
    vram_bytes: int

    @property
    def render_minor(self) -> int:
        return FIRST_RENDER_MINOR + self.index

    @property
    def render_path(self) -> str:
        return f"/dev/dri/renderD{self.render_minor}"

    @property
    def device_folder(self) -> str:
        return f"/sys/class/drm/renderD{self.render_minor}/device"


class Attribute:
    """A text file. Reading gives ``content``; writing is refused with EACCES unless ``store`` takes it."""

    def __init__(self, content: str, store: Callable[[str], str] | None = None):
        self.content = content
        self._store = store

    def check_writable(self) -> None:
        """Raises OSError EACCES for a read-only file."""
        if self._store is None:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    def write(self, text: str) -> None:
        """Raises OSError: EACCES when read-only, EINVAL when the value means nothing."""
        self.check_writable()
        assert self._store is not None
        self.content = self._store(text)


def _performance_level(text: str) -> str:
    level = text.strip()
    if level not in PERFORMANCE_LEVELS:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return f"{level}\n"


class Tree:
    """Attributes by absolute path; folders are implied by them.

    ``owns`` says whether a path lies in a folder that belongs to the emulated system: there nothing else exists.
    """

    def __init__(self, nodes: Iterable[NodeSpec], sysmem_bytes: int):
        self.files: dict[str, Attribute] = {}
        self.roots = ["/sys/devices/virtual/kfd"]
        self._add_cpu(sysmem_bytes)
        for node in nodes:
            self._add_topology(node)
            self._add_device(node)

    def owns(self, path: str) -> bool:
        return any(path == root or path.startswith(root + "/") for root in self.roots)

    def is_folder(self, path: str) -> bool:
        return any(name.startswith(path + "/") for name in self.files)

    def listdir(self, path: str) -> list[str]:
        """Names in a folder. Raises OSError ENOENT, or ENOTDIR for a file."""
        if path in self.files:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        names = dict.fromkeys(f[len(path) + 1 :].split("/")[0] for f in self.files if f.startswith(path + "/"))
        if not names:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return list(names)

    def _add(self, path: str, value: object) -> None:
        self.files[path] = Attribute(f"{value}\n")

    def _add_properties(self, path: str, properties: dict[str, int]) -> None:
        self._add(path, "\n".join(f"{name} {value}" for name, value in properties.items()))

    def _add_cpu(self, sysmem_bytes: int) -> None:
        folder = f"{TOPOLOGY}/nodes/0"
        self._add(f"{TOPOLOGY}/generation_id", 1)
        self._add(f"{folder}/gpu_id", 0)
        self._add(f"{folder}/name", "")
        cores = os.cpu_count() or 1
        self._add_properties(f"{folder}/properties", {"cpu_cores_count": cores, "simd_count": 0, "mem_banks_count": 1})
        self._add_properties(f"{folder}/mem_banks/0/properties", {"heap_type": 0, "size_in_bytes": sysmem_bytes})

    def _add_topology(self, node: NodeSpec) -> None:
        folder = f"{TOPOLOGY}/nodes/{node.index + 1}"
        properties = node.board.topology(
            render_minor=node.render_minor,
            location_id=(node.index + 3) << 8,
            unique_id=0x4D4F434B00000000 + node.index,
        )
        self._add(f"{folder}/gpu_id", node.gpu_id)
        self._add(f"{folder}/name", node.board.arch)
        self._add_properties(f"{folder}/properties", properties)
        bank = {"heap_type": 1, "size_in_bytes": node.vram_bytes, "flags": 0, "width": node.board.vram_bits}
        self._add_properties(f"{folder}/mem_banks/0/properties", bank)

    def _add_device(self, node: NodeSpec) -> None:
        folder = node.device_folder
        self.roots.append(f"/sys/class/drm/renderD{node.render_minor}")
        self._add(f"{folder}/vendor", "0x1002")
        self._add(f"{folder}/device", f"{node.board.device_id:#06x}")
        self._add(f"{folder}/mem_info_vram_total", node.vram_bytes)
        # The emulated clock is always steady, so the stable power state is what a runtime finds (and need not set).
        level = f"{folder}/power_dpm_force_performance_level"
        self.files[level] = Attribute("profile_standard\n", _performance_level)
        for hardware_id, version in node.board.ip_versions().items():
            for part, number in zip(("major", "minor", "revision"), version, strict=True):
                self._add(f"{folder}/ip_discovery/die/0/{hardware_id}/0/{part}", number)
