"""Moves the values carried by a loop through its iterations, in min-plus algebra.

`columns[j] = {i: c}` says that slot j at the end of an iteration may hold what slot i held at
its start, with c groups committed in between; it is one column of the loop body's matrix,
kept sparse since a shift register has one entry a column. A *state* {slot: cost} is a row
vector.

    turn(columns, state, n)       state ⊗ M^n          exactly n iterations
    turn_up_to(rows, state, n)    state ⊗ (I ⊕ M)^n    any number of iterations up to n

A depth-4 shift register with one group an iteration of 10^9 iterations takes 30 squarings.
"""

from __future__ import annotations

import numpy as np

from mlir_async_pipe.waits.algebra import minplus

State = dict[int, int]
Columns = dict[int, dict[int, int]]


def turn(columns: Columns, state: State, iterations: int) -> State:
    """The state after exactly `iterations` iterations."""
    if iterations <= 2 * len(columns) + 16:
        for _ in range(iterations):
            before, state = state, _step(columns, state)
            # A shift register of new tokens holds the same after as many iterations as it has slots.
            if state == before:
                break
        return state
    if all(len(column) <= 1 for column in columns.values()):
        return _turn_function(columns, state, iterations)
    return _turn_matrix(columns, state, iterations)


Targets = dict[int, list[tuple[int, int]]]
"""Where each slot goes: the rows of the matrix, {source: [(target, cost)]}."""


def targets(columns: Columns) -> Targets:
    """The rows of the matrix whose columns are given."""
    rows: Targets = {}
    for target, column in columns.items():
        for source, cost in column.items():
            if source in rows:
                rows[source].append((target, cost))
            else:
                rows[source] = [(target, cost)]
    return rows


def turn_up_to(rows: Targets, state: State, iterations: int | None) -> State:
    """The cheapest state over 0..`iterations` iterations (None: any number)."""
    return _relax(rows, state, iterations, None)


class TurnsUpTo:
    """The cheapest ways of `turn_up_to`, kept to show the path to any slot."""

    def __init__(self, columns: Columns, state: State, iterations: int | None) -> None:
        self.start = state
        self._came_from: dict[tuple[int, int], int] = {}
        self.state = _relax(targets(columns), state, iterations, self._came_from)
        self._turned = {slot: turned for turned, slot in self._came_from}

    def path(self, slot: int) -> list[int]:
        """The slots that hold the value of `slot` one iteration after another; a path of one
        slot stays before the loop."""
        turned = self._turned.get(slot, 0)
        slots = [slot]
        while turned:
            slots.append(self._came_from[turned, slots[-1]])
            turned -= 1
        return slots[::-1]


def _relax(
    rows: Targets,
    state: State,
    iterations: int | None,
    came_from: dict[tuple[int, int], int] | None,
) -> State:
    """Bellman and Ford's relaxation, one iteration of the loop at a time. `came_from` maps
    (iteration, slot) to the slot before, where that iteration made the slot cheaper."""
    best = dict(state)
    changed = state
    turned = 0
    while changed and (iterations is None or turned < iterations):
        turned += 1
        improved: State = {}
        for source, reached in changed.items():
            for target, cost in rows.get(source, ()):
                new = reached + cost
                if new < best.get(target, minplus.NEVER) and new < improved.get(
                    target, minplus.NEVER
                ):
                    improved[target] = new
                    if came_from is not None:
                        came_from[turned, target] = source
        best.update(improved)
        changed = improved
    return best


# How many of the last iterations of a long loop a path shows one by one.
SHOWN_ITERATIONS = 16


class ExactTurns:
    """The cheapest ways of `turn`, kept to show the path to any slot."""

    def __init__(self, columns: Columns, state: State, iterations: int) -> None:
        self._columns = columns
        self._start = state
        self._iterations = iterations
        self._states = [turn(columns, state, max(0, iterations - SHOWN_ITERATIONS))]
        for _ in range(min(iterations, SHOWN_ITERATIONS)):
            self._states.append(_step(columns, self._states[-1]))
        self._firsts: dict[int, int] | None = None
        # Each slot has one source at most, as in a shift register.
        self._is_function = all(len(column) <= 1 for column in columns.values())

    def path(self, slot: int) -> tuple[list[int], int]:
        """The slots in the last iterations, or from `FRESH` (0) on, and how many iterations
        run before the first one shown."""
        slots = [slot]
        for before, after in zip(self._states[-2::-1], self._states[:0:-1], strict=True):
            target = slots[-1]
            slots.append(
                next(
                    source
                    for source, cost in self._columns[target].items()
                    if source in before and before[source] + cost == after[target]
                )
            )
            if slots[-1] == 0:
                break
        return slots[::-1], self._iterations + 1 - len(slots)

    def before(self, slot: int) -> tuple[int, int]:
        """Where the value of a slot at the first iteration shown was before the loop, and
        the groups committed since."""
        skipped = max(0, self._iterations - SHOWN_ITERATIONS)
        reached = self._states[0][slot]
        if self._is_function:
            if self._firsts is None:
                origins = _origins(self._columns, skipped)
                self._firsts = {target: source for target, (source, _) in origins.items()}
            first = self._firsts[slot]
        else:
            first = next(
                source
                for source, start in self._start.items()
                if turn(self._columns, {source: start}, skipped).get(slot) == reached
            )
        return first, reached - self._start[first]


def _step(columns: Columns, state: State) -> State:
    following: State = {}
    for target, column in columns.items():
        costs = [state[source] + cost for source, cost in column.items() if source in state]
        if costs:
            following[target] = min(costs)
    return following


def _turn_function(columns: Columns, state: State, iterations: int) -> State:
    return {
        slot: state[source] + cost
        for slot, (source, cost) in _origins(columns, iterations).items()
        if source in state
    }


def _origins(columns: Columns, iterations: int) -> dict[int, tuple[int, int]]:
    """Where each slot comes from and at which cost, where each has one source: follow the
    sources in jumps of 1, 2, 4, … iterations."""
    slots = list(dict.fromkeys([*columns, *(source for one in columns.values() for source in one)]))
    number = {slot: i for i, slot in enumerate(slots)}
    nowhere = len(slots)
    sources, costs = [nowhere] * (nowhere + 1), [0] * (nowhere + 1)
    for slot, column in columns.items():
        for source, cost in column.items():
            sources[number[slot]], costs[number[slot]] = number[source], cost
    origin, groups = np.arange(nowhere + 1), np.zeros(nowhere + 1, dtype=np.int64)
    jump, step = np.array(sources), np.array(costs, dtype=np.int64)
    while iterations:
        if iterations & 1:
            origin, groups = jump[origin], np.minimum(groups + step[origin], minplus.CEILING)
        iterations >>= 1
        if iterations:
            jump, step = jump[jump], np.minimum(step + step[jump], minplus.CEILING)
    return {
        slot: (slots[source], cost)
        for slot, source, cost in zip(slots, origin.tolist(), groups.tolist(), strict=False)
        if source != nowhere
    }


def _turn_matrix(columns: Columns, state: State, iterations: int) -> State:
    following: State = {}
    for slots in _components(columns):
        number = {slot: i for i, slot in enumerate(slots)}
        matrix = np.full((len(slots), len(slots)), minplus.NEVER, dtype=np.int64)
        for target in slots:
            for source, cost in columns[target].items():
                if source in number:
                    matrix[number[source], number[target]] = cost
        vector = np.full((1, len(slots)), minplus.NEVER, dtype=np.int64)
        for slot in slots:
            if slot in state:
                vector[0, number[slot]] = state[slot]
        vector = minplus.apply(vector, matrix, iterations)
        for slot in slots:
            if vector[0, number[slot]] < minplus.NEVER:
                following[slot] = int(vector[0, number[slot]])
    return following


def _components(columns: Columns) -> list[list[int]]:
    """The slots that exchange values, so that the dense matrices stay small.

    A slot that only keeps its own value is copied into each component that reads it.
    """
    constant = {slot for slot, column in columns.items() if column.keys() == {slot}}
    leader = {slot: slot for slot in columns if slot not in constant}

    def find(slot: int) -> int:
        while leader[slot] != slot:
            leader[slot] = leader[leader[slot]]
            slot = leader[slot]
        return slot

    for target in leader:
        for source in columns[target]:
            if source in leader:
                leader[find(target)] = find(source)
    groups: dict[int, dict[int, None]] = {}
    for slot in leader:
        group = groups.setdefault(find(slot), {})
        group[slot] = None
        group.update(dict.fromkeys(source for source in columns[slot] if source in constant))
    return [*map(list, groups.values()), *([slot] for slot in constant)]
