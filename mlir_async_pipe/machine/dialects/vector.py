"""vector: loads, stores, transfers, masks, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import operations
from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.access import AffineMap, fill
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.arith import COMBINE, bitcast
from mlir_async_pipe.machine.dialects.scf import packer
from mlir_async_pipe.machine.kinds import Kind
from mlir_async_pipe.machine.lane_values import Array, MemRef, lanes_of, uniform
from mlir_async_pipe.machine.terms import room_for

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
        self.dimensions = AffineMap(site.op.attributes["permutation_map"]).permutation()
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
            steps = _along(axis, self.kind.shape)
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
        for kept in (mask, unit.kept):
            if kept is not None:
                inside = inside & _masked(kept, self.dimensions)
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
            return access.element_wise(unit, site, addresses, inside, self.kind, value), inside
        where = access.span(unit, addresses, self.kind.item_bytes, unit.mask)
        if value is None:
            return access.read(unit, site, where, self.kind.element), inside
        access.write(unit, site, where, value, self.kind.element)
        return None, inside


def column(values: Array, rank: int) -> Array:
    """One number for each lane, shaped to go with vectors of `rank` dimensions."""
    return values.reshape(-1, *(1,) * rank)


def _along(axis: int, shape: tuple[int, ...]) -> Array:
    """The positions in an axis of vectors of some shape."""
    return np.arange(shape[axis]).reshape(-1, *(1,) * (len(shape) - axis - 1))


def _masked(mask: Array, dimensions: tuple[int | None, ...]) -> Array:
    """A mask has the vector's shape before permutation; bring its axes into vector order."""
    used = [dimension for dimension in dimensions if dimension is not None]
    order = [sorted(used).index(dimension) for dimension in used]
    moved = np.transpose(mask, (0, *(1 + axis for axis in order)))
    for axis, dimension in enumerate(dimensions):
        if dimension is None:
            moved = np.expand_dims(moved, axis + 1)
    return moved


# What may stand in a vector.mask: memory is left alone where it is off. Of others nothing is known there.
_MASKABLE = (
    "vector.transfer_read vector.transfer_write vector.gather vector.scatter vector.yield".split()
)


@semantics("vector.mask")
def mask_region(site: Site) -> Execute:
    """The op in it with a mask of the results; elements that are off come from the second operand, if any."""
    body, pack = site.region(), packer(site)
    for op in operations(site.op.regions[0].blocks[0]):
        if op.name not in _MASKABLE:
            raise site.unsupported(f"'{op.name}' in it")

    def execute(unit: Unit, kept: Array, *otherwise: Array) -> Any:
        outer, unit.kept = unit.kept, kept
        try:
            given = unit.run_region(body)
        finally:
            unit.kept = outer
        if otherwise:
            given = [np.where(kept, *both) for both in zip(given, otherwise, strict=True)]
        return pack(given)

    return execute


@semantics("vector.maskedload", "vector.gather")
def masked_load(site: Site) -> Execute:
    """Elements whose mask is set; the others come from the pass-through vector."""
    kind = site.result_kind()
    places = _places(site, kind)

    def execute(unit: Unit, memory: MemRef, *rest: Any) -> Array:
        *given, mask, otherwise = rest
        mask = mask if unit.kept is None else mask & unit.kept
        loaded = access.element_wise(unit, site, places(memory, given), mask, kind, None)
        return np.where(mask, loaded, otherwise)

    return execute


@semantics("vector.maskedstore", "vector.scatter")
def masked_store(site: Site) -> Execute:
    """Elements whose mask is set."""
    kind = site.operand_kind(len(site.op.operands) - 1)
    places = _places(site, kind)

    def execute(unit: Unit, memory: MemRef, *rest: Any) -> None:
        *given, mask, value = rest
        mask = mask if unit.kept is None else mask & unit.kept
        access.element_wise(unit, site, places(memory, given), mask, kind, value)

    return execute


def _places(site: Site, kind: Kind) -> Callable[[MemRef, list[Array]], Array]:
    """The byte addresses of the elements: neighbours in the last dimension, or, of gather and
    scatter, those at a vector of offsets in it, which comes after the subscripts."""
    listed = site.name in ("vector.gather", "vector.scatter")
    neighbours = np.arange(kind.shape[0])[None]

    def places(memory: MemRef, given: list[Array]) -> Array:
        *indices, offsets = given if listed else (*given, neighbours)
        # Neighbours lie side by side, as upstream lowers them, whatever the memref's strides are.
        steps = offsets * memory.strides[-1][:, None] if listed else offsets
        return memory.at(indices)[:, None] + steps * memory.element_bytes

    return places


@semantics("vector.extract")
def extract(site: Site) -> Execute:
    """An element or a slice at static and dynamic positions."""
    static = site.integers("static_position")

    return lambda unit, value, *dynamic: reduce(_pick, fill(static, dynamic), value)


def _pick(value: Array, position: Array) -> Array:
    """Entry `position` of the first axis after the lanes; beyond its ends it is poison, here 0."""
    inside = (position >= 0) & (position < value.shape[1])
    if position.shape[0] == 1:
        return value[:, int(position[0])] if inside[0] else np.zeros_like(value[:, 0])
    lanes = np.arange(len(position))
    picked = lanes_of(value, len(position))[lanes, np.where(inside, position, 0)]
    return picked if inside.all() else np.where(column(inside, picked.ndim - 1), picked, 0)


@semantics("vector.extractelement", "llvm.extractelement")
def extract_element(site: Site) -> Execute:
    return lambda unit, value, *position: _pick(value, position[0]) if position else value


@semantics("vector.insert")
def insert(site: Site) -> Execute:
    static = site.integers("static_position")
    return lambda unit, value, into, *dynamic: _put(value, into, fill(static, dynamic))


@semantics("vector.insertelement", "llvm.insertelement")
def insert_element(site: Site) -> Execute:
    """One element at a dynamic position; LLVM names the vector first."""
    if site.name == "llvm.insertelement":
        return lambda unit, into, value, position: _put(value, into, [position])
    return lambda unit, value, into, *position: _put(value, into, list(position))


def _put(value: Array, into: Array, positions: list[Array]) -> Array:
    """An entry put in; beyond the ends it is poison, here what was there."""
    width = max(len(value), len(into), *(len(position) for position in positions), 1)
    result = room_for(lanes_of(into, width), value)
    places = [np.broadcast_to(position, (width,)) for position in positions]
    inside = np.ones(width, bool)
    for place, size in zip(places, result.shape[1:], strict=False):
        inside &= (place >= 0) & (place < size)
    lanes = np.arange(width)
    if inside.all():
        result[(lanes, *places)] = value
    else:
        result[(lanes[inside], *(p[inside] for p in places))] = lanes_of(value, width)[inside]
    return result


@semantics("vector.broadcast", "vector.splat")
def broadcast(site: Site) -> Execute:
    """Leading dimensions added, unit dimensions stretched."""
    kind = site.result_kind()

    def execute(unit: Unit, value: Array) -> Array:
        missing = len(kind.shape) - (value.ndim - 1)
        widened = value.reshape(len(value), *(1,) * missing, *value.shape[1:])
        return np.broadcast_to(widened, (len(value), *kind.shape))

    return execute


@semantics("vector.shape_cast")
def shape_cast(site: Site) -> Execute:
    shape = site.result_kind().shape
    return lambda unit, value: value.reshape(len(value), *shape)


semantics("vector.bitcast")(bitcast)


@semantics("vector.from_elements")
def from_elements(site: Site) -> Execute:
    shape = site.result_kind().shape

    def execute(unit: Unit, *elements: Array) -> Array:
        return np.stack(np.broadcast_arrays(*elements), axis=-1).reshape(-1, *shape)

    return execute


@semantics("vector.to_elements")
def to_elements(site: Site) -> Execute:
    single = len(site.op.results) == 1

    def execute(unit: Unit, value: Array) -> Any:
        flat = value.reshape(len(value), -1)
        return flat[:, 0] if single else tuple(flat[:, n] for n in range(flat.shape[1]))

    return execute


@semantics("vector.extract_strided_slice")
def extract_slice(site: Site) -> Execute:
    boxes = [site.integers(name) for name in ("offsets", "sizes", "strides")]
    window = tuple(slice(o, o + n * s, s) for o, n, s in zip(*boxes, strict=True))
    return lambda unit, value: value[(slice(None), *window)]


@semantics("vector.insert_strided_slice")
def insert_slice(site: Site) -> Execute:
    """A box into a vector; a source of lower rank fills the trailing dimensions."""
    offsets, shape = site.integers("offsets"), site.operand_kind(0).shape
    leading = (1,) * (len(offsets) - len(shape))
    boxes = offsets, (*leading, *shape), (*leading, *site.integers("strides"))
    window = tuple(slice(o, o + n * s, s) for o, n, s in zip(*boxes, strict=True))

    def execute(unit: Unit, value: Array, into: Array) -> Array:
        width = max(len(value), len(into))
        result = room_for(lanes_of(into, width), value)
        result[(slice(None), *window)] = value.reshape(len(value), *leading, *shape)
        return result

    return execute


@semantics("vector.shuffle", "llvm.shufflevector")
def shuffle(site: Site) -> Execute:
    """Rows picked from two vectors laid end to end; -1 picks anything."""
    picks = [max(0, pick) for pick in site.integers("mask")]

    def execute(unit: Unit, left: Array, right: Array) -> Array:
        width = max(len(left), len(right))
        both = np.concatenate([lanes_of(left, width), lanes_of(right, width)], axis=1)
        return both[:, picks]

    return execute


@semantics("vector.transpose")
def transpose(site: Site) -> Execute:
    order = site.integers("permutation")
    return lambda unit, value: np.transpose(value, (0, *(1 + axis for axis in order)))


@semantics("vector.interleave")
def interleave(site: Site) -> Execute:
    """Elements of two vectors in turn."""
    shape = site.result_kind().shape
    return lambda unit, left, right: np.stack(np.broadcast_arrays(left, right), axis=-1).reshape(
        -1, *shape
    )


@semantics("vector.deinterleave")
def deinterleave(site: Site) -> Execute:
    """Even and odd elements."""
    return lambda unit, value: (value[..., 0::2], value[..., 1::2])


@semantics("vector.step")
def step(site: Site) -> Execute:
    count = site.result_kind().shape[0]
    return lambda unit: np.arange(count)[None]


@semantics("vector.create_mask")
def create_mask(site: Site) -> Execute:
    """True below a bound in each dimension."""
    shape = site.result_kind().shape

    def execute(unit: Unit, *bounds: Array) -> Array:
        result = np.ones((1, *shape), np.bool_)
        for axis, bound in enumerate(bounds):
            result = result & (_along(axis, shape) < column(bound, len(shape)))
        return result

    return execute


@semantics("vector.constant_mask")
def constant_mask(site: Site) -> Execute:
    """True below a constant bound in each dimension."""
    bounds = tuple(uniform(bound) for bound in site.integers("mask_dim_sizes"))
    make = create_mask(site)
    return lambda unit: make(unit, *bounds)


@semantics("vector.reduction")
def reduction(site: Site) -> Execute:
    """All elements in order, from the accumulator on if there is one."""
    combine, kind = COMBINE[site.word("kind")], site.result_kind()

    def execute(unit: Unit, value: Array, *start: Array) -> Array:
        flat = value.reshape(len(value), -1)
        total = start[0] if start else flat[:, 0]
        for number in range(0 if start else 1, flat.shape[1]):
            total = kind.settle(combine(total, flat[:, number]))
        return total

    return execute


@semantics("vector.multi_reduction")
def multi_reduction(site: Site) -> Execute:
    """Chosen dimensions in order, from the accumulator on."""
    combine, kind = COMBINE[site.word("kind")], site.result_kind()
    axes = site.integers("reduction_dims")

    def execute(unit: Unit, value: Array, start: Array) -> Array:
        moved = np.moveaxis(value, [1 + axis for axis in axes], range(1, 1 + len(axes)))
        rows = moved.reshape(len(value), -1, *moved.shape[1 + len(axes) :])
        total = start
        for number in range(rows.shape[1]):
            total = kind.settle(combine(total, rows[:, number]))
        return total

    return execute


@semantics("vector.contract")
def contract(site: Site) -> Execute:
    """A generalised matrix product: sums over the dimensions that the result lacks.

    Products are summed in at least float32 and rounded once, as tensor cores do.
    """
    kind = site.result_kind()
    if site.word("kind", "add") != "add":
        raise site.unsupported("only sums are combined")
    maps = [AffineMap(entry) for entry in ir.ArrayAttr(site.op.attributes["indexing_maps"])]
    letters = [
        "".join(chr(ord("a") + (number or 0)) for number in mapping.permutation())
        for mapping in maps
    ]
    formula = f"...{letters[0]},...{letters[1]}->...{letters[2]}"
    wide = _accumulator(kind)

    def execute(unit: Unit, left: Array, right: Array, start: Array) -> Array:
        product = np.einsum(formula, left.astype(wide), right.astype(wide))
        return kind.settle(product + start.astype(wide))

    return execute


@semantics("vector.outerproduct")
def outer_product(site: Site) -> Execute:
    """left x right, added to the accumulator if there is one."""
    kind = site.result_kind()
    wide = _accumulator(kind)

    def execute(unit: Unit, left: Array, right: Array, *start: Array) -> Array:
        wider = left.astype(wide)
        product = (wider[..., None] if right.ndim > 1 else wider) * right[:, None]
        return kind.settle(product + start[0].astype(wide) if start else product)

    return execute


def _accumulator(kind: Kind) -> Any:
    if not kind.is_float:
        return kind.dtype
    return np.float64 if kind.dtype == np.float64 else np.float32
