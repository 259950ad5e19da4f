"""The blocks for which a proof must hold where the size of the block is not known.

    store %tile[%tid_x]; load %tile[%other_x]      blocks of 1, 2, 3, … 1024 threads along x
    store %tile[%tid_y, %tid_x]; load …            no end of shapes: nothing is proven
    store %tile[%k]; load %tile[%k]                any block does the same: one of them

Subscripts that name one axis mean the same in each block that has as many threads along it. What
depends on lanes depends on all axes, of which those that the kernel never reads have one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    defining_op,
    enclosing,
    outermost,
    walk,
)
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.pipeliner.dependence.footprint import OutOfBounds
from mlir_async_pipe.pipeliner.dependence.regions import Region
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS
from mlir_async_pipe.vocabulary.launch_ids import (
    LARGEST_BLOCK,
    LaunchId,
    Size,
    axes_read,
    launch_id,
)


def holds_in_any_block(
    regions: Iterable[Region], block: Size | None, law: Callable[[Size], bool]
) -> bool:
    """Whether `law`, which asks for what all threads touch by `regions`, holds in the known block,
    else in every block whose threads stay in bounds. It must hold in one at least."""
    if block is not None:
        try:
            return law(block)
        except OutOfBounds:
            return False
    regions = list(regions)
    ids = ids_of(regions)
    # A larger block has more threads at the same places, unless these depend on its size.
    nested = all(known.kind != "block_size" for known in ids)
    decided = False
    for size in _possible_sizes(regions, ids):
        try:
            if not law(size):
                return False
        except OutOfBounds:
            if nested:
                break
            continue
        decided = True
    return decided


def _possible_sizes(regions: list[Region], ids: set[LaunchId]) -> list[Size]:
    """One block for each way in which accesses of all its threads may differ; none where those
    are too many to be tried."""
    axes = {known.axis for known in ids if known.kind in ("thread", "block_size")}
    if regions and _depends_on_lanes(regions, ids):
        # Threads are numbered through all axes: lane 0 of a block of 16 x 4 is x = 0, y = 0 or 2.
        axes |= axes_read([_code_around(regions[0].op)]) | {0}
        if axes != {0}:
            return []
    if not axes:
        return [(1, 1, 1)]
    if len(axes) > 1:
        return []
    (axis,) = axes
    return [_along(axis, threads) for threads in range(1, LARGEST_BLOCK + 1)]


def _along(axis: int, threads: int) -> Size:
    x, y, z = (threads if n == axis else 1 for n in range(3))
    return x, y, z


def _depends_on_lanes(regions: list[Region], ids: set[LaunchId]) -> bool:
    return any(known.kind in ("lane", "subgroup") for known in ids) or any(
        region.access is not None
        and (region.access.over_lanes or region.access.active_lanes is not None)
        for region in regions
    )


def ids_of(regions: Iterable[Region]) -> set[LaunchId]:
    """What the subscripts of accesses are computed of, as far as the launch says it."""

    def made_of(value: Value) -> Iterable[Value]:
        op = defining_op(value)
        return () if op is None or launch_id(value) is not None else op.operands

    symbols = (s for region in regions for form in region.subscripts or () for s in form.symbols)
    return {known for value in walked(symbols, made_of) if (known := launch_id(value)) is not None}


def _code_around(op: Operation) -> Operation:
    """The function around an op, or its module where that function calls others."""
    function = enclosing(op, FUNCTION_OPS)
    if function is None or any(inner.name in CALL_OPS for inner in walk(function)):
        return outermost(op)
    return function
