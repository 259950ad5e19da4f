"""Schedules a loop by a modulo schedule: what is common to `by_latency` and `by_units`.

    loop -> numbers (`read`) -> ModuloProblem (`by_latency`, `by_units`) -> ModuloSchedule (`solve`)
         -> kernel: stages and order of the nodes -> planned and timed -> Decision

What a problem cannot say (barriers that a schedule needs, groups that are waited for together) the
plan of the kernel tells. So where a loop has several problems, with waits at the top of a step or before
their consumers, the best kernel counts: the smallest interval, then the fewest stages, bytes, barriers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import TopologicalSorter
from math import ceil
from typing import Any, Literal

from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.cost_model import CostModel, QueueClock
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.pipeliner.dependence.memory_dependences import analyse
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.make_plan import Limits, Plan, plan_places
from mlir_async_pipe.pipeliner.plan.sync_state import Before
from mlir_async_pipe.pipeliner.plan.units import SchedulePlace, Unit
from mlir_async_pipe.pipeliner.schedule.by_count import Decision
from mlir_async_pipe.pipeliner.schedule.modulo.read import LoopNumbers, Reading, UnitCosts, read
from mlir_async_pipe.pipeliner.schedule.modulo.solve import (
    TOLERANCE,
    ModuloProblem,
    ModuloSchedule,
    bytes_of_ranges,
    solve,
    taken,
    versions_of,
)
from mlir_async_pipe.session.diagnostics import PipelineError, Place
from mlir_async_pipe.session.report import Session


@dataclass(frozen=True)
class ScheduleRecord:
    """One loop that was scheduled, in the report. `interval` are the cycles between two iterations in the steady
    state, `lower_bound` those that no schedule can go below, `bound_by` what sets the interval. `shared_bytes` are
    those of all versions in workgroup memory. `proven`: no schedule has a smaller interval. `roles` are those of a
    loop of tensor copies, `partitions` what each way of parting its warps gives."""

    place: Place
    interval: float
    lower_bound: float
    bound_by: str
    bound_at: tuple[str, ...]
    stages: int
    versions: int
    shared_bytes: int
    barriers: int
    proven: bool
    roles: str = ""
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchOptions:
    """What a schedule may use, and what things cost on which target."""

    largest_stages: int
    limits: Limits
    model: CostModel
    target: Target | None


WORKGROUP = "workgroup"


@dataclass(frozen=True)
class Capacity:
    """What there is of a memory, in bytes, beside the `beside` units of `unit` bytes that are taken anyway."""

    memory: str
    most: int
    what: str = "bytes of workgroup memory"
    unit: int = 1
    beside: int = 0

    def number(self, taken: int) -> int:
        """Units, for so many bytes."""
        return taken // self.unit + self.beside


@dataclass(frozen=True)
class Formulation:
    """A loop as a problem: the task of each node, which nodes come first where tasks begin together,
    where waits stand, and how many of the problem's cycles are one."""

    problem: ModuloProblem
    task_of: tuple[int, ...]
    ranks: tuple[int, ...]
    wait_at_top: bool
    scale: int = 1
    # The moments of each copy on its queue, where the problem has any.
    queued: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """The best kernel, and the schedule that it comes from; no interval below `least` is possible."""

    kernel: TrialResult
    schedule: ModuloSchedule
    formulation: Formulation
    least: float

    @property
    def kept(self) -> bool:
        """Whether the kernel is as fast as the schedule."""
        return self.kernel.interval * self.formulation.scale <= self.schedule.interval + TOLERANCE

    def taken(self, memory: str) -> int:
        """Bytes of versions as they are planned, or, in registers, as they are scheduled."""
        if memory == WORKGROUP:
            return self.kernel.shared_bytes
        return taken(self.formulation.problem, self.schedule.begins, self.schedule.interval, memory)

    @property
    def proven(self) -> bool:
        return self.kernel.interval <= self.least * (1 + 1e-6)


@dataclass(frozen=True)
class Explained:
    """A schedule in words: what sets its interval, and at which ops, and notes on where all runs."""

    message: str
    bound_by: str
    lower_bound: float
    bound_at: tuple[tuple[str, Any], ...]
    notes: tuple[tuple[str, Any], ...]


class Scheduling(ABC):
    """One loop, from its ops to a decision. What its tasks are, the classes below this one say."""

    code: str
    # Whether the kernel is timed as one thread, else its interval is that of the problem.
    timed: bool
    constraints: int

    def __init__(
        self, body: Body, options: SearchOptions, session: Session, around: Surroundings
    ) -> None:
        self.body, self.options, self.session = body, options, session
        annotations = names.read_loop(body.loop)
        self.costs = UnitCosts(options.model, options.target)
        # With T iterations at most T stages: the kernel runs T - (S - 1) times.
        trips = static_trip_count(body.loop)
        self.largest_stages = max(1, min(trips or options.largest_stages, options.largest_stages))
        self.reading: Reading = read(
            analyse(body, annotations.independent, False, around),
            self.costs,
            options.model.barrier,
            self.largest_stages,
            annotations.wait_at,
        )
        self.nodes = self.reading.loop.nodes

    @abstractmethod
    def formulations(self) -> list[Formulation]:
        """The problems that are tried, the best of them first."""

    def usual_kernels(self, largest: int) -> list[KernelSchedule]:
        """Kernels that are tried as well where no schedule is proven."""
        return []

    @abstractmethod
    def explained(self, found: Found, held_down_by: str | None) -> Explained:
        """What is reported of the schedule that was found."""

    @cached_property
    def capacities(self) -> list[Capacity]:
        limit = self.options.limits.workgroup_bytes
        return [] if limit is None else [Capacity(WORKGROUP, limit)]

    def run(self) -> Decision | None:
        """The decision; None (with a warning) if nothing can overlap. Raises PipelineError if no schedule is legal."""
        found, held_down_by = self._best()
        said = self.explained(found, held_down_by)
        loop, best = self.body.loop, found.kernel
        stages = best.schedule.stage_count
        record = ScheduleRecord(
            Place.of(loop),
            round(best.interval, 3),
            round(said.lower_bound, 3),
            said.bound_by,
            tuple(f"{Place.of(op)}" for _, op in said.bound_at),
            stages,
            best.versions,
            best.shared_bytes,
            best.barriers,
            found.proven,
        )
        self.session.record("schedules", record)
        if self.session.explain:
            self.session.diagnostics.remark(said.message, code=self.code, at=loop, notes=said.notes)
        if stages == 1 and not names.is_inside_pipeline(loop):
            text = f"{said.message}: the loop stays as it is"
            self.session.diagnostics.warning(
                text, code="nothing-to-overlap", at=loop, notes=said.bound_at
            )
            return None
        slots = statement_slots(self.reading, best.schedule)
        return Decision(self.body, slots, best.schedule.wait_at)

    def _best(self) -> tuple[Found, str | None]:
        """The best schedule that fits workgroup memory, and what limits its stages."""
        free = self._search(self._trials(None), self.largest_stages)
        if isinstance(free, PipelineError):
            raise free
        stages, capacities = free.kernel.schedule.stage_count, self.capacities
        over = [each for each in capacities if free.taken(each.memory) > each.most]
        if not over:
            return free, f"{stages} stages" if stages == self.largest_stages else None
        limits = tuple((each.memory, each.most) for each in capacities)
        planned = dict(limits).get(WORKGROUP)
        trials = self._trials(planned)
        # A plan may do with fewer versions than the problem says, by a wait more, or need one more:
        # then fewer stages may be better than what the problem says with the limit in it.
        best: Found | PipelineError = self._search(trials, self.largest_stages, limits)
        others = tuple(limit for limit in limits if limit[0] != WORKGROUP)
        for largest in range(stages, 0, -1):
            if isinstance(best, Found) and best.kept:
                break
            other = self._search(trials, largest, others)
            if isinstance(best, PipelineError) or (
                isinstance(other, Found) and other.kernel.key < best.kernel.key
            ):
                best = other
        if isinstance(best, PipelineError):
            raise best
        much = " and ".join(
            f"{each.number(free.taken(each.memory))} {each.what}, the limit is {each.number(each.most)}"
            for each in over
        )
        now = f"{best.kernel.schedule.stage_count} stages and {best.kernel.interval:g} cycles between iterations"
        said = f"{now} instead of {stages} and {free.kernel.interval:g}: those would need {much}"
        self.session.diagnostics.remark(said, code="stages-reduced", at=self.body.loop)
        fit = " and ".join(f"{each.number(each.most)} {each.what}" for each in over)
        return best, f"the stages that fit into {fit}"

    def _trials(self, limit: int | None) -> Trials:
        limits = Limits(limit, chip=self.options.limits.chip)
        return Trials(self.reading, self.costs, self.options.model, limits)

    def _search(
        self, trials: Trials, largest: int, limits: tuple[tuple[str, int], ...] = ()
    ) -> Found | PipelineError:
        """The best kernel within `largest` stages that `trials` allow, or why there is none."""
        kernels: list[Found] = []
        least = []
        for formulation in self.formulations():
            if any(
                f.kept and f.formulation.wait_at_top == formulation.wait_at_top for f in kernels
            ):
                # The first of two was less strict, and its kernel is as good as it promised.
                continue
            problem = replace(formulation.problem, largest_stages=largest, limits=limits)
            shortest = 1
            for _ in range(2):
                schedule = solve(problem, self.constraints, shortest)
                if schedule is None:
                    break
                tried = self._tried(trials, formulation, problem, schedule)
                if tried is None:
                    break
                if shortest == 1:
                    least.append(schedule.least / formulation.scale)
                kernels.append(Found(tried, schedule, formulation, 0))
                if kernels[-1].kept:
                    break
                # So long a step may need fewer stages.
                shortest = ceil(tried.interval * formulation.scale - TOLERANCE)
        if not kernels:
            return trials.refusal or PipelineError(
                f"cannot pipeline: no schedule keeps the dependences{' and limits' * bool(limits)} within {largest} stages",
                code="dependence-violated",
                at=self.body.loop,
            )
        best = replace(min(kernels, key=lambda found: found.kernel.key), least=min(least))
        if best.proven or any(s.part for s in self.body.statements):
            return best
        usual = (trials.outcome(kernel) for kernel in self.usual_kernels(largest))
        others = [replace(best, kernel=kernel) for kernel in usual if kernel is not None]
        return min([best, *others], key=lambda found: found.kernel.key)

    def _tried(
        self,
        trials: Trials,
        formulation: Formulation,
        problem: ModuloProblem,
        schedule: ModuloSchedule,
    ) -> TrialResult | None:
        begins, interval = schedule.begins, schedule.interval
        kernel = kernel_of(self.reading.loop, formulation, begins, interval)
        promised = interval / formulation.scale
        if not any(s.part for s in self.body.statements):
            return trials.outcome(kernel, None if self.timed else promised)
        # A loop cannot be planned if a loop inside of it will be: what the problem says of it.
        return TrialResult(
            kernel,
            promised,
            bytes_of_ranges(problem, begins, interval, WORKGROUP),
            schedule.bytes,
            sum(versions_of(problem, begins, interval, live) for live in problem.ranges),
            int(self.reading.loop.has_barriers),
        )


def kernel_of(
    loop: LoopNumbers, formulation: Formulation, begins: Sequence[int], interval: int
) -> KernelSchedule:
    """Stages and order of the nodes of a schedule, cut at moment 0, or, if nothing stands at the top of a
    step, where stages and then the values that are carried to later ones are fewest."""
    fixed = any(task.offset is not None for task in formulation.problem.tasks)

    def stages_at(cut: int) -> list[int]:
        found = [(begins[task] - cut) // interval for task in formulation.task_of]
        return [stage - min(found) for stage in found]

    def cost(cut: int) -> tuple[int, int, int]:
        stages = stages_at(cut)
        values = (
            e for e in loop.edges if e.distance == 0 and not loop.nodes[e.source].asynchronous
        )
        return max(stages), sum(stages[e.target] - stages[e.source] for e in values), cut

    cuts = {0} if fixed else {0, *(begins[task] % interval for task in formulation.task_of)}
    cut = min(cuts, key=cost)
    at, stages = [begins[task] - cut for task in formulation.task_of], stages_at(cut)
    # Nodes that take no time may begin together: what they need in the same step comes first.
    needs = TopologicalSorter[int](dict.fromkeys(range(len(at)), ()))
    for edge in loop.edges:
        if stages[edge.target] + edge.distance == stages[edge.source]:
            needs.add(edge.target, edge.source)
    needs.prepare()

    def key(node: int) -> tuple[int, bool, list[int], int, int]:
        held = formulation.problem.held_in_order(formulation.task_of[node]) > 0
        # Of copies that begin together the first on its queue is the first in the kernel.
        queued = [begins[moment] - cut - at[node] for moment in formulation.queued.get(node, ())]
        return at[node] % interval, held, queued, formulation.ranks[node], node

    ready: list[int] = []
    order: list[int] = []
    while needs.is_active():
        ready += needs.get_ready()
        order.append(min(ready, key=key))
        ready.remove(order[-1])
        needs.done(order[-1])
    return KernelSchedule(tuple(stages), tuple(order), formulation.wait_at_top)


# Trials ------------------------------------------------------------------------------------------
#
# Tries the kernel of a schedule: plans it as the expander would, and runs it with a clock. Nothing is edited.


@dataclass(frozen=True)
class KernelSchedule:
    """A stage for each node, the nodes in kernel order, and where waits stand."""

    stages: tuple[int, ...]
    order: tuple[int, ...]
    wait_at_top: bool

    @property
    def stage_count(self) -> int:
        """S: one more than the last stage."""
        return max(self.stages) + 1

    @property
    def wait_at(self) -> Literal["iteration", "consumer"]:
        return "iteration" if self.wait_at_top else "consumer"


@dataclass(frozen=True)
class TrialResult:
    """What a kernel gives: cycles an iteration, bytes and number of its versions, barriers a step."""

    schedule: KernelSchedule
    interval: float
    shared_bytes: int
    bytes: int
    versions: int
    barriers: int

    @property
    def key(self) -> tuple[float, int, int, int]:
        """What is compared: the interval, the stages, the bytes of the versions, the barriers."""
        return round(self.interval, 6), self.schedule.stage_count, self.bytes, self.barriers


@dataclass
class Trials:
    """Tries kernels of one loop. `refusal` is why the one with the fewest stages was refused, if any was."""

    reading: Reading
    costs: UnitCosts
    model: CostModel
    limits: Limits
    refusal: PipelineError | None = None
    _refused_stages: int = 0

    def outcome(
        self, schedule: KernelSchedule, promised: float | None = None
    ) -> TrialResult | None:
        """What a kernel gives, None if the expander refuses it; without a `promised` interval that of the time line."""
        try:
            plan = self.plan(schedule)
        except PipelineError as refusal:
            if self.refusal is None or schedule.stage_count < self._refused_stages:
                self.refusal, self._refused_stages = refusal, schedule.stage_count
            return None
        sizes = [(b.root.space, b.versions * b.slot_bytes) for b in plan.buffers]
        before = plan.synchronisation.kernel.before.values()
        return TrialResult(
            schedule,
            steady_interval(plan, self.costs, self.model) if promised is None else promised,
            sum(size for space, size in sizes if space == WORKGROUP),
            sum(size for _, size in sizes),
            sum(b.versions for b in plan.buffers),
            sum(entry.barrier for entry in before) + len(plan.kept_barriers),
        )

    def plan(self, schedule: KernelSchedule) -> Plan:
        """The plan of a schedule; raises PipelineError where the expander would refuse it."""
        reading = self.reading
        slots = statement_slots(reading, schedule)
        places = {s.op: slots[s.number] for s in reading.body.statements}
        annotations = names.read_loop(reading.body.loop)
        plan = plan_places(reading.analysis, places, schedule.wait_at, annotations, self.limits)
        # The steady state is the same for every number of trips.
        return replace(plan, trip_count=None)


def statement_slots(reading: Reading, schedule: KernelSchedule) -> tuple[SchedulePlace, ...]:
    """Where each statement runs: the nodes in kernel order, their statements in textual."""
    nodes, statements = reading.loop.nodes, reading.body.statements
    ranked = [(number, node) for node in schedule.order for number in nodes[node].statements]
    found = []
    for order, (number, node) in enumerate(ranked):
        later = statements[number].op in reading.asynchronous
        found.append((number, SchedulePlace(schedule.stages[node], order, later)))
    return tuple(place for _, place in sorted(found))


# The steady state ----------------------------------------------------------------------------
#
# The interval of a planned kernel: its waits, barriers and groups in the cycles of the machine.
#
# The step is run again and again with the clocks of the timeline until the clocks stand to each
# other as they did some steps before: the system is max-plus linear, so from then on it repeats.

LARGEST_STEPS = 600


class _Run:
    """Runs steps of the kernel with a clock."""

    def __init__(self, plan: Plan, costs: UnitCosts, model: CostModel) -> None:
        self._plan = plan
        self._before = plan.synchronisation.kernel.before
        self._costs = costs
        self._model = model
        self._commits = {group.members[-1].position: group for group in plan.groups}
        # Of each group the arrivals, the youngest last; only what a wait can name is kept.
        self._arrivals: dict[int, list[float]] = {group.number: [] for group in plan.groups}
        self._clocks: dict[str, QueueClock] = {}
        self._input_barriers = {kept.unit.position for kept in plan.kept_barriers}
        self._kept = 1 + max((need.lag for need in plan.needs), default=0)
        self.now = 0.0

    def step(self) -> None:
        """One iteration of the kernel."""
        self._synchronise(-1)
        for unit in self._plan.units.units:
            self._synchronise(unit.position)
            self._run(unit)
            group = self._commits.get(unit.position)
            if group is not None:
                queue = self._costs.queue(group.queue)
                clock = self._clocks.get(queue, QueueClock())
                arrival = clock.arrivals[-1] if clock.arrivals else 0.0
                found = self._arrivals[group.number]
                self._arrivals[group.number] = [*found, arrival][-self._kept :]

    def _synchronise(self, position: int) -> None:
        before = self._before.get(position, Before())
        for wait in before.waits:
            found = self._arrivals[wait.group.number]
            # After its commit of the same step a wait means the last arrival, before it
            # the last one is that of the step before.
            committed = 0 <= wait.group.position < position
            back = wait.lag if committed else wait.lag - 1
            if back < len(found):
                self.now = max(self.now, found[len(found) - 1 - back])
        barriers = before.barrier + (position in self._input_barriers)
        self.now += barriers * self._model.barrier

    def _run(self, unit: Unit) -> None:
        for copy in self._costs.copies(unit):
            clock = self._clocks.setdefault(copy.queue, QueueClock())
            clock.issue(self.now, copy.occupancy, copy.latency)
            del clock.arrivals[:-1]
            self.now += copy.held
        self.now += self._costs.held(unit)

    def state(self) -> tuple[float, ...]:
        """The clocks relative to now; what is over counts as over now."""
        clocks = [clock.free for clock in self._clocks.values()]
        clocks += [clock.arrivals[-1] for clock in self._clocks.values()]
        clocks += [moment for found in self._arrivals.values() for moment in found]
        return tuple(round(max(0.0, moment - self.now), 6) for moment in clocks)


def steady_interval(plan: Plan, costs: UnitCosts, model: CostModel) -> float:
    """Run the kernel until it repeats; the mean over a period is the interval."""
    run = _Run(plan, costs, model)
    seen: dict[tuple[float, ...], tuple[int, float]] = {}
    for number in range(LARGEST_STEPS):
        run.step()
        state = run.state()
        if state in seen:
            step, moment = seen[state]
            return (run.now - moment) / (number - step)
        seen[state] = (number, run.now)
    return run.now / LARGEST_STEPS
