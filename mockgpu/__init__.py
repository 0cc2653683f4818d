"""mockgpu: a hardware emulator and mock-GPU test harness.

Importing this package is light: nothing of numpy or tinygrad is loaded.
"""

from pathlib import Path

__version__ = "0.1.0"

# An installed package holds isa, pcode, sqtt and drivers as subpackages. In a raw checkout they stand
# beside this folder, so the checkout's root joins the search path of the package.
if not (Path(__file__).parent / "isa").is_dir():
    __path__.append(str(Path(__file__).parent.parent))
