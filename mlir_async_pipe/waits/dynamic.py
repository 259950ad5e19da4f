"""Counts at run time: waits that look at a counter (mode `dynamic`), and counts that are operands.

    %t = commit                  %t = commit; %n1 = %n0 + 1
    scf.if %c { commit }   -->   %n2 = scf.if %c { commit; yield %n1 + 1 } else { yield %n1 }
    wait %t                      switch (%n2 - %n1) { case 1: wait 1   default: wait 0 }

The groups committed so far are counted in each function that has such a wait, and beside each token that reaches it
travels the number of its group: their difference is the exact count. Each count that can occur gets a case, at most
`MOST_CASES` above the static one, which is the default; groups that are still older wait as if they were of the
last case. Calls count as the least number of groups that their callee commits. What a forall or another op with
foreign threads holds keeps its static count (remark `dynamic-unsupported`).

A count that is an operand becomes a wait for each constant that can occur, else one for all groups:

    wait_queue(%n) {queue = 0}   -->   switch %n { case 1: wait 1   case 2: wait 2   default: wait 0 }

Neither PTX nor AMD's counters take a count from a register, so each count gets a wait of its own. On
a queue that is no constant either the wait is for all groups. The constants are looked for behind
selects, loops and branches; the ends give their range:

    %n = arith.select %c, %c0, %c2              {0, 2}
    %n = scf.if %c -> index { … 1 } else { … }  what the sides yield
    %n = arith.remui %i, %c3                    {0, 1, 2}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import takewhile
from operator import or_
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    ancestors,
    attributes_of,
    before,
    constant_value,
    create,
    integer_attribute,
    source_op,
)
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.flow.flow_graph import Edge, Frame, Item, Node
from mlir_async_pipe.facts.flow.region_flow import origins
from mlir_async_pipe.facts.flow.solver import Semiring, Solver
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.session.diagnostics import CountError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue, row_of, set_count
from mlir_async_pipe.vocabulary.async_ops import COUNT_FORMS, count_operand, tokens_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, CARRYING_OPS, CAST_OPS, SELECT_OPS
from mlir_async_pipe.waits.consumers import balance
from mlir_async_pipe.waits.correlation import sources_of
from mlir_async_pipe.waits.count import TokenWaits, largest_count, wait_rule
from mlir_async_pipe.waits.minplus import FOREVER
from mlir_async_pipe.waits.ssa.carry import Carrier, Skeleton, Variables, can_carry
from mlir_async_pipe.waits.token_values import Def
from mlir_async_pipe.waits.witness_paths import WaitRecord

CONDITIONAL = ("conditional-commit", "zero-trip-loop", "first-iterations", "correlation-limit")

# Cases above the static count, and how much older groups may be to be distinguished.
MOST_CASES = 8
OLDEST_ABOVE = 24

Written = list[tuple[Item, WaitRecord]]


def switch_on_counters(analysis: TokenWaits, written: Written, session: Session) -> None:
    """Turn the waits among `written` that some paths keep low into switches."""
    callees = _Callees(analysis)
    roots: dict[Item, Written] = {}
    for item, record in written:
        if item.queue is not None:
            roots.setdefault(analysis.graph.root_of(item), []).append((item, record))
    plans = [_Plan(analysis, callees, root, waits) for root, waits in roots.items()]
    carried = [plan for plan in plans if can_carry(plan.root.op)]
    low = [record for _, record in written if record.reason in CONDITIONAL]
    low += [record for plan in plans if plan not in carried for record in plan.switched]
    switched = {id(record) for plan in carried for record in plan.switched}
    for record in {id(record): record for record in low}.values():
        if id(record) not in switched:
            keeps = f"so this wait keeps its static count of {record.count}"
            said = f"the groups cannot be counted at run time here, {keeps}"
            session.diagnostics.remark(said, code="dynamic-unsupported", at=record.place)
    for plan in carried:
        if plan.switched:
            GroupNumbers(plan).count()


class _Callees:
    """The least number of groups that each call commits to a queue."""

    def __init__(self, analysis: TokenWaits) -> None:
        self.analysis = analysis
        self._called = {call.op: call.callee for call in analysis.graph.calls}
        self._fewest: dict[tuple[Item, Queue], int] = {}

    def groups(self, op: Operation, queue: Queue) -> int:
        """At least so many groups are committed in a call; 0 in a cycle of calls, or if it never returns."""
        callee, graph = self._called.get(op), self.analysis.graph
        if callee is None or queue.scope == "function":
            return 0
        if (callee, queue) not in self._fewest:
            self._fewest[callee, queue] = 0

            def weight(item: Item) -> int:
                return self.groups(item.op, queue) if item.kind == "call" else 1

            commits = [item for item in graph.commits if item.queue == queue]
            inside = [item for item in [*commits, *graph.calls] if graph.root_of(item) is callee]
            least = balance(self.analysis.conditions, inside, weight).through(callee.frames[0])
            self._fewest[callee, queue] = least if least < FOREVER else 0
        return self._fewest[callee, queue]

    def commits(self, op: Operation, queue: Queue) -> bool:
        """Whether an op certainly commits a group to the queue."""
        return row_of(op).commits is not None and self.analysis.graph.queue(op) == queue


@dataclass(eq=False)
class _Plan:
    """Which waits of one function become switches, and what is counted for them. `tracked` are the tokens whose
    numbers travel, with the number of their queue; `cases` are the counts of each wait above its static one."""

    analysis: TokenWaits
    callees: _Callees
    root: Item
    waits: Written
    queues: list[Queue] = field(default_factory=list)
    tracked: dict[Value, int] = field(default_factory=dict)
    switched: list[WaitRecord] = field(default_factory=list)
    cases: dict[Operation, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for queue in dict.fromkeys(item.queue for item, _ in self.waits):
            assert queue is not None
            self._choose(queue, [entry for entry in self.waits if entry[0].queue == queue])

    def _choose(self, queue: Queue, waits: Written) -> None:
        """Find the waits of one queue whose tokens may be older than the static count says."""
        cases = self._cases_above(queue, waits)
        numbers = self._numbers_of_waits([item for item, _ in waits if item.op in cases])
        tracked = {self.analysis.values.handle(number) for number in numbers}
        # The token of a wait on another queue too, where it means nothing.
        if cases and self.tracked.keys().isdisjoint(tracked):
            self.tracked |= dict.fromkeys(tracked, len(self.queues))
            self.queues.append(queue)
            self.cases |= cases
            self.switched += [record for item, record in waits if item.op in cases]

    def _cases_above(self, queue: Queue, waits: Written) -> dict[Operation, list[int]]:
        """The counts above the static one that each wait can have at run time."""
        numbers = self._numbers_of_waits([item for item, _ in waits])
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
                largest = largest_count(queue, item.op)
                # The ages that its bits stand for.
                counts = {bit - 2 for bit in range(2, possible.bit_length()) if possible >> bit & 1}
                above = sorted({c for n in counts if (c := min(n, largest)) > record.count})
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

    def _numbers_of_waits(self, waits: list[Item]) -> set[int]:
        """The values that the tokens of waits may come from."""
        values = self.analysis.values
        tokens = [number for item in waits for number in item.operands.values()]
        return reached(tokens, lambda number: [found[0] for found in sources_of(values, number)])

    def _is_followed(self, op: Operation) -> bool:
        """Whether the thread of the function certainly runs an op where it stands."""
        around = takewhile(lambda above: above != self.root.op, ancestors(op))
        return all(above.name in CARRYING_OPS for above in around)

    def _counts(self, op: Operation) -> bool:
        """Whether an op makes a counter go on."""
        goes_on = self.callees.groups if op.name in CALL_OPS else self.callees.commits
        return any(goes_on(op, queue) for queue in self.queues)

    def skeleton(self) -> Skeleton:
        """What matters to the counters of all queues with a switch."""

        def matters(op: Operation) -> bool:
            known = op in self.cases or not self.tracked.keys().isdisjoint(op.results)
            return (known or self._counts(op)) and self._is_followed(op)

        return Skeleton(self.root.op, matters, self._counts)

    def event(self, op: Operation) -> CounterEvent:
        if op in self.cases:
            queue = self.analysis.graph.queue(op)
            assert queue is not None
            return CounterEvent(self.queues.index(queue), cases=self.cases[op])
        if op.name in CALL_OPS:
            return CounterEvent(groups=tuple(self.callees.groups(op, q) for q in self.queues))
        own = (n for n, queue in enumerate(self.queues) if self.callees.commits(op, queue))
        return CounterEvent(next(own, None))


class CounterEvent(NamedTuple):
    """What an op is to the counters, read before the function is rewritten, since handles of ops hash by their operands:
    the number of the queue that it waits for in some `cases`, or certainly commits a group to (None: it is none of these);
    the `groups` that a call adds to each counter."""

    queue: int | None = None
    cases: list[int] | None = None
    groups: tuple[int, ...] = ()


# Counts groups at run time, and lets the number of its group travel beside each token.
#
#     commit   counter + 1, the number of its token      select   the number of what it selects
#     copy     the number that the next commit makes     call     counter + what it commits at least
#
# Counters and numbers are index values in SSA form (`carry`), so they live in registers.

# The number of a group that no wait of the queue can see: it is never old enough.
NEVER = 1 << 30


class GroupNumbers(Carrier):
    """Carries one counter a queue, and the numbers of the tokens in `tracked`."""

    def __init__(self, plan: _Plan) -> None:
        skeleton = plan.skeleton()
        super().__init__(skeleton, ir.IndexType.get(skeleton.root.context))
        self.tracked = plan.tracked
        # By queue, how many groups before the counter a token from elsewhere stands at most.
        self.foreign = [int(queue.scope == "function") for queue in plan.queues]
        self._events = {
            block: [plan.event(op) for op in ops if not len(op.regions)]
            for block, ops in skeleton.events.items()
        }
        entry = skeleton.root.regions[0].blocks[0]
        self._entry = IntegerWriter(ir.InsertionPoint.at_block_begin(entry), skeleton.root.location)
        self._zero = self._entry.constant(0)
        # The op that came first may be a wait, which goes.
        self._entry.ip = before(source_op(self._zero))

    def count(self) -> None:
        entry = self.skeleton.root.regions[0].blocks[0]
        for argument in entry.arguments:
            queue = self.tracked.get(argument)
            if queue is not None:
                self.bind(argument, self._entry.constant(self.foreign[queue]))
        self.run([self._zero] * len(self.foreign))

    def over(self, op: Operation, variables: Variables) -> Variables:
        event = self._events[op.block].pop(0)
        if event.cases is not None and event.queue is not None:
            self._switch(op, event.cases, event.queue, variables)
            return variables
        if event.groups:
            variables = [
                self._plus(counter, groups, op)
                for counter, groups in zip(variables, event.groups, strict=True)
            ]
        elif event.queue is not None:
            variables = list(variables)
            variables[event.queue] = self._plus(variables[event.queue], 1, op)
        for result in op.results:
            queue = self.tracked.get(result)
            if queue is not None:
                self.bind(result, self._number_of(op, event, queue, variables))
        return variables

    def _number_of(
        self, op: Operation, event: CounterEvent, queue: int, variables: Variables
    ) -> Value:
        counter, row = variables[queue], row_of(op)
        if row.commits is not None:
            return counter if event.queue == queue else self._entry.constant(NEVER)
        if row.token:
            return self._plus(counter, 1, op)
        if op.name in SELECT_OPS:
            numbers = [self.companion(op.operands[i], variables) for i in (1, 2)]
            return self._at(after(op), op).select(op.operands[0], *numbers)
        if op.name in CAST_OPS:
            return self.companion(op.operands[0], variables)
        return self._plus(counter, self.foreign[queue], op)

    def _switch(self, op: Operation, cases: list[int], queue: int, variables: Variables) -> None:
        write = self._at(before(op), op)
        latest = reduce(write.largest, [self.companion(one, variables) for one in op.operands])
        age = write.smallest(write.subtract(variables[queue], latest), cases[-1])
        least = integer_attribute(op, wait_rule(op).count) or 0

        # Without tokens: the count of a case is given, and is not derived again.
        switch_over_counts(age, cases, least, op, _waits_like(op, COUNT_FORMS[op.name], ()))
        op.erase()

    def _plus(self, number: Value, more: int, place: Operation) -> Value:
        return self._at(after(place), place).add(number, more)

    def _at(self, ip: Any, op: Operation) -> IntegerWriter:
        return IntegerWriter(ip, op.location, self._entry)

    # -- where values meet ----------------------------------------------------------------

    def accompanied(self, values: Any) -> list[int]:
        return [place for place, value in enumerate(values) if value in self.tracked]

    def companion(self, value: Value, variables: Variables) -> Value:
        """The number of a token; of one from another thread: never old enough."""
        return self.companions.get(value) or self._entry.constant(NEVER)

    def after_apart(self, op: Operation, variables: Variables) -> Variables:
        """A token from there was committed no later than here."""
        for result in op.results:
            queue = self.tracked.get(result)
            if queue is not None:
                self.bind(result, self._plus(variables[queue], self.foreign[queue], op))
        return variables


# Which counts a wait can have at run time: all the ages that its token may have, path by path.
#
#     %t = commit             {0}
#     scf.if %c { commit }    {0, 1}
#     wait %t                 the count is 0 or 1
#
# A set of ages is a number whose bits are its members, so a commit is a shift and a join is `or`.

# Bit 0: a group that no wait of the queue can see. Bit 1: a copy that is in no group yet (age
# -1). Bit k + 2: k groups were committed since.
NONE, OPEN, NEWEST = 1, 2, 4

MADE = 0
"""The source of a token that the path itself makes."""

Row = dict[int, int]
"""Where a token may come from: a token before the path, by how many groups it grows older (bit
k + 2: by k groups), or `MADE`, by its ages at the end of the path."""


class Ageing(NamedTuple):
    """What paths do: how many groups they may commit, and which tokens they make or forward; others just grow older."""

    groups: int
    rows: dict[int, Row]

    def row(self, value: int) -> Row:
        """Where a token at the end of the path comes from."""
        found = self.rows.get(value)
        return {value: self.groups} if found is None else found


UNAGED = Ageing(NEWEST, {})
NO_PATH = Ageing(0, {})


@dataclass(eq=False)
class PossibleAges(Semiring[Ageing]):
    """The domain: the possible ages of the tokens in `tracked`; all above `oldest` are one. `called` says how many
    groups a call commits at least (no more are counted at run time), `foreign` is the age of a token from
    elsewhere, `live` has the tokens that the blocks of a frame see from those before them."""

    tracked: set[int]
    queue: Queue
    called: Callable[[Any], int]
    foreign: int
    oldest: int
    live: Callable[[Frame], dict[Node, set[int]]]
    unit: Ageing = UNAGED
    never: Ageing = NO_PATH
    outside: Ageing = UNAGED
    has_values = True

    def start(self, root: Item) -> Ageing:
        arguments = [a for frame in root.frames[:1] for a in frame.entry.arguments.values()]
        return Ageing(NEWEST, self._made(arguments, self.foreign))

    def over(self, event: Any) -> Ageing:
        """Commits make every token older; other ops may make tokens."""
        if event.kind == "wait":
            return self.unit
        if isinstance(event, Item):
            mine = event.queue == self.queue
            groups, ages = int(mine), NEWEST if mine else NONE
            if event.kind == "call":
                groups, ages = self.called(event.op), self.foreign
            most = self._bounded(NEWEST << min(groups, self.oldest + 4))
            return Ageing(most, self._made(event.results.values(), ages))
        if event.sources:
            return Ageing(NEWEST, {event.number: dict.fromkeys(event.sources, NEWEST)})
        ages = OPEN if event.kind == "copy" else self.foreign
        return Ageing(NEWEST, self._made([event.number], ages))

    def _made(self, values: Iterable[int], ages: int) -> dict[int, Row]:
        return {value: {MADE: ages} for value in values if value in self.tracked}

    def then(self, first: Ageing, later: Ageing) -> Ageing:
        """Tokens of the first path grow older in the later one, or are forwarded by it."""
        if later == self.unit or first == self.never:
            return first
        if first == self.unit or later == self.never:
            return later
        rows = {}
        # Many tokens have the same ages.
        grown: dict[int, int] = {}
        for value, row in first.rows.items():
            if value not in later.rows:
                rows[value] = row if later.groups == NEWEST else {}
                for source, ages in row.items() if later.groups != NEWEST else ():
                    if ages not in grown:
                        grown[ages] = self._all_older(ages, later.groups)
                    rows[value][source] = grown[ages]
        for value, row in later.rows.items():
            made = rows[value] = {MADE: row[MADE]} if MADE in row else {}
            for middle, more in row.items():
                for source, ages in first.row(middle).items() if middle != MADE else ():
                    made[source] = made.get(source, 0) | self._all_older(ages, more)
        return Ageing(self._all_older(first.groups, later.groups), rows)

    def join(self, first: Ageing, second: Ageing) -> Ageing:
        if self.never in (first, second):
            return second if first == self.never else first
        rows: dict[int, Row] = {}
        for value in first.rows.keys() | second.rows.keys():
            row = rows[value] = first.row(value)
            other = second.row(value)
            if row != other:
                row = rows[value] = dict(row)
                for source, ages in other.items():
                    row[source] = row.get(source, 0) | ages
        return Ageing(first.groups | second.groups, rows)

    def forward(self, sources: dict[int, int]) -> Ageing:
        """A token is as old as the one that it is."""
        tracked = self.tracked
        return Ageing(
            NEWEST,
            {to: {of: NEWEST} for to, of in sources.items() if to in tracked or of in tracked},
        )

    def take(self, worth: Ageing, sources: dict[int, int]) -> Ageing:
        """Nothing else is seen outside."""
        return Ageing(worth.groups, {to: worth.row(of) for to, of in sources.items()})

    def along(self, edge: Edge) -> dict[int, int]:
        """All that is alive goes on."""
        live = self.live(edge.target.frame).get(edge.target, set())
        return {value: value for value in live & self.tracked} | super().along(edge)

    def is_apart(self, item: Item) -> bool:
        """Tokens are followed where counters can be carried along."""
        return not item.row.carries

    def past(self, item: Item, through: list[Ageing]) -> Ageing:
        """A token from there was committed no later than here."""
        return Ageing(NEWEST, self._made(item.results.values(), self.foreign))

    def ages(self, here: Ageing, values: Iterable[int]) -> int:
        """The ages that some tokens may have where all paths from the start are worth `here`."""
        return reduce(or_, (here.row(value).get(MADE, 0) for value in values), 0)

    def _all_older(self, ages: int, groups: int) -> int:
        """What ages may become while one of some numbers of groups is committed."""
        few, many = sorted((ages & ~NONE, groups), key=int.bit_count)
        found = 0
        while few:
            lowest = few & -few
            found |= many * lowest
            few ^= lowest
        return self._bounded(found // NEWEST) | (ages & NONE)

    def _bounded(self, ages: int) -> int:
        """All above the oldest are one."""
        ceiling = 1 << (self.oldest + 3)
        return ages if ages < ceiling else (ages & (ceiling - 1)) | (ceiling >> 1)


MOST_CONSTANTS = 64


def waits_with_count_operands(waits: list[Item]) -> list[tuple[Item, Value]]:
    """The waits whose count is an operand; raises CountError (tokens-and-count) for one that has tokens as well."""
    found = []
    for item in waits:
        count = count_operand(item.op)
        if count is None:
            continue
        if tokens_of(item.op):
            why = f"'{item.op.name}' has tokens and a count, which would have to agree"
            advice = "name the groups by tokens, or give a count"
            raise CountError(why, code="tokens-and-count", at=item.op, advice=advice)
        found.append((item, count))
    return found


def make_counts_constant(waits: list[tuple[Item, Value]], session: Session) -> None:
    """Replace each wait by those for the constants that its count can be."""
    for item, count in waits:
        counts = possible_counts(count, item.queue, item.op)
        if counts is None:
            session.diagnostics.remark(
                "nothing is known about the queue of this wait, so it waits for all groups"
                if item.queue is None
                else "nothing is known about this count, so the wait is for all groups",
                code="dynamic-queue" if item.queue is None else "dynamic-count",
                at=item.op,
            )
        # An operand before the count is the queue.
        make = _waits_like(item.op, item.op.name, list(item.op.operands)[:-1])
        wait_for_one_of(item.op, count, counts or {0: 0}, make)


def possible_counts(count: Value, queue: Queue | None, wait: Operation) -> dict[int, int] | None:
    """What a wait may leave in flight, for each value of its count; None: not known."""
    values = None if queue is None else possible_constants(count)
    if values is None:
        return None
    largest = largest_count(queue, wait)
    return {value: max(0, min(largest, value)) for value in values}


def wait_for_one_of(wait: Operation, number: Value, counts: dict[int, int], make_wait: Any) -> None:
    """Put waits in the place of one whose count is `number`; `make_wait(count, ip)` makes each."""
    if len(set(counts.values())) == 1:
        make_wait(next(iter(counts.values())), before(wait))
    else:
        cases = [value for value, count in counts.items() if count > 0]
        switch_over_counts(number, cases, 0, wait, lambda n, ip: make_wait(counts.get(n, 0), ip))
    wait.erase()


def _waits_like(
    wait: Operation, name: str, operands: Sequence[Value]
) -> Callable[[int, Any], None]:
    """Makes waits of this name and with these operands like a wait, with a count that is an attribute."""
    kept, loc = attributes_of(wait), wait.location
    kept.pop(wait_rule(wait).count, None)
    return lambda count, ip: set_count(create(name, operands, (), kept, ip=ip, loc=loc), count)


def possible_constants(value: Value) -> list[int] | None:
    """All values that an integer can have, in order; None if they are not known, or too many."""
    arithmetic = Arithmetic()
    found: set[int] = set()

    def sources(here: Value) -> Sequence[Value]:
        known = origins(here)
        return known.values if known.complete else ()

    for here in reached([value], sources):
        if sources(here):
            continue
        constant = constant_value(here)
        low, high = arithmetic.value_range(here) if constant is None else (constant, constant)
        if low is None or high is None or high - low >= MOST_CONSTANTS:
            return None
        found.update(range(low, high + 1))
    return sorted(found) if len(found) <= MOST_CONSTANTS else None


def switch_over_counts(
    number: Value,
    cases: Sequence[int],
    otherwise: int,
    at: Operation,
    make_wait: Callable[[int, Any], object],
) -> None:
    """Before `at`: where `number` is one of `cases`, wait with that count, else with `otherwise`."""
    given = {"cases": ir.DenseI64ArrayAttr.get(list(cases), at.context)}
    ip, loc, count = before(at), at.location, 1 + len(cases)
    switch = create("scf.index_switch", [number], (), given, regions=count, ip=ip, loc=loc)
    # The default region comes first.
    for region, count in zip(switch.regions, [otherwise, *cases], strict=True):
        block = region.blocks.append()
        end = create("scf.yield", ip=ir.InsertionPoint(block), loc=at.location)
        make_wait(count, before(end))
