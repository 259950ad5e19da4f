"""gpu and nvgpu: ids, barriers, shuffles, reductions and products of a warp."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mlir_async_pipe.machine import access, fragments
from mlir_async_pipe.machine.access import ByteSpan
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.arith import COMBINE
from mlir_async_pipe.machine.dialects.async_ops import byte_span, issue_copy, refuse_in_scope
from mlir_async_pipe.machine.dialects.mbarriers import warps_of
from mlir_async_pipe.machine.fragments import ProductArithmetic
from mlir_async_pipe.machine.kinds import BOOL, FACTOR_KINDS, Kind
from mlir_async_pipe.machine.lane_values import Array, MemRef, Token, lanes_of, uniform
from mlir_async_pipe.machine.memory import SPACE_NAMES, memref_shape
from mlir_async_pipe.vocabulary import groups_of
from mlir_async_pipe.vocabulary.launch_ids import ID_OPS, id_of, thread_dimension
from mlir_async_pipe.vocabulary.launch_ids import Kind as LaunchKind


def thread_coordinate(unit: Unit, axis: int) -> Array:
    """A thread id along one axis (x runs fastest), uniform where the block is flat there."""
    block = unit.launch.options.threads
    if block[axis] == 1:
        return uniform(0)
    below = int(np.prod(block[:axis], dtype=np.int64))
    return unit.threads // below % block[axis]


_VALUES: dict[LaunchKind, Callable[[Unit, int], Array | int]] = {
    "thread": thread_coordinate,
    "block": lambda unit, axis: unit.launch.block_index[axis],
    "block_size": lambda unit, axis: unit.launch.options.threads[axis],
    "grid_size": lambda unit, axis: unit.launch.options.grid[axis],
    "lane": lambda unit, axis: unit.threads % unit.warp,
    "subgroup": lambda unit, axis: unit.threads // unit.warp,
    "cluster": lambda unit, axis: unit.launch.block_index[axis] // unit.launch.options.cluster[axis],
    "cluster_count": lambda unit, axis: unit.launch.options.grid[axis] // unit.launch.options.cluster[axis],
    "cluster_block": lambda unit, axis: unit.launch.block_index[axis] % unit.launch.options.cluster[axis],
    "cluster_size": lambda unit, axis: unit.launch.options.cluster[axis],
    "cluster_rank": lambda unit, axis: unit.rank % unit.launch.cluster_size,
    "cluster_blocks": lambda unit, axis: unit.launch.cluster_size,
}  # fmt: skip


@semantics(*(name for name, kind in ID_OPS.items() if kind in _VALUES))
def launch_id(site: Site) -> Execute:
    known, kind = id_of(site.op), site.result_kind()
    assert known is not None
    value = _VALUES[known.kind]
    return lambda unit: kind.settle(np.atleast_1d(value(unit, known.axis)))


@semantics("gpu.global_id")
def global_id(site: Site) -> Execute:
    """block id * block size + thread id."""
    axis = thread_dimension(site.op)

    def execute(unit: Unit) -> Array:
        first = unit.launch.block_index[axis] * unit.launch.options.threads[axis]
        return thread_coordinate(unit, axis) + first

    return execute


@semantics("gpu.subgroup_size", "nvvm.read.ptx.sreg.warpsize", "rocdl.wavefrontsize")
def subgroup_size(site: Site) -> Execute:
    kind = site.result_kind()
    return lambda unit: kind.settle(uniform(unit.warp))


@semantics("gpu.num_subgroups")
def subgroup_count(site: Site) -> Execute:
    return lambda unit: uniform(-(-unit.launch.block_size // unit.warp))


@semantics("rocdl.s.barrier.signal")
def signal(site: Site) -> Execute:
    """A half of a barrier of the block, whose wait comes right after it."""
    if site.row.described:
        raise site.unsupported("a barrier whose halves stand apart")
    return lambda unit, *operands: None


@semantics(
    "gpu.barrier",
    "nvvm.barrier0",
    "rocdl.barrier",
    "rocdl.s.barrier",
    "rocdl.s.barrier.wait",
    "amdgpu.lds_barrier",
)
def barrier(site: Site) -> Execute:
    """All threads of the block meet; which memory is ordered stands in the op's row."""
    if site.row.barrier is None:
        raise site.unsupported("barriers of some threads of a block")
    ordered = site.row.barrier(site.op)
    spaces = tuple(number for number, name in enumerate(SPACE_NAMES) if name in ordered)

    def execute(unit: Unit, *operands: Any) -> None:
        refuse_in_scope(unit, site)
        unit.tick()
        unit.note("barrier", site)
        unit.launch.barrier(unit, site, spaces)

    return execute


@semantics("gpu.dynamic_shared_memory")
def dynamic_shared_memory(site: Site) -> Execute:
    shape = memref_shape(site.result_type(), site.op)

    def execute(unit: Unit) -> Any:
        buffer = unit.launch.dynamic_buffer(site)
        return shape.over(uniform(buffer.base), [uniform(buffer.size)])

    return execute


# Warps ----------------------------------------------------------------------------------


def whole_warps(unit: Unit, site: Site) -> Array:
    """The lanes that belong to complete warps, as (warps, lanes of a warp).

    A warp of which only some lanes are active is reported and left out.
    """
    warp = unit.warp
    active = unit.active()
    padded = -(-unit.width // warp) * warp
    present = np.zeros(padded, np.bool_)
    present[: unit.width] = active
    rows = present.reshape(-1, warp)
    partial = rows.any(axis=1) & ~rows.all(axis=1)
    if partial.any():
        unit.report("divergent-warp-op", site, int(np.flatnonzero(partial)[0]) * warp)
    return np.arange(padded).reshape(-1, warp)[rows.all(axis=1)]


def matrix_rows(unit: Unit, site: Site, tiles: int) -> tuple[Array, Array]:
    """The whole warps, and their lanes that name a row of a tile: the first 8 for each tile."""
    warps = whole_warps(unit, site)
    return warps, unit.mask_of(warps[:, : 8 * tiles])


def matrix_parts(rows: Array, warps: Array, tiles: int, transpose: bool) -> Array:
    """What each lane takes of tiles of 8 rows: lane l the l % 4-th part of row l / 4, or of column
    l / 4. Rows are (lanes, elements), the answer is (warps, 32 lanes, tiles, part)."""
    held = rows[warps[:, : 8 * tiles]].reshape(len(warps), tiles, 8, -1)
    held = held.swapaxes(2, 3) if transpose else held
    return held.reshape(len(warps), tiles, 32, -1).swapaxes(1, 2)


def fragment_product(
    unit: Unit,
    site: Site,
    layouts: Any,
    values: tuple[Array, ...],
    kind: Kind,
    arithmetic: ProductArithmetic,
) -> Array:
    """A B + C of the warps of a unit, from fragments to fragments."""
    warps = whole_warps(unit, site)
    a, b, c = (
        layout.gather(lanes_of(value, unit.width)[warps].reshape(*warps.shape, -1))
        for layout, value in zip(layouts, values, strict=True)
    )
    sums = kind.settle(layouts[2].spread(arithmetic.add(c, arithmetic.multiply(a, b))))
    result = np.zeros_like(sums, shape=(unit.width, *kind.shape), dtype=kind.dtype)
    result[warps] = sums.reshape(*warps.shape, *kind.shape)
    return result


def arithmetic_of(site: Site) -> ProductArithmetic:
    """Of a product of operands 0 and 1."""
    kinds = site.operand_kind(0), site.operand_kind(1)
    return ProductArithmetic(kinds, site.result_kind().dtype)


def within_warp(unit: Unit, source: Array) -> tuple[Array, Array]:
    """The lane of the unit at position `source` of each lane's own warp, and its validity."""
    warp = unit.warp
    first = np.arange(unit.width) // warp * warp
    lane = first + source
    valid = (source >= 0) & (source < warp) & (lane < unit.width)
    return np.clip(lane, 0, unit.width - 1), valid


_SHUFFLES: dict[str, Callable[[Array, Array, Array], tuple[Array, Array]]] = {
    "xor": lambda lane, by, width: (lane ^ by, (lane ^ by) < (lane // width + 1) * width),
    "up": lambda lane, offset, width: (lane - offset, lane % width >= offset),
    "down": lambda lane, offset, width: (lane + offset, lane % width + offset < width),
    "idx": lambda lane, offset, width: (lane // width * width + offset % width, offset < width),
}


@semantics("gpu.shuffle")
def shuffle(site: Site) -> Execute:
    """A value from another lane, and whether that lane was in the segment."""
    where = _SHUFFLES[site.word("mode")]

    def execute(unit: Unit, value: Array, offset: Array, width: Array) -> tuple[Array, Array]:
        lane = unit.threads % unit.warp
        source, in_segment = where(lane, offset.astype(np.int64), width.astype(np.int64))
        number, valid = within_warp(unit, source)
        good = valid & in_segment & unit.active()[number]
        taken = lanes_of(value, unit.width)
        chosen = np.where(good.reshape(-1, *(1,) * (value.ndim - 1)), taken[number], taken)
        return chosen, good.astype(BOOL.dtype)

    return execute


@semantics("gpu.subgroup_reduce")
def subgroup_reduce(site: Site) -> Execute:
    """Combine a value over the lanes of each warp; all of them get the result."""
    combine = COMBINE[site.word("op")]
    kind = site.result_kind()
    size, stride = site.integer("cluster_size"), site.integer("cluster_stride") or 1

    def execute(unit: Unit, value: Array) -> Array:
        taken = lanes_of(value, unit.width).copy()
        for warp in whole_warps(unit, site):
            length = size or len(warp)
            # Lanes of a cluster are so many apart: with 4 lanes and a stride of 2, lanes 0, 2, 4, 6.
            clusters = warp.reshape(-1, length, stride if size else 1).swapaxes(1, 2)
            for cluster in clusters.reshape(-1, length):
                total = taken[cluster[0]]
                for lane in cluster[1:]:
                    total = kind.settle(combine(total, taken[lane]))
                taken[cluster] = total
        return taken

    return execute


def whole_block(unit: Unit, site: Site) -> None:
    """What combines values of all threads at once needs them in one unit."""
    if unit.width != unit.launch.block_size:
        raise site.unsupported("it needs the schedule 'lockstep'")


@semantics("gpu.all_reduce")
def all_reduce(site: Site) -> Execute:
    """Combine a value over all threads of the block; they meet like at a barrier."""
    if not site.has("op"):
        raise site.unsupported("reductions given as a region")
    combine = COMBINE[site.word("op")]
    kind = site.result_kind()

    def execute(unit: Unit, value: Array) -> Array:
        whole_block(unit, site)
        unit.launch.barrier(unit, site, ())
        taken = lanes_of(value, unit.width)
        total = taken[0]
        for lane in range(1, unit.width):
            total = kind.settle(combine(total, taken[lane]))
        return np.broadcast_to(total, taken.shape)

    return execute


# Blocks of a cluster: the barrier of all their threads, and addresses in each other's memory.
#
# Variables of workgroup memory lie at the same offset in every block, so an address of one block names
# the same variable in another (PTX ISA, mapa).


@semantics("nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed")
def arrive(site: Site) -> Execute:
    """The active threads arrive at the barrier of the cluster, and go on."""
    is_relaxed, aligned = site.name.endswith("relaxed"), site.has("aligned")

    def execute(unit: Unit) -> None:
        launch, lanes = unit.launch, _lanes(unit, site, aligned)
        threads, warps = launch.in_cluster(unit)[lanes], warps_of(unit, lanes)
        if not launch.cluster_barrier.arrive(threads, warps, is_relaxed):
            unit.report("too-many-arrivals", site, lanes[0], site.number)

    return execute


@semantics("nvvm.cluster.wait")
def wait(site: Site) -> Execute:
    """The active threads stop until all threads of the cluster have arrived: for ever, if they have not."""
    aligned = site.has("aligned")

    def execute(unit: Unit) -> None:
        launch, lanes = unit.launch, _lanes(unit, site, aligned)
        unit.tick()
        meeting, threads = launch.cluster_barrier, launch.in_cluster(unit)[lanes]
        launch.scheduler.block(unit, site, [meeting.barrier], lambda: meeting.is_over(threads))
        meeting.waited(threads, warps_of(unit, lanes))

    return execute


@semantics("nvvm.mapa")
def address_in_block(site: Site) -> Execute:
    """The same place in the workgroup memory of another block of the cluster."""

    def execute(unit: Unit, address: Array, rank: Array) -> Array:
        pairs = np.stack([lanes_of(n, unit.width).astype(np.int64) for n in (address, rank)])
        found = np.zeros(unit.width, np.int64)
        chosen = np.flatnonzero(unit.active())
        for one, block in np.unique(pairs[:, chosen], axis=1).T:
            same = chosen[(pairs[0, chosen] == one) & (pairs[1, chosen] == block)]
            found[same] = place_in_block(unit, site, int(one), int(block), int(same[0]))
        return found

    return execute


def place_in_block(unit: Unit, site: Site, address: int, rank: int, lane: int) -> int:
    """The address in a block of the cluster; where there is none it is reported, and null."""
    found = unit.launch.in_block(address, rank)
    if found is None:
        detail = f"block {rank} of a cluster of {unit.launch.cluster_size}"
        unit.report("out-of-bounds", site, lane, detail=detail)
        return 0
    return int(found)


def each_target(
    unit: Unit, site: Site, mask: int | None, lane: int, barrier: int, place: Array
) -> Iterator[tuple[int, Array]]:
    """Where a copy lands, as (address of its mbarrier, its place): with a `mask` in each block that
    has a bit there, at the same offsets; else where they say."""
    if mask is None or not place.size:
        yield barrier, place
        return
    first = int(place.min())
    for rank in range(16):
        if mask >> rank & 1:
            there = place_in_block(unit, site, first, rank, lane)
            other = place_in_block(unit, site, barrier, rank, lane)
            if there and other:
                yield other, place - first + there


def mask_of(unit: Unit, given: tuple[Any, ...], group: Any, lane: int) -> int | None:
    """The blocks that a copy lands in, None where the op has no mask."""
    return int(lanes_of(given[group[0]], unit.width)[lane]) & 0xFFFF if len(group) else None


def _lanes(unit: Unit, site: Site, aligned: bool) -> Array:
    refuse_in_scope(unit, site)
    if aligned:
        whole_warps(unit, site)
    return np.flatnonzero(unit.active())


# nvgpu: device_async_copy, ldmatrix, mma.sync.


@semantics("nvgpu.device_async_copy")
def async_copy(site: Site) -> Execute:
    """dstElements neighbours from global to workgroup memory; after srcElements, zeros.

    The token that it gives names the group that the next commit makes.
    """
    groups = groups_of(site.op)
    to_index, from_index = groups["destination_indices"], groups["source_indices"]
    source_at, limit_at = groups["source"][0], groups["source_elements"]
    count = site.integer("dstElements", 0) or 0
    queue = site.queue()

    def execute(unit: Unit, *operands: Any) -> Token:
        destination, source = operands[0], operands[source_at]
        limit = operands[limit_at[0]] if len(limit_at) else None
        target = access.locate(unit, site, destination, operands[slice_of(to_index)], (count,))
        origin = _source(unit, site, source, operands[slice_of(from_index)], count, limit)
        valid = None if limit is None else np.clip(limit, 0, count) * source.element_bytes
        issue_copy(unit, site, queue, as_bytes(unit, origin), as_bytes(unit, target), valid)
        return Token(queue.name, lanes_of(unit.marks(queue).count, unit.width).copy())

    return execute


def slice_of(numbers: range) -> slice:
    return slice(numbers.start, numbers.stop)


def as_bytes(unit: Unit, where: ByteSpan) -> ByteSpan:
    flat = where.addresses.reshape(len(where.addresses), -1)
    return byte_span(unit, flat[:, 0], flat.shape[1] * where.item_bytes, where.lanes)


def _source(
    unit: Unit, site: Site, source: MemRef, indices: Any, count: int, limit: Array | None
) -> ByteSpan:
    """Where a copy reads. With srcElements only that many elements need to be in bounds, none
    if it is 0, which is how copies are switched off."""
    if limit is None:
        return access.locate(unit, site, source, indices, (count,))
    reading = lanes_of(limit > 0, unit.width) & unit.active()
    last = np.clip(limit, 1, count) - 1
    checked = (*indices[:-1], indices[-1] + np.where(limit > 0, last, 0))
    good = access.locate(unit, site, source, checked, (), lanes=reading).lanes
    first = source.at(indices)
    assert good is not None
    # Lanes that read nothing stay in the copy: they write zeros.
    staying = good | (unit.active() & ~reading)
    first = np.where(reading, lanes_of(first, unit.width), 0)
    addresses = first[:, None] + np.arange(count) * source.element_bytes
    return access.span(unit, addresses, source.element_bytes, staying)


@semantics("nvgpu.ldmatrix")
def load_matrix(site: Site) -> Execute:
    """8x8 tiles of 16-bit elements: lane l names row l % 8 of tile l / 8 and receives, of each
    tile, elements 2 (l % 4) and the next of row l / 4 (of column l / 4 with transpose).

    Lanes from 8 numTiles on name nothing; 32-bit elements come as rows of 4 without transpose.
    """
    kind = site.result_kind()
    tiles = site.integer("numTiles") or 1
    transpose = "true" in site.text("transpose", "false")
    element = memref_shape(site.operand_type(0), site.op).element
    row_elements = 16 // element.item_bytes
    if transpose and element.item_bytes != 2:
        raise site.unsupported("transpose of elements that are not 16 bits wide")

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        warps, naming = matrix_rows(unit, site, tiles)
        where = access.locate(unit, site, memory, indices, (row_elements,), lanes=naming)
        rows = lanes_of(access.read(unit, site, where, element), unit.width)
        parts = matrix_parts(rows, warps, tiles, transpose)
        result = np.zeros_like(parts, shape=(unit.width, *kind.shape), dtype=kind.dtype)
        result[warps] = parts.reshape(len(warps), 32, *kind.shape)
        return result

    return execute


@semantics("nvgpu.mma.sync")
def mma_sync(site: Site) -> Execute:
    """D = A B + C on fragments; products summed in float32 (f64: float64, integers: int32, which saturate: MLIR makes
    them so, NVGPUToNVVM)."""
    m, n, k = site.integers("mmaShape")
    left, kind = site.operand_kind(0), site.result_kind()
    layouts = fragments.nvidia(m, n, k, left.item_bytes * 8)
    if left.name == "f32":
        left = FACTOR_KINDS["tf32"]
    arithmetic = ProductArithmetic((left, left), kind.dtype, saturates=not kind.is_float)
    return lambda unit, *values: fragment_product(unit, site, layouts, values, kind, arithmetic)


# gpu.subgroup_mma: matrices of a whole wave, of which each lane holds all elements here.
#
# Which lane has which element is not to be seen by a program, so a load is one that every lane makes,
# and a store is made by lane 0. Products are summed in float32, integers in int32.


@semantics("gpu.subgroup_mma_load_matrix")
def load_wave_matrix(site: Site) -> Execute:
    """Rows, or with `transpose` columns, `leadDimension` elements apart."""
    kind = site.result_kind()
    place = _wave_places(site, kind)

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        whole_warps(unit, site)
        where = access.span(unit, place(memory, indices), memory.element_bytes, unit.mask)
        return access.read(unit, site, where, kind.element)

    return execute


@semantics("gpu.subgroup_mma_store_matrix")
def store_wave_matrix(site: Site) -> Execute:
    """The same places, written by the first lane of each wave."""
    kind = site.operand_kind()
    place = _wave_places(site, kind)

    def execute(unit: Unit, value: Array, memory: MemRef, *indices: Array) -> None:
        first = unit.mask_of(whole_warps(unit, site)[:, 0])
        addresses = lanes_of(place(memory, indices), unit.width)
        where = access.span(unit, addresses, memory.element_bytes, first)
        access.write(unit, site, where, value, kind.element)

    return execute


def _wave_places(site: Site, kind: Kind) -> Any:
    """A function that gives the byte address of each element of the matrix."""
    lead = site.integer("leadDimension") or 0
    rows, columns = (np.arange(size) for size in kind.shape)
    steps = rows[:, None] * lead + columns
    if site.has("transpose"):
        steps = columns * lead + rows[:, None]
    return lambda memory, indices: memory.at(indices)[:, None, None] + steps * memory.element_bytes


@semantics("gpu.subgroup_mma_constant_matrix")
def constant_matrix(site: Site) -> Execute:
    kind = site.result_kind()
    return lambda unit, value: np.broadcast_to(value[:, None, None], (len(value), *kind.shape))


@semantics("gpu.subgroup_mma_compute")
def multiply_wave_matrices(site: Site) -> Execute:
    if site.has("a_transpose") or site.has("b_transpose"):
        raise site.unsupported("of transposed operands")
    kind, arithmetic = site.result_kind(), arithmetic_of(site)

    def execute(unit: Unit, left: Array, right: Array, start: Array) -> Array:
        whole_warps(unit, site)
        return kind.settle(arithmetic.add(start, arithmetic.multiply(left, right)))

    return execute
