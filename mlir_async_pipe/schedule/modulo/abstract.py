"""Judges schedules without planning them: for loops around a pipelined loop, which can be
planned only when the inner one is expanded."""

from __future__ import annotations

from mlir_async_pipe.schedule.modulo.bounds import largest_ratio, thread_bound
from mlir_async_pipe.schedule.modulo.problem import (
    Problem,
    Schedule,
    bytes_of,
    versions_of,
)
from mlir_async_pipe.schedule.modulo.speed import is_legal, moments
from mlir_async_pipe.schedule.modulo.trial import Outcome
from mlir_async_pipe.session.diagnostics import PipelineError


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
