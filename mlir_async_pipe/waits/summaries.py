"""Summarises blocks, regions and functions: how groups and tokens pass through them.

    straight line    each commit adds 1 to the cost of every token in sight
    branch           elementwise minimum
    for, T trips     A^T on the carried values; any number of trips: A*, the star
    while            region 0, and while its condition holds region 1 and region 0 again
    blocks           Dijkstra's search on (block, token value)
    call             what the callee's summary says

Everything is made once for each assumption on the correlated conditions that a frame sees.
Frames are summarised inner before outer by the caller, so nothing here recurses.

This is the min-plus algebra (`minplus`), but no domain of `flow.solver`, for two reasons. A worth would hold a row
for every token: in a line of n tokens n rows at each of n points, where here a row is made for what is read. And
what is summarised depends on the truth of the correlated conditions outside. Where witnesses are wanted, costs are
paths (`witness_paths`): each says what it passes as it is added.

Regions with several blocks are searched. A *place* is a block together with one truth value for each
condition that the region defines; entering the block that defines a condition chooses its truth anew.
A *state* is a place and a token value at its start. Steps cost the groups that the block commits, so
the search settles every state once, loops and irreducible graphs included.

States are numbers, steps are lists by state, and states of one cost wait in one list, so
that a settled state costs no comparison of tuples (docs/speed.md).
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mlir_async_pipe.facts.flow.conditions import Assumption, Conditions
from mlir_async_pipe.facts.flow.flow_graph import Edge, Frame, Item, Node
from mlir_async_pipe.waits.correlation import Key, Scopes
from mlir_async_pipe.waits.minplus import (
    CEILING,
    CROSSING,
    FOREVER,
    FRESH,
    FRESH_ROW,
    NO_ROW,
    Columns,
    Row,
    State,
    Targets,
    compose,
    iterate_up_to,
    least,
    once,
    power,
    resolved,
    shifted,
    targets,
)
from mlir_async_pipe.waits.token_values import Def, Event, Events
from mlir_async_pipe.waits.witness_paths import Step, step, stretch


@dataclass(eq=False, slots=True)
class Passage:
    """One pass through a frame, or through an op. `cost` is the least number of groups on the path (FOREVER: no
    path through); `results` are the rows of the values forwarded, by result number."""

    cost: int
    results: dict[int, Row]


@dataclass(eq=False, slots=True)
class Line:
    """The events of a block under an assumption: `before[i]` is what the block has committed before event i, or at
    its end. `commits` are the numbers of those that a path names, None where no path is wanted."""

    events: Sequence[Event]
    assumption: Assumption
    commits: list[int] | None
    before: list[int] = field(default_factory=list)

    def between(self, first: int, last: int) -> int:
        """What is committed from one event up to another one."""
        groups = self.before[last] - self.before[first]
        if self.commits is not None:
            steps = bisect_left(self.commits, last) - bisect_left(self.commits, first)
            if steps:
                return stretch(groups, steps, (self, first, last))
        return groups


@dataclass(eq=False, slots=True)
class BlockPassage:
    """One pass through a block under one assumption. `cost` is what it commits (FOREVER: its end is not reached).
    `defined` are the rows of the values that events define, with the number of the next event. `waits` are those
    that are reached, with their numbers. `reads` are the rows of the values that other items read."""

    line: Line
    cost: int = 0
    defined: dict[int, tuple[Row, int]] = field(default_factory=dict)
    waits: list[tuple[Item, int]] = field(default_factory=list)
    reads: dict[Item, dict[int, Row]] = field(default_factory=dict)

    def at(self, value: int, number: int) -> Row:
        """The row of a value before an event."""
        found = self.defined.get(value)
        if found is None:
            return {value: self.line.between(0, number)}
        row, since = found
        return shifted(row, self.line.between(since, number))

    def end(self, value: int) -> Row:
        return {} if self.cost >= FOREVER else self.at(value, len(self.line.events))


@dataclass(eq=False)
class LoopSlots:
    """The slots of a loop: `arguments` by carried number with their `start` values, and the values `kept` from
    outside. `columns` is one iteration (see `minplus`), and `last` one after which none follows: a path says so."""

    columns: Columns
    last: Columns
    arguments: dict[int, int]
    start: dict[int, int]
    kept: set[int]

    @cached_property
    def steady(self) -> State:
        """The least costs of groups that the loop itself commits, after any number of iterations."""
        return self.up_to({FRESH: 0}, None)

    @cached_property
    def _targets(self) -> Targets:
        return targets(self.columns)

    def up_to(self, state: State, iterations: int | None) -> State:
        """The cheapest state over 0 to so many iterations (None: any number)."""
        return iterate_up_to(self._targets, state, iterations)

    def state(self, here: dict[int, int]) -> State:
        """The slots as they stand before the loop, where values have the costs `here`."""
        found = {value: here[value] for value in self.kept if value in here}
        found |= {slot: here[value] for slot, value in self.start.items() if value in here}
        return {**found, FRESH: 0}

    def states(self, reads: dict[int, Row]) -> dict[int, State]:
        """The slots as they stand before the loop, for each source that `reads` names."""
        found: dict[int, State] = {FRESH: {FRESH: 0}}
        for slot, value in (*zip(self.kept, self.kept, strict=True), *self.start.items()):
            for source, cost in reads.get(value, NO_ROW).items():
                found.setdefault(source, {})[slot] = cost
        return found


CROSSING_ROW: Row = {FRESH: CROSSING}

# How many of the last iterations of a long loop a path shows one by one.
SHOWN_ITERATIONS = 16


class Summaries:
    """All summaries of one queue under the conditions in `tracked`; with `witnesses` all costs are paths."""

    def __init__(
        self, events: Events, conditions: Conditions, tracked: frozenset[int], witnesses: bool
    ) -> None:
        self.events = events
        self.conditions = conditions
        self.scopes = Scopes(conditions, tracked)
        self.witnesses = witnesses
        # A token from elsewhere was committed no later than here. Where marks are counted by
        # function body its own mark is not among them, so the first one seen here must
        # complete: one group less may stay in flight.
        self.foreign = -1 if events.queue.scope == "function" else 0
        self.passages: dict[tuple[Frame, Key], Passage] = {}
        self._loops: dict[tuple[Item, tuple[Key, ...]], LoopSlots] = {}
        self._blocks: dict[tuple[Node, Key], BlockPassage] = {}

    # -- what costs say ------------------------------------------------------------------

    def said(self, groups: int, what: str, op: Any, reason: str | None = None) -> int:
        """One step of a path with its groups; where no path is wanted, the groups."""
        return step(groups, what, op, reason) if self.witnesses else groups

    def origin(self, groups: int, what: str, op: Any, reason: str | None = None) -> int:
        """The step that a path begins with, which shows no groups."""
        return step(groups, what, op, reason, 0) if self.witnesses else groups

    def from_elsewhere(self, what: str, op: Any, reason: str | None = "unknown-origin") -> int:
        """The cost of a token that was committed nobody knows where."""
        return self.origin(self.foreign, what, op, "function-scope" if self.foreign else reason)

    def taken_edges(self, node: Node, assumption: Assumption) -> Sequence[Edge]:
        """The edges that may be taken from the end of a block under an assumption."""
        if node.condition is None:
            return node.edges
        literal = self.conditions.literal(node.condition, node, node)
        value = literal if isinstance(literal, bool) else literal.under(assumption)
        return node.edges if value is None else [edge for edge in node.edges if edge.truth == value]

    # -- one block ---------------------------------------------------------------------

    def block(self, node: Node, assumption: Assumption) -> BlockPassage:
        """The passage through one block; nested frames are summarised already."""
        key = (node, self.scopes.seen(node.frame, assumption))
        found = self._blocks.get(key)
        if found is None:
            found = self._blocks[key] = self._pass_block(node, assumption)
        return found

    def _pass_block(self, node: Node, assumption: Assumption) -> BlockPassage:
        events = self.events.of.get(node, ())
        commits = self.events.commits(node) if self.witnesses else None
        line = Line(events, assumption, commits)
        passage = BlockPassage(line)
        before, defined, waits = line.before, passage.defined, passage.waits
        queue = self.events.queue
        cost = 0
        for number, event in enumerate(events):
            before.append(cost)
            if not isinstance(event, Item):
                defined[event.number] = self._define(event, passage, number), number + 1
            elif event.kind == "commit":
                mine = event.queue is queue
                cost += mine
                if event.results:
                    row = FRESH_ROW if mine else CROSSING_ROW
                    if commits is not None:
                        row = {FRESH: self._commit(event, row[FRESH])}
                    defined[event.results[0]] = row, number + 1
            elif event.kind == "wait":
                waits.append((event, number))
            else:
                at = passage.at
                # What an op with frames, or a call, reads where it stands.
                read = {*event.operands.values()}.union(*(f.captured for f in event.frames))
                passage.reads[event] = {value: at(value, number) for value in read}
                through = self._through(event, passage)
                cost += int(through.cost)
                if cost >= FOREVER:
                    break
                for place, value in event.results.items():
                    defined[value] = through.results.get(place, NO_ROW), number + 1
        before.append(cost)
        passage.cost = min(cost, FOREVER)
        return passage

    def _commit(self, item: Item, cost: int) -> int:
        if item.queue == self.events.queue:
            return self.origin(cost, "the awaited group is committed", item.op)
        if item.queue is None:
            what, reason = "the group is committed to an unknown queue", "dynamic-queue"
        else:
            what, reason = "the group is committed to another queue", "queue-mismatch"
        return self.origin(cost, what, item.op, reason)

    def _define(self, found: Def, passage: BlockPassage, number: int) -> Row:
        if found.kind == "cast":
            return passage.at(found.sources[0], number)
        if found.kind == "copy":
            # The copy belongs to the next group, so one group less has followed its group.
            return {FRESH: self.origin(-1, "the awaited copy is issued", found.op)}
        if found.kind == "unknown":
            return {FRESH: self.from_elsewhere("the token comes from '{}'", found.op)}
        literal = self.conditions.literal(found.condition, found, found.node)
        value = literal if isinstance(literal, bool) else literal.under(passage.line.assumption)
        sides = (True, False) if value is None else (value,)
        return least(
            shifted(
                passage.at(found.sources[0 if side else 1], number),
                self.said(0, f"'{{}}' takes its {str(side).lower()} value", found.op),
            )
            for side in sides
        )

    # -- one op with frames, or a call -------------------------------------------------

    def passage(self, frame: Frame, assumption: Assumption) -> Passage:
        """The summary of a frame; a region without blocks is passed at no cost."""
        if not frame.nodes:
            return Passage(0, {})
        return self.passages[frame, self.scopes.key(frame, assumption)]

    def _through(self, item: Item, block: BlockPassage) -> Passage:
        """How groups and tokens pass through an item, in the terms of the block around it."""
        reads, assumption = block.reads[item], block.line.assumption
        if item.kind == "call":
            return self._through_call(item, reads)
        if item.is_boundary:
            foreign = self.origin(
                self.foreign, "the token comes from '{}'", item.op, "unknown-origin"
            )
            return Passage(0, {number: {FRESH: foreign} for number in item.results})
        if item.row.flow == "for":
            return self._through_for(item, block)
        if item.row.flow == "while":
            return self._through_while(item, block)
        frames = self.conditions.frames(item, assumption)
        passages = [(self.into(item, frame), self.passage(frame, assumption)) for frame in frames]

        def result(number: int) -> Row:
            rows = ((into, passage.results.get(number, NO_ROW)) for into, passage in passages)
            return least(compose(_after(into, row), reads) for into, row in rows)

        results = {number: result(number) for number in item.results}
        return Passage(min(passage.cost for _, passage in passages), results)

    def into(self, item: Item, frame: Frame) -> int:
        """The step into one region of a branch."""
        if not self.witnesses or item.row.flow != "branch":
            return 0
        side = ("then", "else")[frame.number] if len(item.frames) == 2 else str(frame.number)
        others = [node for other in item.frames if other is not frame for node in other.nodes]
        reason = "conditional-commit" if any(map(self.events.commits, others)) else None
        return self.said(0, f"'{{}}' runs its region '{side}'", item.op, reason)

    def _through_call(self, item: Item, reads: dict[int, Row]) -> Passage:
        callee, op = item.callee, item.op
        found = None
        if callee is not None and item not in self.events.recursive:
            found = self.passages.get((callee.frames[0], ()))
        if callee is None or found is None:
            why = "unknown-call" if callee is None else "recursive-call"
            foreign = self.from_elsewhere("the token comes from a call", op, why)
            return Passage(0, {number: {FRESH: foreign} for number in item.results})
        given = {
            argument: reads[item.operands[number]]
            for number, argument in callee.frames[0].entry.arguments.items()
            if number in item.operands
        }
        own = self.events.queue.scope == "thread"
        results = {
            number: self._returned(op, found.results.get(number, NO_ROW), given, own)
            for number in item.results
        }
        return Passage(int(found.cost) if own else 0, results)

    def _returned(self, op: object, row: Row, given: dict[int, Row], own: bool) -> Row:
        """A token that a callee hands back, of either's groups. `own`: the marks of a callee count here."""
        back = "the callee hands the token back"
        rows = [
            shifted(given[source], self.said(int(cost) if own else 0, back, op))
            for source, cost in row.items()
            if source != FRESH and (own or source in given)
        ]
        if FRESH in row or not (own or rows):
            what = "the awaited group is committed by the callee"
            if own:
                made = self.origin(0, what, op)
                made += self.said(int(row[FRESH]), "after it the callee commits", op)
            else:
                made = self.from_elsewhere(what, op, None)
            rows.append({FRESH: made})
        return least(rows)

    # -- loops ---------------------------------------------------------------------------

    def _through_for(self, item: Item, block: BlockPassage) -> Passage:
        trips = item.trips
        loop = self.loop(item, block.line.assumption)
        states = loop.states(block.reads[item])
        if trips is None:
            states = self._any_number(item, loop, states)
        else:
            states = self._exactly(item, loop, states, trips)
        results = {
            number: {source: state[slot] for source, state in states.items() if slot in state}
            for number, slot in loop.arguments.items()
            if number in item.results
        }
        body = self.passage(item.frames[0], block.line.assumption)
        return Passage(_times(trips or 0, body.cost), results)

    def _any_number(
        self, item: Item, loop: LoopSlots, states: dict[int, State], most: int | None = None
    ) -> dict[int, State]:
        """The cheapest states after any number of iterations up to `most`."""
        passed = {source: loop.up_to(state, most) for source, state in states.items()}
        if not self.witnesses:
            return passed
        reason = "zero-trip-loop" if item in self.events.committing else None
        never = self.said(0, "'{}' does not run at all", item.op, reason)
        for source, state in passed.items():
            for slot, cost in state.items():
                # The very path from the start: no iteration is on it.
                if slot != FRESH and cost is states[source].get(slot):
                    state[slot] = cost + never
        return passed

    def _exactly(
        self, item: Item, loop: LoopSlots, states: dict[int, State], trips: int
    ) -> dict[int, State]:
        """The states after exactly so many iterations; a path shows the last ones."""
        if trips == 0:
            none = self.said(0, "'{}' has no iteration", item.op)
            return {
                source: {slot: cost + none if slot else cost for slot, cost in state.items()}
                for source, state in states.items()
            }
        if not self.witnesses:
            columns = power(loop.columns, trips)
            return {source: once(columns, state) for source, state in states.items()}
        if trips > SHOWN_ITERATIONS:
            states = self._skip(item, loop, states, trips - SHOWN_ITERATIONS)
        for _ in range(min(trips, SHOWN_ITERATIONS) - 1):
            states = {source: once(loop.columns, state) for source, state in states.items()}
        return {source: once(loop.last, state) for source, state in states.items()}

    def _skip(
        self, item: Item, loop: LoopSlots, states: dict[int, State], iterations: int
    ) -> dict[int, State]:
        """The states after so many iterations, which are one step of their paths."""
        plain = {
            target: {source: int(cost) for source, cost in column.items()}
            for target, column in loop.columns.items()
        }
        columns = power(plain, iterations)
        what = f"{iterations} more iterations of '{{}}'"
        made = self.origin(0, "the awaited group is committed in one of them", item.op)
        found: dict[int, State] = {}
        for outside, state in states.items():
            after = found[outside] = {FRESH: 0} if FRESH in state else {}
            for slot, column in columns.items():
                costs = {s: int(cost) + column[s] for s, cost in state.items() if s in column}
                if slot != FRESH and costs:
                    source = min(costs, key=costs.__getitem__)
                    before = made if source == FRESH else state[source]
                    after[slot] = before + self.said(column[source], what, item.op)
        return found

    def _through_while(self, item: Item, block: BlockPassage) -> Passage:
        goes_on = self.goes_on(item, block.line.assumption)
        if goes_on is True:
            return Passage(FOREVER, {})
        before = self.before_condition(item, block.line.assumption, False)
        loop = self.loop(item, block.line.assumption)
        most = None if goes_on is None else 0
        states = self._any_number(item, loop, loop.states(block.reads[item]), most)
        results: dict[int, Row] = {}
        for source, state in states.items():
            for number in item.results:
                cost = resolved(before.results.get(number, NO_ROW), state)
                if cost is not None:
                    results.setdefault(number, {})[source] = cost
        return Passage(before.cost, results)

    def goes_on(self, item: Item, assumption: Assumption) -> bool | None:
        """What the condition of an scf.while is known to be: always, never, or open (None)."""
        literal = self.conditions.while_literal(item)
        return literal if isinstance(literal, bool) else literal.under(assumption)

    def before_condition(self, item: Item, assumption: Assumption, holds: bool) -> Passage:
        """The passage through the first region of an scf.while whose condition then holds, or
        does not; a condition that the region itself computes decides in it as well."""
        literal = self.conditions.while_literal(item)
        choices = self.scopes.choices(item.frames[0], assumption)
        if not isinstance(literal, bool):
            choices = [choice for choice in choices if literal.under(choice) in (None, holds)]
        return self._through_block(item.frames[0], choices)

    def loop(self, item: Item, assumption: Assumption) -> LoopSlots:
        """The carried values of a loop, and how they move in one iteration."""
        key = item, tuple([self.scopes.key(frame, assumption) for frame in item.frames])
        if key not in self._loops:
            self._loops[key] = self._make_loop(item, assumption)
        return self._loops[key]

    def _make_loop(self, item: Item, assumption: Assumption) -> LoopSlots:
        first = item.frames[0]
        offset = first.first_carried
        arguments = {place - offset: value for place, value in first.nodes[0].arguments.items()}
        given = item.operands
        start = {value: given[n] for n, value in arguments.items() if n in given}
        kept = first.captured
        if item.row.flow == "for":
            body = self.passage(first, assumption)
            cost, moved = body.cost, body.results
        elif self.goes_on(item, assumption) is False:
            cost, moved = FOREVER, {}
        else:
            kept = kept | item.frames[1].captured
            cost, moved = self._both_regions(item, assumption, kept)
        last: Columns = {}
        columns: Columns = {}
        if cost < FOREVER:
            over = self.said(int(cost), "one iteration of '{}' passes", item.op)
            last = {value: {value: over} for value in kept}
            for number, value in arguments.items():
                last[value] = moved.get(number, NO_ROW)
            again = self.said(0, "next iteration of '{}'", item.op)
            columns = {value: shifted(row, again) for value, row in last.items()} if again else last
            last[FRESH] = columns[FRESH] = FRESH_ROW
        return LoopSlots(columns, last, arguments, start, kept)

    def _both_regions(
        self, item: Item, assumption: Assumption, kept: set[int]
    ) -> tuple[int, dict[int, Row]]:
        """One iteration of an scf.while: its cost, and the rows of what its end forwards."""
        second = item.frames[1]
        body = self.before_condition(item, assumption, True)
        after = self.passage(second, assumption)
        holds = self.said(int(body.cost), "the condition holds", item.op)
        inside = {value: {value: holds} for value in kept} | {
            value: body.results.get(place, NO_ROW)
            for place, value in second.entry.arguments.items()
        }
        moved = {number: compose(row, inside) for number, row in after.results.items()}
        return min(FOREVER, body.cost + after.cost), moved

    # -- one frame ---------------------------------------------------------------------

    def summarise(self, frame: Frame) -> None:
        """Make the passages of a frame whose inner frames are summarised. What passes through a function matters to
        its callers only."""
        if frame.item.is_boundary and frame.item not in self.events.called:
            return
        for key in self.scopes.keys(frame):
            assumption = self.scopes.assumption(frame, key)
            if len(frame.nodes) == 1:
                passage = self._through_block(frame, self.scopes.choices(frame, assumption))
            else:
                passage = searched(self, frame, assumption)
            self.passages[frame, key] = passage

    def _through_block(self, frame: Frame, choices: Sequence[Assumption]) -> Passage:
        """The passage through a frame of one block, under any of some assumptions."""
        node = frame.entry
        if not node.exits:
            return Passage(FOREVER, {})
        if len(choices) == 1:
            block = self.block(node, choices[0])
            return Passage(block.cost, {n: block.end(value) for n, value in node.leaving.items()})
        passages = [self.block(node, choice) for choice in choices]
        leaving = node.leaving.items()
        ends = {n: least(passage.end(value) for passage in passages) for n, value in leaving}
        return Passage(min(passage.cost for passage in passages), ends)

    # -- what a path passes in a block ---------------------------------------------------

    def passed(self, part: tuple[Line, int, int]) -> Iterator[Step]:
        """The steps between two events of a block, the youngest first."""
        line, first, last = part
        commits = line.commits
        assert commits is not None
        for number in reversed(commits[bisect_left(commits, first) : bisect_left(commits, last)]):
            item = line.events[number]
            assert isinstance(item, Item)
            groups = line.before[number + 1] - line.before[number]
            if item.kind == "commit":
                yield "a younger group is committed", item.op, None, 1
            elif item.kind == "call" and item.callee is None:
                yield "a call that may commit groups", item.op, "unknown-call", groups
            elif item.kind == "call" and item in self.events.recursive:
                yield "a call in a cycle of calls", item.op, "recursive-call", groups
            elif item.kind == "call":
                yield "a call", item.op, None, groups
            elif item.is_boundary:
                yield "'{}' is passed: 0 groups", item.op, "crosses-parallel", 0
            else:
                reason = self._why_so_few(item, line.assumption, groups)
                yield "past '{}'", item.op, reason, groups

    def _why_so_few(self, item: Item, assumption: Assumption, groups: int) -> str | None:
        """Why an op with regions may commit no more groups."""
        if item.row.flow == "while" or (item.row.flow == "for" and item.trips is None):
            return "zero-trip-loop"
        costs = [self.passage(frame, assumption).cost for frame in item.frames]
        if item.row.flow == "for":
            return "conditional-commit" if item.trips and costs[0] == 0 else None
        return "conditional-commit" if groups < max(costs) or groups == 0 else None


def _after(earlier: int, row: Row) -> Row:
    """The row of a path that something comes before."""
    return {source: earlier + cost for source, cost in row.items()} if earlier else row


def _times(trips: int, cost: int) -> int:
    if trips == 0 or cost == 0:
        return 0
    return FOREVER if cost >= FOREVER else min(CEILING, trips * int(cost))


PASSING = -1
"""A value that is there from the entry on: its cost is that of the path through."""

Place = tuple[Node, tuple[bool, ...]]
Following = tuple[int, int]
"""(state that follows, cost)"""
Move = tuple[int, Row]
"""(value at the start of the next block, its row from the start of this block)"""


class BlockGraph:
    """The states of a frame under an assumption; steps are made as a search comes to them. `states` maps each place
    that was met to its states by value, `place_of` goes back. The values in `always` are looked at in all blocks."""

    def __init__(
        self,
        summaries: Summaries,
        frame: Frame,
        assumption: Assumption,
        always: tuple[int, ...] = (),
    ) -> None:
        self.summaries = summaries
        self.frame = frame
        self.assumption = assumption
        self.states: dict[Place, dict[int, int]] = {}
        self.place_of: list[Place] = []
        self._steps: list[list[Following] | None] = []
        self._expanded: set[Place] = set()
        self._always = always
        self._live = summaries.events.values.live_in(frame)
        self._local = summaries.scopes.local.get(frame, ())

    def search(self, start: dict[int, int]) -> dict[int, int]:
        """The least cost of each state that values with the costs `start` at the entry reach."""
        cost_of: dict[int, int] = {}
        waiting: dict[int, list[int]] = defaultdict(list)
        for place in self._entered(self.frame.entry, (False,) * len(self._local)):
            states = self.states.setdefault(place, {})
            for value, cost in start.items():
                state = self._state(place, states, value)
                cost_of[state] = cost
                waiting[cost].append(state)
        costs = sorted(waiting)
        steps = self._steps
        while costs:
            cost = heapq.heappop(costs)
            # Steps that cost nothing add to the list while it is walked.
            for state in waiting[cost]:
                here = cost_of[state]
                if here != cost:
                    continue
                following = steps[state]
                if following is None:
                    following = self._expand(state)
                for target, more in following:
                    reached = here + more
                    if reached < cost_of.get(target, FOREVER):
                        cost_of[target] = reached
                        if reached not in waiting:
                            heapq.heappush(costs, reached)
                        waiting[reached].append(target)
            del waiting[cost]
        self._exits = [place for place in self.states if place[0].exits]
        return cost_of

    def _state(self, place: Place, states: dict[int, int], value: int) -> int:
        """The number of a state among those of a place, made if it is new."""
        state = states.get(value)
        if state is None:
            state = states[value] = len(self.place_of)
            self.place_of.append(place)
            self._steps.append(None)
        return state

    def _expand(self, state: int) -> list[Following]:
        """Make the steps from all states of a place; those of the given one."""
        place = self.place_of[state]
        if place not in self._expanded:
            self._expanded.add(place)
            node, truths = place
            here = self.under(place)
            block = self.summaries.block(node, here)
            if block.cost < FOREVER:
                for edge in self.summaries.taken_edges(node, here):
                    moves = self._moves(node, edge, block)
                    for target in self._entered(edge.target, truths):
                        self._add_steps(place, target, moves)
        found = self._steps[state]
        if found is None:
            found = self._steps[state] = []
        return found

    def _moves(self, node: Node, edge: Edge, block: BlockPassage) -> list[Move]:
        summaries, target, op = self.summaries, edge.target, self.frame.item.op
        through = summaries.said(0, f"through block {node.number}", op)
        moves: list[Move] = [(FRESH, FRESH_ROW)]
        for value in (*self._always, *self._live.get(target, ())):
            moves.append((value, shifted(block.end(value), through)))
        for number, argument in target.arguments.items():
            passed = edge.values.get(number)
            if passed is None:
                row = {FRESH: summaries.from_elsewhere("the token is an argument of a block", op)}
            else:
                row = block.end(passed)
            moves.append((argument, shifted(row, through)))
        return moves

    def _add_steps(self, place: Place, target: Place, moves: list[Move]) -> None:
        states, there = self.states[place], self.states.setdefault(target, {})
        steps = self._steps
        for moved, row in moves:
            after = self._state(target, there, moved)
            for source, cost in row.items():
                before = self._state(place, states, source)
                known = steps[before]
                if known is None:
                    steps[before] = [(after, cost)]
                else:
                    known.append((after, cost))

    def _entered(self, node: Node, truths: tuple[bool, ...]) -> Sequence[Place]:
        """The places that entering a block leads to: its own conditions get either truth."""
        if not self._local:
            return ((node, ()),)
        conditions = self.summaries.conditions.all
        options = [
            (False, True) if conditions[number].home is node else (value,)
            for number, value in zip(self._local, truths, strict=True)
        ]
        return [(node, chosen) for chosen in itertools.product(*options)]

    def under(self, place: Place) -> Assumption:
        if not self._local:
            return self.assumption
        return {**self.assumption, **dict(zip(self._local, place[1], strict=True))}

    def forwarded(self, cost_of: dict[int, int], number: int) -> int:
        """The least cost of what the exits forward as operand `number`, after a search."""
        best = FOREVER
        for place in self._exits:
            value = place[0].leaving.get(number)
            if value is not None:
                states = self.states[place]
                end = self.summaries.block(place[0], self.under(place)).end(value)
                for middle, more in end.items():
                    state = states.get(middle)
                    if state in cost_of:
                        best = min(best, cost_of[state] + more)
        return best

    def cost(self) -> int:
        """The least number of groups on paths through the frame."""
        cost_of = self.search({PASSING: 0})
        ends = (place for place in self._exits if self.states[place].get(PASSING) in cost_of)
        block = self.summaries.block
        costs = (
            cost_of[self.states[end][PASSING]] + block(end[0], self.under(end)).cost for end in ends
        )
        return min(costs, default=FOREVER)


def searched(summaries: Summaries, frame: Frame, assumption: Assumption) -> Passage:
    """The summary of a frame with several blocks: a search from each value at its start."""
    graph = BlockGraph(summaries, frame, assumption, (PASSING,))
    results: dict[int, Row] = {
        number: {} for node in frame.nodes if node.exits for number in node.leaving
    }
    for source in (*frame.captured, *frame.entry.arguments.values(), FRESH):
        cost_of = graph.search({source: 0})
        for number, best in results.items():
            cost = graph.forwarded(cost_of, number)
            if cost < FOREVER:
                best[source] = cost
    return Passage(min(graph.cost(), FOREVER), results)


def resolved_places(
    summaries: Summaries, frame: Frame, assumption: Assumption, start: dict[int, int]
) -> Iterator[tuple[Assumption, BlockPassage, dict[int, int]]]:
    """Every reached place that reads token values: what is assumed, its passage, the costs of values at its start."""
    graph = BlockGraph(summaries, frame, assumption)
    cost_of = graph.search(start)
    for place, states in graph.states.items():
        if states.get(FRESH) in cost_of:
            under = graph.under(place)
            block = summaries.block(place[0], under)
            if block.waits or block.reads:
                costs = {
                    value: cost_of[state] for value, state in states.items() if state in cost_of
                }
                yield under, block, costs
