"""Empty groups in the prologue, where several stages share one queue.

    copy A, stage 0      step 0:  A0, (empty)      kernel, step 4:  A4, B2, wait for A0
    copy B, stage 2      step 1:  A1, (empty)                       9 groups are younger, as in
    use, stage 4         step 2:  A2, B0                            every later step; 7 without
                         step 3:  A3, B1                            the empty ones

A count is one constant for all steps of the kernel, so it is the smallest: without the empty
groups it would be that of the first step. They cost one instruction each on NVIDIA (a commit)
and none on AMD, where a mark is none; further peeled steps would cost a kernel's code each.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.pipeliner.plan.form_groups import Group
from mlir_async_pipe.pipeliner.plan.sync_state import Step, Synchronisation, Wait


@dataclass(frozen=True)
class Filling:
    """How many empty groups a prologue has, and how many more groups the waits of the kernel
    leave in flight because of them."""

    empty_groups: int
    kept_in_flight: int


def empty_groups(groups: tuple[Group, ...], t: int) -> tuple[Group, ...]:
    """The groups that step t of the prologue commits empty: those of stages that are not active
    yet, once the queue is in use."""
    return tuple(
        group for group in groups if not group.abstract and group.stage > t >= _first(group, groups)
    )


def filling(plan: Synchronisation) -> Filling:
    """What the empty groups cost and save."""
    found = sum(len(step.empty) for step in plan.prologue)
    return Filling(found, sum(_empty_behind(wait, plan.prologue) for wait in plan.kernel.waits))


def _first(group: Group, groups: tuple[Group, ...]) -> int:
    return min(other.stage for other in groups if other.queue == group.queue)


def _empty_behind(wait: Wait, prologue: tuple[Step, ...]) -> int:
    """The empty groups that are younger than what the wait's first iteration waits for."""
    commit = max(len(prologue) - wait.lag, wait.group.stage)
    return sum(
        group.queue == wait.group.queue and (t > commit or group.position > wait.group.position)
        for t, step in enumerate(prologue[commit:], commit)
        for group in step.empty
    )
