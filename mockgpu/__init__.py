"""mockgpu: a hardware emulator and mock-GPU test harness.

Importing this package is light: nothing of numpy or tinygrad is loaded.

PYTEST_DONT_REWRITE: the start-up file imports the package before pytest does, which would earn users a warning.
"""

import os

__version__ = "0.1.0"

# An installed package holds isa, pcode, sqtt and drivers as subpackages. In a raw checkout they stand
# beside this folder, so the checkout's root joins the search path of the package.
_here = os.path.dirname(os.path.abspath(__file__))
if not os.path.isdir(os.path.join(_here, "isa")):
    __path__.append(os.path.dirname(_here))
