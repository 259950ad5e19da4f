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
from mlir_async_pipe.facts.values.thread_numbers import ids_of, linear_thread, thread_ids
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion
from mlir_async_pipe.vocabulary.launch_ids import Size

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
    leaves, threads, runs = points
    # Threads alone have the same numbers for every access.
    numbered = leaves or _numbered_by_threads((block, region.lanes))
    subscripts = [
        _numbers(form, numbered, threads, block, region.lanes) for form in region.subscripts
    ]
    if any(numbers is None for numbers in subscripts):
        return None
    active = _active(region, threads, block) & runs
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
) -> tuple[dict[Value, np.ndarray | None], dict[int, np.ndarray], np.ndarray] | None:
    """Numbers for inner induction variables and thread ids, one axis each, broadcastable; and at which of
    these points an iteration runs, as a thread may run fewer than another."""
    loops = _counted_loops(region, block)
    sizes = [max(int((-((lower - upper) // step)).max()), 0) for _, lower, upper, step in loops]
    if product(block) * product(sizes) > LARGEST_ENUMERATION:
        return None
    axes = len(loops) + 1

    def along(axis: int, numbers: np.ndarray) -> np.ndarray:
        return numbers.reshape([-1 if a == axis else 1 for a in range(axes)])

    leaves: dict[Value, np.ndarray | None] = {}
    runs = np.ones([1] * axes, dtype=bool)
    for axis, ((loop, lower, upper, step), size) in enumerate(zip(loops, sizes, strict=True), 1):
        number = along(0, lower) + along(axis, step * np.arange(size))
        leaves[loop.regions[0].blocks[0].arguments[0]] = number
        runs = runs & (number < along(0, upper))
    return leaves, thread_ids(along(0, np.arange(product(block))), block), runs


def _counted_loops(
    region: CoveredRegion, block: Size
) -> list[tuple[Operation, np.ndarray, np.ndarray, int]]:
    """The loops between an access and the body that are counted. The induction variables of the others
    have no numbers, nor has what is computed from them."""
    loops = []
    current = region.op
    while current != region.top:
        above = parent(current)
        assert above is not None
        bounds = _bounds(above, block, region.lanes) if above.name == "scf.for" else None
        if bounds is not None:
            loops.append((above, *bounds))
        current = above
    return loops


def is_counted(op: Operation) -> bool:
    """Whether an op is a loop whose iterations are enumerated for each thread."""
    return op.name == "scf.for" and _bounds(op, (1, 1, 1), 1) is not None


def _bounds(loop: Operation, block: Size, lanes: int) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Bounds of a loop, one number or one for each thread, and its step, if that is constant and constants and
    thread ids say all."""
    step = constant_value(loop.operands[2])
    leaf = ids_of(thread_ids(np.arange(product(block)), block), block, lanes)
    lower, upper = (evaluate_more(bound, {}, leaf) for bound in list(loop.operands)[:2])
    if step is None or step < 1 or lower is None or upper is None:
        return None
    if lower.ndim + upper.ndim and "unsignedCmp" in loop.attributes:
        return None
    return np.atleast_1d(lower), np.atleast_1d(upper), step


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
