"""The trip count of a loop with constant bounds."""

from __future__ import annotations

from mlir_async_pipe.bindings.memo import remembered
from mlir_async_pipe.bindings.raw_ops import Operation, constant_value
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary.loop_bounds import scf_for_trips


@remembered
def static_trip_count(loop: Operation) -> int | None:
    """How often an scf.for runs, None if not constant; raises PipelineError (bad-step)."""
    step = constant_value(loop.operands[2])
    if step is not None and (step == 0 or (step < 0 and "unsignedCmp" not in loop.attributes)):
        raise PipelineError(
            f"cannot pipeline: the step is {step}, expected 1 or more", code="bad-step", at=loop
        )
    return scf_for_trips(loop)
