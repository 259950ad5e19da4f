"""Decides what becomes of the abstract async ops of a module, before anything is rewritten.

Scopes that copy stay asynchronous, others run in place. A queue on which everything runs in
place is gone, with its commits and its waits. On a queue that also copies a commit that surely
covers no copy goes if nobody names its group; else it stays, as an empty group: waits for it
retire the copies before it, as a FIFO does, and one group more makes other waits only stricter
(N groups younger than the one needed is a lower bound).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    functions,
    integer_attribute,
    operations,
    symbol_name,
    walk,
)
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.lowering.scopes.scope_copies import (
    SCOPE,
    Copies,
    NotCopies,
    Refuse,
    classify,
)

COMMIT = "async_pipe.commit_queue"
WAITS = ("async_pipe.wait_queue", "async_pipe.consumer_wait")
MARKERS = ("async_pipe.producer_acquire", "async_pipe.consumer_release")

Kinds = dict[Operation, Copies | NotCopies]


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
    gone_markers: list[Operation] = field(default_factory=list)

    @property
    def asynchronous_queues(self) -> set[int | None]:
        """The abstract queues with at least one asynchronous scope; None: not constant."""
        return {queue_number(s) for s, found in self.scopes if isinstance(found, Copies)}


def plan_functions(root: Any, chip: Chip, refuse: Refuse | None = None) -> list[Plan]:
    """Decide about the abstract ops of every function below `root` that has any.

    Queues belong to a thread, not to a function: a commit also covers copies that callees
    issued, so what is on a queue is asked of all functions that calls connect.
    """
    plans = [Plan(function) for function in functions(root)]
    for plan in plans:
        ops = [op for op in walk(plan.function) if op.name == SCOPE]
        plan.scopes = [(op, classify(op, chip, refuse)) for op in ops]
    for connected in _connected(plans):
        kinds = {op: kind for plan in connected for op, kind in plan.scopes}
        leaking = _leaking_queues(kinds)
        for plan in connected:
            _decide(plan, kinds, leaking)
    return [plan for plan in plans if _has_any(plan)]


def _connected(plans: list[Plan]) -> list[list[Plan]]:
    """The functions in groups: one calls another, or both call or are called by a third."""
    group_of = {symbol_name(plan.function): {symbol_name(plan.function)} for plan in plans}
    for plan in plans:
        for op in walk(plan.function):
            if "callee" not in op.attributes:
                continue
            callee = str(op.attributes["callee"]).split("@")[-1]
            if callee in group_of:
                merged = group_of[symbol_name(plan.function)] | group_of[callee]
                group_of.update(dict.fromkeys(merged, merged))
    found: dict[int, list[Plan]] = {}
    for plan in plans:
        found.setdefault(id(group_of[symbol_name(plan.function)]), []).append(plan)
    return list(found.values())


def _decide(plan: Plan, kinds: Kinds, leaking: set[int | None]) -> None:
    for op in walk(plan.function):
        if op.name == COMMIT:
            gone = _is_gone(op, kinds) or (
                len(list(op.results[0].uses)) == 0 and _covers_only_sync(op, kinds, leaking)
            )
            (plan.gone_commits if gone else plan.kept_commits).append(op)
        elif op.name in WAITS:
            (plan.gone_waits if _is_gone(op, kinds) else plan.kept_waits).append(op)
        elif op.name in MARKERS:
            (plan.gone_markers if _is_gone(op, kinds) else plan.markers).append(op)


def _has_any(plan: Plan) -> bool:
    return any(
        (
            plan.scopes,
            plan.kept_commits,
            plan.gone_commits,
            plan.kept_waits,
            plan.gone_waits,
            plan.markers,
            plan.gone_markers,
        )
    )


def _is_gone(op: Operation, kinds: Kinds) -> bool:
    """Whether everything on the op's queue runs in place (and something does)."""
    found = [kind for scope, kind in kinds.items() if may_share(scope, op)]
    return bool(found) and all(isinstance(kind, NotCopies) for kind in found)


def _leaking_queues(kinds: Kinds) -> set[int | None]:
    """Queues with an asynchronous scope that is not committed after it in its own block.

    Such a scope may be covered by any later commit of its queue.
    """
    found = set()
    for scope, kind in kinds.items():
        queue = queue_number(scope)
        siblings = operations(scope.block)
        behind = siblings[siblings.index(scope) + 1 :]
        committed = queue is not None and any(
            op.name == COMMIT and queue_number(op) == queue for op in behind
        )
        if isinstance(kind, Copies) and not committed:
            found.add(queue)
    return found


def _covers_only_sync(commit: Operation, kinds: Kinds, leaking: set[int | None]) -> bool:
    """Whether the commit surely covers a scope that runs in place, and no asynchronous copy."""
    queue = queue_number(commit)
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


def queue_number(op: Operation) -> int | None:
    """The abstract queue of an op, None where it is not constant."""
    return integer_attribute(op, "queue")


def may_share(a: Operation, b: Operation) -> bool:
    """Whether two abstract ops may be of one queue."""
    first, second = queue_number(a), queue_number(b)
    return first is None or second is None or first == second
