"""nvvm.tcgen05: columns of tensor memory, loads and stores of it, and its fences.

`vocabulary.tensor_memory` has their rows, `machine.tensor_cells` the cells and who may touch them.

| shape of ld, st | registers r of lane t, for each repetition of so many columns                 |
|-----------------|-------------------------------------------------------------------------------|
| 32x32b          | 1: lane t, column r                                                           |
| 16x128b         | 4: lane t / 4 + 8 r, column t mod 4                                            |
| 16x256b         | 8: lane t / 4 + 8 (r / 2), column 2 (t mod 4) + r mod 2                        |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.barrier_phases import StuckError
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.async_ops import refuse_in_scope
from mlir_async_pipe.machine.dialects.async_ops import start as put_in_flight
from mlir_async_pipe.machine.dialects.gpu import whole_warps
from mlir_async_pipe.machine.dialects.mbarriers import warps_of
from mlir_async_pipe.machine.dialects.tensor_products import one_block
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import Kind
from mlir_async_pipe.machine.lane_values import lanes_of
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.machine.tensor_cells import TensorAccess, TensorMemory
from mlir_async_pipe.vocabulary.rows import TENSOR_LOADS, TENSOR_STORES
from mlir_async_pipe.vocabulary.tensor_memory import (
    COLUMNS,
    LANES_OF_WARP,
    SMALLEST_ALLOCATION,
    fence_side,
    waits_for,
)

Array = np.ndarray

I32 = Kind("i32", np.dtype(np.int32), np.dtype(np.int32))
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
                thread = int(unit.launch.grid_threads(unit.threads[lanes[:1]])[0])
                unit.launch.detector.report("no-columns", site.number, thread=thread)
                raise StuckError
            tensor.allocate(first, count, site.number)
            writing = np.zeros(unit.width, np.bool_)
            writing[lanes[0]] = True
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
            thread = int(unit.launch.grid_threads(unit.threads[lanes[:1]])[0])
            tensor.check_idle(site.number, thread, np.arange(first, min(first + count, COLUMNS)))
            if not tensor.release(first, count):
                unit.launch.detector.report("out-of-bounds", site.number, thread=thread)

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
        warp = int(unit.threads[lanes[0]]) // unit.launch.options.warp
        thread = int(unit.launch.grid_threads(unit.threads[lanes[:1]])[0])
        own = LANES_OF_WARP * (warp % 4)
        base, column = first >> 16, first % 65536
        if not own <= base <= own + LANES_OF_WARP - fragment.lanes or base % _HALF:
            unit.launch.detector.report("wrong-lanes", site.number, thread=thread)
            continue
        if column + fragment.columns > COLUMNS:
            unit.launch.detector.report("out-of-bounds", site.number, thread=thread)
            continue
        rows, columns = base + np.arange(fragment.lanes), column + np.arange(fragment.columns)
        made = TensorAccess(
            site.number,
            thread,
            warp,
            tensor.own[warp],
            tensor.own_ticks[warp],
            rows,
            columns,
            not writes,
            writes,
            False,
        )
        tensor.issue(made)
        allowed.append(lanes)
    return np.array(allowed, np.int64).reshape(-1, LANES_OF_WARP)


def _start(unit: Unit, site: Site, warps: Array, which: str, move: Any, **more: Any) -> None:
    """Put the registers of whole warps on their way."""
    active = np.zeros(unit.width, np.bool_)
    active[warps.reshape(-1)] = True
    queue = _QUEUES[which]

    def sample(chosen: Array) -> None:
        """Everything happens when it lands."""

    def write(chosen: Array) -> None:
        for lanes in warps:
            mine = lanes[chosen[lanes]]
            if len(mine):
                move(mine, mine - lanes[0])

    put_in_flight(unit, site, queue, active, [], [], [], [], sample, write, **more)
    unit.queues.commit(queue, active, unit.marks(queue))


@semantics("nvvm.tcgen05.ld")
def load(site: Site) -> Execute:
    """Registers that are there after the wait."""
    kind = site.result_kind()
    fragment = _Fragment(site, kind)

    def execute(unit: Unit, address: Array, *offset: Array) -> Array:
        refuse_in_scope(unit, site)
        result = np.full((unit.width, fragment.registers), -1, np.int32)
        warps = _issue(unit, site, fragment, address, False)
        data, addresses = unit.launch.tensor_memory.data, lanes_of(address, unit.width)

        def move(lanes: Array, threads: Array) -> None:
            rows, columns = fragment.cells(int(addresses[lanes[0]]))
            result[lanes] = data[rows[threads], columns[threads]].view(np.int32)

        if len(warps):
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

        if len(warps):
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
