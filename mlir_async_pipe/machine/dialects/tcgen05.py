"""nvvm.tcgen05: columns of tensor memory, loads and stores of it, and its fences.

`vocabulary.tensor_memory` has their rows, `machine.tensor_cells` the cells and who may touch them.

| shape of ld, st | registers r of lane t, for each repetition of so many columns                 |
|-----------------|-------------------------------------------------------------------------------|
| 32x32b          | 1: lane t, column r                                                           |
| 16x128b         | 4: lane t / 4 + 8 r, column t mod 4                                            |
| 16x256b         | 8: lane t / 4 + 8 (r / 2), column 2 (t mod 4) + r mod 2                        |
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import numpy as np

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.barrier_phases import Commit, StuckError
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.async_ops import refuse_in_scope
from mlir_async_pipe.machine.dialects.async_ops import start as put_in_flight
from mlir_async_pipe.machine.dialects.gpu import whole_warps
from mlir_async_pipe.machine.dialects.mbarriers import MbarrierOperands, check_ready, warps_of
from mlir_async_pipe.machine.dialects.warpgroup import operand_addresses
from mlir_async_pipe.machine.fifos import AsyncOp, Footprint
from mlir_async_pipe.machine.fragments import ProductArithmetic
from mlir_async_pipe.machine.kinds import FACTOR_KINDS, Kind, stored_kind
from mlir_async_pipe.machine.lane_values import Array, lanes_of
from mlir_async_pipe.machine.tensor_cells import TensorAccess, TensorMemory
from mlir_async_pipe.machine.terms import contiguous
from mlir_async_pipe.vocabulary import groups_of
from mlir_async_pipe.vocabulary.rows import TENSOR_LOADS, TENSOR_STORES
from mlir_async_pipe.vocabulary.tensor_memory import (
    CELL_BYTES,
    COLUMNS,
    LANES,
    LANES_OF_WARP,
    SMALLEST_ALLOCATION,
    ProductShape,
    fence_side,
    is_of_two_blocks,
    product_kind,
    product_shape,
    waits_for,
)

I32 = stored_kind(np.int32, "i32")
_HALF = 16
_QUEUES = {"load": TENSOR_LOADS, "store": TENSOR_STORES}
# Columns of a repetition, and its registers in each lane.
_SHAPES = {"32x32b": (1, 1), "16x128b": (4, 2), "16x256b": (8, 4)}


def tensor_address(lane: int, column: int) -> int:
    return lane << 16 | column


# Columns ----------------------------------------------------------------------------------


@semantics("nvvm.tcgen05.alloc")
def allocate(site: Site) -> Execute:
    """Each whole warp takes columns; its first lane writes where they begin."""
    one_block(site)

    def execute(unit: Unit, result: Array, columns: Array) -> None:
        refuse_in_scope(unit, site)
        tensor: TensorMemory = unit.launch.tensor_memory
        for lanes in whole_warps(unit, site):
            count = int(lanes_of(columns, unit.width)[lanes[0]])
            if count & (count - 1) or not SMALLEST_ALLOCATION <= count <= COLUMNS:
                raise site.unsupported(f"{count} columns are no power of two from 32 to 512")
            first = tensor.place_for(count)
            if first is None or not tensor.permit:
                unit.report("no-columns", site, lanes[0])
                raise StuckError
            tensor.allocate(first, count, site.number)
            writing = unit.mask_of(lanes[0])
            where = access.span(unit, access.within_memory(unit, result, 4), 4, writing)
            access.write(unit, site, where, np.array([tensor_address(0, first)], np.int32), I32)

    return execute


@semantics("nvvm.tcgen05.relinquish_alloc_permit")
def relinquish(site: Site) -> Execute:
    """No warp of the block allocates after it."""
    one_block(site)

    def execute(unit: Unit) -> None:
        unit.launch.tensor_memory.permit = False

    return execute


@semantics("nvvm.tcgen05.dealloc")
def deallocate(site: Site) -> Execute:
    """Each whole warp gives columns back; nothing may be in flight there."""
    one_block(site)

    def execute(unit: Unit, address: Array, columns: Array) -> None:
        tensor: TensorMemory = unit.launch.tensor_memory
        for lanes in whole_warps(unit, site):
            first = int(lanes_of(address, unit.width)[lanes[0]]) % COLUMNS
            count = int(lanes_of(columns, unit.width)[lanes[0]])
            thread = int(unit.grid_threads(lanes)[0])
            tensor.check_idle(site.number, thread, np.arange(first, min(first + count, COLUMNS)))
            if not tensor.release(first, count):
                unit.report("out-of-bounds", site, lanes[0])

    return execute


# Loads, stores and fences -------------------------------------------------------------------


class _Fragment:
    """How the registers of a load or store lie in the lanes and columns of a warp."""

    def __init__(self, site: Site, kind: Kind) -> None:
        text = site.text("shape")
        name = next((name for name in _SHAPES if name in text.lower()), "")
        if not name or site.has("pack") or site.has("unpack"):
            raise site.unsupported("it runs as 32x32b, 16x128b and 16x256b, without packing")
        self.registers = int(np.prod(kind.shape, dtype=np.int64))
        self.kind = kind
        columns, each = _SHAPES[name]
        self.lanes = LANES_OF_WARP if name == "32x32b" else _HALF
        self.columns = self.registers // each * columns
        thread, register = np.indices((LANES_OF_WARP, self.registers))
        repetition, r = register // each, register % each
        if name == "32x32b":
            self.lane, self.column = thread, register
        elif name == "16x128b":
            self.lane, self.column = thread // 4 + 8 * r, thread % 4 + 4 * repetition
        else:
            self.lane = thread // 4 + 8 * (r // 2)
            self.column = 2 * (thread % 4) + r % 2 + 8 * repetition

    def cells(self, address: int) -> tuple[Array, Array]:
        """Lane and column of each register of each thread."""
        return (address >> 16) + self.lane, address % 65536 + self.column


def _issue(unit: Unit, site: Site, fragment: _Fragment, address: Array, writes: bool) -> Array:
    """Enter the access of each whole warp; returns the warps' lanes that may go on."""
    tensor: TensorMemory = unit.launch.tensor_memory
    allowed = []
    for lanes in whole_warps(unit, site):
        first = int(lanes_of(address, unit.width)[lanes[0]])
        warp = int(unit.threads[lanes[0]]) // unit.warp
        own = LANES_OF_WARP * (warp % 4)
        base, column = first >> 16, first % 65536
        if not own <= base <= own + LANES_OF_WARP - fragment.lanes or base % _HALF:
            unit.report("wrong-lanes", site, lanes[0])
            continue
        if column + fragment.columns > COLUMNS:
            unit.report("out-of-bounds", site, lanes[0])
            continue
        rows, columns = base + np.arange(fragment.lanes), column + np.arange(fragment.columns)
        thread = int(unit.grid_threads(lanes)[0])
        tensor.issue(site.number, thread, warp, (rows, columns), reads=not writes, writes=writes)
        allowed.append(lanes)
    return np.array(allowed, np.int64).reshape(-1, LANES_OF_WARP)


def _start(unit: Unit, site: Site, warps: Array, which: str, move: Any, **more: Any) -> None:
    """Issue the transfers of the registers of whole warps: all of it happens when they land."""
    active, queue = unit.mask_of(warps), _QUEUES[which]
    if not len(warps):
        return

    def write(chosen: Array) -> None:
        for lanes in warps:
            mine = lanes[chosen[lanes]]
            if len(mine):
                move(mine, mine - lanes[0])

    put_in_flight(unit, site, queue, active, [], [], lambda chosen: None, write, **more)
    unit.queues.commit(queue, active, unit.marks(queue))


@semantics("nvvm.tcgen05.ld")
def load(site: Site) -> Execute:
    """Registers that are there after the wait."""
    kind = site.result_kind()
    fragment = _Fragment(site, kind)

    def execute(unit: Unit, address: Array, *offset: Array) -> Array:
        refuse_in_scope(unit, site)
        result = unit.launch.memory.zeros((unit.width, fragment.registers), np.int32)
        result[...] = -1
        warps = _issue(unit, site, fragment, address, False)
        data, addresses = unit.launch.tensor_memory.data, lanes_of(address, unit.width)

        def move(lanes: Array, threads: Array) -> None:
            rows, columns = fragment.cells(int(addresses[lanes[0]]))
            result[lanes] = data[rows[threads], columns[threads]].view(np.int32)

        _start(unit, site, warps, "load", move, registers=result)
        return result if kind.shape else result[:, 0]

    return execute


@semantics("nvvm.tcgen05.st")
def store(site: Site) -> Execute:
    """Registers into cells, which are there after the wait."""
    kind = site.operand_kind(1)
    fragment = _Fragment(site, kind)

    def execute(unit: Unit, address: Array, value: Array, *offset: Array) -> None:
        refuse_in_scope(unit, site)
        warps = _issue(unit, site, fragment, address, True)
        data, addresses = unit.launch.tensor_memory.data, lanes_of(address, unit.width)
        values = lanes_of(value, unit.width).reshape(unit.width, -1).astype(np.int32)

        def move(lanes: Array, threads: Array) -> None:
            rows, columns = fragment.cells(int(addresses[lanes[0]]))
            data[rows[threads], columns[threads]] = values[lanes].view(np.uint32)

        _start(unit, site, warps, "store", move)

    return execute


@semantics("nvvm.tcgen05.wait")
def wait(site: Site) -> Execute:
    """All loads, or all stores, of the active warps are over."""
    which = waits_for(site.op)
    assert which is not None

    def execute(unit: Unit) -> None:
        active, queue = unit.active(), _QUEUES[which]
        unit.queues.wait(queue, active, np.zeros(unit.width, np.int64), unit.marks(queue))
        tensor: TensorMemory = unit.launch.tensor_memory
        for warp in warps_of(unit, np.flatnonzero(active)):
            for made in tensor.own_access(int(warp), which == "store"):
                tensor.complete(made)

    return execute


@semantics("nvvm.tcgen05.fence")
def fence(site: Site) -> Execute:
    """What a warp tells others, or knows from them, covers its tensor ops."""
    side = fence_side(site.op)

    def execute(unit: Unit) -> None:
        tensor: TensorMemory = unit.launch.tensor_memory
        warps = map(int, warps_of(unit, np.flatnonzero(unit.active())))
        (tensor.fence_before if side == "before" else tensor.fence_after)(warps)

    return execute


# nvvm.tcgen05: products into tensor memory, which one thread issues and a commit completes.
#
# `vocabulary.tensor_memory` has their rows, `machine.tensor_cells` the cells and who may touch them. D of
# 128 rows has row i in lane i; D of 64 rows has 16 rows in the first half of each warp's lanes (PTX ISA,
# data path layouts D and F). A in tensor memory lies as D, its elements packed into columns.


def one_block(site: Site) -> None:
    """Refuse what two blocks of a cluster do together."""
    if is_of_two_blocks(site.op):
        raise site.unsupported("it runs in one block, not in two of a cluster")


@semantics("nvvm.tcgen05.mma")
def product(site: Site) -> Execute:
    """D = A B + D, or A B, once for each lane that issues it; over when a commit says so."""
    one_block(site)
    groups = groups_of(site.op)
    if site.has("aShift") or any(len(groups[name]) for name in ("scale", "disabled_lanes")):
        raise site.unsupported("it runs without shifted A, scaled D and lanes that are left out")
    kind = product_kind(site.op)
    in_tensor = "ptr" in str(site.operand_type(1))

    def execute(unit: Unit, *given: Array) -> None:
        refuse_in_scope(unit, site)
        for lane in map(int, np.flatnonzero(unit.active())):
            d, a, b, instruction, adds = (int(lanes_of(v, unit.width)[lane]) for v in given[:5])
            shape = product_shape(kind, instruction)
            if shape is None or shape.sparse or shape.sums != "f32":
                raise site.unsupported(f"it runs into f32, not '{kind}' with {instruction:#x}")
            if shape.m not in (64, LANES) or not 8 <= shape.n <= 256 or shape.n % 8:
                raise site.unsupported(f"{shape.m} rows and {shape.n} columns are no product")
            if not set(shape.types) <= FACTOR_KINDS.keys():
                raise site.unsupported(f"operands of {shape.types}")
            sign = -1 if shape.negated[0] != shape.negated[1] else 1
            kinds = FACTOR_KINDS[shape.types[0]], FACTOR_KINDS[shape.types[1]]
            arithmetic = ProductArithmetic(kinds, np.dtype(np.float32), sign)
            _issue_product(unit, site, lane, shape, arithmetic, (d, a, b), bool(adds), in_tensor)

    return execute


def _issue_product(
    unit: Unit,
    site: Site,
    lane: int,
    shape: ProductShape,
    arithmetic: ProductArithmetic,
    places: tuple[int, int, int],
    adds: bool,
    in_tensor: bool,
) -> None:
    """Put a product of one lane in flight: D and perhaps A are cells, the rest is workgroup memory."""
    (d, a, b), (m, n, k), kinds = places, (shape.m, shape.n, shape.k), arithmetic.kinds
    tensor: TensorMemory = unit.launch.tensor_memory
    thread, warp = int(unit.grid_threads([lane])[0]), int(unit.threads[lane]) // unit.warp
    core = tensor.core_of(thread, warp)
    accumulator = (d, m, n, shape.types, shape.sums)
    row = np.arange(m)
    lanes = (d >> 16) + (row if m == LANES else row // _HALF * LANES_OF_WARP + row % _HALF)

    def touch(columns: Array, *, reads: bool, writes: bool) -> TensorAccess:
        if lanes.max() >= LANES or columns.max() >= COLUMNS:
            raise site.unsupported("a product outside of tensor memory")
        cells, how = (lanes, columns), {"reads": reads, "writes": writes}
        return tensor.issue(
            site.number, thread, warp, cells, core=core, accumulator=accumulator, **how
        )

    def factor(descriptor: int, side: int) -> Array:
        """The byte address of each element of A or B, as (M or N, K)."""
        if descriptor >> 61 & 1:
            raise site.unsupported("a swizzle of 32 bytes at once")
        size, rows = kinds[side].item_bytes, n if side else m
        return operand_addresses(unit, site, descriptor, (rows, k), shape.by_k[side], size)

    touched = [touch(d % 65536 + np.arange(n), reads=adds, writes=True)]
    target, sources = touched[0].cells, []
    if in_tensor:
        columns = a % 65536 + np.arange(k // (CELL_BYTES // kinds[0].item_bytes))
        touched.append(touch(columns, reads=True, writes=False))
    else:
        sources.append(factor(a, 0))
    sources.append(factor(b, 1))
    granules = unit.launch.detector.granules
    reads = [
        Footprint(np.array([0]), np.array([thread]), granules(at[None], kind.item_bytes))
        for at, kind in zip(sources, kinds[-len(sources) :], strict=True)
    ]
    memory, data = unit.launch.memory, tensor.data
    result = memory.zeros((m, n), np.float32)

    def sample(chosen: Array) -> None:
        if in_tensor:
            left = kinds[0].decode(contiguous(data[touched[1].cells]).view(kinds[0].stored))
        else:
            left = memory.load(sources[0], kinds[0])
        result[:] = arithmetic.multiply(left, memory.load(sources[-1], kinds[1]).T)

    def write(chosen: Array) -> None:
        # Products of one thread are executed in order.
        for earlier in takewhile(lambda one: one is not operation, core.operations):
            earlier.move(earlier.lanes)
        before = data[target].view(np.float32) if adds else np.float32(0)
        data[target] = contiguous(before + result, np.float32).view(np.uint32)

    def over() -> None:
        for each in touched:
            tensor.complete(each)

    more: dict[str, Any] = {
        "agent": core.agent,
        "tick": core.tick,
        "is_proxy": True,
        "by_core": True,
    }
    one = np.ones(1, np.bool_)
    operation = AsyncOp(site.number, None, one, reads, [], sample, write, over=over, **more)
    core.operations = [op for op in core.operations if not op.covered.all()] + [operation]
    unit.launch.mbarriers.issue(operation)


@semantics("nvvm.tcgen05.commit")
def commit(site: Site) -> Execute:
    """One arrival for each lane, when all that the lane's thread has issued is over."""
    one_block(site)
    operands = MbarrierOperands(site)
    if len(site.op.operands) > 1:
        raise site.unsupported("arrivals in the blocks of a cluster")

    def execute(unit: Unit, *given: Array) -> None:
        refuse_in_scope(unit, site)
        launch = unit.launch
        addresses = operands.addresses(unit, given)
        for lane in map(int, np.flatnonzero(unit.active())):
            barrier = check_ready(unit, site, int(addresses[lane]), lane)
            if barrier is None:
                continue
            thread = int(unit.grid_threads([lane])[0])
            warp = int(unit.threads[lane]) // launch.options.warp
            core = launch.tensor_memory.core_of(thread, warp)
            covered = [op for op in core.operations if not op.covered.all()]
            released = launch.tensor_memory.release_flag(core)
            made = Commit(barrier, covered, released, site.number, thread)
            launch.mbarriers.commit(made, np.array([warp]))

    return execute


_REFUSED = "mma.sp mma.ws mma.ws.sp mma.block_scale mma.sp.block_scale cp shift ld.red"


@semantics(*(f"nvvm.tcgen05.{name}" for name in _REFUSED.split()))
def refused(site: Site) -> Execute:
    """Refused: sparse, scaled and weight-stationary products, and copies, which serve scales."""
    raise site.unsupported(
        f"of tensor memory it runs dense products, loads and stores, no {site.name}"
    )
