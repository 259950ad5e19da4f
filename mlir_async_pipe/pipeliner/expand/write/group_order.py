"""Two groups of threads that take turns, by two named barriers.

    if second group: arrive at order[0]         the first turn is the first group's
    …
    order[group]                                wait until the other one has had its turn
    …                                           the turn
    arrive at order[other]
    …
    who would be next: order[group]             takes the last arrival

`order[g]` is a named barrier at which group g waits and the other one arrives (docs/phases.md).
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, after, before, create
from mlir_async_pipe.bindings.structured_ops import end_of, write_if
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.pipeliner.plan.role_block import RoleBlock
from mlir_async_pipe.vocabulary.barriers import write_named_barrier


class GroupOrder:
    """The turns of two groups. `group` is the number of a thread's own one, an index; `build` writes where both
    begin, and the second group lets the first one go ahead there."""

    def __init__(self, group: Value, block: RoleBlock, build: IntegerWriter, loc: Any) -> None:
        self.loc = loc
        i32 = ir.IntegerType.get_signless(32, loc.context)
        # Handed around in the warp: so ptxas knows that all lanes have the same.
        self.group = _of_first_lane(build.cast("arith.index_cast", group, i32), build.ip, loc)
        self.is_first, second = (build.compare("eq", self.group, number) for number in (0, 1))
        self.own = build.add(self.group, block.order)
        self.other = build.subtract(build.constant(block.order + 1, i32), self.group)
        self.meeting = build.constant(block.computing, i32)
        begins = write_if(second, (), None, build.ip, loc)
        self._arrive(build.constant(block.order, i32), before(end_of(begins.regions[0])))

    def begin_turn(self, ip: Any) -> None:
        """Wait until the other group has had its turn."""
        write_named_barrier(self.own, self.meeting, ip, self.loc)

    def end_turn(self, ip: Any) -> None:
        """Let the other group have its turn."""
        self._arrive(self.other, ip)

    def end(self, is_next: Value, last: Operation) -> None:
        """After the op that has the last turn, the group that would be next takes the last arrival."""
        ends = write_if(is_next, (), None, after(last), self.loc)
        self.begin_turn(before(end_of(ends.regions[0])))

    def _arrive(self, number: Value, ip: Any) -> None:
        create("nvvm.barrier.arrive", [number, self.meeting], ip=ip, loc=self.loc)


def _of_first_lane(number: Value, ip: Any, loc: Any) -> Value:
    context = number.type.context
    i32, i1 = (ir.IntegerType.get_signless(bits, context) for bits in (32, 1))
    build = IntegerWriter(ip, loc)
    operands = [number, build.constant(0, i32), build.constant(32, i32)]
    mode = {"mode": ir.Attribute.parse("#gpu<shuffle_mode idx>", context)}
    return create("gpu.shuffle", operands, [i32, i1], mode, ip=ip, loc=loc).results[0]
