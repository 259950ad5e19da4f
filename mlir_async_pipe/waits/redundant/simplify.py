"""Pass `async-pipe-simplify-waits`: drops waits and commits that change nothing.

    wait 1; commit; wait 2       -->  wait 1; commit           never more than 2 in flight there
    wait 1; wait 0               -->  wait 0                   neighbours: the strictest stays
    commit (nobody waits); commit  -->  commit                 its ops join the next group
    mark (no wait after it)  -->                               of a queue that counts by function body

A wait goes if an upper bound of the groups in flight before it is at most its count.
All such waits go at once, since none of them would have blocked. No wait moves. A wait of an
abstract queue stands in for waits of that queue only: where everything on it runs in place, the
lowering drops it with its queue. When a
commit goes, all counts of its queue are derived again: keeping them would be unsafe. It stays
where a wait would then be stricter on some path (`droppable`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    functions,
    is_used,
    operations,
    walk,
)
from mlir_async_pipe.chips.target import Target, target_for
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.flow.items import Item
from mlir_async_pipe.facts.flow.solver import Solver
from mlir_async_pipe.facts.flow.ways import successors
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue, given_count, queue_of, row_of
from mlir_async_pipe.vocabulary.async_ops import abstract_queue_number, count_operand
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS
from mlir_async_pipe.waits.count import Analysis
from mlir_async_pipe.waits.count_pass import CountWaitsOptions, count_waits
from mlir_async_pipe.waits.redundant.droppable import droppable
from mlir_async_pipe.waits.redundant.idle_commits import idle_commits
from mlir_async_pipe.waits.redundant.in_flight import (
    ANYTHING,
    COMMIT,
    INFINITE,
    InFlight,
    Transfer,
    known,
    starts_thread,
)
from mlir_async_pipe.waits.ssa.skeleton import Skeleton


@dataclass(frozen=True)
class SimplifyWaitsOptions:
    """Options of `async-pipe-simplify-waits`.

    `chip` says where the module is going. `keep_commits` leaves every group as it is.
    """

    chip: str = ""
    keep_commits: bool = False


@dataclass(frozen=True)
class Simplification:
    """One op that went: `what` is "redundant-wait", "merged-wait", "redundant-commit" or
    "uncounted-mark"."""

    what: str
    op: str
    place: Place


@passes.register(
    "async-pipe-simplify-waits",
    "drop waits that never block, merge neighbours, drop commits that nobody waits for",
    SimplifyWaitsOptions,
)
def simplify_waits(module_op: Any, options: SimplifyWaitsOptions, session: Session) -> None:
    """Drop what changes nothing; remarks and records say what went.

    Raises CountError for a wait on something that is no token.
    """
    target = target_for(options, session)
    analysis = Analysis(module_op.operation, target)
    redundant = redundant_waits(analysis)
    merged = covered_by_next(analysis, redundant)
    for what, items in (("redundant-wait", redundant), ("merged-wait", merged)):
        for item in items:
            _drop(item.op, what, session)
    if options.keep_commits:
        return
    for mark in uncounted_marks(module_op, target):
        _drop(mark, "uncounted-mark", session)
    idle = idle_commits(Analysis(module_op.operation, target))
    going = droppable(module_op, target, idle) if idle else []
    for commit in going:
        _drop(commit, "redundant-commit", session)
    if going:
        count_waits(module_op, CountWaitsOptions(chip=options.chip), session)


def _drop(op: Any, what: str, session: Session) -> None:
    place = Place.of(op)
    session.record("simplifications", Simplification(what, op.name, place))
    session.diagnostics.remark(_SENTENCES[what].format(op.name), code=what, at=place)
    op.erase()


_SENTENCES = {
    "redundant-wait": "'{}' never blocks: no more groups are in flight than it allows",
    "merged-wait": "'{}' is followed by a wait that is at least as strict",
    "uncounted-mark": "no wait after '{}' can count it",
    "redundant-commit": "nobody waits for the group of '{}'; its ops join the next group",
}


def redundant_waits(analysis: Analysis) -> list[Item]:
    """The waits before which never more groups are in flight than they allow."""
    found: list[Item] = []
    kinds = dict.fromkeys((item.queue, _abstract(item)) for item in analysis.graph.waits)
    for queue, abstract in kinds:
        if queue is None:
            continue
        items = [item for item in _all_items(analysis) if item.kind == "call" or _uses(item, queue)]
        transfer = partial(_transfer, queue, abstract, _committing(analysis, queue))
        flight = Solver(analysis.conditions, items, InFlight(transfer), partial(_at_start, queue))
        for item in items:
            if item.kind != "wait" or _takes(item) or _abstract(item) != abstract:
                continue
            limit = allowed(item)
            if limit is not None and flight.before.get(item, ANYTHING).cap <= limit:
                found.append(item)
    return found


def _all_items(analysis: Analysis) -> list[Item]:
    graph = analysis.graph
    return [*graph.commits, *graph.waits, *graph.calls]


def _uses(item: Item, queue: Queue) -> bool:
    # A commit to an unknown queue may add to this one.
    return item.queue == queue or (item.queue is None and item.kind == "commit")


def _abstract(item: Item) -> int | None:
    """The abstract queue of a wait, None for a wait of the chip's own."""
    row = row_of(item.op)
    physical = row is None or isinstance(row.queue, Queue)
    return None if physical else abstract_queue_number(item.op)


def _stays_with(item: Item, abstract: int | None) -> bool:
    """Whether a wait is there after the lowering wherever one of the queue `abstract` is."""
    return _abstract(item) in (None, abstract)


def _transfer(queue: Queue, abstract: int | None, committing: set[Item], item: Item) -> Transfer:
    if item.kind == "commit":
        return COMMIT
    if item.kind == "call":
        counted = queue.scope == "thread" and (item.callee is None or item.callee in committing)
        return ANYTHING if counted else Transfer()
    limit = allowed(item) if _stays_with(item, abstract) else None
    return Transfer() if limit is None or not _waits_fully(item) else Transfer(cap=limit)


def _committing(analysis: Analysis, queue: Queue) -> set[Item]:
    """The functions that may commit to a queue, themselves or through calls."""
    graph = analysis.graph
    commits = [item for item in graph.commits if _uses(item, queue)]
    unknown = [call for call in graph.calls if call.callee is None]
    return graph.with_callers(map(graph.root_of, [*commits, *unknown]))


def allowed(item: Item) -> int | None:
    """The groups that a wait lets stay in flight, None if that is not a constant."""
    row = row_of(item.op)
    if row is None or row.wait is None:
        return None
    if count_operand(item.op) is not None:
        return None
    count = given_count(item.op)
    if count is None and row.wait.form == "token" and row.wait.count not in item.op.attributes:
        return 0
    return count if count is not None and count >= 0 else None


def _takes(item: Item) -> bool:
    """Whether a wait also takes a group off its queue, so that it may not go."""
    row = row_of(item.op)
    return row is not None and row.wait is not None and row.wait.form == "next"


def _waits_fully(item: Item) -> bool:
    row = row_of(item.op)
    return row is not None and row.wait is not None and row.wait.completes(item.op) == "full"


def _at_start(queue: Queue, root: Item) -> Transfer:
    """A kernel starts with nothing in flight; a function that others call may not."""
    return known(0 if queue.scope == "function" or starts_thread(root.op) else INFINITE)


def covered_by_next(analysis: Analysis, gone: list[Item]) -> list[Item]:
    """The waits that are directly followed by one on the same queue that is as strict."""
    dropped = set(gone)
    found: list[Item] = []
    for node in analysis.graph.nodes.values():
        waits = [
            item
            for item in node.items
            if item.kind == "wait" and item not in dropped and not _takes(item)
        ]
        for item, following in pairwise(waits):
            # Positions number all ops: nothing at all stands between the two.
            if _covers(following, item) and following.position == item.position + 1:
                found.append(item)
    return found


def _covers(later: Item, earlier: Item) -> bool:
    first, second = allowed(earlier), allowed(later)
    return (
        later.queue == earlier.queue
        and later.queue is not None
        and _stays_with(later, _abstract(earlier))
        and first is not None
        and second is not None
        and second <= first
        and (_waits_fully(later) or not _waits_fully(earlier))
    )


# -- marks that no wait of their function can count -----------------------------------------------------
#
# A queue of function scope counts the marks of its own function body only (LLVM, AMDGPU
# asynchronous operations), so a mark may go if no wait of its queue can run after it in that
# body: none stands after it, no block with one can be reached, and no loop around it holds one.
# Waits elsewhere keep their counts. A mark that only *some* paths lead from to a wait stays: there
# the wait counts it, and its copies are waited for by nothing else.


def uncounted_marks(root: Any, target: Target | None) -> list[Operation]:
    """The marks of function-scope queues that no wait can count, in textual order."""
    return [mark for function in functions(root) for mark in _of_function(function, target)]


def _of_function(function: Operation, target: Target | None) -> list[Operation]:
    marks: list[tuple[Operation, Queue]] = []
    waiting: dict[Queue, Skeleton] = {}
    for op in walk(function):
        row, queue = row_of(op), queue_of(op, target)
        if row is None or queue is None or queue.scope != "function":
            continue
        if row.commits == "group" and not any(map(is_used, op.results)):
            marks.append((op, queue))
            if queue not in waiting:
                waiting[queue] = _waits_on(function, queue, target)
    return [mark for mark, queue in marks if not _may_be_counted(mark, waiting[queue])]


def _waits_on(function: Operation, queue: Queue, target: Target | None) -> Skeleton:
    def waits(op: Operation) -> bool:
        row = row_of(op)
        return row is not None and row.wait is not None and queue_of(op, target) in (queue, None)

    return Skeleton(function, waits, waits)


def _may_be_counted(mark: Operation, waits: Skeleton) -> bool:
    """Whether a wait may run after a mark in the same run of the function body."""
    op = mark
    while op != waits.root:
        block = op.block
        here = waits.of(block)
        if here:
            siblings = operations(block)
            last = siblings.index(here[-1])
            if last > siblings.index(op):
                return True
        if any(waits.of(other) for other in reached(successors(block), successors)):
            return True
        op = op.parent.operation
        row = REGION_ROWS.get(op.name)
        again = row is None or row.flow not in ("branch", "once")
        if again and op != waits.root and any(map(waits.changes, op.regions)):
            return True
    return False
