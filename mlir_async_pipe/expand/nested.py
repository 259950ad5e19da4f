"""An expanded inner loop inside a loop that is to be expanded too.

    scf.for %k {                               scf.for %k {
      copies      {stage = 0}                    copies               {stage = 0}
      scf.for %j {…} {part_stages = [2,3,3]}     inner prologue       {stage = 2, order = 3}
                                          -->    scf.for, its kernel  {stage = 3, order = 2}
                                                 inner epilogue       {stage = 3, order = 4}
    }                                          }

The prologue, kernel and epilogue of the inner loop are one statement each of the outer one:
here the next tile's first fragments are loaded before this tile's last ones are used.
"""

from __future__ import annotations

import mlir_async_pipe.annotations as names
from mlir_async_pipe.diagnostics import PipelineError
from mlir_async_pipe.expand.plan import Plan
from mlir_async_pipe.ir_helpers import Operation, operations, set_integer
from mlir_async_pipe.statements import is_statement, is_synchronisation


def check_nested(plan: Plan) -> None:
    """Raise PipelineError for an inner pipeline that an outer one cannot carry on:
    nested-async (its waits would have to be derived anew) and inner-loop-versioned."""
    parts = names.parts_of(plan.loop)
    if not parts:
        return
    if plan.groups:
        raise PipelineError(
            "cannot pipeline: an inner pipelined loop with async statements of its own stands "
            "inside a pipelined loop",
            code="nested-async",
            at=plan.loop,
            notes=(("one of its async ops", plan.groups[0].members[0].ops[0]),),
        )
    versioned = plan.trip_count is None and plan.short_trip == "version" and plan.last_stage > 0
    if versioned and len(set(parts)) > 1 and len({stage for stage, _ in parts}) > 1:
        raise PipelineError(
            "cannot pipeline: the inner loop's trip count is not known, so it needs a version for "
            "short trips, and its parts cannot stand in different stages",
            code="inner-loop-versioned",
            at=plan.loop,
            advice='give the inner loop async_pipe.short_trip = "assume" if it always runs long '
            "enough",
        )


def label_parts(
    parts: tuple[tuple[int, int], ...], already_there: set[Operation], kernel: Operation
) -> None:
    """Give what replaced the inner loop its place in the outer one. `kernel` is the kernel
    loop or the branch around it; everything new in its block before it is the prologue."""
    part = 0
    for op in operations(kernel.block):
        if op in already_there:
            continue
        if op == kernel:
            part = 1
        if is_statement(op) and not is_synchronisation(op):
            _place(op, parts[part])
        if op == kernel:
            part = 2


def place_unexpanded(loop: Operation) -> None:
    """An inner loop that stayed as it is: one statement, where its kernel would have been."""
    parts = names.parts_of(loop)
    if parts:
        _place(loop, parts[1])


def _place(op: Operation, place: tuple[int, int]) -> None:
    stage, order = place
    set_integer(op, names.STAGE, stage, 64)
    set_integer(op, names.ORDER, order, 64)
