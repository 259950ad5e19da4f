"""Moves the values carried by a loop through its iterations, in min-plus algebra.

`columns[j] = {i: c}` says that slot j at the end of an iteration may hold what slot i held at
its start, with c groups committed in between; it is one column of the loop body's matrix,
kept sparse since a shift register has one entry a column. A *state* {slot: cost} is a row
vector.

    turn(columns, state, n)       state ⊗ M^n          exactly n iterations
    turn_up_to(columns, state, n) state ⊗ (I ⊕ M)^n    any number of iterations up to n

A depth-4 shift register with one group an iteration that turned 10^9 times takes 30 squarings.
"""

from __future__ import annotations

import numpy as np

from mlir_async_pipe.waits import minplus

State = dict[int, int]
Columns = dict[int, dict[int, int]]


def turn(columns: Columns, state: State, iterations: int) -> State:
    """The state after exactly `iterations` iterations."""
    if iterations <= 2 * len(columns) + 16:
        for _ in range(iterations):
            state = _step(columns, state)
        return state
    if all(len(column) <= 1 for column in columns.values()):
        return _turn_function(columns, state, iterations)
    return _turn_matrix(columns, state, iterations)


def turn_up_to(columns: Columns, state: State, iterations: int | None) -> State:
    """The cheapest state over 0..`iterations` iterations (None: any number)."""
    return _relax(columns, state, iterations, {})


def path_up_to(columns: Columns, state: State, iterations: int | None, slot: int) -> list[int]:
    """The slots that hold the value of `slot` one iteration after another, on the cheapest
    way of `turn_up_to`; a path of one slot stays in front of the loop."""
    came_from: dict[tuple[int, int], int] = {}
    _relax(columns, state, iterations, came_from)
    turned = max((turn for turn, reached in came_from if reached == slot), default=0)
    path = [slot]
    while turned:
        path.append(came_from[turned, path[-1]])
        turned -= 1
    return path[::-1]


def _relax(
    columns: Columns,
    state: State,
    iterations: int | None,
    came_from: dict[tuple[int, int], int],
) -> State:
    """Bellman and Ford's relaxation, one iteration of the loop at a time. `came_from` maps
    (iteration, slot) to the slot before, where that iteration made the slot cheaper."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for target, column in columns.items():
        for source, cost in column.items():
            rows.setdefault(source, []).append((target, cost))
    best = dict(state)
    changed = dict(state)
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
                    came_from[turned, target] = source
        best.update(improved)
        changed = improved
    return best


# How many of the last iterations of a long loop a path shows one by one.
SHOWN_ITERATIONS = 16


def path(columns: Columns, state: State, iterations: int, slot: int) -> tuple[list[int], int]:
    """The slots on the cheapest way of `turn`, in the last iterations or from `FRESH` (0) on,
    and how many iterations run in front of the first slot shown."""
    shown = min(iterations, SHOWN_ITERATIONS)
    states = [turn(columns, state, iterations - shown)]
    for _ in range(shown):
        states.append(_step(columns, states[-1]))
    slots = [slot]
    for before, after in zip(states[-2::-1], states[:0:-1], strict=True):
        target = slots[-1]
        slots.append(
            next(
                source
                for source, cost in columns[target].items()
                if source in before and before[source] + cost == after[target]
            )
        )
        if slots[-1] == 0:
            break
    return slots[::-1], iterations + 1 - len(slots)


def first_slot(columns: Columns, state: State, iterations: int, slot: int) -> int:
    """The slot in front of the loop whose value is in `slot` after exactly `iterations`."""
    cost = turn(columns, state, iterations)[slot]
    return next(
        first
        for first, start in state.items()
        if turn(columns, {first: start}, iterations).get(slot) == cost
    )


def _step(columns: Columns, state: State) -> State:
    following: State = {}
    for target, column in columns.items():
        costs = [state[source] + cost for source, cost in column.items() if source in state]
        if costs:
            following[target] = min(costs)
    return following


def _turn_function(columns: Columns, state: State, iterations: int) -> State:
    """Each slot has one source: follow the sources in jumps of 1, 2, 4, … iterations."""
    origin = {slot: (slot, 0) for slot in columns}
    jump = {slot: next(iter(column.items())) for slot, column in columns.items() if column}
    while iterations:
        if iterations & 1:
            origin = _compose(origin, jump)
        iterations >>= 1
        if iterations:
            jump = _compose(jump, jump)
    return {
        slot: state[source] + cost for slot, (source, cost) in origin.items() if source in state
    }


def _compose(
    later: dict[int, tuple[int, int]], earlier: dict[int, tuple[int, int]]
) -> dict[int, tuple[int, int]]:
    return {
        slot: (earlier[middle][0], earlier[middle][1] + cost)
        for slot, (middle, cost) in later.items()
        if middle in earlier
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
        left = iterations
        while left:
            if left & 1:
                vector = minplus.multiply(vector, matrix)
            left >>= 1
            if left:
                matrix = minplus.multiply(matrix, matrix)
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
