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

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import as_kind, constant_value, defining_op
from mlir_async_pipe.vocabulary.memory_layout import (
    element_bytes,
    if_known,
    strides_and_offset,
)
from mlir_async_pipe.vocabulary.op_table import operand_groups
from mlir_async_pipe.vocabulary.rows import ASYNC_LDS, TENSORCNT, AccessRule, Opaque, Place, Row
from mlir_async_pipe.vocabulary.tensor_words import (
    BARRIER,
    BLOCKS,
    COUNT,
    DATA_SIZE,
    GATHER,
    GLOBAL_WORD,
    ITERATE,
    LDS_WORD,
    PAD,
    PAD_AMOUNT,
    PAD_INTERVAL,
    SIZES,
    STRIDES,
    TILE,
    pointed,
    words_of,
)

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
    "gather": "it gathers rows, or scatters them",
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
    """A descriptor, read: where both memories are named, as "global" and "lds"; `sizes` of the tensor from
    there on, its `strides` and the `shape` of the tile, slowest dimension first, in elements (None: not
    constant) of so many bytes; `padding` (interval, amount) in bytes of LDS, None where it is not
    constant, () without. `exact`: both places are the tile's first element, and it is certainly copied."""

    places: dict[str, Place]
    element_bytes: int | None
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    shape: tuple[int | None, ...]
    padding: tuple[int, ...] | None
    exact: bool = True

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        known = [length for length in self.shape if length is not None]
        return tuple(known) if len(known) == len(self.shape) and self.exact else None

    def memory(self, name: str) -> Any:
        """The memref that names one memory, None for a pointer."""
        place = self.places[name]
        return as_kind(ir.MemRefType, place.op.operands[place.memory].type)


def tile_of(op: Any) -> Tile | str:
    """What the descriptor of a copy says, or why that is not followed."""
    return _made_by_ops(op) if len(op.operands) == 1 else _made_of_words(op)


def _made_by_ops(op: Any) -> Tile | str:
    made = defining_op(op.operands[0])
    if made is None or made.name != MAKES_DESCRIPTOR:
        gathers = made is not None and made.name.startswith("amdgpu.make_gather")
        return NOT_FOLLOWED["gather"] if gathers else _UNKNOWN_DESCRIPTOR
    groups = operand_groups(made, _DESCRIPTOR)
    for name, why in NOT_FOLLOWED.items():
        if len(groups.get(name, ())):
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
    named = operand_groups(base, _BASE)
    return Tile(
        {
            name: Place(base, named[name].start, named[f"{name}_indices"])
            for name in ("global", "lds")
        },
        _bytes_of(base.operands[0].type),
        numbers("global_static_sizes", "sizes"),
        numbers("global_static_strides", "strides"),
        numbers("shared_static_sizes", "tile_sizes"),
        None if None in words else tuple(4 * word for word in words if word is not None),
    )


def _bytes_of(kind: Any) -> int | None:
    memref = as_kind(ir.MemRefType, kind)
    return None if memref is None else if_known(element_bytes, memref)


def _made_of_words(op: Any) -> Tile | str:
    words = words_of(list(op.operands)[:4])
    asked = {name: words.number(field) for name, field in _FIELDS.items()}
    for name, number in asked.items():
        if number is None:
            return _UNKNOWN_DESCRIPTOR
        if number:
            return NOT_FOLLOWED[name]
    tile = words.numbers(TILE, len(TILE))
    rank = len(tile) - next((n for n, length in enumerate(tile) if length != 0), len(tile))
    places = {
        name: pointed(words.groups[0][word])
        for name, word in (("global", GLOBAL_WORD), ("lds", LDS_WORD))
    }
    found = {name: pointer for name, pointer in places.items() if pointer is not None}
    size, pad = words.number(DATA_SIZE), words.number(PAD)
    if len(found) < len(places) or None in tile[len(tile) - rank :] or size is None or pad is None:
        return _UNKNOWN_DESCRIPTOR
    interval, amount = words.number(PAD_INTERVAL), words.number(PAD_AMOUNT)
    padding: tuple[int, ...] | None = () if not pad else None
    if pad and interval is not None and amount is not None:
        padding = (4 * (2 << interval), 4 * (amount + 1))
    return Tile(
        {name: pointer.place for name, pointer in found.items()},
        1 << size,
        words.numbers(SIZES, rank),
        (*words.numbers(STRIDES, rank - 1), 1),
        tile[len(tile) - rank :],
        padding,
        words.number(COUNT) == 1 and all(pointer.exact for pointer in found.values()),
    )


# What must be 0 in the words of a copy that is followed.
_FIELDS = {"gather": GATHER, "blocks": BLOCKS, "barrier": BARRIER, "iterations": ITERATE}


def _known_tile(op: Any) -> Tile:
    tile = tile_of(op)
    assert isinstance(tile, Tile)
    return tile


def _places(op: Any) -> dict[str, Place]:
    return _known_tile(op).places


def _in_global(op: Any) -> tuple[int, ...] | None:
    """The tile, where the memref has the strides that the descriptor gives; after a pointer its bytes, where
    its rows lie side by side."""
    tile = _known_tile(op)
    shape, memref = tile.static_shape, tile.memory("global")
    if memref is None:
        size = tile.element_bytes
        if shape is None or size is None:
            return None
        side_by_side = all(
            length == 1 or stride == prod(shape[axis + 1 :])
            for axis, (length, stride) in enumerate(zip(shape, tile.strides, strict=True))
        )
        return (prod(shape) * size,) if side_by_side else None
    known = if_known(strides_and_offset, memref)
    if known is None:
        return None
    strides, _ = known
    own = tuple(strides)[len(strides) - len(tile.strides) :]
    return shape if shape is not None and own == tile.strides else None


def _within(op: Any) -> bool:
    """Whether all of the tile lies in the tensor."""
    tile = _known_tile(op)
    return tile.exact and all(
        length is not None and size is not None and length <= size
        for length, size in zip(tile.shape, tile.sizes, strict=True)
    )


def _is_in_rows(op: Any, *, padded: bool) -> bool:
    """Whether rows of the tile in LDS are rows of the memref, which its padding fills up."""
    tile = _known_tile(op)
    shape, memref = tile.static_shape, tile.memory("lds")
    if shape is None or memref is None or len(memref.shape) < len(shape):
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
    known = if_known(strides_and_offset, memref)
    dense = [prod(own[n + 1 :]) for n in range(len(own))]
    return known is not None and list(known[0])[len(known[0]) - len(own) :] == dense


def _in_lds(op: Any, *, padded: bool) -> tuple[int, ...] | None:
    """The tile, where its rows are rows of the memref; else all from its first to its last element, after a
    pointer in bytes."""
    tile = _known_tile(op)
    shape = tile.static_shape
    if shape is None or _is_in_rows(op, padded=padded):
        return shape
    padding, size = (tile.padding if padded else ()), tile.element_bytes
    if padding is None or size is None:
        return None
    length = prod(shape) * size
    if padding:
        interval, amount = padding
        length += (length - 1) // interval * amount
    return (length if tile.memory("lds") is None else length // size,)


def _lds_rule(kind: Any, *, padded: bool) -> AccessRule:
    def is_flat(op: Any) -> bool:
        return not _is_in_rows(op, padded=padded)

    def is_whole(op: Any) -> bool:
        tile = _known_tile(op)
        return tile.exact and (not is_flat(op) or not (padded and tile.padding))

    return AccessRule(
        kind,
        "lds",
        "lds_indices",
        partial(_in_lds, padded=padded),
        is_whole,
        takes_slot_index=False,
        beyond_rows=lambda op: _known_tile(op).memory("lds") is not None and is_flat(op),
    )


def _global_rule(kind: Any) -> AccessRule:
    return AccessRule(kind, "global", "global_indices", _in_global, _within, takes_slot_index=False)


def _copy(op: str, operands: tuple[str, ...], *rules: AccessRule) -> Row:
    any_copy = Row(
        op,
        operands,
        queue=ASYNC_LDS,
        asynchronous=lambda op: True,
        by_wave=True,
        counter=TENSORCNT,
    )
    seen = replace(any_copy, accesses=rules, places=_places)

    def of_this(op: Any) -> Row:
        tile = tile_of(op)
        if isinstance(tile, Tile):
            return seen
        return replace(any_copy, effects=(Opaque(tile, orders=False, copies=True),))

    return replace(any_copy, by_op=of_this)


_GROUPS = ("words_0", "words_1", "words_2", "words_3", "words_4")
# Padding is of loads alone.
TENSOR_COPIES = tuple(
    row
    for load, store, operands in (
        ("amdgpu.tensor_load_to_lds", "amdgpu.tensor_store_from_lds", ("descriptor",)),
        ("rocdl.tensor.load.to.lds", "rocdl.tensor.store.from.lds", _GROUPS),
    )
    for row in (
        _copy(load, operands, _global_rule("read"), _lds_rule("write", padded=True)),
        _copy(store, operands, _lds_rule("read", padded=False), _global_rule("write")),
    )
)
