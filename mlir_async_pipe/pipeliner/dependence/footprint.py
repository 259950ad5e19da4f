"""Which elements of a buffer an access covers, by enumerating threads and inner loops.

    device_async_copy … %shared[%tid / 4, (%tid mod 4) * 8], 8   with 128 threads

covers rows 0..31 completely: 128 points, each 8 neighbours. Enumeration takes whatever
integer arithmetic the subscripts use (divui, remui, xori swizzles) and answers exactly;
what it cannot evaluate (loaded indices, the pipelined induction variable) it refuses.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, remembered
from mlir_async_pipe.facts.values.linear import Linear
from mlir_async_pipe.facts.values.numbers import evaluate_more
from mlir_async_pipe.facts.values.pointers import bytes_of_global, is_pointer
from mlir_async_pipe.facts.values.thread_numbers import (
    guards_of,
    ids_of,
    linear_thread,
    points_of,
)
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion
from mlir_async_pipe.vocabulary.launch_ids import Size

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
