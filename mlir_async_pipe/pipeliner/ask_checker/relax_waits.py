"""Raises the counts of waits that name no group, as far as every access stays covered.

    copy of row i + 1; commit                      copy of row i + 1; commit
    wait for all but 0 groups              -->     wait for all but 1 groups
    use row i                                      use row i

Such a wait says how many groups it leaves, not which one it is for, so there is nothing to
derive: what it is for shows in the accesses after it. The checker is asked: a count is raised by
one as long as it still proves every access of the module; what it says of one more is the witness
that the count is exact. Waits after which nothing depends on any count stay as they are.

What a wait retires may also be what a flag tells other threads: where one is released, the waits
stay as they are.

That goes for groups of asynchronous readers too: products of warpgroups, which may also wait by
themselves (`waitGroup`), and bulk stores, whose tiles may be written anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Operation,
    enclosing,
    function_name,
    integer_attribute,
    set_integer,
    walk,
)
from mlir_async_pipe.checker.selection import callable_functions, releases_flags
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Diagnostic, Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import has_only_a_count, queue_of, row_of
from mlir_async_pipe.vocabulary.products import PRODUCTS_LEFT, products_left
from mlir_async_pipe.waits.write_counts import wait_rule

# Groups more than given that are tried; a wait that may leave as many is not needed at all.
MOST_TRIED = 16
# A module without kernels is not proven.
NOT_CHECKED = Diagnostic("remark", "there is nothing that the checker looks at", "")


@dataclass(frozen=True)
class RelaxedWait:
    """One wait: the groups of `queue` that it left in flight, and those that it leaves now.

    `because` is what the checker says of one more, at `because_place`; "" where nothing depends on
    it, or the queue cannot leave more.
    """

    place: Place
    queue: str
    before: int
    after: int
    because: str = ""
    because_place: Place | None = None


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
    trial = root.operation.clone(ip=False)
    if _wrong(trial, target) is not None:
        return []
    found = []
    waits, callees = _waits(root), callable_functions(root.operation)
    kernels = {enclosing(wait, KERNEL_OPS) for wait in waits} - {None}
    releasing = {kernel for kernel in kernels if releases_flags(kernel, callees)}
    for wait, tried in zip(waits, _waits(trial), strict=True):
        if functions is not None and function_name(wait) not in functions:
            continue
        if enclosing(wait, KERNEL_OPS) in releasing:
            continue
        before = _count(wait)
        after, wrong = _largest(tried, before, trial, target)
        if after > before:
            _write(wait, after)
            queue = queue_of(wait, target)
            because = ("", None) if wrong is None else (wrong.message, wrong.place)
            name = "" if queue is None else queue.name
            relaxed = RelaxedWait(Place.of(wait), name, before, after, *because)
            found.append(relaxed)
            _report(relaxed, wait, session)
    return found


def _report(relaxed: RelaxedWait, wait: Operation, session: Session) -> None:
    session.record("relaxed", relaxed)
    because = f"with one more {relaxed.because}"
    session.diagnostics.remark(
        f"the wait leaves {relaxed.after} in flight instead of {relaxed.before}: every access "
        "after it is covered all the same",
        code="relaxed-wait",
        at=wait,
        notes=((because, relaxed.because_place),) if relaxed.because else (),
    )


def _waits(root: Any) -> list[Operation]:
    """The waits with a count and no tokens for groups, and products that wait by themselves."""
    return [
        op
        for op in walk(root)
        if products_left(op) is not None
        or (has_only_a_count(op) and (row := row_of(op)) is not None and row.completion == "group")
    ]


def _largest(
    wait: Operation, given: int, root: Any, target: Target | None
) -> tuple[int, Diagnostic | None]:
    """The largest count with which the checker proves `root`, where it is left, and what is wrong
    with one more."""
    queue = queue_of(wait, target)
    limit = given + MOST_TRIED
    if queue is not None and queue.largest_count is not None:
        limit = min(limit, queue.largest_count)
    count = given
    while count < limit:
        _write(wait, count + 1)
        wrong = _wrong(root, target)
        if wrong is not None:
            _write(wait, count)
            return count, wrong
        count += 1
    _write(wait, given)
    return given, None


def _wrong(root: Any, target: Target | None) -> Diagnostic | None:
    """The first thing that keeps the checker from proving every access, None if it does."""
    session = Session(target=target)
    found = passes.find("async-pipe-check")
    try:
        found.run(root, found.options(), session)
    except AsyncPipeError as error:
        return error.diagnostic
    report = session.report()
    checks = report.of("checks")
    if checks and all(entry.unsafe == entry.unknown == 0 for entry in checks):
        return None
    reported = [item for item in report.diagnostics if item.severity != "remark"]
    return next(iter(reported), NOT_CHECKED)


def _count(wait: Operation) -> int:
    left = products_left(wait)
    return left if left is not None else integer_attribute(wait, wait_rule(wait).count) or 0


def _write(wait: Operation, count: int) -> None:
    if products_left(wait) is not None:
        set_integer(wait, PRODUCTS_LEFT, count, 64)
        return
    rule = wait_rule(wait)
    set_integer(wait, rule.count, count, rule.count_bits)
