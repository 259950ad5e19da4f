"""Tries a schedule: plans it as the expander would, and runs its kernel with a clock.

Nothing is edited. So groups, waits, barriers and versions are those that the loop will get, and
the interval is that of the timeline.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlir_async_pipe.costs.cost_model import CostModel
from mlir_async_pipe.loops import annotations as names
from mlir_async_pipe.plan.legality import check_memory, check_values
from mlir_async_pipe.plan.make_plan import Limits, Plan, plan_schedule
from mlir_async_pipe.plan.statement_places import Place, StatementPlaces
from mlir_async_pipe.plan.units import Units
from mlir_async_pipe.schedule.modulo.problem import Schedule
from mlir_async_pipe.schedule.modulo.read import Reading
from mlir_async_pipe.schedule.modulo.steady import steady_state
from mlir_async_pipe.schedule.modulo.unit_costs import UnitCosts
from mlir_async_pipe.session.diagnostics import Diagnostics, PipelineError

Key = tuple[float, int, int, int, int]


@dataclass(frozen=True)
class Outcome:
    """What a schedule gives: cycles between iterations in the steady state, bytes of all
    versions in workgroup memory and elsewhere, the number of versions, barriers a step."""

    schedule: Schedule
    interval: float
    shared_bytes: int
    private_bytes: int
    versions: int
    barriers: int
    inversions: int

    @property
    def key(self) -> Key:
        """What is compared: the interval, the stages, the bytes of the versions, the barriers,
        and how far the order is from the textual one."""
        return (
            round(self.interval, 6),
            self.schedule.stage_count,
            self.shared_bytes + self.private_bytes,
            self.barriers,
            self.inversions,
        )


class Trials:
    """Tries schedules of one loop. `refusal` is why the one with the fewest stages was refused,
    None if none was."""

    def __init__(
        self, reading: Reading, costs: UnitCosts, model: CostModel, limits: Limits
    ) -> None:
        self._reading = reading
        self._costs = costs
        self._model = model
        self._limits = limits
        self._annotations = names.read_loop(reading.body.loop)
        self._known: dict[Schedule, Outcome | None] = {}
        self.refusal: PipelineError | None = None
        self._refused_stages = 0

    def outcome(self, schedule: Schedule) -> Outcome | None:
        """What a schedule gives, None if the expander would refuse it."""
        if schedule not in self._known:
            try:
                self._known[schedule] = self._try(schedule)
            except PipelineError as refusal:
                if self.refusal is None or schedule.stage_count < self._refused_stages:
                    self.refusal, self._refused_stages = refusal, schedule.stage_count
                self._known[schedule] = None
        return self._known[schedule]

    def _try(self, schedule: Schedule) -> Outcome:
        plan = self.plan(schedule)
        steady = steady_state(plan, self._costs, self._model)
        shared = sum(b.versions * b.slot_bytes for b in plan.buffers if b.root.space == "workgroup")
        everything = sum(b.versions * b.slot_bytes for b in plan.buffers)
        order = schedule.order
        return Outcome(
            schedule,
            steady.interval,
            shared,
            everything - shared,
            sum(b.versions for b in plan.buffers),
            steady.barriers,
            sum(a > b for n, a in enumerate(order) for b in order[n + 1 :]),
        )

    def plan(self, schedule: Schedule) -> Plan:
        """The plan of a schedule; raises PipelineError where the expander would refuse it."""
        reading = self._reading
        orders = statement_orders(reading, schedule)
        places = {
            s.op: Place(schedule.stages[reading.node_of[s.op]], orders[s.number])
            for s in reading.body.statements
        }
        units = Units(reading.body, StatementPlaces(places, reading.asynchronous))
        check_values(units)
        analysis = reading.analysis
        check_memory(analysis.dependences, analysis.privatisation.obstacles, units)
        plan = plan_schedule(
            analysis,
            units,
            "iteration" if schedule.wait_at_top else "consumer",
            self._annotations,
            self._limits,
            Diagnostics(),
        )
        # The steady state is the same for every number of trips.
        return replace(plan, trip_count=None)


def statement_orders(reading: Reading, schedule: Schedule) -> list[int]:
    """The order of each statement: the nodes in kernel order, their statements in textual."""
    ranked = [
        number for node in schedule.order for number in reading.problem.nodes[node].statements
    ]
    orders = [0] * len(ranked)
    for place, number in enumerate(ranked):
        orders[number] = place
    return orders
