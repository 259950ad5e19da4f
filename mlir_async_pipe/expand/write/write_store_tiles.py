"""Writes loops whose tensor stores stay in flight.

    for %i {                                 %s = for %i iter_args(%slot = 0) {
      write %o; …; store %o; commit            write %o[%slot]; …; store %o[%slot]; commit
      wait 0 {read}                    -->     wait q {read}
    }                                          yield (%slot + 1 mod q + 1)
                                             }
                                             wait 0 {read}

The slot goes on through the loops around, since stores of their last execution may still be in
flight; the wait that is left stands after the outermost of them.
"""

from __future__ import annotations

from itertools import dropwhile, takewhile

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    again,
    ancestors,
    before,
    operations,
    set_integer,
    source_op,
    terminator,
)
from mlir_async_pipe.expand.plan.store_tiles import StorePlan, carries_slots, waits_of_stores
from mlir_async_pipe.expand.write.carried_ring import Way, carry
from mlir_async_pipe.expand.write.integers import Integers
from mlir_async_pipe.expand.write.ring_slots import show_slot
from mlir_async_pipe.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.loops.annotations import DRAIN, STORES_IN_FLIGHT
from mlir_async_pipe.vocabulary import ROWS


def mark_stores(tops: list[Operation]) -> None:
    """Ask for stores in flight in the loops at or below `tops` that wait for some."""
    for top in dict.fromkeys(tops):
        for wait in list(waits_of_stores(top)):
            loop = next((op for op in ancestors(wait) if op.name == "scf.for"), None)
            if loop is not None and STORES_IN_FLIGHT not in loop.attributes:
                loop.attributes[STORES_IN_FLIGHT] = ir.UnitAttr.get(loop.context)


def write_stores(plan: StorePlan, buffers: list[VersionedBuffer]) -> None:
    """Write one planned loop."""
    chain = _chain(plan.wait)
    integers = Integers(chain[-1], 0, 0, None, before(chain[0]))
    first = integers.slot(0)

    def write(slot: Value) -> list[Value]:
        return [_write_loop(plan, buffers, slot)]

    (last,) = carry([Way(tuple(chain), write)], [first])
    top = source_op(last)
    _count(plan.wait.clone(ip=after(top)).operation, 0).attributes[DRAIN] = ir.UnitAttr.get(
        top.context
    )


def _chain(wait: Operation) -> list[Operation]:
    """The loop of a wait and what is around it, outermost loop first."""
    found = takewhile(carries_slots, ancestors(wait))
    inwards = dropwhile(lambda op: op.name != "scf.for", reversed(list(found)))
    outwards = dropwhile(lambda op: op.name != "scf.for", reversed(list(inwards)))
    return list(reversed(list(outwards)))


def _write_loop(plan: StorePlan, buffers: list[VersionedBuffer], slot: Value) -> Value:
    """The loop with a slot more; returns the slot after it."""
    loop = next(op for op in ancestors(plan.wait) if op.name == "scf.for")
    kinds = [*(result.type for result in loop.results), slot.type]
    made = again(loop, [*loop.operands, slot], kinds)
    block = made.regions[0].blocks[0]
    mine = block.add_argument(slot.type, made.location)
    show_slot(buffers, mine, operations(block))
    _count(plan.wait, plan.in_flight)
    end = terminator(block)
    integers = Integers(made, 0, 0, None, before(end))
    again(end, [*end.operands, integers.next_slot(mine, plan.in_flight + 1)])
    return made.results[len(kinds) - 1]


def _count(wait: Operation, left: int) -> Operation:
    rule = ROWS[wait.name].wait
    assert rule is not None
    set_integer(wait, rule.count, left, rule.count_bits)
    return wait
