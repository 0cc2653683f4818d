"""One GPU as the driver knows it: its place in the system, its machine device, and how much memory is in use."""

from __future__ import annotations

from dataclasses import dataclass, field

from mockgpu.drivers.boards import Board
from mockgpu.drivers.refusal import invalid
from mockgpu.drivers.sysfs import NodeSpec
from mockgpu.machine.device import Device


@dataclass(eq=False, slots=True)
class Gpu:
    """``drm_file`` is the descriptor of the render node whose address space the process acquired."""

    node: NodeSpec
    device: Device
    drm_file: int | None = None
    vram_used: int = 0
    policy: dict[str, int] = field(default_factory=dict)

    @property
    def gpu_id(self) -> int:
        return self.node.gpu_id

    @property
    def board(self) -> Board:
        return self.node.board

    @property
    def vram_free(self) -> int:
        return self.node.vram_bytes - self.vram_used


class Gpus:
    """The GPUs of the system, by KFD id."""

    def __init__(self, gpus: list[Gpu]):
        self.all = gpus
        self._by_id = {gpu.gpu_id: gpu for gpu in gpus}

    def get(self, gpu_id: int) -> Gpu:
        """Raises Refused EINVAL for an id that no GPU has."""
        gpu = self._by_id.get(gpu_id)
        if gpu is None:
            raise invalid(f"no GPU has id {gpu_id:#x}")
        return gpu
