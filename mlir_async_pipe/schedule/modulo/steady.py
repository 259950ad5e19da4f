"""The interval of a planned kernel: its waits, barriers and groups in the cycles of the machine.

The step is run again and again with the clocks of the timeline until the clocks stand to each
other as they did some steps before: the system is max-plus linear, so from then on it repeats.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.costs.cost_model import CostModel, QueueClock
from mlir_async_pipe.plan.make_plan import Plan
from mlir_async_pipe.plan.sync_state import Before
from mlir_async_pipe.plan.units import Unit
from mlir_async_pipe.schedule.modulo.unit_costs import UnitCosts

LARGEST_STEPS = 600


@dataclass(frozen=True)
class Steady:
    """Cycles a step in the steady state, and the barriers of a step."""

    interval: float
    barriers: int


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
        self.barriers = 0

    def step(self) -> None:
        """One iteration of the kernel."""
        self.barriers = 0
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
        self.barriers += barriers
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


def steady_state(plan: Plan, costs: UnitCosts, model: CostModel) -> Steady:
    """Run the kernel until it repeats; the mean over a period is the interval."""
    run = _Run(plan, costs, model)
    seen: dict[tuple[float, ...], tuple[int, float]] = {}
    for number in range(LARGEST_STEPS):
        run.step()
        state = run.state()
        if state in seen:
            step, moment = seen[state]
            return Steady((run.now - moment) / (number - step), run.barriers)
        seen[state] = (number, run.now)
    return Steady(run.now / LARGEST_STEPS, run.barriers)
