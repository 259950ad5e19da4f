"""Refuses a pipeline with barriers where not all threads of the block run the loop."""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.session.diagnostics import PipelineError


def check_uniform(loop: Operation) -> None:
    """Raise PipelineError (divergent-barrier) if thread ids decide whether, or how often, the
    loop runs. Arguments and loaded values do not: the barrier of the input says that its author
    knows them to be the same for all."""
    above = Uniformity().control_by_thread_id(loop)
    if above is None:
        return
    raise PipelineError(
        "cannot pipeline: the pipeline needs barriers, but "
        + ("the number of iterations" if above == loop else f"this '{above.name}'")
        + " depends on the thread",
        code="divergent-barrier",
        at=above,
        notes=() if above == loop else (("the loop", loop),),
    )
