"""Memory accesses of a unit: addresses from memrefs, bounds, race detection, data.

`locate` gives the byte addresses of the elements; lanes that are switched off or out of
bounds are sent to the null page and left out of everything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.facts.values.domains import Expression, OperandPlace, results_of_map
from mlir_async_pipe.machine.decode import Site, Unit
from mlir_async_pipe.machine.fifos import Footprint
from mlir_async_pipe.machine.kinds import Kind
from mlir_async_pipe.machine.lane_values import Array, MemRef, lanes_of, uniform
from mlir_async_pipe.machine.memory import DYNAMIC
from mlir_async_pipe.machine.terms import identities, is_symbolic
from mlir_async_pipe.vocabulary.operator_table import (
    CEILING_DIVISION,
    FLOOR_DIVISION,
    MODULUS,
    PRODUCT,
    SUM,
    Operator,
)


@dataclass(frozen=True)
class ByteSpan:
    """Byte addresses of elements, shape (lanes or 1, …), and the lanes that take part.

    `inside`: the elements that a buffer checked in hardware has; the others read as 0. None: all."""

    addresses: Array
    lanes: Array | None
    item_bytes: int
    inside: Array | None = None

    def rows(self, unit: Unit) -> tuple[Array, Array, Array]:
        """(lane numbers, threads in the grid, addresses) of the lanes that take part."""
        chosen = np.arange(unit.width) if self.lanes is None else np.flatnonzero(self.lanes)
        addresses = lanes_of(self.addresses, unit.width)[chosen]
        return chosen, unit.grid_threads(chosen), addresses


def locate(
    unit: Unit,
    site: Site,
    memory: MemRef,
    indices: tuple[Array, ...],
    extent: tuple[int, ...] = (),
    lanes: Array | None = None,
) -> ByteSpan:
    """The elements from `indices` on, `extent` many in the trailing dimensions.

    Lanes out of bounds are reported and left out; of memory with limits nothing is out of bounds.
    `lanes` narrows the active lanes.
    """
    if extent and memory.rank == 0:
        memory, indices = memory.element_in_a_row(), (np.zeros_like(memory.offset),)
    first = memory.rank - len(extent)
    linear = memory.offset
    inside: Any = True
    for number, index in enumerate(indices):
        linear = linear + index * memory.strides[number]
        last = index + (extent[number - first] - 1 if number >= first else 0)
        inside = inside & (index >= 0) & (last < memory.sizes[number])
    for number, length in enumerate(extent):
        steps = np.arange(length) * memory.strides[first + number].reshape(-1, *(1,) * (number + 1))
        linear = linear[..., None] + steps
    base = memory.base.reshape(-1, *(1,) * len(extent))
    addresses = base + linear * memory.element_bytes
    active = unit.mask if lanes is None else lanes
    if memory.limits is None and inside is not True and not inside.all():
        active = _drop_outside(unit, site, memory, lanes_of(inside, unit.width), active)
    if memory.element.shape:
        items = memory.element.byte_offsets()
        addresses = addresses.reshape(*addresses.shape, *(1,) * items.ndim) + items
    found = span(unit, addresses, memory.element.item_bytes, active)
    return found if memory.limits is None else limited(found, memory.limits)


def limited(where: ByteSpan, limits: tuple[Array, Array]) -> ByteSpan:
    """The same elements, with those outside of the limits sent to the null page."""
    low, end = (limit.reshape(-1, *(1,) * (where.addresses.ndim - 1)) for limit in limits)
    inside = (where.addresses >= low) & (where.addresses + where.item_bytes <= end)
    if where.lanes is not None:
        inside = inside | ~where.lanes.reshape(-1, *(1,) * (where.addresses.ndim - 1))
    if inside.all():
        return where
    return replace(where, addresses=np.where(inside, where.addresses, 0), inside=inside)


def span(unit: Unit, addresses: Array, item_bytes: int, active: Array | None) -> ByteSpan:
    """A span of given addresses, with inactive lanes sent to the null page."""
    if active is None:
        return ByteSpan(addresses, None, item_bytes)
    chosen = active.reshape(-1, *(1,) * (addresses.ndim - 1))
    return ByteSpan(np.where(chosen, addresses, 0), active, item_bytes)


def read(unit: Unit, site: Site, where: ByteSpan, kind: Kind) -> Array:
    """Read elements of `kind`; the result has the shape of the addresses."""
    if where.inside is not None:
        whole = kind.with_shape(where.addresses.shape[1:])
        return element_wise(unit, site, where.addresses, where.inside, whole, None, where.lanes)
    enter(unit, site, where, "read")
    return unit.launch.memory.load(where.addresses, kind)


def write(unit: Unit, site: Site, where: ByteSpan, values: Array, kind: Kind) -> None:
    if where.inside is not None:
        whole = kind.with_shape(where.addresses.shape[1:])
        element_wise(unit, site, where.addresses, where.inside, whole, values, where.lanes)
        return
    if enter(unit, site, where, "write", values if site.is_shuffled else None):
        return
    _store(unit, where, values, kind)


def element_wise(
    unit: Unit,
    site: Site,
    addresses: Array,
    inside: Array,
    kind: Kind,
    value: Array | None,
    lanes: Array | None = None,
) -> Array:
    """Access vector elements one position at a time, each in the lanes (of `lanes`, or those that are active) that it is
    inside of.

    With `value` it is a write, else a read whose other elements are zero.
    """
    shape = (unit.width, *kind.shape)
    addresses = np.broadcast_to(addresses, shape).reshape(unit.width, -1)
    good = np.broadcast_to(inside, shape).reshape(unit.width, -1)
    active = unit.active() if lanes is None else lanes_of(lanes, unit.width)
    result = unit.launch.memory.zeros(addresses.shape, kind.dtype)
    given = None if value is None else lanes_of(value, unit.width).reshape(unit.width, -1)
    for number in range(addresses.shape[1]):
        mine = good[:, number] & active
        if not mine.any():
            continue
        target = span(unit, addresses[:, number], kind.item_bytes, mine)
        if given is None:
            result[:, number] = np.where(mine, read(unit, site, target, kind.element), 0)
        else:
            write(unit, site, target, given[:, number], kind.element)
    return result.reshape(shape)


def aligned(unit: Unit, site: Site, where: ByteSpan) -> ByteSpan:
    """A span of neighbours in each lane, of which the first is to be aligned as the op's row says; lanes where it is not are
    reported."""
    if site.alignment > 1:
        first = where.addresses.reshape(len(where.addresses), -1)[:, 0]
        wrong = first % site.alignment != 0
        if wrong.any():
            lane = int(np.flatnonzero(lanes_of(wrong, unit.width))[0])
            buffer = unit.launch.memory.name_at(int(lanes_of(first, unit.width)[lane]))
            unit.report("misaligned-access", site, lane, buffer=buffer)
    return where


def touched_by(unit: Unit, where: ByteSpan) -> Footprint:
    lanes, threads, addresses = where.rows(unit)
    return Footprint(lanes, threads, unit.launch.detector.granules(addresses, where.item_bytes))


def enter(unit: Unit, site: Site, where: ByteSpan, how: str, values: Array | None = None) -> bool:
    """Check one access: a "read", "write" or "atomic" update; True if a scope only records it and nothing must be
    changed. `values` are those that lanes may have been handed by others: where those of a warp are one, it is stored once."""
    launch = unit.launch
    if unit.deferred is not None:
        return unit.deferred.access(unit, where, how)
    unit.tick()
    within = where = _watched(unit, where)
    if how == "read" and site.needed is not None:
        within = _in_need(unit, where, *site.needed)
    if where.addresses.shape[0] == 1 and unit.width > 2 and not site.is_strong and values is None:
        within = _ends_of_warps(unit, where)
    if within.lanes is not None and not within.lanes.any():
        return False
    lanes, threads, touched = touched_by(unit, within)
    if how == "read":
        launch.detector.read(site.number, threads, touched)
    else:
        once = None
        if values is not None:
            # A number for each lane, that those of a warp share which store one value to one place.
            stored = identities(lanes_of(values, unit.width)[lanes]).reshape(len(lanes), -1)
            rows = np.column_stack((unit.threads[lanes] // unit.warp, touched, stored))
            once = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        launch.detector.write(site.number, threads, touched, atomic=how == "atomic", once=once)
    return False


def _watched(unit: Unit, where: ByteSpan) -> ByteSpan:
    """The lanes of a span whose bytes have shadows."""
    long = unit.launch.memory.in_long_arrays(where.addresses)
    if long is None:
        return where
    outside = lanes_of(long.reshape(len(long), -1).any(axis=1), unit.width)
    lanes = unit.active() if where.lanes is None else lanes_of(where.lanes, unit.width)
    return replace(where, addresses=np.where(long, 0, where.addresses), lanes=lanes & ~outside)


def _in_need(unit: Unit, where: ByteSpan, condition: int, holds: bool) -> ByteSpan:
    """The lanes that have need of what they read: to others a store of another thread makes no difference."""
    truth = unit.frame.values[condition]
    if is_symbolic(truth):
        return where
    lanes = unit.active() if where.lanes is None else lanes_of(where.lanes, unit.width)
    return replace(where, lanes=lanes & (lanes_of(truth, unit.width) == holds))


def _ends_of_warps(unit: Unit, where: ByteSpan) -> ByteSpan:
    """Two lanes of each warp, of those that access one address: enough to see every race with others."""
    active = np.arange(unit.width) if where.lanes is None else np.flatnonzero(where.lanes)
    warps = unit.threads[active] // unit.warp
    begins = np.diff(warps, prepend=-1) != 0
    lanes = active[begins | np.roll(begins, -1)]
    return ByteSpan(where.addresses, unit.mask_of(lanes), where.item_bytes)


def _store(unit: Unit, where: ByteSpan, values: Array, kind: Kind) -> None:
    if where.lanes is None:
        # Lanes with values of their own may store to one address.
        rows = max(len(where.addresses), len(values))
        addresses = np.broadcast_to(where.addresses, (rows, *where.addresses.shape[1:]))
        unit.launch.memory.store(addresses, values, kind)
        return
    lanes = np.flatnonzero(where.lanes)
    if len(lanes) == 0:
        return
    addresses = lanes_of(where.addresses, unit.width)[lanes]
    unit.launch.memory.store(addresses, lanes_of(values, unit.width)[lanes], kind)


def within_memory(unit: Unit, addresses: Array, size: int = 1) -> Array:
    """Addresses of any pointers; those outside all memory go to the null page, where the
    detector finds that they belong to no buffer."""
    outside = (addresses < 0) | (addresses + size > len(unit.launch.memory.data))
    long = unit.launch.memory.in_long_arrays(addresses)
    outside = outside if long is None else outside & ~long
    return np.where(outside, 0, addresses) if outside.any() else addresses


def check_promise(
    unit: Unit, site: Site, memory: MemRef, promised: Array, used: Array
) -> Array | None:
    """Report lanes whose used elements break an `in_bounds` promise; None if all keep it,
    else the lanes that do, shaped to mask vectors."""
    if promised.all():
        return None
    broken = (used & ~promised).any(axis=tuple(range(1, used.ndim)))
    kept = _drop_outside(unit, site, memory, lanes_of(~broken, unit.width), unit.mask)
    return kept.reshape(-1, *(1,) * (used.ndim - 1))


def _drop_outside(
    unit: Unit, site: Site, memory: MemRef, inside: Array, active: Array | None
) -> Array:
    bad = ~inside if active is None else ~inside & active
    if bad.any():
        lane = int(np.flatnonzero(bad)[0])
        buffer = unit.launch.memory.name_at(int(lanes_of(memory.base, unit.width)[lane]))
        unit.report("out-of-bounds", site, lane, buffer=buffer)
    return inside if active is None else inside & active


def fill(static: tuple[int, ...], dynamic: tuple[Array, ...]) -> list[Array]:
    """Static numbers, with the dynamic ones in their places."""
    given = iter(dynamic)
    return [next(given) if value == DYNAMIC else uniform(value) for value in static]


# Affine maps and integer sets on arrays ------------------------------------------------------


class AffineMap:
    """The results of an affine map, for arrays of dimensions and symbols."""

    def __init__(self, attribute: Any) -> None:
        self._results = results_of_map(attribute)

    def __call__(self, operands: tuple[Any, ...]) -> list[Any]:
        return [_computed(result, operands) for result in self._results]

    def permutation(self) -> tuple[int | None, ...]:
        """For a projected permutation: the dimension of each result, None for a constant."""
        return tuple(
            result.operand if isinstance(result, OperandPlace) else None for result in self._results
        )


def integer_set(attribute: Any) -> Callable[[tuple[Any, ...]], Any]:
    """Tells for which lanes all constraints of an integer set hold.

    affine_set<(d0) : (d0 - 1 >= 0)>       affine_map<(d0) -> (d0 - 1)>, of which no result is below 0
    """
    text = str(attribute)
    kinds = [np.equal if sign == "==" else np.greater_equal for sign in _SIGN.findall(text)]
    text = _SIGN.sub("", text).replace("affine_set", "affine_map").replace(" : ", " -> ")
    left = AffineMap(ir.Attribute.parse(text, attribute.context))

    def holds(operands: tuple[Any, ...]) -> Any:
        found = (kind(side, 0) for kind, side in zip(kinds, left(operands), strict=True))
        return reduce(np.logical_and, found, np.array([True]))

    return holds


_SIGN = re.compile(r" (==|>=) 0\b")


def _computed(tree: Expression, operands: tuple[Any, ...]) -> Any:
    if isinstance(tree, int):
        return np.array([tree], np.int64)
    if isinstance(tree, OperandPlace):
        return operands[tree.operand]
    row, left, right = tree
    return _OPERATIONS[row](_computed(left, operands), _computed(right, operands))


_OPERATIONS: dict[Operator, Callable[[Any, Any], Any]] = {
    SUM: np.add,
    PRODUCT: np.multiply,
    MODULUS: np.mod,
    FLOOR_DIVISION: np.floor_divide,
    CEILING_DIVISION: lambda a, b: -np.floor_divide(-a, b),
}
