"""vector: elements and slices moved about; nothing is computed and no memory touched."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.constants_casts import bitcast
from mlir_async_pipe.machine.dialects.memref_views import fill
from mlir_async_pipe.machine.dialects.vector import column
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.lane_values import lanes_of, uniform
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray


@semantics("vector.extract")
def extract(site: Site) -> Execute:
    """An element or a slice at static and dynamic positions."""
    static = site.integers("static_position")

    def execute(unit: Unit, value: Array, *dynamic: Array) -> Array:
        result = value
        for position in fill(static, dynamic):
            result = _pick(result, position)
        return result

    return execute


def _pick(value: Array, position: Array) -> Array:
    """Entry `position` of the first axis after the lanes."""
    if position.shape[0] == 1:
        return value[:, int(position[0])]
    return lanes_of(value, len(position))[np.arange(len(position)), position]


@semantics("vector.extractelement", "llvm.extractelement")
def extract_element(site: Site) -> Execute:
    """One element at a dynamic position."""
    return lambda unit, value, *position: _pick(value, position[0]) if position else value


@semantics("vector.insert")
def insert(site: Site) -> Execute:
    """An element or a slice into a vector."""
    static = site.integers("static_position")

    def execute(unit: Unit, value: Array, into: Array, *dynamic: Array) -> Array:
        positions = fill(static, dynamic)
        return _put(unit, value, into, positions)

    return execute


@semantics("vector.insertelement")
def insert_element(site: Site) -> Execute:
    """One element at a dynamic position."""
    return lambda unit, value, into, *position: _put(unit, value, into, list(position))


@semantics("llvm.insertelement")
def llvm_insert_element(site: Site) -> Execute:
    """One element at a dynamic position; the vector comes first."""
    return lambda unit, into, value, position: _put(unit, value, into, [position])


def _put(unit: Unit, value: Array, into: Array, positions: list[Array]) -> Array:
    width = max(len(value), len(into), *(len(position) for position in positions), 1)
    result = lanes_of(into, width).copy()
    lanes = np.arange(width)
    result[(lanes, *(np.broadcast_to(position, (width,)) for position in positions))] = value
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
    """The same elements in another shape."""
    shape = site.result_kind().shape
    return lambda unit, value: value.reshape(len(value), *shape)


semantics("vector.bitcast")(bitcast)


@semantics("vector.from_elements")
def from_elements(site: Site) -> Execute:
    """A vector of scalars."""
    shape = site.result_kind().shape

    def execute(unit: Unit, *elements: Array) -> Array:
        return np.stack(np.broadcast_arrays(*elements), axis=-1).reshape(-1, *shape)

    return execute


@semantics("vector.to_elements")
def to_elements(site: Site) -> Execute:
    """The scalars of a vector."""
    single = len(site.op.results) == 1

    def execute(unit: Unit, value: Array) -> Any:
        flat = value.reshape(len(value), -1)
        return flat[:, 0] if single else tuple(flat[:, n] for n in range(flat.shape[1]))

    return execute


@semantics("vector.extract_strided_slice")
def extract_slice(site: Site) -> Execute:
    """A box of a vector."""
    boxes = [site.integers(name) for name in ("offsets", "sizes", "strides")]
    window = tuple(slice(o, o + n * s, s) for o, n, s in zip(*boxes, strict=True))
    return lambda unit, value: value[(slice(None), *window)]


@semantics("vector.insert_strided_slice")
def insert_slice(site: Site) -> Execute:
    """A box into a vector; a source of lower rank fills the trailing dimensions."""
    offsets, strides = site.integers("offsets"), site.integers("strides")
    sizes = site.operand_kind(0).shape
    leading = len(offsets) - len(sizes)
    window = tuple(
        o
        if axis < leading
        else slice(
            o,
            o + (sizes[axis - leading] - 1) * strides[axis - leading] + 1,
            strides[axis - leading],
        )
        for axis, o in enumerate(offsets)
    )

    def execute(unit: Unit, value: Array, into: Array) -> Array:
        width = max(len(value), len(into))
        result = lanes_of(into, width).copy()
        result[(slice(None), *window)] = value
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
    """Dimensions in another order."""
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
    """0, 1, 2, …"""
    count = site.result_kind().shape[0]
    return lambda unit: np.arange(count)[None]


@semantics("vector.create_mask")
def create_mask(site: Site) -> Execute:
    """True below a bound in each dimension."""
    shape = site.result_kind().shape

    def execute(unit: Unit, *bounds: Array) -> Array:
        result = np.ones((1, *shape), np.bool_)
        for axis, bound in enumerate(bounds):
            position = np.arange(shape[axis]).reshape(
                (1,) * (axis + 1) + (-1,) + (1,) * (len(shape) - axis - 1)
            )
            result = result & (position < column(bound, len(shape)))
        return result

    return execute


@semantics("vector.constant_mask")
def constant_mask(site: Site) -> Execute:
    """True below a constant bound in each dimension."""
    bounds = tuple(uniform(bound) for bound in site.integers("mask_dim_sizes"))
    make = create_mask(site)
    return lambda unit: make(unit, *bounds)
