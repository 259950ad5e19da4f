"""Decides what becomes of the abstract async ops of a function, before anything is rewritten.

Copies stay asynchronous, other scopes run in place. If that holds for everything that a commit
covers, the commit vanishes with the waits for it; a commit that may cover a copy stays, for
an additional group makes a wait only stricter (N groups younger than the one needed is a lower
bound).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir_async_pipe.ir_helpers import (
    Operation,
    Value,
    integer_attribute,
    operations,
    walk,
)
from mlir_async_pipe.targets.chips import Chip
from mlir_async_pipe.targets.nvidia_ops import TOKEN_TYPE
from mlir_async_pipe.targets.scopes import SCOPE, Copies, NotCopies, classify

COMMIT = "async_pipe.commit_queue"
WAITS = ("async_pipe.wait_queue", "async_pipe.consumer_wait")
MARKERS = ("async_pipe.producer_acquire", "async_pipe.consumer_release")


@dataclass
class Plan:
    """What becomes of every abstract op of one function."""

    function: Operation
    scopes: list[tuple[Operation, Copies | NotCopies]] = field(default_factory=list)
    kept_commits: list[Operation] = field(default_factory=list)
    gone_commits: list[Operation] = field(default_factory=list)
    kept_waits: list[Operation] = field(default_factory=list)
    gone_waits: list[Operation] = field(default_factory=list)
    markers: list[Operation] = field(default_factory=list)

    @property
    def asynchronous_queues(self) -> set[int | None]:
        """The abstract queues with at least one asynchronous scope; None: not constant."""
        return {queue_number(s) for s, found in self.scopes if isinstance(found, Copies)}


def queue_number(op: Operation) -> int | None:
    """The abstract queue of an op, None where it is not constant."""
    return integer_attribute(op, "queue")


def plan_function(function: Operation, chip: Chip) -> Plan | None:
    """Decide about every abstract op of a function; None if it has none."""
    plan = Plan(function)
    commits: list[Operation] = []
    waits: list[Operation] = []
    for op in walk(function):
        if op.name == SCOPE:
            plan.scopes.append((op, classify(op, chip)))
        elif op.name == COMMIT:
            commits.append(op)
        elif op.name in WAITS:
            waits.append(op)
        elif op.name in MARKERS:
            plan.markers.append(op)
    if not (plan.scopes or commits or waits or plan.markers):
        return None
    kinds = {op: found for op, found in plan.scopes}
    leaking = _leaking_queues(kinds)
    for commit in commits:
        gone = _covers_only_sync(commit, kinds, leaking)
        (plan.gone_commits if gone else plan.kept_commits).append(commit)
    for wait in waits:
        gone = waits_for_nothing(wait, plan)
        (plan.gone_waits if gone else plan.kept_waits).append(wait)
    return plan


def _leaking_queues(kinds: dict[Operation, Copies | NotCopies]) -> set[int | None]:
    """Queues with an asynchronous scope that is not committed behind it in its own block.

    Such a scope may be covered by any later commit of its queue.
    """
    found = set()
    for scope, kind in kinds.items():
        siblings = operations(scope.block)
        behind = siblings[siblings.index(scope) + 1 :]
        committed = any(op.name == COMMIT and may_share(op, scope) for op in behind)
        if isinstance(kind, Copies) and not committed:
            found.add(queue_number(scope))
    return found


def _covers_only_sync(
    commit: Operation, kinds: dict[Operation, Copies | NotCopies], leaking: set[int | None]
) -> bool:
    """Whether the commit surely covers a scope that runs in place, and no asynchronous copy."""
    queue = queue_number(commit)
    if all(isinstance(kind, NotCopies) for s, kind in kinds.items() if may_share(s, commit)):
        return any(may_share(scope, commit) for scope in kinds)
    if queue is None or queue in leaking or None in leaking:
        return False
    covers_sync = False
    siblings = operations(commit.block)
    for op in reversed(siblings[: siblings.index(commit)]):
        if op.name == COMMIT and queue_number(op) == queue:
            break
        for inner in walk(op):
            kind = kinds.get(inner)
            if kind is None or not may_share(inner, commit):
                continue
            if isinstance(kind, Copies):
                return False
            covers_sync = True
    return covers_sync


def may_share(a: Operation, b: Operation) -> bool:
    """Whether two abstract ops may be of one queue."""
    first, second = queue_number(a), queue_number(b)
    return first is None or second is None or first == second


def waits_for_nothing(wait: Operation, plan: Plan) -> bool:
    """Whether all that the wait waits for ran in place."""
    tokens = tokens_of(wait)
    gone = {commit.results[0] for commit in plan.gone_commits}
    if tokens and all(token in gone for token in tokens):
        return True
    if not any(may_share(commit, wait) for commit in plan.gone_commits):
        return False
    return not any(may_share(commit, wait) for commit in plan.kept_commits)


def tokens_of(wait: Operation) -> list[Value]:
    """The tokens among the operands of a wait; others are a queue or a count."""
    return [operand for operand in wait.operands if str(operand.type) == TOKEN_TYPE]
