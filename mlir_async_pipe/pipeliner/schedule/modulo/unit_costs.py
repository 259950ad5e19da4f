"""What the units of a loop cost under a cost model: cycles of the thread, turns on queues.

Trip counts of inner loops multiply what is inside; a loop whose count is not known counts once,
and of a branch the dearer side counts. Cycles that stand on an op come before the model's
(`machine.costs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, operations, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.cost_model import (
    CostModel,
    given_cycles,
    kind_of_op,
    own_cycles,
)
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.loops.statements import is_synchronisation
from mlir_async_pipe.pipeliner.plan.statement_places import SCOPE, physical_copy
from mlir_async_pipe.pipeliner.plan.units import Unit
from mlir_async_pipe.vocabulary import Access, accesses, row_of
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS
from mlir_async_pipe.vocabulary.memory_layout import element_bytes


@dataclass(frozen=True)
class CopyCost:
    """One copy: its queue, the cycles of its turn there and from then to its arrival, and those
    for which issuing it holds the thread."""

    queue: str
    occupancy: float
    latency: float
    held: float


class UnitCosts:
    """Costs of ops and units of one loop; every op is read once."""

    def __init__(self, model: CostModel, target: Target | None) -> None:
        self._model = model
        self._target = target
        self._held: dict[Operation, float] = {}
        self._copies: dict[tuple[Operation, ...], tuple[CopyCost, ...]] = {}

    def queue(self, name: str) -> str:
        """The name of the FIFO of a group: the chip's where a target is given."""
        physical = None if self._target is None else self._target.chip.copy_queue
        return name if physical is None else physical.name

    def held(self, unit: Unit) -> float:
        """Cycles for which a unit holds the thread, issuing copies not included."""
        return 0 if unit.asynchronous else sum(self.held_by(op) for op in unit.ops)

    def held_by(self, op: Operation) -> float:
        """Cycles for which a synchronous top-level op holds the thread."""
        if op not in self._held:
            self._held[op] = _held(op, self._model)
        return self._held[op]

    def copies(self, unit: Unit) -> tuple[CopyCost, ...]:
        """The copies that a unit issues, () if it is synchronous."""
        if not unit.asynchronous:
            return ()
        if unit.ops not in self._copies:
            self._copies[unit.ops] = self.copies_of(unit.ops, f"queue {unit.stage}")
        return self._copies[unit.ops]

    def copies_of(self, ops: tuple[Operation, ...], queue: str) -> tuple[CopyCost, ...]:
        """The copies of an asynchronous statement, or of several that become one scope on the
        abstract queue `queue`."""
        physical = [copy for op in ops if physical_copy(op) is not None for copy in _issued(op)]
        if physical:
            return tuple(self._physical(op) for op in physical)
        name = self.queue(queue)
        given = [given_cycles(op) for op in ops]
        known = [cycles for cycles in given if cycles is not None]
        latency = self._model.arrival(name, sum(known) if known else None)
        size = sum(_bytes(a) for op in ops for i in walk(op) for a in accesses(i) if a.writes)
        held = self._model.ops.get(SCOPE, 0)
        return (CopyCost(name, self._model.occupancy(name, size), latency, held),)

    def _physical(self, op: Operation) -> CopyCost:
        row = row_of(op)
        assert row.queue is not None
        name = self.queue(row.queue if isinstance(row.queue, str) else row.queue.name)
        size = sum(_bytes(access) for access in accesses(op) if access.writes)
        return CopyCost(
            name,
            self._model.occupancy(name, size),
            self._model.arrival(name, own_cycles(op)),
            self._model.ops.get(op.name, 0),
        )


def _issued(op: Operation) -> list[Operation]:
    """The physical copies in a statement."""
    found = []
    for inner in walk(op) if len(op.regions) else (op,):
        row = row_of(inner)
        if not len(inner.regions) and row.asynchronous(inner):
            found.append(inner)
    return found


def _held(op: Operation, model: CostModel) -> float:
    if is_synchronisation(op):
        row = row_of(op)
        return model.barrier if row.barrier is not None else 0
    inside = [
        sum(_held(inner, model) for block in region.blocks for inner in operations(block))
        for region in op.regions
    ]
    return model.held(op.name, kind_of_op(op), own_cycles(op)) + _times(op) * _dearest(op, inside)


def _dearest(op: Operation, inside: list[float]) -> float:
    if op.name in REGION_ROWS and REGION_ROWS[op.name].flow == "branch":
        return max(inside, default=0)
    return sum(inside)


def _times(op: Operation) -> int:
    trips = static_trip_count(op) if op.name == "scf.for" else None
    return 1 if trips is None else trips


def _bytes(access: Access) -> int:
    """Bytes of one access of one thread; 0 where the op does not say."""
    try:
        kind = ir.MemRefType(access.memory.type)
    except ValueError:
        return 0 if access.extent is None else prod(access.extent)
    return 0 if access.extent is None else prod(access.extent) * element_bytes(kind)
