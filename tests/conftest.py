"""Every test sees the emulated GPU, whether or not MOCKGPU and DEV are set outside."""

import os

os.environ.setdefault("MOCKGPU", "1")
os.environ.setdefault("DEV", "AMD")

from mockgpu.activation import activate  # noqa: E402

activate()
