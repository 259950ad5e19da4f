"""Whether accesses of a loop meet at one element from different threads.

    memref.store %v, %tile[%tid]             thread t writes element t,
    memref.load %tile[127 - %tid]            thread 127 - t reads it: they meet
    memref.load %tile[%tid]                  thread t reads it: element t belongs to thread t

Decided by enumerating the threads of a block of known size, so that the answer is exact: an
element that a single thread alone writes and reads is no meeting of threads.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlir_async_pipe.bindings.raw_ops import Value
from mlir_async_pipe.facts.values.sums import without
from mlir_async_pipe.pipeliner.dependence.footprint import (
    OutOfBounds,
    elements_by_thread,
    static_shape,
)
from mlir_async_pipe.pipeliner.dependence.regions import Region
from mlir_async_pipe.vocabulary.launch_ids import Size

NOBODY = -1


def meeting_threads(a: Region, b: Region, induction: Value, block: Size) -> tuple[int, int] | None:
    """Linear numbers of a thread of `a` and another of `b` that touch a common element in the
    same iteration; None if there are none, or where it cannot be enumerated.

    `induction` is the induction variable of the loop around both.
    """
    shape = static_shape(a.base, a) if a.subscripts is not None and a.base == b.base else None
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


def belongs_to_single_threads(regions: list[Region], induction: Value, block: Size) -> bool:
    """Whether each element that these accesses of one buffer touch is touched by one thread only,
    over all iterations together; False where that cannot be enumerated."""
    first = regions[0]
    shape = static_shape(first.base, first) if first.subscripts is not None else None
    if shape is None:
        return False
    touches = []
    for region in regions:
        if (
            region.base != first.base
            or region.subscripts is None
            or region.access is None
            # Barriers also part the ways of threads that guards send on different ones; the
            # checker would have to follow all of them at once.
            or region.conditional
            # What a lane addresses is handed to the other lanes of its warp (ldmatrix).
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


def _in_one_iteration(a: Region, b: Region, induction: Value) -> tuple[Region, Region] | None:
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
