"""Writes loops whose tensor stores stay in flight.

    for %i {                                 %s = for %i iter_args(%slot = 0) {
      write %o; …; store %o; commit            write %o[%slot]; …; store %o[%slot]; commit
      wait 0 {read}                    -->     wait q {read}
    }                                          yield (%slot + 1 mod q + 1)
                                             }
                                             wait 0 {read}

Where writes and stores stand in a branch, the slot goes on there. It is carried through the loops around,
since stores of their last execution may still be in flight; the wait that is left stands after the
outermost of them.
"""

from __future__ import annotations

from functools import partial
from itertools import dropwhile, takewhile

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    again,
    ancestors,
    before,
    create,
    operations,
    parent,
    set_integer,
    source_op,
    terminator,
)
from mlir_async_pipe.facts.loops.annotations import DRAIN, STORES_IN_FLIGHT
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.expand.write.carried_ring import RingPath, carry
from mlir_async_pipe.pipeliner.expand.write.ring_slots import show_slot
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import Rooms, VersionedBuffer
from mlir_async_pipe.pipeliner.plan.store_tiles import StorePlan, carries_slots, waits_of_stores
from mlir_async_pipe.vocabulary import ROWS


def mark_stores(tops: list[Operation]) -> None:
    """Ask for stores in flight in the loops at or below `tops` that wait for some."""
    for top in dict.fromkeys(tops):
        for wait in list(waits_of_stores(top)):
            loop = next((op for op in ancestors(wait) if op.name == "scf.for"), None)
            if loop is not None and STORES_IN_FLIGHT not in loop.attributes:
                loop.attributes[STORES_IN_FLIGHT] = ir.UnitAttr.get(loop.context)


def write_stores(plans: list[StorePlan], rooms: Rooms) -> None:
    """Write the planned loops, in the order of the text. An op around several of them is written again
    once, with the slots of all."""
    paths, slots = [], list[Value]()
    for plan in plans:
        chain = _chain(plan)
        write = partial(_write_holder, plan, rooms.of(plan.wait, plan.buffers))
        paths.append(RingPath(tuple(chain), write, (len(slots),)))
        slots.append(IntegerWriter(before(chain[0]), chain[0].location).constant(0))
    for plan, last in zip(plans, carry(paths, slots), strict=True):
        top = source_op(last)
        left = _count(plan.wait.clone(ip=after(top)).operation, 0)
        left.attributes[DRAIN] = ir.UnitAttr.get(top.context)


def _chain(plan: StorePlan) -> list[Operation]:
    """The holder of writes and stores, and what is around it: the outermost loop first."""
    found = takewhile(carries_slots, list(ancestors(plan.wait))[plan.depth :])
    return list(dropwhile(lambda op: op.name != "scf.for", reversed(list(found))))


def _write_holder(plan: StorePlan, buffers: list[VersionedBuffer], slot: Value) -> list[Value]:
    """The loop, or the branch in it, with a slot more; returns the slot after it."""
    holder = list(ancestors(plan.wait))[plan.depth]
    number = len(holder.results)
    kinds = [*(result.type for result in holder.results), slot.type]
    if holder.name == "scf.for":
        made = again(holder, [*holder.operands, slot], kinds)
        slot = made.regions[0].blocks[0].add_argument(slot.type, made.location)
    else:
        made = again(holder, list(holder.operands), kinds)
    _count(plan.wait, plan.in_flight)
    inside = next(op for op in (plan.wait, *ancestors(plan.wait)) if parent(op) == made).block
    for region in made.regions:
        blocks = list(region.blocks)
        if not blocks:
            ip = ir.InsertionPoint(region.blocks.append())
            create("scf.yield", [slot], ip=ip, loc=made.location)
            continue
        end, following = terminator(blocks[0]), slot
        if blocks[0] == inside:
            show_slot(buffers, slot, operations(blocks[0]))
            following = Ring(plan.in_flight + 1).next(
                slot, IntegerWriter(before(end), made.location)
            )
        again(end, [*end.operands, following])
    return [made.results[number]]


def _count(wait: Operation, left: int) -> Operation:
    rule = ROWS[wait.name].wait
    assert rule is not None
    set_integer(wait, rule.count, left, rule.count_bits)
    return wait
