"""Split and named barriers of RDNA4: signal and wait as instructions of their own.

Every workgroup of more than one wave has barrier objects: -1 of the workgroup, -2 of the trap handler, and named ones
1 to 16; 0 is a barrier on which every operation does nothing. An object counts signals; when they reach the number of
members it is complete, starts again from zero, and each member wave may pass one wait. A wave that ends leaves barriers
-1 and -2.

Sources: RDNA4 manual, S_BARRIER_SIGNAL, S_BARRIER_SIGNAL_ISFIRST, S_BARRIER_WAIT and S_GET_BARRIER_STATE;
"AMDGPU Execution Synchronization" of the LLVM manual for named barriers, which the RDNA4 manual reserves for later
parts, and for the fields of M0. That S_BARRIER_LEAVE gives "I was the last member" in SCC is assumed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mockgpu.isa.instruction import Instruction
from mockgpu.isa.registers import Kind
from mockgpu.machine.errors import IllegalInstruction
from mockgpu.machine.step import Step
from mockgpu.machine.waves import ENDED, RUNNING, WAITING, Array, Batch, Group

WORKGROUP, TRAP, NULL = -1, -2, 0
MOST_NAMED = 16
_SLOTS = MOST_NAMED + 3  # named ones by their number, then -2 and -1 at the end
_KINDS = 3  # what a wave can wait for, by its number in a completion mask:
_NAMED, _WORKGROUP, _TRAP = range(_KINDS)


class Barriers:
    """The barrier objects of all workgroups of a batch.

    ``members`` and ``signals`` (groups, slots) count waves; a slot without members is no barrier. ``complete``
    (kinds, waves) says that a wave may pass a wait, ``joined`` (waves,) which named barrier it belongs to, ``awaited``
    (waves,) the kind that a waiting wave waits for.
    """

    def __init__(self, batch: Batch):
        self.batch = batch
        groups = max(1, len(batch.workgroups))
        self.sizes = np.bincount(batch.group, minlength=groups)
        self.members = np.zeros((groups, _SLOTS), np.int64)
        self.signals = np.zeros((groups, _SLOTS), np.int64)
        self.complete = np.zeros((_KINDS, batch.waves), np.bool_)
        self.joined = np.zeros(batch.waves, np.int64)
        self.awaited = np.zeros(batch.waves, np.int64)
        self._count_members()

    def _count_members(self) -> None:
        """Barriers -1 and -2 have the waves that have not ended as members, unless the workgroup is a single wave."""
        batch = self.batch
        alive = np.bincount(batch.group[batch.state != ENDED], minlength=len(self.sizes))
        self.members[:, [WORKGROUP, TRAP]] = np.where(self.sizes > 1, alive, 0)[:, None]

    def in_workgroup(self, waves: Array) -> Array:
        """Whether waves belong to a workgroup of more than one."""
        inside: Array = self.sizes[self.batch.group[waves]] > 1
        return inside

    def settle(self) -> bool:
        """Take the waves that have ended out of their barriers. Tells whether a waiting wave goes on."""
        self._count_members()
        woken = self.finish(WORKGROUP)
        return self.finish(TRAP) or woken

    def signal(self, waves: Array, number: int) -> Array:
        """The waves arrive at a barrier, in order. Returns for each whether it was the first of its phase."""
        groups = self.batch.group[waves]
        before = self.signals[groups, number]
        members = np.maximum(self.members[groups, number], 1)
        arrival = before + _rank(groups)
        np.add.at(self.signals[:, number], groups, 1)
        first: Array = arrival % members == 0
        return first

    def finish(self, slot: int) -> bool:
        """Complete a barrier where all members have signalled. Tells whether a waiting wave goes on."""
        members, signals = self.members[:, slot], self.signals[:, slot]
        done = (members > 0) & (signals >= members)
        if not done.any():
            return False
        signals[done] %= members[done]
        batch = self.batch
        kind = {WORKGROUP: _WORKGROUP, TRAP: _TRAP}.get(slot, _NAMED)
        passing = done[batch.group] & (batch.state != ENDED)
        if kind == _NAMED:
            passing &= self.joined == slot
        self.complete[kind] |= passing
        if batch.observer is not None:
            for group in np.flatnonzero(done):
                batch.observer.barrier(batch, int(group))
        return self._wake(kind)

    def _wake(self, kind: int) -> bool:
        batch = self.batch
        woken = (batch.state == WAITING) & (self.awaited == kind) & self.complete[kind]
        batch.state[woken] = RUNNING
        self.complete[kind, woken] = False
        return bool(woken.any())

    def wait(self, waves: Array, kind: int) -> Array:
        """Which of the waves have to wait; the others have passed."""
        passed = self.complete[kind, waves].copy()
        self.complete[kind, waves] = False
        self.awaited[waves] = kind
        blocked: Array = ~passed
        return blocked


def _rank(groups: Array) -> Array:
    """How many earlier elements equal each element; equal ones are neighbours (waves are ordered by workgroup)."""
    starts = np.concatenate(([True], groups[1:] != groups[:-1]))
    at = np.arange(len(groups))
    rank: Array = at - np.maximum.accumulate(np.where(starts, at, 0))
    return rank


def barriers_of(batch: Batch) -> Barriers:
    """The barrier objects of a batch, made when the first instruction asks for them."""
    if batch.barriers is None:
        batch.barriers = Barriers(batch)
    found: Barriers = batch.barriers
    return found


# -- instructions ---------------------------------------------------------------------------------------------

_Numbers = Callable[[Group], Array]


def _waves(g: Group) -> Array:
    numbers: Array = np.arange(g.batch.waves)[g.index]
    return numbers


def _m0(g: Group) -> Array:
    value: Array = g.batch.sgpr[g.batch.arch.m0_register, g.index]
    return value


def _number(instruction: Instruction, low: int) -> _Numbers | int:
    """The barrier that the operand names: an inline constant, or a field of M0, (waves,).

    Raises IllegalInstruction for other operands and for barriers that do not exist.
    """
    operand = instruction.operand("ssrc0")
    if operand.kind is Kind.M0:
        return lambda g: _m0(g) & np.uint32(low)
    if operand.kind is not Kind.INT:
        raise IllegalInstruction(f"{instruction.mnemonic}: the barrier must be an inline constant or M0")
    if not TRAP <= operand.index <= MOST_NAMED:
        raise IllegalInstruction(f"{instruction.mnemonic}: there is no barrier {operand.index}; there are -2 to 16")
    return operand.index


def _each(instruction: Instruction, g: Group, number: _Numbers | int) -> list[tuple[int, Array]]:
    """(barrier, its waves) for every barrier that the waves of the group name."""
    waves = _waves(g)
    if isinstance(number, int):
        return [(number, waves)]
    named = number(g)
    if (named > MOST_NAMED).any():
        raise IllegalInstruction(f"{instruction.mnemonic}: there is no barrier {int(named.max())}; M0 names 0 to 16")
    return [(int(n), waves[named == n]) for n in np.unique(named)]


def _signal(instruction: Instruction) -> Step:
    """Arrive; SCC of the second form says whether the wave was the first of this phase.

    Bits 22:16 of M0 set the number of members of a named barrier before, if they are not zero.
    """
    number = _number(instruction, 0x1F)
    tells = instruction.mnemonic == "s_barrier_signal_isfirst"

    def run(g: Group) -> None:
        barriers = barriers_of(g.batch)
        for n, named in _each(instruction, g, number):
            if tells:
                g.batch.scc[named] = False
            waves = named[barriers.in_workgroup(named)]
            if n in (NULL, TRAP) or not len(waves):
                continue  # barrier 0 does nothing, and that of the trap handler ignores other programs
            if not isinstance(number, int):
                _set_members(barriers, waves, n)
            _demand_members(instruction, barriers, waves, n)
            first = barriers.signal(waves, n)
            if tells:
                g.batch.scc[waves] = first
            g.changed |= barriers.finish(n)

    return Step(run, "control", ends=True)


def _set_members(barriers: Barriers, waves: Array, number: int) -> None:
    batch = barriers.batch
    counts = (batch.sgpr[batch.arch.m0_register, waves] >> np.uint32(16) & np.uint32(0x7F)).astype(np.int64)
    given = counts > 0
    barriers.members[batch.group[waves[given]], number] = counts[given]


def _demand_members(instruction: Instruction, barriers: Barriers, waves: Array, number: int) -> None:
    if (barriers.members[barriers.batch.group[waves], number] == 0).any():
        raise IllegalInstruction(f"{instruction.mnemonic}: barrier {number} was not initialised (s_barrier_init)")


def _wait(instruction: Instruction) -> Step:
    """Go on once the own phase is complete.

    A number of 0 or more means the named barrier that the wave joined last; without one nothing is waited for.
    """
    raw = instruction.fields["simm16"]
    number = raw - 0x10000 if raw & 0x8000 else raw
    kind = _NAMED if number >= 0 else _WORKGROUP if number == WORKGROUP else _TRAP

    def run(g: Group) -> None:
        batch, barriers = g.batch, barriers_of(g.batch)
        waves = _waves(g)
        waves = waves[barriers.in_workgroup(waves)]
        if kind == _NAMED:
            waves = waves[barriers.joined[waves] != NULL]
        blocked = waves[barriers.wait(waves, kind)]
        if not len(blocked):
            return
        batch.pc[g.index] = g.pc + instruction.size
        batch.state[blocked] = WAITING
        g.moved = g.changed = True

    return Step(run, "control", ends=True)


def _init(instruction: Instruction) -> Step:
    """Give a named barrier the number of members in M0[22:16], and no signals."""
    number = _number(instruction, 0x1F)

    def run(g: Group) -> None:
        barriers = barriers_of(g.batch)
        for n, waves in _each(instruction, g, number):
            if n <= NULL:
                continue
            groups = g.batch.group[waves]
            counts = g.batch.sgpr[g.batch.arch.m0_register, waves] >> np.uint32(16) & np.uint32(0x7F)
            barriers.members[groups, n] = counts
            barriers.signals[groups, n] = 0

    return Step(run, "control")


def _join(instruction: Instruction) -> Step:
    """Belong to a named barrier from now on; joining 0 means belonging to none."""
    number = _number(instruction, 0x1F)

    def run(g: Group) -> None:
        barriers = barriers_of(g.batch)
        for n, waves in _each(instruction, g, number):
            if n < NULL:
                raise IllegalInstruction(f"{instruction.mnemonic}: only named barriers can be joined, not {n}")
            barriers.joined[waves] = n
            barriers.complete[_NAMED, waves] = False

    return Step(run, "control")


def _leave(instruction: Instruction) -> Step:
    """Stop belonging to the named barrier that the wave joined last; it has one member less."""

    def run(g: Group) -> None:
        batch, barriers = g.batch, barriers_of(g.batch)
        waves = _waves(g)
        batch.scc[waves] = False
        for n in np.unique(barriers.joined[waves]):
            if n == NULL:
                continue
            members = waves[barriers.joined[waves] == n]
            groups = batch.group[members]
            np.subtract.at(barriers.members[:, n], groups, 1)
            np.maximum(barriers.members[:, n], 0, out=barriers.members[:, n])
            last = np.append(groups[1:] != groups[:-1], True)
            batch.scc[members] = last & (barriers.members[groups, n] == 0)
            barriers.joined[members] = NULL
            g.changed |= barriers.finish(int(n))

    return Step(run, "control", ends=True)


def _state(instruction: Instruction) -> Step:
    """Signals in bits 22:16, members in 10:4, whether there is such a barrier in bit 0."""
    number, code = _number(instruction, 0x1F), instruction.operand("sdst").code

    def run(g: Group) -> None:
        if code == g.batch.arch.null_register:
            return
        barriers = barriers_of(g.batch)
        for n, waves in _each(instruction, g, number):
            groups = g.batch.group[waves]
            members, signals = barriers.members[groups, n], barriers.signals[groups, n]
            word = signals << 16 | members << 4 | (members > 0)
            g.batch.sgpr[code, waves] = (word if n != NULL else np.zeros_like(word)).astype(np.uint32)

    return Step(run, "salu")


#: The builders by mnemonic.
BARRIER_STEPS: dict[str, Callable[[Instruction], Step]] = {
    "s_barrier_signal": _signal,
    "s_barrier_signal_isfirst": _signal,
    "s_barrier_wait": _wait,
    "s_barrier_init": _init,
    "s_barrier_join": _join,
    "s_barrier_leave": _leave,
    "s_get_barrier_state": _state,
}
