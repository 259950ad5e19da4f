"""Where waits and barriers stand in each step: prologue, kernel and epilogue alike.

A step is walked in kernel order with what is known so far: how far each queue has been
retired, and where the last barrier stood. A wait is emitted before the first unit that
needs a group not known to be over, a barrier before the first unit that must not run
before what another thread did. So nothing redundant is emitted, and nothing is moved over
a commit. With `wait_at = "iteration"` the waits of a step stand together at its top.

Example (three stages, copy in stage 0, reader in stage 2, three slots): at the top of the
kernel one wait for the group of two steps ago; then, before the copy overwrites the slot
that was read one step ago, one barrier; the reader needs nothing more, because that barrier
stands after the wait.

The kernel's entry state is the weaker of "coming from the prologue" and "coming from the kernel
itself". Where that makes it wait for what, in its first iterations, never was (a later stage of the
same queue had not begun), those iterations are simulated one by one instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce

from mlir_async_pipe.pipeliner.plan.barrier_pairs import BarrierPair
from mlir_async_pipe.pipeliner.plan.form_groups import Group
from mlir_async_pipe.pipeliner.plan.pipeline_plan import Plan
from mlir_async_pipe.pipeliner.plan.sync_state import (
    END,
    ActiveStages,
    Before,
    History,
    Moment,
    PlannedWait,
    StepSync,
    Synchronisation,
    SyncState,
    empty_groups,
    youngest,
)
from mlir_async_pipe.pipeliner.plan.units import Unit


def synchronised(plan: Plan) -> Plan:
    """The plan with every wait and barrier that its needs and barrier pairs ask for."""
    needs: dict[int, list[PlannedWait]] = {}
    for need in plan.needs:
        needs.setdefault(need.unit.position, []).append(need.wait)
    pairs: dict[int, list[BarrierPair]] = {}
    for pair in plan.barriers:
        pairs.setdefault(pair.second.position, []).append(pair)
    group_of = {member.position: group for group in plan.groups for member in group.members}
    kept = {barrier.unit.position for barrier in plan.kept_barriers}
    # Before all other units nothing ever stands.
    asking = tuple(
        u for u in plan.units.units if u.position in (needs.keys() | pairs.keys() | kept)
    )
    walker = _Walker(plan, asking, needs, pairs, group_of)
    state = walker.initial()
    prologue = []
    for t in range(plan.last_stage):
        step, state = walker.walk(state, ActiveStages(0, t))
        prologue.append(replace(step, empty=empty_groups(plan.groups, t)))
        state = state.shifted()
    entry = walker.without_idle_barrier(state)
    kernel, end = walker.steady(entry)
    state = end.shifted()
    if plan.trip_count is None or plan.trip_count <= plan.peeled_epilogue:
        state = state.weaker(entry)
    epilogue = []
    for e in range(1, plan.peeled_epilogue + 1):
        step, state = walker.walk(state, ActiveStages(e))
        epilogue.append(step)
        state = state.shifted()
    found = Synchronisation(tuple(prologue), kernel, tuple(epilogue), walker.unfinished(state))
    return replace(plan, synchronisation=replace(found, over=_never_begun(found)))


def _never_begun(found: Synchronisation) -> tuple[Group, ...]:
    """The groups that a wait looks back at, in the kernel's first steps, in a step that has neither
    an iteration of theirs nor an empty one."""
    steps = len(found.prologue)
    groups = {}
    for wait, late in found.after_prologue():
        group = wait.group
        for t in range(steps - wait.lag + late, min(group.stage, steps)):
            if t < 0 or group not in found.prologue[t].empty:
                groups[group.number] = group
    return tuple(groups.values())


_NOTHING = StepSync()


@dataclass(frozen=True)
class _Walker:
    """What the steps of a plan need before the `units` that need anything, by their positions, and
    each unit's group."""

    plan: Plan
    units: tuple[Unit, ...]
    needs: dict[int, list[PlannedWait]]
    pairs: dict[int, list[BarrierPair]]
    group_of: dict[int, Group]

    def initial(self) -> SyncState:
        """Before the first step nothing has been issued, so everything older is over."""
        retired: dict[str, Moment] = {}
        for group in self.plan.groups:
            first = min(g.stage for g in self.plan.groups if g.queue == group.queue)
            retired[group.queue] = (first - 1, END)
        history = tuple(((-END, 0.0), queue, moment) for queue, moment in retired.items())
        return SyncState(retired, (-1, END), (history,))

    def unknown(self) -> SyncState:
        """Nothing is known: every need asks for a wait, every pair for a barrier."""
        return SyncState(
            {group.queue: (-END, 0) for group in self.plan.groups},
            (-END, 0),
        )

    def steady(self, entry: SyncState) -> tuple[StepSync, SyncState]:
        """The kernel's step: valid on entry from the prologue and from itself."""
        step, end = self.walk(self.unknown(), ActiveStages(0))
        assumed = entry.weaker(end.shifted())
        better, better_end = self.walk(assumed, ActiveStages(0))
        again = better_end.shifted()
        if again.knows(assumed):
            step, end = better, better_end
        return self.without_waits_for_nothing(entry, step) or (step, end)

    def without_waits_for_nothing(
        self, entry: SyncState, step: StepSync
    ) -> tuple[StepSync, SyncState] | None:
        """Where a wait of `step` looks back, in the first iterations of the kernel, at an iteration
        before a later stage's first: a step without such waits, if there is one.

        It has the waits of a kernel that never began, and what its first iterations need besides:
        these are played one by one, until they know as much as the later ones."""
        first = ActiveStages(0, self.plan.last_stage)
        if not step.waits_for_nothing(first):
            return None
        _, end = self.walk(self.unknown(), ActiveStages(0))
        later = end.shifted()
        played, end = self.walk(later, ActiveStages(0))
        if not end.shifted().knows(later):
            return None
        largest = max(need.lag for needs in self.needs.values() for need in needs)
        iterations = range(self.plan.last_stage, self.plan.last_stage + largest + 2)
        state, ends = entry, [end]
        number = iterations.start
        while number in iterations and not played.waits_for_nothing(first):
            missing, state = self.walk(state, ActiveStages(0, number), played)
            if missing.before:
                played, state, ends, number = played.joined(missing), entry, [end], iterations.start
                continue
            ends.append(state)
            state = state.shifted()
            if state.knows(later):
                return played, reduce(SyncState.weaker, ends)
            number += 1
        return None

    def walk(
        self, state: SyncState, stages: ActiveStages, given: StepSync = _NOTHING
    ) -> tuple[StepSync, SyncState]:
        """Go through one step of the prologue, the kernel or the epilogue, in which `given` stands
        already: what it needs besides, and what is known after it."""
        step, at_top = StepSync(), self.plan.wait_at == "iteration"
        units = [unit for unit in self.units if stages.active(unit.stage)]
        if -1 in given.before:
            state = state.after((0, -1), filter(stages.existed, given.before[-1].waits))
        if at_top and not given.before:
            wanted = [n for unit in units for n in self._needs(unit, stages) if n.lag > 0]
            first = _missing(wanted, state)
            state = state.after((0, -1), first)
            if first:
                step.before[-1] = Before(first)
        for unit in units:
            now, kept = (0, unit.position - 0.5), self._keeps_barrier(unit)
            if unit.position in given.before:
                before = given.before[unit.position]
                state = state.after(now, filter(stages.existed, before.waits))
                kept = kept or before.barrier
            waits: tuple[PlannedWait, ...] = ()
            if unit.position in self.needs:
                waits = _missing(self._needs(unit, stages), state)
                state = state.after(now, waits)
            if at_top and given.before:
                # Only what the given waits do not see to, wherever they stand.
                early = tuple(wait for wait in waits if wait.lag > 0)
                waits = tuple(wait for wait in waits if wait.lag == 0)
                if early:
                    step.before[-1] = step.before.get(-1, Before()).joined(Before(early))
            if kept:
                state = state._replace(barrier=(0, unit.position - 0.25))
            barrier = any(
                stages.existed_before(pair.first.stage, pair.lag) and self._unordered(pair, state)
                for pair in self.pairs.get(unit.position, ())
            )
            if barrier:
                state = state._replace(barrier=(0, unit.position - 0.25))
            if waits or barrier:
                step.before[unit.position] = Before(waits, barrier)
        return step, state

    def _needs(self, unit: Unit, stages: ActiveStages) -> list[PlannedWait]:
        """What the unit needs of groups that exist."""
        return list(filter(stages.existed, self.needs.get(unit.position, ())))

    def _keeps_barrier(self, unit: Unit) -> bool:
        """Whether a barrier of the input stands before the unit and fences all that the
        derived ones do."""
        if not self.plan.kept_barriers:
            return False
        fenced = self.plan.fenced
        return any(kept.unit == unit and fenced <= kept.spaces for kept in self.plan.kept_barriers)

    def _unordered(self, pair: BarrierPair, state: SyncState) -> bool:
        """Whether no barrier stands between the first end of a pair and now."""
        return not state.barrier > self._finished(pair, state)

    def _finished(self, pair: BarrierPair, state: SyncState) -> Moment:
        group = self.group_of.get(pair.first.position)
        if group is None:
            return (-pair.lag, pair.first.position)
        commit = (-pair.lag, group.position)
        return max(_retired_at(commit, group.queue, history) for history in state.histories)

    def without_idle_barrier(self, state: SyncState) -> SyncState:
        """If nothing of the prologue asks for a barrier, entering the kernel is like coming
        right after one."""
        latest = [
            (-1.0, float(pair.first.position))
            for pair in self.plan.barriers
            if not pair.first.asynchronous and pair.first.stage < self.plan.last_stage
        ]
        latest += [moment for history in state.histories for moment, _, _ in history]
        if any(moment > state.barrier for moment in latest):
            return state
        return state._replace(barrier=(-1, END))

    def unfinished(self, state: SyncState) -> tuple[PlannedWait, ...]:
        """After the loop: waits for the youngest group of each queue that is not known to be over.

        `state` is shifted past the last step, whose time is -1. With a peeled epilogue the
        last instance of a group in stage s was committed in epilogue step s, `last_stage - s`
        steps before that; a predicated kernel commits (and zero-fills) in every step."""
        end = self.plan.last_stage
        ages = [max(0, self.plan.peeled_epilogue - group.stage) for group in self.plan.groups]
        last = [
            PlannedWait(group, 1 + age + group.stage - end, end)
            for group, age in zip(self.plan.groups, ages, strict=True)
        ]
        return _missing(last, state)


def _missing(waits: Iterable[PlannedWait], state: SyncState) -> tuple[PlannedWait, ...]:
    """Those for groups that are not known to be over, one a queue."""
    return youngest(wait for wait in waits if wait.commit > state.retired[wait.group.queue])


def _retired_at(commit: Moment, queue: str, history: History) -> Moment:
    """When a commit that is over was retired; if the history does not reach back that far, at
    the latest at the end of the last step."""
    known = [moment for moment, q, retired in history if q == queue and retired >= commit]
    return min(known, default=(-1, END))
