"""What native code knows of an address space: tables of its mappings, and its translated code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mockgpu.isa.arch import Arch
from mockgpu.machine.memory import Memory
from mockgpu.machine.native.handlers import Example, Handlers
from mockgpu.machine.native.layout import EXECUTE, READ, RECORD_BYTES, WRITE
from mockgpu.machine.native.program import Item, Translation, Translator, set_counters
from mockgpu.machine.native.shape import pseudo_shape


class Mappings:
    """The mappings of an address space as sorted arrays that native code searches."""

    def __init__(self, memory: Memory):
        maps = list(memory)
        self.version = memory.version
        self.starts = np.array([m.va for m in maps], np.uint64)
        self.ends = np.array([m.end for m in maps], np.uint64)
        self.access = np.array([READ * m.read | WRITE * m.write | EXECUTE * m.execute for m in maps], np.uint8)

    def fields(self) -> dict[str, int]:
        """The fields of a context that lead here."""
        return {
            "maps_start": self.starts.ctypes.data,
            "maps_end": self.ends.ctypes.data,
            "maps_access": self.access.ctypes.data,
            "maps_count": len(self.starts),
        }


@dataclass(frozen=True, slots=True)
class Kind:
    """What translations depend on besides the code: wave size, registers of a wave, MODE."""

    lanes: int
    vgprs: int
    accs: int
    mode: int


@dataclass(slots=True)
class Place:
    """Where a byte address can be entered: a translation and the address of a record."""

    translation: Translation
    record: int


class Space:
    """The translated code of an address space. ``stop`` is a byte address at which waves end.

    Translations are compared with memory when a launch, or code after S_ICACHE_INV, enters them for the first time.
    ``on_translation`` is called for all new code.
    """

    def __init__(self, arch: Arch, memory: Memory, handlers: Handlers, stop: int | None = None):
        self.arch, self.memory, self.handlers, self.stop = arch, memory, handlers, stop
        self.translations: list[Translation] = []
        self.counters = 1  # number 0 counts nothing that matters
        self._entries: dict[tuple[Kind, int], Place] = {}
        self._checked: set[int] = set()
        self._mappings: Mappings | None = None
        self.refused: Counter[str] = Counter()
        self.on_translation: Callable[[Translation, Kind], None] = lambda translation, kind: None

    def mappings(self) -> Mappings:
        """The tables of mappings as they are now."""
        if self._mappings is None or self._mappings.version != self.memory.version:
            self._mappings = Mappings(self.memory)
        return self._mappings

    def check_again(self) -> None:
        """Code may have been written: compare before it is entered again."""
        self._checked.clear()

    def enter(self, kind: Kind, pc: int) -> Place:
        """Where a wave goes on at byte address ``pc``."""
        place = self._entries.get((kind, pc))
        if place is not None and self._valid(place.translation):
            return place
        translator = Translator(self.arch, kind.lanes, kind.vgprs, kind.accs, self.memory, kind.mode)
        translator.stop = self.stop
        made = translator.translate(pc)
        made.kind = kind
        self._assign(made, kind)
        set_counters(made, self.counters)
        self.counters += len(made.counts)
        self.translations.append(made)
        self._checked.add(id(made))
        self.on_translation(made, kind)
        for address, index in made.entries.items():
            self._entries[kind, address] = Place(made, made.record(index))
        return self._entries[kind, pc]

    def _valid(self, translation: Translation) -> bool:
        if id(translation) in self._checked:
            return True
        if self.stop is not None or not translation.unchanged(self.memory):
            return False
        self._checked.add(id(translation))
        return True

    def block(self, counter: int) -> tuple[Translation, int]:
        """The translation and the number of the block that a counter counts."""
        for translation in reversed(self.translations):
            if 0 <= counter - translation.first_counter < len(translation.counts):
                return translation, counter - translation.first_counter
        raise LookupError(f"no block has counter {counter}")

    def find(self, record: int) -> Translation:
        """The translation of a record by its address."""
        for translation in reversed(self.translations):
            if 0 <= record - translation.address < translation.count * RECORD_BYTES:
                return translation
        raise LookupError(f"no record at {record:#x}")

    def forget_unused(self) -> None:
        """Drop translations of code that has changed. No wave may be running."""
        used = {id(place.translation) for place in self._entries.values()}
        self.translations = [t for t in self.translations if id(t) in used]

    def _assign(self, made: Translation, kind: Kind) -> None:
        """Give every record its handler."""
        examples: dict[str, Example] = {CALLOUT.key: (CALLOUT, None, kind.lanes, kind.mode)}
        for item in made.items:
            if not item.callout:
                examples.setdefault(item.shape.key, (item.shape, item.instruction, kind.lanes, kind.mode))
        found = self.handlers.get(examples)
        callout = found.addresses[CALLOUT.key]
        for n, item in enumerate(made.items):
            lost = item.target is not None and item.target not in made.entries
            address = callout if item.callout or lost else found.addresses.get(item.shape.key, callout)
            made.records[n]["handler"] = made.records[made.count + n]["handler"] = address
            if address == callout:
                made.left.add(n)
                self._note(item, found.refused.get(item.shape.key, ""))

    def _note(self, item: Item, reason: str) -> None:
        if item.instruction is not None:
            self.refused[f"{item.instruction.mnemonic}: {reason}"] += 1


CALLOUT = pseudo_shape("callout")

__all__ = ["Kind", "Mappings", "Place", "Space"]
