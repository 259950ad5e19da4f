"""The tensor data mover of gfx1250: a descriptor of a tile, and copies of it between memory and LDS.

A copy moves a tile for a whole wave: `sharedSize` elements from the base address on. Of a load what is
outside of `globalSize` is zeros, of a store it is left out. Sizes and strides name the slowest
dimension first. The copy is over when a wait for its counter or for its mark says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.async_ops import refuse_in_scope, start
from mlir_async_pipe.machine.dialects.memref_views import fill
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import POISON_BYTE, Kind
from mlir_async_pipe.machine.lane_values import lanes_of
from mlir_async_pipe.machine.memory import memref_shape
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.vocabulary import Queue, groups_of
from mlir_async_pipe.vocabulary.tensor_mover import NOT_FOLLOWED

Array = np.ndarray
_WORD_BYTES = 4


@dataclass(frozen=True)
class Base:
    """Where a tile begins, in bytes: in global memory and in LDS."""

    source: Array
    target: Array
    element: Kind


@dataclass(frozen=True)
class TensorTile:
    """A base, the sizes and strides of the tensor from there on, and the tile's sizes; of a load
    `padding` (interval, amount) in bytes."""

    base: Base
    sizes: tuple[Array, ...]
    strides: tuple[Array, ...]
    shared: tuple[int, ...]
    padding: tuple[int, ...]


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
    """A tile, with padding or without."""
    groups = groups_of(site.op)
    for name, why in NOT_FOLLOWED.items():
        if len(groups[name]):
            raise site.unsupported(f"a descriptor of which {why}")
    sizes = site.integers("global_static_sizes")
    strides = site.integers("global_static_strides")
    shared = site.integers("shared_static_sizes")

    def execute(unit: Unit, *operands: Any) -> TensorTile:
        def given(name: str) -> tuple[Any, ...]:
            return operands[groups[name].start : groups[name].stop]

        return TensorTile(
            operands[0],
            tuple(fill(sizes, given("sizes"))),
            tuple(fill(strides, given("strides"))),
            tuple(int(size.max()) for size in fill(shared, given("tile_sizes"))),
            tuple(
                _WORD_BYTES * int(words.max())
                for words in (*given("pad_interval"), *given("pad_amount"))
            ),
        )

    return execute


@semantics("amdgpu.tensor_load_to_lds", "amdgpu.tensor_store_from_lds")
def copy(site: Site) -> Execute:
    """Copy the tile, once a wave, between now and the wait for it."""
    loads, queue = site.name == "amdgpu.tensor_load_to_lds", site.queue()

    def execute(unit: Unit, tile: TensorTile) -> None:
        kind = tile.base.element
        in_global, in_lds, inside = _elements(unit, tile, padded=loads)
        if loads:
            _issue(unit, site, queue, kind, (in_global, inside), (in_lds, np.ones_like(inside)))
        else:
            _issue(unit, site, queue, kind, (in_lds, inside), (in_global, inside))

    return execute


def _elements(unit: Unit, tile: TensorTile, *, padded: bool) -> tuple[Array, Array, Array]:
    """The byte addresses of all elements in global memory and in LDS, and which are inside of the tensor, in rows
    for each lane."""
    size = tile.base.element.item_bytes
    steps = np.indices(tile.shared).reshape(len(tile.shared), -1)
    linear: Any = np.zeros((1, steps.shape[1]), np.int64)
    inside: Any = np.ones((1, steps.shape[1]), np.bool_)
    for axis, positions in enumerate(steps):
        linear = linear + positions * tile.strides[axis][:, None]
        inside = inside & (positions < tile.sizes[axis][:, None])
    bytes_before = np.arange(steps.shape[1]) * size
    if padded and tile.padding:
        interval, amount = tile.padding
        bytes_before = bytes_before + bytes_before // interval * amount
    return (
        lanes_of(tile.base.source[:, None] + linear * size, unit.width),
        lanes_of(tile.base.target[:, None] + bytes_before, unit.width),
        lanes_of(inside, unit.width),
    )


def _issue(
    unit: Unit,
    site: Site,
    queue: Queue,
    kind: Kind,
    source: tuple[Array, Array],
    target: tuple[Array, Array],
) -> None:
    """Put the copy in flight: elements at addresses, each with which of them are read and written. One that is
    written and not read becomes zero."""
    refuse_in_scope(unit, site)
    lanes = _first_lanes(unit)
    chosen = np.flatnonzero(lanes)
    if not len(chosen):
        return
    # One row a wave: a tile has thousands of elements.
    row_of = np.zeros(unit.width, np.int64)
    row_of[chosen] = np.arange(len(chosen))
    (origin, read), (place, written) = ((at[chosen], used[chosen]) for at, used in (source, target))
    memory = unit.launch.memory
    held = np.zeros(place.shape, kind.dtype)

    def sample(wanted: Array) -> None:
        for row in row_of[wanted]:
            held[row, read[row]] = memory.load(origin[row, read[row]], kind)

    def write(wanted: Array) -> None:
        for row in row_of[wanted]:
            memory.store(place[row, written[row]], held[row, written[row]], kind)
        memory.changes += 1

    reads, read_lanes = _footprint(unit, chosen, origin, read, kind)
    writes, write_lanes = _footprint(unit, chosen, place, written, kind)
    operation = start(
        unit, site, queue, lanes, reads, read_lanes, writes, write_lanes, sample, write
    )
    if unit.launch.policy.poisons:
        for row in row_of[lanes & ~operation.moved]:
            bytes_of_row = place[row, written[row]][:, None] + np.arange(kind.item_bytes)
            memory.data[bytes_of_row] = POISON_BYTE


def _footprint(
    unit: Unit, chosen: Array, addresses: Array, used: Array, kind: Kind
) -> tuple[list[tuple[Array, Array]], list[Array]]:
    """Granules, a row for each wave; elements that are not used fall on its first one that is."""
    some = used.any(axis=1)
    if not some.any():
        return [], []
    first = addresses[np.arange(len(used)), used.argmax(axis=1)]
    where = np.where(used, addresses, first[:, None])[some]
    threads = unit.launch.grid_threads(unit.threads[chosen[some]])
    return [(threads, unit.launch.detector.granules(where, kind.item_bytes))], [chosen[some]]


def _first_lanes(unit: Unit) -> Array:
    """The first active lane of each wave."""
    chosen = np.zeros(unit.width, np.bool_)
    active = unit.active()
    for start_of_wave in range(0, unit.width, unit.launch.options.warp):
        lanes = np.flatnonzero(active[start_of_wave : start_of_wave + unit.launch.options.warp])
        if len(lanes):
            chosen[start_of_wave + lanes[0]] = True
    return chosen
