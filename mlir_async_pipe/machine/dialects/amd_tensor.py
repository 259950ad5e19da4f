"""amdgpu tensor copies: a descriptor of a tile, and the copy of it into LDS, done at once.

One copy moves a tile for a whole wave: `sharedSize` elements from the base address on; what is
outside `globalSize` is zeros. Sizes and strides name the slowest dimension first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.memref_views import fill
from mlir_async_pipe.machine.dialects.nvvm import report_synchronous
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import Kind
from mlir_async_pipe.machine.lane_values import lanes_of
from mlir_async_pipe.machine.memory import memref_shape
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray


@dataclass(frozen=True)
class Base:
    """Where a tile begins, in bytes: in global memory and in LDS."""

    source: Array
    target: Array
    element: Kind


@dataclass(frozen=True)
class TensorTile:
    """A base, the sizes and strides of the tensor from there on, and the tile's sizes."""

    base: Base
    sizes: tuple[Array, ...]
    strides: tuple[Array, ...]
    shared: tuple[int, ...]


@semantics("amdgpu.make_dma_base")
def make_base(site: Site) -> Execute:
    """The addresses of one element in each memory."""
    _, count, _, _ = site.segments()
    element = memref_shape(site.operand_type(0), site.op).element

    def execute(unit: Unit, *operands: Any) -> Base:
        source, target = operands[0], operands[1 + count]
        return Base(source.at(operands[1 : 1 + count]), target.at(operands[2 + count :]), element)

    return execute


@semantics("amdgpu.make_dma_descriptor")
def make_descriptor(site: Site) -> Execute:
    """A tile without masks, padding, barriers or iteration."""
    segments = site.segments()
    if any(segments[4:]):
        raise site.unsupported("masks, padding, barriers and iteration")
    sizes = site.integers("global_static_sizes")
    strides = site.integers("global_static_strides")
    shared = site.integers("shared_static_sizes")
    starts = np.cumsum(segments)

    def execute(unit: Unit, base: Base, *dynamic: Array) -> TensorTile:
        operands: tuple[Any, ...] = (base, *dynamic)
        parts = [operands[starts[number] : starts[number + 1]] for number in range(3)]
        tile = tuple(int(size.max()) for size in fill(shared, parts[2]))
        return TensorTile(base, tuple(fill(sizes, parts[0])), tuple(fill(strides, parts[1])), tile)

    return execute


@semantics("amdgpu.tensor_load_to_lds")
def load(site: Site) -> Execute:
    """Copy the tile, once a wave."""

    def execute(unit: Unit, tile: TensorTile) -> None:
        report_synchronous(unit, site)
        lanes = _first_lanes(unit)
        kind = tile.base.element
        steps = np.indices(tile.shared).reshape(len(tile.shared), -1)
        linear: Any = np.zeros((1, steps.shape[1]), np.int64)
        inside: Any = np.ones((1, steps.shape[1]), np.bool_)
        for axis, positions in enumerate(steps):
            linear = linear + positions * tile.strides[axis][:, None]
            inside = inside & (positions < tile.sizes[axis][:, None])
        source = tile.base.source[:, None] + linear * kind.item_bytes
        target = tile.base.target[:, None] + np.arange(steps.shape[1]) * kind.item_bytes
        _move_elements(unit, site, source, target, lanes, inside, (kind, kind))

    return execute


def _move_elements(
    unit: Unit,
    site: Site,
    source: Array,
    target: Array,
    lanes: Array,
    inside: Array,
    kinds: tuple[Kind, Kind],
) -> None:
    """Copy elements one by one, in the `lanes` of each; what is not `inside` becomes zeros.

    Addresses are (lanes or 1, elements); `kinds` are those that are read and written."""
    source, target, inside = (lanes_of(a, unit.width) for a in (source, target, inside))
    lanes = np.broadcast_to(lanes.reshape(unit.width, -1), inside.shape)
    for number in range(inside.shape[1]):
        writing, held = lanes[:, number], inside[:, number]
        where = access.span(unit, source[:, number], kinds[0].item_bytes, writing & held)
        value = np.where(held, access.read(unit, site, where, kinds[0]), 0)
        place = access.span(unit, target[:, number], kinds[0].item_bytes, writing)
        access.write(unit, site, place, value, kinds[1])


def _first_lanes(unit: Unit) -> Array:
    """The first active lane of each wave."""
    chosen = np.zeros(unit.width, np.bool_)
    active = unit.active()
    for start in range(0, unit.width, unit.launch.options.warp):
        lanes = np.flatnonzero(active[start : start + unit.launch.options.warp])
        if len(lanes):
            chosen[start + lanes[0]] = True
    return chosen
