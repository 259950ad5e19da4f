"""Lets tensor stores read their tiles while the next iterations write theirs.

    scf.for %i {                              %o gets q + 1 slots, carried by the loop
      write %o; fence; barrier
      tma.async.store %o; commit       -->    the same on a slot
      wait_group 0 {read}; barrier            wait_group q {read}; barrier
    } {async_pipe.stores_in_flight = q}       and `wait_group 0 {read}` after the outermost loop

`async_pipe.stores_in_flight` is a number, or a unit, which asks for 1: where that cannot be done, the
loop stays as it is, and a remark says why. The expander writes the unit for loops of tensor copies
and those around them. Where workgroup memory has no room for as many slots, fewer stay in flight.

Where writes and stores stand in a branch, the slot goes on there. It is carried through the loops around,
since stores of their last execution may still be in flight; the wait that is left stands after the
outermost of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import dropwhile, takewhile
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    after,
    ancestors,
    as_kind,
    before,
    enclosing,
    operations,
    set_integer,
    source_op,
    terminator,
    unchanged,
    walk_named,
)
from mlir_async_pipe.chips.target import target_for
from mlir_async_pipe.facts.loops.annotations import (
    DRAIN,
    KNOWN_NAMES,
    STORES_IN_FLIGHT,
    check_names,
    remove,
)
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.expand.write.carried_ring import RingPath, carry
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import (
    Rooms,
    VersionedBuffer,
    show_slot,
)
from mlir_async_pipe.pipeliner.normalise.own_buffers import sink_addresses_of
from mlir_async_pipe.pipeliner.plan.make_plan import Limits
from mlir_async_pipe.pipeliner.plan.tensor_tiles import (
    StorePlan,
    carries_slots,
    plan_stores,
    stored_tiles,
    waits_of_stores,
)
from mlir_async_pipe.session.diagnostics import InputError, PipelineError, Place
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import ROWS


@dataclass(frozen=True)
class StoresOptions:
    """Options of `async-pipe-stores`: `chip` bounds workgroup memory by what the chip has,
    `smem_limit` (bytes, 0: none) by what the user wants to spend."""

    chip: str = ""
    smem_limit: int = 0


@dataclass(frozen=True)
class StoresRecord:
    """A loop whose tensor stores stay in flight: so many, on as many slots of their tiles."""

    place: Place
    in_flight: int
    slots: int
    bytes: int


@register(
    "async-pipe-stores", "leave tensor stores in flight, on slots of their tiles", StoresOptions
)
def run(module: Any, options: StoresOptions, session: Session) -> None:
    loops = [
        loop for loop in walk_named(module, "scf.for".__eq__) if STORES_IN_FLIGHT in loop.attributes
    ]
    if not loops:
        return
    limit = Limits.of(options.smem_limit, target_for(options, session)).workgroup_bytes
    for loop in loops:
        sink_addresses_of(list(stored_tiles(loop)), loop)
    plans, around = [], Surroundings()
    added: Counter[Operation | None] = Counter()
    with unchanged():
        for loop in loops:
            function = enclosing(loop, FUNCTION_OPS)
            free = None if limit is None else limit - added[function]
            plan = _planned(loop, free, around, session)
            if plan is not None:
                plans.append(plan)
                added[function] += sum(b.slot_bytes * plan.in_flight for b in plan.buffers)
    for loop in loops:
        remove(loop, (STORES_IN_FLIGHT,))
    rooms = Rooms([(plan.wait, plan.buffers) for plan in plans])
    write_stores(plans, rooms)
    rooms.close(module)


def _planned(
    loop: Operation, limit: int | None, around: Surroundings, session: Session
) -> StorePlan | None:
    check_names(loop, KNOWN_NAMES)
    asked, by_number = _asked(loop)
    if not asked:
        return None
    try:
        plan = plan_stores(loop, asked, limit, around)
    except PipelineError as error:
        if by_number:
            error.loop = loop
            raise
        found = error.diagnostic
        notes = tuple((note.message, note.place) for note in found.notes)
        session.diagnostics.remark(found.message, code=found.code, at=found.place, notes=notes)
        return None
    if plan.in_flight < asked:
        session.diagnostics.remark(
            f"{plan.in_flight} tensor stores stay in flight instead of {asked}, to fit the workgroup memory",
            code="fewer-slots",
            at=loop,
        )
    if not plan.in_flight:
        return None
    size = sum(buffer.versions * buffer.slot_bytes for buffer in plan.buffers)
    session.record("stores", StoresRecord(Place.of(loop), plan.in_flight, plan.in_flight + 1, size))
    return plan


def _asked(loop: Operation) -> tuple[int, bool]:
    """The stores that are to stay in flight, and whether a number says so."""
    given = loop.attributes[STORES_IN_FLIGHT]
    if as_kind(ir.UnitAttr, given) is not None:
        return 1, False
    number = as_kind(ir.IntegerAttr, given)
    if number is None or int(number.value) < 0:
        why = f"'{STORES_IN_FLIGHT}' is {given}, expected 0 or more, or a unit attribute"
        raise InputError(why, code="bad-annotation", at=loop)
    return int(number.value), True


# The written loops ---------------------------------------------------------------------------


def mark_stores(tops: list[Operation]) -> None:
    """Ask for stores in flight in the loops at or below `tops` that wait for some."""
    for top in dict.fromkeys(tops):
        for wait in list(waits_of_stores(top)):
            loop = enclosing(wait, ["scf.for"])
            if loop is not None and STORES_IN_FLIGHT not in loop.attributes:
                loop.attributes[STORES_IN_FLIGHT] = ir.UnitAttr.get(loop.context)


def write_stores(plans: list[StorePlan], rooms: Rooms) -> None:
    """Write the planned loops, in the order of the text. An op around several of them is written again
    once, with the slots of all."""
    paths, slots = [], list[Value]()
    for plan in plans:
        path = _path(plan)
        write = partial(_write_slot, plan, rooms.of(plan.wait, plan.buffers))
        paths.append(RingPath(path, write, (len(slots),)))
        slots.append(IntegerWriter(before(path[0]), path[0].location).constant(0))
    for plan, last in zip(plans, carry(paths, slots), strict=True):
        top = source_op(last)
        left = _count(plan.wait.clone(ip=after(top)).operation, 0)
        left.attributes[DRAIN] = ir.UnitAttr.get(top.context)


def _path(plan: StorePlan) -> tuple[Operation, ...]:
    """The outermost loop first, down to the holder of writes and stores, and the op in it that waits."""
    wait, *around = [plan.wait, *ancestors(plan.wait)][plan.depth :]
    carrying = reversed(list(takewhile(carries_slots, around)))
    return (*dropwhile(lambda op: op.name != "scf.for", carrying), wait)


def _write_slot(plan: StorePlan, buffers: list[VersionedBuffer], slot: Value) -> list[Value]:
    """Let an iteration use a slot; returns the next one."""
    _count(plan.wait, plan.in_flight)
    block = _path(plan)[-1].block
    show_slot(buffers, slot, operations(block))
    write = IntegerWriter(before(terminator(block)), plan.wait.location)
    return [Ring(plan.in_flight + 1).next(slot, write)]


def _count(wait: Operation, left: int) -> Operation:
    rule = ROWS[wait.name].wait
    assert rule is not None
    set_integer(wait, rule.count, left, rule.count_bits)
    return wait
