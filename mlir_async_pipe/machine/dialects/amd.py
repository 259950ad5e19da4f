"""amdgpu and rocdl: copies to LDS, buffers, lanes, matrix cores, and the tensor data mover.

Copies of gfx9 and gfx10 take one LDS address for the whole wave (it travels in a scalar
register), and lane l writes at that address + l * bytes; on gfx1250 each lane names its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine import access, fragments
from mlir_async_pipe.machine.access import fill
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.async_ops import (
    ElementCopy,
    byte_span,
    copier,
    issue_copy,
    refuse_in_scope,
)
from mlir_async_pipe.machine.dialects.gpu import (
    arithmetic_of,
    as_bytes,
    fragment_product,
    slice_of,
    whole_warps,
    within_warp,
)
from mlir_async_pipe.machine.dialects.llvm import wave_base
from mlir_async_pipe.machine.fragments import Fragment
from mlir_async_pipe.machine.kinds import Kind, kind_of, stored_kind
from mlir_async_pipe.machine.lane_values import Array, MemRef, Parts, lanes_of, uniform
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

# Copies ---------------------------------------------------------------------------------


@semantics("amdgpu.gather_to_lds", "amdgpu.global_load_async_to_lds")
def copy_to_lds(site: Site) -> Execute:
    """One transferType a lane; without `async`, gather_to_lds is over when it returns."""
    groups = groups_of(site.op)
    ends = ("source_indices", "destination_indices")
    from_index, to_index = (slice_of(groups[name]) for name in ends)
    target_at = groups["destination"][0]
    moved = kind_of(ir.TypeAttr(site.op.attributes["transferType"]).value, site.op)
    count = int(np.prod(moved.shape, dtype=np.int64))
    size = count * moved.item_bytes
    per_wave = site.name == "amdgpu.gather_to_lds"
    queue = site.queue()

    def execute(unit: Unit, *operands: Any) -> None:
        source, target = operands[0], operands[target_at]
        origin = access.locate(unit, site, source, operands[from_index], (count,))
        place = access.locate(unit, site, target, operands[to_index], () if per_wave else (count,))
        first = place.addresses.reshape(len(place.addresses), -1)[:, 0]
        if per_wave:
            first = wave_base(unit, first) + unit.threads % unit.warp * size
        destination = byte_span(unit, first, size, place.lanes)
        # What a checked buffer does not have arrives as zeros.
        valid = None if origin.inside is None else origin.inside.sum(axis=1) * moved.item_bytes
        issue_copy(unit, site, queue, as_bytes(unit, origin), destination, valid)

    return execute


@semantics(
    "rocdl.load.async.to.lds",
    "rocdl.global.load.async.lds",
    "rocdl.load.to.lds",
    "rocdl.global.load.lds",
)
def wave_copy(site: Site) -> Execute:
    """`size` bytes a lane from a pointer of its own to the wave's stretch of LDS."""
    return wave_copier(site, site.integer("size") or 0, site.integer("offset") or 0)


def wave_copier(site: Site, size: int, offset: int) -> Execute:
    """Copies of a wave; the immediate offset is added to both addresses."""
    copy = copier(site)

    def execute(unit: Unit, source: Array, target: Array, *immediates: Any) -> None:
        lane = unit.threads % unit.warp
        copy(unit, source + offset, wave_base(unit, target) + offset + lane * size, size)

    return execute


def lane_copy(size: int, immediate: int = 0) -> Any:
    """A builder for the gfx1250 copies: every lane names both addresses. The offset is an
    attribute, or `immediate`."""

    def build(site: Site) -> Execute:
        offset = site.integer("offset", immediate) or 0
        copy = copier(site)
        source, target = map(site.row.operands.index, ("source", "destination"))
        return lambda unit, *ends: copy(unit, ends[source] + offset, ends[target] + offset, size)

    return build


for _bits in (8, 32, 64, 128):
    semantics(
        f"rocdl.global.load.async.to.lds.b{_bits}", f"rocdl.global.store.async.from.lds.b{_bits}"
    )(lane_copy(_bits // 8))


@semantics("rocdl.raw.ptr.buffer.load.async.lds", "rocdl.raw.ptr.buffer.load.lds")
def buffer_copy(site: Site) -> Execute:
    """From a buffer resource at voffset + soffset + offset to the wave's stretch of LDS."""
    copy = copier(site)

    def execute(unit: Unit, source: Array, target: Array, size: Array, *rest: Array) -> None:
        within_buffer, scalar, fixed = rest[:3]
        count = int(size[0])
        lane = unit.threads % unit.warp
        start = source + within_buffer.astype(np.int64) + scalar + fixed
        copy(unit, start, wave_base(unit, target) + fixed + lane * count, count)

    return execute


@semantics("rocdl.make.buffer.rsrc")
def buffer_resource(site: Site) -> Execute:
    """A buffer resource stands for its base address, at which its bytes are kept."""

    def execute(unit: Unit, base: Array, stride: Array, size: Array, flags: Array) -> Array:
        if stride.any():
            raise site.unsupported("a stride other than 0")
        for address, count in zip(*np.broadcast_arrays(base, size), strict=True):
            if unit.launch.resources.setdefault(int(address), int(count)) != count:
                raise site.unsupported("two sizes of buffers from one address on")
        return base

    return execute


def _bytes_of(unit: Unit, address: int) -> int:
    """The bytes of a buffer: those of its resource, else of the memory behind."""
    memory = unit.launch.memory.buffer_at(address)
    rest = 0 if memory is None else memory.base + memory.size - address
    return unit.launch.resources.get(address, rest)


@semantics("amdgpu.fat_raw_buffer_cast")
def fat_buffer(site: Site) -> Execute:
    """The same memory, addressed through a buffer resource that checks the range: from the base of
    the memref (with `resetOffset` from its first element) on, `validBytes` or all that it has."""
    _, valid, _ = site.segments()
    checked, reset = "false" not in site.text("boundsCheck", "true"), site.has("resetOffset")

    def execute(unit: Unit, memory: MemRef, *rest: Array) -> MemRef:
        if not checked:
            return memory
        low = memory.address if reset else memory.base
        return replace(memory, limits=(low, low + (rest[0] if valid else _reach(memory))))

    return execute


def _reach(memory: MemRef) -> Array:
    """The bytes of a buffer that is all of a memref, as upstream counts them in its lowering."""
    reach = [size * stride for size, stride in zip(memory.sizes, memory.strides, strict=True)]
    return reduce(np.maximum, reach, uniform(1 if not reach else 0)) * memory.element_bytes


@semantics("amdgpu.raw_buffer_load", "amdgpu.raw_buffer_store")
def buffer_access(site: Site) -> Execute:
    """Neighbours from i32 subscripts and offsets on, all in elements, in a buffer from the first element
    of the memref on."""
    stored = not len(site.op.results)
    kind = site.operand_kind(0) if stored else site.result_kind()
    fixed = site.integer("indexOffset", 0) or 0
    scalars, checked = site.segments()[-1], "false" not in site.text("boundsCheck", "true")

    def execute(unit: Unit, *operands: Any) -> Any:
        memory, *offsets = operands[stored:]
        *subscripts, scalar = offsets if scalars else (*offsets, uniform(0))
        place = memory.linear(subscripts) + scalar + fixed
        first = memory.base + place * memory.element_bytes
        low = memory.address
        ends = (low, low + _reach(memory)) if checked else None
        return _move(unit, site, first, kind, ends, operands[0] if stored else None)

    return execute


@semantics("rocdl.raw.ptr.buffer.load", "rocdl.raw.ptr.buffer.store", "rocdl.ptr.s.buffer.load")
def pointer_access(site: Site) -> Execute:
    """Neighbours at the sum of unsigned offsets in bytes, in a buffer of which a resource was made."""
    stored = not len(site.op.results)
    kind = site.operand_kind(0) if stored else site.result_kind()
    scalars = len(site.op.operands) - stored - 2

    def execute(unit: Unit, *operands: Any) -> Any:
        base, *offsets = operands[stored:]
        shifts = [offset.astype(np.int64) & 0xFFFFFFFF for offset in offsets[:scalars]]
        ends = base, base + [_bytes_of(unit, int(address)) for address in base]
        return _move(unit, site, sum(shifts, base), kind, ends, operands[0] if stored else None)

    return execute


def _move(
    unit: Unit,
    site: Site,
    first: Array,
    kind: Kind,
    ends: tuple[Array, Array] | None,
    value: Array | None,
) -> Array | None:
    """Write a value from some addresses on, or read one; of what lies beyond the ends of a buffer that is
    checked nothing is written, and zeros are read."""
    addresses = first.reshape(-1, *(1,) * len(kind.shape)) + kind.byte_offsets()
    where = access.span(unit, addresses, kind.item_bytes, unit.mask)
    where = where if ends is None else access.limited(where, ends)
    where = replace(where, addresses=access.within_memory(unit, where.addresses, kind.item_bytes))
    if value is None:
        return access.read(unit, site, where, kind.element)
    access.write(unit, site, where, value, kind.element)
    return None


# Lanes ---------------------------------------------------------------------------------


@semantics("rocdl.readfirstlane")
def read_first_lane(site: Site) -> Execute:
    return lambda unit, value: wave_base(unit, value)


@semantics("rocdl.mbcnt.lo", "rocdl.mbcnt.hi")
def lane_by_count(site: Site) -> Execute:
    """Bits of a mask below this lane, of its lower or upper 32, added to a number."""
    low = site.name.endswith("lo")

    def execute(unit: Unit, mask: Array, start: Array) -> Array:
        position = unit.threads % unit.warp
        below = np.clip(position if low else position - 32, 0, 32)
        bits = mask.astype(np.int64) & ((np.int64(1) << below) - 1)
        count = np.zeros(unit.width, np.int32)
        for bit in range(32):
            count += ((bits >> bit) & 1).astype(np.int32)
        return count + start

    return execute


# amdgpu.dpp and rocdl.readlane: values of other lanes of a wave.
#
#     quad_perm([1, 0, 3, 2])      lane 4 q + i reads lane 4 q + perm[i]
#     row_mirror                   lane i of a row of 16 reads lane 15 - i
#     row_bcast_15, row_bcast_31   the row, the two rows, after lane 15 or 31 read that lane
#
# A lane whose source is outside of its row keeps `old`, or gets 0 with `bound_ctrl`; rows and banks (4
# lanes of a row) that the masks leave out keep `old`. Shifts of the whole wave are refused.


ROW, BANK, QUAD, HALF = 16, 4, 4, 8
# A lane that an op leaves alone, and one whose source is outside of its row.
KEEP, NONE = -2, -1
_KINDS = (
    "quad_perm row_shl row_shr row_ror row_mirror row_half_mirror row_bcast_15 row_bcast_31".split()
)


def _source(kind: str, numbers: tuple[int, ...], lane: Array) -> Array:
    """The lane that each lane of a wave reads, NONE or KEEP."""
    place = lane % ROW
    row = lane - place
    if kind == "quad_perm":
        return lane - lane % QUAD + np.array(numbers)[lane % QUAD]
    if kind == "row_mirror":
        return row + ROW - 1 - place
    if kind == "row_half_mirror":
        return lane - lane % HALF + HALF - 1 - lane % HALF
    if kind == "row_bcast_15":
        return np.where(row > 0, row - 1, KEEP)
    if kind == "row_bcast_31":
        return np.where(lane >= 32, 31, KEEP)
    if kind == "row_ror":
        return row + (place - numbers[0]) % ROW
    moved = place + (numbers[0] if kind == "row_shl" else -numbers[0])
    return np.where((moved >= 0) & (moved < ROW), row + moved, NONE)


@semantics("amdgpu.dpp")
def dpp(site: Site) -> Execute:
    kind = site.word("kind")
    if kind not in _KINDS:
        raise site.unsupported(f"kind {kind}")
    numbers = site.integers("permArgument") if kind == "quad_perm" else ()
    if kind in ("row_shl", "row_shr", "row_ror"):
        numbers = (site.integer("permArgument") or 0,)
    rows, banks = site.integer("row_mask", 15) or 0, site.integer("bank_mask", 15) or 0
    zero = "true" in site.text("bound_ctrl", "false")

    def execute(unit: Unit, old: Array, value: Array) -> Array:
        lane = unit.threads % unit.warp
        read = _source(kind, numbers, lane)
        number, inside = within_warp(unit, read)
        there = inside & unit.active()[number]
        enabled = ((rows >> lane // ROW) & 1) & ((banks >> lane % ROW // BANK) & 1)
        kept, given = lanes_of(old, unit.width), lanes_of(value, unit.width)[number]
        shaped = (-1, *(1,) * (value.ndim - 1))
        missing = np.zeros_like(kept) if zero else kept
        moved = np.where(there.reshape(shaped), given, missing)
        taking = (enabled == 1) & (read != KEEP)
        return np.where(taking.reshape(shaped), moved, kept)

    return execute


@semantics("rocdl.readlane")
def read_lane(site: Site) -> Execute:
    """The value of one lane of the wave, the same for all of them."""

    def execute(unit: Unit, value: Array, lane: Array) -> Array:
        number, _ = within_warp(unit, lanes_of(lane, unit.width) % unit.warp)
        return lanes_of(value, unit.width)[number]

    return execute


# Matrix cores, and the loads from LDS that lay out their operands.


@semantics("amdgpu.mfma")
def mfma(site: Site) -> Execute:
    """D = A B + C on 64 lanes, one block."""
    m, n, k = (site.integer(name) or 0 for name in ("m", "n", "k"))
    if (site.integer("blocks", 1) or 1) != 1 or (m, n) not in ((16, 16), (32, 32)):
        raise site.unsupported(f"shape {m}x{n}x{k} with several blocks")
    if site.operand_kind(0).name == "f64":
        raise site.unsupported("f64 operands")
    for name in ("abid", "cbsz"):
        if site.integer(name, 0):
            raise site.unsupported(f"{name} broadcasts")
    if "none" not in site.text("blgp", "none"):
        raise site.unsupported("blgp permutations")
    return _product(site, fragments.cdna(m, n, k), 64)


@semantics("amdgpu.wmma")
def wmma(site: Site) -> Execute:
    """D = A B + C on 32 lanes, in the layout of gfx11 (a lane holds all of k) or gfx12."""
    m, n, k = (site.integer(name, 16) or 16 for name in ("m", "n", "k"))
    if (m, n) != (16, 16):
        raise site.unsupported(f"shape {m}x{n}x{k}")
    held = int(np.prod(site.operand_kind(0).shape, dtype=np.int64))
    whole = held == k
    if whole and len(site.result_kind().shape) and site.result_kind().shape[0] != 8:
        raise site.unsupported("16-bit accumulators in half a register")
    return _product(site, fragments.rdna(11 if whole else 12, k), 32)


def _product(site: Site, layouts: tuple[Fragment, Fragment, Fragment], lanes: int) -> Execute:
    kind, arithmetic = site.result_kind(), arithmetic_of(site)

    def execute(unit: Unit, *values: Array) -> Array:
        if unit.warp != lanes:
            raise site.unsupported(f"it runs on waves of {lanes}, the machine has {unit.warp}")
        return fragment_product(unit, site, layouts, values, kind, arithmetic)

    return execute


@semantics("amdgpu.transpose_load")
def transpose_load(site: Site) -> Execute:
    """ds_read_tr of gfx950: 16 lanes read n rows of 16 elements, n each, and lane l receives
    column l.

    Lane i reads n neighbours of row i / (16 / n) from column n (i mod (16 / n)) on; of row j,
    column l was read by lane (16 / n) j + l / n, as its element l mod n.
    """
    kind = site.result_kind()
    count = int(np.prod(kind.shape, dtype=np.int64))
    if 16 % count:
        raise site.unsupported(f"{count} elements a lane")
    element = memref_shape(site.operand_type(0), site.op).element
    lane, row = np.arange(16)[:, None], np.arange(count)[None, :]
    reader, place = 16 // count * row + lane // count, lane % count

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        where = access.locate(unit, site, memory, indices, (count,))
        rows = lanes_of(access.read(unit, site, where, element), unit.width)
        groups = whole_warps(unit, site).reshape(-1, 16)
        held = rows[groups].reshape(len(groups), 16, count)
        result = np.zeros_like(held, shape=(unit.width, *kind.shape))
        result[groups] = held[:, reader, place].reshape(len(groups), 16, *kind.shape)
        return result

    return execute


# The tensor data mover of gfx1250: a descriptor of a tile, and copies of it between memory and LDS.
#
# A copy moves a tile for a whole wave: `sharedSize` elements from the base address on. Of a load what is
# outside of `globalSize` is zeros, of a store it is left out. Sizes and strides name the slowest
# dimension first. The copy is over when a wait for its counter or for its mark says so.

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
def copy_tile(site: Site) -> Execute:
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
