"""Every test sees the emulated GPU, whether or not MOCKGPU and DEV are set outside."""

import os
import sys
from pathlib import Path

os.environ.setdefault("MOCKGPU", "1")
os.environ.setdefault("DEV", "AMD")
sys.path.insert(0, str(Path(__file__).parent))  # tests import their shared helpers as `support`

from mockgpu.activation import activate

activate()
