"""Annotated loops that are pipelined already keep their pipeline and get better counts.

A loop that goes on with its own prologue is refused (`already-pipelined`), unless its waits leave
fewer groups in flight than they could. Then that is what it gets: the annotation goes, token
waits become exact, and waits that name no group are relaxed as far as the checker proves them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, function_name, unchanged, walk
from mlir_async_pipe.chips.target import with_target
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import requested_loops
from mlir_async_pipe.pipeliner.ask_checker.attach_tokens import relax
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings, own_pipeline
from mlir_async_pipe.pipeliner.expand.expand_pass import ExpandOptions
from mlir_async_pipe.pipeliner.schedule.schedule_pass import ScheduleOptions
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Place
from mlir_async_pipe.session.report import Session


@dataclass(frozen=True)
class RecountOptions(ExpandOptions, ScheduleOptions):
    """Options of `async-pipe-recount`: those of the passes after it, with which it tries them."""


@passes.register(
    "async-pipe-recount",
    "give annotated loops that are pipelined already larger counts",
    RecountOptions,
)
def run(module: Any, options: RecountOptions, session: Session) -> None:
    """Leave loops that are pipelined already, and cannot be pipelined once more, out of what follows:
    they get what their waits can gain; raises PipelineError (already-pipelined) where that is nothing."""
    session = with_target(options, session)
    with unchanged():
        around, loops = Surroundings(), requested_loops(module)
        own = [n for n, loop in enumerate(loops) if own_pipeline(loop, around) is not None]
    if not own or _can_all_be_pipelined(module, options, session):
        return
    refused = [(loops[number], _refusal(module, number, options, session)) for number in own]
    kept = [(loop, error) for loop, error in refused if error is not None]
    if kept:
        _keep(module, kept, session)


def _can_all_be_pipelined(module: Any, options: RecountOptions, session: Session) -> bool:
    trial = module.operation.clone(ip=False)
    try:
        _pipeline(trial, options, session)
    except AsyncPipeError:
        return False
    return True


def _pipeline(module: Any, options: RecountOptions, session: Session) -> None:
    passes.run_all(passes.PIPELINING, module, options, session.silent())


def _keep(module: Any, kept: list[tuple[Operation, AsyncPipeError]], session: Session) -> None:
    functions = frozenset(function_name(loop) for loop, _ in kept)
    better = _gain_of_tokens(module, functions, session) + [
        (str(wait.place), wait.before, wait.after)
        for wait in relax(module, session.target, session, functions)
    ]
    for loop, error in kept:
        if not better:
            raise error
        session.diagnostics.remark(
            "the loop is pipelined already and keeps its pipeline; larger counts: "
            + ", ".join(f"{before} -> {after} ({place})" for place, before, after in better),
            code="recounted",
            at=loop,
        )
        forget(loop)


def _refusal(
    module: Any, number: int, options: RecountOptions, session: Session
) -> AsyncPipeError | None:
    """The error that refuses a loop as pipelined already; the others are left out of it."""
    trial = module.operation.clone(ip=False)
    for other, loop in enumerate(requested_loops(trial)):
        if other != number:
            forget(loop)
    try:
        _pipeline(trial, options, session)
    except AsyncPipeError as error:
        return error if error.code == "already-pipelined" else None
    return None


def _gain_of_tokens(
    module: Any, functions: frozenset[str], session: Session
) -> list[tuple[str, int, int]]:
    """The token waits of `functions` that get a larger count than they have: place, count
    before and after."""
    places = {str(Place.of(op)) for op in walk(module) if function_name(op) in functions}
    counted = Session(target=session.target, witnesses=False)
    counting = passes.find("async-pipe-count-waits")
    counting.run(module.operation.clone(ip=False), counting.options(), counted)
    return [
        (str(record.place), record.given or 0, record.count)
        for record in counted.report().of("waits")
        if record.count > (record.given or 0) and str(record.place) in places
    ]


def forget(loop: Operation) -> None:
    """Take all annotations off a loop and its statements, arrays of stages too."""
    names.forget(loop)
    if names.read_loop(loop).in_loop_form:
        names.remove(loop, (names.STAGE, names.ORDER))
