"""Writes what two groups of threads run that take tiles alternately (ping-pong).

                                     scf.for %tile … iter_args(slot, phase, mine, count) {
    scf.for %tile {                    scf.if %mine {
      front                              front
      loop                     -->       order[group]; loop; arrive at order[other]
      store                              drain; store
    }                                  } else { slot and phase after the tile of the others }
                                     }
                                     if %mine: order[group]

By `order` (`group_order`) a loop begins when the one before has waited for all of its tiles (docs/phases.md). The number
of a tile is written as 2 x + group: from that everybody can see that the groups have tiles of their own.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    before,
    captured,
    clone,
    is_used,
    operations,
    parent,
    remap,
    source_op,
    terminator,
)
from mlir_async_pipe.bindings.structured_ops import end_of, write_if, yield_values
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.pipeliner.expand.write.group_order import GroupOrder
from mlir_async_pipe.pipeliner.expand.write.idle_values import drop_idle_values
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.expand.write.ring_slots import show_slot
from mlir_async_pipe.pipeliner.expand.write.role_threads import name_barriers
from mlir_async_pipe.pipeliner.expand.write.write_ring import RingLoop, drop_unused
from mlir_async_pipe.pipeliner.plan.ping_pong_plan import GROUPS
from mlir_async_pipe.pipeliner.plan.ring_plan import RolePlan


class PingPongWriter:
    """Puts both groups into the loop around, and between them slot and phase through it. `build` writes where
    these threads begin."""

    def __init__(
        self, loop: RingLoop, roles: RolePlan, thread: Value, build: IntegerWriter
    ) -> None:
        assert roles.ping_pong is not None
        self.loop, self.ping_pong, self.block = loop, roles.ping_pong, roles.block
        self.loc, block = loop.plan.loop.location, roles.block
        own_number = build.remainder(thread, block.threads)
        self.own_group = build.divide(thread, block.threads)
        self.order = GroupOrder(self.own_group, block, build, self.loc)
        # Threads of the second group get the numbers that the input's threads have.
        numbers = {i: _as_type(own_number, i.type, build) for i in self.ping_pong.ids}
        again = [clone(op, numbers, build.ip) for op in self.ping_pong.of_ids]
        for op in roles.moved:
            remap(op, numbers)
        for op in reversed(again):
            # Who copies is another one by now.
            if not any(map(is_used, op.results)):
                op.erase()

    def start(self, build: IntegerWriter) -> list[Value]:
        """Whether the first tile is the group's own, and how many were before it."""
        kind = self.ping_pong.around.regions[0].blocks[0].arguments[0].type
        return [self.order.is_first, build.constant(0, kind)]

    def end(self, mine: Value) -> None:
        """The group that would be next takes the last arrival."""
        around = source_op(mine)
        self.order.end(mine, around)
        drop_idle_values(around)

    # -- one tile ------------------------------------------------------------------------------

    def write_tile(self, slot: Value, phase: Value, mine: Value, count: Value) -> list[Value]:
        """What a group runs if the tile is its own, and else."""
        ping_pong, loc = self.ping_pong, self.loc
        around = parent(self.loop.loop)
        assert around is not None
        block = around.regions[0].blocks[0]
        end = terminator(block)
        for number in ping_pong.idle:
            end.operands[number] = block.arguments[number + 1]
        drop_unused(around)
        ops = [op for op in operations(block)[:-1] if op not in ping_pong.shared]
        branch = write_if(mine, (slot, phase), (slot, phase), before(end), loc)
        ours, theirs = (end_of(region) for region in branch.regions)
        for op in ops:
            op.move_before(ours)
        name_barriers(self.block, self.order.group)
        own = operations(branch.regions[0].blocks[0])
        self._number_tile(around, count, own)
        beside = {buffer.root.identity for buffer in ping_pong.tiles}
        tiles = [buffer for buffer in self.loop.buffers if buffer.plan.root.identity in beside]
        show_slot(tiles, self.own_group, own)
        yield_values(theirs, self._after_others(slot, phase, before(theirs)))
        yield_values(ours, self.loop.write_uses(slot, phase))
        self.order.begin_turn(before(self.loop.loop))
        self.order.end_turn(after(self.loop.loop))
        build = IntegerWriter(before(end), loc)
        i1 = mine.type
        flipped = build.binary("arith.xori", mine, build.constant(1, i1))
        return [*branch.results, flipped, build.add(count, 1)]

    def _number_tile(self, around: Operation, count: Value, ops: list[Operation]) -> None:
        """lower + (2 (count div 2) + group) step, which is the number of a tile of the group."""
        variable = around.regions[0].blocks[0].arguments[0]
        if not any(variable in captured(op) for op in ops):
            return
        build = IntegerWriter(before(ops[0]), self.loc)
        lower, _, step = list(around.operands)[:3]
        group = _as_type(self.own_group, count.type, build)
        pairs = build.multiply(build.divide(count, GROUPS), GROUPS)
        tile = build.add(lower, build.multiply(build.add(pairs, group), step))
        for op in ops:
            remap(op, {variable: tile})

    def _after_others(self, slot: Value, phase: Value, ip: Any) -> list[Value]:
        plan = self.loop.plan
        integers = Integers(self.loop.loop, plan.ahead, 0, plan.trip_count, ip)
        count = plan.trip_count
        trips = integers.as_index(integers.trips()) if count is None else integers.constant(count)
        return self.loop.ring.after(slot, phase, trips, integers)


def _as_type(number: Value, kind: Any, build: IntegerWriter) -> Value:
    if number.type == kind:
        return number
    return build.cast("arith.index_cast", number, kind)
