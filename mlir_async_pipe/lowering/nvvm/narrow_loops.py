"""Counts loops of constant bounds in 32 bits.

    scf.for %i = 0 to 4096 step 32 {      -->   scf.for %n = 0 to 4096 step 32 : i32 {
                                                  %i = arith.index_castui %n : i32 to index

A counter of 64 bits takes two registers, two additions and two comparisons. Its last number is below
the upper bound plus a step: that must fit, too. Bounds that are no constants may be anything.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    before,
    constant,
    constant_value,
    create,
    walk,
)

_BOUNDS = 3


def narrow_loops(gpu_module: Operation) -> None:
    """Narrow the counters of all loops that are known to stay small."""
    for op in list(walk(gpu_module)):
        if op.name == "scf.for":
            bounds = [constant_value(value) for value in list(op.operands)[:_BOUNDS]]
            counter = op.regions[0].blocks[0].arguments[0]
            if str(counter.type) == "index" and _are_small(bounds):
                _narrow(op, counter, bounds)


def _are_small(bounds: list[int | None]) -> bool:
    low, high, step = bounds
    if low is None or high is None or step is None:
        return False
    return low >= 0 and high >= 0 and step > 0 and max(low, high) + step < 1 << 31


def _narrow(loop: Operation, counter: Any, bounds: list[int | None]) -> None:
    kind, wide = ir.IntegerType.get_signless(32, loop.context), counter.type
    for place, bound in enumerate(bounds):
        assert bound is not None
        loop.operands[place] = constant(bound, kind, before(loop), loop.location)
    uses = [(use.owner.operation, use.operand_number) for use in counter.uses]
    counter.set_type(kind)
    begin = ir.InsertionPoint.at_block_begin(loop.regions[0].blocks[0])
    extended = create("arith.index_castui", (counter,), (wide,), {}, ip=begin, loc=loop.location)
    for user, place in uses:
        user.operands[place] = extended.results[0]
