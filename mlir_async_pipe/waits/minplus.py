"""Rows: from which sources a token may come, and how many groups ago at least.

A row {source: cost} belongs to a value at a program point. A source is a token value seen from
outside (its number, 1 or more), or `FRESH`: the group was committed inside. The cost is the least
number of groups committed to the queue since: since the point where the source is read for a value,
since the commit for `FRESH`. Costs are numbers, or `witness_paths.Path`s where witnesses are wanted.

This is the shortest-path (min-plus, tropical) semiring: `compose` is one path after the other, `least`
is where paths meet. A loop's body is a matrix of it, kept by columns: `columns[j] = {i: c}` says
that slot j at the end of an iteration may hold what slot i held at its start, with c groups
committed in between; a shift register has one entry a column. A *state* {slot: cost} is a row vector.

    iterate(columns, state, n)       state ⊗ M^n          exactly n iterations
    iterate_up_to(rows, state, n)    state ⊗ (I ⊕ M)^n    any number of iterations up to n

A depth-4 shift register with one group an iteration of 10^9 iterations takes 30 squarings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

Row = dict[int, int]
State = dict[int, int]
Columns = dict[int, Row]

FRESH = 0

NO_ROW: Row = {}
FRESH_ROW: Row = {FRESH: 0}
"""The rows of what no path brings, and of a group where it is committed. Rows are shared, so
nothing changes one."""

FOREVER = 1 << 61
"""The cost of control that never comes out again (an endless loop), or of no path: the zero of the
semiring."""

CEILING = 1 << 59
"""Sums in matrices saturate here, far above any count that an instruction can hold."""

CROSSING = -(1 << 58)
"""The cost of a token from another thread: no count covers it."""


def shifted(row: Row, cost: int) -> Row:
    """The row after `cost` more groups."""
    return {source: reached + cost for source, reached in row.items()} if cost else row


def least(rows: Iterable[Row]) -> Row:
    """Any of the rows may hold: the smallest cost from each source."""
    best: Row = {}
    for row in rows:
        for source, cost in row.items():
            if cost < best.get(source, FOREVER):
                best[source] = cost
    return best


def compose(row: Row, sources: dict[int, Row]) -> Row:
    """The row in terms of what its sources themselves come from."""
    parts = [shifted(sources[source], cost) for source, cost in row.items() if source != FRESH]
    if FRESH in row:
        parts.append({FRESH: row[FRESH]})
    return parts[0] if len(parts) == 1 else least(parts)


def resolved(row: Row, start: State) -> int | None:
    """The cost of a row whose sources have the costs `start`; None if there is no path."""
    best: int | None = None
    for source, cost in row.items():
        if source in start:
            reached = start[source] + cost
            if best is None or reached < best:
                best = reached
    return best


# -- any number of iterations --------------------------------------------------------------------------

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


def iterate_up_to(rows: Targets, state: State, iterations: int | None) -> State:
    """The cheapest state over 0..`iterations` iterations (None: any number): Bellman and Ford's
    relaxation, one iteration of the loop at a time. What no iteration improves stays as it was."""
    best = dict(state)
    changed = state
    done = 0
    while changed and (iterations is None or done < iterations):
        done += 1
        improved: State = {}
        for source, reached in changed.items():
            for target, cost in rows.get(source, ()):
                new = reached + cost
                if new < best.get(target, FOREVER) and new < improved.get(target, FOREVER):
                    improved[target] = new
        best.update(improved)
        changed = improved
    return best


# -- exactly so many -----------------------------------------------------------------------------------


def iterate(columns: Columns, state: State, iterations: int) -> State:
    """The state after exactly `iterations` iterations."""
    if iterations <= 2 * len(columns) + 16:
        for _ in range(iterations):
            before, state = state, once(columns, state)
            # A shift register of new tokens holds the same after as many iterations as it has slots.
            if state == before:
                break
        return state
    if _is_function(columns):
        return {
            slot: state[source] + cost
            for slot, (source, cost) in _origins(columns, iterations).items()
            if source in state
        }
    return _iterate_matrix(columns, state, iterations)


def once(columns: Columns, state: State) -> State:
    """The state after one iteration."""
    following: State = {}
    for target, column in columns.items():
        costs = [state[source] + cost for source, cost in column.items() if source in state]
        if costs:
            following[target] = min(costs)
    return following


def first_slots(columns: Columns, state: State, iterations: int) -> dict[int, int]:
    """For each slot after so many iterations the slot of `state` that its cost comes from."""
    if _is_function(columns):
        found = _origins(columns, iterations)
        return {slot: source for slot, (source, _) in found.items() if source in state}
    best: State = {}
    first: dict[int, int] = {}
    for source, start in state.items():
        for slot, cost in iterate(columns, {source: start}, iterations).items():
            if cost < best.get(slot, FOREVER):
                best[slot], first[slot] = cost, source
    return first


def _is_function(columns: Columns) -> bool:
    """Whether each slot has one source at most, as in a shift register."""
    return all(len(column) <= 1 for column in columns.values())


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
            origin, groups = jump[origin], np.minimum(groups + step[origin], CEILING)
        iterations >>= 1
        if iterations:
            jump, step = jump[jump], np.minimum(step + step[jump], CEILING)
    return {
        slot: (slots[source], cost)
        for slot, source, cost in zip(slots, origin.tolist(), groups.tolist(), strict=False)
        if source != nowhere
    }


def _iterate_matrix(columns: Columns, state: State, iterations: int) -> State:
    following: State = {}
    for slots in _components(columns):
        number = {slot: i for i, slot in enumerate(slots)}
        matrix = np.full((len(slots), len(slots)), FOREVER, dtype=np.int64)
        for target in slots:
            for source, cost in columns[target].items():
                if source in number:
                    matrix[number[source], number[target]] = cost
        vector = np.full((1, len(slots)), FOREVER, dtype=np.int64)
        for slot in slots:
            if slot in state:
                vector[0, number[slot]] = state[slot]
        vector = apply(vector, matrix, iterations)
        for slot in slots:
            if vector[0, number[slot]] < FOREVER:
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


# -- dense matrices of int64 ---------------------------------------------------------------------------

Matrix = Any

# Rows of a product are made in slices so that no temporary exceeds about 32 MB.
_TEMPORARY_ELEMENTS = 1 << 22


def multiply(left: Matrix, right: Matrix) -> Matrix:
    """Min-plus product of shapes (m, k) and (k, n): one path after the other.

    (A ⊗ B)[i, j] = min over k of A[i, k] + B[k, j]
    """
    m, k = left.shape
    n = right.shape[1]
    result = np.full((m, n), FOREVER, dtype=np.int64)
    if k == 0:
        return result
    step = max(1, _TEMPORARY_ELEMENTS // max(1, k * n))
    for start in range(0, m, step):
        rows = left[start : start + step]
        result[start : start + step] = (rows[:, :, None] + right[None, :, :]).min(axis=1)
    # The sum of two finite entries is at most 2^60; anything above is no path.
    return np.where(result > (CEILING << 1), FOREVER, np.minimum(result, CEILING))


def apply(row: Matrix, matrix: Matrix, times: int) -> Matrix:
    """row ⊗ matrix^times (times >= 0), exact, in O(log times) products; shapes (m, n), (n, n)."""
    while times:
        if times & 1:
            row = multiply(row, matrix)
        times >>= 1
        if times:
            matrix = multiply(matrix, matrix)
    return row
