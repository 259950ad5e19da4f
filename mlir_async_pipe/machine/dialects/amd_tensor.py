"""The tensor data mover of gfx1250: a descriptor of a tile, and copies of it between memory and LDS.

A copy moves a tile for a whole wave: `sharedSize` elements from the base address on. Of a load what is
outside of `globalSize` is zeros, of a store it is left out. Sizes and strides name the slowest
dimension first. The copy is over when a wait for its counter or for its mark says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlir_async_pipe.machine.access import fill
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.async_ops import ElementCopy, refuse_in_scope
from mlir_async_pipe.machine.kinds import Kind, stored_kind
from mlir_async_pipe.machine.lane_values import Array, Parts, lanes_of
from mlir_async_pipe.machine.memory import memref_shape
from mlir_async_pipe.vocabulary import Queue, groups_of
from mlir_async_pipe.vocabulary.tensor_mover import (
    BARRIER,
    BLOCKS,
    COUNT,
    DATA_SIZE,
    GATHER,
    GLOBAL_WORD,
    ITERATE,
    LDS_WORD,
    NOT_FOLLOWED,
    PAD,
    PAD_AMOUNT,
    PAD_INTERVAL,
    SIZES,
    STRIDES,
    TILE,
    Field,
)

_WORD_BYTES = 4
_WORD, _HIGH_HALF = (1 << 32) - 1, (1 << 25) - 1
# What must be 0 in the words of a copy that runs.
_FIELDS = {"gather": GATHER, "blocks": BLOCKS, "barrier": BARRIER, "iterations": ITERATE}


@dataclass(frozen=True)
class Base(Parts):
    """Where a tile begins, in bytes: in global memory and in LDS."""

    source: Array
    target: Array
    element: Kind


@dataclass(frozen=True)
class TensorTile(Parts):
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
        if len(groups.get(name, ())):
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
        _copy(unit, site, queue, tile, unit.first_lanes(), loads=loads)

    return execute


@semantics("rocdl.tensor.load.to.lds", "rocdl.tensor.store.from.lds")
def copy_by_words(site: Site) -> Execute:
    """The same by a descriptor in words; those of a count of 0 copy nothing."""
    loads, queue = "load" in site.row.op, site.queue()

    def execute(unit: Unit, *groups: Any) -> None:
        words = [lanes_of(group, unit.width).astype(np.int64) & _WORD for group in groups[:4]]
        first = unit.first_lanes()
        issued = first[_field(words, COUNT)[first] == 1]
        if len(issued):
            _copy(unit, site, queue, _tile_of_words(site, words, issued), issued, loads=loads)

    return execute


def _field(words: list[Array], field: Field) -> Array:
    """The number in a field, in each lane."""
    group = words[field.group]
    found = np.zeros(len(group), np.int64)
    for place in range(group.shape[1]):
        low, high = max(field.first, 32 * place), min(field.first + field.bits, 32 * place + 32)
        if low < high:
            part = (group[:, place] >> (low - 32 * place)) & ((1 << (high - low)) - 1)
            found |= part << (low - field.first)
    return found


def _tile_of_words(site: Site, words: list[Array], lanes: Array) -> TensorTile:
    for name, field in _FIELDS.items():
        if _field(words, field)[lanes].any():
            raise site.unsupported(f"a descriptor of which {NOT_FOLLOWED[name]}")

    def same(field: Field) -> int:
        numbers = np.unique(_field(words, field)[lanes])
        if len(numbers) > 1:
            raise site.unsupported("tiles of several shapes at once")
        return int(numbers[0])

    tile = [same(field) for field in TILE]
    rank = max((n + 1 for n, length in enumerate(tile) if length), default=0)
    size, ones = 1 << same(DATA_SIZE), np.ones(len(words[0]), np.int64)
    kind = stored_kind(f"i{size}", f"i{8 * size}")
    high = words[0][:, GLOBAL_WORD + 1] & _HIGH_HALF
    base = Base((high << 32) | words[0][:, GLOBAL_WORD], words[0][:, LDS_WORD], kind)
    padded = same(PAD)
    return TensorTile(
        base,
        tuple(_field(words, field) for field in SIZES[:rank][::-1]),
        (*(_field(words, field) for field in STRIDES[: max(rank - 1, 0)][::-1]), ones),
        tuple(tile[:rank][::-1]),
        (4 * (2 << same(PAD_INTERVAL)), 4 * (same(PAD_AMOUNT) + 1)) if padded else (),
    )


def _copy(
    unit: Unit, site: Site, queue: Queue, tile: TensorTile, lanes: Array, *, loads: bool
) -> None:
    """Put the copy of some lanes in flight. Of a load what is outside of the tensor becomes zero."""
    refuse_in_scope(unit, site)
    if not len(lanes):
        return
    in_global, in_lds, inside = (part[lanes] for part in _elements(unit, tile, padded=loads))
    ends = (in_lds, inside, in_global, inside)
    if loads:
        ends = (in_global, inside, in_lds, np.ones_like(inside))
    ElementCopy(unit, tile.base.element, lanes, *ends).issue(site, queue)


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
