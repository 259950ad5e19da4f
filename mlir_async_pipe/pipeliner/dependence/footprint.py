"""Which elements of a buffer an access covers, by enumerating threads and inner loops.

    device_async_copy … %shared[%tid / 4, (%tid mod 4) * 8], 8   with 128 threads

covers rows 0..31 completely: 128 points, each 8 neighbours. Enumeration takes whatever
integer arithmetic the subscripts use (divui, remui, xori swizzles) and answers exactly;
what it cannot evaluate (loaded indices, the pipelined induction variable) it refuses.

Whether accesses of a loop meet at one element from different threads:

    memref.store %v, %tile[%tid]             thread t writes element t,
    memref.load %tile[127 - %tid]            thread 127 - t reads it: they meet
    memref.load %tile[%tid]                  thread t reads it: element t belongs to thread t

With a block of known size the answer is exact: an element that a single thread alone writes and reads is no
meeting of threads. Where the size is not known, a proof must hold for every block:

    store %tile[%tid_x]; load %tile[%other_x]      blocks of 1, 2, 3, … 1024 threads along x
    store %tile[%tid_y, %tid_x]; load …            no end of shapes: nothing is proven
    store %tile[%k]; load %tile[%k]                any block does the same: one of them

Subscripts that name one axis mean the same in each block that has as many threads along it. What
depends on lanes depends on all axes, of which those that the kernel never reads have one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    defining_op,
    enclosing,
    outermost,
    remembered,
    walk,
)
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.values.linear import Linear
from mlir_async_pipe.facts.values.memory_roots import bytes_of_global, is_pointer
from mlir_async_pipe.facts.values.numbers import evaluate_more
from mlir_async_pipe.facts.values.sums import without
from mlir_async_pipe.facts.values.thread_numbers import (
    guards_of,
    ids_of,
    linear_thread,
    points_of,
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

# Elements of a buffer of which each is marked, a byte an element: more than workgroup memory has.
LARGEST_BUFFER = 1 << 24


class OutOfBounds(Exception):
    """With this block size a thread would leave the buffer."""


def footprint(region: CoveredRegion, shape: tuple[int, ...], block: Size) -> np.ndarray | None:
    """The elements that all threads of a block cover together.

    `shape` is the static shape of the region's base; the result is a boolean array of that
    shape, not to be changed, None where the subscripts cannot be evaluated. Raises OutOfBounds.
    """
    return _footprint((region, shape, block))


# Each write is compared with every read that may see it.
@remembered
def _footprint(asked: tuple[CoveredRegion, tuple[int, ...], Size]) -> np.ndarray | None:
    region, shape, block = asked
    found = elements_by_thread(region, shape, block)
    if found is None or prod(shape) > LARGEST_BUFFER:
        return None
    threads, elements = found
    covered = np.zeros(shape, dtype=bool)
    # Lanes that a block does not have copy nothing: of 48 threads the second wave has 16.
    covered.ravel()[elements[threads < prod(block)]] = True
    covered.flags.writeable = False
    return covered


def elements_by_thread(
    region: CoveredRegion, shape: tuple[int, ...], block: Size
) -> tuple[np.ndarray, np.ndarray] | None:
    """Every touch of an element: the linear numbers of the threads and the row-major numbers
    of the elements, both of shape (touches,).

    None where the subscripts cannot be evaluated. Raises OutOfBounds.
    """
    found = _starts(region, shape, block)
    if found is None:
        return None
    threads, starts = found
    offsets = _offsets(region, shape)
    touching = threads[:, None] + _lane_offsets(region, offsets.size)
    return touching.ravel(), (starts[:, None] + offsets).ravel()


def _lane_offsets(region: CoveredRegion, elements: int) -> np.ndarray:
    """Which lane touches each element, counted from the thread that names the address: of a
    copy over the lanes of a wave lane l touches the l-th piece."""
    offset = np.zeros(elements, dtype=np.int64)
    assert region.access is not None
    if region.access.over_lanes:
        offset += np.arange(elements) * region.lanes // elements
    return offset


def _starts(
    region: CoveredRegion, shape: tuple[int, ...], block: Size
) -> tuple[np.ndarray, np.ndarray] | None:
    """For each point of the enumeration its linear thread, and the row-major number of the
    first element; None where the subscripts cannot be evaluated. Raises OutOfBounds."""
    if region.subscripts is None or region.extent is None or region.access is None:
        return None
    points = points_of(region.op, region.top, block, region.lanes)
    if points is None:
        return None
    leaves, threads, runs = points
    # Threads alone have the same numbers for every access.
    numbered = leaves or _numbered_by_threads((block, region.lanes))
    subscripts = [
        _numbers(form, numbered, threads, block, region.lanes) for form in region.subscripts
    ]
    if any(numbers is None for numbers in subscripts):
        return None
    active = _active(region, threads, block) & runs
    for condition, branch in guards_of(region.op, region.top):
        met = evaluate_more(condition, numbered, ids_of(threads, block, region.lanes))
        if met is not None:
            active = active & (met.astype(bool) == (branch == 0))
    flat = np.broadcast_arrays(
        linear_thread(threads, block), *[s for s in subscripts if s is not None], active
    )
    who, *columns = (column.ravel()[flat[-1].ravel()] for column in flat[:-1])
    for column, length, size in zip(columns, region.extent, shape, strict=True):
        if column.size and (column.min() < 0 or column.max() + length > size):
            raise OutOfBounds
    if not columns:
        return who, np.zeros_like(who)
    return who, np.ravel_multi_index(tuple(columns), shape)


@remembered
def _numbered_by_threads(asked: tuple[Size, int]) -> dict[Value, np.ndarray | None]:
    """What is known of values in blocks of this size and waves of so many lanes, outside of inner
    loops; gets more with every access."""
    return {}


def _offsets(region: CoveredRegion, shape: tuple[int, ...]) -> np.ndarray:
    """The row-major distances of an access's elements from its first one."""
    assert region.extent is not None
    offsets = np.zeros(1, dtype=np.int64)
    for dimension, length in enumerate(region.extent):
        stride = prod(shape[dimension + 1 :])
        offsets = (offsets[:, None] + stride * np.arange(length)).ravel()
    return offsets


def _numbers(
    form: Linear,
    numbered: dict[Value, np.ndarray | None],
    threads: dict[int, np.ndarray],
    block: Size,
    lanes: int,
) -> np.ndarray | None:
    leaf = ids_of(threads, block, lanes)
    total: np.ndarray = np.asarray(form.constant, dtype=np.int64)
    for symbol, coefficient in form.terms:
        numbers = evaluate_more(symbol, numbered, leaf)
        if numbers is None:
            return None
        total = total + coefficient * numbers
    return total


def _active(region: CoveredRegion, threads: dict[int, np.ndarray], block: Size) -> np.ndarray:
    """The threads whose addresses count; of a copy over the lanes of a wave only its first."""
    linear = linear_thread(threads, block)
    assert region.access is not None
    if region.access.over_lanes:
        return linear % region.lanes == 0
    lanes = region.access.active_lanes
    return np.ones_like(linear, dtype=bool) if lanes is None else linear % 32 < lanes


def written_together(writes: list[CoveredRegion], block: Size) -> np.ndarray | None:
    """The elements that all threads of a block write by any of `writes`, which share a base; None if that
    cannot be enumerated. Raises OutOfBounds."""
    found: list[np.ndarray] = []
    for write in writes:
        shape = static_shape(write)
        covered = None if shape is None else footprint(write, shape, block)
        if covered is None or (found and found[0].shape != covered.shape):
            return None
        found.append(covered)
    return np.logical_or.reduce(found)


def static_shape(region: CoveredRegion) -> tuple[int, ...] | None:
    """The static shape of the memref that a region's subscripts index; None if it has none."""
    if region.subscripts is None:
        return None
    value = region.base
    if isinstance(value, str):
        assert region.root is not None
        value = region.root.value
    if is_pointer(value):
        size = bytes_of_global(value)
        return None if size is None else (size,)
    return shape_of(value)


@remembered
def shape_of(memory: Any) -> tuple[int, ...] | None:
    """The static shape of a memref: whoever looks at the first size of what a function is given
    asks here."""
    kind = ir.MemRefType(memory.type)
    return tuple(kind.shape) if kind.has_static_shape else None


# Between threads -----------------------------------------------------------------------------


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
    ids = launch_ids_of(regions)
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


def launch_ids_of(regions: Iterable[CoveredRegion]) -> set[LaunchId]:
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
