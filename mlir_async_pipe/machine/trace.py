"""What the first thread did, in order: the raw material of the timeline, and exact counts.

The trace keeps one entry for each event that matters for time: ops with a cost, issues,
commits, waits, barriers, loop iterations. `WaitLog` keeps for every wait with tokens how
many younger groups were committed when it ran: the smallest such number over a run is the
largest count that is safe on the paths which that run took.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from mlir_async_pipe.session.diagnostics import Place

Event = Literal["op", "issue", "commit", "wait", "barrier", "loop", "iteration", "end"]


@dataclass(frozen=True)
class TraceEntry:
    """One event of thread 0.

    `queue` and `bytes` for issues; `group` is the number of the group that a commit makes;
    `left` the groups that a wait leaves in flight (-1 elsewhere), `covers` the number of ops
    of the queue that are over then; `cost` the cycles that stand on the op,
    `kind` under which else its cost is found.
    """

    event: Event
    op: str
    place: Place
    queue: str = ""
    bytes: int = 0
    group: int = -1
    left: int = -1
    covers: int = 0
    cost: int | None = None
    kind: str = ""


@dataclass
class Trace:
    """All entries of thread 0, in program order; `limit` bounds their number."""

    entries: list[TraceEntry] = field(default_factory=list)
    limit: int = 200_000

    def add(self, entry: TraceEntry) -> None:
        """Append an entry, silently dropping what is over the limit."""
        if len(self.entries) < self.limit:
            self.entries.append(entry)

    def executed(self, site: Any) -> None:
        """An op ran that is no event of its own; structured ops and async ops are left out."""
        if site.row.queue is None and site.row.barrier is None:
            self.add(TraceEntry("op", site.name, site.place, cost=site.cost, kind=site.kind))


@dataclass(frozen=True)
class WaitRun:
    """One wait op over a run: `count` is the largest N that it ran with, `exact` the smallest
    number of groups younger than the one that its token names, `times` how often it ran."""

    op: str
    place: Place
    queue: str
    count: int
    exact: int | None
    times: int


class WaitLog:
    """Gathers wait records by op."""

    def __init__(self) -> None:
        self._records: dict[int, WaitRun] = {}

    def add(self, site: Any, queue: str, count: int, younger: np.ndarray | None) -> None:
        """One execution; `younger` has an entry for each active lane, None without token."""
        exact = None if younger is None or len(younger) == 0 else int(younger.min())
        known = self._records.get(site.number)
        if known is not None:
            count = max(count, known.count)
            seen = [value for value in (exact, known.exact) if value is not None]
            exact = min(seen) if seen else None
        times = 1 if known is None else known.times + 1
        self._records[site.number] = WaitRun(site.name, site.place, queue, count, exact, times)

    def all(self) -> tuple[WaitRun, ...]:
        """All records, in order of the first execution."""
        return tuple(self._records.values())
