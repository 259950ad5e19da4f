"""Tries the kernel of a schedule: plans it as the expander would, and runs it with a clock.

Nothing is edited. So groups, waits, barriers and versions are those that the loop will get, and
the interval is that of the timeline.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from mlir_async_pipe.facts.costs.cost_model import CostModel, QueueClock
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.pipeliner.plan.make_plan import Limits, Plan, plan_places
from mlir_async_pipe.pipeliner.plan.statement_places import SchedulePlace
from mlir_async_pipe.pipeliner.plan.sync_state import Before
from mlir_async_pipe.pipeliner.plan.units import Unit
from mlir_async_pipe.pipeliner.schedule.modulo.read import Reading, UnitCosts
from mlir_async_pipe.session.diagnostics import PipelineError


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


@dataclass(frozen=True)
class TrialResult:
    """What a kernel gives: cycles between iterations in the steady state, bytes of all versions in
    workgroup memory and elsewhere, the number of versions, barriers a step."""

    schedule: KernelSchedule
    interval: float
    shared_bytes: int
    private_bytes: int
    versions: int
    barriers: int

    @property
    def key(self) -> tuple[float, int, int, int]:
        """What is compared: the interval, the stages, the bytes of the versions, the barriers."""
        return (
            round(self.interval, 6),
            self.schedule.stage_count,
            self.shared_bytes + self.private_bytes,
            self.barriers,
        )


class Trials:
    """Tries kernels of one loop. `refusal` is why the one with the fewest stages was refused,
    None if none was."""

    def __init__(
        self, reading: Reading, costs: UnitCosts, model: CostModel, limits: Limits
    ) -> None:
        self._reading = reading
        self._costs = costs
        self._model = model
        self._limits = limits
        self._annotations = names.read_loop(reading.body.loop)
        self.refusal: PipelineError | None = None
        self._refused_stages = 0

    def outcome(
        self, schedule: KernelSchedule, promised: float | None = None
    ) -> TrialResult | None:
        """What a kernel gives, None if the expander would refuse it; without a `promised` interval
        that of the time line."""
        try:
            plan = self.plan(schedule)
        except PipelineError as refusal:
            if self.refusal is None or schedule.stage_count < self._refused_stages:
                self.refusal, self._refused_stages = refusal, schedule.stage_count
            return None
        shared = sum(b.versions * b.slot_bytes for b in plan.buffers if b.root.space == "workgroup")
        before = plan.synchronisation.kernel.before.values()
        return TrialResult(
            schedule,
            steady_interval(plan, self._costs, self._model) if promised is None else promised,
            shared,
            sum(b.versions * b.slot_bytes for b in plan.buffers) - shared,
            sum(b.versions for b in plan.buffers),
            sum(entry.barrier for entry in before) + len(plan.kept_barriers),
        )

    def plan(self, schedule: KernelSchedule) -> Plan:
        """The plan of a schedule; raises PipelineError where the expander would refuse it."""
        reading = self._reading
        slots = statement_slots(reading, schedule)
        places = {s.op: slots[s.number] for s in reading.body.statements}
        wait_at: Literal["iteration", "consumer"] = (
            "iteration" if schedule.wait_at_top else "consumer"
        )
        plan = plan_places(reading.analysis, places, wait_at, self._annotations, self._limits)
        # The steady state is the same for every number of trips.
        return replace(plan, trip_count=None)


def statement_slots(reading: Reading, schedule: KernelSchedule) -> tuple[SchedulePlace, ...]:
    """Where each statement runs: the nodes in kernel order, their statements in textual."""
    nodes, statements = reading.loop.nodes, reading.body.statements
    ranked = [(number, node) for node in schedule.order for number in nodes[node].statements]
    found = {
        number: SchedulePlace(
            schedule.stages[node], order, statements[number].op in reading.asynchronous
        )
        for order, (number, node) in enumerate(ranked)
    }
    return tuple(found[s.number] for s in statements)


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
        self._synchronise(-1, -1)
        for unit in self._plan.units.units:
            self._synchronise(unit.position, unit.position)
            self._run(unit)
            group = self._commits.get(unit.position)
            if group is not None:
                queue = self._costs.queue(group.queue)
                clock = self._clocks.get(queue, QueueClock())
                arrival = clock.arrivals[-1] if clock.arrivals else 0.0
                found = self._arrivals[group.number]
                self._arrivals[group.number] = [*found, arrival][-self._kept :]

    def _synchronise(self, position: int, at: int) -> None:
        before = self._before.get(position, Before())
        for wait in before.waits:
            found = self._arrivals[wait.group.number]
            # After its commit of the same step a wait means the last arrival, before it
            # the last one is that of the step before.
            committed = 0 <= wait.group.position < at
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
