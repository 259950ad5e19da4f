"""Which elements of a buffer an access covers, by enumerating threads and inner loops.

    device_async_copy … %shared[%tid / 4, (%tid mod 4) * 8], 8   with 128 threads

covers rows 0..31 completely: 128 points, each 8 neighbours. Enumeration takes whatever
integer arithmetic the subscripts use (divui, remui, xori swizzles) and answers exactly;
what it cannot evaluate (loaded indices, the pipelined induction variable) it refuses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    constant_value,
    parent,
    remembered,
)
from mlir_async_pipe.facts.values.integer_ops import product
from mlir_async_pipe.facts.values.linear import Linear
from mlir_async_pipe.facts.values.numbers import evaluate_more
from mlir_async_pipe.facts.values.pointers import bytes_of_global, is_pointer
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion
from mlir_async_pipe.vocabulary.launch_ids import Size, launch_id

# Enough for 1024 threads times 1024 inner iterations; a GEMM tile takes milliseconds.
LARGEST_ENUMERATION = 1 << 20
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
    if found is None or product(shape) > LARGEST_BUFFER:
        return None
    threads, elements = found
    covered = np.zeros(shape, dtype=bool)
    # Lanes that a block does not have copy nothing: of 48 threads the second wave has 16.
    covered.ravel()[elements[threads < product(block)]] = True
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
    points = _points(region, block)
    if points is None:
        return None
    leaves, threads = points
    # Threads alone have the same numbers for every access.
    numbered = leaves or _numbered_by_threads((block, region.lanes))
    subscripts = [
        _numbers(form, numbered, threads, block, region.lanes) for form in region.subscripts
    ]
    if any(numbers is None for numbers in subscripts):
        return None
    active = _active(region, threads, block)
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
        stride = product(shape[dimension + 1 :])
        offsets = (offsets[:, None] + stride * np.arange(length)).ravel()
    return offsets


def _points(
    region: CoveredRegion, block: Size
) -> tuple[dict[Value, np.ndarray | None], dict[int, np.ndarray]] | None:
    """Numbers for inner induction variables and thread ids, one axis each, broadcastable."""
    loops = _static_loops(region.op, region.top)
    ranges = [np.arange(lower, upper, step) for _, lower, upper, step in loops]
    threads = np.arange(product(block))
    if threads.size * product(len(r) for r in ranges) > LARGEST_ENUMERATION:
        return None
    axes = len(ranges) + 1
    leaves: dict[Value, np.ndarray | None] = {
        loop.regions[0].blocks[0].arguments[0]: r.reshape(
            [-1 if a == i + 1 else 1 for a in range(axes)]
        )
        for i, ((loop, *_), r) in enumerate(zip(loops, ranges, strict=True))
    }
    linear = threads.reshape([-1] + [1] * (axes - 1))
    x, y, _ = block
    return leaves, {0: linear % x, 1: linear // x % y, 2: linear // (x * y)}


def _static_loops(op: Operation, top: Operation) -> list[tuple[Operation, int, int, int]]:
    """The scf.for between `op` and `top` that have constant bounds. The induction variables of
    the others have no numbers, nor has what is computed from them."""
    loops = []
    current = op
    while current != top:
        above = parent(current)
        assert above is not None
        if above.name == "scf.for":
            bounds = [constant_value(above.operands[i]) for i in range(3)]
            if all(bound is not None for bound in bounds):
                lower, upper, step = (int(bound) for bound in bounds if bound is not None)
                loops.append((above, lower, upper, step))
        current = above
    return loops


def _numbers(
    form: Linear,
    numbered: dict[Value, np.ndarray | None],
    threads: dict[int, np.ndarray],
    block: Size,
    lanes: int,
) -> np.ndarray | None:
    def leaf(value: Value) -> np.ndarray | None:
        known = launch_id(value)
        if known is None:
            return None
        if known.kind == "thread":
            return threads[known.axis]
        if known.kind == "block_size":
            return np.asarray(block[known.axis])
        if known.kind == "lane":
            return linear_thread(threads, block) % lanes
        return None

    total: np.ndarray = np.asarray(form.constant, dtype=np.int64)
    for symbol, coefficient in form.terms:
        numbers = evaluate_more(symbol, numbered, leaf)
        if numbers is None:
            return None
        total = total + coefficient * numbers
    return total


def linear_thread(threads: dict[int, np.ndarray], block: Size) -> np.ndarray:
    """The linear thread number, x fastest (CUDA C++ Programming Guide, thread hierarchy)."""
    return threads[0] + block[0] * (threads[1] + block[1] * threads[2])


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
