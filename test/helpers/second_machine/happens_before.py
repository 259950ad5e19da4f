"""Races by vector clocks: every access against the earlier ones of its granule.

Thread u's accesses of its current interval carry its clock. A barrier gives each thread the
clocks of all others, for the memory spaces that it orders, and starts a new interval. An async
operation is a thread of its own, forked where it is issued and joined into the thread whose wait
retires it, with that thread's clock of that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SPACES = ("global", "workgroup", "private")


@dataclass(frozen=True)
class Finding:
    """What is wrong, at which line, against which earlier line (0: none)."""

    code: str
    line: int
    other: int = 0


@dataclass(eq=False)
class Clock:
    """What one thread knows: the clock of each thread of the grid, by memory space."""

    thread: int
    block: int
    now: int = 1
    known: dict[str, dict[int, int]] = field(default_factory=lambda: {s: {} for s in SPACES})


@dataclass(eq=False)
class Forked:
    """The life of an async operation: `joined` is its thread's clock when a wait retired it.

    Two threads that copy the same bytes from one place to one place by the same operation do
    not harm each other: what they write is equal. `came_from` is equal for such copies.
    """

    thread: int
    joined: int | None = None
    came_from: tuple | None = None

    def writes_the_same(self, other: Forked) -> bool:
        """Whether another thread's copy writes equal bytes wherever both write."""
        equal = self.came_from is not None and self.came_from == other.came_from
        return equal and self.thread != other.thread


@dataclass(eq=False)
class _Access:
    clock: Clock
    at: int
    line: int
    kind: str
    forked: Forked | None

    def before(self, clock: Clock, space: str) -> bool:
        """Whether the access happens before whatever the thread of `clock` does now."""
        at = self.at
        if self.forked is not None:
            if self.forked.joined is None:
                return False
            at = self.forked.joined
        return self.clock is clock or clock.known[space].get(self.clock.thread, 0) >= at


def meet(clocks: list[Clock], spaces: frozenset[str]) -> None:
    """A barrier of one block."""
    everyone = {clock.thread: clock.now for clock in clocks}
    for space in spaces:
        for clock in clocks:
            clock.known[space] = everyone
    for clock in clocks:
        clock.now += 1


class Shadow:
    """Accesses of each granule that are not ordered before all later ones of their kind."""

    def __init__(self) -> None:
        self.findings: dict[Finding, None] = {}
        self._writes: dict[tuple[int, int], list[_Access]] = {}
        self._reads: dict[tuple[int, int], list[_Access]] = {}

    def report(self, code: str, line: int, other: int = 0) -> None:
        """Keep a finding once."""
        self.findings[Finding(code, line, other)] = None

    def access(
        self,
        clock: Clock,
        line: int,
        kind: str,
        space: str,
        granules: list[tuple[int, int]],
        forked: Forked | None = None,
    ) -> None:
        """A "read", "write" or "atomic" of granules, now, by a thread or by what it forks."""
        mine = _Access(clock, clock.now, line, kind, forked)
        for granule in granules:
            for earlier in self._writes.get(granule, ()):
                self._judge(earlier, mine, space)
            if kind == "read":
                self._keep(self._reads, granule, mine, space)
                continue
            for earlier in self._reads.get(granule, ()):
                self._judge(earlier, mine, space)
            self._keep(self._writes, granule, mine, space)
            left = [a for a in self._reads.get(granule, ()) if not a.before(clock, space)]
            self._reads[granule] = left

    @staticmethod
    def _keep(
        held: dict[tuple[int, int], list[_Access]],
        granule: tuple[int, int],
        mine: _Access,
        space: str,
    ) -> None:
        known = held.get(granule)
        if known is None:
            held[granule] = [mine]
        else:
            held[granule] = [a for a in known if not a.before(mine.clock, space)] + [mine]

    def _judge(self, earlier: _Access, later: _Access, space: str) -> None:
        if earlier.before(later.clock, space):
            return
        one, two = earlier.forked, later.forked
        if one is not None and two is not None and (one is two or one.writes_the_same(two)):
            return
        if earlier.kind == later.kind == "atomic":
            return
        self.report(_code(earlier, later), later.line, earlier.line)


def _code(earlier: _Access, later: _Access) -> str:
    if earlier.clock.block != later.clock.block:
        return "cross-block"
    if earlier.forked is not None and earlier.forked.joined is None:
        if later.kind == "atomic":
            return "atomic-in-flight"
        if later.kind == "read":
            return "read-in-flight"
        return "source-overwritten" if earlier.kind == "read" else "overwrite-in-flight"
    visible = earlier.forked is not None and earlier.kind == "write" and later.kind == "read"
    return "not-visible" if visible else "missing-barrier"
