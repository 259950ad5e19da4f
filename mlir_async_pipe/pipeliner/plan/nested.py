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

from mlir_async_pipe.bindings.raw_ops import Operation, operations
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import is_statement
from mlir_async_pipe.pipeliner.plan.pipeline_plan import Plan
from mlir_async_pipe.session.diagnostics import PipelineError


def check_nested(plan: Plan) -> None:
    """Raise PipelineError for an inner pipeline that an outer one cannot carry on:
    nested-async (its waits would have to be derived anew) and inner-loop-versioned."""
    parts = names.parts_of(plan.loop)
    if not parts:
        return
    if plan.groups and not _stay_together(plan.loop, parts):
        raise PipelineError(
            "cannot pipeline: the prologue, kernel and epilogue of an inner pipelined loop with "
            "async statements of its own have to follow each other in one stage of the outer loop",
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
            advice='give the inner loop async_pipe.short_trip = "predicate", or "assume" if it '
            "always runs long enough",
        )


def _stay_together(loop: Operation, parts: tuple[tuple[int, int], ...]) -> bool:
    """Whether the parts of an inner loop are in one stage, with nothing between them."""
    stages, orders = {stage for stage, _ in parts}, [order for _, order in parts]
    others = [
        names.order_of(op) for op in operations(loop.block) if op != loop and is_statement(op)
    ]
    between = [o for o in others if o is not None and orders[0] <= o <= orders[-1]]
    return len(stages) == 1 and orders == sorted(orders) and not between
