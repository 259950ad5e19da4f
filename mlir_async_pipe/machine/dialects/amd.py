"""amdgpu and rocdl: copies to LDS, ids.

Copies of gfx9 and gfx10 take one LDS address for the whole wave (it travels in a scalar
register), and lane l writes at that address + l * bytes; on gfx1250 each lane names its own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.async_ops import byte_span, copier, issue_copy
from mlir_async_pipe.machine.dialects.gpu import as_bytes, slice_of, within_warp
from mlir_async_pipe.machine.dialects.llvm import wave_base
from mlir_async_pipe.machine.kinds import Kind, kind_of
from mlir_async_pipe.machine.lane_values import Array, MemRef, lanes_of, uniform
from mlir_async_pipe.vocabulary import groups_of

# Copies ---------------------------------------------------------------------------------


@semantics("amdgpu.gather_to_lds", "amdgpu.global_load_async_to_lds")
def copy_to_lds(site: Site) -> Execute:
    """One transferType a lane; without `async`, gather_to_lds is over when it returns."""
    groups = groups_of(site.op)
    from_index, to_index = (
        slice_of(groups["source_indices"]),
        slice_of(groups["destination_indices"]),
    )
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
    """The value of the first active lane of the wave."""
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
    """One permutation within the wave."""
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
