"""What a schedule by latencies says of itself: a record for the report, and a remark.

gemm.mlir:35:16: remark: 300 cycles between iterations, bound by the thread, in 3 stages
    [latency-schedule]
gemm.mlir:41:17: note: statement 0 'nvgpu.device_async_copy' in stage 0, order 0, async, 500 cycles
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.pipeliner.schedule.modulo.bounds import (
    TOLERANCE,
    Bound,
    all_bounds,
    largest_ratio,
)
from mlir_async_pipe.pipeliner.schedule.modulo.read import Reading
from mlir_async_pipe.pipeliner.schedule.modulo.search import Found
from mlir_async_pipe.pipeliner.schedule.modulo.speed import moments
from mlir_async_pipe.session.diagnostics import Place


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
    ops = tuple(_told(reading, node) for node in copies)
    why = held_down_by or "the order that the dependences leave"
    names = ", ".join(f"'{reading.op_of(node).name}'" for node in copies)
    what = f"the latency of {names}" if names else "waits"
    return Limit(f"{what}, which {why} cannot hide", ops)


def _of_bound(reading: Reading, bound: Bound) -> Limit:
    ops = tuple(_told(reading, node) for node in bound.nodes)
    if bound.kind == "thread":
        return Limit("the thread, which is never idle", ops)
    if bound.kind == "queue":
        return Limit(f"the queue '{bound.queue}', which is never idle", ops)
    over = "an iteration" if bound.distance == 1 else f"{bound.distance} iterations"
    return Limit(f"a recurrence over {over}", ops)


def _told(reading: Reading, node: int) -> tuple[str, Any]:
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
