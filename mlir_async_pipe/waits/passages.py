"""What a summary says: how groups and tokens pass a frame, a block, or a loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir_async_pipe.waits import carried
from mlir_async_pipe.waits.flow_graph import Item
from mlir_async_pipe.waits.rows import FOREVER, FRESH, Row, shifted


@dataclass(eq=False, slots=True)
class Passage:
    """One pass through a frame, or through an op.

    `cost` is the least number of groups on the way (FOREVER: no way through); `results` are
    the rows of the values handed on, by result number.
    """

    cost: int
    results: dict[int, Row]


@dataclass(eq=False, slots=True)
class Defined:
    """A value in a block: its row where event number `event` defines it, and the groups that
    the block has committed up to there."""

    row: Row
    cost: int
    event: int


@dataclass(eq=False, slots=True)
class BlockPassage:
    """One pass through a block under one assumption.

    `before[i]` is what the block has committed in front of its event i, `cost` all of it
    (FOREVER: its end is not reached). `reads` are the rows of the values that an item reads.
    """

    cost: int = 0
    before: list[int] = field(default_factory=list)
    defined: dict[int, Defined] = field(default_factory=dict)
    reads: dict[Item, dict[int, Row]] = field(default_factory=dict)

    def at(self, value: int, cost: int) -> Row:
        """The row of a value where the block has committed `cost` groups."""
        found = self.defined.get(value)
        return {value: cost} if found is None else shifted(found.row, cost - found.cost)

    def cost_before(self, number: int) -> int:
        """What the block has committed in front of an event, or of its end."""
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
    _steady: carried.State | None = None
    _numbers: dict[int, int] | None = None

    def number_of(self, argument: int) -> int:
        """The carried number of an argument."""
        if self._numbers is None:
            self._numbers = {value: number for number, value in self.arguments.items()}
        return self._numbers[argument]

    def steady(self) -> carried.State:
        """The least costs of groups that the loop itself commits, after any number of turns."""
        if self._steady is None:
            self._steady = carried.turn_up_to(self.columns, {FRESH: 0}, None)
        return self._steady

    def state(self, here: dict[int, int]) -> carried.State:
        """The slots as they stand in front of the loop, where values have the costs `here`."""
        found = {slot: here[value] for slot, value in self._slots().items() if value in here}
        return {**found, FRESH: 0}

    def _slots(self) -> dict[int, int]:
        return {**{value: value for value in self.kept}, **self.start}

    def state_from(self, source: int, reads: dict[int, Row]) -> carried.State:
        """The slots as they stand in front of the loop, for one source that `reads` names."""
        found = {
            slot: reads[value][source]
            for slot, value in self._slots().items()
            if source in reads.get(value, {})
        }
        return {FRESH: 0, **found} if source == FRESH else found

    def states(self, reads: dict[int, Row]) -> list[tuple[int, carried.State]]:
        """The slots as they stand in front of the loop, for each source that `reads` names."""
        found: dict[int, carried.State] = {FRESH: {FRESH: 0}}
        for slot, value in self._slots().items():
            for source, cost in reads.get(value, {}).items():
                found.setdefault(source, {})[slot] = cost
        return list(found.items())
