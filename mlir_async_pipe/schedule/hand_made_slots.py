"""Buffers whose slots a loop counts itself: recognised, and reduced to one slot.

    %s = arith.remui %i, %c2                       (gone)
    copy %A[%i] -> %b[%s, %t]                      copy %A[%i] -> %b[%t]
    wait, barrier                          -->     wait, barrier
    use %b[%s, %u]                                 use %b[%u]
                                                   barrier

What all accesses of an iteration have as their leading subscript is a slot if it moves with the
iteration and is the same in all threads, however it is computed. If every iteration overwrites
what it reads, nothing depends on which slot that is, and one is enough; the pipeliner gives it
as many versions as its schedule needs. The barrier at the end is what a second slot had made
unnecessary: without it the copy of the next iteration would overwrite what is still being read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    before,
    operations,
    walk,
)
from mlir_async_pipe.dependence.distance import LoopIndex
from mlir_async_pipe.dependence.privatise import unproven_read
from mlir_async_pipe.dependence.regions import Region, regions_of
from mlir_async_pipe.dependence.surroundings import Surroundings
from mlir_async_pipe.loops.statements import Body
from mlir_async_pipe.loops.trip_count import static_trip_count
from mlir_async_pipe.plan.free_slots import moves
from mlir_async_pipe.schedule.one_slot import can_lose_slot, lose_slot
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.values.linear import Arithmetic, Linear
from mlir_async_pipe.values.memory_roots import Root, root_of
from mlir_async_pipe.values.sums import ZERO
from mlir_async_pipe.values.uniformity import Uniformity
from mlir_async_pipe.vocabulary import accesses, is_barrier, row_of
from mlir_async_pipe.vocabulary.barriers import write_fence


@dataclass(frozen=True)
class HandMadeSlots:
    """A buffer of a loop with `slots` slots of the author's."""

    loop: Operation
    root: Root
    slots: int


# Tiles have more rows than pipelines have slots: most loops need no closer look.
MOST_SLOTS = 16


def hand_made_slots(body: Body, last_stage: int, around: Surroundings) -> list[HandMadeSlots]:
    """The buffers of a loop whose slots it counts itself, none if it is too short for a
    schedule up to `last_stage` and so stays as it is."""
    trips = static_trip_count(body.loop)
    if trips is not None and trips < last_stage:
        return []
    return _recognise(body, around) if _may_have_slots(body) else []


def _may_have_slots(body: Body) -> bool:
    """Whether some buffer of the loop has a leading dimension that may be one of slots."""
    written = {
        access.memory
        for statement in body.statements
        for op in walk(statement.op)
        if _may_write(op)
        for access in accesses(op)
        if access.writes
    }
    return any(_shape_has_slots(root) for root in map(root_of, written) if _is_ours(root))


def _may_write(op: Operation) -> bool:
    row = row_of(op)
    return row is not None and any(rule.kind != "read" for rule in row.accesses)


def _is_ours(root: Root) -> bool:
    return root.is_buffer and root.kind in ("allocation", "attribution") and root.space != "global"


def _recognise(body: Body, around: Surroundings) -> list[HandMadeSlots]:
    loop = body.loop
    arithmetic = Arithmetic(around.launch_size(loop))
    index = LoopIndex(loop, arithmetic)
    tops = list(dict.fromkeys(statement.op for statement in body.statements))
    regions = regions_of(tops, arithmetic, around.lanes(loop))
    if any(region.opaque for region in regions):
        return []
    by_root: dict[Any, list[Region]] = {}
    for region in regions:
        if region.root is not None and _is_ours(region.root):
            by_root.setdefault(region.root.identity, []).append(region)
    found = []
    for own in by_root.values():
        root = own[0].root
        assert root is not None
        if (
            _shape_has_slots(root)
            and _turn_together(own, index)
            and not any(side for side in around.touches_outside(loop, root.identity))
            and can_lose_slot(root.value, loop)
            and _overwrites(own, root, arithmetic)
        ):
            found.append(HandMadeSlots(loop, root, ir.MemRefType(root.value.type).shape[0]))
    return found


def _shape_has_slots(root: Root) -> bool:
    kind = ir.MemRefType(root.value.type)
    return bool(kind.has_static_shape and kind.rank >= 2 and 2 <= kind.shape[0] <= MOST_SLOTS)


def _turn_together(own: list[Region], index: LoopIndex) -> bool:
    """Whether all have one leading subscript, which moves with the iteration only."""
    if not any(region.writes for region in own):
        return False
    first: Linear | None = None
    for region in own:
        if region.subscripts is None or region.extent is None or region.extent[0] != 1:
            return False
        if region.root is None or region.base != region.root.value:
            return False
        leading = region.subscripts[0]
        if first is not None and leading != first:
            return False
        first = leading
    assert first is not None
    uniformity = Uniformity()
    turns = any(moves(symbol, index) for symbol in first.symbols)
    return turns and all(uniformity.difference(symbol) is None for symbol in first.symbols)


def _overwrites(own: list[Region], root: Root, arithmetic: Arithmetic) -> bool:
    """Whether an iteration writes what it reads; inside of its slot, wherever that is."""
    inside = []
    for region in own:
        assert region.subscripts is not None
        inside.append(replace(region, subscripts=(ZERO, *region.subscripts[1:])))
    missing = unproven_read(root, inside, arithmetic.block_size, written_elsewhere=False)
    return missing is None


def reduce_to_one(found: HandMadeSlots, session: Session) -> None:
    """Take the slots away. Handles to accesses of the buffer are dead afterwards."""
    loop = found.loop
    session.diagnostics.remark(
        f"the loop counts {found.slots} slots of a buffer itself; they go, the pipeline makes as "
        "many as it needs",
        code="hand-made-slots",
        at=loop,
        notes=(("the buffer", found.root.value),),
    )
    lose_slot(found.root.value, loop)
    *body, end = operations(loop.regions[0].blocks[0])
    barriers = [op for op in body if is_barrier(op)]
    if barriers and barriers[-1] != body[-1]:
        write_fence([found.root.space], before(end), loop.location)
