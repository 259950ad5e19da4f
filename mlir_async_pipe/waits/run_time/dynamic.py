"""Mode `dynamic`: waits that some path keeps low look at a run-time counter.

    %t = commit                  %t = commit; %n1 = %n0 + 1
    scf.if %c { commit }   -->   %n2 = scf.if %c { commit; yield %n1 + 1 } else { yield %n1 }
    wait %t                      switch (%n2 - %n1) { case 1: wait 1   default: wait 0 }

The groups committed so far are counted in each function that has such a wait, and beside each
token that reaches it travels the number of its group: their difference is the exact count. Each
count that can occur gets a case, at most `MOST_CASES` above the static one, which is the default;
groups that are still older wait as if they were of the last case. Calls count as the least
number of groups that their callee commits. What a forall or another op with foreign threads holds
keeps its static count (remark `dynamic-unsupported`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    ancestors,
)
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.flow.items import Item
from mlir_async_pipe.facts.flow.solver import Solver
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue, row_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, CARRYING_OPS
from mlir_async_pipe.waits.balance import balance
from mlir_async_pipe.waits.correlation import sources_of
from mlir_async_pipe.waits.count import Analysis
from mlir_async_pipe.waits.minplus import FOREVER
from mlir_async_pipe.waits.records import WaitRecord
from mlir_async_pipe.waits.run_time.group_numbers import Event, GroupNumbers
from mlir_async_pipe.waits.run_time.possible_counts import (
    NEWEST,
    OPEN,
    PossibleAges,
    counts_in,
)
from mlir_async_pipe.waits.ssa.carry import can_carry
from mlir_async_pipe.waits.ssa.skeleton import Skeleton
from mlir_async_pipe.waits.token_values import Def
from mlir_async_pipe.waits.write_counts import largest_count, wait_rule

CONDITIONAL = ("conditional-commit", "zero-trip-loop", "first-iterations", "correlation-limit")

# Cases above the static count, and how much older groups may be to be told apart.
MOST_CASES = 8
OLDEST_ABOVE = 24

Written = list[tuple[Item, WaitRecord]]


def switch_on_counters(analysis: Analysis, written: Written, session: Session) -> None:
    """Turn the waits among `written` that some paths keep low into switches."""
    # Reasons are looked for in the graph, whose handles the switches put to death.
    low = [record for _, record in written if record.reason in CONDITIONAL]
    callees = _Callees(analysis)
    roots: dict[Item, Written] = {}
    for item, record in written:
        if item.queue is not None:
            roots.setdefault(analysis.graph.root_of(item), []).append((item, record))
    plans = [_Plan(analysis, callees, root, waits) for root, waits in roots.items()]
    stuck = [plan for plan in plans if not can_carry(plan.root.op)]
    plans = [plan for plan in plans if plan not in stuck]
    low += [record for plan in stuck for record in plan.switched]
    switched = {id(record) for plan in plans for record in plan.switched}
    for record in {id(record): record for record in low}.values():
        if id(record) not in switched:
            session.diagnostics.remark(
                "the groups cannot be counted at run time here, so this wait keeps its static "
                f"count of {record.count}",
                code="dynamic-unsupported",
                at=record.place,
            )
    for plan in plans:
        if plan.switched:
            GroupNumbers(plan.skeleton(), plan.events, plan.tracked, plan.foreign).count()


class _Callees:
    """The least number of groups that each call commits to a queue."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self._called = {call.op: call.callee for call in analysis.graph.calls}
        self._fewest: dict[tuple[Item, Queue], int] = {}

    def groups(self, op: Operation, queue: Queue) -> int:
        """At least so many groups are committed in a call; 0 in a cycle of calls."""
        callee = self._called.get(op)
        if callee is None or queue.scope == "function":
            return 0
        if (callee, queue) not in self._fewest:
            self._fewest[callee, queue] = 0
            self._fewest[callee, queue] = self._through(callee, queue)
        return self._fewest[callee, queue]

    def _through(self, callee: Item, queue: Queue) -> int:
        """The least number of groups on any path through a function; 0 if it never returns."""
        graph = self.analysis.graph

        def weight(item: Item) -> int:
            return self.groups(item.op, queue) if item.kind == "call" else 1

        commits = [item for item in graph.commits if item.queue == queue]
        inside = [item for item in [*commits, *graph.calls] if graph.root_of(item) is callee]
        least = balance(self.analysis.conditions, inside, weight).through(callee.frames[0])
        return least if least < FOREVER else 0

    def commits(self, op: Operation, queue: Queue) -> bool:
        """Whether an op surely commits a group to the queue."""
        row = row_of(op)
        return (
            row is not None and row.commits is not None and self.analysis.graph.queue(op) == queue
        )


@dataclass(eq=False)
class _Plan:
    """Which waits of one function become switches, and what is counted for them.

    `tracked` are the tokens whose numbers travel, with the number of their queue; `events` say
    what the ops of each block are to the counters, in order.
    """

    analysis: Analysis
    callees: _Callees
    root: Item
    waits: Written
    queues: list[Queue] = field(default_factory=list)
    tracked: dict[Value, int] = field(default_factory=dict)
    switched: list[WaitRecord] = field(default_factory=list)
    events: dict[Block, list[Event]] = field(default_factory=dict)
    _cases: dict[Operation, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for queue in dict.fromkeys(item.queue for item, _ in self.waits):
            assert queue is not None
            self._choose(queue, [entry for entry in self.waits if entry[0].queue == queue])
        if self.switched:
            for block, ops in self.skeleton().events.items():
                self.events[block] = [self._event(op) for op in ops if not len(op.regions)]

    @property
    def foreign(self) -> list[int]:
        """By queue, how many groups after the counter a token from elsewhere stands at most."""
        return [-1 if queue.scope == "function" else 0 for queue in self.queues]

    def _choose(self, queue: Queue, waits: Written) -> None:
        """Find the waits of one queue whose tokens may be older than the static count says."""
        cases = self._cases_above(queue, waits)
        numbers = self._numbers_behind([item for item, _ in waits if item.op in cases])
        tracked = {self.analysis.values.handle(number) for number in numbers}
        if any(value in self.tracked for value in tracked):
            # The token of a wait on another queue too, where it means nothing.
            return
        if cases:
            self.tracked |= dict.fromkeys(tracked, len(self.queues))
            self.queues.append(queue)
            self._cases |= cases
            self.switched += [record for item, record in waits if item.op in cases]

    def _cases_above(self, queue: Queue, waits: Written) -> dict[Operation, list[int]]:
        """The counts above the static one that each wait can have at run time."""
        numbers = self._numbers_behind([item for item, _ in waits])
        ages = PossibleAges(
            numbers,
            queue,
            lambda op: self.callees.groups(op, queue),
            OPEN if queue.scope == "function" else NEWEST,
            max(record.count for _, record in waits) + OLDEST_ABOVE,
            self.analysis.values.live_in,
        )
        made = self._events(queue, waits, numbers)
        events = [event for event in made if self._is_followed(event.op)]
        solved = Solver(self.analysis.conditions, events, ages, ages.start)
        found: dict[Operation, list[int]] = {}
        for item, record in waits:
            if item in solved.before:
                possible = ages.ages(solved.before[item], item.operands.values())
                largest = largest_count(queue, wait_rule(item.op))
                counts = [min(count, largest) for count in counts_in(possible)]
                above = sorted({count for count in counts if count > record.count})
                if above:
                    found[item.op] = above[:MOST_CASES]
        return found

    def _events(self, queue: Queue, waits: Written, numbers: set[int]) -> Iterator[Item | Def]:
        """What makes the tokens with these numbers, or makes them older, in this function."""
        graph, defs = self.analysis.graph, self.analysis.values.defs
        tokens = [defs[number] for number in numbers]
        commits = [item for item in graph.commits if item.queue == queue]
        items = [*(item for item, _ in waits), *commits, *graph.calls, *(t.item for t in tokens)]
        for item in dict.fromkeys(items):
            if item is not None and not item.is_root and graph.root_of(item) is self.root:
                yield item
        yield from (token for token in tokens if token.item is None)

    def _numbers_behind(self, waits: list[Item]) -> set[int]:
        """The values that the tokens of waits may come from."""
        values = self.analysis.values
        tokens = [number for item in waits for number in item.operands.values()]
        return reached(tokens, lambda number: [found[0] for found in sources_of(values, number)])

    def _is_followed(self, op: Operation) -> bool:
        """Whether the thread of the function surely runs an op where it stands."""
        for above in ancestors(op):
            if above == self.root.op:
                return True
            if above.name not in CARRYING_OPS:
                return False
        return True

    def _counts(self, op: Operation, queues: list[Queue]) -> bool:
        """Whether an op makes a counter go on."""
        if op.name in CALL_OPS:
            return any(self.callees.groups(op, queue) for queue in queues)
        return any(self.callees.commits(op, queue) for queue in queues)

    def skeleton(self) -> Skeleton:
        """What matters to the counters of all queues with a switch."""
        return Skeleton(
            self.root.op,
            lambda op: (
                (
                    op in self._cases
                    or self._counts(op, self.queues)
                    or any(result in self.tracked for result in op.results)
                )
                and self._is_followed(op)
            ),
            lambda op: self._counts(op, self.queues),
        )

    def _event(self, op: Operation) -> Event:
        if op in self._cases:
            queue = self.analysis.graph.queue(op)
            assert queue is not None
            return Event("wait", self.queues.index(queue), cases=tuple(self._cases[op]))
        if op.name in CALL_OPS:
            return Event("call", groups=tuple(self.callees.groups(op, q) for q in self.queues))
        row = row_of(op)
        if row is not None and row.commits is not None:
            own = [n for n, queue in enumerate(self.queues) if self.callees.commits(op, queue)]
            return Event("commit", own[0]) if own else Event("other queue")
        return Event("copy" if row is not None and row.token else "value")
