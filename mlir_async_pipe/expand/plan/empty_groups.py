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

from mlir_async_pipe.expand.plan.form_groups import Group
from mlir_async_pipe.expand.plan.sync_state import Step, Wait


@dataclass(frozen=True)
class Filling:
    """How many empty groups a prologue has, and how many more groups the waits of the kernel
    leave in flight because of them."""

    empty_groups: int
    kept_in_flight: int


def empty_groups(groups: tuple[Group, ...], t: int) -> list[Group]:
    """The groups that step t of the prologue commits empty: those of stages that are not active
    yet, once the queue is in use."""
    return [
        group for group in groups if group.physical and group.stage > t >= _first(group, groups)
    ]


def filling(kernel: Step, groups: tuple[Group, ...], last_stage: int) -> Filling:
    """What the empty groups cost and save."""
    found = sum(len(empty_groups(groups, t)) for t in range(last_stage))
    waits = [wait for before in kernel.before.values() for wait in before.waits]
    saved = sum(_empty_behind(wait, groups, last_stage) for wait in waits) if found else 0
    return Filling(found, saved)


def _first(group: Group, groups: tuple[Group, ...]) -> int:
    return min(other.stage for other in groups if other.queue == group.queue)


def _empty_behind(wait: Wait, groups: tuple[Group, ...], last_stage: int) -> int:
    """The empty groups that are younger than what the wait's first iteration waits for."""
    commit = max(last_stage - wait.lag, wait.group.stage)
    return sum(
        group.queue == wait.group.queue and (t > commit or group.position > wait.group.position)
        for t in range(commit, last_stage)
        for group in empty_groups(groups, t)
    )
