"""memref atomics: read, combine, write in one step, lane after lane."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.lane_values import MemRef, lanes_of
from mlir_async_pipe.machine.memref_types import memref_shape
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray


@semantics("memref.atomic_rmw")
def atomic(site: Site) -> Execute:
    """Read, combine, write in one step, lane after lane; gives the old value."""
    kind = memref_shape(site.operand_type(1), site.op).element
    # The numbers behind the attribute differ between versions of MLIR, its words do not.
    combine = ATOMIC_KINDS[str(site.op).split("memref.atomic_rmw")[1].split()[0]]

    def execute(unit: Unit, value: Array, memory: MemRef, *indices: Array) -> Array:
        where = access.locate(unit, site, memory, indices)
        return atomic_update(unit, site, where, kind, lambda lane, old: combine(old, lane(value)))

    return execute


def _as_unsigned(function: Any) -> Any:
    from mlir_async_pipe.machine.kinds import unsigned

    return lambda a, b: function(unsigned(a), unsigned(b)).view(a.dtype)


ATOMIC_KINDS: dict[str, Any] = {
    "addf": np.add, "addi": np.add, "mulf": np.multiply, "muli": np.multiply,
    "assign": lambda old, new: new, "andi": np.bitwise_and, "ori": np.bitwise_or,
    "xori": np.bitwise_xor, "maximumf": np.maximum, "minimumf": np.minimum,
    "maxnumf": np.fmax, "minnumf": np.fmin, "maxs": np.maximum, "mins": np.minimum,
    "maxu": _as_unsigned(np.maximum), "minu": _as_unsigned(np.minimum),
}  # fmt: skip


def atomic_update(unit: Unit, site: Site, where: Any, kind: Any, change: Any) -> Array:
    """Apply `change(lane, old)` to one element for each lane in turn; returns old values.

    `lane(value)` gives a value's entry of the running lane.
    """
    access.update(unit, site, where)
    memory = unit.launch.memory
    lanes, _, addresses = where.rows(unit)
    before = np.zeros((unit.width, *addresses.shape[1:]), kind.dtype)
    for row, number in enumerate(lanes):
        old = memory.load(addresses[row : row + 1], kind)
        before[number] = old[0]

        def lane(value: Array, number: int = number) -> Array:
            return lanes_of(value, unit.width)[number : number + 1]

        if unit.deferred is None or not unit.deferred.recording:
            memory.store(addresses[row : row + 1], kind.settle(change(lane, old)), kind)
    return before


@semantics("memref.generic_atomic_rmw")
def generic_atomic(site: Site) -> Execute:
    """An atomic whose region computes the new value."""
    kind = memref_shape(site.operand_type(0), site.op).element
    region = site.region()

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        where = access.locate(unit, site, memory, indices)
        access.update(unit, site, where)
        lanes, _, addresses = where.rows(unit)
        before = np.zeros(unit.width, kind.dtype)
        for row, number in enumerate(lanes):
            old = unit.launch.memory.load(addresses[row : row + 1], kind)
            before[number] = old[0]
            only = np.arange(unit.width) == number
            (new,) = unit.under(only, region, (old,))
            value = lanes_of(new, unit.width)[number : number + 1]
            unit.launch.memory.store(addresses[row : row + 1], value, kind)
        return before

    return execute
