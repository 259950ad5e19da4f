"""Counts the waits of a module: from the IR to one `Counted` per token wait, without edits.

    Analysis(module, target)      the flow graph and token values of a module, made once
    Analysis.count()              the exact counts, with correlated conditions

    N(p, t) = min over all paths to p of the groups committed after the one that t denotes

Summaries are made inner to outer, then costs outer to inner: the first pass says what each region
does to any token; the second one carries the cost of each token value from the start of the function
to every wait, over all iterations of all loops around it. Both look at each block once. Where
witnesses are wanted the costs are paths, so the count of a wait is the path that attains it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from mlir_async_pipe.bindings.raw_ops import type_text
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.flow.conditions import Assumption, Conditions
from mlir_async_pipe.facts.flow.flow_graph import FlowGraph, Frame, Item
from mlir_async_pipe.session.diagnostics import CountError
from mlir_async_pipe.vocabulary import Queue, WaitRule, queue_of, row_of
from mlir_async_pipe.vocabulary.async_ops import NUMBER_TYPE, TOKEN_TYPE, tokens_of
from mlir_async_pipe.waits import token_values
from mlir_async_pipe.waits.correlation import MOST_CONDITIONS, Correlations, Key, batches
from mlir_async_pipe.waits.minplus import (
    CROSSING,
    FOREVER,
    FRESH,
    NO_ROW,
    Row,
    State,
    least,
    resolved,
    shifted,
)
from mlir_async_pipe.waits.summaries import BlockPassage, LoopSlots, Summaries, resolved_places
from mlir_async_pipe.waits.token_values import Events, TokenValues
from mlir_async_pipe.waits.witness_paths import Path, Witnesses, WitnessStep


@dataclass(eq=False, slots=True)
class Counted:
    """The exact count of one wait, None if no path reaches it. `solution` is where it comes from, None if the queue
    of the wait is not known. `limited`: more conditions are correlated than were followed, so the exact count may
    be larger."""

    item: Item
    count: int | None
    solution: Solution | None
    limited: bool = False


class TokenWaits:
    """The flow graph of a module with its token waits."""

    def __init__(self, module_op: Any, target: Target | None = None) -> None:
        self.graph = FlowGraph(module_op, partial(queue_of, target=target))
        self.values = TokenValues(self.graph)
        self.conditions = Conditions(self.graph)
        self.waits: list[Item] = []
        # Waits with an operand that is a number: their queue, or their count.
        self.with_numbers: list[Item] = []
        self._follow_tokens()

    def _follow_tokens(self) -> None:
        # Types are compared, since printing one takes long (docs/speed.md).
        tokens: list[Any] = []
        use = self.values.use
        for item in self.graph.waits:
            assert item.rule is not None and item.node is not None
            if item.rule.form != "token":
                continue
            operands = {}
            for number, operand in enumerate(item.op.operands):
                kind = operand.type
                if kind not in tokens:
                    # The queue or the count of an abstract wait.
                    if type_text(kind) == NUMBER_TYPE and row_of(item.op).queue == "attribute":
                        continue
                    _check_token(kind, item.op)
                    tokens.append(kind)
                operands[number] = use(operand, item.node)
            if operands:
                item.operands = operands
                self.waits.append(item)
            if len(operands) < len(item.op.operands):
                self.with_numbers.append(item)
        self.values.follow()

    def count(self, witnesses: bool = False) -> list[Counted]:
        """The exact count of every token wait, in textual order; `witnesses`: with its path."""
        counted: list[Counted] = []
        # Queues are distinguished by identity: hashing one takes as long as all else here.
        queues: dict[int, list[Item]] = {}
        for item in self.waits:
            queues.setdefault(id(item.queue), []).append(item)
        for waits in queues.values():
            queue = waits[0].queue
            if queue is None:
                counted += [Counted(item, 0, None) for item in waits]
            else:
                happening = token_values.collect(self.graph, self.values, queue, waits)
                counted += self._count_queue(happening, witnesses)
        counted.sort(key=attrgetter("item.position"))
        return counted

    def _count_queue(self, happening: token_values.Events, witnesses: bool) -> list[Counted]:
        correlations = Correlations(happening, self.conditions)
        if not correlations.any:
            solution = Solution(happening, self.conditions, witnesses=witnesses)
            count_of = solution.counts.get
            return [Counted(wait, count_of(wait), solution) for wait in happening.waits]
        counted: list[Counted] = []
        wanted = {wait: correlations.of(wait) for wait in happening.waits}
        for tracked, waits in batches(wanted):
            solution = Solution(happening, self.conditions, tracked, witnesses)
            counted += [
                Counted(w, solution.counts.get(w), solution, len(wanted[w]) > MOST_CONDITIONS)
                for w in waits
            ]
        return counted


def waits_on_tokens(op: Any) -> bool:
    """Whether a wait names its groups by tokens (else its count is its own)."""
    row = row_of(op)
    return row.wait is not None and row.wait.form == "token" and len(tokens_of(op)) > 0


def _check_token(kind: Any, op: Any) -> None:
    if type_text(kind) != TOKEN_TYPE:
        why = f"'{op.name}' waits on a value of type {kind}, which is no token"
        advice = f"wait on the {TOKEN_TYPE} that a commit returns"
        raise CountError(why, code="not-a-token", at=op, advice=advice)


Costs = dict[int, int]


class Solution:
    """The costs of all token values at the start of each frame, and the count of each wait. `counts` has no entry
    for a wait that no path reaches. A count below 0 means that the group is not committed yet on some path (-1), or
    belongs to another thread (CROSSING)."""

    def __init__(
        self,
        events: Events,
        conditions: Conditions,
        tracked: frozenset[int] = frozenset(),
        witnesses: bool = False,
    ) -> None:
        self.summaries = Summaries(events, conditions, tracked, witnesses)
        self.counts: dict[Item, int] = {}
        self._witnesses = Witnesses(self.summaries.passed)
        self._starts: dict[tuple[Frame, Key], Costs] = {}
        for root in events.roots:
            for frame in reversed(events.frames[root]):
                self.summaries.summarise(frame)
        for root in events.roots:
            for frame in filter(attrgetter("nodes"), root.frames):
                given = self.summaries.from_elsewhere("the token is an argument", root.op)
                costs = dict.fromkeys(frame.entry.arguments.values(), given)
                costs |= dict.fromkeys(frame.captured, self._crossing(root))
                self._starts[frame, ()] = {**costs, FRESH: 0}
            for frame in events.frames[root]:
                self._solve_frame(frame)

    def witness(self, wait: Item) -> tuple[str, tuple[WitnessStep, ...]]:
        """Why the count of a wait is no larger, and the path that attains it."""
        path = self.counts[wait]
        assert isinstance(path, Path)
        return self._witnesses.read(path, *(("newest-group",) if path == 0 else ()))

    def _crossing(self, item: Item) -> int:
        what = "the token comes from another thread"
        return self.summaries.origin(CROSSING, what, item.op, "crosses-parallel")

    def _solve_frame(self, frame: Frame) -> None:
        for key in self.summaries.scopes.keys(frame):
            start = self._starts.get((frame, key))
            if start is None:
                continue
            for assumption, block, costs in self._visits(frame, key, start):
                self._count_waits(block, costs)
                for item, reads in block.reads.items():
                    if item.kind == "nested":
                        self._enter_all(item, reads, assumption, costs)

    def _visits(
        self, frame: Frame, key: Key, start: Costs
    ) -> Iterator[tuple[Assumption, BlockPassage, Costs]]:
        """Every pass through a block of a frame: what is assumed there, and the costs at its start."""
        assumption = self.summaries.scopes.assumption(frame, key)
        if len(frame.nodes) == 1:
            for choice in self.summaries.scopes.choices(frame, assumption):
                yield choice, self.summaries.block(frame.entry, choice), start
        else:
            yield from resolved_places(self.summaries, frame, assumption, start)

    def _count_waits(self, block: BlockPassage, costs: Costs) -> None:
        counts = self.counts
        for item, number in block.waits:
            for value in item.operands.values():
                groups = resolved(block.at(value, number), costs)
                if groups is not None and groups < counts.get(item, FOREVER):
                    counts[item] = groups

    # -- into the regions of an op -----------------------------------------------------

    def _enter_all(
        self, item: Item, reads: dict[int, Row], assumption: Assumption, costs: Costs
    ) -> None:
        found = {value: resolved(row, costs) for value, row in reads.items()}
        here = {value: cost for value, cost in found.items() if cost is not None}
        for frame, start in self._entries(item, here, assumption):
            if not frame.nodes:
                continue
            key = frame, self.summaries.scopes.key(frame, assumption)
            known = self._starts.setdefault(key, start)
            if known is not start:
                self._starts[key] = least((known, start))

    def _entries(
        self, item: Item, here: Costs, assumption: Assumption
    ) -> list[tuple[Frame, Costs]]:
        """The frames that may be entered, each with its own dictionary of the least costs at its start."""
        if item.is_boundary:
            return [
                (frame, {**dict.fromkeys(frame.captured, self._crossing(item)), FRESH: 0})
                for frame in item.frames
                if item.row.flow != "isolated"
            ]
        if item.row.flow == "for":
            trips = item.trips
            if trips == 0:
                return []
            loop = self.summaries.loop(item, assumption)
            return [(item.frames[0], self._up_to(item, loop, here, trips and trips - 1))]
        if item.row.flow == "while":
            return self._enter_while(item, here, assumption)
        frames = self.summaries.conditions.frames(item, assumption)
        return [
            (frame, {**shifted(here, self.summaries.into(item, frame)), FRESH: 0})
            for frame in frames
        ]

    def _up_to(self, item: Item, loop: LoopSlots, here: Costs, most: int | None) -> State:
        """The cheapest costs at the start of an iteration."""
        start = loop.state(here)
        state = loop.up_to(start, most)
        if not self.summaries.witnesses:
            return state
        steady = loop.steady
        for slot, cost in state.items():
            # The very path that comes to the loop: no iteration before makes it cheaper.
            if slot != FRESH and cost is start.get(slot):
                reason = "first-iterations" if steady.get(slot, 0) > cost else None
                first = self.summaries.said(0, "first iteration of '{}'", item.op, reason)
                state[slot] = cost + first
        return state

    def _enter_while(
        self, item: Item, here: Costs, assumption: Assumption
    ) -> list[tuple[Frame, Costs]]:
        summaries = self.summaries
        loop = summaries.loop(item, assumption)
        goes_on = summaries.goes_on(item, assumption)
        first, second = item.frames
        state = self._up_to(item, loop, here, 0 if goes_on is False else None)
        if goes_on is False:
            return [(first, state)]
        before = summaries.before_condition(item, assumption, True)
        if before.cost >= FOREVER:
            return [(first, state)]
        what = "the condition of 'scf.while' holds"
        kept = summaries.said(int(before.cost), what, item.op)
        inside = {value: state[value] + kept for value in loop.kept if value in state}
        holds = summaries.said(0, what, item.op)
        for place, argument in second.entry.arguments.items():
            cost = resolved(before.results.get(place, NO_ROW), state)
            if cost is not None:
                inside[argument] = cost + holds
        return [(first, state), (second, {**inside, FRESH: 0})]


def wait_rule(op: Any) -> WaitRule:
    rule = row_of(op).wait
    assert rule is not None
    return rule


def largest_count(queue: Queue | None, wait: Any) -> int:
    """The largest N that a wait can express: what its queue tracks, what its bits hold."""
    representable = (1 << (wait_rule(wait).count_bits - 1)) - 1
    if queue is None or queue.largest_count is None:
        return representable
    return min(representable, queue.largest_count)
