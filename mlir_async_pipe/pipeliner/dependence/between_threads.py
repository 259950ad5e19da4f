"""Whether accesses of a loop meet at one element from different threads.

    memref.store %v, %tile[%tid]             thread t writes element t,
    memref.load %tile[127 - %tid]            thread 127 - t reads it: they meet
    memref.load %tile[%tid]                  thread t reads it: element t belongs to thread t

Decided by enumerating the threads of a block of known size, so that the answer is exact: an
element that a single thread alone writes and reads is no meeting of threads. Where the size is not
known, a proof must hold for every block:

    store %tile[%tid_x]; load %tile[%other_x]      blocks of 1, 2, 3, … 1024 threads along x
    store %tile[%tid_y, %tid_x]; load …            no end of shapes: nothing is proven
    store %tile[%k]; load %tile[%k]                any block does the same: one of them

Subscripts that name one axis mean the same in each block that has as many threads along it. What
depends on lanes depends on all axes, of which those that the kernel never reads have one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

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
from mlir_async_pipe.facts.values.sums import without
from mlir_async_pipe.pipeliner.dependence.footprint import (
    OutOfBounds,
    elements_by_thread,
    static_shape,
)
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS
from mlir_async_pipe.vocabulary.launch_ids import (
    LARGEST_BLOCK,
    LaunchId,
    Size,
    axes_read,
    launch_id,
)

NOBODY = -1


def meeting_threads(
    a: CoveredRegion, b: CoveredRegion, induction: Value, block: Size
) -> tuple[int, int] | None:
    """Linear numbers of a thread of `a` and another of `b` that touch a common element in the
    same iteration; None if there are none, or where it cannot be enumerated.

    `induction` is the induction variable of the loop around both.
    """
    shape = static_shape(a) if a.base == b.base else None
    if shape is None or a.conditional or b.conditional:
        return None
    moved = _in_one_iteration(a, b, induction)
    if moved is None:
        return None
    try:
        first, second = (elements_by_thread(region, shape, block) for region in moved)
    except OutOfBounds:
        return None
    if first is None or second is None:
        return None
    size = int(np.prod(shape, dtype=np.int64))
    lowest, highest = _owners(*first, size)
    threads, elements = second
    for owner in (lowest[elements], highest[elements]):
        met = np.flatnonzero((owner != NOBODY) & (owner != threads))
        if met.size:
            return int(owner[met[0]]), int(threads[met[0]])
    return None


def belongs_to_single_threads(regions: list[CoveredRegion], induction: Value, block: Size) -> bool:
    """Whether each element that these accesses of one buffer touch is touched by one thread only,
    over all iterations together; False where that cannot be enumerated."""
    first = regions[0]
    shape = static_shape(first)
    if shape is None:
        return False
    touches = []
    for region in regions:
        if (
            region.base != first.base
            or region.subscripts is None
            or region.access is None
            # Barriers also part the paths of threads that guards send on different ones; the
            # checker would have to follow all of them at once.
            or region.conditional
            # What a lane addresses is given to the other lanes of its warp (ldmatrix).
            or region.access.active_lanes is not None
            or any(form.coefficient(induction) for form in region.subscripts)
        ):
            return False
        try:
            found = elements_by_thread(region, shape, block)
        except OutOfBounds:
            return False
        if found is None:
            return False
        touches.append(found)
    threads, elements = (np.concatenate(part) for part in zip(*touches, strict=True))
    lowest, highest = _owners(threads, elements, int(np.prod(shape, dtype=np.int64)))
    return bool(np.array_equal(lowest, highest))


def _in_one_iteration(
    a: CoveredRegion, b: CoveredRegion, induction: Value
) -> tuple[CoveredRegion, CoveredRegion] | None:
    """Both accesses without the induction variable, which is the same at both ends."""
    assert a.subscripts is not None
    if b.subscripts is None:
        return None
    for x, y in zip(a.subscripts, b.subscripts, strict=True):
        if x.coefficient(induction) != y.coefficient(induction):
            return None
    first, second = (
        replace(region, subscripts=tuple(without(form, induction) for form in forms))
        for region, forms in ((a, a.subscripts), (b, b.subscripts))
    )
    return first, second


def _owners(threads: np.ndarray, elements: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest thread that touches each element."""
    highest = np.full(size, NOBODY)
    np.maximum.at(highest, elements, threads)
    lowest = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(lowest, elements, threads)
    lowest[highest == NOBODY] = NOBODY
    return lowest, highest


def holds_in_any_block(
    regions: Iterable[CoveredRegion], block: Size | None, law: Callable[[Size], bool]
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


def _possible_sizes(regions: list[CoveredRegion], ids: set[LaunchId]) -> list[Size]:
    """One block for each pattern in which accesses of all its threads may differ; none where those
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


def _depends_on_lanes(regions: list[CoveredRegion], ids: set[LaunchId]) -> bool:
    return any(known.kind in ("lane", "subgroup") for known in ids) or any(
        region.access is not None
        and (region.access.over_lanes or region.access.active_lanes is not None)
        for region in regions
    )


def ids_of(regions: Iterable[CoveredRegion]) -> set[LaunchId]:
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
