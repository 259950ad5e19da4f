"""Branches on threads: both sides run, one after the other or beside each other.

    scf.if %leader { expect; copy }     first the leader's side, then that of the others
    scf.if %consumes { wait full; product; arrive } else { wait empty; copy }      two roles

Where only one side does anything to mbarriers or the memory of copies, the sides are followed one
after the other with the threads of each; values that they hand on differ between threads. So are
sides that only arrive and copy, as long as there are no roles: a phase needs the arrivals of both.
Else, and where threads may have to wait on a side, each is a role (`role_strands`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir_async_pipe.checker.partings import join_of
from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases.byte_places import Value
from mlir_async_pipe.checker.phases.path_state import Parted, PathState
from mlir_async_pipe.checker.phases.role_memory import RoleMemory
from mlir_async_pipe.checker.phases.role_strands import end_role, part_roles
from mlir_async_pipe.checker.phases.thread_numbers import EachThread, chosen
from mlir_async_pipe.checker.step_graph import Edge, Flow
from mlir_async_pipe.facts.flow.algorithms import reached


@dataclass
class PartedSides:
    """The branches of one kernel; blocks `acting` do something to what is followed, those `beside` more
    than to arrive and to copy, those that are `waiting` may stop there."""

    flow: Flow
    acting: set[int]
    beside: set[int]
    waiting: set[int]
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
        condition = value if isinstance(value, EachThread) else None
        (first, mask), rest = ways
        if self._are_roles(join, state, ways):
            edge, other = rest
            if mask is None or other is None:
                raise NotFollowedError("unknown-threads")
            part_roles(state, number, join, other, edge, mask)
            return first
        state.sides = (*state.sides, Parted(join, state.mask, rest, (), condition))
        state.mask = mask
        return first

    def _are_roles(
        self, join: int | None, state: PathState, ways: list[tuple[Edge, int | None]]
    ) -> bool:
        """Whether the sides run beside each other: both do something, or one may have to wait."""
        if join is None or all(self.acts(edge.target, join) for edge, _ in ways):
            only_arrive = not any(
                self._comes_to(self.beside, edge.target, join) for edge, _ in ways
            )
            if join is not None and only_arrive and not isinstance(state.memory, RoleMemory):
                return False
            if not isinstance(state.memory, RoleMemory):
                raise NotFollowedError("specialised")
            return True
        return isinstance(state.memory, RoleMemory) and any(
            self._comes_to(self.waiting, edge.target, join) for edge, _ in ways
        )

    def acts(self, first: int, join: int | None) -> bool:
        """Whether anything is done on the way from one block to another."""
        return self._comes_to(self.acting, first, join)

    def _comes_to(self, blocks: set[int], first: int, join: int | None) -> bool:
        ways = reached([first], lambda n: self.flow.after(n) if n != join else ())
        return not blocks.isdisjoint(ways - {join})

    def joined(self, edge: Edge, state: PathState) -> Edge:
        """Take an edge: where it ends a side, the other side comes next, or all go on. Gives the
        edge to follow. Raises NextRoleError."""
        while state.sides and edge.target == state.sides[-1].join:
            if edge.loops:
                raise NotFollowedError("specialised")
            parted = state.sides[-1]
            handed = tuple((t, state.get(s)) for t, s in edge.assigns if t in self.needed)
            if parted.roles:
                end_role(state, parted, handed, edge.target)
            elif parted.rest is None:
                self._join(parted, handed, state)
            else:
                edge, mask = parted.rest
                state.sides = (
                    *state.sides[:-1],
                    parted._replace(rest=None, handed=handed),
                )
                state.mask = mask
                continue
            # Assigned already: to what is around, the values are those of the targets.
            edge = Edge(edge.target, tuple((target, target) for target, _ in handed))
        return edge

    def _join(
        self, parted: Parted, handed: tuple[tuple[int, Value], ...], state: PathState
    ) -> None:
        state.sides = state.sides[:-1]
        state.mask = parted.whole
        before = dict(parted.handed)
        condition = parted.condition if isinstance(parted.condition, EachThread) else None
        for target, value in handed:
            state.env[target] = chosen(condition, before.get(target), value)
