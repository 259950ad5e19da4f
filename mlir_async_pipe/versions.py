"""How many versions a buffer needs: the sync rule and the async rule.

For every access x of the version of k - d that must be over, and every write w that reuses
its slot V iterations later:

    sync x:   V >= d + s_x - s_w + [o_x > o_w], at least 1
    async x:  V >= d + min over waits on x's queue of
                  d_y + max(0, s_x - s_y + [g_x > g_y]) + max(0, s_c - s_w + [o_c > o_w])

(s stage, o order, g group position, [ ] one if true; statement c waits for the group of y.)

Worked example: copy in stage 0 and first in order, reader in stage 2: the reader must be
over, V >= 2 - 0 + 1 = 3. If the reader comes before the copy in order, V >= 2 - 0 + 0 = 2.
Derived from T(j, k) = (k + s_j, o_j): x of iteration k must run before w of iteration k + V.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

UNBOUNDED = None


@dataclass(frozen=True)
class Use:
    """One access of a buffer: its unit's stage and order, whether it writes, and for an
    async one the position of its group and its queue. `access` is its number, for callers
    that know which accesses meet."""

    stage: int
    order: int
    writes: bool
    group: int | None = None
    queue: str | None = None
    access: int = 0


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


def after(a: int, b: int) -> int:
    """[a > b] as a number."""
    return 1 if a > b else 0


Meets = Callable[[Use, Use], bool]


def always(x: Use, w: Use) -> bool:
    """Any two accesses of a slot may touch the same element."""
    return True


def synchronous_versions(uses: Iterable[Use], meets: Meets = always) -> int:
    """The smallest V for which every access is issued before its elements are written again."""
    uses = list(uses)
    needed = 1
    for x in uses:
        for w in (use for use in uses if use.writes):
            if x != w and meets(x, w):
                needed = max(needed, x.stage - w.stage + after(x.order, w.order))
    return needed


def asynchronous_versions(
    uses: Iterable[Use], waits: Iterable[GroupWait], meets: Meets = always
) -> int | None:
    """The smallest V that needs no extra wait; None if no number of versions is enough."""
    uses, waits = list(uses), list(waits)
    needed = 1
    for x in (use for use in uses if use.group is not None):
        for w in (use for use in uses if use.writes and meets(x, use)):
            distances = [_reuse_distance(x, w, wait) for wait in waits if wait.queue == x.queue]
            if not distances:
                return UNBOUNDED
            needed = max(needed, min(distances))
    return needed


def _reuse_distance(x: Use, w: Use, wait: GroupWait) -> int:
    """V at which `wait` has retired x before w writes its slot."""
    assert x.group is not None
    behind = x.stage - wait.group_stage + after(x.group, wait.group)
    # The statement that waits may be w itself: then its wait stands in front of the write.
    late = wait.stage - w.stage + after(wait.order, w.order)
    return wait.distance + max(0, behind) + max(0, late)
