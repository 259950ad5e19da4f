"""memref atomics: read, combine, write in one step, lane after lane; and fences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.access import Span
from mlir_async_pipe.machine.clocked_detector import ClockedDetector
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.arith import on_unsigned
from mlir_async_pipe.machine.dialects.async_ops import refuse_in_scope
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import Kind
from mlir_async_pipe.machine.lane_values import MemRef, lanes_of
from mlir_async_pipe.machine.memref_types import memref_shape
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.vocabulary.barriers import FENCE_ROWS
from mlir_async_pipe.vocabulary.rows import Fence

Array = np.ndarray


@semantics("memref.atomic_rmw")
def atomic(site: Site) -> Execute:
    """Read, combine, write in one step, lane after lane; gives the old value."""
    kind = memref_shape(site.operand_type(1), site.op).element
    # The numbers behind the attribute differ between versions of MLIR, its words do not.
    combine = ATOMIC_KINDS[str(site.op).split("memref.atomic_rmw")[1].split()[0]]

    def execute(unit: Unit, value: Array, memory: MemRef, *indices: Array) -> Array:
        where = access.locate(unit, site, memory, indices)
        return atomic_update(unit, site, where, kind, combining(unit, combine, value))

    return execute


ATOMIC_KINDS: dict[str, Any] = {
    "addf": np.add, "addi": np.add, "mulf": np.multiply, "muli": np.multiply,
    "assign": lambda old, new: new, "andi": np.bitwise_and, "ori": np.bitwise_or,
    "xori": np.bitwise_xor, "maximumf": np.maximum, "minimumf": np.minimum,
    "maxnumf": np.fmax, "minnumf": np.fmin, "maxs": np.maximum, "mins": np.minimum,
    "maxu": on_unsigned(np.maximum), "minu": on_unsigned(np.minimum),
}  # fmt: skip


def atomic_update(
    unit: Unit, site: Site, where: Span, kind: Kind, change: Callable[[int, Array], Array]
) -> Array:
    """Apply `change(lane, old)` to one element for each lane in turn; returns old values."""
    access.update(unit, site, where)
    memory = unit.launch.memory
    lanes, _, addresses = where.rows(unit)
    before = np.zeros((unit.width, *addresses.shape[1:]), kind.dtype)
    for row, number in enumerate(lanes):
        old = memory.load(addresses[row : row + 1], kind)
        before[number] = old[0]
        if unit.deferred is None or not unit.deferred.recording:
            new = kind.settle(change(number, old))
            # What does not change memory lets nobody go on who waits for a change.
            if kind.encode(new).tobytes() != kind.encode(old).tobytes():
                memory.store(addresses[row : row + 1], new, kind)
    return before


def combining(unit: Unit, combine: Any, value: Array) -> Callable[[int, Array], Array]:
    """A change that combines the old value with the lane's own."""
    return lambda lane, old: combine(old, own(unit, value, lane))


def own(unit: Unit, value: Array, lane: int) -> Array:
    """A value's entry of one lane."""
    return lanes_of(value, unit.width)[lane : lane + 1]


@semantics("memref.generic_atomic_rmw")
def generic_atomic(site: Site) -> Execute:
    """An atomic whose region computes the new value."""
    kind = memref_shape(site.operand_type(0), site.op).element
    region = site.region()

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        def change(lane: int, old: Array) -> Array:
            (new,) = unit.under(np.arange(unit.width) == lane, region, (old,))
            return own(unit, new, lane)

        where = access.locate(unit, site, memory, indices)
        return atomic_update(unit, site, where, kind, change)

    return execute


@semantics(*(row.op for row in FENCE_ROWS if row.fence == Fence()))
def fence(site: Site) -> Execute:
    """Orders what its threads do in memory, and changes nothing."""

    def execute(unit: Unit, *operands: Array) -> None:
        refuse_in_scope(unit, site)
        detector = unit.launch.detector
        if isinstance(detector, ClockedDetector):
            detector.fence_order(site.number, unit.launch.grid_threads(unit.threads[unit.active()]))

    return execute
