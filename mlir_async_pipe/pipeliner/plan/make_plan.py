"""Everything that is decided about a loop before the first edit.

`make_plan` either returns a complete plan or raises a located PipelineError; nothing after
it can fail. The steps, in order: what holds whatever the schedule (`analysis`), units, legality,
groups, wait needs, versions, barrier pairs.

How many groups the waits of a kernel leave in flight is known before anything is written:

    N = D K + j - q - 1

D kernel steps after its commit a group is waited for, K groups an iteration are committed to
its queue, j of them before the wait in its step, q of them before the group in its own
(docs/exact-counts.md). The count pass finds the same numbers in the finished kernel.

One more version may save a barrier:

    wait, barrier, read slot of i, barrier, copy i + 2 into the slot of i         two versions
    wait, barrier, read slot of i, copy i + 2 into the slot of i - 1              three

With waits at the top of a step (`wait_at = "iteration"`) the barrier after them also stands between
the last step's reads and this step's copies, so a copy that fills none of the slots that are read in
its own step needs no barrier of its own. Where memory has no room for that the second one stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal

from mlir_async_pipe.bindings.raw_ops import Operation, Value, operations, unchanged, walk
from mlir_async_pipe.chips.target import Chip, Target
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.loops.statements import barriers_of, is_statement, read_body
from mlir_async_pipe.facts.values.memory_roots import Space
from mlir_async_pipe.pipeliner.dependence.memory_dependences import Analysis, analyse
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.barrier_pairs import (
    BarrierPair,
    Boundary,
    KeptBarrier,
    barrier_pairs,
    check_uniform,
    kept_barriers,
    remark_input_races,
)
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan, check_versionable
from mlir_async_pipe.pipeliner.plan.choose_versions import check_free_slots, plan_buffers
from mlir_async_pipe.pipeliner.plan.legality import check_guardable, check_memory, check_values
from mlir_async_pipe.pipeliner.plan.memory_limit import fit_into, workgroup_bytes
from mlir_async_pipe.pipeliner.plan.sync_state import (
    END,
    ActiveStages,
    Before,
    Group,
    Moment,
    Need,
    PlannedWait,
    StepSync,
    Synchronisation,
    SyncState,
    empty_groups,
    form_groups,
    needs_of,
    reuse_needs,
    uses_of,
    youngest,
)
from mlir_async_pipe.pipeliner.plan.units import Schedule, Unit, Units, in_op_form
from mlir_async_pipe.pipeliner.plan.version_rules import fits, taken_distances
from mlir_async_pipe.session.diagnostics import Diagnostics, PipelineError

# The pipelined form of one loop as data: everything that the writer needs to know.


Buffers = tuple[BufferPlan, ...]


@dataclass(frozen=True)
class RingCounter:
    """Slot and phase of the tiles of a ring of so many `versions`, one tile an iteration: `slot` and `phase`
    stand for those of an iteration wherever its ops use them, and after the loop for those of the next
    tile; `start` are those of the first. `earlier` stands for the slot `tiles` before, `from_start` also for those of which
    the loop has none."""

    versions: int
    slot: Value
    phase: Value
    earlier: Value
    tiles: int
    from_start: bool
    start: tuple[Value, Value]


@dataclass(frozen=True)
class Tiles:
    """What a loop over all steps of all tiles is written as, a loop over the steps in one over the tiles: `bounds` of
    the outer one, and how many `steps` each tile has, more than the pipeline has prologue steps. In the body `tile` is
    the tile of a step, `ends` whether the step is its last, `tail` the branch on that, if something comes after them."""

    bounds: tuple[Value, Value, Value]
    steps: Value
    tile: Value
    ends: Value
    tail: Operation | None


@dataclass(frozen=True)
class Plan:
    """The pipelined form of one loop, decided but not yet written.

    `trip_count` is None if it is not constant. `needs`, `barriers` and `kept_barriers` say what has to be over
    before what, `synchronisation` where the waits and barriers stand that see to it.
    """

    loop: Operation
    units: Units
    trip_count: int | None
    epilogue: Literal["peel", "predicate"]
    short_trip: Literal["version", "predicate", "assume"]
    wait_at: Literal["consumer", "iteration"] = "consumer"
    groups: tuple[Group, ...] = ()
    buffers: Buffers = ()
    needs: tuple[Need, ...] = ()
    barriers: tuple[BarrierPair, ...] = ()
    kept_barriers: tuple[KeptBarrier, ...] = ()
    synchronisation: Synchronisation = field(default_factory=Synchronisation)
    boundary: Boundary = field(default_factory=Boundary)
    counters: tuple[RingCounter, ...] = ()
    # What the prologue leaves out: what it waits for is over from the start.
    kernel_only: tuple[Operation, ...] = ()
    tiles: Tiles | None = None
    # Of a predicated kernel, the last stages that are not: the loop has as many iterations.
    peeled: int = 0

    @property
    def last_stage(self) -> int:
        """S - 1: as many prologue steps run before the kernel."""
        return self.units.last_stage

    @property
    def may_be_short(self) -> bool:
        """Whether the loop stays beside its pipeline, for trip counts that are too small."""
        return self.trip_count is None and self.last_stage > 0 and self.short_trip == "version"

    @property
    def meets(self) -> bool:
        """Whether there are barriers in the pipeline or around it."""
        around = self.boundary.before | self.boundary.after
        return bool(self.barriers or self.kept_barriers or around)

    @property
    def fenced(self) -> frozenset[Space]:
        """The memory spaces that a barrier between threads has to order."""
        return frozenset(space for pair in self.barriers for space in pair.spaces)

    @property
    def peeled_epilogue(self) -> int:
        """How many steps stand after the kernel; a predicated kernel runs them itself."""
        return self.peeled if self.epilogue == "predicate" else self.last_stage


# No chip has memory for the versions of more: 1024 of 256 bytes are 256 KiB.
MOST_STAGES = 1024


@dataclass(frozen=True)
class Limits:
    """What the user and the chip allow: bytes of workgroup memory (None: no limit), and the chip
    (None: not decided)."""

    workgroup_bytes: int | None = None
    noalias_arguments: bool = False
    chip: Chip | None = None

    @staticmethod
    def of(smem_limit: int, target: Target | None, noalias_arguments: bool = False) -> Limits:
        """Those of a target; `smem_limit` are the bytes that the user wants to spend, 0 for all."""
        chip = None if target is None else target.chip
        return Limits(
            smem_limit or (chip.workgroup_bytes if chip else None), noalias_arguments, chip
        )


@unchanged()
def make_plan(
    loop: Operation, limits: Limits, diagnostics: Diagnostics, around: Surroundings
) -> Plan | None:
    """Decide everything; None (with a remark) if the loop is better left alone.

    Raises PipelineError with the code of what cannot be done or proven.
    """
    annotations = names.read_loop(loop)
    if any(op.name == "scf.for" and names.is_requested(op) for op in walk(loop) if op != loop):
        why = "cannot pipeline: a loop inside still waits to be pipelined itself"
        raise PipelineError(why, code="inner-loop-first", at=loop)
    body = read_body(loop)
    units = Units(body, in_op_form(body))
    trips = static_trip_count(loop)
    if trips is not None and trips < units.last_stage and annotations.short_trip != "predicate":
        diagnostics.warning(
            f"the loop runs {trips} times, fewer than the {units.last_stage} iterations that "
            "the pipeline keeps in flight; it stays as it is",
            code="short-trip",
            at=loop,
        )
        return None
    if units.last_stage >= MOST_STAGES:
        raise PipelineError(
            f"cannot pipeline: the loop has {units.last_stage + 1} stages, at most {MOST_STAGES} "
            "are possible",
            code="too-many-stages",
            at=loop,
            advice="take fewer: each stage but one is an iteration that is written out before the loop",
        )
    check_values(units)
    if "predicate" in (annotations.epilogue, annotations.short_trip):
        check_guardable(units)
    analysis = analyse(body, annotations.independent, limits.noalias_arguments, around)
    check_memory(analysis.dependences, analysis.privatisation.obstacles, units)
    remark_input_races(body, analysis.regions, analysis.index, diagnostics)
    plan = plan_schedule(
        analysis, units, annotations.wait_at or "consumer", annotations, limits, diagnostics
    )
    _check_nested(plan)
    given = barriers_of(body)
    if given and not plan.meets:
        why = "no two threads touch what these barriers stand between; the pipeline has none"
        notes = tuple(("another one", op) for op in given[1:])
        diagnostics.remark(why, code="barriers-dropped", at=given[0], notes=notes)
    return plan


def plan_schedule(
    analysis: Analysis,
    units: Units,
    wait_at: Literal["consumer", "iteration"],
    annotations: names.LoopAnnotations,
    limits: Limits,
    diagnostics: Diagnostics,
) -> Plan:
    """Groups, versions, waits and barriers of a legal schedule; raises PipelineError."""
    loop = analysis.body.loop
    kept = kept_barriers(units, analysis.regions)
    groups = form_groups(units, analysis.dependences, diagnostics)
    group_of = {member.position: group for group in groups for member in group.members}
    needs = needs_of(analysis.dependences, units, group_of)
    plan = Plan(
        loop,
        units,
        static_trip_count(loop),
        # Without a guarantee of S-1 iterations an epilogue could not be peeled.
        "predicate" if annotations.short_trip == "predicate" else annotations.epilogue,
        annotations.short_trip,
        wait_at,
        groups,
        plan_buffers(analysis, units, group_of, needs, wait_at),
        kept_barriers=kept,
    )

    def with_waits(
        buffers: Buffers, barriers: tuple[BarrierPair, ...] = (), boundary: Boundary = plan.boundary
    ) -> Plan:
        found = tuple(dict.fromkeys(needs + reuse_needs(buffers, units, group_of)))
        asked = replace(plan, buffers=buffers, needs=found, barriers=barriers, boundary=boundary)
        return synchronised(asked)

    def counts(buffers: Buffers) -> dict[str, list[int]]:
        return kernel_counts(with_waits(buffers).synchronisation.kernel, groups)

    buffers, limit = plan.buffers, limits.workgroup_bytes
    planned = {buffer.root.identity for buffer in buffers}
    beside = analysis.around.workgroup_bytes_beside(loop, planned)
    if limit is not None:
        uses = [uses_of(buffer.regions, units, group_of) for buffer in buffers]
        buffers = fit_into(limit, beside, loop, buffers, uses, counts, diagnostics)
    for buffer in buffers:
        if buffer.versions > 1:
            check_versionable(buffer, loop)

    def complete(buffers: Buffers) -> Plan:
        pairs, boundary = barrier_pairs(analysis, units, buffers, limits.noalias_arguments)
        return with_waits(buffers, pairs, boundary)

    found = complete(buffers)
    if wait_at == "iteration":
        found = with_one_barrier(found, complete, None if limit is None else limit - beside)
    if found.epilogue == "predicate":
        check_free_slots(units, analysis.regions, found.buffers, analysis.index)
    if found.meets:
        check_uniform(loop)
    return found


def plan_places(
    analysis: Analysis,
    schedule: Schedule,
    wait_at: Literal["consumer", "iteration"],
    annotations: names.LoopAnnotations,
    limits: Limits,
) -> Plan:
    """The plan of a schedule that stands on no op; raises PipelineError where the expander would refuse it."""
    units = Units(analysis.body, schedule)
    check_values(units)
    check_memory(analysis.dependences, analysis.privatisation.obstacles, units)
    return plan_schedule(analysis, units, wait_at, annotations, limits, Diagnostics())


def share_barriers(plans: list[Plan], around: Surroundings) -> list[Plan]:
    """Leave out the barrier before a loop where the one after the loop in front does for both.

    After a loop that may be too short for its pipeline stands no barrier on every path."""
    after = {plan.loop: plan.boundary.after for plan in plans if not plan.may_be_short}
    shared = []
    for plan in plans:
        previous = around.loop_before(plan.loop) if plan.boundary.before else None
        if previous is not None and plan.boundary.before <= after.get(previous, frozenset()):
            plan = replace(plan, boundary=replace(plan.boundary, before=frozenset()))
        shared.append(plan)
    return shared


def kernel_counts(step: StepSync, groups: tuple[Group, ...]) -> dict[str, list[int]]:
    """The counts of the waits in one step of the kernel, by queue."""
    positions: dict[str, list[int]] = defaultdict(list)
    for group in groups:
        positions[group.queue].append(group.position)
    counts: dict[str, list[int]] = defaultdict(list)
    for place, before in step.before.items():
        for wait in before.waits:
            queue = positions[wait.group.queue]
            issued = sum(position < place for position in queue)
            older = sum(position < wait.group.position for position in queue)
            counts[wait.group.queue].append(wait.lag * len(queue) + issued - older - 1)
    return dict(counts)


def with_one_barrier(plan: Plan, complete: Callable[[Buffers], Plan], limit: int | None) -> Plan:
    """The plan, or one with more versions and fewer barriers in the kernel; `complete` plans waits
    and barriers for given versions, `limit` is the workgroup memory in bytes (None: enough)."""
    if _barriers(plan) < 2:
        return plan
    wider = tuple(_one_more(buffer, plan) for buffer in plan.buffers)
    if limit is not None and workgroup_bytes(wider) > limit:
        return plan
    best = complete(wider)
    if _barriers(best) >= _barriers(plan):
        return plan
    # Take back the versions that save nothing.
    for number, buffer in enumerate(plan.buffers):
        if best.buffers[number].versions == buffer.versions:
            continue
        fewer = (*best.buffers[:number], buffer, *best.buffers[number + 1 :])
        found = complete(fewer)
        if _barriers(found) == _barriers(best):
            best = found
    return best


def _one_more(buffer: BufferPlan, plan: Plan) -> BufferPlan:
    """A buffer in workgroup memory with one version more, if it may have that."""
    if buffer.root.space != "workgroup" or buffer.extra_wait:
        return buffer
    group_of = {member.position: group for group in plan.groups for member in group.members}
    taken = taken_distances(uses_of(buffer.regions, plan.units, group_of), buffer.contents)
    more = replace(buffer, versions=buffer.versions + 1)
    try:
        check_versionable(more, plan.loop)
    except PipelineError:
        return buffer
    return more if fits(more.versions, taken) else buffer


def _barriers(plan: Plan) -> int:
    return sum(before.barrier for before in plan.synchronisation.kernel.before.values())


# An expanded inner loop inside a loop that is to be expanded too ------------------------------
#
#     scf.for %k {                               scf.for %k {
#       copies      {stage = 0}                    copies               {stage = 0}
#       scf.for %j {…} {part_stages = [2,3,3]}     inner prologue       {stage = 2, order = 3}
#                                           -->    scf.for, its kernel  {stage = 3, order = 2}
#                                                  inner epilogue       {stage = 3, order = 4}
#     }                                          }
#
# The prologue, kernel and epilogue of the inner loop are one statement each of the outer one:
# here the next tile's first fragments are loaded before this tile's last ones are used.


def _check_nested(plan: Plan) -> None:
    """Raise PipelineError for an inner pipeline that an outer one cannot carry on:
    nested-async (its waits would have to be derived anew) and inner-loop-versioned."""
    parts = names.parts_of(plan.loop)
    if not parts:
        return
    # Whether the parts are in one stage, with nothing between them.
    stages, orders = {stage for stage, _ in parts}, [order for _, order in parts]
    beside = [op for op in operations(plan.loop.block) if op != plan.loop and is_statement(op)]
    between = [
        o for o in map(names.order_of, beside) if o is not None and orders[0] <= o <= orders[-1]
    ]
    together = len(stages) == 1 and orders == sorted(orders) and not between
    if plan.groups and not together:
        raise PipelineError(
            "cannot pipeline: the prologue, kernel and epilogue of an inner pipelined loop with "
            "async statements of its own have to follow each other in one stage of the outer loop",
            code="nested-async",
            at=plan.loop,
            notes=(("one of its async ops", plan.groups[0].members[0].ops[0]),),
        )
    if plan.may_be_short and len(stages) > 1:
        raise PipelineError(
            "cannot pipeline: the inner loop's trip count is not known, so it needs a version for "
            "short trips, and its parts cannot stand in different stages",
            code="inner-loop-versioned",
            at=plan.loop,
            advice='give the inner loop async_pipe.short_trip = "predicate", or "assume" if it '
            "always runs long enough",
        )


# Where waits and barriers stand in each step: prologue, kernel and epilogue alike.
#
# A step is walked in kernel order with what is known so far: how far each queue has been
# retired, and where the last barrier stood. A wait is emitted before the first unit that
# needs a group not known to be over, a barrier before the first unit that must not run
# before what another thread did. So nothing redundant is emitted, and nothing is moved over
# a commit. With `wait_at = "iteration"` the waits of a step stand together at its top.
#
# Example (three stages, copy in stage 0, reader in stage 2, three slots): at the top of the
# kernel one wait for the group of two steps ago; then, before the copy overwrites the slot
# that was read one step ago, one barrier; the reader needs nothing more, because that barrier
# stands after the wait.
#
# The kernel's entry state is the weaker of "coming from the prologue" and "coming from the kernel
# itself". Where that makes it wait for what, in its first iterations, never was (a later stage of the
# same queue had not begun), those iterations are simulated one by one instead.


def synchronised(plan: Plan) -> Plan:
    """The plan with every wait and barrier that its needs and barrier pairs ask for."""
    needs: dict[int, list[PlannedWait]] = defaultdict(list)
    for need in plan.needs:
        needs[need.unit.position].append(need.wait)
    pairs: dict[int, list[BarrierPair]] = defaultdict(list)
    for pair in plan.barriers:
        pairs[pair.second.position].append(pair)
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
        return SyncState({group.queue: (-END, 0) for group in self.plan.groups}, (-END, 0))

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
                stages.existed_before(pair.first.stage, pair.lag)
                and not state.barrier > self._finished(pair, state)
                for pair in self.pairs.get(unit.position, ())
            )
            if barrier:
                state = state._replace(barrier=(0, unit.position - 0.25))
            if waits or barrier:
                step.before[unit.position] = Before(waits, barrier)
        return step, state

    def _needs(self, unit: Unit, stages: ActiveStages) -> list[PlannedWait]:
        return list(filter(stages.existed, self.needs.get(unit.position, ())))

    def _keeps_barrier(self, unit: Unit) -> bool:
        """Whether a barrier of the input stands before the unit and fences all that the derived ones do."""
        if not self.plan.kept_barriers:
            return False
        fenced = self.plan.fenced
        return any(kept.unit == unit and fenced <= kept.spaces for kept in self.plan.kept_barriers)

    def _finished(self, pair: BarrierPair, state: SyncState) -> Moment:
        """When the first end of a pair was over, after which a barrier must stand."""
        group = self.group_of.get(pair.first.position)
        if group is None:
            return (-pair.lag, pair.first.position)
        # When a commit that is over was retired; if a history does not reach back that far, at the latest at the
        # end of the last step.
        commit = (-pair.lag, group.position)
        return max(
            min(
                (m for m, q, retired in h if q == group.queue and retired >= commit),
                default=(-1, END),
            )
            for h in state.histories
        )

    def without_idle_barrier(self, state: SyncState) -> SyncState:
        """If nothing of the prologue asks for a barrier, entering the kernel is like coming right after one."""
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
