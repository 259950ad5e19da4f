"""How many groups the waits of a kernel leave in flight, before anything is written.

    N = D K + j - q - 1

D kernel steps after its commit a group is waited for, K groups an iteration are committed to
its queue, j of them before the wait in its step, q of them before the group in its own
(docs/exact-counts.md). The count pass finds the same numbers in the finished kernel.
"""

from __future__ import annotations

from collections import defaultdict

from mlir_async_pipe.pipeliner.plan.form_groups import Group
from mlir_async_pipe.pipeliner.plan.sync_state import Step


def kernel_counts(step: Step, groups: tuple[Group, ...]) -> dict[str, list[int]]:
    """The counts of the waits in one step of the kernel, by queue."""
    positions: dict[str, list[int]] = defaultdict(list)
    for group in groups:
        positions[group.queue].append(group.position)
    counts: dict[str, list[int]] = defaultdict(list)
    for place, before in step.before.items():
        for wait in before.waits:
            queue = positions[wait.group.queue]
            issued = sum(position < place for position in queue)
            older = sum(position < wait.group.position for position in queue)
            counts[wait.group.queue].append(wait.lag * len(queue) + issued - older - 1)
    return dict(counts)
