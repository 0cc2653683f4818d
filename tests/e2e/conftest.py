"""The tests of this folder run tinygrad programs on the emulated GPU, which ``tests/conftest.py`` has switched on.

``DEV`` set to something else than an AMD device is obeyed, as a second opinion on an expectation: what fails with
``DEV=CPU`` too is wrong in the test, not in the emulator.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tinygrad import Context
from tinygrad.helpers import DEV


@pytest.fixture(autouse=True)
def quiet_compiler() -> Iterator[None]:
    """Compile in this process: a worker pool beside every pytest worker would only cost memory."""
    with Context(PARALLEL=0):
        yield


@pytest.fixture
def on_amd() -> None:
    """For tests of what only the emulated GPU has."""
    if DEV.device != "AMD":
        pytest.skip(f"DEV={os.environ['DEV']} asks for another device")
