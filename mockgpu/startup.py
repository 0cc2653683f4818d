"""Activates mockgpu in this process. Imported by ``mockgpu.pth`` when Python starts with MOCKGPU set."""

from mockgpu.activation import activate

activate()
