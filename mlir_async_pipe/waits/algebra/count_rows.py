"""Rows: from which sources a token may come, and how many groups ago at least.

A row {source: cost} belongs to a value at a program point. A source is a token value seen
from outside (its id, 1 or more), or `FRESH`: the group was committed inside. The cost is the
least number of groups committed to the queue since: since the point where the source is
read for a value, since the commit for `FRESH`.
"""

from __future__ import annotations

from collections.abc import Iterable

Row = dict[int, int]

FRESH = 0

NO_ROW: Row = {}
FRESH_ROW: Row = {FRESH: 0}
"""The rows of what no path brings, and of a group where it is committed. Rows are shared, so
nothing changes one."""

FOREVER = 1 << 61
"""The cost of control that never comes out again (an endless loop)."""

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


def resolved(row: Row, start: dict[int, int]) -> int | None:
    """The cost of a row whose sources have the costs `start`; None if there is no path."""
    best: int | None = None
    for source, cost in row.items():
        if source in start:
            reached = start[source] + cost
            if best is None or reached < best:
                best = reached
    return best
