"""Loops whose copies cannot be asynchronous stage their loads through registers instead.

expand: refused, smem-limit    -->    remark through-registers; expand the schedule that loads
                                      into registers, where buffers keep one version or two
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, operations
from mlir_async_pipe.chips.target import target_for
from mlir_async_pipe.dependence.surroundings import Surroundings
from mlir_async_pipe.loops import annotations as names
from mlir_async_pipe.loops.annotations import LoopAnnotations, read_loop
from mlir_async_pipe.loops.find_loops import find_loops
from mlir_async_pipe.plan.make_plan import Limits
from mlir_async_pipe.schedule.by_count import remark_registers, through_registers
from mlir_async_pipe.schedule.decision import Decision, write
from mlir_async_pipe.schedule.guarded_loads import take_apart_copies
from mlir_async_pipe.schedule.hand_inwards import hand_inwards
from mlir_async_pipe.schedule.schedule_pass import limits_of
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.session.report import Session

# What forbids several versions of a buffer, but not loads into registers.
VERSION_CODES = ("smem-limit", "not-privatisable", "escapes", "buffer-not-versionable")


def schedule_and_expand(module: Any, scheduling: Any, expanding: Any, session: Session) -> None:
    """Run the two passes, with their options, as one."""
    schedule, expand = passes.find("async-pipe-schedule"), passes.find("async-pipe-expand")
    hand_inwards(find_loops(module), session)
    open_forms = _candidates(module, scheduling.num_stages)
    with session.measured(schedule.name):
        schedule.run(module, scheduling, session)
    with session.measured(expand.name):
        limits = limits_of(scheduling, target_for(scheduling, session))
        run = partial(expand.run, module, expanding, session)
        _expand_or_fall_back(run, open_forms, limits, session)


@dataclass(frozen=True)
class Candidate:
    """A loop that asks for a number of stages and leaves the form open."""

    loop: Operation
    stages: int
    found: LoopAnnotations


def _candidates(module: Any, num_stages: int) -> list[Candidate]:
    """The loops that may change their form; to be asked before they are scheduled."""
    return [
        Candidate(loop, num_stages or found.num_stages, found)
        for loop in find_loops(module)
        if (found := read_loop(loop)).num_stages is not None and found.stage_through == "auto"
    ]


def _expand_or_fall_back(
    expand: Callable[[], None], candidates: list[Candidate], limits: Limits, session: Session
) -> None:
    """Expand; where a loop is refused for its versions, let it go through registers and try
    again. Raises what `expand` raises for loops that cannot."""
    left = list(candidates)
    while True:
        told = len(session.diagnostics.items)
        try:
            return expand()
        except PipelineError as error:
            if error.loop is None or error.code not in VERSION_CODES:
                raise
            candidate = next((c for c in left if c.loop == error.loop), None)
            if candidate is None:
                raise
            refused = len(session.diagnostics.items)
            decision = _decide(candidate, limits, session)
            if decision is None:
                take_apart_copies(candidate.loop)
                decision = _decide(candidate, limits, session)
            if decision is None:
                raise
            left.remove(candidate)
            del session.diagnostics.items[told:refused]
            for op in operations(candidate.loop.regions[0].blocks[0]):
                names.remove(op, (names.ASYNC,))
            write(decision)
            why = error.diagnostic.message.removeprefix("cannot pipeline: ")
            stages = decision.last_stage + 1
            remark_registers(candidate.loop, stages, why, error.diagnostic.place, session)


def _decide(candidate: Candidate, limits: Limits, session: Session) -> Decision | None:
    around = Surroundings(limits.chip)
    return through_registers(
        candidate.loop, candidate.stages, candidate.found, session, around, limits
    )
