"""Commit groups, what a step of a pipeline waits for, and what is known to be over before it.

Times count steps relative to the current one (0), so the state of the previous step is the
same state shifted by -1.

Where several stages share one queue the prologue commits empty groups:

    copy A, stage 0      step 0:  A0, (empty)      kernel, step 4:  A4, B2, wait for A0
    copy B, stage 2      step 1:  A1, (empty)                       9 groups are younger, as in
    use, stage 4         step 2:  A2, B0                            every later step; 7 without
                         step 3:  A3, B1                            the empty ones

A count is one constant for all steps of the kernel, so it is the smallest: without the empty
groups it would be that of the first step. They cost one instruction each on NVIDIA (a commit)
and none on AMD, where a mark is none; further peeled steps would cost a kernel's code each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from mlir_async_pipe.bindings.raw_ops import Operation, defining_op, walk
from mlir_async_pipe.facts.values.memory_roots import Root, may_meet, root_of
from mlir_async_pipe.pipeliner.dependence.memory_dependences import Dependence
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.pipeliner.plan.units import Unit, Units, is_physical, physical_copy
from mlir_async_pipe.pipeliner.plan.version_rules import BufferUse, reuses
from mlir_async_pipe.session.diagnostics import Diagnostics, PipelineError
from mlir_async_pipe.vocabulary import accesses, is_pure, queue_of, row_of
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS
from mlir_async_pipe.vocabulary.op_table import ABSTRACT_OPS, TokenOps, token_ops
from mlir_async_pipe.vocabulary.rows import ASYNC_LDS

# Groups ------------------------------------------------------------------------------------------
#
# Which async units share a commit group. Two may only if they have the same stage, touch no common slot with
# a write (the queue is FIFO between groups, but says nothing inside one), and nothing in between needs the first.
# Groups that the input makes are kept as far as that allows; async units in no group of the input are grouped
# with their async neighbours of the same stage (RFC 0077).
#
#     copy a; product; copy b; commit a, b        a group of the input, spread among products


@dataclass(frozen=True, eq=False)
class Group:
    """One commit group of the kernel.

    `members` in kernel order; the commit stands after the last one, so `position` is that
    unit's. `queue` names the FIFO, `ops` what commits to it and waits; `abstract` groups name it by
    an attribute: their stage.
    """

    number: int
    members: tuple[Unit, ...]
    stage: int
    position: int
    queue: str
    ops: TokenOps

    @property
    def abstract(self) -> bool:
        return self.ops == ABSTRACT_OPS


def form_groups(
    units: Units, dependences: list[Dependence], diagnostics: Diagnostics
) -> tuple[Group, ...]:
    """The groups of a loop, in kernel order; raises PipelineError (async-op-unsupported)."""
    conflicts = {
        frozenset((units.unit_of(d.source.top).position, units.unit_of(d.target.top).position))
        for d in dependences
        if d.distance == 0
    }
    given = groups_of_input(units)
    runs: list[list[Unit]] = []
    between: list[Unit] = []
    for unit in units.units:
        if not unit.asynchronous:
            between += [] if unit.pure else [unit]
            continue
        last = runs[-1] if runs else []
        if last and _may_join(unit, last, given, conflicts) and _stays_open(last, between, given):
            last.append(unit)
        else:
            runs.append([unit])
        between = []
    groups = tuple(_group(number, run) for number, run in enumerate(runs))
    _remark_splits(groups, given, diagnostics)
    return groups


def _may_join(
    unit: Unit, run: list[Unit], given: dict[int, int], conflicts: set[frozenset[int]]
) -> bool:
    last = run[-1]
    return (
        unit.stage == last.stage
        and unit.scoped == last.scoped
        and given.get(unit.position) == given.get(last.position)
        and not any(frozenset((unit.position, member.position)) in conflicts for member in run)
    )


def _stays_open(run: list[Unit], between: list[Unit], given: dict[int, int]) -> bool:
    """Whether a group of the input can be committed after units that stand between its copies:
    they touch no memory that the copies touch, so that none of them waits for it."""
    if not between:
        return True
    if given.get(run[-1].position) is None or run[-1].scoped:
        return False
    touched, others = _roots(run), _roots(between)
    if touched is None or others is None:
        return False
    return not may_meet(touched, others)


def _roots(units: list[Unit]) -> set[Root] | None:
    """The memory that units touch; None if that is not known."""
    found: set[Root] = set()
    for op in (inner for unit in units for top in unit.ops for inner in walk(top)):
        touched = accesses(op)
        if not touched and not is_pure(op) and op.name not in REGION_ROWS:
            return None
        found.update(root_of(access.memory) for access in touched)
    return found


def groups_of_input(units: Units) -> dict[int, int]:
    """Which group of the input each async unit is in: unit position -> number."""
    given: dict[int, int] = {}
    body = units.body
    pending: list[Operation] = []
    number = 0
    for op in body.ops:
        if row_of(op).commits == "group":
            members = [defining_op(operand) for operand in op.operands] or pending
            for member in members:
                if member is not None and member in units.statement_places:
                    given[units.unit_of(member).position] = number
            number += 1
            pending = []
        elif op in units.statement_places and is_physical(op):
            pending.append(op)
    return given


def _group(number: int, run: list[Unit]) -> Group:
    first, members, position = run[0], tuple(run), run[-1].position
    if first.scoped:
        return Group(number, members, first.stage, position, f"queue {first.stage}", ABSTRACT_OPS)
    op = physical_copy(first.ops[0]) or first.ops[0]
    queue = queue_of(op)
    # Marks have no tokens: on the chip the abstract queues are the FIFO of its copies.
    ops = ABSTRACT_OPS if queue == ASYNC_LDS else token_ops(queue)
    if queue is None or ops is None:
        why = f"cannot pipeline: '{op.name}' has no token form that groups can be made of"
        advice = "write the copy as nvgpu.device_async_copy; the lowering picks the target's op"
        raise PipelineError(why, code="async-op-unsupported", at=op, advice=advice)
    return Group(number, members, first.stage, position, queue.name, ops)


def _remark_splits(
    groups: tuple[Group, ...], given: dict[int, int], diagnostics: Diagnostics
) -> None:
    made: dict[int, list[Group]] = {}
    for group in groups:
        number = given.get(group.members[0].position)
        if number is not None:
            made.setdefault(number, []).append(group)
    for parts in made.values():
        if len(parts) > 1:
            diagnostics.remark(
                f"a group of the input became {len(parts)}: its copies are not in one stage, or "
                "share memory with each other or with what is between them",
                code="group-split",
                at=parts[0].members[0].ops[0],
                notes=tuple(("another part starts here", p.members[0].ops[0]) for p in parts[1:]),
            )


# Steps -------------------------------------------------------------------------------------------

Moment = tuple[float, float]
"""(step relative to now, place in kernel order); compares like time."""

END = float("inf")

History = tuple[tuple[Moment, str, Moment], ...]
"""(when, queue, youngest commit that was over then), in the order of time."""


class PlannedWait(NamedTuple):
    """Wait for the group that was committed `distance` iterations before the unit's own."""

    group: Group
    distance: int
    stage: int

    @property
    def lag(self) -> int:
        """Kernel steps between the group's commit and the wait."""
        return self.stage + self.distance - self.group.stage

    @property
    def commit(self) -> Moment:
        """When the group was committed, seen from the step of the wait."""
        return (-self.lag, self.group.position)


class Before(NamedTuple):
    """What stands before one unit: waits, then a barrier."""

    waits: tuple[PlannedWait, ...] = ()
    barrier: bool = False

    def joined(self, other: Before) -> Before:
        """Both: one wait a queue, for the younger group."""
        return Before(youngest((*self.waits, *other.waits)), self.barrier or other.barrier)


def youngest(waits: Iterable[PlannedWait]) -> tuple[PlannedWait, ...]:
    """One wait a queue, for the youngest group: it is over after all older ones."""
    found: dict[str, PlannedWait] = {}
    for wait in waits:
        known = found.get(wait.group.queue)
        if known is None or wait.commit > known.commit:
            found[wait.group.queue] = wait
    return tuple(found.values())


class SyncState(NamedTuple):
    """What is known before a step.

    `retired` is the youngest commit of each queue that is known to be over, `barrier` the
    last barrier, `histories` when which commit was retired: one for each path to here.
    """

    retired: dict[str, Moment]
    barrier: Moment
    histories: tuple[History, ...] = ((),)

    def shifted(self) -> SyncState:
        """The same knowledge seen one step later."""

        def before(moment: Moment) -> Moment:
            return moment[0] - 1, moment[1]

        retired = {queue: before(moment) for queue, moment in self.retired.items()}
        histories = (((before(m), q, before(r)) for m, q, r in own) for own in self.histories)
        return SyncState(retired, before(self.barrier), tuple(map(tuple, histories)))

    def after(self, now: Moment, waits: Iterable[PlannedWait]) -> SyncState:
        """What is known after waits that stand at `now`."""
        found = tuple((now, wait.group.queue, wait.commit) for wait in waits)
        if not found:
            return self
        retired = dict(self.retired)
        for _, queue, commit in found:
            retired[queue] = max(retired[queue], commit)
        return SyncState(retired, self.barrier, tuple(h + found for h in self.histories))

    def knows(self, other: SyncState) -> bool:
        """Whether at least as much is over and ordered as in `other`."""
        return self.barrier >= other.barrier and all(
            self.retired[q] >= other.retired[q] for q in other.retired
        )

    def weaker(self, other: SyncState) -> SyncState:
        """What is known if either state may hold."""
        return SyncState(
            {q: min(self.retired[q], other.retired[q]) for q in self.retired},
            min(self.barrier, other.barrier),
            tuple(dict.fromkeys(self.histories + other.histories)),
        )


class ActiveStages(NamedTuple):
    """The stages whose units run in a step.

    0 … t    step t of the prologue, which fills the pipeline up to stage t
    0 …      the kernel
    e …      step e = 1, 2, … of the epilogue: stages below e have nothing left to do
    """

    first: int
    last: float = END

    def active(self, stage: int) -> bool:
        return self.first <= stage <= self.last

    def existed(self, wait: PlannedWait) -> bool:
        """Whether the group of a wait was committed, so many steps ago: its stage had begun, and was not over."""
        return self.existed_before(wait.group.stage, wait.lag)

    def existed_before(self, stage: int, lag: int) -> bool:
        return self.first - lag <= stage <= self.last - lag


@dataclass
class StepSync:
    """The synchronisation of one step: what stands before each unit (by position), and the groups
    without copies that it commits at its end."""

    before: dict[int, Before] = field(default_factory=dict)
    empty: tuple[Group, ...] = ()

    @property
    def waits(self) -> list[PlannedWait]:
        return [wait for before in self.before.values() for wait in before.waits]

    def joined(self, other: StepSync) -> StepSync:
        before = dict(self.before)
        for place, more in other.before.items():
            before[place] = before.get(place, Before()).joined(more)
        return StepSync(before)

    def waits_for_nothing(self, stages: ActiveStages) -> bool:
        """Whether it waits for a group that does not exist in this part of the pipeline."""
        return not all(map(stages.existed, self.waits))


@dataclass(frozen=True)
class Synchronisation:
    """The synchronisation of the whole loop.

    `drains` are the waits after it, as those of a step after the last one. `over`: the groups that
    a wait looks back at where neither they nor an empty one of theirs ever were; an empty group of
    their queue is committed before the kernel.
    """

    prologue: tuple[StepSync, ...] = ()
    kernel: StepSync = field(default_factory=StepSync)
    epilogue: tuple[StepSync, ...] = ()
    drains: tuple[PlannedWait, ...] = ()
    over: tuple[Group, ...] = ()

    def after_prologue(self) -> Iterator[tuple[PlannedWait, int]]:
        """Each wait of the kernel and of what follows it, and how many steps after the kernel's end
        it stands: part of what it looks back at is the epilogue itself."""
        yield from ((wait, 0) for wait in self.kernel.waits)
        yield from ((wait, e) for e, step in enumerate(self.epilogue) for wait in step.waits)
        yield from ((wait, len(self.epilogue)) for wait in self.drains)


@dataclass(frozen=True)
class Filling:
    """How many empty groups a prologue has, and how many more groups the waits of the kernel
    leave in flight because of them."""

    empty_groups: int
    kept_in_flight: int


def empty_groups(groups: tuple[Group, ...], t: int) -> tuple[Group, ...]:
    """The groups that step t of the prologue commits empty: those of stages that are not active
    yet, once the queue is in use."""
    first = {g.queue: min(o.stage for o in groups if o.queue == g.queue) for g in groups}
    return tuple(
        group for group in groups if not group.abstract and group.stage > t >= first[group.queue]
    )


def filling(plan: Synchronisation) -> Filling:
    kept, prologue = 0, plan.prologue
    for wait in plan.kernel.waits:
        # The empty groups that are younger than what the wait's first iteration waits for.
        commit = max(len(prologue) - wait.lag, wait.group.stage)
        kept += sum(
            group.queue == wait.group.queue and (t > commit or group.position > wait.group.position)
            for t, step in enumerate(prologue[commit:], commit)
            for group in step.empty
        )
    return Filling(sum(len(step.empty) for step in prologue), kept)


# What has to be over -----------------------------------------------------------------------------
#
# Which async groups must be over before which unit.
#
# Every need's group is committed before the unit that needs it: the source runs before the
# target (`legality`), and a group holds neighbours in kernel order of one stage without a
# conflict between them (`form_groups`), so no target stands between a member and the commit. The
# only wait that could come before its commit, of a consumer inside its producer's group, is
# split into two groups instead.


class Need(NamedTuple):
    """Before `unit` runs for iteration k, `group` of iteration k - distance must be over.

    Below 0 where a later iteration has the slot first, because its stage is earlier."""

    unit: Unit
    group: Group
    distance: int

    @property
    def wait(self) -> PlannedWait:
        return PlannedWait(self.group, self.distance, self.unit.stage)

    @property
    def lag(self) -> int:
        """Kernel steps between the commit of the group and this unit."""
        return self.wait.lag


def needs_of(dependences: list[Dependence], units: Units, group_of: dict[int, Group]) -> list[Need]:
    """A wait for each dependence whose source is async and in another unit or iteration."""
    needs = []
    for dependence in dependences:
        source = units.unit_of(dependence.source.top)
        target = units.unit_of(dependence.target.top)
        same = source.position == target.position and dependence.distance == 0
        if source.asynchronous and not same:
            needs.append(Need(target, group_of[source.position], dependence.distance))
    return list(dict.fromkeys(needs))


def reuse_needs(
    buffers: tuple[BufferPlan, ...], units: Units, group_of: dict[int, Group]
) -> list[Need]:
    """Async accesses of a slot must be over when the next iteration that has it writes it."""
    needs = []
    for buffer in buffers:
        uses = uses_of(buffer.regions, units, group_of)
        for first, second in sorted(buffer.meeting):
            x, w = uses[first], uses[second]
            if x.group is not None and w.writes:
                source, target = (units.unit_of(buffer.regions[i].top) for i in (first, second))
                group = group_of[source.position]
                needs += [Need(target, group, d) for d in reuses(x, w, buffer.versions) if d]
    return list(dict.fromkeys(needs))


def uses_of(
    regions: tuple[CoveredRegion, ...], units: Units, group_of: dict[int, Group]
) -> list[BufferUse]:
    """The accesses of one buffer as `version_rules` see them."""
    found = []
    for number, region in enumerate(regions):
        unit = units.unit_of(region.top)
        group = group_of.get(unit.position) if unit.asynchronous else None
        position, queue = (None, None) if group is None else (group.position, group.queue)
        updates = region.access is None or region.access.kind == "atomic"
        found.append(
            BufferUse(unit.stage, unit.position, region.writes, position, queue, number, updates)
        )
    return found
