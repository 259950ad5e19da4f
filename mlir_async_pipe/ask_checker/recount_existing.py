"""Annotated loops that are pipelined already keep their pipeline and get better counts.

A loop that goes on with its own prologue is refused (`already-pipelined`), unless its waits leave
fewer groups in flight than they could. Then that is what it gets: the annotation goes, token
waits become exact, and waits that name no group are relaxed as far as the checker proves them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.ask_checker.relax_waits import relax
from mlir_async_pipe.bindings.memo import unchanged
from mlir_async_pipe.bindings.raw_ops import Operation, function_name, walk
from mlir_async_pipe.bindings.run_on_copy import run_on_copy
from mlir_async_pipe.dependence.own_pipeline import own_pipeline
from mlir_async_pipe.dependence.surroundings import Surroundings
from mlir_async_pipe.loops import annotations as names
from mlir_async_pipe.loops.find_loops import find_loops
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Place
from mlir_async_pipe.session.report import Session

Attempt = Callable[[Any, Session], None]
"""Schedules and expands a module; raises AsyncPipeError."""


def pipeline_others(module: Any, attempt: Attempt, session: Session) -> None:
    """Schedule and expand a module, but for loops that are pipelined already, and cannot be pipelined
    once more: they get what their waits can gain; raises PipelineError (already-pipelined) where that
    is nothing."""
    with session.measured("existing pipelines"), unchanged():
        around, loops = Surroundings(), find_loops(module)
        own = [n for n, loop in enumerate(loops) if own_pipeline(loop, around) is not None]
    if own and _done_on_a_copy(module, attempt, session):
        return
    with session.measured("existing pipelines"):
        refused = [(loops[number], _refusal(module, number, attempt, session)) for number in own]
        kept = [(loop, error) for loop, error in refused if error is not None]
        if kept:
            _keep(module, kept, session)
    attempt(module, session)


def _done_on_a_copy(module: Any, attempt: Attempt, session: Session) -> bool:
    """Whether all loops can be pipelined, also those that are: then that is done."""
    said = session.silent()
    try:
        run_on_copy(module.operation, lambda copy: attempt(copy, said))
    except AsyncPipeError:
        return False
    session.take(said)
    return True


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


def _refusal(module: Any, number: int, attempt: Attempt, session: Session) -> AsyncPipeError | None:
    """The error that refuses a loop as pipelined already; the others are left out of it."""
    trial = module.operation.clone(ip=False)
    for other, loop in enumerate(find_loops(trial)):
        if other != number:
            forget(loop)
    try:
        attempt(trial, session.silent())
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
