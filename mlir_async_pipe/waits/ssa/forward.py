"""Forward data flow over nested regions and graphs of blocks.

    state at a block  =  join over the ways to it of what the ops on the way make of the state

A `Domain` says what a state is. Loops are followed until nothing changes any more, so joins
may only ever go one way, a finite number of times; a loop that starts again from a larger state
goes on from what it had found. With `exact`, loops with a constant trip count turn as often as
that, or until an iteration changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    terminator,
)
from mlir_async_pipe.flow.algorithms import reached
from mlir_async_pipe.flow.ways import handed_on, successors
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CARRYING_OPS,
    REGION_ROWS,
    RegionRow,
    regions_of,
)
from mlir_async_pipe.waits.ssa.skeleton import Skeleton

State = TypeVar("State")

# A loop that still changes after so many iterations (states count at most 64 groups) is followed
# like one with an unknown trip count.
MOST_TURNS = 80

Exits = list[tuple[Operation, State]]
"""The terminators by which control leaves a region, with the states there."""


class Domain(Protocol[State]):
    """What flows: a state, and what ops and edges make of it.

    `unreached` is the state of blocks that no path reaches, None to leave them out.
    """

    unreached: State | None

    def over(self, op: Operation, state: State) -> State:
        """After an event without regions to follow."""

    def join(self, first: State, second: State) -> State:
        """Where two paths meet."""

    def again(self, first: State, second: State) -> State:
        """What is noted after an op that is passed in two iterations of a loop around it."""

    def hand(self, targets: Sequence[Value], sources: Sequence[Value], state: State) -> State:
        """`targets` take the values of `sources` (those that have one)."""

    def apart(self, op: Operation, state: State) -> State:
        """At the start of a region that another thread runs, or that runs any number of times."""

    def behind_apart(self, op: Operation, state: State) -> State:
        """After an op with such regions."""


class Forward(Generic[State]):
    """`at_block` is the state at the start of each block with events around it; `behind` that
    after an op with regions, by the first block of its first region; `exits` are the ends of
    the function."""

    def __init__(
        self, skeleton: Skeleton, domain: Domain[State], start: State, *, exact: bool = False
    ) -> None:
        self.skeleton = skeleton
        self.domain = domain
        self.exact = exact
        self.at_block: dict[Block, State] = {}
        self.behind: dict[Block, State] = {}
        self._terminators: dict[Block, Operation] = {}
        self.exits: Exits[State] = []
        for region in skeleton.root.regions:
            if len(list(region.blocks)):
                self.exits += self._region(region, start)

    def through(self, block: Block, state: State) -> Iterable[tuple[Operation, State]]:
        """Each event of a block with the state before it, for a state at its start."""
        for op in self.skeleton.of(block):
            yield op, state
            state = self._over(op, state)

    def _over(self, op: Operation, state: State) -> State:
        if len(op.regions) == 0:
            return self.domain.over(op, state)
        row = REGION_ROWS.get(op.name)
        if row is None or op.name not in CARRYING_OPS:
            for region in op.regions:
                if len(list(region.blocks)):
                    self._region(region, self.domain.apart(op, state))
            return self.domain.behind_apart(op, state)
        if row.flow == "for":
            behind = self._for(op, row, state)
        elif row.flow == "while":
            behind = self._while(op, row, state)
        else:
            behind = self._branch(op, state)
        key = op.regions[0].blocks[0]
        known = self.behind.get(key)
        self.behind[key] = behind if known is None else self.domain.again(known, behind)
        return behind

    def _enter(self, block: Block, state: State) -> State:
        """Note one more state at the start of a block."""
        known = self.at_block.get(block)
        self.at_block[block] = state if known is None else self.domain.join(known, state)
        return self.at_block[block]

    def _block(self, block: Block, state: State) -> State:
        for op in self.skeleton.of(block):
            state = self._over(op, state)
        return state

    def _end(self, block: Block) -> Operation:
        end = self._terminators.get(block)
        if end is None:
            end = self._terminators[block] = terminator(block)
        return end

    def _region(self, region: Any, state: State) -> Exits[State]:
        """Follow a region; the states where control leaves it."""
        blocks = list(region.blocks)
        if len(blocks) == 1:
            self._enter(blocks[0], state)
            return [(self._end(blocks[0]), self._block(blocks[0], state))]
        self._enter(blocks[0], state)
        if self.domain.unreached is not None:
            for block in unreached_blocks(blocks):
                self._enter(block, self.domain.unreached)
        exits: dict[Block, tuple[Operation, State]] = {}
        work = deque(block for block in blocks if block in self.at_block)
        while work:
            block = work.popleft()
            state, end = self._block(block, self.at_block[block]), self._end(block)
            successors = list(end.successors)
            if not successors:
                exits[block] = (end, state)
                continue
            row = BRANCH_ROWS.get(end.name)
            ranges = row.operands(end) if row is not None else [range(0)] * len(successors)
            for target, operands in zip(successors, ranges, strict=True):
                sources = [end.operands[i] for i in operands]
                handed = self.domain.hand(list(target.arguments), sources, state)
                known = self.at_block.get(target)
                if self._enter(target, handed) != known and target not in work:
                    work.append(target)
        return list(exits.values())

    def _branch(self, op: Operation, state: State) -> State:
        behind: list[State] = []
        for region in regions_of(op, REGION_ROWS[op.name]):
            if region is None:
                behind.append(state)
                continue
            for end, left in self._region(region, state):
                behind.append(self.domain.hand(list(op.results), handed_on(end), left))
        return self._join(behind, state)

    def _join(self, states: list[State], otherwise: State) -> State:
        if not states:
            return otherwise
        joined = states[0]
        for state in states[1:]:
            joined = self.domain.join(joined, state)
        return joined

    def _for(self, op: Operation, row: RegionRow, state: State) -> State:
        body = op.regions[0].blocks[0]
        starts = [op.operands[i] for i in row.entry(op)]
        carried = list(body.arguments)[len(body.arguments) - len(starts) :]
        results, yielded = list(op.results), handed_on(self._end(body))
        passed_by = self.domain.hand(results, starts, state)
        trips = row.trips(op) if self.exact else None
        turning = self.domain.hand(carried, starts, state)
        if trips == 0:
            return passed_by
        if trips is not None:
            for turn in range(1, MOST_TURNS):
                self._enter(body, turning)
                left = self._block(body, turning)
                before, turning = turning, self.domain.hand(carried, yielded, left)
                if turn == trips or turning == before:
                    return self.domain.hand(results, yielded, left)
        turning = self._enter(body, turning)
        while True:
            left = self._block(body, turning)
            before = turning
            turning = self._enter(body, self.domain.hand(carried, yielded, left))
            if turning == before:
                behind = self.domain.hand(results, yielded, left)
                return behind if trips else self.domain.join(passed_by, behind)

    def _while(self, op: Operation, row: RegionRow, state: State) -> State:
        starts = [op.operands[i] for i in row.entry(op)]
        before, after = op.regions
        first, second = before.blocks[0], after.blocks[0]
        turning = self._enter(first, self.domain.hand(list(first.arguments), starts, state))
        while True:
            behind = []
            for end, left in self._region(before, turning):
                passed = handed_on(end)
                behind.append(self.domain.hand(list(op.results), passed, left))
                self._enter(second, self.domain.hand(list(second.arguments), passed, left))
            known = turning
            if second in self.at_block:
                for end, left in self._region(after, self.at_block[second]):
                    again = self.domain.hand(list(first.arguments), handed_on(end), left)
                    turning = self._enter(first, again)
            if turning == known:
                return self._join(behind, state)


def unreached_blocks(blocks: list[Block]) -> list[Block]:
    """The blocks of a region that control never comes to."""
    found = reached(blocks[:1], successors)
    return [block for block in blocks if block not in found]
