"""Pass `async-pipe-simplify-waits`: drops waits and commits that change nothing.

    wait 1; commit; wait 2       -->  wait 1; commit           never more than 2 in flight there
    wait 1; wait 0               -->  wait 0                   neighbours: the strictest stays
    commit (nobody waits); commit  -->  commit                 its ops join the next group
    mark (no wait after it)  -->                               of a queue that counts by function body

A wait goes if an upper bound of the groups in flight before it is at most its count. All such waits go at once,
since none of them would have blocked. No wait moves. A wait of an abstract queue stands in for waits of that queue
only: where everything on it runs in place, the lowering drops it with its queue. When a commit goes, all counts of
its queue are derived again: keeping them would be unsafe. It stays where a wait would then be stricter on some path
(`droppable`).

The upper bounds are the max-plus side of the algebra: every piece of code maps the groups in flight
x before it to at most

    min(max(x + grow, floor), cap)

commit: x + 1.  wait N: min(x, N).  These functions are closed under composition; where paths
join, the larger parameters bound both. A loop with a positive `grow` stays below its cap.
A wait that is met with no more than N groups in flight does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    functions,
    is_kernel,
    is_used,
    operations,
    walk,
)
from mlir_async_pipe.chips.target import ChipOptions, Target, target_for
from mlir_async_pipe.facts.flow.algorithms import by_halves, reached
from mlir_async_pipe.facts.flow.flow_graph import Item, Node
from mlir_async_pipe.facts.flow.region_flow import successors
from mlir_async_pipe.facts.flow.solver import Semiring, Solver
from mlir_async_pipe.facts.values.memory_roots import may_alias, root_of
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Access, Queue, accesses, given_count, queue_of, row_of
from mlir_async_pipe.vocabulary.async_ops import count_operand, queue_number
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, REGION_ROWS
from mlir_async_pipe.waits.consumers import takes_next
from mlir_async_pipe.waits.count import TokenWaits, largest_count, waits_on_tokens
from mlir_async_pipe.waits.count_pass import CountWaitsOptions, count_waits
from mlir_async_pipe.waits.ssa.carry import Skeleton


@dataclass(frozen=True)
class SimplifyWaitsOptions(ChipOptions):
    """Options of `async-pipe-simplify-waits`: `keep_commits` leaves every group as it is."""

    keep_commits: bool = False


@dataclass(frozen=True)
class Simplification:
    """One op that went: `what` is a key of `_SENTENCES`."""

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
    analysis = TokenWaits(module_op.operation, target)
    redundant = redundant_waits(analysis)
    merged = covered_by_next(analysis, redundant)
    for what, items in (("redundant-wait", redundant), ("merged-wait", merged)):
        for item in items:
            _drop(item.op, what, session)
    if options.keep_commits:
        return
    for mark in [mark for each in functions(module_op) for mark in uncounted_marks(each, target)]:
        _drop(mark, "uncounted-mark", session)
    idle = idle_commits(TokenWaits(module_op.operation, target))
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


def redundant_waits(analysis: TokenWaits) -> list[Item]:
    """The waits before which never more groups are in flight than they allow."""
    found: list[Item] = []
    graph = analysis.graph
    everything = [*graph.commits, *graph.waits, *graph.calls]
    kinds = dict.fromkeys((item.queue, _abstract(item)) for item in graph.waits)
    for queue, abstract in kinds:
        if queue is None:
            continue
        items = [item for item in everything if item.kind == "call" or _may_use(item, queue)]
        transfer = partial(_transfer, queue, abstract, _committing(analysis, queue))
        flight = Solver(analysis.conditions, items, InFlight(transfer), partial(_at_start, queue))
        for item in items:
            if item.kind != "wait" or takes_next(item) or _abstract(item) != abstract:
                continue
            # A counter of the hardware counts copies, in whatever groups they are.
            if row_of(item.op).completion == "counter":
                continue
            limit = allowed(item)
            if limit is not None and flight.before.get(item, ANYTHING).cap <= limit:
                found.append(item)
    return found


def _may_use(item: Item, queue: Queue) -> bool:
    """A commit to an unknown queue may add to this one."""
    return item.queue == queue or (item.queue is None and item.kind == "commit")


def _abstract(item: Item) -> int | None:
    """The abstract queue of a wait, None for a wait of the chip's own."""
    row = row_of(item.op)
    return None if not row.described or isinstance(row.queue, Queue) else queue_number(item.op)


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


def _committing(analysis: TokenWaits, queue: Queue) -> set[Item]:
    """The functions that may commit to a queue, themselves or through calls."""
    graph = analysis.graph
    commits = [item for item in graph.commits if _may_use(item, queue)]
    unknown = [call for call in graph.calls if call.callee is None]
    return graph.with_callers(map(graph.root_of, [*commits, *unknown]))


def allowed(item: Item) -> int | None:
    """The groups that a wait lets stay in flight, None if that is not a constant."""
    row = row_of(item.op)
    if row.wait is None or count_operand(item.op) is not None:
        return None
    count = given_count(item.op)
    if count is None and row.wait.form == "token" and row.wait.count not in item.op.attributes:
        return 0
    return count if count is not None and count >= 0 else None


def _waits_fully(item: Item) -> bool:
    row = row_of(item.op)
    return row.wait is not None and row.wait.completes(item.op) == "full"


def _at_start(queue: Queue, root: Item) -> Transfer:
    """A kernel starts with nothing in flight; a function that others call may not."""
    return known(0 if queue.scope == "function" or is_kernel(root.op) else INFINITE)


def covered_by_next(analysis: TokenWaits, gone: list[Item]) -> list[Item]:
    """The waits that are directly followed by one on the same queue that is as strict."""
    dropped = set(gone)
    found: list[Item] = []
    for node in analysis.graph.nodes.values():
        kept = (item for item in node.items if item.kind == "wait" and item not in dropped)
        waits = [item for item in kept if not takes_next(item)]
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
# A queue of function scope counts the marks of its own function body only (LLVM, AMDGPU asynchronous operations),
# so a mark may go if no wait of its queue can run after it in that body: none stands after it, no block with one
# can be reached, and no loop around it holds one. Waits elsewhere keep their counts. A mark that only *some* paths
# lead from to a wait stays: there the wait counts it, and its copies are waited for by nothing else.


def uncounted_marks(function: Operation, target: Target | None) -> list[Operation]:
    """The marks of function-scope queues in a function that no wait can count, in textual order."""
    marks: list[tuple[Operation, Queue]] = []
    waiting: dict[Queue, Skeleton] = {}
    for op in walk(function):
        row, queue = row_of(op), queue_of(op, target)
        if queue is None or queue.scope != "function":
            continue
        if row.commits == "group" and not any(map(is_used, op.results)):
            marks.append((op, queue))
            if queue not in waiting:
                waits = partial(_may_wait_on, queue, target)
                waiting[queue] = Skeleton(function, waits, waits)
    return [mark for mark, queue in marks if not _may_be_counted(mark, waiting[queue])]


def _may_wait_on(queue: Queue, target: Target | None, op: Operation) -> bool:
    return row_of(op).wait is not None and queue_of(op, target) in (queue, None)


def _may_be_counted(mark: Operation, waits: Skeleton) -> bool:
    """Whether a wait may run after a mark in the same run of the function body."""
    op = mark
    while op != waits.root:
        block = op.block
        here, siblings = waits.of(block), operations(block)
        if here and siblings.index(here[-1]) > siblings.index(op):
            return True
        if any(map(waits.of, reached(successors(block), successors))):
            return True
        op = op.parent.operation
        row = REGION_ROWS.get(op.name)
        again = row is None or row.flow not in ("branch", "once")
        if again and op != waits.root and any(map(waits.changes, op.regions)):
            return True
    return False


# Commits whose group nobody waits for, and that the next commit of their queue can take over.
#
#     copy A; commit %a (no wait sees %a); copy B; commit %b   -->   copy A; copy B; commit %b
#
# The ops of the first group complete no later than those of the second one, for every wait. It
# stays where that would not hold or could hurt: where another wait counts groups by number, where
# it pads the queue on purpose (`async_pipe.empty`), where a wait or a call stands before the next
# commit, or where both groups may touch the same memory (inside a group nothing is ordered).

PADDING = "async_pipe.empty"


def idle_commits(analysis: TokenWaits) -> list[Item]:
    """The commits whose ops the next commit of their queue can take over."""
    graph = analysis.graph
    # Functions in which groups are counted by number; a function that is called is in doubt.
    numbered = {graph.root_of(item) for item in graph.waits if not waits_on_tokens(item.op)}
    if numbered:
        numbered |= {call.callee for call in graph.calls if call.callee is not None}
    found: list[Item] = []
    for node in graph.nodes.values():
        commits = [item for item in node.items if item.kind == "commit"]
        for item, following in pairwise(commits):
            if item.results or item.queue is None or item.queue != following.queue:
                continue
            if graph.root_of(item) in numbered or PADDING in item.op.attributes:
                continue
            if not (_is_group(item) and _is_group(following)) or any(map(is_used, item.op.results)):
                continue
            # A wait, a call or an op with such inside.
            if any(item.position < other.position < following.position for other in node.items):
                continue
            # Three groups in a row become one: the first may not touch what the third does.
            joined = {other.op for other in found if other.node is node}
            if _may_merge(node, item, following, joined):
                found.append(item)
    return found


def _is_group(item: Item) -> bool:
    return row_of(item.op).commits == "group"


def _may_merge(node: Node, first: Item, last: Item, joined: set[Any]) -> bool:
    """Whether the ops of both groups, and of `joined` commits, are known and write no common memory."""
    commits = {item.op for item in node.items if _is_group(item) and item.queue == first.queue}
    # The first group holds what was issued since the last commit; that is all in this block
    # if the block has such a commit, or is where a thread starts.
    known = node is node.frame.entry and is_kernel(node.frame.item.op)
    group: list[Access] = []
    earlier: list[Access] = []
    for op in operations(node.block):
        if op == last.op:
            break
        if op in joined:
            continue
        if op in commits:
            known, earlier, group = known or op != first.op, group, []
            continue
        for inner in walk(op) if len(op.regions) else (op,):
            if inner.name in CALL_OPS:
                # What a callee issued is in the group too.
                known = False
            group += [access for access in accesses(inner) if access.asynchronous or inner != op]
    return known and not any(
        (a.writes or b.writes) and may_alias(root_of(a.memory), root_of(b.memory))
        for a in earlier
        for b in group
    )


# Which idle commits may go so that no wait of their queue gets stricter on any path.
#
# The counts are derived again as if the commits had gone, and compared with what is left of the groups that each
# wait let stay in flight before. Where that fails the commits are halved, so those that do no harm still go.
#
#     kept[j]  =  the most that are left, over all paths, of the j groups committed last
#
# A wait that let N groups stay in flight lets the same ops stay if its new count is at least
# kept[N]: then it is stricter on no path. (A prologue that commits as many groups as the iterations
# of its loop may not lose one: the loop's count would sink, and with it what the loop overlaps.)

# Counting again takes as long as the pass: after so many tries the other commits stay.
MOST_TRIES = 64

Positions = frozenset[int]
"""Ops by their number in pre-order, which every analysis of one module shares."""


def droppable(module_op: Any, target: Target | None, candidates: list[Item]) -> list[Any]:
    """Those of the candidates that may go together, as ops."""
    trial = _Trial(module_op, target)
    by_halves([item.position for item in candidates], trial.drop, MOST_TRIES)
    return [item.op for item in candidates if item.position in trial.dropped]


class _Trial:
    """Counts a module again and again, without the commits that are `dropped`."""

    def __init__(self, module_op: Any, target: Target | None) -> None:
        self.module_op = module_op
        self.target = target
        self.dropped: Positions = frozenset()
        self.before = self._counts(TokenWaits(module_op.operation, target))

    def _counts(self, analysis: TokenWaits) -> dict[int, int]:
        """What each wait can let stay in flight, by position; without those never reached."""
        return {
            each.item.position: min(
                largest_count(each.item.queue, each.item.op), max(0, each.count)
            )
            for each in analysis.count()
            if each.count is not None
        }

    def drop(self, more: list[int]) -> bool:
        """Drop some as well, if no wait gets stricter then."""
        dropped = self.dropped.union(more)
        if not self._is_harmless(dropped):
            return False
        self.dropped = dropped
        return True

    def _is_harmless(self, dropped: Positions) -> bool:
        analysis = TokenWaits(self.module_op.operation, self.target)
        gone = [item for item in analysis.graph.commits if item.position in dropped]
        queues = {item: item.queue for item in gone}
        for item in gone:
            item.queue = None
        after = self._counts(analysis)
        for item, queue in queues.items():
            item.queue = queue
        waiting: dict[Queue, list[Item]] = {}
        for item in analysis.waits:
            if item.queue in queues.values() and after.get(item.position) is not None:
                assert item.queue is not None
                waiting.setdefault(item.queue, []).append(item)
        return all(
            self._stays_as_loose(analysis, queue, waits, dropped, after)
            for queue, waits in waiting.items()
        )

    def _stays_as_loose(
        self,
        analysis: TokenWaits,
        queue: Queue,
        waits: list[Item],
        dropped: Positions,
        after: dict[int, int],
    ) -> bool:
        graph = analysis.graph
        commits = [item for item in graph.commits if item.queue in (queue, None)]
        calls = graph.calls if queue.scope == "thread" else []

        def change(item: Item) -> Change:
            if item.kind == "wait":
                return "none"
            if item.queue is None:
                return "any"
            return "dropped" if item.position in dropped else "kept"

        def start(root: Item) -> Kept:
            known = queue.scope == "function" or is_kernel(root.op)
            return kept.nothing if known else kept.outside

        kept = KeptGroups(max(self.before.get(item.position, 0) for item in waits), change)
        found = Solver(analysis.conditions, [*waits, *commits, *calls], kept, start)
        return all(
            after[wait.position] >= found.before[wait].last[self.before[wait.position]]
            for wait in waits
            if wait in found.before
        )


# -- what is left of the youngest groups ----------------------------------------------------------------

NONE = -(1 << 60)

Change = Literal["kept", "dropped", "any", "none"]
"""What an op does: it commits a group that stays, or that joins the next one, or it may commit
any number that stay, or none."""


class Kept(NamedTuple):
    """What paths keep: `last[j]` the most of their j youngest groups, `NONE` if all have fewer;
    `all[n]` the most on those that commit n groups, up to as many as `last` tells."""

    last: tuple[int, ...]
    all: dict[int, int]


class KeptGroups(Semiring[Kept]):
    """The domain, for windows of 0 to `most` groups; `change` says what items do."""

    def __init__(self, most: int, change: Callable[[Item], Change]) -> None:
        self.most = most
        self.unit = self._path(0)
        self.never = Kept((NONE,) * (most + 1), {})
        # Nobody knows how many groups there are, and all may stay.
        self.outside = Kept(tuple(range(most + 1)), {n: n for n in range(most + 1)})
        # There are no groups before: the youngest ones are none.
        self.nothing = Kept((0,) * (most + 1), {})
        worth = {"none": self.unit, "any": self.outside}
        worth |= {"kept": self._path(0, 1), "dropped": self._path(0, 0)}
        self.over = lambda item: worth[change(item)]

    def _path(self, *kept: int) -> Kept:
        """A path on which so many of its youngest groups stay; the last number is for all."""
        room = self.most + 1
        last = (*kept, *[NONE] * room)[:room]
        return Kept(last, {len(kept) - 1: kept[-1]} if len(kept) <= room else {})

    def then(self, first: Kept, later: Kept) -> Kept:
        """Some youngest groups are all of the later path, or reach back into the first one."""
        if self.never in (first, later):
            return self.never
        last = list(later.last)
        every: dict[int, int] = {}
        for number, kept in later.all.items():
            for before, more in enumerate(first.last[: self.most + 1 - number]):
                if more != NONE:
                    last[number + before] = max(last[number + before], more + kept)
            for before, more in first.all.items():
                if number + before <= self.most:
                    every[number + before] = max(every.get(number + before, 0), more + kept)
        return Kept(tuple(last), every)

    def join(self, first: Kept, second: Kept) -> Kept:
        every = first.all | second.all
        for number in first.all.keys() & second.all.keys():
            every[number] = max(first.all[number], second.all[number])
        return Kept(tuple(map(max, first.last, second.last)), every)

    def past(self, item: Item, through: list[Kept]) -> Kept:
        """What may have been committed in another thread is not known."""
        return self.outside


INFINITE = 1 << 60
ROUNDS = 80
"""Times that a block's bound may rise (a wait can leave 63 in flight) before it is infinite."""
FUNCTION_ROUNDS = 8
"""The same for the parameters of a function: `grow` rises in every loop with a commit."""


class Transfer(NamedTuple):
    """x -> min(max(x + grow, floor), cap), in groups."""

    grow: int = 0
    floor: int = -INFINITE
    cap: int = INFINITE


UNCHANGED = Transfer()
COMMIT = Transfer(grow=1)
ANYTHING = Transfer(grow=INFINITE)
NEVER = Transfer(-INFINITE, -INFINITE, -INFINITE)


def known(groups: int) -> Transfer:
    """What leaves this bound, whatever is in flight before."""
    return Transfer(INFINITE, INFINITE, groups)


FOREIGN = known(INFINITE)


@dataclass(frozen=True)
class InFlight(Semiring[Transfer]):
    """The domain: what paths do to the groups in flight, where `over` says what items do. What comes to a point is
    `known`, and its `cap` the bound: 0 at the start of a kernel, `INFINITE` in a function that others call."""

    over: Callable[[Item], Transfer]
    unit: Transfer = UNCHANGED
    never: Transfer = NEVER
    outside: Transfer = FOREIGN

    def then(self, first: Transfer, later: Transfer) -> Transfer:
        if NEVER in (first, later):
            return NEVER
        return Transfer(
            _plus(first.grow, later.grow),
            max(_plus(first.floor, later.grow), later.floor),
            min(max(_plus(first.cap, later.grow), later.floor), later.cap),
        )

    def join(self, first: Transfer, second: Transfer) -> Transfer:
        return Transfer(*map(max, first, second))

    def star(self, body: Transfer, most: int | None = None) -> Transfer:
        """Any number of times: x, or what one of the iterations leaves."""
        if most == 0:
            return UNCHANGED
        return Transfer(floor=body.cap if body.grow > 0 else min(body.floor, body.cap))

    def widen(self, before: Transfer, now: Transfer, visits: int, blocks: int) -> Transfer:
        """What has risen often enough has no bound."""
        if visits < (ROUNDS if now.floor >= INFINITE else FUNCTION_ROUNDS):
            return now
        return Transfer(
            INFINITE if now.grow > before.grow else now.grow,
            INFINITE if now.floor > before.floor else now.floor,
            INFINITE if now.cap > before.cap else now.cap,
        )


def _plus(left: int, right: int) -> int:
    if left >= INFINITE or right >= INFINITE:
        return INFINITE
    return max(-INFINITE, min(INFINITE, left + right))
