"""The option `overlap-outer`: each loop of tiles becomes one loop where that can be pipelined.

Tried on a copy first: where the loop over all steps of all tiles has no legal plan, because
what stands after the inner loop may touch what the next tile's copies read, the tiles stay
apart and a remark says why.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.expand.write.write_tiles import overlap
from mlir_async_pipe.pipeliner.plan.make_plan import Limits, make_plan
from mlir_async_pipe.pipeliner.plan.scheduled_loops import innermost, scheduled_loops
from mlir_async_pipe.pipeliner.plan.tile_nest import Nest, find_nest
from mlir_async_pipe.session.diagnostics import Diagnostics, PipelineError


def overlap_all(module: Any, limits: Limits, diagnostics: Diagnostics) -> None:
    """Rewrite every nest of a scheduled loop in a sequential one that can overlap."""
    for number in range(len(innermost(scheduled_loops(module)))):
        inner = innermost(scheduled_loops(module))[number]
        nest = find_nest(inner)
        if isinstance(nest, Nest):
            nest = _rehearsed(nest, module, number, limits)
        if isinstance(nest, Nest):
            overlap(nest)
        elif nest is not None:
            diagnostics.remark(
                f"the next tile cannot start before this one ends: {nest}",
                code="outer-not-overlapped",
                at=inner,
            )


def _rehearsed(nest: Nest, module: Any, number: int, limits: Limits) -> Nest | str:
    """The nest, or why the one loop for both could not be pipelined."""
    copy = module.operation.clone(ip=False)
    same = find_nest(innermost(scheduled_loops(copy))[number])
    assert isinstance(same, Nest)
    try:
        plan = make_plan(overlap(same), limits, Diagnostics(), Surroundings(limits.chip))
    except PipelineError as error:
        return error.diagnostic.message.removeprefix("cannot pipeline: ")
    return nest if plan is not None else "all tiles together are too short"
