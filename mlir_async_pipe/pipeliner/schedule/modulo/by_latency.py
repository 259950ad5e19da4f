"""Schedules a loop by the latencies of its statements (modulo scheduling).

    copy  {latency = 500}                   copy  {stage = 0, order = 0, async}
    load                            -->     load  {stage = 2, order = 1}
    compute {latency = 300}                 compute {stage = 2, order = 2}

The interval between iterations is as small as the costs allow, then the stages are as few, then
the bytes of versions. Loops that `problem` describes are searched exactly up to 12 nodes.

    read      the loop as numbers        bounds    what no schedule can beat
    timing    how fast a schedule is     stages    stages for a kernel order
    orders    orders to begin with       search    the best of all orders
    trial     a schedule as the expander would plan it, run with the machine's clocks
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlir_async_pipe.bindings.raw_ops import Operation, unchanged
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.cost_model import CostModel
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.loops.statements import Body, is_synchronisation
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.analysis import analyse
from mlir_async_pipe.pipeliner.plan.make_plan import Limits
from mlir_async_pipe.pipeliner.schedule.modulo.bounds import largest_ratio, thread_bound
from mlir_async_pipe.pipeliner.schedule.modulo.explain_schedule import (
    limit_of,
    message,
    places,
    record_of,
)
from mlir_async_pipe.pipeliner.schedule.modulo.problem import (
    Problem,
    Schedule,
    bytes_of,
    versions_of,
)
from mlir_async_pipe.pipeliner.schedule.modulo.read import Reading, read
from mlir_async_pipe.pipeliner.schedule.modulo.search import Found, Search
from mlir_async_pipe.pipeliner.schedule.modulo.speed import is_legal, moments
from mlir_async_pipe.pipeliner.schedule.modulo.trial import Outcome, Trials, statement_orders
from mlir_async_pipe.pipeliner.schedule.modulo.unit_costs import UnitCosts
from mlir_async_pipe.session.diagnostics import InputError, PipelineError
from mlir_async_pipe.session.report import Session

__all__ = ["LatencyOptions", "LatencySchedule", "check_latencies", "schedule_by_latency"]


@dataclass(frozen=True)
class LatencyOptions:
    """What a schedule may use: the largest number of stages, bytes of workgroup memory (None: no
    limit), what things cost, and on which target."""

    largest_stages: int
    workgroup_bytes: int | None
    model: CostModel
    target: Target | None = None


@dataclass(frozen=True)
class LatencySchedule:
    """Stage, order and asynchrony of each statement, and where waits stand."""

    stages: tuple[int, ...]
    orders: tuple[int, ...]
    asynchronous: tuple[bool, ...]
    wait_at_top: bool


def check_latencies(body: Body) -> None:
    """Latencies stand on statements and are 0 or more; raises InputError."""
    statements = {s.op for s in body.statements}
    for op in body.ops:
        if names.LATENCY not in op.attributes:
            continue
        cycles = names.latency_of(op)
        if cycles is not None and cycles < 0:
            raise InputError(
                f"'{names.LATENCY}' is {cycles}, expected 0 or more cycles",
                code="negative-latency",
                at=op,
            )
        if op not in statements:
            kind = "synchronisation" if is_synchronisation(op) else "a pure op"
            raise InputError(
                f"'{names.LATENCY}' stands on '{op.name}', which is no statement but {kind}",
                code="latency-without-statement",
                at=op,
                advice=f"'{names.CYCLES}' says what an op costs; an '{names.GROUPING_OP}' around "
                "pure ops makes them a statement",
            )


def schedule_by_latency(
    body: Body, options: LatencyOptions, session: Session, around: Surroundings
) -> LatencySchedule | None:
    """The best schedule of a loop; None (with a remark) if nothing can overlap.

    Raises InputError for latencies that make no sense, PipelineError if no schedule is legal.
    """
    check_latencies(body)
    with unchanged():
        return _schedule(body, options, session, around)


def _schedule(
    body: Body, options: LatencyOptions, session: Session, around: Surroundings
) -> LatencySchedule | None:
    loop = body.loop
    annotations = names.read_loop(loop)
    costs = UnitCosts(options.model, options.target)
    analysis = analyse(body, annotations.independent, False, around)
    reading = read(
        analysis,
        costs,
        options.model.barrier,
        _largest_stages(loop, options),
        annotations.wait_at,
    )
    found, held_down_by = _best(reading, costs, options, session)
    limit = limit_of(reading, found, held_down_by)
    session.record("schedules", record_of(reading, found, limit))
    if session.explain:
        session.diagnostics.remark(
            message(found, limit),
            code="latency-schedule",
            at=loop,
            notes=limit.ops + places(reading, found),
        )
    if found.best.schedule.stage_count == 1 and not names.is_inside_pipeline(loop):
        session.diagnostics.warning(
            f"{message(found, limit)}: the loop stays as it is",
            code="nothing-to-overlap",
            at=loop,
            notes=limit.ops,
        )
        return None
    return _statements(reading, found.best.schedule)


def _largest_stages(loop: Operation, options: LatencyOptions) -> int:
    """With T iterations at most T stages: the kernel runs T - (S - 1) times."""
    trips = static_trip_count(loop)
    return options.largest_stages if trips is None else max(1, min(options.largest_stages, trips))


def _best(
    reading: Reading, costs: UnitCosts, options: LatencyOptions, session: Session
) -> tuple[Found, str | None]:
    """The best schedule that fits workgroup memory, and what limits its stages."""
    free = _search(reading, costs, options, None)
    limit = options.workgroup_bytes
    if limit is None or free.best.shared_bytes <= limit:
        largest = reading.problem.largest_stages
        stages = free.best.schedule.stage_count
        return free, f"{largest} stages" if stages == largest else None
    found = _search(reading, costs, options, limit)
    session.diagnostics.remark(
        f"{found.best.schedule.stage_count} stages and {found.best.interval:g} cycles between "
        f"iterations instead of {free.best.schedule.stage_count} and {free.best.interval:g}: "
        f"those would need {free.best.shared_bytes} bytes of workgroup memory, the limit is {limit}",
        code="stages-reduced",
        at=reading.body.loop,
    )
    return found, f"the stages that fit into {limit} bytes of workgroup memory"


def _search(
    reading: Reading, costs: UnitCosts, options: LatencyOptions, limit: int | None
) -> Found:
    judge: AbstractJudge | Trials = (
        AbstractJudge(reading.problem, limit)
        if any(s.part for s in reading.body.statements)
        else Trials(
            reading,
            costs,
            options.model,
            Limits(limit, chip=options.target.chip if options.target else None),
        )
    )
    # Of copies whose versions do not fit, none may be ahead: stages are tried downwards.
    for largest in range(reading.problem.largest_stages, 0, -1):
        problem = replace(reading.problem, largest_stages=largest)
        found = Search(problem, judge).run()
        if found is not None:
            return found
        if limit is None:
            break
    raise judge.refusal or PipelineError(
        "cannot pipeline: no order of the statements keeps their dependences",
        code="dependence-violated",
        at=reading.body.loop,
    )


def _statements(reading: Reading, schedule: Schedule) -> LatencySchedule:
    body = reading.body
    nodes = [reading.node_of[s.op] for s in body.statements]
    return LatencySchedule(
        tuple(schedule.stages[node] for node in nodes),
        tuple(statement_orders(reading, schedule)),
        tuple(s.op in reading.asynchronous for s in body.statements),
        schedule.wait_at_top,
    )


# The problem without names -------------------------------------------------------------------


class AbstractJudge:
    """The interval from the graph of moments, the versions from the sync rule."""

    refusal: PipelineError | None = None

    def __init__(self, problem: Problem, limit: int | None) -> None:
        self._problem = problem
        self._limit = limit

    def outcome(self, schedule: Schedule) -> Outcome | None:
        """What a schedule gives, None if it is illegal or does not fit workgroup memory."""
        problem = self._problem
        if not is_legal(problem, schedule):
            return None
        places = schedule.places()
        shared, private = bytes_of(problem, schedule.stages, places)
        if self._limit is not None and shared > self._limit:
            return None
        count, arcs = moments(problem, schedule)
        interval, _ = largest_ratio(count, arcs, thread_bound(problem).cycles)
        order = schedule.order
        return Outcome(
            schedule,
            interval,
            shared,
            private,
            sum(versions_of(buffer, schedule.stages, places) for buffer in problem.buffers),
            1 if problem.has_barriers else 0,
            sum(a > b for n, a in enumerate(order) for b in order[n + 1 :]),
        )
