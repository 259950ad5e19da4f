"""Rows: from which sources a token may come, and how many groups ago at least.

A row {source: cost} belongs to a value at a program point. A source is a token value seen from
outside (its number, 1 or more), or `FRESH`: the group was committed inside. The cost is the least
number of groups committed to the queue since: since the point where the source is read for a value,
since the commit for `FRESH`. Costs are numbers, or `witness_paths.Path`s where witnesses are wanted.

This is the shortest-path (min-plus, tropical) semiring: `compose` is one path after the other, `least`
is where paths meet. A loop's body is a matrix of it, kept by columns: `columns[j] = {i: c}` says
that slot j at the end of an iteration may hold what slot i held at its start, with c groups
committed in between; a shift register has one entry a column. A *state* {slot: cost} is a row vector.

    once(power(columns, n), state)   state ⊗ M^n          exactly n iterations
    iterate_up_to(rows, state, n)    state ⊗ (I ⊕ M)^n    any number of iterations up to n

A depth-4 shift register with one group an iteration of 10^9 iterations takes 3 squarings.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
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
    return {source: reached + cost for source, reached in row.items()} if cost else row


def least(rows: Iterable[dict[K, int]]) -> dict[K, int]:
    """Any of the rows may hold: the smallest cost from each source."""
    best: dict[K, int] = {}
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
    costs = (start[source] + cost for source, cost in row.items() if source in start)
    return min(costs, default=None)


# -- any number of iterations --------------------------------------------------------------------------

Targets = dict[int, list[tuple[int, int]]]
"""Where each slot goes: the rows of the matrix, {source: [(target, cost)]}."""


def targets(columns: Columns) -> Targets:
    """The rows of the matrix whose columns are given."""
    rows: Targets = {}
    for target, column in columns.items():
        for source, cost in column.items():
            rows.setdefault(source, []).append((target, cost))
    return rows


def iterate_up_to(rows: Targets, state: State, iterations: int | None) -> State:
    """The cheapest state over 0..`iterations` iterations (None: any number): Bellman and Ford's
    relaxation, one iteration of the loop at a time. What no iteration improves stays as it was."""
    best = dict(state)
    changed = state
    while changed and iterations != 0:
        iterations = iterations and iterations - 1
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


def power(columns: Columns, iterations: int) -> Columns:
    """The matrix of exactly so many iterations, 1 or more, by squaring."""
    rest = iterations // 2
    if not rest:
        return columns
    squared = product(columns, columns)
    # A shift register of new tokens holds the same after as many iterations as it has slots.
    if squared == columns:
        return columns
    found = power(squared, rest)
    return product(columns, found) if iterations & 1 else found


def product(first: Columns, later: Columns) -> Columns:
    """One matrix after the other: (A ⊗ B)[i, j] = min over k of A[i, k] + B[k, j]."""
    made: Columns = {}
    for target, column in later.items():
        best = made[target] = {}
        for middle, cost in column.items():
            for source, before in first.get(middle, NO_ROW).items():
                reached = min(before + cost, CEILING)
                if reached < best.get(source, FOREVER):
                    best[source] = reached
    return made


def once(columns: Columns, state: State) -> State:
    found = {target: resolved(column, state) for target, column in columns.items()}
    return {target: cost for target, cost in found.items() if cost is not None}
