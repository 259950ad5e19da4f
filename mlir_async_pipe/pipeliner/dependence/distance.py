"""At which iteration distances two accesses of a loop can touch the same location.

Access a in iteration k and access b in iteration k + d (d >= 0) meet in one dimension iff

    a(k) + [0, extent_a - 1]  and  b(k + d) + [0, extent_b - 1]  overlap.

With a = A k + r_a and b = A k + A d + r_b (subscripts linear in the iteration number k with
the same factor A = coefficient * step) that is A d in [lo, hi], where

    lo = min(r_a - r_b) - (extent_b - 1),   hi = max(r_a - r_b) + (extent_a - 1).

Example: store C[i], load C[i - 2]: A = 1, r_a - r_b = 2, so exactly d = 2. Values that differ between the two ends
(thread ids, inner induction variables, anything computed from a load) enter with their ranges, once for each end;
values that are the same at both ends cancel. What has no bound leaves every distance possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    ancestors,
    constant_value,
    defining_op,
    enclosing,
    is_function,
    is_made_in,
    outermost,
    remembered,
    walk,
)
from mlir_async_pipe.facts.flow.algorithms import computed, walked
from mlir_async_pipe.facts.values import sums
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear
from mlir_async_pipe.facts.values.memory_roots import bytes_of_global, is_pointer, may_alias
from mlir_async_pipe.facts.values.sums import Form, Interval, added, interval_of, subtract, without
from mlir_async_pipe.facts.values.thread_numbers import Points, guards_of, linear_thread
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion
from mlir_async_pipe.vocabulary import VIEW_OPS, row_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS
from mlir_async_pipe.vocabulary.launch_ids import (
    LARGEST_BLOCK,
    LaunchId,
    Size,
    axes_read,
    launch_id,
)


class Distances(NamedTuple):
    """The distances d in [low, high] at which two accesses may meet; high None: no end.

    Of those only d = residue modulo `modulus` count: a slot index `i mod 2` written by hand
    meets itself at even distances. `proven` is True if the distances come from the
    subscripts, False if nothing could be said and every distance has to be assumed.
    """

    low: int
    high: int | None
    proven: bool
    modulus: int = 1
    residue: int = 0

    def smallest(self, least: int) -> int | None:
        """The smallest distance that is at least `least`, None if there is none."""
        start = max(least, self.low)
        found = start + (self.residue - start) % self.modulus
        return None if self.high is not None and found > self.high else found


EVERY = Distances(0, None, False)
# The subscripts are the same at every distance: C[0] meets C[0] in each iteration.
ALWAYS = Distances(0, None, True)


class LoopIndex:
    """What is the same at both ends of a dependence, and what moves with the iteration."""

    def __init__(self, loop: Operation, arithmetic: Arithmetic) -> None:
        self.loop = loop
        self.arithmetic = arithmetic
        self.induction = loop.regions[0].blocks[0].arguments[0]
        self.step = constant_value(loop.operands[2])
        self._varies: dict[Value, bool] = {}
        self._distances: dict[tuple[int, int, bool, bool], Distances | None] = {}

    def distances(
        self,
        a: CoveredRegion,
        b: CoveredRegion,
        *,
        same_thread: bool,
        assume_noalias_arguments: bool = False,
    ) -> Distances | None:
        """The distances at which `b`, d iterations after `a`, may meet it; None for never.

        Dependences, versions and barriers all ask, so each question is answered once."""
        key = (a.position, b.position, same_thread, assume_noalias_arguments)
        if key not in self._distances:
            self._distances[key] = self._find_distances(a, b, same_thread, assume_noalias_arguments)
        return self._distances[key]

    def _find_distances(
        self, a: CoveredRegion, b: CoveredRegion, same_thread: bool, assume_noalias_arguments: bool
    ) -> Distances | None:
        if a.root is None or b.root is None:
            return EVERY
        if not may_alias(a.root, b.root, assume_noalias_arguments=assume_noalias_arguments):
            return None
        if a.subscripts is None or b.subscripts is None or a.base != b.base:
            return EVERY
        if not self._stays(a.base, same_thread):
            return EVERY
        assert a.extent is not None and b.extent is not None
        low, high, narrowed, unknown, modulus, residue = 0, None, False, False, 1, 0
        for sa, sb, ea, eb in zip(a.subscripts, b.subscripts, a.extent, b.extent, strict=True):
            found = self._dimension(sa, sb, ea, eb, same_thread)
            if found is None:
                return None
            if found == EVERY:
                unknown = True
            elif found != ALWAYS:
                narrowed = True
                if found.modulus > modulus:
                    modulus, residue = found.modulus, found.residue
                low = max(low, found.low)
                if found.high is not None:
                    high = found.high if high is None else min(high, found.high)
        # One dimension that narrows the distances is enough; without one all must be known.
        distances = Distances(low, high, narrowed or not unknown, modulus, residue)
        if distances.smallest(0) is None or (unknown and self._apart(a, b)):
            return None
        return distances

    def _stays(self, base: Value | str, same_thread: bool) -> bool:
        """Whether both ends count from one place: a base that is a view lies where its numbers say."""
        while not isinstance(base, str):
            op = defining_op(base)
            if op is None or op.name not in VIEW_OPS:
                return True
            if not all(self._same(number, same_thread) for number in list(op.operands)[1:]):
                return False
            base = op.operands[0]
        return True

    def _same(self, value: Value, same_thread: bool) -> bool:
        return not self.varies(value) or (same_thread and not is_made_in(value, self.loop))

    def _apart(self, a: CoveredRegion, b: CoveredRegion) -> bool:
        """Whether the elements that all threads touch by the one access are none of the other's:
        wave w copies 512 elements to 2048 w, and 512 to 2048 w + 512."""
        first, second = self._footprint(a), self._footprint(b)
        return first is not None and second is not None and not (first & second).any()

    def _footprint(self, region: CoveredRegion) -> np.ndarray | None:
        """The elements of an access that are the same in every iteration, None if not known."""
        size, shape = self.arithmetic.block_size, static_shape(region)
        if size is None or shape is None or region.root is None or region.root.space != "workgroup":
            return None
        try:
            return footprint(region, shape, size)
        except OutOfBounds:
            return None

    def _dimension(
        self, a: Linear, b: Linear, extent_a: int, extent_b: int, same_thread: bool
    ) -> Distances | None:
        rotating = self._rotating(a, b, extent_a, extent_b)
        if rotating is not None:
            return rotating
        factor = a.coefficient(self.induction)
        if factor != b.coefficient(self.induction):
            return EVERY
        apart = self._difference(
            without(a, self.induction), without(b, self.induction), same_thread
        )
        if factor == 0 and apart == (0, 0):
            return ALWAYS
        low, high = added(apart, (1 - extent_b, extent_a - 1))
        if factor == 0:
            # The iteration number does not occur: either never, or at every distance.
            if (low is not None and low > 0) or (high is not None and high < 0):
                return None
            return EVERY
        first, last = sums.factor((low, high), factor * (self.step or 1))
        first = max(first or 0, 0)
        if self.step is None:
            # An unknown positive step is at least 1, so d is at most hi / coefficient.
            first = min(first, 1)
        if last is not None and first > last:
            return None
        if last is None and first == 0:
            return EVERY
        return Distances(first, last, True)

    def _rotating(self, a: Linear, b: Linear, extent_a: int, extent_b: int) -> Distances | None:
        """Both subscripts are a slot number f mod V with f linear in the iteration:

        A k + r_a = A (k + d) + r_b (mod V)  iff  A d = r_a - r_b (mod V)

        None if they do not have this form, or if V - 1 distances of V are possible anyway.
        """
        if self.step is None or (extent_a, extent_b) != (1, 1):
            return None
        first, second = self._slot_form(a), self._slot_form(b)
        if first is None or second is None or first[1] != second[1]:
            return None
        versions = first[1]
        difference = subtract(first[0], second[0])
        factor = first[0].coefficient(self.induction) * self.step
        if difference.terms or versions < 2:
            return None
        found = [d for d in range(versions) if (factor * d - difference.constant) % versions == 0]
        if len(found) != 1:
            return None
        return Distances(0, None, True, versions, found[0])

    def _slot_form(self, form: Linear) -> tuple[Linear, int] | None:
        """(f, V) if the form is the single symbol f mod V."""
        if form.constant or len(form.terms) != 1:
            return None
        ((symbol, factor),) = form.terms
        return self.arithmetic.remainder(symbol) if factor == 1 else None

    def _difference(self, a: Linear, b: Linear, same_thread: bool) -> Interval:
        """The range of a - b, where symbols that are the same at both ends cancel."""

        def at(form: Linear, end: int) -> Form[tuple[Value, int]]:
            own = (((s, 0 if self._same(s, same_thread) else end), c) for s, c in form.terms)
            return Form(form.constant, frozenset(own))

        return interval_of(
            subtract(at(a, 1), at(b, 2)), lambda one: self.arithmetic.value_range(one[0])
        )

    def varies(self, value: Value) -> bool:
        """Whether a value may differ between threads or between iterations of the loop.

        Block ids, function arguments and pure functions of them are the same; thread ids,
        loaded values, loop-carried values and everything computed from them are not.
        """
        return computed(
            value, self._varies, lambda v: self._deciding(v) or (), self._varies_by_operands
        )

    def _deciding(self, value: Value) -> Sequence[Value] | None:
        """The operands that decide whether what an op makes of them varies; None of other values."""
        op = defining_op(value)
        if op is None or launch_id(value) is not None:
            return None
        row = row_of(op)
        return op.operands if row.pure and row.agree != "differs" and not len(op.regions) else None

    def _varies_by_operands(self, value: Value) -> bool:
        known, deciding = launch_id(value), self._deciding(value)
        if known is not None:
            return known.differs
        if deciding is not None:
            return any(self._varies[operand] for operand in deciding)
        return defining_op(value) is not None or self._argument_varies(value)

    def _argument_varies(self, argument: Value) -> bool:
        block = ir.BlockArgument(argument).owner
        holder = block.owner.operation
        if holder == self.loop:
            return True
        if is_function(holder):
            return block != holder.regions[0].blocks[0]
        # The induction variable of a loop around ours is the same at both ends.
        around = holder in ancestors(self.loop)
        is_index = holder.name == "scf.for" and ir.BlockArgument(argument).arg_number == 0
        return not (around and is_index)


def subscripts_equal(a: CoveredRegion, b: CoveredRegion) -> bool:
    """Whether both accesses of one thread and one iteration cover the same elements."""
    same = a.subscripts is not None and a.base == b.base
    return same and (a.subscripts, a.extent) == (b.subscripts, b.extent)


# Which elements of a buffer an access covers, by enumerating threads and inner loops.
#
#     device_async_copy … %shared[%tid / 4, (%tid mod 4) * 8], 8   with 128 threads
#
# covers rows 0..31 completely: 128 points, each 8 neighbours. Enumeration takes whatever
# integer arithmetic the subscripts use (divui, remui, xori swizzles) and answers exactly;
# what it cannot evaluate (loaded indices, the pipelined induction variable) it refuses.
#
# Whether accesses of a loop meet at one element from different threads:
#
#     memref.store %v, %tile[%tid]             thread t writes element t,
#     memref.load %tile[127 - %tid]            thread 127 - t reads it: they meet
#     memref.load %tile[%tid]                  thread t reads it: element t belongs to thread t
#
# With a block of known size the answer is exact: an element that a single thread alone writes and reads is no
# meeting of threads. Where the size is not known, a proof must hold for every block:
#
#     store %tile[%tid_x]; load %tile[%other_x]      blocks of 1, 2, 3, … 1024 threads along x
#     store %tile[%tid_y, %tid_x]; load …            no end of shapes: nothing is proven
#     store %tile[%k]; load %tile[%k]                any block does the same: one of them
#
# Subscripts that name one axis mean the same in each block that has as many threads along it. What
# depends on lanes depends on all axes, of which those that the kernel never reads have one thread.


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
    points = Points.of_loops(region.op, region.top, block, region.lanes)
    if points is None:
        return None
    # Threads alone have the same numbers for every access.
    points.known = points.known or _numbered_by_threads((block, region.lanes))
    subscripts = [points.split(form) for form in region.subscripts]
    if any(terms for _, terms in subscripts):
        return None
    active = _active(region, points.threads, block) & points.runs
    for condition, branch in guards_of(region.op, region.top):
        met = points.evaluate(condition)
        if met is not None:
            active = active & (met.astype(bool) == (branch == 0))
    flat = np.broadcast_arrays(
        linear_thread(points.threads, block), *(numbers for numbers, _ in subscripts), active
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
    """The static shape of a memref: whoever looks at the first size of what a function is given asks here."""
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
    sizes = ([n if a == axis else 1 for a in range(3)] for n in range(1, LARGEST_BLOCK + 1))
    return [(x, y, z) for x, y, z in sizes]


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
