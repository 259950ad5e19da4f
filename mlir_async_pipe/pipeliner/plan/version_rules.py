"""How many versions a buffer needs: the sync rule and the async rule.

Iterations k, k + V, k + 2 V, … share a slot, which holds one value at a time: from the write w
that makes it to the last read r that sees it. With T(j, k) = (k + s_j, o_j), V is right iff no
other write x of the slot comes in between,

    sync:    for no m != 0:   T(w, k) < T(x, k + m V) < T(r, k)

and no extra wait is needed iff, besides, every async access y of the slot is over when the next
write w of another iteration reuses it,

    async:   for d = the smallest m V, m != 0, with T(y, k) < T(w, k + d), some wait on y's queue
             retires y before T(w, k + d)

(s stage, o order). With one writer both are lower bounds of V:

    sync r:  V >= s_r - s_w + [o_r > o_w], at least 1
    async y: V >= min over waits on y's queue of
                  d_g + max(0, s_y - s_g + [g_y > g_g]) + max(0, s_c - s_w + [o_c > o_w])

(statement c waits for group g of d_g iterations before; g position of a group, [ ] one if true).

Worked example: copy in stage 0 and first in order, reader in stage 2: the next two copies run
before the reader, V >= 2 - 0 + 1 = 3. If the reader comes before the copy in order,
V >= 2 - 0 + 0 = 2. Two writers that take turns, w and its reader in stage 0, w' and its reader
after them in stage 3: no value lives while another one is made, V = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count, product
from typing import NamedTuple


class BufferUse(NamedTuple):
    """One access of a buffer: its unit's stage and order, whether it writes, and for an
    async one the position of its group and its queue. `access` is its number in the order of
    the input, `updates` that it reads what it overwrites (an atomic)."""

    stage: int
    order: int
    writes: bool
    group: int | None = None
    queue: str | None = None
    access: int = 0
    updates: bool = False

    @property
    def reads(self) -> bool:
        return not self.writes or self.updates

    def time(self, iteration: int) -> tuple[int, int]:
        """T(j, k)."""
        return iteration + self.stage, self.order


@dataclass(frozen=True)
class GroupWait:
    """Statement c (stage, order) waits for group y of `distance` iterations before.

    `order` is where the wait stands: the consumer's place, or -1 at the top of the step.
    """

    stage: int
    order: int
    group: int
    group_stage: int
    queue: str
    distance: int


@dataclass(frozen=True)
class Contents:
    """What is known of the values in a slot.

    `meets(x, y)`: both may touch a common element; `sees(r, w)`: r may read what w wrote in the
    same iteration; `remains(w)`: what w wrote in the last iteration may be read after the loop.
    """

    meets: Callable[[BufferUse, BufferUse], bool] = lambda x, y: True
    sees: Callable[[BufferUse, BufferUse], bool] = lambda r, w: w.access < r.access
    remains: Callable[[BufferUse], bool] = lambda w: False


def synchronous_versions(uses: Iterable[BufferUse], contents: Contents | None = None) -> int:
    """The smallest V for which no value is overwritten before it has been read."""
    taken = taken_distances(list(uses), contents or Contents())
    return next(v for v in count(1) if fits(v, taken))


def asynchronous_versions(
    uses: Iterable[BufferUse], waits: Iterable[GroupWait], contents: Contents | None = None
) -> int | None:
    """The smallest V that needs no extra wait; None if no number of versions is enough."""
    uses, waits, contents = list(uses), list(waits), contents or Contents()
    in_flight = [
        (x, w, [wait for wait in waits if wait.queue == x.queue])
        for x, w in product(uses, uses)
        if x.group is not None and w.writes and contents.meets(x, w)
    ]
    if not all(on_queue for _, _, on_queue in in_flight):
        return None
    taken = taken_distances(uses, contents)
    # A slot that is reused late enough has seen every wait, so the search ends.
    return next(
        v
        for v in count(1)
        if fits(v, taken)
        and all(
            any(_retires(wait, x, w, first_reuse(x, w, v)) for wait in on_queue)
            for x, w, on_queue in in_flight
        )
    )


Taken = frozenset[tuple[int, int]]
"""Distances between iterations, as the least and the largest of each range, above or below 0."""


def fits(versions: int, taken: Taken) -> bool:
    """Whether no iteration that shares a slot with another one is at a taken distance."""
    return all(most // versions * versions < least for least, most in taken)


def taken_distances(uses: list[BufferUse], contents: Contents) -> Taken:
    """The d != 0 for which iteration k + d may not have the slot of iteration k, since it
    writes while a value of iteration k is still to be read."""
    writes = [use for use in uses if use.writes]
    taken: set[tuple[int, int]] = set()
    for w in writes:
        for r in (use for use in uses if use.reads and contents.sees(use, w)):
            for x in (use for use in writes if contents.meets(use, r)):
                least = _first_after(w, x)
                most = r.stage - x.stage - (0 if x.order < r.order else 1)
                taken |= {(max(least, 1), most), (least, min(most, -1))}
        if contents.remains(w):
            for x in (use for use in writes if contents.meets(use, w)):
                taken.add((_first_after(w, x), -1))
    return frozenset(span for span in taken if span[0] <= span[1])


def _first_after(x: BufferUse, w: BufferUse) -> int:
    """The smallest d for which w of iteration k + d runs after x of k."""
    return x.stage - w.stage + (0 if w.order > x.order else 1)


def first_reuse(x: BufferUse, w: BufferUse, versions: int) -> int:
    """The smallest d = m V, m != 0, for which w of iteration k + d runs after x of k."""
    return -(-_first_after(x, w) // versions) * versions or versions


def reuses(x: BufferUse, w: BufferUse, versions: int) -> range:
    """The distances d at which w of iteration k + d may be the first to run after x of k and in
    its slot: `first_reuse`, and where that lies before x's iteration, which after the last
    iteration no x has, all up to the first one that does not."""
    first = first_reuse(x, w, versions)
    return range(first, max(first, versions) + 1, versions)


def _retires(wait: GroupWait, x: BufferUse, w: BufferUse, distance: int) -> bool:
    """Whether `wait` has retired x of iteration k before w of iteration k + distance."""
    assert x.group is not None
    # The first group that is no older than x's, among those that exist for every k.
    lag = x.stage - wait.group_stage + (x.group > wait.group)
    waiting = wait.distance + max(min(0, distance), lag)
    # The loop may end with the later of both iterations. The statement that waits may be w
    # itself: then its wait stands before the write.
    return waiting <= max(0, distance) and (wait.stage + waiting, wait.order) <= w.time(distance)
