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

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import as_kind, constant_value, defining_op
from mlir_async_pipe.vocabulary.memory_layout import element_bytes, if_known, strides_and_offset
from mlir_async_pipe.vocabulary.memory_names import ELEMENT_PUT
from mlir_async_pipe.vocabulary.op_table import operand_groups
from mlir_async_pipe.vocabulary.operator_table import OPERATORS
from mlir_async_pipe.vocabulary.rows import (
    ASYNC_LDS,
    TENSORCNT,
    AccessKind,
    AccessRule,
    Opaque,
    Place,
    Row,
)

# Descriptors in words ----------------------------------------------------------------------------
#
# Descriptors of the tensor data mover as the hardware reads them: groups of words with fields of bits.
#
#     %d0 = insertelement … 1, ptrtoint %lds, trunc (ptrtoint %A), …      count 1, both addresses
#     %d1 = insertelement … 0x10000, 0x400000, 0x400000, 0x400000, 64, …  f16; tile 64 x 64, tensor 64 x 64
#     rocdl.tensor.load.to.lds %d0, %d1, %zeros, %zeros, %zeros, 0
#
# Groups 0, 1, 2 and 3 have 4, 8, 4 and 4 words of 32 bits (CDNA5 ISA, "Tensor DMA descriptor"; MLIR's lowering of
# `amdgpu.make_dma_descriptor` writes the same). Sizes, tile and strides stand fastest dimension first. Of a
# word that is not constant some bits may be known: `or (lshr %rows, 16), 0x400000` has 64 in its upper half.


WORDS = (4, 8, 4, 4)


class Field(NamedTuple):
    """Bits `first` to `first + bits - 1` of a group."""

    group: int
    first: int
    bits: int


COUNT, GATHER = Field(0, 0, 2), Field(0, 31, 1)
BLOCKS, DATA_SIZE, BARRIER, ITERATE, PAD = (
    Field(1, 0, 16),
    Field(1, 16, 2),
    Field(1, 18, 1),
    Field(1, 19, 1),
    Field(1, 20, 1),
)
# 2 << interval words of four bytes, then amount + 1 of them.
PAD_INTERVAL, PAD_AMOUNT = Field(1, 22, 3), Field(1, 25, 7)
SIZES = (Field(1, 48, 32), Field(1, 80, 32), Field(2, 0, 32), Field(2, 32, 32), Field(3, 48, 32))
TILE = (
    Field(1, 112, 16),
    Field(1, 128, 16),
    Field(1, 144, 16),
    Field(2, 112, 16),
    Field(3, 80, 16),
)
STRIDES = (Field(1, 160, 48), Field(1, 208, 48), Field(2, 64, 48), Field(3, 0, 48))
LDS_WORD, GLOBAL_WORD = 1, 2

_ZEROS = ("llvm.mlir.zero", "llvm.mlir.undef", "llvm.mlir.poison", "ub.poison")
_ALL = (1 << 64) - 1


class Words(NamedTuple):
    """The words of the groups of one descriptor, each a value, a number, or None where it is not seen."""

    groups: tuple[tuple[Any, ...], ...]

    def number(self, field: Field) -> int | None:
        """The number in a field, None where some of its bits are not known."""
        found = 0
        for place, word in enumerate(self.groups[field.group]):
            low, high = max(field.first, 32 * place), min(field.first + field.bits, 32 * place + 32)
            if low >= high:
                continue
            mask = ((1 << (high - low)) - 1) << (low - 32 * place)
            known, value = _bits(word)
            if known & mask != mask:
                return None
            found |= ((value & mask) >> (low - 32 * place)) << (low - field.first)
        return found

    def numbers(self, fields: tuple[Field, ...], count: int) -> tuple[int | None, ...]:
        """Those of the fastest `count` dimensions, slowest first."""
        return tuple(map(self.number, fields[:count][::-1]))


def words_of(groups: list[Any]) -> Words:
    """The words of vectors."""
    pairs = zip(groups, WORDS, strict=False)
    return Words(tuple(tuple(_words(vector, count)) for vector, count in pairs))


def _words(vector: Any, count: int) -> list[Any]:
    found: dict[int, Any] = {}
    op = defining_op(vector)
    while op is not None and op.name == ELEMENT_PUT:
        place = constant_value(op.operands[2])
        if place is None:
            return [None] * count
        found.setdefault(place, op.operands[1])
        op = defining_op(op.operands[0])
    rest: list[Any] = [None] * count
    if op is not None and op.name in _ZEROS:
        rest = [0] * count
    elif op is not None and op.name == "vector.from_elements":
        rest = list(op.operands)
    elif op is not None and "value" in op.attributes:
        numbers = as_kind(ir.DenseIntElementsAttr, op.attributes["value"])
        rest = rest if numbers is None else list(map(int, numbers))
    return [found.get(place, word) for place, word in enumerate(rest)]


def _bits(word: Any, depth: int = 0) -> tuple[int, int]:
    """Which bits of a word are known, and their value."""
    if word is None or depth > 16:
        return 0, 0
    number = word if isinstance(word, int) else constant_value(word)
    if number is not None:
        return _ALL, number & _ALL
    op = defining_op(word)
    row = None if op is None else OPERATORS.get(op.name)
    if op is None or row is None:
        return 0, 0
    known = [_bits(operand, depth + 1) for operand in op.operands]
    (a, x), (b, y) = known[0], known[-1]
    width = (1 << ir.IntegerType(op.results[0].type).width) - 1
    match row.method:
        case "or_":
            return (a & b) | (a & x) | (b & y), x & a | y & b
        case "and_":
            return (a & b) | (a & ~x) | (b & ~y), x & y & a & b
        case "shl" if b == _ALL:
            return ((a << y) | ((1 << y) - 1)) & _ALL, x << y & width
        case "shr" if b == _ALL and row.sign == "u":
            return (a & width) >> y | (_ALL & ~(width >> y)), (x & a & width) >> y
        case "cast":
            # The sign of a number that grows may be one or zero.
            given = op.operands[0].type
            if row.sign == "s" and isinstance(given, ir.IntegerType):
                width &= (1 << given.width) - 1
            return a & width, x & width
    return 0, 0


class Pointed(NamedTuple):
    """The op whose operand 0 is a pointer, the address of which a word holds; `exact`: that address itself."""

    place: Place
    exact: bool


def pointed(word: Any) -> Pointed | None:
    """The pointer behind a word with an address, or with its lower half."""
    exact, op = True, None if word is None or isinstance(word, int) else defining_op(word)
    while op is not None and op.name != "llvm.ptrtoint":
        row = OPERATORS.get(op.name)
        method = None if row is None else row.method
        if method == "cast":
            op = defining_op(op.operands[0])
        elif method in ("add", "or_"):
            sides = [defining_op(operand) for operand in op.operands]
            op = next((side for side in sides if side is not None and _leads(side)), None)
            exact = False
        else:
            return None
    return None if op is None else Pointed(Place(op, 0, range(0)), exact)


def _leads(op: Any) -> bool:
    row = OPERATORS.get(op.name)
    return op.name == "llvm.ptrtoint" or (row is not None and row.method in ("cast", "add", "or_"))


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
        *(
            "base",
            "sizes*",
            "strides*",
            "tile_sizes*",
            "blocks?",
            "early?",
            "pad_amount?",
            "pad_interval?",
        ),
        *("barrier?", "barrier_indices*", "global_increment?", "lds_increment?", "iterations?"),
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


def _in_global(op: Any) -> tuple[int, ...] | None:
    """The tile, where the memref has the strides that the descriptor gives; after a pointer its bytes, where
    its rows lie side by side."""
    tile = _known_tile(op)
    shape, memref, size = tile.static_shape, tile.memory("global"), tile.element_bytes
    if shape is None:
        return None
    if memref is not None:
        known = if_known(strides_and_offset, memref)
        strides = [] if known is None else known[0]
        return shape if tuple(strides[len(strides) - len(tile.strides) :]) == tile.strides else None
    dense = _dense_strides(shape)
    lines = zip(shape, tile.strides, dense, strict=True)
    side_by_side = all(length == 1 or stride == own for length, stride, own in lines)
    return (prod(shape) * size,) if side_by_side and size is not None else None


def _dense_strides(shape: Sequence[int]) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


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
    padding, size = (tile.padding if padded else ()), tile.element_bytes
    if shape is None or memref is None or len(memref.shape) < len(shape) or padding is None:
        return False
    own = list(memref.shape)[len(memref.shape) - len(shape) :]
    wide = shape[-1]
    if padding:
        if size is None or padding[0] != wide * size or padding[1] % size:
            return False
        wide += padding[1] // size
    known = if_known(strides_and_offset, memref)
    if known is None or own[1:] != [*shape[1:-1], wide][: len(own) - 1]:
        return False
    return known[0][len(known[0]) - len(own) :] == _dense_strides(own)


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


def _lds_rule(kind: AccessKind, *, padded: bool) -> AccessRule:
    def is_flat(op: Any) -> bool:
        return not _is_in_rows(op, padded=padded)

    def is_whole(op: Any) -> bool:
        tile = _known_tile(op)
        return tile.exact and not (padded and tile.padding and is_flat(op))

    extent = partial(_in_lds, padded=padded)
    return AccessRule(
        *(kind, "lds", "lds_indices", extent, is_whole),
        takes_slot_index=False,
        beyond_rows=lambda op: _known_tile(op).memory("lds") is not None and is_flat(op),
    )


def _global_rule(kind: AccessKind) -> AccessRule:
    return AccessRule(kind, "global", "global_indices", _in_global, _within, takes_slot_index=False)


def _copy(op: str, operands: tuple[str, ...], *rules: AccessRule) -> Row:
    any_copy = Row(
        op, operands, queue=ASYNC_LDS, asynchronous=lambda op: True, by_wave=True, counter=TENSORCNT
    )
    seen = replace(any_copy, accesses=rules, places=lambda op: _known_tile(op).places)

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
