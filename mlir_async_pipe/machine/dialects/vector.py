"""vector: loads, stores, transfers, masks, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.affine_maps import parse_map
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import Kind
from mlir_async_pipe.machine.lane_values import MemRef
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray


# Memory ---------------------------------------------------------------------------------


@semantics("vector.transfer_read")
def transfer_read(site: Site) -> Execute:
    """A box of memory as a vector; what is out of bounds or masked is the padding value."""
    kind = site.result_kind()
    plan = _Transfer(site, kind)
    _, index_count, _, mask_count = site.segments()

    def execute(unit: Unit, memory: MemRef, *rest: Any) -> Array:
        indices, padding = rest[:index_count], rest[index_count]
        mask = rest[index_count + 1] if mask_count else None
        result, inside = plan.move(unit, site, memory, indices, mask)
        fill = padding.reshape(-1, *(1,) * len(kind.shape))
        return np.where(inside, result, fill)

    return execute


@semantics("vector.transfer_write")
def transfer_write(site: Site) -> Execute:
    """A vector into a box of memory; what is out of bounds or masked is left alone."""
    kind = site.operand_kind(0)
    plan = _Transfer(site, kind)
    _, _, index_count, mask_count = site.segments()

    def execute(unit: Unit, value: Array, memory: MemRef, *rest: Any) -> None:
        indices = rest[:index_count]
        mask = rest[index_count] if mask_count else None
        plan.move(unit, site, memory, indices, mask, value)

    return execute


class _Transfer:
    """How the dimensions of a transfer's vector lie in memory."""

    def __init__(self, site: Site, kind: Kind) -> None:
        self.kind = kind
        self.map = parse_map(site.text("permutation_map"))
        self.dimensions = self.map.permutation()
        listed = site.integers("in_bounds")
        self.in_bounds = tuple(bool(flag) for flag in listed) or (False,) * len(kind.shape)

    def positions(
        self, unit: Unit, site: Site, memory: MemRef, indices: Any, mask: Array | None
    ) -> tuple[Array, Array]:
        """(element number, inside) for each vector element, shape (lanes or 1, *vector)."""
        rank = len(self.kind.shape)
        linear: Any = column(memory.linear(indices), rank)
        inside = promised = np.ones((1,) * (rank + 1), np.bool_)
        for axis, dimension in enumerate(self.dimensions):
            if dimension is None:
                continue
            shape = (1,) * (axis + 1) + (-1,) + (1,) * (rank - axis - 1)
            steps = np.arange(self.kind.shape[axis]).reshape(shape)
            linear = linear + steps * column(memory.strides[dimension], rank)
            position = column(indices[dimension], rank) + steps
            size = column(memory.sizes[dimension], rank)
            within = (position >= 0) & (position < size)
            if self.in_bounds[axis]:
                promised = promised & within
            else:
                inside = inside & within
        full = np.broadcast_shapes(linear.shape, inside.shape, (1, *self.kind.shape))
        inside = np.broadcast_to(inside, full)
        if mask is not None:
            inside = inside & _masked(mask, self.dimensions)
        kept = access.check_promise(unit, site, memory, promised, inside)
        if kept is not None:
            inside = inside & kept
        return np.broadcast_to(linear, full), inside

    def move(
        self,
        unit: Unit,
        site: Site,
        memory: MemRef,
        indices: Any,
        mask: Array | None,
        value: Array | None = None,
    ) -> tuple[Any, Array]:
        """Write what is inside of `value`, or read it: the rest of the result means nothing."""
        linear, inside = self.positions(unit, site, memory, indices, mask)
        addresses = column(memory.base, linear.ndim - 1) + linear * memory.element_bytes
        if not inside.all():
            return _element_wise(unit, site, addresses, inside, self.kind, value), inside
        where = access.span(unit, addresses, self.kind.item_bytes, unit.mask)
        if value is None:
            return access.read(unit, site, where, self.kind.element), inside
        access.write(unit, site, where, value, self.kind.element)
        return None, inside


def column(values: Array, rank: int) -> Array:
    """One number for each lane, shaped to go with vectors of `rank` dimensions."""
    return values.reshape(-1, *(1,) * rank)


def _masked(mask: Array, dimensions: tuple[int | None, ...]) -> Array:
    """A mask has the vector's shape before permutation; bring its axes into vector order."""
    used = [dimension for dimension in dimensions if dimension is not None]
    order = [sorted(used).index(dimension) for dimension in used]
    moved = np.transpose(mask, (0, *(1 + axis for axis in order)))
    for axis, dimension in enumerate(dimensions):
        if dimension is None:
            moved = np.expand_dims(moved, axis + 1)
    return moved


def _element_wise(
    unit: Unit, site: Site, addresses: Array, inside: Array, kind: Kind, value: Array | None
) -> Array:
    where = access.Span(addresses, None, kind.item_bytes)
    return access.element_wise(unit, site, where, inside, kind, value)


@semantics("vector.maskedload", "vector.gather")
def masked_load(site: Site) -> Execute:
    """Elements whose mask is set; the others come from the pass-through vector."""
    kind = site.result_kind()
    places = _places(site, kind)

    def execute(unit: Unit, memory: MemRef, *rest: Any) -> Array:
        *given, mask, otherwise = rest
        loaded = _element_wise(unit, site, places(memory, given), mask, kind, None)
        return np.where(mask, loaded, otherwise)

    return execute


@semantics("vector.maskedstore", "vector.scatter")
def masked_store(site: Site) -> Execute:
    """Elements whose mask is set."""
    kind = site.operand_kind(len(site.op.operands) - 1)
    places = _places(site, kind)

    def execute(unit: Unit, memory: MemRef, *rest: Any) -> None:
        *given, mask, value = rest
        _element_wise(unit, site, places(memory, given), mask, kind, value)

    return execute


def _places(site: Site, kind: Kind) -> Callable[[MemRef, list[Array]], Array]:
    """The byte addresses of the elements: neighbours in the last dimension, or, of gather and
    scatter, those at a vector of offsets in it, which comes after the subscripts."""
    listed = site.name in ("vector.gather", "vector.scatter")
    neighbours = np.arange(kind.shape[0])[None]

    def places(memory: MemRef, given: list[Array]) -> Array:
        *indices, offsets = given if listed else (*given, neighbours)
        steps = offsets * memory.strides[-1][:, None]
        return memory.at(indices)[:, None] + steps * memory.element_bytes

    return places
