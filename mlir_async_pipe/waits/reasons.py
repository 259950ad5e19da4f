"""Why a count is what it is: reason codes, and what would raise the count.

The code of a wait is the first of this table that its witness met; the table is ordered by
how much the reason explains.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """A stable code, a sentence, and what raises the count ("" where nothing has to)."""

    code: str
    meaning: str
    remedy: str = ""


REASONS = {
    reason.code: reason
    for reason in (
        Reason("unreachable", "no path reaches the wait"),
        Reason(
            "dynamic-queue",
            "the queue of the wait or of a commit is not a constant",
            "give every commit and wait a constant queue",
        ),
        Reason(
            "crosses-parallel",
            "the token comes from another thread, where no wait can see its group",
            "commit and wait in the same thread",
        ),
        Reason(
            "queue-mismatch",
            "the token's group was committed to another queue",
            "wait on the queue that the group was committed to",
        ),
        Reason(
            "consumer-ahead",
            "on some path more groups are taken than were committed",
            "commit before taking, and give loops that only take a constant trip count",
        ),
        Reason(
            "uncommitted-copy",
            "on some path the copy is in no group when the wait runs",
            "commit a group between the copy and the wait",
        ),
        Reason(
            "function-scope",
            "the group belongs to another function body, whose marks do not count here",
            "mark in this function between the call and the wait",
        ),
        Reason(
            "correlation-limit",
            "more conditions are correlated than the count follows",
            "branch on fewer conditions between the commit and the wait",
        ),
        Reason(
            "recursive-call",
            "commits in a cycle of calls are not counted",
            "move the commits out of the recursion",
        ),
        Reason(
            "unknown-call",
            "the token, or commits after it, come from a function without a known body",
            "give the callee a body in this module",
        ),
        Reason(
            "unknown-origin",
            "where the token was committed is not known",
            "pass the token on from its commit through loops, branches and calls",
        ),
        Reason(
            "conditional-commit",
            "on some path a commit is passed over by its condition",
            "commit on both sides of the condition (a group may be empty)",
        ),
        Reason(
            "zero-trip-loop",
            "on some path a loop with commits runs less often than its tokens need",
            "make the trip count a constant",
        ),
        Reason(
            "first-iterations",
            "the first iterations look back at groups before the loop",
            "commit as many groups before the loop as an iteration does",
        ),
        Reason(
            "newest-group",
            "nothing is committed between the awaited group and the wait",
            "commit the next group before the wait, or wait for an older one",
        ),
        Reason("exact", "the loop structure allows as many groups and no more"),
    )
}
