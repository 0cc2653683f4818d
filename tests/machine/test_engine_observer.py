"""What an observer is told while a kernel runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import kernels
from support.llvm_mc import require_llvm

from mockgpu.isa.arch import get_arch
from mockgpu.isa.instruction import Instruction
from mockgpu.machine.errors import GuestFault, Trap
from mockgpu.machine.observer import Observer
from mockgpu.machine.oracle_engine import OracleEngine
from mockgpu.machine.waves import Batch

require_llvm()


class Recorder(Observer):
    """Writes down everything."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.accesses: list[tuple[str, str, int, int]] = []

    def waves_start(self, batch: Batch) -> None:
        self.events.append(f"start {batch.waves}")

    def instruction(self, batch: Batch, waves: Any, pc: int, instruction: Instruction) -> None:
        self.events.append(f"{instruction.mnemonic} {list(map(int, waves))}")

    def access(self, batch: Batch, waves: Any, kind: str, space: str, addr: Any, nbytes: int) -> None:
        assert len(waves) == len(addr)
        self.accesses.append((kind, space, len(addr), nbytes))

    def barrier(self, batch: Batch, group: int) -> None:
        self.events.append(f"barrier {group}")

    def wave_end(self, batch: Batch, waves: Any) -> None:
        self.events.append(f"end {list(map(int, waves))}")

    def fault(self, batch: Batch, fault: GuestFault) -> None:
        self.events.append(type(fault).__name__)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    engine = OracleEngine(get_arch("gfx1100"))
    engine.observer = Recorder()
    monkeypatch.setitem(kernels._engines, "gfx1100", engine)
    return engine.observer


def test_waves_instructions_and_barriers(recorder: Recorder) -> None:
    kernels.run("s_barrier\n s_nop 0", block=64)
    assert recorder.events == [
        "start 2",
        "s_barrier [0, 1]",
        "barrier 0",
        "s_nop [0, 1]",
        "s_endpgm [0, 1]",
        "end [0, 1]",
    ]


def test_memory_accesses_of_active_lanes(recorder: Recorder) -> None:
    program = """
      s_load_b64 s[6:7], s[0:1], 0x0
      v_mov_b32 v1, 0
      v_mov_b32 v2, 0
      s_mov_b32 exec_lo, 7
      global_load_b128 v[4:7], v1, s[0:1]
      ds_store_b32 v1, v2
    """
    kernels.run(program, lds=64)
    assert recorder.accesses == [("load", "global", 1, 8), ("load", "global", 3, 16), ("store", "lds", 3, 4)]


def test_faults_are_told(recorder: Recorder) -> None:
    with pytest.raises(Trap):
        kernels.run("s_trap 1")
    assert recorder.events[-1] == "Trap"


def test_nothing_is_told_without_an_observer() -> None:
    assert kernels.engine().observer is None
    assert (kernels.run("v_mov_b32 v1, 0\n global_store_b32 v1, v1, s[0:1]").words[:1] == np.uint32(0)).all()
