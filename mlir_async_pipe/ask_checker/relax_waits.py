"""Raises the counts of waits that name no group, as far as every access stays covered.

    copy of row i + 1; commit                      copy of row i + 1; commit
    wait for all but 0 groups              -->     wait for all but 1 groups
    use row i                                      use row i

Such a wait says how many groups it leaves, not which one it is for, so there is nothing to
derive: what it is for shows in the accesses after it. The checker is asked: a count is raised by
one as long as it still proves every access of the module. Waits after which nothing depends on
any count stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    function_name,
    integer_attribute,
    set_integer,
    walk,
)
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import has_only_a_count, queue_of, row_of
from mlir_async_pipe.waits.write_counts import wait_rule

# Groups more than given that are tried; a wait that may leave as many is not needed at all.
MOST_TRIED = 16


@dataclass(frozen=True)
class RelaxedWait:
    """One wait: the groups of `queue` that it left in flight, and those that it leaves now."""

    place: Place
    queue: str
    before: int
    after: int


def relax(
    root: Any,
    target: Target | None,
    session: Session,
    functions: frozenset[str] | None = None,
) -> list[RelaxedWait]:
    """Raise the counts of the count-form waits below `root`, in textual order; only those in
    `functions` (by name) if they are given.

    Nothing is raised in a module of which the checker cannot prove every access.
    """
    trial = root.operation.clone()
    if not _proven(trial, target):
        return []
    found = []
    for wait, tried in zip(_waits(root), _waits(trial), strict=True):
        if functions is not None and function_name(wait) not in functions:
            continue
        before = _count(wait)
        after = _largest(tried, before, trial, target)
        if after > before:
            _write(wait, after)
            queue = queue_of(wait, target)
            relaxed = RelaxedWait(
                Place.of(wait), "" if queue is None else queue.name, before, after
            )
            found.append(relaxed)
            _tell(relaxed, wait, session)
    return found


def _tell(relaxed: RelaxedWait, wait: Operation, session: Session) -> None:
    session.record("relaxed", relaxed)
    session.diagnostics.remark(
        f"the wait leaves {relaxed.after} in flight instead of {relaxed.before}: every access "
        "after it is covered all the same",
        code="relaxed-wait",
        at=wait,
    )


def _waits(root: Any) -> list[Operation]:
    """The waits with a count and no tokens for groups."""
    return [
        op
        for op in walk(root)
        if has_only_a_count(op) and (row := row_of(op)) is not None and row.completion == "group"
    ]


def _largest(wait: Operation, given: int, root: Any, target: Target | None) -> int:
    """The largest count with which the checker proves `root`; leaves it there."""
    queue = queue_of(wait, target)
    limit = given + MOST_TRIED
    if queue is not None and queue.largest_count is not None:
        limit = min(limit, queue.largest_count)
    count = given
    while count < limit:
        _write(wait, count + 1)
        if not _proven(root, target):
            _write(wait, count)
            return count
        count += 1
    _write(wait, given)
    return given


def _proven(root: Any, target: Target | None) -> bool:
    """Whether the checker proves every access."""
    session = Session(target=target)
    found = passes.find("async-pipe-check")
    try:
        found.run(root, found.options(), session)
    except AsyncPipeError:
        return False
    checks = session.report().of("checks")
    return bool(checks) and all(entry.unsafe == entry.unknown == 0 for entry in checks)


def _count(wait: Operation) -> int:
    return integer_attribute(wait, wait_rule(wait).count) or 0


def _write(wait: Operation, count: int) -> None:
    rule = wait_rule(wait)
    set_integer(wait, rule.count, count, rule.count_bits)
