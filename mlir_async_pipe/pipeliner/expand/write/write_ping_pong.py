"""Writes what two groups of threads run that take tiles alternately (ping-pong).

                                     scf.for %tile … iter_args(slot, phase, mine, count) {
    scf.for %tile {                    scf.if %mine {
      front                              front
      loop                     -->       order[group]; loop; arrive at order[other]
      store                              drain; store
    }                                  } else { slot and phase after the tile of the others }
                                     }
                                     if %mine: order[group]

`order[g]` is a named barrier at which group g waits and the other one arrives, so a loop begins
when the one before has waited for all of its tiles (docs/phases.md). The second group arrives once
before all tiles; who would be next after all tiles takes the last arrival. The number of a tile is written
as 2 x + group: from that everybody can see that the groups have tiles of their own.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    before,
    captured,
    clone,
    create,
    is_used,
    operations,
    parent,
    remap,
    source_op,
    terminator,
)
from mlir_async_pipe.bindings.structured_ops import end_of, write_if, yield_values
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.pipeliner.expand.write.idle_values import drop_idle_values
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.expand.write.ring_slots import show_slot
from mlir_async_pipe.pipeliner.expand.write.role_threads import name_barriers
from mlir_async_pipe.pipeliner.expand.write.write_ring import RingLoop, drop_unused
from mlir_async_pipe.pipeliner.plan.ping_pong_plan import GROUPS
from mlir_async_pipe.pipeliner.plan.ring_plan import RolePlan
from mlir_async_pipe.vocabulary.barriers import write_named_barrier


class PingPongWriter:
    """Puts both groups into the loop around, and between them slot and phase through it. `build` writes where
    these threads begin."""

    def __init__(
        self, loop: RingLoop, roles: RolePlan, thread: Value, build: IntegerWriter
    ) -> None:
        assert roles.ping_pong is not None
        self.loop, self.ping_pong, self.block = loop, roles.ping_pong, roles.block
        self.loc, block = loop.plan.loop.location, roles.block
        i32 = ir.IntegerType.get_signless(32, self.loc.context)
        own_number = build.remainder(thread, block.threads)
        self.own_group = build.divide(thread, block.threads)
        # Handed around in the warp: so ptxas knows that all lanes have the same.
        narrow = build.cast("arith.index_cast", self.own_group, i32)
        self.group = _of_first_lane(narrow, build.ip, self.loc)
        self.first, second = (build.compare("eq", self.group, number) for number in range(GROUPS))
        self.order = build.add(self.group, block.order)
        self.other = build.subtract(build.constant(block.order + 1, i32), self.group)
        self.meeting = build.constant(block.computing, i32)
        # Threads of the second group get the numbers that the input's threads have.
        numbers = {i: _as_type(own_number, i.type, build) for i in self.ping_pong.ids}
        again = [clone(op, numbers, build.ip) for op in self.ping_pong.of_ids]
        for op in roles.moved:
            remap(op, numbers)
        for op in reversed(again):
            # Who copies is another one by now.
            if not any(map(is_used, op.results)):
                op.erase()
        begins = write_if(second, (), None, build.ip, self.loc)
        self._arrive(build.constant(block.order, i32), before(end_of(begins.regions[0])))

    def start(self, build: IntegerWriter) -> list[Value]:
        """Whether the first tile is the group's own, and how many were before it."""
        kind = self.ping_pong.around.regions[0].blocks[0].arguments[0].type
        return [self.first, build.constant(0, kind)]

    def end(self, mine: Value) -> None:
        """The group that would be next takes the last arrival."""
        around = source_op(mine)
        ends = write_if(mine, (), None, after(around), self.loc)
        self._meet(before(end_of(ends.regions[0])))
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
        name_barriers(self.block, self.group)
        own = operations(branch.regions[0].blocks[0])
        self._number_tile(around, count, own)
        beside = {buffer.root.identity for buffer in ping_pong.tiles}
        tiles = [buffer for buffer in self.loop.buffers if buffer.plan.root.identity in beside]
        show_slot(tiles, self.own_group, own)
        yield_values(theirs, self._after_others(slot, phase, before(theirs)))
        yield_values(ours, self.loop.write_uses(slot, phase))
        self._meet(before(self.loop.loop))
        self._arrive(self.other, after(self.loop.loop))
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

    # -- order ---------------------------------------------------------------------------------

    def _meet(self, ip: Any) -> None:
        """Wait until the other group has issued its products."""
        write_named_barrier(self.order, self.meeting, ip, self.loc)

    def _arrive(self, number: Value, ip: Any) -> None:
        loc = self.loc
        create("nvvm.barrier.arrive", [number, self.meeting], ip=ip, loc=loc)


def _as_type(number: Value, kind: Any, build: IntegerWriter) -> Value:
    if number.type == kind:
        return number
    return build.cast("arith.index_cast", number, kind)


def _of_first_lane(number: Value, ip: Any, loc: Any) -> Value:
    context = number.type.context
    i32, i1 = (ir.IntegerType.get_signless(bits, context) for bits in (32, 1))
    build = IntegerWriter(ip, loc)
    operands = [number, build.constant(0, i32), build.constant(32, i32)]
    mode = {"mode": ir.Attribute.parse("#gpu<shuffle_mode idx>", context)}
    return create("gpu.shuffle", operands, [i32, i1], mode, ip=ip, loc=loc).results[0]
