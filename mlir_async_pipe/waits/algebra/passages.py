"""What a summary says: how groups and tokens pass a frame, a block, or a loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir_async_pipe.flow.items import Item
from mlir_async_pipe.waits.algebra import carried
from mlir_async_pipe.waits.algebra.count_rows import (
    FOREVER,
    FRESH,
    NO_ROW,
    Row,
    shifted,
)


@dataclass(eq=False, slots=True)
class Passage:
    """One pass through a frame, or through an op.

    `cost` is the least number of groups on the way (FOREVER: no way through); `results` are
    the rows of the values handed on, by result number.
    """

    cost: int
    results: dict[int, Row]


Defined = tuple[Row, int, int]
"""A value in a block: (its row where an event defines it, the groups that the block has
committed up to there, the number of the event)"""


@dataclass(eq=False, slots=True)
class BlockPassage:
    """One pass through a block under one assumption.

    `before[i]` is what the block has committed before its event i, `cost` all of it
    (FOREVER: its end is not reached). `waits` are those that are reached, with what has been
    committed before them. `reads` are the rows of the values that other items read, and
    `turns` the states that loops of unknown trip counts turn them into, by source.
    """

    cost: int = 0
    before: list[int] = field(default_factory=list)
    defined: dict[int, Defined] = field(default_factory=dict)
    waits: list[tuple[Item, int]] = field(default_factory=list)
    reads: dict[Item, dict[int, Row]] = field(default_factory=dict)
    turns: dict[Item, dict[int, carried.State]] = field(default_factory=dict)

    def at(self, value: int, cost: int) -> Row:
        """The row of a value where the block has committed `cost` groups."""
        found = self.defined.get(value)
        if found is None:
            return {value: cost}
        row, reached, _ = found
        return row if cost == reached else shifted(row, cost - reached)

    def cost_before(self, number: int) -> int:
        """What the block has committed before an event, or of its end."""
        return self.before[number] if number < len(self.before) else self.cost

    def end(self, value: int) -> Row:
        """The row of a value at the end of the block."""
        return {} if self.cost >= FOREVER else self.at(value, self.cost)


@dataclass(eq=False, slots=True)
class Loop:
    """The slots of a loop: `arguments` by carried number with their `start` values, and the
    values `kept` from outside. `columns` is one iteration (see `carried`)."""

    columns: carried.Columns
    arguments: dict[int, int]
    start: dict[int, int]
    kept: set[int]
    _targets: carried.Targets | None = None
    _steady: carried.State | None = None
    _numbers: dict[int, int] | None = None

    def number_of(self, argument: int) -> int:
        """The carried number of an argument."""
        if self._numbers is None:
            self._numbers = {value: number for number, value in self.arguments.items()}
        return self._numbers[argument]

    def steady(self) -> carried.State:
        """The least costs of groups that the loop itself commits, after any number of
        iterations."""
        if self._steady is None:
            self._steady = self.up_to({FRESH: 0}, None)
        return self._steady

    def up_to(self, state: carried.State, turns: int | None) -> carried.State:
        """The cheapest state over 0 to `turns` iterations (None: any number)."""
        if self._targets is None:
            self._targets = carried.targets(self.columns)
        return carried.turn_up_to(self._targets, state, turns)

    def turned(self, states: dict[int, carried.State]) -> dict[int, carried.State]:
        """The cheapest states over any number of iterations."""
        return {source: self.up_to(state, None) for source, state in states.items()}

    def state(self, here: dict[int, int]) -> carried.State:
        """The slots as they stand before the loop, where values have the costs `here`."""
        found = {value: here[value] for value in self.kept if value in here}
        for slot, value in self.start.items():
            if value in here:
                found[slot] = here[value]
        found[FRESH] = 0
        return found

    def state_from(self, source: int, reads: dict[int, Row]) -> carried.State:
        """The slots as they stand before the loop, for one source that `reads` names."""
        return self.states(reads).get(source, {})

    def states(self, reads: dict[int, Row]) -> dict[int, carried.State]:
        """The slots as they stand before the loop, for each source that `reads` names."""
        found: dict[int, carried.State] = {FRESH: {FRESH: 0}}
        for slot, value in (*zip(self.kept, self.kept, strict=True), *self.start.items()):
            for source, cost in reads.get(value, NO_ROW).items():
                if source in found:
                    found[source][slot] = cost
                else:
                    found[source] = {slot: cost}
        return found
