"""Races by vector clocks: every access against the earlier ones of its granule.

Thread u's accesses of its current interval carry its clock. A barrier gives each thread the
clocks of all others, for the memory spaces that it orders, and starts a new interval. An async
operation is a thread of its own, forked where it is issued and joined into the thread whose wait
retires it, with that thread's clock of that moment.

A release leaves at its location what its thread knows and did; an acquire that reads there takes
it, if both scopes have the other thread in them. A plain write takes away what was left.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from helpers.second_machine.memory_order import PLAIN, Order

SPACES = ("global", "workgroup", "private")


@dataclass(frozen=True)
class Finding:
    """What is wrong, at which line, against which earlier line (0: none)."""

    code: str
    line: int
    other: int = 0


Known = dict[str, dict[int, int]]
# What was released, by the scope in which it was and the block that released it.
Released = dict[tuple[str, int], Known]


@dataclass(eq=False)
class Clock:
    """What one thread knows: the clock of each thread of the grid, by memory space.

    `fenced` is what its strong writes release since a fence, `read` what it has read and a fence may
    let it acquire.
    """

    thread: int
    block: int
    now: int = 1
    known: Known = field(default_factory=lambda: {s: {} for s in SPACES})
    fenced: Released = field(default_factory=dict)
    read: Released = field(default_factory=dict)

    def frozen(self) -> Clock:
        """What the thread knows now."""
        return replace(self, known=dict(self.known))

    def release(self, scope: str) -> Released:
        """What it knows and did, for others; what it does from here on is not in it."""
        mine = {self.thread: self.now}
        self.now += 1
        return {(scope, self.block): {s: joined(k, mine) for s, k in self.known.items()}}

    def acquire(self, released: Released, scope: str) -> None:
        """Take what was released, of those who are in both scopes."""
        for (reach, block), known in released.items():
            if block == self.block or "block" not in (reach, scope):
                self.known = {s: joined(self.known[s], known[s]) for s in SPACES}


def joined(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    """The later of both clocks of each thread."""
    return one | {thread: max(at, one.get(thread, 0)) for thread, at in other.items()}


def within(released: Released, scope: str) -> Released:
    """The same, through an access of this scope."""
    if scope != "block":
        return released
    found: Released = {}
    for (_, block), known in released.items():
        found = both(found, {("block", block): known})
    return found


def both(one: Released, other: Released) -> Released:
    """The join of two."""
    found = dict(one)
    for where, known in other.items():
        mine = found.get(where, {s: {} for s in SPACES})
        found[where] = {s: joined(mine[s], known[s]) for s in SPACES}
    return found


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
    is_strong: bool = False

    def before(self, clock: Clock, space: str) -> bool:
        """Whether the access happens before whatever the thread of `clock` does now."""
        at = self.at
        if self.forked is not None:
            if self.forked.joined is None:
                return False
            at = self.forked.joined
        mine = self.clock.thread
        return mine == clock.thread or clock.known[space].get(mine, 0) >= at


def meet(clocks: list[Clock], spaces: frozenset[str]) -> None:
    """A barrier of one block."""
    for space in spaces:
        everyone = {clock.thread: clock.now for clock in clocks}
        for clock in clocks:
            everyone = joined(clock.known[space], everyone)
        for clock in clocks:
            clock.known = clock.known | {space: everyone}
    for clock in clocks:
        clock.now += 1


class Shadow:
    """Accesses of each granule that are not ordered before all later ones of their kind."""

    def __init__(self) -> None:
        self.findings: dict[Finding, None] = {}
        self._writes: dict[tuple[int, int], list[_Access]] = {}
        self._reads: dict[tuple[int, int], list[_Access]] = {}
        self._released: dict[tuple[int, int], Released] = {}

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
        order: Order = PLAIN,
    ) -> None:
        """A "read", "write" or "atomic" of granules, now, by a thread or by what it forks."""
        if order.strong and kind != "write":
            for granule in granules:
                self._acquire(clock, granule, order)
        mine = _Access(clock, clock.now, line, kind, forked, order.strong)
        if kind != "read":
            self._release(clock, kind, granules, order)
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

    def _acquire(self, clock: Clock, granule: tuple[int, int], order: Order) -> None:
        released = self._released.get(granule)
        if released and order.acquire:
            clock.acquire(released, order.scope)
        elif released:
            clock.read = both(clock.read, within(released, order.scope))

    def _release(self, clock: Clock, kind: str, granules: list, order: Order) -> None:
        mine: Released = {}
        if order.release:
            mine = clock.release(order.scope)
        elif order.strong:
            mine = within(clock.fenced, order.scope)
        for granule in granules:
            kept = self._released.get(granule, {}) if kind == "atomic" else {}
            if mine or kept or granule in self._released:
                self._released[granule] = both(kept, mine)

    def fence(self, clock: Clock, order: Order) -> None:
        """What the thread has read strongly counts from here on; what it does before the fence, its
        strong writes release."""
        if order.acquire:
            clock.acquire(clock.read, order.scope)
            clock.read = {}
        if order.release:
            clock.fenced = both(clock.fenced, clock.release(order.scope))

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
        if earlier.is_strong and later.is_strong:
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
