"""Copies of the tensor data mover of gfx1250: what a descriptor says of the memory that they touch.

    %base = amdgpu.make_dma_base %A[%i, %k], %tile[%c0, %c0]       where in both memories
    %d = amdgpu.make_dma_descriptor %base globalSize [128, 64] globalStride [512, 1] sharedSize [128, 32]
    amdgpu.tensor_load_to_lds %d        reads 128 rows of 32 from %A[%i, %k] on, writes 4096 elements of
                                        %tile side by side; columns from 64 on would be zeros

A wave issues one copy for all of its lanes, whatever they are masked to. Its copies complete in their order, and
the counter tensorcnt counts them; marks (rocdl.asyncmark) cover them, too (LLVM, "AMDGPU DMA Operations" and
"AMDGPU Asynchronous Operations"; CDNA5 ISA, "Tensor data mover"). In LDS the elements lie side by side,
but for `pad_amount` words of four bytes after every `pad_interval` of a load.

What a descriptor may ask for besides is not followed, and the copy is refused by that reason: rows from
anywhere (gather), several tiles (iterate), copies to other blocks of a cluster (a mask of blocks), an
arrival at a barrier in LDS.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import as_kind, constant_value, defining_op
from mlir_async_pipe.vocabulary.memory_layout import (
    UnknownLayoutError,
    layout_of,
    strides_and_offset,
)
from mlir_async_pipe.vocabulary.op_table import operand_groups
from mlir_async_pipe.vocabulary.rows import ASYNC_LDS, TENSORCNT, AccessRule, Opaque, Place, Row

MAKES_BASE, MAKES_DESCRIPTOR = "amdgpu.make_dma_base", "amdgpu.make_dma_descriptor"
_BASE = Row(
    MAKES_BASE,
    ("global", "global_indices*", "lds", "lds_indices*"),
    does="value",
    describes=("global", "lds"),
)
_DESCRIPTOR = Row(
    MAKES_DESCRIPTOR,
    (
        "base",
        "sizes*",
        "strides*",
        "tile_sizes*",
        "blocks?",
        "early?",
        "pad_amount?",
        "pad_interval?",
        "barrier?",
        "barrier_indices*",
        "global_increment?",
        "lds_increment?",
        "iterations?",
    ),
    does="value",
)
DESCRIPTOR_ROWS = (_BASE, _DESCRIPTOR)

# What a descriptor has beside the tile, and why a copy of it is refused.
NOT_FOLLOWED = {
    "blocks": "it copies to several blocks of a cluster",
    "barrier": "it arrives at a barrier in LDS when it is over",
    "iterations": "it copies several tiles one after the other",
}
_UNKNOWN_DESCRIPTOR = (
    "the op that makes its descriptor does not stand there: one that a loop carries, or that was chosen, "
    "may be any"
)
DYNAMIC = -(1 << 63)


class Tile(NamedTuple):
    """A descriptor, read: `sizes` of the tensor from the base on, its `strides` and the `shape` of the tile,
    slowest dimension first, in elements (None: not constant); `padding` (interval, amount) in bytes of
    LDS, None where it is not constant, () without."""

    base: Any
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    shape: tuple[int | None, ...]
    padding: tuple[int, ...] | None

    @property
    def element_bytes(self) -> int | None:
        memref = as_kind(ir.MemRefType, self.base.operands[0].type)
        try:
            return None if memref is None else layout_of(memref.element_type).stride_bytes
        except UnknownLayoutError:
            return None


def tile_of(op: Any) -> Tile | str:
    """What the descriptor of a copy says, or why that is not followed."""
    made = defining_op(op.operands[0])
    if made is None or made.name != MAKES_DESCRIPTOR:
        gathers = made is not None and made.name.startswith("amdgpu.make_gather")
        return "it gathers rows, or scatters them" if gathers else _UNKNOWN_DESCRIPTOR
    groups = operand_groups(made, _DESCRIPTOR)
    for name, why in NOT_FOLLOWED.items():
        if len(groups[name]):
            return why
    base = defining_op(made.operands[groups["base"].start])
    if base is None or base.name != MAKES_BASE:
        return _UNKNOWN_DESCRIPTOR

    def numbers(static: str, dynamic: str) -> tuple[int | None, ...]:
        given = (constant_value(made.operands[n]) for n in groups[dynamic])
        fixed = ir.DenseI64ArrayAttr(made.attributes[static])
        return tuple(next(given) if number == DYNAMIC else int(number) for number in fixed)

    words = [
        constant_value(made.operands[n])
        for name in ("pad_interval", "pad_amount")
        for n in groups[name]
    ]
    padding = None if None in words else tuple(4 * word for word in words if word is not None)
    return Tile(
        base,
        numbers("global_static_sizes", "sizes"),
        numbers("global_static_strides", "strides"),
        numbers("shared_static_sizes", "tile_sizes"),
        padding,
    )


def _known_tile(op: Any) -> Tile:
    tile = tile_of(op)
    assert isinstance(tile, Tile)
    return tile


def _places(op: Any) -> dict[str, Place]:
    base = _known_tile(op).base
    groups = operand_groups(base, _BASE)
    return {
        name: Place(base, groups[name].start, groups[f"{name}_indices"])
        for name in ("global", "lds")
    }


def _memref(op: Any, name: str) -> Any:
    place = _places(op)[name]
    return ir.MemRefType(place.op.operands[place.memory].type)


def _shape(tile: Tile) -> tuple[int, ...] | None:
    known = [length for length in tile.shape if length is not None]
    return tuple(known) if len(known) == len(tile.shape) else None


def _in_global(op: Any) -> tuple[int, ...] | None:
    """The tile, where the memref has the strides that the descriptor gives."""
    tile = _known_tile(op)
    shape, memref = _shape(tile), _memref(op, "global")
    try:
        strides, _ = strides_and_offset(memref)
    except UnknownLayoutError:
        return None
    own = tuple(strides)[len(strides) - len(tile.strides) :]
    return shape if shape is not None and own == tile.strides else None


def _within(op: Any) -> bool:
    """Whether all of the tile lies in the tensor."""
    tile = _known_tile(op)
    return all(
        length is not None and size is not None and length <= size
        for length, size in zip(tile.shape, tile.sizes, strict=True)
    )


def _is_in_rows(op: Any, *, padded: bool) -> bool:
    """Whether rows of the tile in LDS are rows of the memref, which its padding fills up."""
    tile, memref = _known_tile(op), _memref(op, "lds")
    shape = _shape(tile)
    if shape is None or len(memref.shape) < len(shape):
        return False
    *_, columns = shape
    own = list(memref.shape)[len(memref.shape) - len(shape) :]
    padding = tile.padding if padded else ()
    wide = columns
    if padding:
        size = tile.element_bytes
        if size is None or padding[0] != columns * size or padding[1] % size:
            return False
        wide += padding[1] // size
    if padding is None or own[1:] != [*shape[1:-1], wide][: len(own) - 1]:
        return False
    try:
        strides, _ = strides_and_offset(memref)
    except UnknownLayoutError:
        return False
    dense = [prod(own[n + 1 :]) for n in range(len(own))]
    return list(strides)[len(strides) - len(own) :] == dense


def _in_lds(op: Any, *, padded: bool) -> tuple[int, ...] | None:
    """The tile, where its rows are rows of the memref; else all from its first to its last element."""
    tile = _known_tile(op)
    shape = _shape(tile)
    if shape is None or _is_in_rows(op, padded=padded):
        return shape
    padding, size = (tile.padding if padded else ()), tile.element_bytes
    if padding is None or size is None:
        return None
    length = prod(shape)
    if padding:
        interval, amount = padding
        length += (length * size - 1) // interval * amount // size
    return (length,)


def _lds_rule(kind: Any, *, padded: bool) -> AccessRule:
    def is_flat(op: Any) -> bool:
        return not _is_in_rows(op, padded=padded)

    def is_whole(op: Any) -> bool:
        return not is_flat(op) or not (padded and _known_tile(op).padding)

    return AccessRule(
        kind,
        "lds",
        "lds_indices",
        partial(_in_lds, padded=padded),
        is_whole,
        takes_slot_index=False,
        beyond_rows=is_flat,
    )


def _global_rule(kind: Any) -> AccessRule:
    return AccessRule(kind, "global", "global_indices", _in_global, _within, takes_slot_index=False)


def _copy(op: str, *rules: AccessRule) -> Row:
    row = Row(
        op,
        ("descriptor",),
        accesses=rules,
        queue=ASYNC_LDS,
        asynchronous=lambda op: True,
        places=_places,
        by_wave=True,
        counter=TENSORCNT,
    )

    def of_this(op: Any) -> Row:
        tile = tile_of(op)
        return row if isinstance(tile, Tile) else _unseen(op.name, tile)

    return Row(op, queue=ASYNC_LDS, asynchronous=lambda op: True, by_op=of_this)


def _unseen(op: str, why: str) -> Row:
    return Row(op, effects=(Opaque(why, orders=False, copies=True),))


# Padding is of loads alone.
TENSOR_COPIES = (
    _copy("amdgpu.tensor_load_to_lds", _global_rule("read"), _lds_rule("write", padded=True)),
    _copy("amdgpu.tensor_store_from_lds", _lds_rule("read", padded=False), _global_rule("write")),
)
