"""Roles that alternate on a path: the one that runs stops where it waits, and another goes on.

    producer: wait empty[0]      passes; expect, copy; iteration 0 is over
    consumer: wait full[0]       passes; product; it waits for its second tile
    producer: …

A role that comes to the end of its side waits for the others as long as somebody goes on, and
runs together with them from there if they come; threads do not meet there, so else it goes on
alone. Where nobody can go on all that wait hang, in this order of the roles and in every other.
"""

from __future__ import annotations

from collections.abc import Hashable, Set
from dataclasses import dataclass, field
from functools import partial

from mlir_async_pipe.checker.forms import Form
from mlir_async_pipe.checker.partings import join_of
from mlir_async_pipe.checker.phase_faults import NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.amounts import EachThread, chosen
from mlir_async_pipe.checker.phases.byte_places import Asked, Value, gathered
from mlir_async_pipe.checker.phases.mbarrier_state import lacks
from mlir_async_pipe.checker.phases.path_numbers import PathNumbers
from mlir_async_pipe.checker.phases.path_state import Parted, PathState, Strand
from mlir_async_pipe.checker.phases.warp_clocks import warps_of
from mlir_async_pipe.checker.precision import RefineError
from mlir_async_pipe.checker.step_graph import ControlEdge, Flow, Goto, Run
from mlir_async_pipe.facts.flow.algorithms import reached

# More roles of one kind than any kernel has.
LARGEST_SPLIT = 8
# Iterations of a loop around that a role begins before others have.
MOST_AHEAD = 1


class NextRoleError(Exception):
    """The role that runs is at an end, of its side or of the kernel, and others are not."""


def suspend(state: PathState, block: int, position: int) -> Strand:
    """The role that runs, as it goes on later."""
    return Strand(**state.own(), block=block, position=position)


def resume(state: PathState) -> Strand | None:
    """The first role that may go on is the one that runs; None if there is none."""
    memory = state.memory
    ready = [
        number
        for number, role in enumerate(state.others)
        if role.at_join is None and (role.blocked is None or role.blocked[1] != memory.progress)
    ]
    ready = [number for number in ready if not _is_ahead(number, ready, state)] + [
        number for number, role in enumerate(state.others) if role.at_join is not None
    ]
    if not ready:
        return None
    number = ready[0]
    role = state.others[number]
    state.others = (*state.others[:number], *state.others[number + 1 :])
    vars(state).update(role.own())
    if role.at_join is not None:
        state.env.update(role.at_join)
        state.sides = state.sides[:-1]
        role.edge = ControlEdge(role.block, tuple((target, target) for target, _ in role.at_join))
    return role


def _is_ahead(number: int, ready: list[int], state: PathState) -> bool:
    """Whether a role is iterations of an outermost loop ahead of one that may go on as well: where nobody
    lets it wait, else more and more lie between them."""
    mine = _outermost(state.others[number])
    theirs = (_outermost(state.others[other]) for other in ready)
    return mine is not None and any(
        one is not None and mine[0] == one[0] and mine[1] - one[1] > MOST_AHEAD for one in theirs
    )


def _outermost(role: Strand) -> tuple[Hashable, int] | None:
    """What the number of an iteration of the outermost loop is made of, if its number is not known, and
    how many are over beside that."""
    iteration = next(iter(role.iterations.values()), None)
    if iteration is None:
        return None
    if iteration.over >= 0:
        return None, iteration.over
    if not isinstance(iteration.value, Form) or not iteration.step:
        return None
    return (iteration.value.terms, iteration.step), iteration.value.constant // iteration.step


def begin_blocks(state: PathState, numbers: PathNumbers) -> None:
    """Each block of a cluster begins as a role of its own."""
    blocks = numbers.blocks
    for rank in range(1, blocks.count):
        role = suspend(state.copy(), 0, 0)
        role.mask, role.given = blocks.members(rank), partial(numbers.given, rank=rank)
        state.others += (role,)
    state.mask = blocks.members(0)


def part_roles(
    state: PathState, block: int, join: int | None, other: int, edge: ControlEdge, mask: int
) -> None:
    """The threads `other` take `edge` as a role of their own; the state goes on with `mask`."""
    _begin_anew(state)
    state.sides = (*state.sides, Parted(join, state.mask, None, roles=True))
    state.mask = mask
    role = suspend(state.copy(), block, 0)
    role.mask, role.edge = other, edge
    role.acted &= other
    state.acted &= mask
    state.others += (role,)


def end_role(
    state: PathState, parted: Parted, at_join: tuple[tuple[int, Value], ...], join: int
) -> None:
    """A role has come to the join: all run together if the others are there. Raises NextRoleError."""
    assert parted.whole is not None and state.mask is not None
    there = [
        role for role in state.others if role.at_join is not None and role.sides == state.sides
    ]
    masks = [state.mask, *(role.mask or 0 for role in there)]
    if sum(masks) != parted.whole:
        role = suspend(state, join, 0)
        role.at_join = at_join
        state.others += (role,)
        raise NextRoleError
    state.others = tuple(role for role in state.others if role not in there)
    ends = [dict(at_join), *(dict(role.at_join or ()) for role in there)]
    for role in there:
        state.env = {**role.env, **state.env}
        state.registers.join(role.registers)
        state.acted |= role.acted
    for target, _ in at_join:
        values = [(mask, end.get(target)) for mask, end in zip(masks, ends, strict=True)]
        state.env[target] = gathered(values, parted.whole)
    state.sides = state.sides[:-1]
    state.mask = parted.whole


def split_role(state: PathState, value: EachThread, block: int, position: int) -> None:
    """Threads of a role that do the same to different mbarriers are roles of their own: the state
    goes on with the first."""
    assert state.mask is not None
    _begin_anew(state)
    first, *rest = value.split(state.mask)
    if len(rest) >= LARGEST_SPLIT:
        raise NotFollowedError("lanes-apart")
    state.mask = first
    for mask in rest:
        role = suspend(state.copy(), block, position)
        role.mask = mask
        state.others += (role,)


def _begin_anew(state: PathState) -> None:
    """What a role did before its threads part was before what any of them does."""
    mine = warps_of(state.mask or 0)
    if not any(warps_of(role.mask or 0) & mine for role in state.others):
        state.acted = 0


def act(state: PathState) -> None:
    """The role does something. The lanes of a warp are one to the clocks, so only one role of
    them may."""
    mask = state.mask or 0
    state.acted |= mask
    mine = warps_of(mask)
    if any(warps_of(role.acted) & mine for role in state.others):
        raise NotFollowedError("lanes-apart")


def deadlock(state: PathState) -> PhaseFault:
    """Nobody can go on: what one waits for, and where another one does."""
    memory = state.memory
    at = {barrier.column: barrier for barrier in memory.mbarriers.values()}
    waiting = sorted(role.blocked[0] for role in state.others if role.blocked is not None)
    for one in waiting:
        running = at[one.column].running
        if running.arrived >= at[one.column].needs:
            note = f"{lacks(at[one.column])}: the wait never passes"
            return PhaseFault("wrong-bytes", running.op, one.op, note)
    first, *rest = waiting
    barrier = at[first.column]
    if not rest:
        last = barrier.running.op if barrier.running.arrived else barrier.init
        return PhaseFault("deadlock", first.op, last, f"{lacks(barrier)}, and nobody else goes on")
    note = f"{lacks(barrier)}, and who may bring the rest waits here: {lacks(at[rest[0].column])} of that"
    return PhaseFault("deadlock", first.op, rest[0].op, note)


# Branches on threads: both sides run, one after the other or beside each other.
#
#     scf.if %leader { expect; copy }     first the leader's side, then that of the others
#     scf.if %consumes { wait full; product; arrive } else { wait empty; copy }      two roles
#
# Where only one side does anything to mbarriers or the memory of copies, the sides are followed one
# after the other with the threads of each; values that they forward differ between threads. So are
# sides that only arrive and copy, as long as there are no roles: a phase needs the arrivals of both.
# Else, and where threads may have to wait on a side, each is a role (`role_strands`).


@dataclass
class PartedSides:
    """The branches of one kernel; blocks `acting` do something to what is followed, by these steps, those `beside`
    more than to arrive and to copy, those that are `waiting` may stop there."""

    flow: Flow
    acting: dict[int, list[Run]]
    beside: set[int]
    waiting: set[int]
    needed: set[int]
    _joins: dict[int, int | None] = field(default_factory=dict)

    def part(
        self, number: int, state: PathState, value: Value, then: ControlEdge, otherwise: ControlEdge
    ) -> ControlEdge:
        """Threads part at the end of a block; gives the edge to follow first."""
        join = self._join_of(number)
        if isinstance(value, Asked):
            return self._ask(join, state, value, *(then, otherwise))
        masks: list[int | None] = [None, None]
        if isinstance(value, EachThread) and state.mask is not None:
            masks = [state.mask & value.mask, state.mask & ~value.mask]
        sides = [(e, m) for e, m in zip((then, otherwise), masks, strict=True) if m != 0]
        if len(sides) == 1:
            return sides[0][0]
        condition = value if isinstance(value, EachThread) else None
        (first, mask), rest = sides
        if self._are_roles(join, state, sides):
            edge, other = rest
            if mask is None or other is None:
                raise NotFollowedError("unknown-threads")
            part_roles(state, number, join, other, edge, mask)
            return first
        state.sides = (*state.sides, Parted(join, state.mask, rest, (), condition))
        state.mask = mask
        return first

    def _join_of(self, number: int) -> int | None:
        if number not in self._joins:
            self._joins[number] = join_of(self.flow, number)
        return self._joins[number]

    def _ask(
        self,
        join: int | None,
        state: PathState,
        asked: Asked,
        then: ControlEdge,
        otherwise: ControlEdge,
    ) -> ControlEdge:
        """Threads go on where a phase is over, and wait for it else: all of them wait, which those that need not
        do not notice. Gives the edge to the wait. Raises RefineError where that is not all."""
        no, yes = (then if answer & 1 else otherwise for answer in asked.values)
        while yes.target != join and not (yes.assigns or yes.loops):
            after = self.flow.blocks[yes.target]
            if after.steps or not isinstance(after.exit, Goto):
                break
            yes = after.exit.edge
        steps = [step for n in self._between(no.target, join) for step in self.acting.get(n, ())]
        if yes.target != join or yes.loops or [step.row.phase for step in steps] != ["wait"]:
            raise RefineError(apart=frozenset({asked.test}))
        at_join = tuple((t, state.get(s)) for t, s in yes.assigns if t in self.needed)
        state.sides = (*state.sides, Parted(join, state.mask, None, at_join, asked))
        return no

    def _are_roles(
        self, join: int | None, state: PathState, sides: list[tuple[ControlEdge, int | None]]
    ) -> bool:
        """Whether the sides run beside each other: both do something, or one may have to wait."""
        if join is None or all(self.acts(edge.target, join) for edge, _ in sides):
            only_arrive = not any(
                self._comes_to(self.beside, edge.target, join) for edge, _ in sides
            )
            if join is not None and only_arrive and state.memory.together:
                return False
            if state.memory.together:
                raise NotFollowedError("specialised")
            return True
        return not state.memory.together and any(
            self._comes_to(self.waiting, edge.target, join) for edge, _ in sides
        )

    def acts(self, first: int, join: int | None) -> bool:
        """Whether anything is done on paths from one block to another."""
        return self._comes_to(self.acting.keys(), first, join)

    def _comes_to(self, blocks: Set[int], first: int, join: int | None) -> bool:
        return not blocks.isdisjoint(self._between(first, join))

    def _between(self, first: int, join: int | None) -> Set[int]:
        """The blocks on paths from one up to another one."""
        inside = reached([first], lambda n: self.flow.after(n) if n != join else ())
        return inside - {join}

    def joined(self, edge: ControlEdge, state: PathState) -> ControlEdge:
        """Take an edge: where it ends a side, the other side comes next, or all go on. Gives the
        edge to follow. Raises NextRoleError."""
        while state.sides and edge.target == state.sides[-1].join:
            if edge.loops:
                raise NotFollowedError("specialised")
            parted = state.sides[-1]
            if isinstance(parted.condition, Asked):
                raise RefineError(apart=frozenset({parted.condition.test}))
            at_join = tuple((t, state.get(s)) for t, s in edge.assigns if t in self.needed)
            if parted.roles:
                end_role(state, parted, at_join, edge.target)
            elif parted.rest is None:
                self._join(parted, at_join, state)
            else:
                edge, mask = parted.rest
                state.sides = (*state.sides[:-1], parted._replace(rest=None, at_join=at_join))
                state.mask = mask
                continue
            # Assigned already: to what is around, the values are those of the targets.
            edge = ControlEdge(edge.target, tuple((target, target) for target, _ in at_join))
        return edge

    def _join(
        self, parted: Parted, at_join: tuple[tuple[int, Value], ...], state: PathState
    ) -> None:
        state.sides = state.sides[:-1]
        state.mask = parted.whole
        before = dict(parted.at_join)
        condition = parted.condition if isinstance(parted.condition, EachThread) else None
        for target, value in at_join:
            state.env[target] = chosen(condition, before.get(target), value)
