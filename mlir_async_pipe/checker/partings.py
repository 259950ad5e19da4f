"""Accesses of threads that part at a branch: both sides run, in no order, until they join.

    scf.if %is_warp_0 { copy to s[0] }  else { load from s[1] }

A path follows one side only. What is done on it is remembered here, and compared with what
threads on the other sides do up to the same barrier. Conditions are known of each thread, so
two sides meet in threads that differ; of a loop inside a side any iteration may run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from heapq import heapify, heappop, heappush
from typing import Any

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, AtomRange, Facts, Knowns
from mlir_async_pipe.checker.state import (
    Event,
    Parting,
    PartingEvent,
    Side,
    State,
    Substitution,
    moved,
)
from mlir_async_pipe.checker.step_graph import Block, Flow, Run, Step
from mlir_async_pipe.checker.thread_grid import is_about_threads, is_thread_condition
from mlir_async_pipe.facts.flow.algorithms import walked

# In place of a loop's number: some threads have ended.
ENDED = -1


@dataclass
class Partings:
    """Where the threads of one kernel part, and where they join again."""

    flow: Flow
    several: bool

    def __post_init__(self) -> None:
        self._ends = cache(self._ends_of)

    def at_exit(self, block: Block, sides: list[Facts], state: State) -> Parting | None:
        """A new parting at the end of a block; None if all threads take the same side.

        `sides` are the facts on each side.
        """
        decided = _decided(sides, state.facts)
        if not self._part(decided):
            return None
        end, even, meets = self._ends(block.number)
        by_ids = all(map(is_thread_condition, decided))
        return Parting(end, dict(state.facts), even, by_ids, meets)

    def _ends_of(self, branch: int) -> tuple[int | None, bool, bool]:
        """Where paths that part at a block meet again; whether equally many barriers stand on all of them until then, so that
        threads which part there meet at each of them (of paths without a join see `left_apart`); whether threads of another
        side may come where they end."""
        join = join_of(self.flow, branch)
        if join is not None:
            return join, len(_counts(self.flow, branch, join)) == 1, True
        end = ENDED if never_meet(self.flow, branch) else None
        return end, True, not never_meet(self.flow, branch, branch)

    def left_apart(self, block: Block, state: State) -> frozenset[int]:
        """The loops that only some paths out of a block leave; `ENDED` if some paths end without
        the barriers of others, and their threads may be met there."""
        sides = [
            frozenset(number for kind, number in edge.loops if kind == "leave")
            for edge in self.flow.edges(block)
        ]
        apart = frozenset.union(*sides) - frozenset.intersection(*sides)
        if apart or self._ends(block.number)[0] not in (None, ENDED):
            return apart
        remembered = next(iter(state.events()), None) is not None
        steps: list[list[Step]] = [
            [step for n in _reached(self.flow, edge.target) for step in self.flow.blocks[n].steps]
            for edge in self.flow.edges(block)
        ]
        waited = [any(map(is_barrier, side)) for side in steps]
        touched = any(
            isinstance(step, Run) and not step.makes_values
            for side, waits in zip(steps, waited, strict=True)
            if not waits
            for step in side
        )
        uneven = any(waited) and (all(waited) or remembered or touched)
        return frozenset({ENDED}) if uneven else frozenset()

    def at_choice(self, sides: list[Facts], state: State) -> Parting | None:
        """A new parting where threads choose different values; it lasts until paths meet."""
        part = self._part(_decided(sides, state.facts))
        return Parting(None, dict(state.facts)) if part else None

    def _part(self, decided: set[Atom]) -> bool:
        """Whether threads of one block take several sides: what is decided is about each thread."""
        return self.several and any(map(is_about_threads, decided))


def _decided(sides: list[Facts], before: Facts) -> set[Atom]:
    """What several sides know that was not known before them."""
    if len(sides) < 2:
        return set()
    return {atom for facts in sides for atom, known in facts.items() if before.get(atom) != known}


def join_of(flow: Flow, branch: int) -> int | None:
    """The first block that every path from a block comes to, before that block again; None if paths end before.

    Blocks are visited nearest first: of those that are known to follow, one that no other leads to. Where a single
    one is left, all paths come to it. In a row of branches only what stands in one of them is visited."""
    rank, here = flow.ranks, flow.ranks[branch]
    # What an edge back leads to comes last.
    pending = [(rank[n] <= here, rank[n], n) for n in set(flow.after(branch))]
    heapify(pending)
    seen = {n for *_, n in pending}
    while len(pending) > 1:
        *_, block = heappop(pending)
        following = flow.after(block)
        if block == branch or not following:
            return None
        for n in following:
            if n not in seen:
                seen.add(n)
                heappush(pending, (rank[n] <= here, rank[n], n))
    join = pending[0][-1] if pending else branch
    return None if join == branch else join


def never_meet(flow: Flow, branch: int, last: int | None = None) -> bool:
    """Whether no block can follow on two paths from a block, up to `last`: all that is known of a path holds to its end."""
    met = [n for edge in flow.edges(flow.blocks[branch]) for n in _reached(flow, edge.target, last)]
    return len(met) == len(set(met))


def is_barrier(step: Step) -> bool:
    return isinstance(step, Run) and step.row.barrier is not None


def _counts(flow: Flow, branch: int, join: int) -> frozenset[int]:
    """How many barriers paths from the end of `branch` to `join` may pass: two are enough to
    tell that they differ. A loop with a barrier gives two."""
    order = _reached(flow, branch, join)
    found: dict[int, set[int]] = {number: set() for number in order}
    found[join] = {0}
    changed = True
    while changed:
        changed = False
        for number in reversed(order):
            if number == join:
                continue
            here = sum(map(is_barrier, flow.blocks[number].steps)) if number != branch else 0
            new = {here + n for edge in flow.edges(flow.blocks[number]) for n in found[edge.target]}
            if not new <= found[number] and len(found[number]) < 2:
                found[number] |= new
                changed = True
    return frozenset(found[branch])


def after_barrier(side: Side) -> Side:
    """The side after one more barrier. Where sides pass different numbers of them, which may be
    any number in a loop, none orders anything: all accesses of such a side stand together."""
    return side._replace(interval=side.interval + 1) if side.parting.even else side


def joins_again(side: Side) -> bool:
    """Whether the threads that parted come together in one block again."""
    return side.parting.join not in (None, ENDED)


def is_reached_by_all(state: State) -> bool:
    """Whether the threads that part before a barrier all come to it."""
    return not state.uneven and all(side.parting.even for side in state.sides)


def _reached(flow: Flow, first: int, last: int | None = None) -> list[int]:
    """The blocks that can follow, nearest first; none after `last`."""
    return list(walked([first], lambda n: flow.after(n) if n != last else ()))


def part(state: State, parting: Parting | None, number: int) -> None:
    """The state goes on for the threads on side `number` of a parting."""
    if parting is not None:
        parting.threads[number] = _about_threads(state.facts)
        state.sides = (*state.sides, Side(parting, number, 0))


def join(state: State, block: int, base: Facts, *, alone: bool) -> None:
    """Paths meet at the begin of a block: partings that join here end, choices too.

    What is known of threads is what the sides around it know, else `base`; all that was if they come `alone`, those of no other side.
    """
    state.sides = tuple(s for s in state.sides if s.parting.join not in (block, None))
    if alone:
        return
    side = state.sides[-1] if state.sides else None
    own = _about_threads(base) if side is None else side.parting.threads[side.number]
    kept = {a: known for a, known in state.facts.items() if not is_thread_condition(a)}
    state.facts = {**kept, **own}


def ending(state: State, block: int) -> list[Parting]:
    """The partings that end at the begin of a block where paths meet."""
    return [side.parting for side in state.sides if side.parting.join in (block, None)]


def _about_threads(facts: Facts) -> Knowns:
    return {atom: known for atom, known in facts.items() if is_thread_condition(atom)}


def others(event: Event, state: State) -> Iterator[tuple[Event, bool]]:
    """Remember an access of the threads on this side; the accesses of other sides up to the
    same barrier, each with whether both certainly run in one execution."""
    for parting, number, interval in state.sides:
        mine = _outside(event, parting)
        plain = mine is event and not state.unordered and _is_plain(state.facts, parting.facts)
        for entry in parting.events:
            if entry.side != number and entry.interval == interval:
                yield entry.event, plain and entry.plain
        parting.events.setdefault(PartingEvent(mine, number, interval, plain))


def _outside(event: Event, parting: Parting) -> Event:
    """The event with any number for the iterations of loops inside the side."""
    inner: dict[Atom, Any] = {
        atom: forms.of_atom(Atom("any", (("inside", atom.key), AtomRange(0, None))))
        for atom in event.mentions
        if atom.kind == "iteration" and atom not in parting.facts
    }
    return moved(event, Substitution(inner, {}).region(event.region)) if inner else event


def _is_plain(facts: Facts, before: Facts) -> bool:
    """Whether nothing but conditions on threads was decided since a parting."""
    return all(
        is_thread_condition(atom) or (known == before[atom] if atom in before else known.low == 0)
        for atom, known in facts.items()
    )
