"""Handlers by shape for one host: from the cache, or made by LLVM, which is loaded for nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from mockgpu.isa.instruction import Instruction
from mockgpu.machine.native import host, run_loop
from mockgpu.machine.native.cache import Batch, Found, HandlerCache
from mockgpu.machine.native.shape import Shape

log = logging.getLogger("mockgpu.native")

#: A shape, and an instruction that has it (None: a pseudo instruction), for waves of so many lanes and a MODE.
Example = tuple[Shape, Instruction | None, int, int]


class Handlers:
    """The handlers of a process for one level of the host."""

    def __init__(self, level: str = host.NATIVE):
        self.cache = HandlerCache(level)
        self.level = level

    def get(self, examples: Mapping[str, Example]) -> Found:
        """Addresses of handlers by shape key, and why other shapes have none."""
        return self.cache.get(examples, lambda missing: self._make([examples[key] for key in missing]))

    def run_loop(self) -> int:
        """The address of the run loop."""
        return self.cache.get([run_loop.KEY], self._make_run_loop).addresses[run_loop.KEY]

    def _make_run_loop(self, keys: list[str]) -> Batch:
        from mockgpu.machine.native.compile import compile_ir

        return Batch(compile_ir(run_loop.text(), host.host_target(self.level)), {run_loop.KEY: run_loop.SYMBOL})

    def _make(self, wanted: list[Example]) -> Batch:
        """Compile together. A handler that LLVM cannot make is left out, the others are compiled without it."""
        from mockgpu.machine.native.compile import CompileError

        try:
            return self._compile(wanted)
        except CompileError as error:
            if len(wanted) == 1:
                key = wanted[0][0].key
                log.warning("no host code for %s: %s", key, error)
                return Batch(b"", {}, {key: str(error)})
        bad = {}
        for one in wanted:
            try:
                self._compile([one])
            except CompileError as error:
                bad[one[0].key] = str(error)
                log.warning("no host code for %s: %s", one[0].key, error)
        good = self._compile([one for one in wanted if one[0].key not in bad])
        return Batch(good.object, good.symbols, {**good.refused, **bad})

    def _compile(self, wanted: Iterable[Example]) -> Batch:
        from mockgpu.machine.native import emit
        from mockgpu.machine.native.compile import compile_ir

        target = host.host_target(self.level)
        examples = [emit.Wanted(*one) for one in wanted]
        text, refused = emit.handlers_module(examples, target.features)
        symbols = {w.shape.key: emit.symbol(w.shape.key) for w in examples if w.shape.key not in refused}
        return Batch(compile_ir(text, target) if symbols else b"", symbols, refused)
