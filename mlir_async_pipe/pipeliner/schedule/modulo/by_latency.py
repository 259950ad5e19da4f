"""Schedules a loop by the latencies of its statements (modulo scheduling).

    copy  {latency = 500}                   copy  {stage = 0, order = 0, async}
    load                            -->     load  {stage = 2, order = 1}
    compute {latency = 300}                 compute {stage = 2, order = 2}

The interval between iterations is as small as the costs allow, then the stages are as few, then
the bytes of versions. Loops that `problem` describes are searched exactly up to 12 nodes.

It says so in a record for the report, and a remark:

    gemm.mlir:35:16: remark: 300 cycles between iterations, bound by the thread, in 3 stages
        [latency-schedule]
    gemm.mlir:41:17: note: statement 0 'nvgpu.device_async_copy' in stage 0, order 0, async, 500 cycles
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, unchanged
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.cost_model import CostModel
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.loops.statements import Body, is_synchronisation
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.analysis import analyse
from mlir_async_pipe.pipeliner.plan.make_plan import Limits
from mlir_async_pipe.pipeliner.schedule.modulo.problem import (
    TOLERANCE,
    IntervalBound,
    Problem,
    Schedule,
    all_bounds,
    bytes_of,
    largest_ratio,
    thread_bound,
    versions_of,
)
from mlir_async_pipe.pipeliner.schedule.modulo.read import Reading, UnitCosts, read
from mlir_async_pipe.pipeliner.schedule.modulo.search import Found, Search
from mlir_async_pipe.pipeliner.schedule.modulo.stages import is_legal, moments
from mlir_async_pipe.pipeliner.schedule.modulo.trial import TrialResult, Trials, statement_orders
from mlir_async_pipe.session.diagnostics import InputError, PipelineError, Place
from mlir_async_pipe.session.report import Session


@dataclass(frozen=True)
class ScheduleRecord:
    """One loop that was scheduled by latencies, in the report.

    `interval` are the cycles between two iterations in the steady state, `lower_bound` those
    that no schedule can go below, `bound_by` what sets the interval. `shared_bytes` are those
    of all versions in workgroup memory. `proven`: no schedule is better.
    """

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


@dataclass(frozen=True)
class Limit:
    """What sets the interval of a schedule: a phrase, and the ops that do it."""

    phrase: str
    ops: tuple[tuple[str, Any], ...]


def limit_of(reading: Reading, found: Found, held_down_by: str | None) -> Limit:
    """The bound that the interval meets, else the copy that too few stages cannot hide.

    `held_down_by` says what limits the stages, if anything does.
    """
    problem = reading.problem
    best = found.best
    largest = all_bounds(problem)[0]
    barriers = (best.barriers - (1 if problem.barrier else 0)) * problem.barrier
    if best.interval <= largest.cycles + max(0, barriers) + 0.001 * largest.cycles:
        return _of_bound(reading, largest)
    count, arcs = moments(problem, best.schedule)
    _, cycle = largest_ratio(count, arcs, largest.cycles + TOLERANCE)
    copies = dict.fromkeys(problem.edges[arc.edge].source for arc in cycle or () if arc.edge >= 0)
    ops = tuple(_cycles_of(reading, node) for node in copies)
    why = held_down_by or "the order that the dependences leave"
    names = ", ".join(f"'{reading.op_of(node).name}'" for node in copies)
    what = f"the latency of {names}" if names else "waits"
    return Limit(f"{what}, which {why} cannot hide", ops)


def _of_bound(reading: Reading, bound: IntervalBound) -> Limit:
    ops = tuple(_cycles_of(reading, node) for node in bound.nodes)
    if bound.kind == "thread":
        return Limit("the thread, which is never idle", ops)
    if bound.kind == "queue":
        return Limit(f"the queue '{bound.queue}', which is never idle", ops)
    over = "an iteration" if bound.distance == 1 else f"{bound.distance} iterations"
    return Limit(f"a recurrence over {over}", ops)


def _cycles_of(reading: Reading, node: int) -> tuple[str, Any]:
    found = reading.problem.nodes[node]
    op = reading.op_of(node)
    return (f"'{op.name}' takes {found.delay:g} cycles", op)


def record_of(reading: Reading, found: Found, limit: Limit) -> ScheduleRecord:
    best = found.best
    return ScheduleRecord(
        Place.of(reading.body.loop),
        round(best.interval, 3),
        round(all_bounds(reading.problem)[0].cycles, 3),
        limit.phrase,
        tuple(f"{Place.of(op)}" for _, op in limit.ops),
        best.schedule.stage_count,
        best.versions,
        best.shared_bytes,
        best.barriers,
        found.proven,
    )


def message(found: Found, limit: Limit) -> str:
    best = found.best
    stages = best.schedule.stage_count
    shared = f", {best.shared_bytes} bytes of workgroup memory" if best.shared_bytes else ""
    proven = "" if found.proven else "; not proven to be the best"
    return (
        f"{best.interval:g} cycles between iterations, bound by {limit.phrase}; {stages} "
        f"stage{'' if stages == 1 else 's'}{shared}{proven}"
    )


def places(reading: Reading, found: Found) -> tuple[tuple[str, Any], ...]:
    """A note for each statement: where it runs, and what it takes."""
    schedule = found.best.schedule
    order = schedule.places()
    notes = []
    for number, node in enumerate(reading.problem.nodes):
        op = reading.op_of(number)
        kind = f"async, {node.delay:g} cycles" if node.asynchronous else f"{node.held:g} cycles"
        notes.append(
            (
                f"'{op.name}' in stage {schedule.stages[number]}, order {order[number]}, {kind}",
                op,
            )
        )
    return tuple(notes)


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

    def outcome(self, schedule: Schedule) -> TrialResult | None:
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
        return TrialResult(
            schedule,
            interval,
            shared,
            private,
            sum(versions_of(buffer, schedule.stages, places) for buffer in problem.buffers),
            1 if problem.has_barriers else 0,
            sum(a > b for n, a in enumerate(order) for b in order[n + 1 :]),
        )
