"""Branches on threads: both sides run, and no thread waits for another one in between.

    scf.if %leader { expect; copy }     first the leader's side, then that of the others

The sides are followed one after the other with the threads of each; values that they hand on
differ between threads. Only one of them may do anything to mbarriers or the memory of copies.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir_async_pipe.checker.partings import join_of
from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases.byte_places import Value
from mlir_async_pipe.checker.phases.path_state import Parted, PathState
from mlir_async_pipe.checker.phases.thread_numbers import EachThread, chosen
from mlir_async_pipe.checker.step_graph import Edge, Flow
from mlir_async_pipe.flow.algorithms import reached


@dataclass
class PartedSides:
    """The branches of one kernel; blocks `acting` do something to what is followed."""

    flow: Flow
    acting: set[int]
    needed: set[int]
    _joins: dict[int, int | None] = field(default_factory=dict)

    def part(
        self, number: int, state: PathState, value: Value, then: Edge, otherwise: Edge
    ) -> Edge:
        """Threads go two ways at the end of a block; gives the way to follow first."""
        if number not in self._joins:
            self._joins[number] = join_of(self.flow, number)
        join = self._joins[number]
        masks: list[int | None] = [None, None]
        if isinstance(value, EachThread) and state.mask is not None:
            masks = [state.mask & value.mask, state.mask & ~value.mask]
        ways = [(e, m) for e, m in zip((then, otherwise), masks, strict=True) if m != 0]
        if len(ways) == 1:
            return ways[0][0]
        if join is None or all(self.acts(edge.target, join) for edge, _ in ways):
            raise NotFollowedError("specialised")
        condition = value if isinstance(value, EachThread) else None
        (first, mask), rest = ways
        state.sides = (*state.sides, Parted(join, state.mask, rest, (), condition))
        state.mask = mask
        return first

    def acts(self, first: int, join: int | None) -> bool:
        """Whether anything is done on the way from one block to another."""
        ways = reached([first], lambda n: self.flow.after(n) if n != join else ())
        return not self.acting.isdisjoint(ways - {join})

    def joined(self, edge: Edge, state: PathState) -> Edge | None:
        """Take an edge: where it ends a side, the other side comes next, or all go on. Gives the
        edge to follow, None where the state stands at the join already."""
        while state.sides and edge.target == state.sides[-1].join:
            if edge.loops:
                raise NotFollowedError("specialised")
            parted = state.sides[-1]
            handed = tuple((t, state.get(s)) for t, s in edge.assigns if t in self.needed)
            state.sides = state.sides[:-1]
            if parted.rest is None:
                self._join(parted, handed, state)
                return None
            edge, mask = parted.rest
            state.sides += (parted._replace(rest=None, handed=handed),)
            state.mask = mask
        return edge

    def _join(
        self, parted: Parted, handed: tuple[tuple[int, Value], ...], state: PathState
    ) -> None:
        state.mask = parted.whole
        before = dict(parted.handed)
        condition = parted.condition if isinstance(parted.condition, EachThread) else None
        for target, value in handed:
            state.env[target] = chosen(condition, before.get(target), value)
