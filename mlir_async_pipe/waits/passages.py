"""What a summary says: how groups and tokens pass a frame, a block, or a loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.facts.flow.conditions import Assumption, Conditions
from mlir_async_pipe.facts.flow.items import Edge, Item, Node
from mlir_async_pipe.waits.correlation import Scopes
from mlir_async_pipe.waits.events import Event, Events
from mlir_async_pipe.waits.minplus import (
    FOREVER,
    FRESH,
    NO_ROW,
    Columns,
    Row,
    State,
    Targets,
    shifted,
    targets,
    turn_up_to,
)
from mlir_async_pipe.waits.witness_paths import step, stretch


@dataclass(eq=False, slots=True)
class Passage:
    """One pass through a frame, or through an op.

    `cost` is the least number of groups on the way (FOREVER: no way through); `results` are
    the rows of the values handed on, by result number.
    """

    cost: int
    results: dict[int, Row]


@dataclass(eq=False, slots=True)
class Line:
    """The events of a block under an assumption: `before[i]` is what the block has committed before
    event i, or at its end. `telling` are the numbers of those that a path names, None where no path
    is wanted."""

    events: Sequence[Event]
    assumption: Assumption
    telling: list[int] | None
    before: list[int] = field(default_factory=list)

    def between(self, first: int, last: int) -> int:
        """What is committed from one event up to another one."""
        groups = self.before[last] - self.before[first]
        if self.telling is not None:
            steps = bisect_left(self.telling, last) - bisect_left(self.telling, first)
            if steps:
                return stretch(groups, steps, (self, first, last))
        return groups


@dataclass(eq=False, slots=True)
class BlockPassage:
    """One pass through a block under one assumption.

    `cost` is what it commits (FOREVER: its end is not reached). `defined` are the rows of the values
    that events define, with the number of the next event. `waits` are those that are reached, with
    their numbers. `reads` are the rows of the values that other items read, and `turns` the states
    that loops of unknown trip counts turn them into, by source.
    """

    line: Line
    cost: int = 0
    defined: dict[int, tuple[Row, int]] = field(default_factory=dict)
    waits: list[tuple[Item, int]] = field(default_factory=list)
    reads: dict[Item, dict[int, Row]] = field(default_factory=dict)
    turns: dict[Item, dict[int, State]] = field(default_factory=dict)

    def at(self, value: int, number: int) -> Row:
        """The row of a value before an event."""
        found = self.defined.get(value)
        if found is None:
            return {value: self.line.between(0, number)}
        row, since = found
        return shifted(row, self.line.between(since, number))

    def end(self, value: int) -> Row:
        """The row of a value at the end of the block."""
        return {} if self.cost >= FOREVER else self.at(value, len(self.line.events))


@dataclass(eq=False, slots=True)
class Loop:
    """The slots of a loop: `arguments` by carried number with their `start` values, and the
    values `kept` from outside. `columns` is one iteration (see `minplus`), and `last` one after which
    none follows: a path says so."""

    columns: Columns
    last: Columns
    arguments: dict[int, int]
    start: dict[int, int]
    kept: set[int]
    _targets: Targets | None = None
    _steady: State | None = None

    def steady(self) -> State:
        """The least costs of groups that the loop itself commits, after any number of
        iterations."""
        if self._steady is None:
            self._steady = self.up_to({FRESH: 0}, None)
        return self._steady

    def up_to(self, state: State, iterations: int | None) -> State:
        """The cheapest state over 0 to so many iterations (None: any number)."""
        if self._targets is None:
            self._targets = targets(self.columns)
        return turn_up_to(self._targets, state, iterations)

    def state(self, here: dict[int, int]) -> State:
        """The slots as they stand before the loop, where values have the costs `here`."""
        found = {value: here[value] for value in self.kept if value in here}
        for slot, value in self.start.items():
            if value in here:
                found[slot] = here[value]
        found[FRESH] = 0
        return found

    def states(self, reads: dict[int, Row]) -> dict[int, State]:
        """The slots as they stand before the loop, for each source that `reads` names."""
        found: dict[int, State] = {FRESH: {FRESH: 0}}
        for slot, value in (*zip(self.kept, self.kept, strict=True), *self.start.items()):
            for source, cost in reads.get(value, NO_ROW).items():
                if source in found:
                    found[source][slot] = cost
                else:
                    found[source] = {slot: cost}
        return found


class Blocks(ABC):
    """The blocks of one queue under the conditions that are followed. With `tells` the costs in all
    rows are paths."""

    def __init__(
        self, events: Events, conditions: Conditions, tracked: frozenset[int], tells: bool
    ) -> None:
        self.events = events
        self.conditions = conditions
        self.scopes = Scopes(conditions, tracked)
        self.tells = tells
        # A token from elsewhere was committed no later than here. Where marks are counted by
        # function body its own mark is not among them, so the first one seen here must
        # complete: one group less may stay in flight.
        self.foreign = -1 if events.queue.scope == "function" else 0

    @abstractmethod
    def block(self, node: Node, assumption: Assumption) -> BlockPassage:
        """The passage through one block."""

    def said(self, groups: int, what: str, op: Any, reason: str | None = None) -> int:
        """One step of a path with its groups; where no path is wanted, the groups."""
        return step(groups, what, op, reason) if self.tells else groups

    def origin(self, groups: int, what: str, op: Any, reason: str | None = None) -> int:
        """The step that a path begins with, which shows no groups."""
        return step(groups, what, op, reason, 0) if self.tells else groups

    def from_elsewhere(self, what: str, op: Any, reason: str = "unknown-origin") -> int:
        """The cost of a token that was committed nobody knows where."""
        return self.origin(self.foreign, what, op, "function-scope" if self.foreign else reason)

    def taken_edges(self, node: Node, assumption: Assumption) -> Sequence[Edge]:
        """The edges that may be taken from the end of a block under an assumption."""
        if node.condition is None:
            return node.edges
        literal = self.conditions.literal(node.condition, node, node)
        value = literal if isinstance(literal, bool) else literal.under(assumption)
        return node.edges if value is None else [edge for edge in node.edges if edge.truth == value]
