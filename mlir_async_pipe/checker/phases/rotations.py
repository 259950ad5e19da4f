"""Rings that begin anywhere: all slots that a path may be at are followed at once.

    full[2], parity 1; then full[0], parity 0         a path on which the ring began with slot 0
    full[0], parity 0; then full[1], parity 0         the same path, had it begun with slot 1
    [2, 0, 1, 2, 0, 1], [1, 0, 0, 0, 1, 1]            both, and four more: one number for each beginning

A ring of V slots comes back to a slot and a parity after 2V tiles. So a loop that enters with slot 0 and parity 0
is entered with 2V pairs instead, those of its first 2V tiles, and a number that is made of them is one number
for each (`EachRotation`). Beginning j is followed in a memory whose slots and parities are moved by j tiles: each step is
checked to do there what it does for beginning 0, moved by j. Then a state stands for 2V, and may go on as any of
them: as that whose slot is 0, whatever the tiles before were. docs/phases.md proves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.carried_slots import CarriedNumbers
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.partings import is_barrier
from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases import byte_places
from mlir_async_pipe.checker.phases.amounts import EACH
from mlir_async_pipe.checker.phases.block_memory import BlockMemory
from mlir_async_pipe.checker.phases.byte_places import BEGINNING, EachRotation, Value, settled
from mlir_async_pipe.checker.phases.path_numbers import Evaluation, PathNumbers
from mlir_async_pipe.checker.phases.path_state import TRIP, Effect, PathState, RoleState, Spot
from mlir_async_pipe.checker.phases.ranges_of_sums import LARGEST_MODULUS
from mlir_async_pipe.checker.phases.ring_moves import Call, RingArea, RingMoves
from mlir_async_pipe.checker.precision import OpenError, RefineError
from mlir_async_pipe.checker.step_graph import ControlEdge, Run, loop_bodies
from mlir_async_pipe.facts.flow.algorithms import reached


@dataclass
class Rotations:
    """The rings of one kernel: what `starts` of its loops carry for each beginning; blocks `before` come to such a
    start later. `moves`: what a later beginning does to memory; `alike`: steps that are known to do as it
    says."""

    numbers: PathNumbers
    starts: Mapping[int, Mapping[int, tuple[int, ...]]]
    loops: frozenset[int]
    moves: RingMoves
    before: frozenset[int]
    asked: set[Atom] = field(default_factory=set)
    alike: set[tuple[int, tuple[Value, ...], int | None]] = field(default_factory=set)

    @classmethod
    def of(cls, numbers: PathNumbers) -> Rotations | None:
        """The rings of a kernel, None if its loops carry none."""
        flow, (period, starts, loops) = numbers.flow, _ring_starts(numbers)
        if period < 4 or period % 2:
            return None
        enters = {block.number for loop, block, _ in flow.edges_of_loops("enter") if loop in starts}
        after = {n: reached([n], flow.after) for n in range(len(flow.blocks))}
        before = frozenset(n for n, later in after.items() if not enters.isdisjoint(later))
        return cls(numbers, starts, loops, RingMoves(period), before)

    @property
    def period(self) -> int:
        """Tiles after which slots and parities repeat."""
        return self.moves.period

    def know(self, areas: Mapping[int, list[RingArea]]) -> None:
        """All is followed anew where more of memory is known to be rings."""
        if areas != self.moves.areas:
            self.moves = RingMoves(self.period, areas)
            self.alike.clear()

    # Steps --------------------------------------------------------------------------------

    def begin(self, state: PathState, edge: ControlEdge) -> None:
        """A loop is entered: with what its first tiles carry, for each beginning one."""
        for kind, loop in edge.loops:
            for target, sequence in self.starts.get(loop, {}).items() if kind == "enter" else ():
                if state.env.get(target) == sequence[0]:
                    state.env[target] = byte_places.of_each((BEGINNING,), sequence, self.period)
                    state.memory.moves = self.moves

    def rule(self, run: Run, rule: Evaluation) -> Evaluation:
        """What an op gives for each beginning, and for each residue of an unknown."""
        found: dict[tuple[Value, ...], Value] = {}
        tests = run.row.phase == "test"

        def evaluate(spot: Spot) -> Value:
            if tests:
                raise NotFollowedError("rings")
            spot, values = _settled(spot, run.operands)
            if not any(isinstance(value, EachRotation) for value in values):
                return self._by_residues(rule, spot)
            if values in found:
                return found[values]
            made = byte_places.for_each(lambda each: rule(_as_of(spot, run.operands, each)), values)
            if all(map(_says_all, values)):
                found[values] = made
            return made

        return evaluate

    def _by_residues(self, rule: Evaluation, spot: Spot) -> Value:
        try:
            return rule(spot)
        except OpenError as wanted:
            match wanted.args:
                case (Atom() as atom, int(by)) if self.period % by == 0:
                    pass
                case _:
                    raise
            if atom not in self.asked:
                self.asked.add(atom)
                raise RefineError(modulus=self.period) from wanted
            made = [
                rule(replace(spot, known=spot.known.supposing(atom, residue, self.period)))
                for residue in range(self.period)
            ]
            return byte_places.of_each((forms.of_atom(atom),), tuple(made), self.period)

    def effect(self, run: Run, effect: Effect) -> Effect:
        """What an op does for beginning 0, if all others do the same. Raises NotFollowedError, or RefineError for new rings."""
        reads, number, meets = self.numbers.effects.reads(run), id(run), is_barrier(run)
        named = run.row.meeting is not None

        def execute(spot: Spot) -> None:
            if spot.memory.moves is None or meets:
                return effect(spot)
            spot, values = _settled(spot, reads)
            each = [value for value in values if isinstance(value, EachRotation)]
            # Barriers that have a number are no rings, so theirs is the same wherever these begin.
            if any(value.indices != (BEGINNING,) for value in each) or (named and each):
                raise NotFollowedError("rings")
            if named:
                return effect(spot)
            step = number, values, spot.mask
            first, *later = range(self.period if each else 1)
            here = self._beginning(spot, reads, values, first) if each else spot
            if step not in self.alike:
                rest = [self._beginning(spot, reads, values, at) for at in later]
                self.moves.check([_calls(effect, one) for one in (here, *rest)])
                if all(map(_says_all, values)):
                    self.alike.add(step)
            return effect(here)

        return execute

    @staticmethod
    def _beginning(spot: Spot, numbers: Iterable[int], values: Iterable[Value], at: int) -> Spot:
        return _as_of(
            spot, numbers, [byte_places.value_at(value, {BEGINNING: at}) for value in values]
        )

    # States -------------------------------------------------------------------------------

    def rotate(self, state: PathState, block: int) -> None:
        """Go on as the beginning that has come to the first slot, if no ring begins later."""
        memory = state.memory
        places = [block, *(role.block for role in state.others)]
        if memory.moves is None or not self.before.isdisjoint(places):
            return
        state.rewrite(lambda value: settled(value, state.known))
        self._count(state)
        by = self._first(state)
        if not by:
            return
        state.rewrite(lambda value: byte_places.rotated(value, by))
        self.moves.rotate(memory, by)

    def _count(self, state: PathState) -> None:
        """Count what is n tiles later by the tiles that are left in a loop of n, of which the number of this one
        is known as a residue only; then that is not needed any more."""
        loops = (one for strand in state.strands() for one in strand.iterations.items())
        values = [one.value for loop, one in loops if loop in self.loops]
        counting = {a for v in values if isinstance(v, Form) for a, _ in v.terms if a.kind == TRIP}
        residues = state.known.residues
        for atom in [atom for atom in residues if atom.kind == TRIP]:
            if atom in counting and self.asked:
                state.count_from(atom, residues[atom][0], self.asked)
            each = (value for value in state.values() if isinstance(value, EachRotation))
            if atom not in counting or any(byte_places.is_made_of(value, atom) for value in each):
                del residues[atom]

    @staticmethod
    def _first(state: PathState) -> int | None:
        """Which beginning has come to the first slot, as the first role sees it that knows."""
        strands: list[RoleState] = sorted(state.strands(), key=lambda one: one.mask or 0)
        values = [strand.env[number] for strand in strands for number in sorted(strand.env)]
        rings = [v for v in values if isinstance(v, EachRotation) and v.indices == (BEGINNING,)]
        firsts = (_least_rotation(ring.values) for ring in rings)
        return next((first for first in firsts if first is not None), None)


def _settled(spot: Spot, numbers: Sequence[int]) -> tuple[Spot, tuple[Value, ...]]:
    """A spot where some values are settled, and these."""
    before = [spot.get(number) for number in numbers]
    values = tuple([settled(value, spot.known) for value in before])
    changed = any(one is not other for one, other in zip(before, values, strict=True))
    return _as_of(spot, numbers, values) if changed else spot, values


def _as_of(spot: Spot, numbers: Iterable[int], values: Iterable[Value]) -> Spot:
    chosen = dict(zip(numbers, values, strict=True))
    return replace(
        spot, get=lambda number: chosen[number] if number in chosen else spot.get(number)
    )


def _says_all(value: Value) -> bool:
    """Whether what is made of a value depends on nothing that a path knows."""
    if isinstance(value, EachRotation):
        return all(map(_says_all, value.values))
    return not isinstance(value, Form) or all(
        atom.kind in ("address", "units", EACH) for atom, _ in value.terms
    )


@lru_cache(maxsize=1 << 10)
def _least_rotation(values: tuple[Any, ...]) -> int | None:
    """By how much to rotate a sequence of numbers to the least one; None if it repeats within."""
    if not all(isinstance(value, int) for value in values):
        return None
    rotations = [values[by:] + values[:by] for by in range(len(values))]
    least = min(rotations)
    return rotations.index(least) if rotations.count(least) == 1 else None


@dataclass
class _Noting:
    """Stands for a memory: notes what a step does there."""

    memory: BlockMemory
    calls: list[Call] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.memory, name)
        if not callable(found):
            return found
        return lambda *arguments, **named: self.calls.append((name, (*arguments, *named.items())))


def _calls(effect: Effect, spot: Spot) -> list[Call]:
    memory: Any = _Noting(spot.memory)
    effect(replace(spot, memory=memory))
    return memory.calls


# What loops carry round a ring: the carried numbers of an innermost loop, run alone until they repeat.
#
#     outer loop enters with slot 0, parity 0; the inner one goes on from there, and hands them back
#     0, 1, 2, 0, 1, 2 and 0, 0, 0, 1, 1, 1            what the outer one is entered with for each beginning


def _ring_starts(
    numbers: PathNumbers,
) -> tuple[int, dict[int, dict[int, tuple[int, ...]]], frozenset[int]]:
    """The longest period of a ring, and the sequences of that by the loop, and value, that begins with it."""
    flow, carried_numbers = numbers.flow, CarriedNumbers(numbers.flow)
    enters: dict[int, dict[int, tuple[int, int]]] = {}
    for loop, _, edge in flow.edges_of_loops("enter"):
        for target, source in edge.assigns:
            enters.setdefault(loop, {})[target] = source, loop
    outer = {target: source for carried in enters.values() for target, source in carried.items()}
    bodies = loop_bodies(flow)
    inner = [loop for loop, body in bodies.values() if len(body & bodies.keys()) == 1]
    found: dict[int, dict[tuple[int, int], set[tuple[int, ...]]]] = {}
    for loop in inner:
        begins = {target: _begin(target, outer) for target in enters.get(loop, {})}
        starts = {
            target: value
            for target, (_, source, _) in begins.items()
            if isinstance(value := numbers.given(source), int)
        }
        steps = carried_numbers.run(loop, starts, 2 * LARGEST_MODULUS)
        for target, sequence in _sequences(steps).items():
            first, _, entered = begins[target]
            by_start = found.setdefault(len(sequence), {})
            by_start.setdefault((entered, first), set()).add(sequence)
    period = max(found, default=0)
    chosen: dict[int, dict[int, tuple[int, ...]]] = {}
    for (loop, target), sequences_of in found.get(period, {}).items():
        if len(sequences_of) == 1:
            chosen.setdefault(loop, {})[target] = sequences_of.pop()
    return period, chosen, frozenset(inner)


def _begin(target: int, outer: Mapping[int, tuple[int, int]]) -> tuple[int, int, int]:
    """The outermost carried value that one goes on from, what that begins with, and its loop."""
    source, loop = outer[target]
    while source in outer:
        target = source
        source, loop = outer[target]
    return target, source, loop


def _sequences(steps: list[dict[int, int]]) -> dict[int, tuple[int, ...]]:
    """What each carried number is by iteration, of those that come back to where they begin, up to there."""
    first = steps.index(steps[-1]) if steps else 0
    period = len(steps) - 1 - first
    if not 0 < period <= LARGEST_MODULUS:
        return {}
    found = {}
    for number in steps[0]:
        sequence = [step[number] for step in steps] + [
            steps[first + 1 + n % period][number] for n in range(period)
        ]
        if sequence[:first] == sequence[period : period + first] and len(set(sequence)) > 1:
            found[number] = tuple(sequence[:period])
    return found
